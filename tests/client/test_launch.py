"""What a keeper is started with."""

from __future__ import annotations

from holdfast.client.launch import keeper_environment


def test_a_keeper_has_no_locale() -> None:
    """Whoever starts it: names of files are UTF-8 for it, and for all that it starts of ours."""
    given = {"LC_ALL": "de_DE.ISO-8859-1", "LANG": "ru_RU.KOI8-R", "PATH": "/bin", "TOKEN": "x"}
    assert keeper_environment(given) == {"PATH": "/bin"}
