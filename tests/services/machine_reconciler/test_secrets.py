"""What Secrets lead to, what is said when they do not, and what is kept."""

from __future__ import annotations

import pytest

from libs import kube, talos
from services.demo.cluster import Cluster
from services.machine_reconciler.secrets import Secrets
from tests.services.machine_reconciler.facts_of import machine
from tests.services.machine_reconciler.fakes import FakeApi

CLUSTER = Cluster("test")
CONFIGURATION = CLUSTER.configuration("one").encode()
TALOSCONFIG = CLUSTER.talosconfig().encode()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi(machine())
    api.secrets["one"] = {"config": CONFIGURATION, "talosconfig": TALOSCONFIG}
    return api


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def secrets(api: FakeApi, clock: Clock) -> Secrets:
    return Secrets(api, clock=clock)


async def test_usable_content_is_returned_with_its_hash(secrets: Secrets) -> None:
    found = await secrets.of(machine())
    assert found.data == CONFIGURATION
    assert found.configuration is not None
    assert found.configuration.hash == talos.configuration_hash(CONFIGURATION)
    assert found.credentials is not None


async def test_what_the_spec_does_not_name_is_not_there(secrets: Secrets) -> None:
    found = await secrets.of(machine(configuration=None, talosconfig=None))
    assert (found.configuration, found.talosconfig, found.data, found.credentials) == (None, None, b"", None)


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        pytest.param({}, ["one", "config", "does not exist"], id="no Secret"),
        pytest.param({"one": {"other": b"x"}}, ["one", "config", "no such key"], id="no key"),
        pytest.param({"one": {"config": b"s3cr3t: [", "talosconfig": TALOSCONFIG}}, ["one", "config"], id="no YAML"),
        pytest.param(
            {"one": {"config": b"s3cr3t: 1", "talosconfig": TALOSCONFIG}}, ["one", "config"], id="not Talos's"
        ),
    ],
)
async def test_a_problem_names_secret_and_key_and_never_content(
    api: FakeApi, secrets: Secrets, stored: dict[str, dict[str, bytes]], words: list[str]
) -> None:
    api.secrets = stored
    found = await secrets.of(machine())
    assert found.configuration is not None
    assert all(word in found.configuration.problem for word in words)
    assert "s3cr3t" not in found.configuration.problem
    assert found.data == b""


async def test_a_malformed_talosconfig_is_a_problem_too(api: FakeApi, secrets: Secrets) -> None:
    api.secrets["one"]["talosconfig"] = b"contexts: s3cr3t"
    found = await secrets.of(machine())
    assert found.talosconfig is not None
    assert "talosconfig" in found.talosconfig.problem
    assert "s3cr3t" not in found.talosconfig.problem
    assert found.credentials is None


async def test_a_missing_right_names_the_role_binding(api: FakeApi, secrets: Secrets) -> None:
    api.error = kube.Forbidden("get secrets nodetrail/one: Forbidden")
    found = await secrets.of(machine())
    assert found.configuration is not None
    assert "RoleBinding" in found.configuration.problem
    assert "namespace nodetrail" in found.configuration.problem


async def test_a_repaired_secret_is_seen_at_once(api: FakeApi, secrets: Secrets) -> None:
    good, api.secrets = api.secrets, {}
    await secrets.of(machine())
    api.secrets = good
    found = await secrets.of(machine())
    assert found.configuration is not None
    assert found.configuration.problem == ""


async def test_what_is_at_hand_serves_while_it_is_fresh_or_the_server_is_away(
    api: FakeApi, secrets: Secrets, clock: Clock
) -> None:
    await secrets.of(machine())
    changed = CLUSTER.configuration("two").encode()
    api.secrets["one"] = {**api.secrets["one"], "config": changed}
    assert (await secrets.of(machine(), fresh_seconds=10)).data == CONFIGURATION
    clock.now = 11.0
    assert (await secrets.of(machine(), fresh_seconds=10)).data == changed
    api.error = kube.Unavailable("away")
    clock.now = 1000.0
    assert (await secrets.of(machine(), fresh_seconds=10)).data == changed
    with pytest.raises(kube.Unavailable):
        await secrets.of(machine(), fresh_seconds=0)  # nothing is sent from memory


async def test_machines_of_one_cluster_share_their_credentials(api: FakeApi, secrets: Secrets) -> None:
    api.secrets["two"] = dict(api.secrets["one"])
    one = await secrets.of(machine())
    spec = machine().spec
    assert spec.talosconfig is not None
    other = machine(
        talosconfig=type(spec.talosconfig)(secret_ref=type(spec.talosconfig.secret_ref)(name="two", key="talosconfig"))
    )
    assert (await secrets.of(other)).credentials is one.credentials


async def test_what_is_kept_is_bounded(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.machine_reconciler.secrets.KEPT_BYTES_MAX", len(CONFIGURATION) + 2048)
    secrets = Secrets(api)
    await secrets.of(machine())
    await secrets.of(machine())
    assert len(secrets._kept) == 1


def test_nothing_secret_is_shown_by_accident() -> None:
    from services.machine_reconciler.secrets import Materials

    assert "s3cr3t" not in repr(Materials(data=b"s3cr3t"))
