"""The types of the keeper's messages agree with its protocol's page and with what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from holdfast.keeper.protocol import messages, words
from tests.keeper.conftest import KeeperProcess
from tests.project.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "keeper-protocol.md").read_text()
ENVELOPE = {"id", "kept", "fds", "do"}
# Said by the keeper since its first version, and used by nobody yet.
NOT_ON_THE_PAGE = {"stdin_closed"}
# Added by the client of these tests.
OF_THE_TEST = {"spare"}


def rows(heading: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each row below a heading, and its further cells."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            first, *others = line.strip("|").split("|")
            yield re.findall(r"`(\w+)`", first), [cell.strip() for cell in others]


def tags(union: Any, key: str) -> dict[str, Any]:
    """The types of a union by the literal that tells them apart."""
    types = get_args(union)
    return {tag: one for one in types for tag in get_args(get_type_hints(one)[key])}


REQUESTS = tags(messages.Request, "do")
NOTICES = tags(messages.Notice, "notice")
PAGE_FIELDS = {word: cells[0] for names, cells in rows("Words") for word in names}


def test_every_word_has_a_type() -> None:
    """Types, the keeper's handlers and the page know the same words."""
    assert set(REQUESTS) == set(words._WORDS) == set(PAGE_FIELDS)


@pytest.mark.parametrize("word", sorted(REQUESTS))
def test_the_page_names_every_field(word: str) -> None:
    """A field of a request is on the page, and a field on the page is in the type."""
    typed = get_type_hints(REQUESTS[word]).keys() - ENVELOPE
    plain = re.sub(r"\([^)]*\)|:? ?`\w+`|or null|and one descriptor", "", PAGE_FIELDS[word])
    named = set(re.findall(r"\w+", plain))
    # Kept with the run by a successor, which the page tells in words.
    assert typed - named <= {"boot_id", "started_at"}
    assert named <= typed


def test_every_notice_has_a_type() -> None:
    """Types and the page know the same notices."""
    assert set(NOTICES) - NOT_ON_THE_PAGE == {
        word for names, _ in rows("Notices") for word in names
    }


def unknown_fields(value: Any, kind: Any) -> set[str]:
    """The fields of a message that its type does not know, also within its parts."""
    for one in get_args(kind) or (kind,):
        if isinstance(value, list):
            return {name for part in value for name in unknown_fields(part, one)}
        if isinstance(value, dict) and hasattr(one, "__total__"):
            hints = get_type_hints(one)
            found = {name for name in value if name not in hints}
            for name in value.keys() & hints.keys():
                found |= unknown_fields(value[name], hints[name])
            return found
    return set()


def test_a_keeper_says_what_the_types_say(keeper: KeeperProcess) -> None:
    """Replies and notices of a living keeper have no field that their types lack."""
    link = keeper.link
    begun = keeper.spawn("sh", "-c", "echo out; exec sleep 60")
    said = [
        (link.do("list"), messages.KeeperFacts),
        (link.do("list", only="log_bytes"), messages.KeeperFacts),
        (begun, messages.SpawnReply),
        (link.do("tree", run_id=keeper.last), messages.TreeReply),
        (link.do("strays"), messages.StraysReply),
        (link.do("prune", service="web", keep_segments=5), messages.PruneReply),
        (link.do("end", run_id=keeper.last, grace=1.0), messages.Reply),
        (link.notice("exit"), messages.ExitNotice),
        (link.notice("ended"), messages.EndedNotice),
        (link.do("list"), messages.KeeperFacts),
    ]
    for message, kind in said:
        assert unknown_fields(message, kind) - OF_THE_TEST == set(), kind
