"""What an operator does and sees, for the demo and the tests: machines watched, specs edited, Secrets made.

It works through the Kubernetes API alone, with the operator's own rights; it never touches a service.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from libs import kube
from libs.machine import TalosMachine

MANAGER = "operator"


class NotSeenError(Exception):
    """What was waited for did not come to hold in time."""


class Operator:
    """One operator at one API server."""

    def __init__(self, api: kube.Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._changed = asyncio.Event()
        self._listener: Callable[[], None] = lambda: None
        self._store: kube.Store[TalosMachine] = kube.Store(api, kube.MACHINES, on_change=self._on_change)

    @property
    def machines(self) -> list[TalosMachine]:
        """Every machine of every namespace, as last watched."""
        return list(self._store.items.values())

    async def until(
        self, holds: Callable[[list[TalosMachine]], bool], *, what: str, seconds: float
    ) -> list[TalosMachine]:
        """Wait until it holds of the watched machines; `NotSeenError` names `what` and shows the last state."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._changed.clear()
                    if holds(self.machines):
                        return self.machines
                    await self._changed.wait()
        except TimeoutError:
            seen = "; ".join(map(_shown, self.machines)) or "no machine"
            raise NotSeenError(f"not seen within {seconds:g} s: {what}. Last seen: {seen}") from None

    async def edit_spec(self, name: str, spec: dict[str, object]) -> TalosMachine:
        """Merge these fields into a machine's spec, as `kubectl patch` does."""
        return await self.api.merge_patch(kube.MACHINES, name, {"spec": spec}, self.namespace, manager=MANAGER)

    async def add_secret(self, name: str, data: dict[str, str]) -> None:
        """Make or change a Secret in the machines' namespace."""
        await self.api.apply(
            kube.SECRETS,
            name,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": self.namespace},
                "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
            },
            self.namespace,
            manager=MANAGER,
        )

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this, too, after every change of a machine, and once now."""
        self._listener = listener
        listener()

    def _on_change(self, _old: TalosMachine | None, _new: TalosMachine | None) -> None:
        self._changed.set()
        self._listener()

    async def run(self) -> None:
        """Keep the watch; `operator_at` does this."""
        await self._store.run()

    async def synced(self) -> None:
        """Wait for the first listing."""
        await self._store.synced()


@asynccontextmanager
async def operator_at(kubeconfig: str, namespace: str) -> AsyncIterator[Operator]:
    """Connect as the operator of that kubeconfig and watch the machines until the block ends."""
    async with kube.connect(kubeconfig, agent="operator") as api:
        operator = Operator(api, namespace)
        watch = asyncio.ensure_future(operator.run())
        try:
            await operator.synced()
            yield operator
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


def _shown(machine: TalosMachine) -> str:
    conditions = ", ".join(f"{c.type}={c.status} {c.reason} ({c.message})" for c in machine.status.conditions)
    return (
        f"{machine.metadata.name}: declared {machine.spec.endpoint}, "
        f"observed {machine.status.observed_endpoint or '-'}, {conditions or 'no conditions'}"
    )
