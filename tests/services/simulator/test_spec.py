"""A fleet file is validated whole, and an error names the entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.simulator.spec import FleetError, authority_from, fleet_from, read_fleet
from tests.services.simulator.sites import Cluster, encoded

GOOD = {"name": "cp-1", "addresses": ["10.0.0.1"]}


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    cluster = Cluster()
    (tmp_path / "cp.yaml").write_bytes(cluster.configuration(hostname="cp-1"))
    (tmp_path / "fleet.yaml").write_text(
        f"""
cluster_ca:
  crt: {encoded(cluster.authority.certificate_pem)}
  key: {encoded(cluster.authority.key_pem)}
nodes:
- name: cp-1
  addresses: [127.1.1.1, "::ffff:127.1.1.2"]
  uuid: 4c4c4544-0042-3510-8052-b4c04f4d3232
  macs: [B4-96-91-00-00-01]
  power: off
  configuration: cp.yaml
  troubles: {{refuse_apply: {{code: UNAVAILABLE, times: 3}}}}
  kubelet: {{delay_seconds: 2.5}}
hostile:
- {{address: 127.1.1.9, kind: slow-loris}}
"""
    )

    fleet = read_fleet(tmp_path / "fleet.yaml")

    (node,) = fleet.nodes
    assert node.addresses == ("127.1.1.1", "127.1.1.2")
    assert node.macs == ("b4:96:91:00:00:01",)
    assert not node.is_on
    assert "v1alpha1" in node.configuration_text
    assert fleet.hostile[0].kind == "slow-loris"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        pytest.param(
            {"nodes": [GOOD, {**GOOD, "name": "cp-2", "adress": 1}]}, r"nodes\[1\] \(cp-2\).*adress", id="key"
        ),
        pytest.param({"nodes": [{**GOOD, "addresses": ["10.0.0.300"]}]}, r"\(cp-1\).*10\.0\.0\.300", id="address"),
        pytest.param({"nodes": [{**GOOD, "addresses": []}]}, r"\(cp-1\).*at least one", id="no address"),
        pytest.param({"nodes": [{**GOOD, "macs": ["zz"]}]}, r"\(cp-1\).*'zz'", id="mac"),
        pytest.param({"nodes": [{**GOOD, "name": "CP 1"}]}, r"\(CP 1\).*name", id="name"),
        pytest.param({"nodes": [{**GOOD, "hostname": "a" * 64}]}, r"\(cp-1\).*63", id="hostname"),
        pytest.param({"nodes": [GOOD, GOOD]}, "'cp-1' is given more than once", id="twice"),
        pytest.param({"nodes": [{**GOOD, "configuration": "no.yaml"}]}, r"\(cp-1\).*no\.yaml", id="file"),
        pytest.param({"nodes": [{**GOOD, "configuration_text": "{"}]}, r"\(cp-1\).*configuration.*YAML", id="yaml"),
        pytest.param({"nodes": [{**GOOD, "kubelet": {"addresses": ["x"]}}]}, r"\(cp-1\): kubelet.*'x'", id="kubelet"),
        pytest.param(
            {"nodes": [{**GOOD, "troubles": {"refuse_apply": {"code": "NO"}}}]},
            r"\(cp-1\).*'NO' is not a gRPC",
            id="code",
        ),
        pytest.param({"hostile": [{"address": "10.0.0.1", "kind": "rude"}]}, r"hostile\[0\].*rude", id="kind"),
        pytest.param({"nodes": {}, "hosts": []}, "hosts", id="unknown part"),
        pytest.param({"nodes": "cp-1"}, "nodes: must be a list", id="no list"),
        pytest.param({"cluster_ca": {"crt": "aGk=", "key": "aGk="}}, "cluster_ca: the certificate", id="authority"),
        pytest.param(["cp-1"], "a fleet is a mapping", id="no mapping"),
    ],
)
def test_an_error_names_the_entry(broken: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=said):
        authority_from(fleet_from(broken, folder=tmp_path).cluster_ca)


def test_a_file_that_is_missing_or_no_yaml_says_so(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="cannot read the fleet file"):
        read_fleet(tmp_path / "none.yaml")
    (tmp_path / "fleet.yaml").write_text("nodes: [")
    with pytest.raises(FleetError, match="not YAML"):
        read_fleet(tmp_path / "fleet.yaml")
