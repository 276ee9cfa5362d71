"""Unknown boxes become machines: when they are steady, within limits, and once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from libs import identity, kube
from libs.events import EndpointObserved, SeenAddress
from libs.identity import Identity
from libs.machine import ObjectMeta, Source, TalosMachine, TalosMachineSpec
from services.machine_reconciler.machines import Machines
from services.machine_reconciler.registration import A_MINUTE_MAX, Limit, Registrar
from tests.services.machine_reconciler.facts_of import HERE, IDENTITY, machine

BOX = Identity(uuid="22222222-2222-4333-8444-555555555555", serial_number="S2", mac_addresses=("b4:96:91:00:00:02",))
ONLY_MACS = Identity(mac_addresses=("b4:96:91:00:00:03",))


def seen(who: Identity = BOX, *, sweeps: int = 2, addresses: tuple[str, ...] = (HERE,)) -> EndpointObserved:
    return EndpointObserved(
        source=Source.DISCOVERY,
        identity=who,
        addresses=tuple(SeenAddress(address=address, fingerprint="F") for address in addresses),
        sweeps_agreeing=sweeps,
        site="here",
    )


class FakeCreator:
    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.error: kube.KubeError | None = None

    async def create(self, resource: object, body: dict[str, Any], namespace: str = "") -> TalosMachine:
        if self.error is not None:
            raise self.error
        self.made.append(body)
        return TalosMachine(
            metadata=ObjectMeta(namespace=namespace, name=body["metadata"]["name"], uid="u", resource_version="1"),
            spec=msgspec.convert(body["spec"], TalosMachineSpec),
        )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Office:
    def __init__(self, *, max_unapproved: int = 1000) -> None:
        self.api = FakeCreator()
        self.machines = Machines()
        self.registered: list[TalosMachine] = []
        self.held_back = 0
        self.clock = Clock()
        self.registrar = Registrar(
            self.api,
            self.machines,
            namespace="nodetrail",
            max_unapproved=max_unapproved,
            registered=self.registered.append,
            limited=self._limited,
            limit=Limit(clock=self.clock),
        )

    def _limited(self) -> None:
        self.held_back += 1


def box(number: int) -> Identity:
    return Identity(uuid=f"33333333-2222-4333-8444-{number:012}", serial_number=f"T{number}")


@pytest.fixture
def office() -> Office:
    return Office()


async def test_a_steady_box_becomes_a_machine_with_endpoint_and_identity_only(office: Office) -> None:
    await office.registrar.consider(seen())
    [body] = office.api.made
    assert body["metadata"] == {"name": identity.object_name(BOX)}
    assert body["spec"] == {"endpoint": HERE, "identity": msgspec.to_builtins(BOX)}
    assert [m.metadata.namespace for m in office.registered] == ["nodetrail"]
    await office.registrar.consider(seen())
    assert len(office.api.made) == 1, "known before the watch tells of it"


@pytest.mark.parametrize(
    ("observed", "count"),
    [
        pytest.param(seen(sweeps=1), 0, id="one sweep"),
        pytest.param(seen(ONLY_MACS, sweeps=4), 0, id="four without SystemInformation"),
        pytest.param(seen(ONLY_MACS, sweeps=5), 1, id="five without SystemInformation"),
        pytest.param(seen(addresses=()), 0, id="gone"),
        pytest.param(seen(addresses=("not an address!",)), 0, id="nowhere"),
        pytest.param(seen(Identity(uuid="0" * 8, serial_number="To be filled by O.E.M.")), 0, id="nobody"),
        pytest.param(seen(IDENTITY), 0, id="a machine's"),
        pytest.param(seen(msgspec.structs.replace(IDENTITY, serial_number="S9")), 0, id="contradicts a machine"),
        pytest.param(seen(Identity(serial_number=IDENTITY.serial_number)), 0, id="may be a machine's"),
        pytest.param(seen(msgspec.structs.replace(IDENTITY, uuid=IDENTITY.uuid.upper())), 0, id="another spelling"),
    ],
)
async def test_who_is_registered(office: Office, observed: EndpointObserved, count: int) -> None:
    office.machines.put(machine())
    await office.registrar.consider(observed)
    assert len(office.api.made) == count


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [("10.0.0.1:50000", "10.0.0.1"), ("10.0.0.1:50001", "10.0.0.1:50001"), ("2001:DB8::1", "2001:db8::1")],
)
async def test_the_endpoint_is_written_plainly(office: Office, address: str, endpoint: str) -> None:
    await office.registrar.consider(seen(addresses=(address,)))
    assert office.api.made[0]["spec"]["endpoint"] == endpoint


async def test_ten_a_minute(office: Office) -> None:
    for number in range(A_MINUTE_MAX + 5):
        await office.registrar.consider(seen(box(number)))
    assert (len(office.api.made), office.held_back) == (A_MINUTE_MAX, 5)
    office.clock.now = 6.1
    await office.registrar.consider(seen(box(99)))
    assert len(office.api.made) == A_MINUTE_MAX + 1


async def test_so_many_may_wait_for_approval() -> None:
    office = Office(max_unapproved=2)
    for number in range(4):
        await office.registrar.consider(seen(box(number)))
    assert (len(office.api.made), office.held_back) == (2, 2)
    first = office.registered[0]
    office.machines.put(
        msgspec.structs.replace(
            first,
            metadata=msgspec.structs.replace(first.metadata, resource_version="2"),
            spec=msgspec.structs.replace(first.spec, approved=True),
        )
    )
    await office.registrar.consider(seen(box(9)))
    assert len(office.api.made) == 3


async def test_a_limit_is_said_once(office: Office, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(A_MINUTE_MAX + 5):
        await office.registrar.consider(seen(box(number)))
    assert capsys.readouterr().out.count("RegistrationLimit") == 1


async def test_whoever_was_first_is_fine(office: Office) -> None:
    office.api.error = kube.AlreadyExists("there")
    await office.registrar.consider(seen())
    assert office.registered == []


async def test_a_refused_box_stops_nothing_and_an_absent_server_is_told(office: Office) -> None:
    office.api.error = kube.Forbidden("no")
    await office.registrar.consider(seen())
    office.api.error = kube.Unavailable("away")
    with pytest.raises(kube.Unavailable):
        await office.registrar.consider(seen())
