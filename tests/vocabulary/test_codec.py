"""What comes over the wire becomes a command, or an error that says what to write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.vocabulary import codec
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.services import Status


@pytest.mark.parametrize(
    ("name", "fields", "message", "hint"),
    [
        ("statsu", {}, 'no command "statsu"; did you mean "status"?', "known: "),
        ("status", {"service": ["web"]}, 'status has no field "service"; did you mean', "services"),
        ("status", {"zzz": 1}, 'status has no field "zzz"', "known: services"),
        ("list_tokens", {"zzz": 1}, 'list_tokens has no field "zzz"', "known: none"),
        ("status", {"services": 7}, "status: Expected `array`, got `int`", "reference of `status`"),
    ],
)
def test_a_mistake_is_told_with_a_suggestion(
    name: str, fields: dict[str, Any], message: str, hint: str
) -> None:
    """Unknown commands and fields are refused, with what was probably meant, or what is known."""
    with pytest.raises(UsageError) as caught:
        codec.command_from(name, fields)
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint


def test_fields_become_a_command() -> None:
    """Those that are left out have their defaults."""
    assert codec.command_from("status", {}) == Status()


def test_what_is_not_utf_8_is_told_nevertheless() -> None:
    """Also beside what was written as JSON before."""
    told = codec.answer(1, {"project": "/\udcff", "services": msgspec.Raw(b'{"web":1}')})
    result = {"project": "/\ufffd", "services": {"web": 1}}
    assert msgspec.json.decode(told) == {"id": 1, "ok": True, "result": result}
