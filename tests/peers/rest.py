"""The few requests that running an API server takes, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any


class Rest:
    """One account at one API server, over a connection that is kept; not for several threads at once."""

    def __init__(self, port: int, *, authority: str, token: str) -> None:
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=10, context=ssl.create_default_context(cadata=authority)
        )
        self._token = token

    def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Return status and decoded body (`{"text": ...}` when it is not JSON); raises `OSError` when away."""
        data = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise OSError(f"{method} {path}: {error!r}") from error
        try:
            decoded: dict[str, Any] = json.loads(text)
        except ValueError:
            decoded = {"text": text}
        return answer.status, decoded

    def must(self, method: str, path: str, body: object = None, kind: str = "application/json") -> dict[str, Any]:
        """Return the body of a request that has to succeed."""
        status, answer = self.ask(method, path, body, kind)
        if status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
