"""The only folder that speaks to Talos nodes, and the only importer of gRPC.

TLS is ours and comes first: who answers is verified before a byte of gRPC is sent. `serve` is the other side, for
whoever plays a node; `pb` is generated from `proto/`.
"""

from libs.talos.configuration import check_configuration, configuration_hash, same_configuration
from libs.talos.credentials import Credentials, parse_talosconfig
from libs.talos.dial import look
from libs.talos.errors import (
    CertificateMismatch,
    CredentialsRejected,
    InvalidConfiguration,
    InvalidCredentials,
    NotAllowed,
    NotConfigured,
    NotMaintenance,
    Rejected,
    StrangeAnswer,
    TalosError,
    Unreachable,
    WrongIdentity,
)
from libs.talos.leaf import Leaf, fingerprint
from libs.talos.node import Applied, ConfiguredNode, MaintenanceNode, configured, maintenance

__all__ = [
    "Applied",
    "CertificateMismatch",
    "ConfiguredNode",
    "Credentials",
    "CredentialsRejected",
    "InvalidConfiguration",
    "InvalidCredentials",
    "Leaf",
    "MaintenanceNode",
    "NotAllowed",
    "NotConfigured",
    "NotMaintenance",
    "Rejected",
    "StrangeAnswer",
    "TalosError",
    "Unreachable",
    "WrongIdentity",
    "check_configuration",
    "configuration_hash",
    "configured",
    "fingerprint",
    "look",
    "maintenance",
    "parse_talosconfig",
    "same_configuration",
]
