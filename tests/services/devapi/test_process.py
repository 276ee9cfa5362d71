"""The service as a process: settings, manifests, HTTP limits, its end."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.embedded.process import ProcessError
from libs.embedded.service import ServiceProcess
from services.devapi import discovery

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "k8s"


def service(tmp_path: Path, **settings: object) -> ServiceProcess:
    return ServiceProcess("devapi", settings, log_file=tmp_path / "devapi.log")


@pytest.fixture
def devapi(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A devapi without tokens, with our CRD."""
    process = service(tmp_path, manifests=DEPLOY / "crds")
    process.start()
    yield process
    process.stop()


def send(devapi: ServiceProcess, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection("127.0.0.1", int(devapi.url.rpartition(":")[2]), timeout=10)
    connection.request(method, path, body)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data, answer.headers.get("nodetrail-devapi", "")


def test_it_serves_the_api_beside_health_and_metrics(devapi: ServiceProcess) -> None:
    status, data, says = send(devapi, "GET", "/apis/nodetrail.dev/v1alpha1/talosmachines")
    assert (status, json.loads(data)["items"]) == (200, [])
    assert "embedded" in says
    assert discovery.LEFT_OUT in devapi.log_text
    assert "every caller is a cluster admin" in devapi.log_text
    assert devapi.get("/readyz")[0] == 200
    assert 'nodetrail_devapi_requests_total{code="200",verb="list"} 1.0' in devapi.get("/metrics")[1]


def test_a_body_has_a_limit(devapi: ServiceProcess) -> None:
    status, data, _ = send(devapi, "POST", "/api/v1/nodes", b"x" * (4 * 1024 * 1024))
    assert (status, json.loads(data)["reason"]) == (413, "RequestEntityTooLarge")
    status, data, _ = send(devapi, "POST", "/api/v1/nodes", b"[" * 100_000)
    assert status == 400


def test_it_stops_while_watched(devapi: ServiceProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(devapi.url.rpartition(":")[2]), timeout=10)
    connection.request("GET", "/api/v1/nodes?watch=true&resourceVersion=0")
    answer = connection.getresponse()
    assert devapi.stop() == 0
    assert answer.read() == b""
    connection.close()
    assert '"level": "error"' not in devapi.log_text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tokens": "/nowhere/tokens.csv"}, "/nowhere/tokens.csv"),
        ({"manifests": "/nowhere/manifests"}, "/nowhere/manifests"),
        ({"history": "0"}, "NODETRAIL_HISTORY"),
        ({"histroy": "5"}, "NODETRAIL_HISTROY"),
    ],
)
def test_what_it_cannot_start_with_is_named(tmp_path: Path, settings: dict[str, object], says: str) -> None:
    process = service(tmp_path, **settings)
    with pytest.raises(ProcessError) as failed:
        process.start()
    assert says in str(failed.value) + process.log_text
    process.stop()


def test_manifests_of_files_folders_and_kustomizations(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n---\n")
    (tmp_path / "list.json").write_text(
        json.dumps({"kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]})
    )
    process = service(tmp_path, manifests=f"{tmp_path / 'm'}, {tmp_path / 'list.json'}, {DEPLOY / 'accounts'}")
    process.start()
    for path in ("namespaces/one", "nodes/n", "namespaces/nodetrail-system/serviceaccounts/status-writer"):
        assert send(process, "GET", f"/api/v1/{path}")[0] == 200, path
    process.stop()


@pytest.mark.parametrize("text", ["kind: [", "- 1", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}"])
def test_a_manifest_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    process = service(tmp_path, manifests=tmp_path / "bad.yaml")
    with pytest.raises(ProcessError):
        process.start()
    assert str(tmp_path / "bad.yaml") in process.log_text
    process.stop()
