"""Everything that others rely on and that no page of the reference holds: written to `golden/`.

`python -m tests.contract.public_words` writes the files anew; review the difference like code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.cli.parser.help import help_of, overview
from holdfast.cli.parser.verbs import every_verb
from holdfast.gate.mcp.tools import TABLE
from holdfast.gate.rest.openapi import describe

FOLDER = Path(__file__).parent / "golden"


def texts() -> dict[str, str]:
    """Each golden file by its name, as this tree would write it."""
    return {
        "help.txt": _help(),
        "mcp-tools.json": _json([tool.described() for tool in TABLE]),
        "openapi.json": _json(describe()),
    }


def _help() -> str:
    pages = {"holdfast": overview()}
    pages.update({f"holdfast {verb.name}": help_of(verb) for verb in every_verb()})
    return "\n".join(f"$ {name} --help\n{text}\n" for name, text in sorted(pages.items()))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Values of the protocol's library as plain JSON."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
