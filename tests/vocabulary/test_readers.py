"""Readers are made at first use, and a declaration is remembered by what is said of it."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.specs.services import RestartSpec, ServiceSpec


def test_what_is_left_out_is_as_it_was() -> None:
    """Five hundred declarations lie in the keeper's memory: what is usual is not written."""
    plain = ServiceSpec(name="web", argv=("sleep", "9"), working_dir="/")
    text = msgspec.json.encode(plain)
    assert len(text) < 100
    read = reader(ServiceSpec)
    assert read(text) == plain
    other = msgspec.structs.replace(plain, restart=RestartSpec(delay=0.5), autostart=False)
    assert read(msgspec.json.encode(other).decode()) == other


def test_another_shape_is_an_error() -> None:
    """The same as the library's."""
    with pytest.raises(msgspec.ValidationError):
        reader(ServiceSpec)(b"{}")
