"""A real kube-apiserver with its etcd: on free ports, with an account for each service, wiped between tests."""

from __future__ import annotations

import http
import shutil
import time
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from libs.embedded.accounts import ADMIN, NAMESPACE, Accounts
from libs.embedded.ports import LOOPBACK, free_ports
from libs.embedded.process import Process, ProcessError
from tests.peers.build import Peers
from tests.peers.rest import Rest

READY_SECONDS = 60.0
GONE_SECONDS = 30.0
POLL_SECONDS = 0.02
STARTS_MAX = 3
KEPT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system", NAMESPACE, "nodetrail")
MACHINES = "apis/nodetrail.dev/v1alpha1"
# What tests and services make, by group and kind; none of it is looked after by a controller here.
_NAMESPACED = (
    (MACHINES, "talosmachines"),
    ("api/v1", "secrets"),
    ("api/v1", "configmaps"),
    ("api/v1", "events"),
    ("apis/coordination.k8s.io/v1", "leases"),
)


class KubeApi:
    """One API server; `start` returns when it serves, and a stopped one can be started again with its data."""

    def __init__(self, peers: Peers, folder: Path) -> None:
        """Keep data, keys, kubeconfigs and logs in `folder`."""
        self.folder = folder
        self.accounts = Accounts()
        self.kubeconfigs: dict[str, Path] = {}
        self.port = 0
        self._peers = peers
        self._etcd: Process | None = None
        self._server: Process | None = None
        self._admin: Rest | None = None

    def start(self) -> None:
        """Start etcd and the API server and wait until it is ready."""
        self._prepare()
        for left in reversed(range(STARTS_MAX)):
            try:
                self._start_both()
            except ProcessError:
                self.stop()
                if not left:
                    raise
                continue  # somebody took a port between its choice and its use
            return

    def stop(self) -> None:
        """Stop the API server, then etcd: in this order, or the API server hangs for a minute."""
        self.stop_server()
        if self._etcd is not None:
            self._etcd.stop()

    def start_server(self) -> None:
        """Start the API server again, at its old port, and wait until it is ready."""
        if self._server is None:
            raise ProcessError("kube-apiserver was never started: call start")
        self._server.start()
        self._wait_ready(self._server)

    def stop_server(self, *, seconds: float = 15.0) -> None:
        """Stop the API server alone; what it stored stays. With `seconds=0` it is killed."""
        if self._admin is not None:
            self._admin.close()
        if self._server is not None:
            self._server.stop(seconds)

    @property
    def is_running(self) -> bool:
        """Whether the API server was started and not stopped since."""
        return self._server is not None and self._server.is_running

    @property
    def admin(self) -> Rest:
        """Requests as a cluster admin."""
        if self._admin is None:
            raise ProcessError("kube-apiserver does not run: call start")
        return self._admin

    def rest(self, account: str) -> Rest:
        """Return requests as one of `libs.embedded.accounts`."""
        authority = (self.folder / "certs" / "apiserver.crt").read_text()
        return Rest(self.port, authority=authority, token=self.accounts.token(account))

    def wipe(self) -> None:
        """Delete every machine, Node, Secret, ConfigMap, Event and Lease of tests and services, and their namespaces.

        Returns when all of it is gone.
        """
        deadline = time.monotonic() + GONE_SECONDS
        while left := self._delete_what_is_there():
            if time.monotonic() > deadline:
                raise ProcessError(f"not gone after {GONE_SECONDS:g} s (finalizers?): {', '.join(left[:10])}")
            time.sleep(POLL_SECONDS)

    def _delete_what_is_there(self) -> list[str]:
        """Ask once for the end of everything; return what was still there."""
        found = []
        for group, plural in _NAMESPACED:
            status, answer = self.admin.ask("GET", f"/{group}/{plural}")
            if status == http.HTTPStatus.NOT_FOUND:  # no CRD yet
                continue
            if status != http.HTTPStatus.OK:  # just started again, its storage is still being read
                found.append(f"{plural} (listing them gave {status})")
                continue
            namespaces = {item["metadata"]["namespace"] for item in answer["items"]} - {"kube-system"}
            for namespace in namespaces:
                self.admin.must("DELETE", f"/{group}/namespaces/{namespace}/{plural}")
            found += [f"{plural} in {namespace}" for namespace in namespaces]
        if self.admin.must("GET", "/api/v1/nodes?limit=1")["items"]:
            self.admin.must("DELETE", "/api/v1/nodes")
            found.append("nodes")
        for item in self.admin.must("GET", "/api/v1/namespaces")["items"]:
            name = item["metadata"]["name"]
            if name not in KEPT_NAMESPACES:
                self._delete_namespace(name)
                found.append(f"namespace {name}")
        return found

    def _delete_namespace(self, name: str) -> None:
        """Delete and finalise: no controller does the second here."""
        path = f"/api/v1/namespaces/{name}"
        self.admin.ask("DELETE", path)
        status, namespace = self.admin.ask("GET", path)
        if status == http.HTTPStatus.OK:
            self.admin.ask("PUT", f"{path}/finalize", namespace | {"spec": {"finalizers": []}})

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.accounts.write_token_file(self.folder / "tokens.csv")
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "service-account.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )

    def _start_both(self) -> None:
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        clients, peers, self.port = free_ports(3)
        self._admin = None
        self._etcd = Process(
            "etcd",
            [
                self._peers.etcd,
                *("--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
                *("--listen-client-urls", f"http://{LOOPBACK}:{clients}"),
                *("--advertise-client-urls", f"http://{LOOPBACK}:{clients}"),
                *("--listen-peer-urls", f"http://{LOOPBACK}:{peers}"),
                *("--initial-advertise-peer-urls", f"http://{LOOPBACK}:{peers}"),
                *("--initial-cluster", f"default=http://{LOOPBACK}:{peers}"),
            ],
            log_file=self.folder / "etcd.log",
        )
        self._server = Process(
            "kube-apiserver", self._server_argv(clients), log_file=self.folder / "kube-apiserver.log"
        )
        self._etcd.start()
        self._server.start()
        self._wait_ready(self._server)

    def _server_argv(self, etcd_port: int) -> list[str | Path]:
        key = self.folder / "service-account.key"
        return [
            self._peers.kube_apiserver,
            *("--etcd-servers", f"http://{LOOPBACK}:{etcd_port}"),
            *("--bind-address", LOOPBACK, "--secure-port", str(self.port), "--cert-dir", self.folder / "certs"),
            *("--service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            *("--service-account-key-file", key, "--service-account-signing-key-file", key),
            *("--token-auth-file", self.folder / "tokens.csv", "--authorization-mode", "RBAC"),
            *("--service-cluster-ip-range", "10.255.0.0/24", "--disable-admission-plugins", "ServiceAccount"),
            *("--endpoint-reconciler-type", "none", "--shutdown-delay-duration", "0s"),
        ]

    def _wait_ready(self, server: Process) -> None:
        server.wait_until(self._is_ready, what="is ready", seconds=READY_SECONDS)
        authority = (self.folder / "certs" / "apiserver.crt").read_bytes()
        self.kubeconfigs = self.accounts.write_kubeconfigs(
            self.folder / "kubeconfigs", server=f"https://{LOOPBACK}:{self.port}", authority=authority
        )

    def _is_ready(self) -> bool:
        try:
            self._admin = self._admin or self.rest(ADMIN)
            return self._admin.ask("GET", "/readyz")[0] == http.HTTPStatus.OK
        except OSError:  # no certificate yet, or nothing listens
            return False
