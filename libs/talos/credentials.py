"""What a talosconfig holds: the authorities that prove a node, and the client certificate that proves us.

Everything is checked when it is read, so that a usable `Credentials` never fails on its own account later. The key
goes into OpenSSL and is kept nowhere else.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from cryptography import x509

from libs.talos import documents
from libs.talos.errors import InvalidCredentials
from libs.talos.tls import client_context

_TALOS_LABEL = b"ED25519 PRIVATE KEY-----"
_PLAIN_LABEL = b"PRIVATE KEY-----"


class Credentials:
    """One context of a talosconfig, ready to use for any number of connections."""

    def __init__(self, context: ssl.SSLContext, not_after: datetime) -> None:
        self.context = context
        """Verifies the chain to any of the authorities, whatever the name, and shows the client certificate."""
        self.not_after = not_after
        """When our own client certificate expires."""

    def expired(self) -> bool:
        return self.not_after <= datetime.now(UTC)


def parse_talosconfig(data: bytes) -> Credentials:
    """Read the active context; `InvalidCredentials` names the field that is missing or wrong, never its content."""
    context = _active_context(data)
    authorities = _pem(context, "ca")
    certificate = _pem(context, "crt")
    key = _pem(context, "key").replace(_TALOS_LABEL, _PLAIN_LABEL)
    tls = client_context()
    tls.verify_mode = ssl.CERT_REQUIRED
    # Any certificate of `ca` is an anchor, self-signed or not, as it is for talosctl.
    tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        tls.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise InvalidCredentials("the talosconfig's `ca` holds no PEM certificate that can be read") from None
    not_after = _not_after(certificate)
    _load_client_certificate(tls, certificate, key)
    return Credentials(tls, not_after)


def _active_context(data: bytes) -> dict[str, Any]:
    try:
        found = documents.load_documents(data)
    except documents.UnreadableYamlError as error:
        raise InvalidCredentials(f"the talosconfig {error}") from None
    config = found[0] if len(found) == 1 else None
    if not isinstance(config, dict):
        raise InvalidCredentials("the talosconfig is not one YAML mapping")
    name = config.get("context")
    if not isinstance(name, str) or not name:
        raise InvalidCredentials("the talosconfig's `context` is missing: it names the active one of `contexts`")
    contexts = config.get("contexts")
    context = contexts.get(name) if isinstance(contexts, dict) else None
    if not isinstance(context, dict):
        raise InvalidCredentials("the talosconfig's `contexts` has no entry for its active `context`")
    return context


def _pem(context: dict[str, Any], field: str) -> bytes:
    text = context.get(field)
    if not isinstance(text, str) or not text:
        raise InvalidCredentials(f"the talosconfig's active context has no `{field}`")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCredentials(f"`{field}` in the talosconfig's active context is not base64") from None


def _not_after(certificate: bytes) -> datetime:
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError:
        raise InvalidCredentials("`crt` in the talosconfig's active context is not a PEM certificate") from None


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _private_file(certificate + b"\n" + key) as path:
        try:
            # Without an answer for an encrypted key OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=lambda: "")
        except (ssl.SSLError, ValueError, OSError):
            raise InvalidCredentials(
                "`key` in the talosconfig's active context is not the unencrypted private key of its `crt`"
            ) from None


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Offer bytes under a path, since the standard library loads keys from files only; on Linux in memory alone."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("nodetrail", os.MFD_CLOEXEC), "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(prefix="nodetrail-") as file:  # 0600
            file.write(content)
            file.flush()
            yield file.name
