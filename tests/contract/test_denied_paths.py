"""Every command with every field that can name a path, for every path that is denied: nothing of
it is read, listed or written."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec
import pytest

from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, quick

GOLD = "TREASURE=gold-of-the-treasure"  # a line that .env may have
PATHS = frozenset({
    *("path", "paths", "repository", "root", "patch", "glob", "cursor", "working_dir", "config"),
    *("pidfile", "package", "import_path", "command", "custom_command", "pre_commands"),
    *("post_commands",),
})  # fmt: skip
"""Fields that name a file or a folder, or hold something that does."""
NOT_PATHS = frozenset({
    *("callback", "address", "login"),
    *("version", "services", "service", "environment", "settings", "argv", "restart_policy"),
    *("hold",),
    *("stdin", "argv_prefix", "condition", "signal", "to", "args", "start_args", "env_vars"),
    *("stream", "grep", "data", "token_name", "role", "commands", "tags", "token", "actor"),
    *("about", "door", "asked", "by", "reason", "mode", "approval", "workflow", "client"),
    *("fate", "session", "content", "encoding", "etag", "edits", "change", "pattern", "type"),
    *("case", "rev", "message", "branch", "action", "tag", "note", "checkpoint", "instances"),
    *("who", "arguments", "banner", "values", "tool", "tools", "query", "call", "calls"),
    *("attached", "kind", "run_id", "listing", "result", "input", "toolsets", "format"),
    *("backends", "backend", "text"),
    *("job", "template", "templates", "states", "unique", "after", "repeat", "env", "progress"),
})  # fmt: skip
ELSEWHERE: dict[tuple[str, str], str] = {
    ("create_token", "paths"): "patterns of what the token may touch; no file is looked at",
    ("up", "config"): "at this machine only, by its owner",
    ("upgrade", "package"): "at this machine only, by its owner",
    ("upgrade", "import_path"): "at this machine only, by its owner",
    ("execute_command", "command"): "the same as custom_command; a line says its name there",
    ("logs", "cursor"): "a place in a log",
    ("wait", "cursor"): "a place in a log",
    ("job_logs", "cursor"): "a place in a log",
    ("search_logs", "cursor"): "a place in a log",
    ("git_diff", "cursor"): "a place in an answer",
    ("git_log", "cursor"): "a place in an answer",
    ("git_show", "cursor"): "a place in an answer",
    ("git_blame", "cursor"): "a place in an answer",
}
OF_REPOSITORIES = frozenset(
    name for name in COMMANDS if name.startswith("git_") or "checkpoint" in name
)
"""Their targets are repositories: tests/git."""


def texts(name: str) -> list[str]:
    """The fields of a command that can hold a text."""
    kind = COMMANDS[name]
    hints = get_type_hints(kind)
    fields = [field.name for field in msgspec.structs.fields(kind)]
    return [field for field in fields if any(word in str(hints[field]) for word in _TEXTS)]


_TEXTS = ("str", "Literal", "Custom", "Edit", "dict")
CASES = [
    (name, field)
    for name in COMMANDS
    for field in texts(name)
    if field in PATHS and (name, field) not in ELSEWHERE and name not in OF_REPOSITORIES
]


def test_every_text_is_a_path_or_not() -> None:
    """Whoever adds a field says which; and what is shown elsewhere is there at all."""
    found = {(name, field) for name in COMMANDS for field in texts(name)}
    assert {field for _, field in found if field not in PATHS | NOT_PATHS} == set()
    assert not PATHS & NOT_PATHS
    assert set(ELSEWHERE) <= found
    assert len(CASES) > 20


class Denied(NamedTuple):
    """A path that nobody but the owner may touch, and what it stands for."""

    path: str
    is_itself: bool = True
    """Not only something below it."""


class World(NamedTuple):
    hold: Hold
    outside: Path
    admin: str
    operator: str
    session: str

    def denied(self) -> dict[str, Denied]:
        state = str(self.hold.state)
        return {
            "configuration": Denied("holdfast.json"),
            "included": Denied("parts/more.json"),
            "override": Denied("holdfast.override.yaml"),
            "state": Denied(f"{state}/admin.token"),
            "state folder": Denied(state),
            "state by its root": Denied(f"whole:{Path(state).relative_to(self.hold.folder)}"),
            "repository": Denied(".git/config"),
            "repository folder": Denied(".git"),
            "secret": Denied(".env"),
            "policy": Denied("app/secrets/treasure.txt"),
            "policy folder": Denied("app/secrets"),
            "policy, other case": Denied("app/SECRETS"),
            "policy, spelt around": Denied("./app//secrets/./treasure.txt"),
            "parent": Denied("app", is_itself=False),
            "whole": Denied(".", is_itself=False),
            "parent of the state": Denied("whole:", is_itself=False),
            "link to a folder": Denied("out"),
            "below a link": Denied("out/beyond.txt"),
            "link to a file": Denied("treasure-link.txt"),
            "outside": Denied(f"{self.outside}/beyond.txt"),
            "climbing": Denied("../../outside/beyond.txt"),
        }

    def snapshot(self) -> dict[str, str]:
        """What is denied, as it is now; but for what Holdfast itself writes."""
        hold = self.hold
        roots = [self.outside, hold.project / ".git", hold.project / "app" / "secrets"]
        files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
        files += [hold.project / name for name in (".env", "holdfast.json", "parts/more.json")]
        files += hold.project.glob("holdfast.override.*")
        files += [hold.state / name for name in ("admin.token", "tokens.json")]
        return {str(path): path.read_text() for path in files}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    outside = Path(tempfile.mkdtemp(prefix="hf-out-"))
    (outside / "beyond.txt").write_text(f"{GOLD}\n")
    with Hold() as hold:
        project = hold.project
        for folder in ("app/secrets", ".git", "docs", "parts"):
            (project / folder).mkdir(parents=True)
        for name in ("app/secrets/treasure.txt", ".git/config"):
            (project / name).write_text(f"{GOLD}\n")
        (project / ".env").write_text(f"TREASURE={GOLD}\n")
        (project / "parts" / "more.json").write_text(json.dumps({"x-note": GOLD}))
        (project / "docs" / "a.md").write_text("one\n")
        (project / "out").symlink_to(outside)
        (project / "treasure-link.txt").symlink_to(outside / "beyond.txt")
        hold.write(
            {
                "runtime_mode": "advanced",
                "include": ["parts/more.json"],
                "services": {"web": quick(start_seconds=0)},
                "files": {
                    "roots": {
                        "project": {"path": ".", "write": True},
                        "whole": {"path": str(hold.folder), "write": True},
                    }
                },
                "policies": [
                    {
                        "effect": "deny",
                        "roles": ["viewer", "operator", "admin", "agent"],
                        "paths": ["*/secrets/*"],
                    }
                ],
                "commands": {"allowed_types": ["binary"]},
                "mcp": {"run": True},
                "backends": {"looker": {"kind": "claude", "command": "ls", "args": ["-a"]}},
            }
        )
        hold.up()
        tokens = {
            role: hold.ask("create_token", token_name=role, role=role)["text"]
            for role in ("admin", "operator")
        }
        session = hold.ask("open_session", client="an assistant")["token"]
        yield World(hold, outside, tokens["admin"], tokens["operator"], session)
    shutil.rmtree(outside)


def fields_for(name: str, field: str, path: str) -> dict[str, Any]:
    """A request that names this path in this field, and would do the most harm."""
    look = {"command": "ls -a", "working_dir": path}
    plain = path.removeprefix("whole:")
    patch = f"--- a/{plain}\n+++ b/{plain}\n@@ -1 +1 @@\n-{GOLD}\n+lead\n"
    whole: dict[str, dict[str, Any]] = {
        "read_file": {"path": "treasure.txt"},
        "list_files": {"path": "", "depth": 9, "hidden": True, "ignored": True},
        "write_file": {"path": "treasure.txt", "content": "lead", "etag": "*"},
        "edit_file": {"path": "treasure.txt", "edits": [{"old": GOLD, "new": "lead"}]},
        "apply_patch": {"patch": patch, "root": "project"},
        "undo_files": {"force": True},
        "file_changes": {},
        "search": {"pattern": GOLD, "hidden": True},
        "plan": {},
        "reload": {},
        "run": {"argv": ["ls", "-a"], "service": "looker", "task": True},
        "adopt": {"service": "taken"},
        "add_job": {"argv": ["ls", "-a"]},
        "execute_command": {},
        "start_or_attach": {"backend": "looker", "new": True},
        "delegate": {"backend": "looker", "text": "look", "seconds": 5},
        "custom_restart": {"service": "web"},
    }
    given: Any = path
    if field in ("command", "custom_command"):
        given = look
    elif field in ("pre_commands", "post_commands"):
        given = [look]
    elif field in ("glob", "paths"):
        given = [path]
    elif field == "patch":
        given = patch
    found = {**whole[name], field: given}
    if (name, field) == ("execute_command", "working_dir"):
        found["custom_command"] = {"command": "ls -a"}
    return found


ONLY_CHOOSE = frozenset(
    {
        ("search", "glob"),
        ("search", "cursor"),
        ("list_files", "cursor"),
        ("file_changes", "path"),
        ("file_changes", "root"),
    }
)
"""They choose from what is found; what is denied is not found."""
RUNS = frozenset(
    {"add_job", "run", "execute_command", "custom_restart", "start_or_attach", "delegate"}
)
CONFIGS = frozenset({"plan", "reload", "adopt"})


@pytest.mark.parametrize(("name", "field"), CASES)
def test_nothing_denied_is_touched(world: World, name: str, field: str) -> None:
    """By an admin, an operator and an assistant's session alike."""
    before = world.snapshot()
    secrets = (
        GOLD.partition("=")[2],
        world.admin,
        before[str(world.hold.state / "admin.token")].strip(),
    )
    callers = {
        "admin": {"token": world.admin, "door": "rest"},
        "operator": {"token": world.operator, "door": "tcp"},
        "session": {"token": world.session, "door": "mcp"},
    }
    for (kind, denied), (who, caller) in (
        (one, other) for one in world.denied().items() for other in callers.items()
    ):
        if not denied.is_itself and name in RUNS:
            continue  # a program may run where something denied is below
        if denied.path.startswith("whole:") and name in RUNS | CONFIGS:
            continue  # they do not know roots
        if name in CONFIGS and kind == "configuration" and field == "config":
            continue  # the one in use
        fields = fields_for(name, field, denied.path)
        about = (name, field, kind, who)
        try:
            answer = world.hold.ask(name, **fields, caller=caller)
        except HoldfastError as error:
            text = json.dumps(error.as_fields())
        else:
            text = json.dumps(answer)
            is_choice = (name, field) in ONLY_CHOOSE
            assert is_choice or not denied.is_itself or name in CONFIGS, (about, answer)
            for word in ("treasure.txt", "admin.token", "tokens.json"):
                assert word not in text, (about, answer)
        assert not [secret for secret in secrets if secret in text], (about, text)
    assert world.snapshot() == before
