import typing
from pathlib import Path

import msgspec
import pytest

from libs.runtime import CommonSettings, SettingsError, settings_from_environ, split_listen


class Settings(CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ranges: tuple[str, ...]
    rate: typing.Annotated[int, msgspec.Meta(ge=1)] = 2000
    timeout_seconds: float = 2.0
    key_file: str = ""

    @staticmethod
    def check_ranges(value: tuple[str, ...]) -> None:
        if "bad" in value:
            raise ValueError("'bad' is not a range")

    def __post_init__(self) -> None:
        if self.rate < self.timeout_seconds:
            raise ValueError("RATE must not be below TIMEOUT_SECONDS")


GOOD = {"NODETRAIL_RANGES": "10.0.0.0/24, !10.0.0.7", "NODETRAIL_RATE": "5", "HOME": "/root", "KUBECONFIG": "x"}


def test_reads_what_is_set_and_defaults_the_rest() -> None:
    settings = settings_from_environ(Settings, GOOD)
    assert settings.ranges == ("10.0.0.0/24", "!10.0.0.7")
    assert (settings.rate, settings.timeout_seconds) == (5, 2.0)
    assert settings.nats_url == "nats://127.0.0.1:4222"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        pytest.param("RATE", "many", "Expected `int`", id="no number"),
        pytest.param("RATE", "0", ">= 1", id="out of bounds"),
        pytest.param("TIMEOUT_SECONDS", "nan", "finite", id="not a number"),
        pytest.param("RANGES", "bad", "not a range", id="its own check"),
        pytest.param("LISTEN", "8080", "host:port", id="no host"),
        pytest.param("LISTEN", "127.0.0.1:70000", "host:port", id="no port"),
        pytest.param("LOG_FORMAT", "xml", "one of: auto, text, json", id="not in the list"),
        pytest.param("NATS_URL", "nats://a:1,b", "nats://host", id="no URL"),
        pytest.param("KEY_FILE", "/nowhere/key", "/nowhere/key", id="unreadable file"),
        pytest.param("RANGE", "x", "is not a setting", id="unknown"),
    ],
)
def test_one_wrong_variable_is_named(variable: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from_environ(Settings, GOOD | {f"NODETRAIL_{variable}": value})
    [problem] = caught.value.problems
    assert problem.startswith(f"NODETRAIL_{variable}: ")
    assert says in problem


def test_all_wrong_variables_are_named_at_once() -> None:
    wrong = {"NODETRAIL_RATE": "x", "NODETRAIL_NEW": "1", "NODETRAIL_LOG_LEVEL": "loud"}
    with pytest.raises(SettingsError) as caught:
        settings_from_environ(Settings, wrong)
    named = [problem.partition(":")[0] for problem in caught.value.problems]
    assert sorted(named) == ["NODETRAIL_LOG_LEVEL", "NODETRAIL_NEW", "NODETRAIL_RANGES", "NODETRAIL_RATE"]


def test_fields_that_do_not_fit_each_other() -> None:
    with pytest.raises(SettingsError, match="RATE must not be below"):
        settings_from_environ(Settings, GOOD | {"NODETRAIL_RATE": "1"})


def test_the_content_of_a_file_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    with pytest.raises(SettingsError) as caught:
        settings_from_environ(Settings, GOOD | {"NODETRAIL_KEY_FILE": str(tmp_path / "key"), "NODETRAIL_RATE": "x"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "read"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8080", ("::1", 8080)), ("host:1", ("host", 1))]
)
def test_listen_addresses(text: str, read: tuple[str, int]) -> None:
    assert split_listen(text) == read
