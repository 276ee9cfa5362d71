"""The peers themselves: what is offered is used, a start is complete, a wipe leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from libs.embedded.nats_server import NatsServer
from tests.peers import build
from tests.peers.kube_api import KubeApi
from tests.peers.tools import Tool


def fake(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)
    return path


def test_offered_assets_and_a_talosctl_of_the_right_version_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, etcd = fake(tmp_path / "assets/kube-apiserver", ""), fake(tmp_path / "assets/etcd", "")
    kubectl, talosctl = fake(tmp_path / "assets/kubectl", ""), fake(tmp_path / "bin/talosctl", "Client v1.13.4")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert build.find() == build.Peers(kube_apiserver=server, etcd=etcd, kubectl=kubectl, talosctl=talosctl)
    etcd.unlink()
    with pytest.raises(build.PeersError, match="has no etcd"):
        build.find()


def test_a_talosctl_of_another_version_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peers: build.Peers
) -> None:
    fake(tmp_path / "talosctl", "Client v1.12.1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert build.find().talosctl != tmp_path / "talosctl"


def test_what_is_not_built_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(build.PeersError, match=r"python -m tests\.peers"):
        build.find()


def test_a_failed_build_shows_the_step_and_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("GOFLAGS", "-no-such-flag")
    monkeypatch.setattr(build, "_go", lambda *_: "go version")
    said: list[str] = []
    with pytest.raises(build.PeersError, match=r"(?s)go build go.etcd.io.*no-such-flag"):
        build._built(build.RECIPES["etcd"], said.append)
    assert "about 1.5 minutes" in said[0]


def test_the_tools_are_of_the_servers_versions(kubectl: Tool, talosctl: Tool) -> None:
    versions = kubectl("version")
    assert versions.count(build.KUBERNETES) == 2
    assert build.TALOS_MINOR in talosctl("version", "--client")


def test_a_wipe_leaves_nothing_of_a_test(clean_kube: KubeApi, kubectl: Tool) -> None:
    kubectl("create", "namespace", "site")
    for namespace in ("site", "nodetrail"):
        kubectl("create", "-n", namespace, "secret", "generic", "s", "--from-literal=a=b")
        kubectl(
            "apply", "-n", namespace, "-f", "-",
            stdin='{"apiVersion":"nodetrail.dev/v1alpha1","kind":"TalosMachine","metadata":{"name":"m"},"spec":{"endpoint":"192.0.2.1"}}',
        )  # fmt: skip
    kubectl("apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}')
    clean_kube.wipe()
    assert kubectl("get", "tm,nodes,secrets", "-A", "-o", "name") == ""
    assert "namespace/site" not in kubectl("get", "namespaces", "-o", "name")
    assert "namespace/nodetrail-system" in kubectl("get", "namespaces", "-o", "name")


def test_the_api_server_can_go_away_and_come_back(clean_kube: KubeApi, kubectl: Tool) -> None:
    kubectl("create", "namespace", "kept")
    clean_kube.stop_server()
    assert "refused" in kubectl.refused("get", "namespaces")
    clean_kube.start_server()
    assert "kept" in kubectl("get", "namespaces")


def test_services_speak_as_their_own_accounts(
    kube_config: Callable[[str], Path], kubectl: Tool, peers: build.Peers, tmp_path: Path
) -> None:
    writer = Tool(peers.kubectl, "--kubeconfig", kube_config("status-writer"), home=tmp_path)
    assert "system:serviceaccount:nodetrail-system:status-writer" in writer("auth", "whoami")
    assert writer.refused("auth", "can-i", "delete", "nodes") is not None
    assert kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"


def test_each_nats_server_is_empty_and_its_own(nats_server: NatsServer) -> None:
    assert nats_server.url.startswith("nats://127.0.0.1:")
    assert nats_server.process.is_running
