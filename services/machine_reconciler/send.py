"""Sends a configuration: to one certificate, one identity, once the API server has it in writing to whom.

The order is what makes it safe. The connection is pinned and the identity re-read on it; approval, pin and
reference are read live and still hold; `sentTo` is written onto that very version of the machine; only then
does the configuration leave, on the same connection. A crash in between leaves a machine that looks sent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from libs import identity, kube, runtime, talos
from libs.endpoint import parse_endpoint
from libs.machine import Ready, TalosMachine, dial_endpoint, ready_condition
from services.machine_reconciler import words
from services.machine_reconciler.announce import Announcer
from services.machine_reconciler.ask import Dialler
from services.machine_reconciler.secrets import Secrets
from services.machine_reconciler.status import StartOver, Statuses, with_sending, with_verdict
from services.machine_reconciler.steps import Verdict

SEND_SECONDS = 20.0

_log = runtime.log("send")


class Outcome(NamedTuple):
    """What became of a send."""

    machine: TalosMachine
    """As it was after `sentTo` was written."""
    verdict: Verdict
    accepted: bool
    """Whether the node said OK."""


class Sender:
    """Sends to one machine at a time, as often as it is called."""

    def __init__(
        self,
        dialler: Dialler,
        statuses: Statuses,
        secrets: Secrets,
        announcer: Announcer,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._dialler = dialler
        self._statuses = statuses
        self._secrets = secrets
        self._announcer = announcer
        self._clock = clock

    async def send(self, machine: TalosMachine, fingerprint: str) -> Outcome:
        """Send to the box behind that certificate.

        Raises `StartOver` when anything is not as planned: then nothing was sent.
        """
        materials = await self._secrets.of(machine, fresh_seconds=0)
        if materials.configuration is None or materials.configuration.problem:
            raise StartOver
        dial = dial_endpoint(machine)
        digest = materials.configuration.hash
        noted: TalosMachine | None = None
        try:
            async with self._dialler.maintenance(
                parse_endpoint(dial), pin=fingerprint, timeout_seconds=SEND_SECONDS
            ) as node:
                if not identity.match(machine.spec.identity, await node.identity()).is_match:
                    raise StartOver
                noted = await self._note(machine, fingerprint, digest)
                await node.apply_configuration(materials.data)
        except talos.Rejected as error:
            if noted is None:
                raise StartOver from error
            return Outcome(noted, self._refused(noted, fingerprint, digest, error), accepted=False)
        except talos.TalosError as error:
            if noted is None:
                raise StartOver from error
            _log.warning("no answer to a configuration", machine="/".join(machine.key), error=str(error))
            return Outcome(noted, _sent(f"{words.sent(dial, fingerprint)}; the node gave no answer"), accepted=False)
        self._announcer.configuration(noted, fingerprint, digest)
        _log.info("configuration sent", machine="/".join(machine.key), dialled=dial, fingerprint=fingerprint)
        return Outcome(noted, _sent(words.sent(dial, fingerprint)), accepted=True)

    async def _note(self, machine: TalosMachine, fingerprint: str, digest: str) -> TalosMachine:
        """Write `sentTo` onto the version of the machine that was read live and still wants this send."""
        live = await self._statuses.live(machine)
        if not _still_wanted(machine, live, fingerprint):
            raise StartOver
        now = self._clock()
        status = with_sending(live.status, fingerprint, digest, now=now)
        ready = ready_condition(live)
        if ready is None or ready.reason != Ready.CONFIGURATION_REJECTED:
            # What was refused once stays shown as refused until the node says otherwise.
            sending = _sent(words.sent(dial_endpoint(live), fingerprint))
            status = with_verdict(msgspec.structs.replace(live, status=status), sending, now=now, last_read=None)
        try:
            noted = await self._statuses.write(live, status)
        except kube.Conflict:
            raise StartOver from None
        self._announcer.written(live, noted)
        return noted

    def _refused(self, machine: TalosMachine, fingerprint: str, digest: str, error: talos.Rejected) -> Verdict:
        """The node's own text stays out of it: it may quote the configuration."""
        self._announcer.configuration(machine, fingerprint, digest, code=error.code)
        _log.warning("configuration refused", machine="/".join(machine.key), code=error.code)
        return Verdict(reason=Ready.CONFIGURATION_REJECTED, message=words.rejected(dial_endpoint(machine), error.code))


def _sent(message: str) -> Verdict:
    return Verdict(reason=Ready.CONFIGURATION_SENT, message=message)


def _still_wanted(planned: TalosMachine, live: TalosMachine, fingerprint: str) -> bool:
    return (
        live.spec.approved
        and live.spec.maintenance_fingerprint == fingerprint
        and live.spec.configuration == planned.spec.configuration
        and live.spec.identity == planned.spec.identity
        and dial_endpoint(live) == dial_endpoint(planned)
        and live.sent_to == planned.sent_to
    )
