"""Manifests from files and folders, as `kubectl apply -f` and the simplest of `kubectl apply -k` read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from services.devapi import bodies

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
DEPTH_MAX = 8


def read(path: Path, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file or folder; `ValueError` names the file that cannot be used."""
    if depth > DEPTH_MAX:
        raise ValueError(f"{path}: kustomizations nested more than {DEPTH_MAX} deep")
    if not path.is_dir():
        yield from _objects(path)
        return
    kustomization = next((path / name for name in _NAMES if (path / name).is_file()), None)
    if kustomization is None:
        for file in sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml", ".json"}):
            yield from _objects(file)
        return
    for resource in _resources(kustomization):
        yield from read(path / resource, depth + 1)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    for document in _documents(path):
        if not isinstance(document, dict) or "kind" not in document:
            raise ValueError(f"{path}: not a Kubernetes object")
        if document["kind"] == "List":
            yield from document.get("items") or ()
        else:
            yield document


def _resources(path: Path) -> list[str]:
    (document,) = _documents(path)
    other = sorted(document.keys() - {"apiVersion", "kind", "metadata", "resources"})
    if other:
        raise ValueError(f"{path}: devapi reads kustomizations with `resources` only, not {', '.join(other)}")
    return list(document.get("resources") or ())


def _documents(path: Path) -> list[Any]:
    try:
        return bodies.documents(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from error
