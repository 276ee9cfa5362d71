"""What we rely on of a real kube-apiserver: versions, applies, watches, accounts, and being away for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.config import incluster_config

from libs import kube
from libs.kube import api as verbs
from tests.peers.fixtures import KubeConfig
from tests.peers.kube_api import KubeApi

NAMESPACE = "nodetrail"
WRITER = "nodetrail-status-writer"
RECONCILER = "nodetrail-machine-reconciler"
QUICK = kube.Timing(watch=2.0, idle=5.0, short=0.5, pause_first=0.05, pause_limit=0.5)


@asynccontextmanager
async def connected(kube_config: KubeConfig, account: str = "admin") -> AsyncIterator[kube.Api]:
    async with kube.connect(str(kube_config(account)), agent="test") as api:
        yield api


async def make(api: kube.Api, name: str = "box-1", **spec: Any) -> None:
    await api.create(kube.MACHINES, {"metadata": {"name": name}, "spec": {"endpoint": "10.0.0.1", **spec}}, NAMESPACE)


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


class TestWrites:
    async def test_a_stale_version_is_a_conflict_and_writes_nothing(
        self, clean_kube: KubeApi, kube_config: KubeConfig
    ) -> None:
        async with connected(kube_config) as admin, connected(kube_config, "status-writer") as writer:
            await make(admin)
            read = await writer.get(kube.MACHINES, "box-1", NAMESPACE)
            await admin.merge_patch(kube.MACHINES, "box-1", {"spec": {"approved": True}}, NAMESPACE, manager="kubectl")
            body = {"status": {"observedEndpoint": "10.0.0.2"}}

            async def write(version: str) -> None:
                await writer.apply(
                    kube.MACHINES,
                    "box-1",
                    body,
                    NAMESPACE,
                    manager=WRITER,
                    subresource="status",
                    resource_version=version,
                )

            with pytest.raises(
                kube.Conflict, match=r"patch talosmachines/status nodetrail/box-1: Conflict: .*modified"
            ):
                await write(read.metadata.resource_version)
            fresh = await writer.get(kube.MACHINES, "box-1", NAMESPACE)
            assert fresh.status.observed_endpoint == ""
            await write(fresh.metadata.resource_version)

    async def test_an_apply_to_a_machine_that_is_gone_does_not_make_one(
        self, clean_kube: KubeApi, kube_config: KubeConfig
    ) -> None:
        async with connected(kube_config, "status-writer") as writer:
            with pytest.raises(kube.NotFound):
                await writer.apply(
                    kube.MACHINES, "box-1", {"status": {}}, NAMESPACE, manager=WRITER, subresource="status"
                )

    async def test_two_managers_keep_their_own_fields(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with (
            connected(kube_config) as admin,
            connected(kube_config, "status-writer") as writer,
            connected(kube_config, "machine-reconciler") as reconciler,
        ):
            await make(admin)

            async def report(api: kube.Api, manager: str, status: dict[str, Any]) -> None:
                await api.apply(
                    kube.MACHINES, "box-1", {"status": status}, NAMESPACE, manager=manager, subresource="status"
                )

            await report(writer, WRITER, {"observedEndpoint": "10.0.0.2", "observedEndpointFor": "10.0.0.1"})
            ready = {"type": "Ready", "status": "True", "reason": "Converged", "message": ""}
            await report(reconciler, RECONCILER, {"nodeName": "node-1", "conditions": [ready]})
            await report(reconciler, RECONCILER, {"conditions": [ready]})
            machine = await admin.get(kube.MACHINES, "box-1", NAMESPACE)
            assert machine.status.observed_endpoint == "10.0.0.2"
            assert machine.status.node_name == ""  # no longer applied, so taken away
            assert [c.reason for c in machine.status.conditions] == ["Converged"]
            owners = {entry.manager: entry for entry in machine.metadata.managed_fields}
            assert owners[WRITER].subresource == owners[RECONCILER].subresource == "status"
            assert owners[WRITER].fields["f:status"].keys() == {"f:observedEndpoint", "f:observedEndpointFor"}
            assert owners[WRITER].time is not None

    async def test_an_apply_that_changes_nothing_is_no_change(
        self, clean_kube: KubeApi, kube_config: KubeConfig
    ) -> None:
        async with connected(kube_config) as admin, connected(kube_config, "status-writer") as writer:
            await make(admin)
            versions = set()
            for _ in range(2):
                applied = await writer.apply(
                    kube.MACHINES,
                    "box-1",
                    {"status": {"observedEndpoint": "10.0.0.2"}},
                    NAMESPACE,
                    manager=WRITER,
                    subresource="status",
                )
                versions.add(applied.metadata.resource_version)
            assert len(versions) == 1

    async def test_microseconds_come_back(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin, connected(kube_config, "status-writer") as writer:
            await make(admin)
            applied = await writer.apply(
                kube.MACHINES,
                "box-1",
                {"status": {"observedAt": "2026-01-02T03:04:05.123456Z"}},
                NAMESPACE,
                manager=WRITER,
                subresource="status",
            )
            assert applied.status.observed_at is not None
            assert applied.status.observed_at.microsecond == 123456

    async def test_each_refusal_has_its_error(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin, connected(kube_config, "node-watcher") as watcher:
            await make(admin)
            with pytest.raises(kube.AlreadyExists, match="create talosmachines nodetrail/box-1: AlreadyExists"):
                await make(admin)
            with pytest.raises(kube.NotFound, match="get talosmachines nodetrail/box-2: NotFound"):
                await admin.get(kube.MACHINES, "box-2", NAMESPACE)
            with pytest.raises(kube.Invalid, match=r"spec\.endpoint must be an IP address"):
                await make(admin, "box-2", endpoint="10.0.0.256")
            with pytest.raises(kube.Forbidden, match=f"list secrets {NAMESPACE}: Forbidden"):
                await watcher.list(kube.SECRETS, NAMESPACE)
            await admin.delete(kube.MACHINES, "box-1", NAMESPACE)
            with pytest.raises(kube.NotFound):
                await admin.delete(kube.MACHINES, "box-1", NAMESPACE)

    async def test_a_node_moves(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config, "kubelet") as kubelet, connected(kube_config, "node-watcher") as watcher:
            await kubelet.create(kube.NODES, {"metadata": {"name": "node-1"}})
            addresses = [{"type": "Hostname", "address": "node-1"}, {"type": "InternalIP", "address": "10.0.0.2"}]
            info = {"systemUUID": "11111111-2222-3333-4444-555555555555"}
            body = {"status": {"addresses": addresses, "nodeInfo": info}}
            await kubelet.merge_patch(kube.NODES, "node-1", body, manager="kubelet", subresource="status")
            node = await watcher.get(kube.NODES, "node-1")
            assert node.addresses() == ("10.0.0.2",)
            assert node.status.node_info.system_uuid == info["systemUUID"]
            assert not node.is_ready


class TestStore:
    @staticmethod
    @asynccontextmanager
    async def following(api: kube.Api, timing: kube.Timing = QUICK) -> AsyncIterator[tuple[Any, list[str]]]:
        changes: list[str] = []

        def on_change(old: Any, new: Any) -> None:
            what = "+" if old is None else "-" if new is None else "~"
            changes.append(what + (new or old).metadata.name)

        store = kube.Store(api, kube.MACHINES, on_change=on_change, timing=timing)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(store.run())
            await store.synced()
            yield store, changes
            task.cancel()

    async def test_follows_through_the_ends_of_watches(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin:
            await make(admin, "box-1")
            short = kube.Timing(watch=1.0, idle=5.0, short=0.1, pause_first=0.05)
            async with self.following(admin, short) as (store, changes):
                for number in range(2, 6):
                    await make(admin, f"box-{number}")
                    await until(lambda: len(changes) == number)  # noqa: B023 - awaited before the next round
                    await asyncio.sleep(0.5)  # so that watches end in between
                await admin.merge_patch(
                    kube.MACHINES, "box-1", {"spec": {"hostname": "node-1"}}, NAMESPACE, manager="kubectl"
                )
                await admin.delete(kube.MACHINES, "box-2", NAMESPACE)
                await until(lambda: changes[-2:] == ["~box-1", "-box-2"])
                assert changes[:5] == [f"+box-{number}" for number in range(1, 6)]
                kept = store.items[NAMESPACE, "box-1"]
                assert (kept.spec.hostname, kept.metadata.managed_fields) == ("node-1", ())

    async def test_a_quiet_collection_is_not_stale(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        short = kube.Timing(watch=1.0, short=0.1)  # too short for bookmarks
        async with connected(kube_config) as admin, self.following(admin, short) as (store, _):
            await until(lambda: store.stale_seconds > 0.8)
            await until(lambda: store.stale_seconds < 0.5)

    async def test_a_version_that_is_gone_leads_to_a_list(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin:
            await make(admin)
            async with self.following(admin, kube.Timing(watch=1.0, short=0.1, pause_first=0.05)) as (store, changes):
                store._version = "1"  # as after hours without a connection
                await until(lambda: store._version == "1")
                await until(lambda: store._version not in {"", "1"})
                await make(admin, "box-2")
                await until(lambda: changes == ["+box-1", "+box-2"])

    async def test_pages_are_of_one_moment(
        self, clean_kube: KubeApi, kube_config: KubeConfig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(verbs, "PAGE_ITEMS", 2)
        async with connected(kube_config) as admin:
            for number in range(5):
                await make(admin, f"box-{number}")
            listing = await admin.list(kube.MACHINES)
            assert [item.metadata.name for item in listing.items] == [f"box-{number}" for number in range(5)]
            assert len((await admin.list(kube.MACHINES, "default")).items) == 0

    async def test_the_server_is_restarted(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin:
            await make(admin)
            async with self.following(admin) as (_, changes):
                await asyncio.to_thread(clean_kube.stop_server)
                with pytest.raises(kube.Unavailable):
                    await admin.get(kube.MACHINES, "box-1", NAMESPACE)
                await asyncio.to_thread(clean_kube.start_server)
                await make(admin, "box-2")
                await until(lambda: changes == ["+box-1", "+box-2"])


class TestEvents:
    async def events(self, api: kube.Api) -> list[kube.Event]:
        return (await api.list(kube.EVENTS, NAMESPACE)).items

    async def test_a_machines_story(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin, connected(kube_config, "machine-reconciler") as reconciler:
            await make(admin)
            machine = await admin.get(kube.MACHINES, "box-1", NAMESPACE)

            async def tell(message: str) -> None:
                await kube.tell(
                    reconciler, machine, type="Warning", reason="Unreachable", message=message, action="Probe"
                )

            await tell("no answer at 10.0.0.1")
            await tell("no answer at 10.0.0.1")
            await tell("x" * 5000)
            told = {event.message[:9]: event for event in await self.events(admin)}
            assert {text: event.count for text, event in told.items()} == {"no answer": 2, "x" * 9: 1}
            event = told["no answer"]
            assert (event.type, event.reason, event.action) == ("Warning", "Unreachable", "Probe")
            assert (event.involved_object.kind, event.involved_object.uid) == ("TalosMachine", machine.metadata.uid)
            assert len(told["x" * 9].message) == 1024

    async def test_an_event_that_was_forgotten_is_told_anew(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin:
            await make(admin)
            machine = await admin.get(kube.MACHINES, "box-1", NAMESPACE)
            for _ in range(2):
                await kube.tell(admin, machine, reason="Recorded", message="text")
                [event] = await self.events(admin)
                await admin.delete(kube.EVENTS, event.metadata.name, NAMESPACE)
            assert event.count == 2

    async def test_telling_never_fails(self, clean_kube: KubeApi, kube_config: KubeConfig) -> None:
        async with connected(kube_config) as admin, connected(kube_config, "status-writer") as writer:
            await make(admin)
            machine = await admin.get(kube.MACHINES, "box-1", NAMESPACE)
            await kube.tell(writer, machine, reason="Recorded", message="has no right to")
            assert await self.events(admin) == []


class TestPodsServiceAccount:
    async def test_is_used_and_its_token_may_rotate(
        self, clean_kube: KubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token = tmp_path / "token"
        token.write_text("outdated")
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
        authority = str(clean_kube.folder / "certs" / "apiserver.crt")
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", authority)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(clean_kube.port))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        async with kube.connect(agent="test") as api:
            token.write_text(clean_kube.accounts.token("node-watcher"))
            assert (await api.list(kube.NODES)).items == []

    async def test_a_server_that_another_authority_vouches_for_is_not_spoken_to(
        self, clean_kube: KubeApi, kube_config: KubeConfig, tmp_path: Path
    ) -> None:
        config = kube_config("admin").read_text()
        stranger = tmp_path / "kubeconfig"
        [line] = [line for line in config.splitlines() if "certificate-authority-data" in line]
        stranger.write_text(config.replace(line, ""))
        async with kube.connect(str(stranger), agent="test") as api:
            with pytest.raises(kube.Unavailable, match="certificate verify failed"):
                await api.list(kube.NODES)
