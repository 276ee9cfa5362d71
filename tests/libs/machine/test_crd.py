"""The CustomResourceDefinition: generated, committed as generated, and structural."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from libs.machine import crd


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def fields(part: str) -> dict[str, dict[str, Any]]:
    made = crd.spec_schema() if part == "spec" else crd.status_schema()
    return dict(nodes(made, part))


def test_the_committed_file_is_what_the_types_give() -> None:
    assert crd.PATH.read_text() == crd.text(), "run `python -m libs.machine.crd`"


def test_check_says_when_the_file_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crd, "PATH", tmp_path / "crds" / "talosmachines.yaml")
    assert crd.main(["--check"]) == 1
    assert "run `python -m libs.machine.crd`" in capsys.readouterr().err
    assert crd.main([]) == 0
    assert crd.main(["--check"]) == 0
    crd.PATH.write_text(crd.PATH.read_text() + "#\n")
    assert crd.main(["--check"]) == 1
    assert crd.main(["--chekc"]) == 2


def test_the_text_is_yaml_of_the_definition() -> None:
    assert yaml.safe_load(crd.text()) == crd.definition()


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_is_structural(part: str) -> None:
    for path, node in fields(part).items():
        assert node["type"], path
        assert not {"$ref", "anyOf", "title", "default", "nullable"} & node.keys(), path
        if node["type"] == "array":
            assert node["x-kubernetes-list-type"], path
        if node["type"] == "integer":
            assert node["format"] == "int64", path


def test_spec_fields_are_those_of_the_design() -> None:
    assert fields("spec").keys() >= {
        "spec.endpoint",
        "spec.identity.uuid",
        "spec.identity.serialNumber",
        "spec.identity.macAddresses[]",
        "spec.hostname",
        "spec.approved",
        "spec.maintenanceFingerprint",
        "spec.configuration.secretRef.key",
        "spec.configuration.apply",
        "spec.configuration.enforce",
        "spec.talosconfig.secretRef.name",
        "spec.operation.action",
    }


def test_every_field_that_an_operator_sets_is_explained() -> None:
    schema = crd.spec_schema()
    assert [name for name, node in schema["properties"].items() if not node.get("description")] == []


def test_conditions_merge_by_type_and_no_other_list_merges() -> None:
    kinds = {path: node["x-kubernetes-list-type"] for path, node in fields("status").items() if node["type"] == "array"}
    assert kinds.pop("status.conditions") == "map"
    assert set(kinds.values()) == {"atomic"}
    assert fields("status")["status.conditions"]["x-kubernetes-list-map-keys"] == ["type"]


def test_every_rule_names_its_field() -> None:
    for path, node in fields("spec").items():
        for rule in node.get("x-kubernetes-validations", ()):
            named = path.removesuffix("[]").split(".")[-1]
            assert named in rule["message"], path


def test_a_person_sees_where_a_machine_is_and_how_it_fares() -> None:
    [version] = crd.definition()["spec"]["versions"]
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["Endpoint", "Observed", "Ready", "Reason", "Node", "Age"]
    assert version["subresources"] == {"status": {}}
