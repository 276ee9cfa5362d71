"""The real servers as pytest fixtures; tests/conftest.py makes them known to every test.

One kube-apiserver serves all tests of a worker: `kube_apiserver` leaves in it what was there, `clean_kube`
wipes it before the test. A peer that is not there fails the test and names the command that builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from libs.embedded.nats_server import NatsServer
from tests.peers import build, cluster
from tests.peers.kube_api import KubeApi
from tests.peers.tools import Tool

KubeConfig = Callable[[str], Path]


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A nats-server of the test's own, empty and without users; `.url`, `.stop()`, `.kill()`, `.start()`."""
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def peers() -> build.Peers:
    """Where the built programs are."""
    return build.find()


@pytest.fixture(scope="session")
def kube_apiserver(peers: build.Peers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApi]:
    """A kube-apiserver with CRD, policies and accounts in force; one for all tests of this worker."""
    api = KubeApi(peers, tmp_path_factory.mktemp("kube"))
    try:
        api.start()
        cluster.deploy(api, peers.kubectl)
        yield api
    finally:
        api.stop()


@pytest.fixture
def clean_kube(kube_apiserver: KubeApi) -> KubeApi:
    """The worker's kube-apiserver without machines, Nodes, Secrets, Events and namespaces of earlier tests."""
    if not kube_apiserver.is_running:  # an earlier test took it away and failed
        kube_apiserver.start_server()
    kube_apiserver.wipe()
    return kube_apiserver


@pytest.fixture(scope="session")
def kube_config(kube_apiserver: KubeApi) -> KubeConfig:
    """The kubeconfig of an account: admin, kubelet, node-watcher, machine-reconciler, status-writer or gateway."""
    return kube_apiserver.kubeconfigs.__getitem__


@pytest.fixture(scope="session")
def kubectl(kube_apiserver: KubeApi, peers: build.Peers) -> Tool:
    """Kubectl as admin: `kubectl("get", "tm")` returns what it prints, `.refused(...)` what it complains of."""
    return cluster.kubectl_for(kube_apiserver, peers.kubectl)


@pytest.fixture(scope="session")
def talosctl(peers: build.Peers, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """Talosctl without a configuration of its own; name `--talosconfig`, `--nodes` and `--endpoints` in each call."""
    return Tool(peers.talosctl, home=tmp_path_factory.mktemp("talosctl"))
