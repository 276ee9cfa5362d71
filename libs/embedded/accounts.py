"""Who speaks to the Kubernetes API in the demo and the tests: static tokens and a kubeconfig for each account.

Our services have the accounts that production has, with their rights and no more; `kubelet` stands for the
kubelets that the simulator plays, `admin` for the operator.
"""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

NAMESPACE = "nodetrail-system"
ADMIN = "admin"
KUBELET = "kubelet"
SERVICE_ACCOUNTS = ("node-watcher", "machine-reconciler", "status-writer", "gateway")
ACCOUNTS = (ADMIN, KUBELET, *SERVICE_ACCOUNTS)


def user_of(account: str) -> str:
    """Return the name by which the API server knows an account."""
    return f"system:serviceaccount:{NAMESPACE}:{account}" if account in SERVICE_ACCOUNTS else account


def groups_of(account: str) -> tuple[str, ...]:
    """Return an account's groups; what a service may do is bound to its user name alone."""
    if account in SERVICE_ACCOUNTS:
        return ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
    return ("system:masters",)


class Accounts:
    """One token for each account, made anew for each API server."""

    def __init__(self) -> None:
        self._tokens = {account: secrets.token_hex(16) for account in ACCOUNTS}

    def token(self, account: str) -> str:
        """Return the bearer token of an account."""
        return self._tokens[account]

    def write_token_file(self, path: Path) -> None:
        """Write what `--token-auth-file` reads: token, user, uid and groups, a line each."""
        lines = (
            f'{token},{user_of(account)},{account},"{",".join(groups_of(account))}"\n'
            for account, token in self._tokens.items()
        )
        _write_private(path, "".join(lines))

    def write_kubeconfigs(self, folder: Path, *, server: str, authority: bytes = b"") -> dict[str, Path]:
        """Write a kubeconfig for each account; `authority` is the PEM that signs an https server's certificate."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = {account: folder / f"{account}.kubeconfig" for account in ACCOUNTS}
        for account, path in paths.items():
            # As JSON, which is YAML with every text in quotes: a token of digits around an `e` reads as a number.
            _write_private(path, json.dumps(self._kubeconfig(account, server, authority), indent=2))
        return paths

    def _kubeconfig(self, account: str, server: str, authority: bytes) -> dict[str, object]:
        cluster = {"server": server}
        if authority:
            cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": account, "user": {"token": self._tokens[account]}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": account}}],
            "current-context": "local",
        }


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600, exist_ok=True)
    path.write_text(text)
