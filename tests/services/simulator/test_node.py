"""The state machine of a node: what each event makes of it, without a socket or a clock."""

from __future__ import annotations

import hashlib

import pytest

from libs.talos import serve
from services.simulator.node import LAST_WORDS_SECONDS, SHUT_SECONDS, Node, Phase, WrongStateError
from services.simulator.spec import NodeSpec
from tests.services.simulator.sites import Cluster, node

A, B = "10.0.0.1", "10.0.0.2"
CLUSTER = Cluster()
COMPLETE = CLUSTER.configuration(hostname="cp-1")
PARTIAL = b"apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: early\n"


class Time:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(*, seed: int = 1, time: Time | None = None, **more: object) -> Node:
    return Node(node("cp-1", A, **more), seed=seed, clock=time or Time())


def running(time: Time) -> Node:
    box = made(time=time, configuration_text=COMPLETE.decode())
    box.power_on()
    return box


def wait(box: Node, time: Time, seconds: float) -> None:
    time.now += seconds
    box.tick()


def stage(box: Node) -> str:
    item = box.resources.get(serve.Key("runtime", "MachineStatuses.runtime.talos.dev", "machine"))
    assert item is not None
    return item.spec.yaml


def test_switched_on_without_a_configuration_it_is_in_maintenance() -> None:
    box = made()
    box.power_on()

    assert (box.phase, box.mode, box.hostname) == (Phase.MAINTENANCE, "maintenance", "")
    assert box.surface is not None
    assert box.surface.common_name == serve.MAINTENANCE_NAME
    assert box.surface.san_addresses == (A,)
    assert "stage: maintenance" in stage(box)


def test_a_complete_configuration_installs_and_then_runs_in_the_same_boot() -> None:
    time = Time()
    box = made(time=time)
    box.power_on()
    boot = box.boot_id

    applied = box.apply(COMPLETE, serve.Mode.AUTO, dry_run=False)

    assert applied.mode is serve.Mode.NO_REBOOT
    assert (box.phase, box.mode, box.surface) == (Phase.INSTALLING, "installing", None)
    wait(box, time, 0.05)
    assert (box.phase, box.mode, box.hostname, box.boot_id) == (Phase.RUNNING, "configured", "cp-1", boot)
    assert list(box.received) == [hashlib.sha256(COMPLETE).hexdigest()]
    assert box.surface is not None
    assert box.surface.common_name == "cp-1"


def test_an_installation_may_end_in_a_reboot() -> None:
    time = Time()
    box = made(time=time, install_reboots=True)
    box.power_on()
    boot = box.boot_id
    box.apply(COMPLETE, serve.Mode.AUTO, dry_run=False)

    wait(box, time, 0.05)

    assert (box.phase, box.boots) == (Phase.RUNNING, 2)
    assert box.boot_id != boot


def test_a_partial_configuration_leaves_it_in_maintenance() -> None:
    box = made()
    box.power_on()

    box.apply(PARTIAL, serve.Mode.AUTO, dry_run=False)

    assert (box.phase, box.hostname, box.received_count) == (Phase.MAINTENANCE, "early", 1)


def test_a_dry_run_stores_nothing() -> None:
    box = made()
    box.power_on()

    box.apply(COMPLETE, serve.Mode.AUTO, dry_run=True)

    assert (box.phase, box.received_count, box.configuration) == (Phase.MAINTENANCE, 0, None)


def test_a_configured_node_wants_a_whole_configuration() -> None:
    box = running(Time())
    with pytest.raises(serve.Refusal) as refused:
        box.apply(PARTIAL, serve.Mode.AUTO, dry_run=False)
    assert refused.value.code is serve.Code.INVALID_ARGUMENT


def test_a_move_accumulates_addresses_and_wants_another_leaf() -> None:
    box = made()
    box.power_on()
    before = box.surface
    assert before is not None

    box.move((B,))

    after = box.surface
    assert after is not None
    assert (after.addresses, after.san_addresses) == ((B,), (A, B))
    assert after.leaf != before.leaf
    assert after.boot == before.boot


def test_a_power_cycle_forgets_addresses_and_resources_of_the_last_boot() -> None:
    box = made()
    box.power_on()
    old_boot, old_resources = box.boot_id, box.resources
    box.power_cycle((B,))

    assert box.surface is not None
    assert box.surface.san_addresses == (B,)
    assert box.boot_id != old_boot
    assert box.resources is not old_resources


def test_a_wipe_brings_it_back_as_another_node() -> None:
    box = running(Time())
    identity, node_id = (box.uuid, box.serial, box.macs), box.node_id

    box.wipe((B,))

    assert (box.phase, box.mode, box.addresses) == (Phase.MAINTENANCE, "maintenance", (B,))
    assert box.node_id != node_id
    assert (box.uuid, box.serial, box.macs) == identity


def test_without_a_name_in_the_configuration_each_wipe_gives_another_automatic_one() -> None:
    time = Time()
    box = made(time=time)
    names = set()
    for _ in range(2):
        box.wipe()
        box.apply(CLUSTER.configuration(), serve.Mode.AUTO, dry_run=False)
        wait(box, time, 1)
        names.add(box.hostname)
    assert len(names) == 2
    assert all(name.startswith("talos-") and len(name) == 13 for name in names)


def test_a_reboot_speaks_its_last_words_and_comes_back_with_another_boot_id() -> None:
    time = Time()
    box = running(time)
    boot = box.boot_id

    box.reboot()

    assert "stage: rebooting" in stage(box)
    assert box.surface is not None
    wait(box, time, LAST_WORDS_SECONDS)
    assert box.surface is None
    wait(box, time, SHUT_SECONDS)
    assert box.phase is Phase.RUNNING
    assert box.boot_id != boot
    assert not box.was_cut


def test_a_shutdown_ends_in_silence() -> None:
    time = Time()
    box = running(time)
    box.shutdown()
    wait(box, time, 60)
    assert box.phase is Phase.OFF


@pytest.mark.parametrize(
    ("labels", "mode"), [(["STATE", "EPHEMERAL"], "maintenance"), ([], "maintenance"), (["EPHEMERAL"], "configured")]
)
def test_a_reset_that_loses_state_ends_in_maintenance(labels: list[str], mode: str) -> None:
    time = Time()
    box = running(time)
    box.reset(labels, reboot=True)
    wait(box, time, LAST_WORDS_SECONDS)
    wait(box, time, SHUT_SECONDS)
    assert box.is_up
    assert box.mode == mode


def test_what_it_cannot_do_now_is_refused_by_name() -> None:
    box = made()
    with pytest.raises(WrongStateError, match="cp-1 is off"):
        box.power_off()
    with pytest.raises(WrongStateError, match="cp-1 does not run"):
        box.move((B,))
    box.power_on()
    with pytest.raises(WrongStateError, match="cp-1 is on already"):
        box.power_on()
    with pytest.raises(serve.Refusal):
        box.reboot()


def test_a_slow_boot_is_silent_until_it_is_over() -> None:
    time = Time()
    box = made(time=time, boot_seconds=3)
    box.power_on()
    assert box.surface is None
    wait(box, time, 3)
    assert box.surface is not None


def test_the_seed_settles_what_the_entry_leaves_open() -> None:
    def story(seed: int) -> tuple[object, ...]:
        box = made(seed=seed)
        box.power_on()
        box.wipe()
        return box.uuid, box.serial, box.macs, box.boot_id, box.node_id

    assert story(1) == story(1)
    assert not set(story(1)) & set(story(2))


def test_an_empty_identity_is_none_and_not_made_up() -> None:
    box = Node(NodeSpec(name="bare", addresses=(A,), uuid="", serial="", macs=()), seed=1, clock=Time())
    assert (box.uuid, box.serial, box.macs) == ("", "", ())
