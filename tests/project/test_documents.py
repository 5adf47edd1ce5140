"""The documents are complete, current, and lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.cli import reference as cli_reference
from holdfast.cli.parser.verbs import NAMES
from holdfast.gate.mcp import first_answers
from holdfast.gate.rest.routes import command_routes
from holdfast.vocabulary.alerts import AlertCause
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import EXIT_CODES
from holdfast.vocabulary.events import MEANING, EventKind
from holdfast.vocabulary.states import State
from scripts import reference
from tests.project.tree import ROOT, documents, files, named, text_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
REFERENCE = ROOT / "docs" / "reference"
ADR_SECTIONS = ("## Context", "## Decision", "## Consequences", "## Alternatives")


def prose_of(path: Path) -> str:
    return FENCE.sub("", text_of(path))


@pytest.mark.parametrize("document", documents(), ids=named)
def test_links_resolve(document: Path) -> None:
    """Every relative link of a document leads to a file, and every anchor to a heading."""
    for target in LINK.findall(prose_of(document)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), f"{named(document)}: {target} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", text_of(found), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{named(document)}: no heading for {target}"


@pytest.mark.parametrize("document", documents(), ids=named)
def test_only_our_distribution_is_installed(document: Path) -> None:
    """`holdfast` on the package index is another program, with extras or without."""
    wrong = r"(?:install|upgrade|uv add) (?:[-\w]+ )*[\"']?holdfast(?![-\w.])|holdfast\["
    assert not re.findall(wrong, text_of(document))


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_reference_is_current(name: str) -> None:
    """The generated pages say what the code says; `scripts/check --fix` writes them."""
    assert text_of(REFERENCE / name) == reference.pages()[name]


def test_the_relay_answers_as_the_server_does() -> None:
    """What it says itself is what the server would say; `scripts/check --fix` writes it."""
    assert text_of(first_answers.PATH) == first_answers.text()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("commands.md", [f"## {name}\n" for name in COMMANDS]),
        ("cli.md", [f"holdfast {name}" for name in NAMES]),
        ("events.md", [f"`{kind.value}`" for kind in EventKind]),
        ("errors.md", [f"| `{code}` | {status} |" for code, status in EXIT_CODES.items()]),
        ("errors.md", [f"| {code} | " for code in range(8)]),
        ("http.md", [f"| `{route.method} {route.path}` | " for route in command_routes()]),
        ("states.md", [f"| `{state.value}` | " for state in State]),
    ],
)
def test_reference_is_complete(page: str, words: list[str]) -> None:
    """Every command, verb, event, error code, exit code and state has its place."""
    text = text_of(REFERENCE / page)
    assert [word for word in words if word not in text] == []


def test_every_event_has_a_meaning() -> None:
    """No event kind is announced without being explained."""
    assert set(MEANING) == set(EventKind)


def test_every_cause_of_alerts_is_explained() -> None:
    """The guide tells what raises and what clears each, and of no other."""
    section = text_of(ROOT / "docs" / "guides" / "alerts.md").partition("## Causes")[2]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(cause.value for cause in AlertCause)


def test_every_command_is_explained() -> None:
    """A command's docstring is its documentation, so each has one."""
    assert [name for name, kind in COMMANDS.items() if not (kind.__doc__ or "").strip()] == []


def test_exit_codes_are_those_of_the_errors() -> None:
    """The pages list exactly those that errors carry, success, and three ends without an error."""
    listed = [code for code, _, _ in cli_reference.EXIT_CODES]
    assert set(listed) - {8, 130, 141} == {0, *EXIT_CODES.values()}
    assert len(set(listed)) == len(listed)


def test_decisions_are_listed_and_have_their_sections() -> None:
    """Every decision is in the list, has the four sections, and fits on a page."""
    folder = ROOT / "docs" / "adr"
    listed = text_of(folder / "README.md")
    pages = sorted(folder.glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in pages] == list(range(1, len(pages) + 1))
    for path in pages:
        text = text_of(path)
        assert f"({path.name})" in listed
        assert [section for section in ADR_SECTIONS if section not in text] == [], named(path)
        assert len(text.splitlines()) <= 80, named(path)


def test_glossary_words_are_used() -> None:
    """Every word of the glossary occurs in the code or in another document."""
    glossary = ROOT / "docs" / "glossary.md"
    words = re.findall(r"^\| ([a-z][a-z -]+) \|", text_of(glossary), re.MULTILINE)
    suffixes = {".py", ".md"}
    corpus = "\n".join(
        text_of(path).lower() for path in files() if path.suffix in suffixes and path != glossary
    )
    assert len(words) > 30
    assert [word for word in words if word not in corpus and word != "word"] == []


def test_changelog_fragments_are_named_by_kind() -> None:
    """Every fragment says what kind of change it is, in a few lines that become one list entry."""
    for path in (ROOT / "changelog.d").iterdir():
        if path.name != "README.md":
            assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", path.name)
            text = text_of(path).strip()
            assert 1 <= len(text.splitlines()) <= 3, path.name
            assert not text.startswith("- "), path.name


def test_documents_name_no_missing_script() -> None:
    """Every script that a document names exists."""
    for document in documents():
        for name in re.findall(r"\bscripts/([a-z_]+(?:\.py)?)", text_of(document)):
            assert (ROOT / "scripts" / name).exists(), f"{named(document)}: scripts/{name}"
