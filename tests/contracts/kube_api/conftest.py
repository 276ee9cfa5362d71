"""Every test of this folder runs against devapi and against a real kube-apiserver, and must not tell them apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from libs.embedded.stack import Stack
from tests.contracts.kube_api.client import Client, Machines
from tests.peers.cluster import DEPLOY
from tests.peers.kube_api import KubeApi


@pytest.fixture(scope="session", params=["devapi", "kube-apiserver"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApi | Stack]:
    """A server with CRD, policies and accounts in force."""
    if request.param == "kube-apiserver":
        yield request.getfixturevalue("kube_apiserver")
        return
    with Stack(tmp_path_factory.mktemp("devapi")) as stack:
        stack.start(stack.dev_api(manifests=[DEPLOY / "crds", DEPLOY / "accounts"]))
        yield stack


@pytest.fixture
def kubeconfigs(server: KubeApi | Stack) -> dict[str, Path]:
    """The kubeconfigs of every account."""
    if isinstance(server, KubeApi) and not server.is_running:  # an earlier test took it away and failed
        server.start_server()
    return server.kubeconfigs


@pytest.fixture
async def api(kubeconfigs: dict[str, Path]) -> AsyncIterator[Client]:
    """Requests as any account."""
    async with Client(kubeconfigs) as client:
        yield client


@pytest.fixture
async def machines(api: Client) -> AsyncIterator[Machines]:
    """The TalosMachines of a namespace of the test's own."""
    machines = await Machines.in_new_namespace(api)
    yield machines
    await machines.clear()
