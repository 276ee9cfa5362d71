"""Our part of the status: whole, only when it differs, and never onto another version than was read."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from libs import kube
from libs.machine import ConfigurationStatus, Ready, TalosMachine, TalosMachineStatus, ready_condition
from services.machine_reconciler.facts import Proven
from services.machine_reconciler.status import StartOver, Statuses, owned, with_read, with_sending, with_verdict
from services.machine_reconciler.steps import Verdict
from tests.services.machine_reconciler.facts_of import ELSEWHERE, HERE, OTHER, PIN, machine
from tests.services.machine_reconciler.fakes import MOMENT, FakeApi

SILENT = Verdict(reason=Ready.UNREACHABLE, message="silent")
READ = Verdict(reason=Ready.CONVERGED, message="read")


def shows(verdict: Verdict):  # type: ignore[no-untyped-def] # the change function's own type
    return lambda m: with_verdict(m, verdict, now=MOMENT, last_read=None)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi(machine())


@pytest.fixture
def wrote() -> list[TalosMachine]:
    return []


@pytest.fixture
def statuses(api: FakeApi, wrote: list[TalosMachine]) -> Statuses:
    return Statuses(api, wrote.append)


async def test_a_change_is_written_once_and_told(api: FakeApi, statuses: Statuses, wrote: list[TalosMachine]) -> None:
    after = await statuses.change(machine(), shows(SILENT))
    assert len(api.writes) == 1
    assert wrote == [after]
    assert await statuses.change(after, shows(SILENT)) is after
    assert len(api.writes) == 1


async def test_everything_that_is_ours_is_in_every_write(api: FakeApi, statuses: Statuses) -> None:
    full = TalosMachineStatus(
        observed_endpoint=ELSEWHERE,
        observed_endpoint_for=HERE,
        node_name="one",
        node_addresses=(HERE,),
        last_read=MOMENT,
        configuration=ConfigurationStatus(sent_to=PIN),
    )
    api.replace(status=full)
    assert api.machine is not None
    after = await statuses.change(api.machine, shows(SILENT))
    assert api.writes[0].keys() == {"nodeName", "nodeAddresses", "lastRead", "configuration", "conditions"}
    assert after.status.observed_endpoint == ELSEWHERE
    assert after.sent_to == PIN


async def test_after_a_conflict_it_is_computed_anew_from_what_is_there(api: FakeApi, statuses: Statuses) -> None:
    stale = machine()
    sent = msgspec.structs.replace(stale.status, node_name="told-meanwhile")
    api.replace(status=sent)
    after = await statuses.change(stale, shows(SILENT))
    assert after.status.node_name == "told-meanwhile"
    assert ready_condition(after) is not None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(TalosMachineStatus(observed_endpoint=ELSEWHERE, observed_endpoint_for=HERE), id="moved"),
        pytest.param(TalosMachineStatus(configuration=ConfigurationStatus(sent_to=PIN)), id="sent"),
    ],
)
async def test_a_round_about_another_place_is_not_written(
    api: FakeApi, statuses: Statuses, status: TalosMachineStatus
) -> None:
    stale = machine()
    api.replace(status=status)
    with pytest.raises(StartOver):
        await statuses.change(stale, shows(SILENT))
    assert api.writes == []


async def test_a_round_about_another_spec_or_a_deleted_machine_is_not_written(api: FakeApi, statuses: Statuses) -> None:
    stale = machine()
    api.edit(approved=False)
    with pytest.raises(StartOver):
        await statuses.change(stale, shows(SILENT))
    api.machine = None
    with pytest.raises(StartOver):
        await statuses.change(stale, shows(SILENT))


async def test_a_namesake_is_another_machine(api: FakeApi, statuses: Statuses) -> None:
    stale = machine()
    api.replace()
    assert api.machine is not None
    api.machine = msgspec.structs.replace(
        api.machine, metadata=msgspec.structs.replace(api.machine.metadata, uid="u-2")
    )
    with pytest.raises(StartOver):
        await statuses.change(stale, shows(SILENT))


async def test_an_api_server_that_is_away_is_told(api: FakeApi, statuses: Statuses) -> None:
    api.error = kube.Unavailable("away")
    with pytest.raises(kube.Unavailable):
        await statuses.change(machine(), shows(SILENT))


def test_the_transition_time_moves_with_the_status_only() -> None:
    first = msgspec.structs.replace(machine(), status=with_verdict(machine(), SILENT, now=MOMENT, last_read=None))
    later = MOMENT + timedelta(minutes=1)
    other = Verdict(reason=Ready.CERTIFICATE_MISMATCH, message="x")
    same = with_verdict(first, other, now=later, last_read=None).conditions[0]
    assert (same.reason, same.last_transition_time) == ("CertificateMismatch", MOMENT)
    moved = with_verdict(first, READ, now=later, last_read=None).conditions[0]
    assert (moved.status, moved.last_transition_time, moved.observed_generation) == ("True", later, 3)


def test_a_kept_message_stays_while_the_reason_does() -> None:
    first = msgspec.structs.replace(machine(), status=with_verdict(machine(), SILENT, now=MOMENT, last_read=None))
    again = Verdict(reason=Ready.UNREACHABLE, message="other words")
    kept = with_verdict(first, again, now=MOMENT, last_read=None, keep_message=True)
    assert kept.conditions[0].message == "silent"
    changed = with_verdict(first, READ, now=MOMENT, last_read=None, keep_message=True)
    assert changed.conditions[0].message == "read"


def test_last_read_is_written_when_ready_changes_and_else_hourly() -> None:
    status = TalosMachineStatus(last_read=MOMENT)
    proven = Proven(fingerprint=OTHER)
    soon = with_read(status, proven, None, now=MOMENT + timedelta(minutes=59))
    assert soon.last_read == MOMENT
    later = with_read(status, proven, None, now=MOMENT + timedelta(hours=1))
    assert later.last_read == MOMENT + timedelta(hours=1)
    read_at = MOMENT + timedelta(minutes=5)
    assert with_verdict(machine(), SILENT, now=MOMENT, last_read=read_at).last_read == read_at


def test_what_a_read_does_not_tell_stays() -> None:
    status = TalosMachineStatus(node_name="one", node_addresses=(HERE, ELSEWHERE), last_read=MOMENT)
    assert with_read(status, Proven(fingerprint=OTHER), None, now=MOMENT) == status
    assert with_read(status, Proven(fingerprint=OTHER), (ELSEWHERE, HERE), now=MOMENT) == status
    told = with_read(status, Proven(fingerprint=OTHER, node_name="two"), (ELSEWHERE,), now=MOMENT)
    assert (told.node_name, told.node_addresses) == ("two", (ELSEWHERE,))


def test_the_order_of_conditions_is_no_difference() -> None:
    one = with_verdict(machine(), SILENT, now=MOMENT, last_read=None)
    both = msgspec.structs.replace(
        one, conditions=(*one.conditions, msgspec.structs.replace(one.conditions[0], type="IdentityConflict"))
    )
    assert owned(both) == owned(msgspec.structs.replace(both, conditions=both.conditions[::-1]))


def test_to_whom_it_is_sent_is_written_with_time_and_hash() -> None:
    status = with_sending(TalosMachineStatus(), PIN, "abc", now=MOMENT)
    assert status.configuration == ConfigurationStatus(sent_to=PIN, sent_at=MOMENT, hash="abc")
