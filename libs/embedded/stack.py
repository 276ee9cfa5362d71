"""Several parts in one folder: started side by side, stopped in reverse order, each with a log of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from libs.embedded.accounts import ADMIN, KUBELET, SERVICE_ACCOUNTS, Accounts
from libs.embedded.nats_server import NatsServer
from libs.embedded.ports import LOOPBACK, free_ports
from libs.embedded.process import STOP_SECONDS, Process
from libs.embedded.service import ServiceProcess

ACCOUNT_OF = {"simulator": KUBELET} | {name.replace("-", "_"): name for name in SERVICE_ACCOUNTS}
"""The Kubernetes account that each service uses; those not named here use none."""
WITHOUT_NATS = ("devapi", "simulator")


class Part(Protocol):
    """What a stack starts: `spawn` returns at once, `wait_ready` waits."""

    @property
    def process(self) -> Process: ...
    def spawn(self) -> None: ...
    def wait_ready(self) -> None: ...


class Stack:
    """Parts and what they share: the NATS server, an API server's kubeconfigs, a folder for logs and data.

    Use it as a context manager: whatever was started is stopped at the end, however the block ends.
    """

    def __init__(self, folder: Path, *, kubeconfigs: Mapping[str, Path] | None = None) -> None:
        """`kubeconfigs` are those of an API server that runs elsewhere; `dev_api` makes them otherwise."""
        self.folder = folder
        self.kubeconfigs: dict[str, Path] = dict(kubeconfigs or {})
        self.nats: NatsServer | None = None
        self._started: list[Sequence[Part]] = []
        self._labels: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def nats_server(self, *, config: str = "") -> NatsServer:
        """Make the NATS server that services made after it are told of."""
        self.nats = NatsServer(self.folder / "nats", config=config, log_file=self._log_file("nats-server"))
        return self.nats

    def dev_api(self, *, manifests: Sequence[Path] = ()) -> ServiceProcess:
        """Make the embedded API server and a kubeconfig for each account; it keeps its port when restarted."""
        (port,) = free_ports(1)
        accounts, tokens = Accounts(), self.folder / "tokens.csv"
        self.folder.mkdir(parents=True, exist_ok=True)
        accounts.write_token_file(tokens)
        self.kubeconfigs = accounts.write_kubeconfigs(self.folder / "kubeconfigs", server=f"http://{LOOPBACK}:{port}")
        # Over plain HTTP kubectl keeps a kubeconfig's token to itself and sends what the URL holds.
        with_token = f"http://kubectl:{accounts.token(ADMIN)}@{LOOPBACK}:{port}"
        self.kubeconfigs["kubectl"] = accounts.write_kubeconfigs(self.folder / "kubectl", server=with_token)[ADMIN]
        settings: dict[str, object] = {"listen": f"{LOOPBACK}:{port}", "tokens": tokens}
        if manifests:
            settings["manifests"] = ",".join(map(str, manifests))
        return self.service("devapi", **settings)

    def service(self, name: str, /, **settings: object) -> ServiceProcess:
        """Make one of our services with its account and these settings (`ranges=...`); start it with `start`."""
        if self.nats is not None and name not in WITHOUT_NATS:
            settings = {"nats_url": self.nats.url} | settings
        count = self._labels[name] = self._labels.get(name, 0) + 1
        label = name if count == 1 else f"{name}-{count}"
        account = ACCOUNT_OF.get(name)
        return ServiceProcess(
            name,
            settings,
            label=label,
            log_file=self._log_file(label),
            kubeconfig=self.kubeconfigs.get(account) if account else None,
        )

    def start(self, *parts: Part) -> None:
        """Start these side by side and wait until all are ready; they are stopped before those started earlier."""
        self._started.append(parts)
        for part in parts:
            part.spawn()
        for part in parts:
            part.wait_ready()

    def ended(self) -> list[Process]:
        """Return what was started and runs no more, though nobody stopped it here."""
        return [part.process for together in self._started for part in together if not part.process.is_running]

    def stop(self) -> None:
        """Stop everything, the latest first, those that were started together at once. Safe to repeat."""
        while self._started:
            together = self._started.pop()
            for part in together:
                part.process.send(signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            for part in together:
                part.process.stopped(max(0.0, deadline - time.monotonic()))

    def _log_file(self, label: str) -> Path:
        return self.folder / "logs" / f"{label}.log"
