"""Machine configurations and talosconfigs, from the Secrets that a machine's spec names.

What was read is kept for a while, so that reads of nodes go on when the API server does not answer and a
machine in a hurry does not wait for it. Texts name Secret and key; content leaves here only to a node.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

from libs import kube, talos
from libs.machine import SecretKey, TalosMachine
from services.machine_reconciler.facts import Content

FRESH_SECONDS = 10.0
"""What was read this recently is not read again for a routine round."""
KEPT_BYTES_MAX = 64 * 1024 * 1024
_ENTRY_BYTES = 1024  # an entry weighs more than its content


class Reader(Protocol):
    """The part of the Kubernetes API that is used here."""

    async def get(self, resource: kube.Resource[kube.Secret], name: str, namespace: str = "") -> kube.Secret: ...


@dataclass(frozen=True)
class Materials:
    """The content behind a machine's two references, and what may be said about it."""

    configuration: Content | None = None
    talosconfig: Content | None = None
    data: bytes = field(default=b"", repr=False)
    """The machine configuration, if usable."""
    credentials: talos.Credentials | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Kept:
    content: Content
    value: Any = field(repr=False)
    version: str
    read_at: float
    size: int


class Secrets:
    """Reads Secrets at need; keeps a bounded amount."""

    def __init__(self, api: Reader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str, str, str], _Kept] = OrderedDict()
        self._size = 0
        self._credentials: WeakValueDictionary[str, talos.Credentials] = WeakValueDictionary()
        """By the talosconfig's hash: a cluster's machines share one, whatever Secrets it is in."""

    async def of(self, machine: TalosMachine, *, fresh_seconds: float = FRESH_SECONDS) -> Materials:
        """Return what the machine's references lead to, read again if older than that.

        Raises `kube.Unavailable` when nothing is known and the API server does not answer; with
        `fresh_seconds=0` whenever it does not answer.
        """
        spec, namespace = machine.spec, machine.metadata.namespace
        config_ref = spec.configuration.secret_ref if spec.configuration else None
        talosconfig_ref = spec.talosconfig.secret_ref if spec.talosconfig else None
        configuration, talosconfig = await asyncio.gather(
            self._get(namespace, config_ref, self._checked, fresh_seconds),
            self._get(namespace, talosconfig_ref, self._parsed, fresh_seconds),
        )
        return Materials(
            configuration=configuration.content if configuration else None,
            talosconfig=talosconfig.content if talosconfig else None,
            data=configuration.value if configuration and configuration.value else b"",
            credentials=talosconfig.value if talosconfig else None,
        )

    async def _get(
        self, namespace: str, ref: SecretKey | None, parse: Callable[[bytes], Any], fresh_seconds: float
    ) -> _Kept | None:
        if ref is None:
            return None
        place = (namespace, ref.name, ref.key, parse.__name__)
        kept = self._kept.get(place)
        if kept is not None and self._clock() - kept.read_at < fresh_seconds:
            self._kept.move_to_end(place)
            return kept
        try:
            read = await self._read(namespace, ref, parse, kept)
        except kube.Unavailable:
            if kept is None or not fresh_seconds:
                raise
            return kept
        self._keep(place, read)
        return read

    async def _read(self, namespace: str, ref: SecretKey, parse: Callable[[bytes], Any], kept: _Kept | None) -> _Kept:
        where = f"key {ref.key} of Secret {namespace}/{ref.name}"
        try:
            secret = await self._api.get(kube.SECRETS, ref.name, namespace)
        except kube.Unavailable:
            raise
        except kube.KubeError as error:
            return _problem(f"{where}: {_why_not_read(error, namespace)}")
        version = f"{secret.metadata.uid}/{secret.metadata.resource_version}"
        if kept is not None and kept.version == version:
            return _Kept(kept.content, kept.value, version, self._clock(), kept.size)
        data = (secret.data or {}).get(ref.key)
        if data is None:
            return _problem(f"{where}: the Secret has no such key", version)
        try:
            # In a thread: a large one takes long enough for every other machine to notice.
            value = await asyncio.to_thread(parse, data)
        except talos.TalosError as error:
            return _problem(f"{where}: {error}", version)
        content = Content(hash=talos.configuration_hash(data))
        return _Kept(content, value, version, self._clock(), len(data) + _ENTRY_BYTES)

    def _checked(self, data: bytes) -> bytes:
        talos.check_configuration(data)
        return data

    def _parsed(self, data: bytes) -> talos.Credentials:
        digest = talos.configuration_hash(data)
        known = self._credentials.get(digest)
        if known is None:
            known = self._credentials[digest] = talos.parse_talosconfig(data)
        return known

    def _keep(self, place: tuple[str, str, str, str], new: _Kept) -> None:
        old = self._kept.pop(place, None)
        self._size += new.size - (old.size if old else 0)
        self._kept[place] = new
        while self._size > KEPT_BYTES_MAX and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._size -= dropped.size


def _problem(text: str, version: str = "") -> _Kept:
    """What cannot be used is never fresh: the next round reads it again."""
    return _Kept(Content(problem=text), None, version, float("-inf"), _ENTRY_BYTES)


def _why_not_read(error: kube.KubeError, namespace: str) -> str:
    if isinstance(error, kube.NotFound):
        return "the Secret does not exist"
    if isinstance(error, kube.Forbidden):
        return (
            f"it may not be read: the namespace {namespace} needs a RoleBinding of the ClusterRole "
            "nodetrail-machine-secrets to the service account nodetrail-system/machine-reconciler"
        )
    return str(error)
