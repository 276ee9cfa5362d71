"""Ranges come as comma lists of CIDRs, and every wrong one stops the start."""

import pytest

from libs.runtime import SettingsError, settings_from_environ
from services.status_writer.settings import Settings


def test_ranges() -> None:
    environ = {"NODETRAIL_DENIED_RANGES": "10.244.0.0/16, fd00::/8", "NODETRAIL_ALLOWED_RANGES": "127.0.0.0/8"}
    limits = settings_from_environ(Settings, environ).limits
    assert [str(network) for network in limits.denied] == ["10.244.0.0/16", "fd00::/8"]
    assert [str(network) for network in limits.allowed] == ["127.0.0.0/8"]
    assert settings_from_environ(Settings, {}).limits.denied == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DENIED_RANGES", "10.244.0.1/16"),
        ("DENIED_RANGES", "pods"),
        ("DENIED_RANGES", "::ffff:10.0.0.0/104"),
        ("ALLOWED_RANGES", "10.0.0.0/33"),
        ("ALLOWED_RANGES", "169.254.0.0/16"),
        ("ALLOWED_RANGES", "fe80::/10"),
        ("ALLOWED_RANGES", "224.0.0.0/4"),
        ("ALLOWED_RANGES", "127.0.0.0/8,0.0.0.0/8"),
        ("ALLOWED_RANGES", "::/128"),
    ],
)
def test_a_wrong_range_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"NODETRAIL_{variable}: "):
        settings_from_environ(Settings, {f"NODETRAIL_{variable}": value})


def test_everything_may_be_allowed_but_what_is_never_dialled() -> None:
    assert settings_from_environ(Settings, {"NODETRAIL_ALLOWED_RANGES": "0.0.0.0/0,::/0"}).limits.allowed
