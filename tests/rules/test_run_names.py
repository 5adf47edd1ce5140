"""How runs are called that nobody named."""

from __future__ import annotations

import pytest

from holdfast.rules.run_names import name_of, numbered
from holdfast.vocabulary.names import is_service_name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("./a", "a"),
        ("/usr/bin/redis-server --port 1", "redis-server"),
        ("python3 app.py --debug", "app"),
        ("python3.12 -u src/worker.py", "worker"),
        ("python -m http.server 80", "http.server"),
        ("python3 -c pass", "python3"),
        ("sh -c true", "sh"),
        ("node server/index.js", "index"),
        ("npm run dev", "npm-dev"),
        ("npm start", "npm-start"),
        ("npm --silent run build:css", "npm-build-css"),
        ("npm", "npm"),
        ("npx vite --port 3", "vite"),
        ("npx -y vite", "vite"),
        ("uv run python app.py", "app"),
        ("env A=1 ./serve", "serve"),
        ("make -j2 test", "make-test"),
        ("cargo run", "cargo"),
        ("Ünï", "n"),
        ("…", "command"),
        ("holdfast.x", "x"),
    ],
)
def test_a_run_is_called_by_what_it_does(line: str, name: str) -> None:
    """Not by the interpreter that reads the program, and always so that a service can have it."""
    found = name_of(line.split())
    assert found == name
    assert is_service_name(found)
    assert is_service_name(numbered(found, 12))


def test_a_long_name_leaves_room_for_a_number() -> None:
    """The longest name with a number is still a name."""
    assert is_service_name(numbered(name_of(["x" * 200]), 99))
