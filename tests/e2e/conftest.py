"""One site a story, on the worker's API server, which is wiped before each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.e2e.site import Secrets, Site, site_at
from tests.peers.kube_api import KubeApi
from tests.peers.tools import Tool

MakeSite = Callable[..., Awaitable[Site]]


@pytest.fixture(scope="session")
def cluster_secrets(talosctl: Tool, tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    """A cluster's secrets, made by the real talosctl."""
    folder = tmp_path_factory.mktemp("cluster")
    talosctl("gen", "config", "stories", "https://stories.example:6443", "--output", str(folder))
    return Secrets((folder / "controlplane.yaml").read_text(), (folder / "talosconfig").read_text())


@pytest.fixture
async def make_site(clean_kube: KubeApi, cluster_secrets: Secrets, tmp_path: Path) -> AsyncIterator[MakeSite]:
    """Start a site with other settings than the usual: `await make_site(discovery={"sweep_seconds": 3})`."""
    async with AsyncExitStack() as closing:

        async def make(**settings: dict[str, object]) -> Site:
            return await closing.enter_async_context(
                site_at(
                    tmp_path / "site",
                    kubeconfigs=clean_kube.kubeconfigs,
                    secrets=cluster_secrets,
                    settings=settings,
                )
            )

        yield make


@pytest.fixture
async def site(make_site: MakeSite) -> Site:
    """A site with the usual settings: a sweep a second, a re-probe every two."""
    return await make_site()
