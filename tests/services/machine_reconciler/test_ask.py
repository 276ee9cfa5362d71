"""Every way in which a place can answer, and fail to, becomes one answer."""

from __future__ import annotations

import pytest

from libs import talos
from libs.endpoint import parse_endpoint
from libs.identity import Identity
from services.machine_reconciler import ask
from services.machine_reconciler.facts import (
    Answer,
    Configured,
    CredentialsRefused,
    InMaintenance,
    Proven,
    Silent,
    Stranger,
)
from tests.services.machine_reconciler.fakes import FakeNet, FakeNode
from tests.services.machine_reconciler.world import (
    DESIRED,
    HERE,
    IDENTITY,
    OTHER,
    PIN,
    TALOSCONFIG,
    in_maintenance,
    running,
)

PLACE = parse_endpoint(HERE)
LEAF = "L" * 43 + "="
STRANGER = Identity(uuid="9" * 8, serial_number="S9")
CREDENTIALS = talos.parse_talosconfig(TALOSCONFIG)


@pytest.fixture
def net() -> FakeNet:
    return FakeNet()


async def look(net: FakeNet) -> Answer:
    return await ask.look(net, PLACE, IDENTITY)


async def read(net: FakeNet, desired: bytes = DESIRED) -> Answer:
    return await ask.read(net, PLACE, CREDENTIALS, IDENTITY, desired=desired)


async def test_who_answers_without_credentials(net: FakeNet) -> None:
    assert isinstance(await look(net), Silent)
    net.nodes[HERE] = in_maintenance()
    assert await look(net) == InMaintenance(fingerprint=PIN, is_it=True)
    net.nodes[HERE].identity = STRANGER
    assert await look(net) == InMaintenance(fingerprint=PIN, is_it=False)
    net.nodes[HERE] = running()
    assert await look(net) == Configured(fingerprint=LEAF)


async def test_a_box_that_cannot_say_who_it_is_is_not_the_machine(net: FakeNet) -> None:
    class Mute(FakeNode):
        @property
        def identity(self) -> Identity:
            raise talos.StrangeAnswer("garbage")

        @identity.setter
        def identity(self, _: Identity) -> None: ...

    net.nodes[HERE] = Mute(fingerprint=PIN, identity=IDENTITY, maintenance=True)
    assert await look(net) == InMaintenance(fingerprint=PIN, is_it=False)


async def test_a_read_proves_and_compares(net: FakeNet) -> None:
    net.nodes[HERE] = running()
    assert await read(net) == Proven(fingerprint=LEAF, equals_desired=True, node_name="one")
    assert await read(net, b"") == Proven(fingerprint=LEAF, equals_desired=None, node_name="one")
    net.nodes[HERE].configuration = b"# a comment\n" + DESIRED
    assert await read(net) == Proven(fingerprint=LEAF, equals_desired=True, node_name="one")
    net.nodes[HERE].configuration = DESIRED.replace(b"cluster", b"other", 1)
    assert await read(net) == Proven(fingerprint=LEAF, equals_desired=False, node_name="one")


async def test_equal_bytes_are_not_parsed(net: FakeNet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(talos, "same_configuration")
    net.nodes[HERE] = running()
    assert await read(net) == Proven(fingerprint=LEAF, equals_desired=True, node_name="one")


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (talos.Unreachable("x"), Silent(why="x")),
        (talos.StrangeAnswer("x"), Silent(why="x")),
        (talos.WrongIdentity("x", None), Stranger(why="x")),
        (talos.CredentialsRejected("x"), CredentialsRefused(why="x")),
        (talos.NotAllowed("x"), CredentialsRefused(why="x")),
    ],
)
async def test_how_a_read_fails(net: FakeNet, error: Exception, answer: Answer) -> None:
    net.nodes[HERE] = running()
    net.nodes[HERE].error = error
    assert await read(net) == answer
    assert await ask.prove(net, PLACE, CREDENTIALS, IDENTITY) == answer


async def test_a_wiped_node_is_read_as_what_it_is(net: FakeNet) -> None:
    net.nodes[HERE] = in_maintenance(OTHER)
    assert await read(net) == InMaintenance(fingerprint=OTHER, is_it=True)


async def test_a_box_in_maintenance_proves_nothing(net: FakeNet) -> None:
    net.nodes[HERE] = in_maintenance(OTHER)
    assert not isinstance(await ask.prove(net, PLACE, CREDENTIALS, IDENTITY), Proven)
    net.nodes[HERE] = running()
    assert await ask.prove(net, PLACE, CREDENTIALS, IDENTITY) == Proven(fingerprint=LEAF)
    net.nodes[HERE].identity = STRANGER
    assert isinstance(await ask.prove(net, PLACE, CREDENTIALS, IDENTITY), Stranger)
