"""Credentials, time-outs and answers of one request; what the server does is made up."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.config import incluster_config

from libs import kube
from libs.kube import api as verbs
from libs.kube import credentials, transport
from tests.libs.kube.server import at, node, serving, status


async def good(request: web.Request) -> web.StreamResponse:
    return web.json_response(at("a", 5, "10.0.0.1"))


async def test_reads_an_object(tmp_path: Path) -> None:
    async with serving(tmp_path, good) as server, kube.connect(server.kubeconfig, agent="node-watcher") as api:
        found = await api.get(kube.NODES, "a")
        assert found.addresses() == ("10.0.0.1",)
        [request] = server.requests
        assert (request.method, request.path) == ("GET", "/api/v1/nodes/a")
        assert request.headers["Authorization"] == "Bearer first"
        assert request.headers["User-Agent"] == "nodetrail/node-watcher"
        assert api.host == f"http://127.0.0.1:{server.port}"


class TestRotatedTokens:
    @staticmethod
    async def only_second(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer second":
            return status(401, "Unauthorized")
        return await good(request)

    async def test_a_refused_token_is_read_anew_once(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("first\n")  # as an editor leaves it
        async with serving(tmp_path, self.only_second) as server:
            server.write_kubeconfig({"tokenFile": str(token)})
            async with kube.connect(server.kubeconfig, agent="test") as api:
                token.write_text("second\n")
                await api.get(kube.NODES, "a")
                await api.get(kube.NODES, "a")
                sent = [request.headers["Authorization"] for request in server.requests]
                assert sent == ["Bearer first", "Bearer second", "Bearer second"]

    async def test_many_requests_refused_at_once_load_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loads = 0
        really = credentials.load

        async def counted(kubeconfig: str | None) -> Any:
            nonlocal loads
            loads += 1
            return await really(kubeconfig)

        monkeypatch.setattr(credentials, "load", counted)
        async with (
            serving(tmp_path, self.only_second) as server,
            kube.connect(server.kubeconfig, agent="test") as api,
        ):
            server.write_kubeconfig({"token": "second"})
            await asyncio.gather(*(api.get(kube.NODES, "a") for _ in range(20)))
        assert loads == 2

    async def test_a_token_that_stays_refused_is_worth_another_try_later(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with (
            serving(tmp_path, self.only_second) as server,
            kube.connect(server.kubeconfig, agent="test") as api,
        ):
            with pytest.raises(kube.Unauthorized, match="get nodes a: Unauthorized"):
                await api.get(kube.NODES, "a")
            assert len(server.requests) == 2
            with pytest.raises(kube.Unavailable):
                await api.get(kube.NODES, "a")
            assert len(server.requests) == 3  # not loaded again within seconds
            server.write_kubeconfig({"token": "second"})
            monkeypatch.setattr(transport, "RELOAD_PAUSE_SECONDS", 0.0)
            await api.get(kube.NODES, "a")

    async def test_a_kubeconfig_that_is_being_replaced_is_no_worse_than_the_refusal(self, tmp_path: Path) -> None:
        async with (
            serving(tmp_path, self.only_second) as server,
            kube.connect(server.kubeconfig, agent="test") as api,
        ):
            server.empty_kubeconfig()
            with pytest.raises(kube.Unauthorized):
                await api.get(kube.NODES, "a")

    async def test_a_pods_token_file_that_is_empty_just_now(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token = tmp_path / "token"
        loader = incluster_config.InClusterConfigLoader(str(token), "unused", environ={})
        async with (
            serving(tmp_path, self.only_second) as server,
            kube.connect(server.kubeconfig, agent="test") as api,
        ):
            loader.host, loader.ssl_ca_cert = api.host, None
            loader.token, loader.token_expires_at = "bearer first", datetime.min  # noqa: DTZ901 - as the library has it
            loader._set_config(api._transport._connection.credentials.configuration)
            token.write_text("")
            with pytest.raises(kube.Unauthorized, match="no token for http"):
                await api.get(kube.NODES, "a")
            token.write_text("second")
            with pytest.raises(kube.Unauthorized):  # the server takes "Bearer", the library says "bearer"
                await api.get(kube.NODES, "a")
            assert server.requests[0].headers["Authorization"] == "bearer second"


class TestProxies:
    async def test_variables_are_ignored(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.delenv("no_proxy", raising=False)
        async with serving(tmp_path, good) as server, kube.connect(server.kubeconfig, agent="test") as api:
            await api.get(kube.NODES, "a")

    async def test_a_kubeconfigs_own_proxy_is_used(self, tmp_path: Path) -> None:
        async with serving(tmp_path, good) as server:
            port, server.port = server.port, 1
            server.write_kubeconfig({"token": "first"}, **{"proxy-url": f"http://127.0.0.1:{port}"})
            async with kube.connect(server.kubeconfig, agent="test") as api:
                await api.get(kube.NODES, "a")
            assert server.requests[0].raw_path == "http://127.0.0.1:1/api/v1/nodes/a"


class TestAnswers:
    async def test_no_answer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(verbs, "REQUEST_SECONDS", 0.2)

        async def mute(request: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        async with serving(tmp_path, mute) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Unavailable, match="get nodes a: no answer in time"):
                await api.get(kube.NODES, "a")

    async def test_an_endless_answer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 100_000)

        async def endless(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x" * 10_000)

        async with serving(tmp_path, endless) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Unavailable, match="an answer of over 100000 bytes"):
                await api.get(kube.NODES, "a")

    async def test_an_answer_that_breaks_off(self, tmp_path: Path) -> None:
        async def cut(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b"{")
            assert request.transport is not None
            request.transport.abort()
            return response

        async with serving(tmp_path, cut) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Unavailable, match="get nodes a: "):
                await api.get(kube.NODES, "a")

    async def test_a_redirect_takes_the_token_nowhere(self, tmp_path: Path) -> None:
        async def elsewhere(request: web.Request) -> web.StreamResponse:
            return web.Response(status=302, headers={"Location": "/stolen"})

        async with serving(tmp_path, elsewhere) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.KubeError, match="get nodes a: HTTP 302"):
                await api.get(kube.NODES, "a")
            assert len(server.requests) == 1

    async def test_a_page_of_html(self, tmp_path: Path) -> None:
        async def page(request: web.Request) -> web.StreamResponse:
            return web.Response(text="<html>log in first</html>", content_type="text/html")

        async with serving(tmp_path, page) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Unavailable, match="get nodes a: the answer is no JSON"):
                await api.get(kube.NODES, "a")
            with pytest.raises(kube.Unavailable, match="list nodes: the answer is not a list"):
                await api.list(kube.NODES)

    async def test_an_object_of_another_shape(self, tmp_path: Path) -> None:
        async def strange(request: web.Request) -> web.StreamResponse:
            return web.json_response(node("a", 5, status={"addresses": 7}))

        async with serving(tmp_path, strange) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Undecodable, match=r"\$\.status\.addresses"):
                await api.get(kube.NODES, "a")

    async def test_a_list_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(verbs, "PAGES_MAX", 3)

        async def again(request: web.Request) -> web.StreamResponse:
            return web.json_response({"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []})

        async with serving(tmp_path, again) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Unavailable, match="no end after 3 pages"):
                await api.list(kube.NODES)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", kube.Invalid),
        (401, "Unauthorized", kube.Unauthorized),
        (403, "Forbidden", kube.Forbidden),
        (404, "NotFound", kube.NotFound),
        (405, "MethodNotAllowed", kube.KubeError),
        (409, "Conflict", kube.Conflict),
        (409, "AlreadyExists", kube.AlreadyExists),
        (410, "Expired", kube.Expired),
        (422, "Invalid", kube.Invalid),
        (429, "TooManyRequests", kube.Unavailable),
        (500, "InternalError", kube.Unavailable),
        (503, "ServiceUnavailable", kube.Unavailable),
        (504, "Timeout", kube.Unavailable),
    ],
)
async def test_each_refusal_has_its_error(tmp_path: Path, code: int, reason: str, error: type[kube.KubeError]) -> None:
    async def refused(request: web.Request) -> web.StreamResponse:
        return status(code, reason, "spec.endpoint: because", headers={"Retry-After": "3"})

    async with serving(tmp_path, refused) as server, kube.connect(server.kubeconfig, agent="test") as api:
        with pytest.raises(error) as caught:
            await api.apply(kube.MACHINES, "box-1", {}, "nodetrail", manager="test", subresource="status")
    assert type(caught.value) is error
    assert str(caught.value) == (f"patch talosmachines/status nodetrail/box-1: {reason}: spec.endpoint: because")
    if type(caught.value) is kube.Unavailable:
        assert caught.value.retry_after_seconds == 3.0


class TestRequests:
    async def test_an_apply(self, tmp_path: Path) -> None:
        bodies: list[Any] = []

        async def keep(request: web.Request) -> web.StreamResponse:
            bodies.append(json.loads(await request.read()))
            return web.json_response({"metadata": {"name": "box-1"}, "spec": {"endpoint": "10.0.0.1"}})

        async with serving(tmp_path, keep) as server, kube.connect(server.kubeconfig, agent="test") as api:
            body = {"status": {"nodeName": "node-1"}}
            await api.apply(
                kube.MACHINES,
                "box-1",
                body,
                "nodetrail",
                manager="nodetrail-test",
                subresource="status",
                resource_version="7",
            )
            [request] = server.requests
        assert body == {"status": {"nodeName": "node-1"}}
        assert request.method == "PATCH"
        assert request.path == "/apis/nodetrail.dev/v1alpha1/namespaces/nodetrail/talosmachines/box-1/status"
        assert dict(request.query) == {"fieldManager": "nodetrail-test", "force": "true"}
        assert request.headers["Content-Type"] == "application/apply-patch+yaml"
        assert bodies == [
            {
                "apiVersion": "nodetrail.dev/v1alpha1",
                "kind": "TalosMachine",
                "metadata": {"name": "box-1", "namespace": "nodetrail", "resourceVersion": "7"},
                "status": {"nodeName": "node-1"},
            }
        ]


class TestSecretsStaySecret:
    async def test_in_errors(self, tmp_path: Path) -> None:
        async def quoting(request: web.Request) -> web.StreamResponse:
            return status(422, "Invalid", 'data: Invalid value: "hunter2"')

        async with serving(tmp_path, quoting) as server, kube.connect(server.kubeconfig, agent="test") as api:
            with pytest.raises(kube.Invalid) as caught:
                await api.create(kube.SECRETS, {"metadata": {"name": "s"}, "data": {"k": "hunter2"}}, "nodetrail")
        assert str(caught.value) == "create secrets nodetrail/s: Invalid"

    async def test_in_their_text(self, tmp_path: Path) -> None:
        async def secret(request: web.Request) -> web.StreamResponse:
            return web.json_response({"metadata": {"name": "s", "namespace": "n"}, "data": {"k": "aHVudGVyMg=="}})

        async with serving(tmp_path, secret) as server, kube.connect(server.kubeconfig, agent="test") as api:
            found = await api.get(kube.SECRETS, "s", "n")
        assert found.data == {"k": b"hunter2"}
        assert (repr(found), str(found)) == ("Secret(n/s)", "Secret(n/s)")


class TestKubeconfigs:
    @pytest.mark.parametrize(
        "content",
        [None, "", "[]", "a: b", "{", "\x00", "current-context: x\ncontexts: 7\n"],
        ids=["missing", "empty", "list", "other keys", "no YAML", "binary", "wrong types"],
    )
    async def test_an_unusable_one_is_named(self, tmp_path: Path, content: str | None) -> None:
        path = tmp_path / "kubeconfig"
        if content is not None:
            path.write_text(content)
        with pytest.raises(kube.KubeconfigError, match=f"{path} gives no way to a Kubernetes API: "):
            async with kube.connect(str(path), agent="test"):
                pass

    async def test_the_usual_order(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        with pytest.raises(kube.KubeconfigError, match="the pod's service account gives no way"):
            async with kube.connect(agent="test"):
                pass
        async with serving(tmp_path, good) as server:
            (tmp_path / ".kube").mkdir()
            shutil.copy(server.kubeconfig, tmp_path / ".kube" / "config")
            async with kube.connect(agent="test") as api:
                await api.get(kube.NODES, "a")
            server.write_kubeconfig({"token": "from-variable"})
            monkeypatch.setenv("KUBECONFIG", server.kubeconfig)
            async with kube.connect(agent="test") as api:
                await api.get(kube.NODES, "a")
            sent = [request.headers["Authorization"] for request in server.requests]
            assert sent == ["Bearer first", "Bearer from-variable"]
