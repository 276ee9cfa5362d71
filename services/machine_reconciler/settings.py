"""What the environment may set, beside what every service reads."""

from typing import Annotated

from msgspec import Meta

from libs import runtime


class Settings(runtime.CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the machine reconciler."""

    namespace: Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "nodetrail"
    """Where the machines of discovered boxes are made. It must exist."""
    max_unapproved: Annotated[int, Meta(ge=0)] = 1000
    """How many machines may wait for approval before no further box is registered."""
    nodes_kubeconfig: str = ""
    """The cluster whose Nodes are the machines'; the one that holds the machines when empty."""
    reprobe_seconds: Annotated[float, Meta(ge=0.5, le=3600)] = 120.0
    """A converged machine is read again after this, a failing one at the latest."""
