"""Who asks: static bearer tokens from a file in the format of kube-apiserver's --token-auth-file."""

from __future__ import annotations

import base64
import binascii
import csv
import io
from dataclasses import dataclass

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class User:
    """A caller's name and groups."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


ANONYMOUS = User("system:anonymous", "", ("system:unauthenticated",))
OPERATOR = User("operator", "", (MASTERS, AUTHENTICATED))
"""Everybody, when there is no token file: devapi then behaves as `kubectl proxy` does for a cluster admin."""


class Users:
    """The users by their tokens."""

    def __init__(self, text: str | None) -> None:
        """Read a token file's text; None means that everybody is the operator. `ValueError` names a bad line."""
        self._open = text is None
        self._users = dict(_read(text or ""))

    def of(self, authorization: str) -> User | None:
        """Return who sends this Authorization header, None for a token that nobody has.

        Basic authentication carries the token as its password: kubectl sends no token over plain HTTP, but it
        sends what the server's URL holds (http://any:TOKEN@127.0.0.1:port).
        """
        if self._open:
            return OPERATOR
        if not authorization:
            return ANONYMOUS
        kind, _, value = authorization.partition(" ")
        if kind.lower() == "bearer":
            return self.holding(value.strip())
        if kind.lower() == "basic":
            return self.holding(_password(value))
        return None

    def holding(self, token: str) -> User | None:
        """Return whose token this is."""
        return self._users.get(token)


def _read(text: str) -> list[tuple[str, User]]:
    found = []
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row or row[0].lstrip().startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise ValueError(f"line {number} must have a token, a user and a uid, separated by commas")
        groups = [group.strip() for group in (row[3].split(",") if len(row) > 3 else []) if group.strip()]
        found.append((row[0].strip(), User(row[1].strip(), row[2].strip(), (*groups, AUTHENTICATED))))
    return found


def _password(value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
