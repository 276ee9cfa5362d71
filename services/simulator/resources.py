"""What a node's resources say, as a function of what the node is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.talos import serve
from libs.talos.serve import specs

DEFINITIONS = serve.definition_specs()


@dataclass(frozen=True)
class Shown:
    """The facts that resources are made of; addresses are prefixes."""

    uuid: str
    serial: str
    has_smbios: bool
    maker: tuple[str, str, str]
    links: Sequence[specs.Link]
    addresses: Sequence[str]
    accumulated: Sequence[str]
    hostname: str
    stage: str
    kind: str
    is_configured: bool
    configuration: bytes | None
    """What was applied, complete or not."""
    version: str


def resources_of(shown: Shown) -> Mapping[serve.Key, serve.Spec]:
    """Return all resources of a node that is up."""
    found: dict[serve.Key, serve.Spec] = dict(DEFINITIONS)
    if shown.has_smbios:
        maker, product, version = shown.maker
        found |= specs.system_information(
            uuid=shown.uuid, serial=shown.serial, manufacturer=maker, product=product, version=version
        )
    found |= specs.loopback_status()
    for index, link in enumerate(shown.links, start=2):
        found |= specs.link_status(index, link)
    if shown.links:
        for address in shown.addresses:
            found |= specs.address_status(2, shown.links[0].name, address)
    found |= specs.node_addresses(current=shown.addresses, accumulative=shown.accumulated)
    found |= specs.machine_status(shown.stage)
    found |= specs.machine_type(shown.kind)
    found |= specs.version(shown.version)
    found |= specs.api_service_config(in_maintenance=not shown.is_configured)
    if shown.hostname:
        found |= specs.hostname_status(shown.hostname)
    if shown.is_configured:
        found |= specs.nodename(shown.hostname)
    else:
        found |= specs.maintenance_request()
    if shown.configuration is not None:
        for id_ in ("v1alpha1", "persistent"):
            found |= specs.machine_config(id_, shown.configuration)
    return found
