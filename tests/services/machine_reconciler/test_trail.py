"""What is announced arrives on a real trail, each under its subject, once."""

from __future__ import annotations

import asyncio

import msgspec

from libs import bus, runtime
from libs.embedded.nats_server import NatsServer
from libs.events import (
    EndpointObserved,
    MachineConfigurationSent,
    MachineReadinessChanged,
    MachineRegistered,
    subjects,
)
from libs.machine import Ready
from services.machine_reconciler.announce import Announcer
from services.machine_reconciler.outbox import Outbox
from services.machine_reconciler.status import with_verdict
from services.machine_reconciler.steps import Verdict
from tests.services.machine_reconciler.facts_of import ELSEWHERE, PIN, machine
from tests.services.machine_reconciler.fakes import MOMENT, node
from tests.services.machine_reconciler.world import nobody


async def test_every_kind_of_news_arrives_once(nats_server: NatsServer) -> None:
    settings = runtime.CommonSettings(nats_url=nats_server.url)
    async with bus.connect(settings, name="test", health=runtime.Health()) as nats:
        await nats.ensure_streams()
        outbox = Outbox(nats)
        announcer = Announcer(outbox, nobody)
        running = asyncio.ensure_future(outbox.run())
        one = machine(sent_to=PIN)
        silent = Verdict(reason=Ready.CURRENT_CONFIG_UNAVAILABLE, message="silent")
        after = msgspec.structs.replace(one, status=with_verdict(one, silent, now=MOMENT, last_read=None))
        for _ in range(2):  # a round may run twice: the same cause has the same message id
            announcer.registered(one)
            announcer.written(one, after)
            announcer.configuration(one, PIN, "hash")
            announcer.proof(one, ELSEWHERE, PIN, once="read-1")
            announcer.lookup(one, node("one", ELSEWHERE), once="lookup-1")

        expected = {
            subjects.machine("registered", *one.key): MachineRegistered,
            subjects.machine("readiness", *one.key): MachineReadinessChanged,
            subjects.machine("configuration", *one.key): MachineConfigurationSent,
            subjects.observed_read(*one.key): EndpointObserved,
            subjects.observed_lookup(*one.key): EndpointObserved,
        }
        for subject, kind in expected.items():
            async with asyncio.timeout(10):
                while (found := await nats.last(subjects.TRAIL, subject)) is None:
                    await asyncio.sleep(0.02)
            assert isinstance(found.event, kind)
            assert found.message_id.startswith(f"{subject}/u-1")
            assert found.sequence <= len(expected), "nothing was stored twice"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
