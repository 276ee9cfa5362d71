"""What is seen of one node on the network: its listener, and the leaves that it shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

from libs import runtime
from libs.talos import serve
from services.simulator.node import Node, Surface

GRACE_SECONDS = 0.5
"""How long calls under way may go on when a listener closes; Talos allows up to 10 s."""

Signer = Callable[[bytes], serve.Authority | None]
"""Finds the authority with its key for an authority's certificate (PEM), if a control plane would sign."""

_log = runtime.log("simulator")


class Port:
    """Opens, changes and closes a node's port so that it is as the node's `surface` says."""

    def __init__(self, node: Node, api: serve.NodeApi, signer: Signer) -> None:
        self.fingerprint = ""
        """Of the leaf that is shown now; empty when nothing is."""
        self.waiting_for = ""
        """Why a node that should answer does not yet."""
        self._node = node
        self._api = api
        self._signer = signer
        self._shown: Surface | None = None
        self._listener: serve.Listener | None = None
        self._closing = AsyncExitStack()
        self._boot_authority = serve.Authority.for_maintenance()

    @property
    def is_open(self) -> bool:
        return self._shown is not None

    @property
    def connections(self) -> int:
        return self._listener.connections if self._listener else 0

    async def settle(self) -> None:
        """Become what the node wants; `AddressInUseError` when somebody else has its address."""
        wanted, shown = self._node.surface, self._shown
        if shown and (wanted is None or (wanted.boot, wanted.in_maintenance) != (shown.boot, shown.in_maintenance)):
            await self._close_as_the_node_went()
        if wanted is None:
            self.waiting_for = ""
        elif wanted != self._shown:
            await self._show(wanted)

    async def close(self) -> None:
        """Close at once. Connections that a power cut left hanging are reset."""
        self._shown, self.fingerprint, self._listener = None, "", None
        await self._closing.aclose()

    async def _close_as_the_node_went(self) -> None:
        self._shown, self.fingerprint = None, ""
        if self._listener is None:
            return
        if self._node.was_cut:
            self._listener.cut()
        else:
            await self._listener.finish(GRACE_SECONDS)
            await self.close()

    async def _show(self, wanted: Surface) -> None:
        """Open the port, or change what it shows. Without a signer an open one keeps the leaf that it has."""
        shown = self._shown
        if shown is None or (wanted.leaf, wanted.common_name) != (shown.leaf, shown.common_name):
            leaf = self._leaf(wanted)
            if leaf is not None:
                await self._present(wanted, leaf)
            elif shown is None:
                return
            else:
                wanted = replace(wanted, leaf=shown.leaf, common_name=shown.common_name)
        if self._listener is not None:
            self._listener.listen(wanted.addresses)
            self._shown = wanted

    def _leaf(self, wanted: Surface) -> serve.Leaf | None:
        """Have a leaf signed, or say who is missing for that."""
        authority = self._authority(in_maintenance=wanted.in_maintenance)
        if authority is None:
            self.waiting_for = "a control plane of its cluster that signs its certificate"
            return None
        self.waiting_for = ""
        return authority.issue_server(
            wanted.common_name,
            addresses=wanted.san_addresses,
            names=wanted.san_names,
            now=datetime.fromtimestamp(self._node.now(), UTC),
        )

    def _authority(self, *, in_maintenance: bool) -> serve.Authority | None:
        configuration = self._node.configuration
        if in_maintenance or configuration is None:
            if self._shown is None:  # another boot, another authority
                self._boot_authority = serve.Authority.for_maintenance()
            return self._boot_authority
        return configuration.authority or self._signer(configuration.authority_pem)

    async def _present(self, wanted: Surface, leaf: serve.Leaf) -> None:
        configuration = self._node.configuration
        authorities = configuration.accepted_pem if configuration and not wanted.in_maintenance else ()
        if self._shown is None:
            await self.close()  # what a power cut left hanging
            self._listener = await self._closing.enter_async_context(
                serve.Listener(self._api, port=self._node.spec.port)
            )
        if self._listener is not None:
            await self._listener.present(serve.Presented(leaf, authorities))
        self.fingerprint = leaf.fingerprint
        # Stands for the line on the node's console that an operator compares.
        _log.info(
            "issued server certificate",
            node=self._node.spec.name,
            fingerprint=leaf.fingerprint,
            common_name=leaf.common_name,
            addresses=wanted.addresses,
        )
