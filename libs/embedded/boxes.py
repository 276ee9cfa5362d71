"""The switches of the simulated boxes, as the simulator's HTTP control has them: power, moves, wipes, troubles."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import aiohttp


class SwitchRefusedError(Exception):
    """The simulator did not do what it was asked; the text is its answer."""


class Boxes:
    """A client of one simulator; every answer is the box's state as the simulator's GET gives it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20), trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, name: str) -> dict[str, Any]:
        """Return one box's state: addresses, power, mode, fingerprint, configurations received and so on."""
        return await self._ask("GET", f"/nodes/{name}", None)

    async def add(self, box: dict[str, object]) -> dict[str, Any]:
        """Put one more box on the site; the body is an entry of the fleet file."""
        return await self._ask("POST", "/nodes", box)

    async def add_hostile(self, *, address: str, kind: str) -> dict[str, Any]:
        """Put something broken at an address; `kind` is one of the simulator's hostile boxes."""
        return await self._ask("POST", "/hostile", {"address": address, "kind": kind})

    async def switch(self, name: str, action: str, **body: object) -> dict[str, Any]:
        """Do something to a box: power-off, power-on, power-cycle, move, wipe, trouble, kubelet."""
        return await self._ask("POST", f"/nodes/{name}/{action}", body)

    async def _ask(self, method: str, path: str, body: dict[str, object] | None) -> dict[str, Any]:
        if self._session is None:
            raise RuntimeError("use `async with Boxes(...)`")
        async with self._session.request(method, self._url + path, json=body) as response:
            if response.status >= 400:
                raise SwitchRefusedError(f"{method} {path}: {response.status} {(await response.text())[:500]}")
            answer: dict[str, Any] = await response.json()
            return answer
