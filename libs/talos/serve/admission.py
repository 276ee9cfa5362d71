"""Who may do what: roles out of a client certificate, and the roles that each method wants."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from libs.talos.serve.api import Code, Peer, Refusal, Role

NOT_AUTHORIZED = "not authorized"

_READERS = frozenset({Role.ADMIN, Role.OPERATOR, Role.READER})
_OPERATORS = frozenset({Role.ADMIN, Role.OPERATOR})
_ADMINS = frozenset({Role.ADMIN})

ROLES: Mapping[str, frozenset[str]] = {
    "ApplyConfiguration": _READERS,  # the handler itself then refuses readers, but in maintenance mode
    "Events": _READERS,
    "Hostname": _READERS,
    "Read": _ADMINS,
    "Reboot": _OPERATORS,
    "Reset": _ADMINS,
    "ServiceList": _READERS,
    "Shutdown": _OPERATORS,
    "Version": _READERS,
}
"""The roles for each method of MachineService; what is not listed is for administrators."""


class CertificateNotForClientsError(Exception):
    """A verified certificate is not for clients and nothing else."""


def roles_of(certificate: bytes | None) -> frozenset[str]:
    """Return the roles in a verified client certificate (DER): one for each organization, unknown ones included."""
    if certificate is None:
        raise CertificateNotForClientsError("no certificate was sent")
    loaded = x509.load_der_x509_certificate(certificate)
    try:
        usages = list(loaded.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        usages = []
    if usages != [ExtendedKeyUsageOID.CLIENT_AUTH]:
        raise CertificateNotForClientsError("its extended key usage is not exactly clientAuth")
    organizations = loaded.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return frozenset(str(attribute.value) for attribute in organizations)


def admit(peer: Peer, method: str) -> None:
    """Raise the refusal that Talos gives to a role that is too low."""
    require(peer, ROLES.get(method, _ADMINS))


def admit_reader(peer: Peer) -> None:
    require(peer, _READERS)


def admit_admin(peer: Peer) -> None:
    require(peer, _ADMINS)


def is_admin(peer: Peer) -> bool:
    return Role.ADMIN in peer.roles


def require(peer: Peer, roles: frozenset[str]) -> None:
    if not peer.roles & roles:
        raise Refusal(Code.PERMISSION_DENIED, NOT_AUTHORIZED)
