"""Wires and runs: users and manifests are read, then the API is served on LISTEN."""

from __future__ import annotations

import asyncio
from pathlib import Path

from libs import runtime
from services.devapi import discovery, manifests
from services.devapi.http import App
from services.devapi.refusal import Refusal
from services.devapi.server import Server
from services.devapi.settings import Settings
from services.devapi.users import Users


class StartError(Exception):
    """A file that the settings name cannot be used; the text says which and why."""


async def run(settings: Settings, service: runtime.Service) -> None:
    """Serve until cancelled."""
    server = Server(_users(settings.tokens), history=settings.history)
    for path in settings.manifests:  # before anybody can ask: nobody sees a cluster half made
        _apply(server, path)
    await service.listen(App(server, log=service.log, registry=service.registry))
    service.log.info("embedded API server, not for production", left_out=discovery.LEFT_OUT)
    if not settings.tokens:
        service.log.warning("no token file (NODETRAIL_TOKENS): every caller is a cluster admin")
    try:
        await asyncio.Event().wait()
    finally:
        server.reads.stop()


def _users(path: str) -> Users:
    if not path:
        return Users(None)
    try:
        return Users(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise StartError(f"token file {path}: {error}") from error


def _apply(server: Server, path: str) -> None:
    try:
        for manifest in manifests.read(Path(path)):
            server.put(manifest)
    except (ValueError, Refusal) as error:
        raise StartError(f"manifests {path}: {error}") from error


def main() -> None:
    """Run the service."""
    runtime.main("devapi", Settings, run, serves_pages=True)


if __name__ == "__main__":
    main()
