"""Writes `libs/talos/pb` from `proto/`: `python -m libs.talos.generate`, with `--check` only compares.

Needs the development packages (grpcio-tools, mypy-protobuf). The files are mapped to the path that they get as
modules, so that the generated modules and their stubs import each other by their real names.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import grpc_tools  # type: ignore[import-untyped] # grpcio-tools ships no types
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "proto"
PACKAGE = Path("libs/talos/pb")
DOCSTRING = '"""Generated from `proto/` by `python -m libs.talos.generate`; never edited by hand."""\n'


class GenerateError(Exception):
    """protoc refused the definitions; what it said is on standard error."""


def generate(target: Path) -> dict[str, str]:
    """Run protoc into `target` and return the generated files' text by name."""
    services = [path for path in _sources() if "\nservice " in path.read_text()]
    includes = [f"-I{PACKAGE}={SOURCES}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
    plugin = f"--plugin=protoc-gen-mypy={_tool('protoc-gen-mypy')}"
    grpc_plugin = f"--plugin=protoc-gen-mypy_grpc={_tool('protoc-gen-mypy_grpc')}"
    _protoc(
        includes,
        [plugin, f"--python_out={target}", f"--mypy_out=quiet:{target}"],
        _sources(),
    )
    _protoc(
        includes,
        [grpc_plugin, f"--grpc_python_out={target}", f"--mypy_grpc_out=quiet:{target}"],
        services,
    )
    made = {path.name: path.read_text() for path in sorted((target / PACKAGE).iterdir())}
    return made | {"__init__.py": DOCSTRING}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="only say whether the committed files are current")
    check = arguments.parse_args().check
    package = ROOT / PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        made = generate(Path(folder))
    present = {path.name: path.read_text() for path in package.glob("*.py*") if path.is_file()}
    changed = sorted(name for name in made.keys() | present.keys() if made.get(name) != present.get(name))
    if check and changed:
        sys.stderr.write(f"out of date in {PACKAGE}: {', '.join(changed)}; run `make generate`\n")
        return 1
    if not check:
        package.mkdir(exist_ok=True)
        for name in changed:
            _write(package / name, made.get(name))
    return 0


def _sources() -> list[Path]:
    return sorted(SOURCES.glob("*.proto"))


def _protoc(includes: list[str], outputs: list[str], sources: list[Path]) -> None:
    names = [str(PACKAGE / path.name) for path in sources]
    if protoc.main(["protoc", *includes, *outputs, *names]) != 0:
        raise GenerateError(f"protoc refused {', '.join(path.name for path in sources)}")


def _tool(name: str) -> str:
    """The plugin beside our own interpreter, so that no other version on the PATH is taken."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise GenerateError(f"{name} is missing: install tests/requirements.lock")
    return found


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
