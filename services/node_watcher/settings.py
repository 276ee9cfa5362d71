"""What the environment may set, beside what every service reads."""

from libs import runtime


class Settings(runtime.CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the Node watcher."""

    nodes_kubeconfig: str = ""
    """The cluster whose Nodes are watched; the usual one (KUBECONFIG, or the pod's own) when empty."""
