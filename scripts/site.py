"""Makes the documentation as a site: `scripts/site` calls it with the generator's own Python.

The pages stay where they are and as they are: they are copied, with links to files that are no
pages turned to the file in the tree. The build fails for a broken link, and for a page that would
load anything from another host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".scratch" / "site-source"
OUT = ROOT / ".scratch" / "site"
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
"""Pages beside `docs`; README.md is the first page."""
LINK = re.compile(r"(?<!!)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)")
LOADED = re.compile(r"""(?:src|href)=["']?(?:https?:)?//[^"'\s>]+|@import|url\(["']?https?:""")
ORDER = (
    ("Begin", ("why", "getting-started", "coming-from", "moving-in", "recipes", "faq")),
    ("Configure", ("configuration", "dependencies", "health", "instances", "ports", "reload",
                   "watch-and-schedule", "resources-and-metrics", "commands-and-workflows")),
    ("Look", ("dashboard", "explain", "alerts", "search", "troubleshooting")),
    ("Assistants", ("mcp", "mcp-servers", "sessions", "files", "git")),
    ("Reach and guard", ("doors", "authority", "security", "remote")),
    ("Run", ("starting-at-boot", "containers")),
)  # fmt: skip
SETTINGS = """\
site_name: Holdfast
docs_dir: {source}
site_dir: {out}
use_directory_urls: false
theme:
  name: material
  font: false
  features: [navigation.sections, navigation.top, content.code.copy, search.highlight]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      toggle: {{icon: material/weather-night, name: Dark}}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      toggle: {{icon: material/weather-sunny, name: Light}}
plugins: [search]
markdown_extensions: [tables, admonition, toc: {{permalink: true}}, pymdownx.superfences]
extra: {{generator: false}}
validation: {{links: {{not_found: warn, anchors: info, absolute_links: info}}}}
nav:
{nav}
"""


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(OUT, ignore_errors=True)
    source = WORK / "pages"
    copy_pages(source)
    settings = WORK / "mkdocs.yml"
    settings.write_text(SETTINGS.format(source=source, out=OUT, nav=navigation(source)))
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-f", str(settings)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    if code := subprocess.run(command, env=environ).returncode:
        return code
    foreign = foreign_loads(OUT)
    for line in foreign:
        print(f"site: loads from another host: {line}", file=sys.stderr)
    if not foreign:
        count = sum(1 for _ in OUT.rglob("*.html"))
        print(f"site: {count} pages in {OUT.relative_to(ROOT)}")
    return 1 if foreign else 0


def copy_pages(source: Path) -> None:
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file():
            _copy(path, source / path.relative_to(ROOT / "docs"), path.parent)
    _copy(ROOT / "README.md", source / "index.md", ROOT)
    for name in PAGES:
        if (ROOT / name).exists():
            _copy(ROOT / name, source / name, ROOT)


def _copy(path: Path, target: Path, folder: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".md":
        target.write_text(with_links(path.read_text(), folder, target, WORK / "pages"))
    else:
        shutil.copy(path, target)


def with_links(text: str, folder: Path, target: Path, source: Path) -> str:
    """Return a page whose links fit its new place. A link to a file that is no page becomes the
    name of that file."""

    def replaced(found: re.Match[str]) -> str:
        shown, link = found[1], found[2]
        path, mark, anchor = link.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return found[0]
        meant = (folder / path).resolve()
        place = _place_of(meant, source)
        if place is None:
            name = meant.relative_to(ROOT) if meant.is_relative_to(ROOT) else path
            return f"{shown} (`{name}`)"
        return f"[{shown}]({os.path.relpath(place, target.parent)}{mark}{anchor})"

    text = LINK.sub(replaced, text)
    images = re.compile(r"(!\[[^]]*\]\()([^)\s]+)\)")
    return images.sub(lambda found: f"{found[1]}{_image(found[2], folder, target, source)})", text)


def _image(link: str, folder: Path, target: Path, source: Path) -> str:
    place = _place_of((folder / link).resolve(), source)
    return os.path.relpath(place, target.parent) if place else link


def _place_of(meant: Path, source: Path) -> Path | None:
    """Where a file of the tree is on the site; None if it is not there."""
    if meant == ROOT / "README.md":
        return source / "index.md"
    if meant.parent == ROOT and meant.name in PAGES:
        return source / meant.name
    if meant.is_relative_to(ROOT / "docs") and meant.is_file():
        return source / meant.relative_to(ROOT / "docs")
    return None


def navigation(source: Path) -> str:
    lines = ["  - index.md"]
    known: set[str] = set()
    for title, names in ORDER:
        lines.append(f"  - {title}:")
        for name in names:
            if (source / f"guides/{name}.md").exists():
                lines.append(f"      - guides/{name}.md")
                known.add(name)
    others = sorted(path.stem for path in (source / "guides").glob("*.md"))
    if left := [name for name in others if name not in known]:
        lines.append("  - More:")
        lines += [f"      - guides/{name}.md" for name in left]
    for title, folder in (("Reference", "reference"), ("Decisions", "adr")):
        pages = sorted(path.name for path in (source / folder).glob("*.md"))
        pages.sort(key=lambda name: name != "README.md")
        lines.append(f"  - {title}:")
        lines += [f"      - {folder}/{name}" for name in pages]
    lines.append("  - About:")
    lines += [f"      - {name}" for name in ("glossary.md", "benchmarks.md")]
    lines += [f"      - {name}" for name in PAGES if (source / name).exists()]
    return "\n".join(lines)


def foreign_loads(out: Path) -> list[str]:
    """Return what a browser would load from another host; links that a person follows are none."""
    found: list[str] = []
    for path in sorted(out.rglob("*")):
        if path.suffix == ".html":
            text = re.sub(r"<(a|code|pre)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
        elif path.suffix == ".css":
            text = path.read_text()
        else:
            continue
        text = re.sub(r'<link rel="?canonical[^>]*>', "", text)
        found += [f"{path.relative_to(out)}: {load[0]}" for load in LOADED.finditer(text)]
    return found


if __name__ == "__main__":
    sys.exit(main())
