"""Fleets for tests: addresses that no other test uses, configurations and credentials of a cluster."""

from __future__ import annotations

import base64
import itertools
import os
from dataclasses import dataclass, field

import yaml

from libs import talos
from libs.endpoint import Endpoint
from libs.identity import Identity
from libs.talos import serve
from services.simulator.box import Box
from services.simulator.spec import NodeSpec

SECONDS = 5.0
_counter = itertools.count(1)


def new_subnet() -> str:
    """The first three numbers of loopback addresses that no other worker and no other test of this run uses."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    number = next(_counter)
    return f"127.{40 + worker * 2 + number // 250}.{number % 250}"


@dataclass
class Cluster:
    """A cluster's authority, and what is made with it."""

    authority: serve.Authority = field(default_factory=serve.Authority.for_cluster)

    def configuration(self, kind: str = "controlplane", *, hostname: str = "", **machine: object) -> bytes:
        """A machine configuration as short as one may be; a worker's holds no key of the cluster."""
        ca = {"crt": encoded(self.authority.certificate_pem)}
        if kind == "controlplane":
            ca["key"] = encoded(self.authority.key_pem)
        documents: list[dict[str, object]] = [
            {
                "version": "v1alpha1",
                "machine": {"type": kind, "token": "abcdef.0123456789abcdef", "ca": ca, **machine},
                "cluster": {"controlPlane": {"endpoint": "https://cluster.example:6443"}},
            }
        ]
        if hostname:
            documents.append({"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": hostname})
        return yaml.safe_dump_all(documents, sort_keys=False).encode()

    def talosconfig(self, *roles: str, endpoint: str = "127.0.0.1") -> bytes:
        """A talosconfig with a client certificate of these roles, an administrator's by default."""
        client = self.authority.issue_client(roles or (serve.Role.ADMIN,))
        context = {
            "endpoints": [endpoint],
            "ca": encoded(self.authority.certificate_pem),
            "crt": encoded(client.certificate_pem),
            "key": encoded(client.key_pem.replace(b" PRIVATE KEY", b" ED25519 PRIVATE KEY")),
        }
        return yaml.safe_dump({"context": "test", "contexts": {"test": context}}).encode()

    def credentials(self, *roles: str) -> talos.Credentials:
        return talos.parse_talosconfig(self.talosconfig(*roles))


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def endpoint_of(box: Box) -> Endpoint:
    return Endpoint(box.node.addresses[0], box.node.spec.port)


def identity_of(box: Box) -> Identity:
    return Identity(uuid=box.node.uuid, serial_number=box.node.serial, mac_addresses=box.node.macs)


def node(name: str, *addresses: str, **more: object) -> NodeSpec:
    """A box that installs at once."""
    return NodeSpec(name=name, addresses=addresses, **({"install_seconds": 0.05} | more))  # type: ignore[arg-type]  # the test says which
