"""The committed protobuf modules are those of proto/, under Talos's names on the wire."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from libs.talos import generate
from libs.talos.pb import machine_pb2, state_pb2


def test_the_committed_modules_are_current() -> None:
    subprocess.run([sys.executable, "-m", "libs.talos.generate", "--check"], check=True, timeout=120)


def test_a_change_is_noticed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("proto", "libs/talos/pb"):
        shutil.copytree(generate.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "libs/talos/pb/old_pb2.py").touch()
    definition = tmp_path / "proto/common.proto"
    definition.write_text(definition.read_text() + "\nmessage Added {}\n")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "SOURCES", tmp_path / "proto")
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 1
    assert "common_pb2.py" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["generate"])
    assert generate.main() == 0
    assert "Added" in (tmp_path / "libs/talos/pb/common_pb2.pyi").read_text()
    assert not (tmp_path / "libs/talos/pb/old_pb2.py").exists()
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 0


@pytest.mark.parametrize(
    ("descriptor", "name"),
    [
        (machine_pb2.DESCRIPTOR.services_by_name["MachineService"], "machine.MachineService"),
        (state_pb2.DESCRIPTOR.services_by_name["State"], "cosi.resource.State"),
    ],
)
def test_services_have_talos_names(descriptor: Any, name: str) -> None:
    assert descriptor.full_name == name
