"""Token files, and how a caller shows a token."""

from __future__ import annotations

import base64

import pytest

from services.devapi.users import ANONYMOUS, OPERATOR, Users

FILE = """# comment
t1,alice,1,"a,b"

t2,bob,2
"""


def test_tokens_name_users_and_groups() -> None:
    users = Users(FILE)
    alice, bob = users.of("Bearer t1"), users.of("bearer t2 ")
    assert alice is not None
    assert bob is not None
    assert (alice.name, alice.uid, alice.groups) == ("alice", "1", ("a", "b", "system:authenticated"))
    assert bob.groups == ("system:authenticated",)


def test_basic_authentication_carries_a_token_as_its_password() -> None:
    sent = base64.b64encode(b"kubectl:t1").decode()
    found = Users(FILE).of(f"Basic {sent}")
    assert found is not None
    assert found.name == "alice"


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "Basic !", "Basic YWJj", "Digest t1", "t1"])
def test_who_shows_something_else_is_nobody(header: str) -> None:
    assert Users(FILE).of(header) is None


def test_who_shows_nothing_is_anonymous_unless_there_are_no_tokens_at_all() -> None:
    assert Users(FILE).of("") is ANONYMOUS
    assert Users(None).of("") is OPERATOR
    assert Users("").of("") is ANONYMOUS


@pytest.mark.parametrize("line", ["hush", "hush,user", ",hush,1", "hush,,1"])
def test_a_bad_line_is_named_without_its_content(line: str) -> None:
    with pytest.raises(ValueError, match="line 2") as refused:
        Users(f"t,u,1\n{line}")
    assert "hush" not in str(refused.value)
