"""The pages of the site are those of the repository, and load nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from scripts import site
from tests.project.tree import ROOT


def test_every_guide_is_in_the_navigation(tmp_path: Path) -> None:
    """In its section; a new page is shown even if nobody gave it one."""
    (tmp_path / "guides").mkdir()
    for name in ("why", "configuration", "brand-new"):
        (tmp_path / f"guides/{name}.md").touch()
    told = site.navigation(tmp_path)
    assert "  - Begin:\n      - guides/why.md" in told
    assert "  - More:\n      - guides/brand-new.md" in told
    known = {name for _, names in site.ORDER for name in names}
    assert known <= {path.stem for path in (ROOT / "docs/guides").glob("*.md")}


def test_links_fit_the_new_place(tmp_path: Path) -> None:
    """A link to a page leads to it, one to another file names it, one to elsewhere stays."""
    folder, target = ROOT / "docs/guides", tmp_path / "guides/x.md"
    text = "[a](why.md#x) [b](../../ARCHITECTURE.md) [c](../../src/holdfast/cli/main.py) [d](#e)"
    assert site.with_links(text, folder, target, tmp_path) == (
        "[a](why.md#x) [b](../ARCHITECTURE.md) c (`src/holdfast/cli/main.py`) [d](#e)"
    )
    start = site.with_links("[a](docs/guides/why.md)", ROOT, tmp_path / "index.md", tmp_path)
    assert start == "[a](guides/why.md)"


def test_what_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    """Scripts, styles, fonts and pictures of another host; not the links that people follow."""
    (tmp_path / "a.html").write_text(
        '<a href="https://example.com">x</a><pre>src="https://example.com/y"</pre>'
        '<script src="https://cdn.example.com/x.js"></script><img src=//example.com/i.png>'
    )
    (tmp_path / "b.css").write_text('@font-face{src:url("https://fonts.example.com/f")}')
    (tmp_path / "c.html").write_text('<link href="assets/x.css"><img src="../i.png">')
    found = site.foreign_loads(tmp_path)
    assert len(found) == 3
    assert "c.html" not in str(found)
