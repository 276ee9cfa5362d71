"""One of our services as a child process: its settings, the address it says it listens on, its readiness."""

from __future__ import annotations

import http.client
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from libs.embedded.ports import LOOPBACK
from libs.embedded.process import STOP_SECONDS, Process, ProcessError

LISTEN_SECONDS = 30.0
READY_SECONDS = 60.0
PREFIX = "NODETRAIL_"
ROOT = Path(__file__).resolve().parents[2]

# The first log line is `listening` with address=host:port, as text or as JSON, whichever key comes first.
_LISTENING = re.compile(
    r"^(?=.*\blistening\b).*?\baddress\b\W{1,8}?(?P<host>\[[0-9a-f:]+\]|[0-9a-z.-]+):(?P<port>\d+)", re.MULTILINE
)


class ServiceProcess:
    """`python -m services.<name>` with settings of its own and none of ours."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, object],
        *,
        log_file: Path,
        kubeconfig: Path | None = None,
        label: str = "",
        root: Path = ROOT,
    ) -> None:
        """`settings` are those of the environment without prefix, in any case; `root` holds `services`."""
        self.name = name
        self.label = label or name
        self._address: tuple[str, int] | None = None
        own = {"LISTEN": f"{LOOPBACK}:0", "LOG_FORMAT": "json"} | {key.upper(): str(v) for key, v in settings.items()}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX) and k != "KUBECONFIG"}
        self._environ = inherited | {PREFIX + key: text for key, text in own.items()} | {"PYTHONUNBUFFERED": "1"}
        if kubeconfig is not None:
            self._environ["KUBECONFIG"] = str(kubeconfig)
        self.process = Process(
            self.label,
            [sys.executable, "-m", f"services.{name}"],
            log_file=log_file,
            environ=self._environ,
            folder=root,
        )

    @property
    def url(self) -> str:
        """Where it serves health and metrics (and its own HTTP, if it has one); waits for it to listen."""
        host, port = self._listens()
        return f"http://{host}:{port}"

    @property
    def log_text(self) -> str:
        """What this run has logged so far."""
        return self.process.log_text()

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start it and return at once."""
        self._address = None
        self.process.start()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until `/readyz` says so; `ProcessError` repeats what it waits for."""
        self._listens()
        last = ""

        def ready() -> bool:
            nonlocal last
            status, last = self.get("/readyz")
            return status == http.HTTPStatus.OK

        try:
            self.process.wait_until(ready, what="is ready", seconds=seconds)
        except ProcessError as error:
            raise ProcessError(f"{error}\nits last /readyz: {last.strip() or 'no answer'}") from None

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of one GET; status 0 when nothing answers (now)."""
        host, port = self._listens()
        connection = http.client.HTTPConnection(host, port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """End it with SIGTERM and return its exit code; one that hangs is killed."""
        return self.process.stop(seconds)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    def _listens(self) -> tuple[str, int]:
        if self._address is None:
            self.process.wait_until(self._find_address, what="listens", seconds=LISTEN_SECONDS)
        if self._address is None:
            raise ProcessError(f"{self.label} never said where it listens")
        return self._address

    def _find_address(self) -> bool:
        line = _LISTENING.search(self.process.log_text())
        if line is not None:
            self._address = line["host"].strip("[]"), int(line["port"])
        return line is not None
