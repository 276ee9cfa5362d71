"""The Kubernetes API: live reads, applies and patches, lists kept alive by watches, and Events.

The only importer of `kubernetes`, which serves for credentials and TLS; transport and watching are our own.
What nodetrail decides, and when, lives elsewhere.
"""

from libs.kube.api import Api, Listing, connect
from libs.kube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeconfigError,
    KubeError,
    NotFound,
    Unauthorized,
    Unavailable,
    Undecodable,
)
from libs.kube.objects import (
    EVENTS,
    LEASES,
    MACHINES,
    NODES,
    SECRETS,
    Event,
    Lease,
    LeaseSpec,
    Meta,
    Node,
    NodeAddress,
    NodeCondition,
    NodeInfo,
    NodeStatus,
    Resource,
    Secret,
)
from libs.kube.store import Health, Store, Timing
from libs.kube.tell import tell

__all__ = [
    "EVENTS",
    "LEASES",
    "MACHINES",
    "NODES",
    "SECRETS",
    "AlreadyExists",
    "Api",
    "Conflict",
    "Event",
    "Expired",
    "Forbidden",
    "Health",
    "Invalid",
    "KubeError",
    "KubeconfigError",
    "Lease",
    "LeaseSpec",
    "Listing",
    "Meta",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeInfo",
    "NodeStatus",
    "NotFound",
    "Resource",
    "Secret",
    "Store",
    "Timing",
    "Unauthorized",
    "Unavailable",
    "Undecodable",
    "connect",
    "tell",
]
