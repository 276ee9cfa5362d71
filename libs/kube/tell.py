"""Kubernetes Events about machines, for those who look with `kubectl describe`. Best effort by nature."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from libs import machine, runtime
from libs.kube import errors
from libs.kube.api import Api
from libs.kube.objects import EVENTS, MACHINES
from libs.kube.told import Telling

MESSAGE_MAX = 1024
"""The API server refuses Events with longer messages."""

_log = runtime.log("kube")


async def tell(
    api: Api,
    about: machine.TalosMachine,
    *,
    type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the Event's own word
    reason: str,
    message: str,
    action: str = "",
) -> None:
    """Write an Event; a repeat raises the count of the first one, too many are dropped, failures only logged."""
    words = {"type": type, "reason": reason, "message": _cut(message), "action": action}
    telling = api.told.next(about.metadata.uid, about.metadata.name, *words.values())
    if telling is None:
        return
    try:
        if telling.count == 1 or not await _count_up(api, about.metadata.namespace, telling):
            await api.create(EVENTS, _event(api, about, telling, words), about.metadata.namespace)
    except errors.KubeError as error:
        _log.debug("event not written", machine="/".join(about.key), reason=reason, error=str(error))


async def _count_up(api: Api, namespace: str, telling: Telling) -> bool:
    """Count on an Event that is there; False when it was forgotten, as Events are after an hour."""
    change = {"count": telling.count, "lastTimestamp": _seconds(telling.last)}
    try:
        await api.merge_patch(EVENTS, telling.name, change, namespace, manager=f"nodetrail-{api.agent}")
    except errors.NotFound:
        return False
    return True


def _event(api: Api, about: machine.TalosMachine, telling: Telling, words: dict[str, str]) -> dict[str, object]:
    component = f"nodetrail-{api.agent}"
    return {
        **words,
        "metadata": {"name": telling.name, "namespace": about.metadata.namespace},
        "involvedObject": {
            "apiVersion": MACHINES.api_version,
            "kind": MACHINES.kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
        },
        "count": telling.count,
        "firstTimestamp": _seconds(telling.first),
        "lastTimestamp": _seconds(telling.last),
        "source": {"component": component},
        "reportingComponent": component,
    }


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 3] + "..."


def _seconds(moment: datetime) -> str:
    """Kubernetes' own timestamps have whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
