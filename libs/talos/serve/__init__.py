"""The server half: a node's port with the TLS, certificates, services and rules of access of Talos.

What a node is and does is somebody else's: whoever plays it implements `NodeApi`.
"""

from libs.talos.serve.api import (
    Applied,
    Code,
    Conduct,
    Mode,
    NodeApi,
    Peer,
    Refusal,
    Role,
    VersionInfo,
)
from libs.talos.serve.certificates import (
    MAINTENANCE_NAME,
    Authority,
    Leaf,
    UnusableAuthorityError,
    load_certificate,
    spki,
)
from libs.talos.serve.definitions import definition_specs
from libs.talos.serve.listener import AddressInUseError, Listener, Presented, bound
from libs.talos.serve.resources import Key, Resources, Spec
from libs.talos.serve.tls import reset, server_context

__all__ = [
    "MAINTENANCE_NAME",
    "AddressInUseError",
    "Applied",
    "Authority",
    "Code",
    "Conduct",
    "Key",
    "Leaf",
    "Listener",
    "Mode",
    "NodeApi",
    "Peer",
    "Presented",
    "Refusal",
    "Resources",
    "Role",
    "Spec",
    "UnusableAuthorityError",
    "VersionInfo",
    "bound",
    "definition_specs",
    "load_certificate",
    "reset",
    "server_context",
    "spki",
]
