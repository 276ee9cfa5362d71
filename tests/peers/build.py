"""The real servers and tools that tests need, from their Go modules: found, or built once into a cache folder.

What the machine offers comes first: `KUBEBUILDER_ASSETS` (a folder with `kube-apiserver` and `etcd`, perhaps
`kubectl`) and a `talosctl` v1.13 on the path. Everything else is kept under a key made of go.mod, go.sum, the
Go version and the flags, so that a change of any of them builds anew and nothing else does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
KUBERNETES = "v1.37.2"
TALOS_MINOR = "v1.13"
PROGRESS_SECONDS = 30.0
_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR = KUBERNETES[1:].split(".")[:2]
# Without these Kubernetes' programs call themselves v0.0.0-master, and `kubectl version` fails on that.
_KUBERNETES_VARIABLES = (
    f"-X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
)

Say = Callable[[str], None]


class PeersError(Exception):
    """A program is missing or could not be built; the text names the next step."""


@dataclass(frozen=True)
class Recipe:
    """How one program is built, and how long that takes with nothing cached on two cores."""

    program: str
    module: str
    package: str
    usual_minutes: float
    variables: str = ""
    cgo: bool = True

    @property
    def ldflags(self) -> str:
        """What the linker is told."""
        return f"-s -w {self.variables}".strip()


RECIPES = {
    recipe.program: recipe
    for recipe in (
        Recipe("etcd", "kubernetes", "go.etcd.io/etcd/server/v3", 1.5),
        Recipe("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 10, _KUBERNETES_VARIABLES),
        Recipe("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", 1, _KUBERNETES_VARIABLES),
        Recipe("talosctl", "talosctl", "github.com/siderolabs/talos/cmd/talosctl", 6, cgo=False),
    )
}


@dataclass(frozen=True)
class Peers:
    """Where the programs are."""

    kube_apiserver: Path
    etcd: Path
    kubectl: Path
    talosctl: Path


def find() -> Peers:
    """Return what is there already; `PeersError` says how to get what is missing. Builds nothing."""
    return _peers(_found)


def build(say: Say = print) -> Peers:
    """Return the programs, building first what is missing; parallel runs wait for each other."""
    return _peers(lambda recipe: _offered(recipe) or _built(recipe, say))


def _peers(get: Callable[[Recipe], Path]) -> Peers:
    return Peers(
        etcd=get(RECIPES["etcd"]),
        kube_apiserver=get(RECIPES["kube-apiserver"]),
        kubectl=get(RECIPES["kubectl"]),
        talosctl=get(RECIPES["talosctl"]),
    )


def _found(recipe: Recipe) -> Path:
    path = _offered(recipe) or _target(recipe)
    if not path.exists():
        raise PeersError(f"{recipe.program} is not built: run `python -m tests.peers` (or `make peers`) once")
    return path


def _offered(recipe: Recipe) -> Path | None:
    """Return what the machine offers of itself, if that is what tests need."""
    if recipe.program == "talosctl":
        return _talosctl_on_path()
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None
    offered = Path(assets) / recipe.program
    if offered.exists():
        return offered
    if recipe.program == "kubectl":  # not part of the convention
        return None
    raise PeersError(f"KUBEBUILDER_ASSETS is {assets}, which has no {recipe.program}: mend or unset it")


def _talosctl_on_path() -> Path | None:
    offered = shutil.which("talosctl")
    if offered is None:
        return None
    answer = subprocess.run([offered, "version", "--client"], capture_output=True, text=True, timeout=30, check=False)
    return Path(offered) if re.search(rf"\b{re.escape(TALOS_MINOR)}\.", answer.stdout) else None


def _target(recipe: Recipe) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "nodetrail" / "peers" / f"{recipe.module}-{_key(recipe.module)}" / recipe.program


def _key(module: str) -> str:
    digest = hashlib.sha256(_go("version").encode())
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / module / name).read_bytes())
    for recipe in RECIPES.values():
        if recipe.module == module:
            digest.update(repr(recipe).encode())
    return digest.hexdigest()[:16]


def _go(*words: str) -> str:
    try:
        return subprocess.run(["go", *words], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise PeersError(
            "no go command, which builds kube-apiserver, etcd, kubectl and talosctl for the tests: install Go 1.26 "
            f"or newer, or set KUBEBUILDER_ASSETS and put talosctl {TALOS_MINOR} on the path"
        ) from None


def _built(recipe: Recipe, say: Say) -> Path:
    target = _target(recipe)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent, say):
        if not target.exists():
            _compile(recipe, target, say)
    return target


@contextmanager
def _lock(folder: Path, say: Say) -> Iterator[None]:
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run builds into {folder}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(recipe: Recipe, target: Path, say: Say) -> None:
    part, log = target.with_name(f".{target.name}.part"), target.with_name(f"{target.name}.log")
    say(
        f"building {recipe.program}, once: about {recipe.usual_minutes:g} minutes on two cores, "
        f"less with a warm Go cache (log: {log})"
    )
    # The committed go.mod and go.sum are complete; the copies keep the go command from touching them all the same.
    with tempfile.TemporaryDirectory() as copies, log.open("w") as output:
        for name in ("go.mod", "go.sum"):
            shutil.copy(HERE / recipe.module / name, copies)
        child = subprocess.Popen(
            [
                *("go", "build", f"-modfile={copies}/go.mod", "-mod=mod", "-buildvcs=false", "-trimpath"),
                *("-ldflags", recipe.ldflags, "-o", str(part), recipe.package),
            ],
            cwd=HERE / recipe.module,
            env=os.environ | {"GOWORK": "off", "CGO_ENABLED": "1" if recipe.cgo and shutil.which("gcc") else "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        code = _wait(child, recipe, say)
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise PeersError(f"`go build {recipe.package}` failed with {code}; the end of {log}:\n{tail}")
    part.rename(target)


def _wait(child: subprocess.Popen[bytes], recipe: Recipe, say: Say) -> int:
    begun = time.monotonic()
    try:
        while True:
            try:
                code = child.wait(PROGRESS_SECONDS)
            except subprocess.TimeoutExpired:
                minutes = (time.monotonic() - begun) / 60
                say(f"  {recipe.program}: {minutes:.1f} of about {recipe.usual_minutes:g} minutes")
            else:
                say(f"  {recipe.program}: done after {time.monotonic() - begun:.0f} s")
                return code
    finally:
        child.kill()
