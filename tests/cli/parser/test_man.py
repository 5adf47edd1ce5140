"""Manual pages of every verb, as roff reads them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from holdfast.cli.main import main
from holdfast.cli.parser.man import overview_page, page_of
from holdfast.cli.parser.verbs import NAMES, Verb, every_verb


@pytest.mark.parametrize("verb", every_verb(), ids=lambda verb: verb.name)
def test_every_option_is_in_the_page(verb: Verb) -> None:
    """The page has the summary, the usage, each option and each example."""
    page = page_of(verb).replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    assert verb.summary in page
    for option in verb.options:
        assert all(flag in page for flag in option.flags)
        assert option.help in page
    for command, why in verb.examples:
        assert command in page
        assert why in page


@pytest.mark.parametrize("page", [overview_page(), *map(page_of, every_verb())])
def test_only_known_requests(page: str) -> None:
    """No line of text begins with what roff takes for a request, and no dash is a hyphen."""
    known = {".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".I", ".PP"}
    assert {line.split()[0] for line in page.splitlines() if line[:1] in (".", "'")} <= known
    assert not re.search(r"(?<!\\)-", page.partition("\n")[2])


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaint() -> None:
    """groff reads all pages without a warning."""
    pages = "\n".join([overview_page(), *map(page_of, every_verb())])
    done = subprocess.run(
        ["groff", "-Kutf8", "-man", "-ww", "-z"],
        input=pages, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """`help --man` shows the page of all verbs, or of one."""
    assert main(["help", "--man"]) == 0
    told = capsys.readouterr().out.replace("\\-", "-")
    assert all(f"holdfast-{name}" in told for name in NAMES)
    assert main(["help", "--man", "logs"]) == 0
    assert capsys.readouterr().out.startswith(".TH HOLDFAST\\-LOGS 1")
