"""What Kubernetes Nodes say about addresses, and which of them may be a machine's."""

from __future__ import annotations

from libs import kube
from libs.endpoint import InvalidEndpointError, normalise_address, parse_endpoint
from libs.identity import normalise_uuid
from libs.machine import TalosMachine
from services.machine_reconciler.machines import node_names


class Nodes:
    """An index over the watch of Nodes. Everything a Node says is a hint, however old."""

    def __init__(self) -> None:
        self._nodes: dict[str, kube.Node] = {}
        self._by_uuid: dict[str, set[str]] = {}

    def put(self, node: kube.Node) -> None:
        """Take in a Node as last heard."""
        self.remove(node)
        self._nodes[node.metadata.name] = node
        self._by_uuid.setdefault(normalise_uuid(node.system_uuid), set()).add(node.metadata.name)

    def remove(self, node: kube.Node) -> None:
        """Forget a Node; an unknown one is no fault."""
        known = self._nodes.pop(node.metadata.name, None)
        if known is not None:
            uuid = normalise_uuid(known.system_uuid)
            names = self._by_uuid[uuid]
            names.discard(node.metadata.name)
            if not names:
                del self._by_uuid[uuid]

    def addresses_of(self, machine: TalosMachine, *, told: str = "") -> tuple[str, ...] | None:
        """Return the InternalIPs of the machine's own Node, or None when that is not known.

        `told` is the name that the node itself has just given.
        """
        names = [*node_names(machine), told]
        found = next((self._nodes[name] for name in names if name in self._nodes), None)
        return found.addresses() if found is not None else None

    def named_by(self, machine: TalosMachine) -> list[kube.Node]:
        """Return the Nodes whose name the machine has, silent ones last."""
        return self._by_readiness(node_names(machine))

    def like(self, machine: TalosMachine) -> list[kube.Node]:
        """Return other Nodes that show the machine's UUID, which any kubelet may; silent ones last."""
        uuid = normalise_uuid(machine.spec.identity.uuid)
        names = self._by_uuid.get(uuid, set()) if uuid else set()
        return self._by_readiness(sorted(names.difference(node_names(machine))))

    def _by_readiness(self, names: list[str]) -> list[kube.Node]:
        found = [self._nodes[name] for name in names if name in self._nodes]
        return sorted(found, key=lambda node: not node.is_ready)


def lists(node: kube.Node, dial: str) -> bool:
    """Whether a Node lists the address that is dialled; a name that is dialled is in no list."""
    try:
        host = parse_endpoint(dial).host
    except InvalidEndpointError:
        return False
    return any(_is(address, host) for address in node.addresses())


def _is(text: str, host: str) -> bool:
    try:
        return normalise_address(text) == host
    except InvalidEndpointError:
        return False
