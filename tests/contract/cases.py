"""How each command is given in the contract, and what is made so before it."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.contract.doors import Fields, World
from tests.harness import quick

SLEEP = ["sleep", "1000"]
PLAIN = {"PATH": os.environ["PATH"]}
CONFIG: dict[str, Any] = {
    "runtime_mode": "advanced",
    "services": {
        "web": quick(["sh", "-c", "echo hello; exec sleep 1000"], start_seconds=0),
        "idle": quick(SLEEP, start_seconds=0, autostart=False),
        "shell": quick(["cat"], terminal=True, start_seconds=0),
        "pool": quick(SLEEP, start_seconds=0, instances=1),
    },
    "groups": {"all": ["web", "idle"]},
    "commands": {"greet": {"command": "echo hello"}, "allow_terminals": True},
    "jobs": {"greet": "echo hello"},
    "workflows": {"release": {"steps": [{"command": "greet"}]}},
    "files": {"roots": {"project": {"path": ".", "write": True}}},
}
PATCH = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n"
GREET = {"command": "greet"}


class Case(NamedTuple):
    """Fields, or how they are found; and what is done before, each time."""

    fields: Fields | Callable[[World], Fields] = {}
    before: Callable[[World], object] | None = None
    error: str | None = None
    """The code of the refusal that every door must answer; None: it is done."""


def ask(command: str, **fields: Any) -> Callable[[World], object]:
    return lambda world: world.ask(command, **fields)


def notes(world: World, text: str = "one\n") -> None:
    (world.project / "notes.txt").write_text(text)


def git(world: World, *words: str) -> None:
    subprocess.run(["git", *words], cwd=world.project, check=True, capture_output=True)


def repository(world: World) -> None:
    """One commit, and a change on top of it."""
    if not (world.project / ".git").exists():
        for words in (
            ["init", "-q", "-b", "main"],
            ["config", "user.name", "tester"],
            ["config", "user.email", "tester@localhost"],
        ):
            git(world, *words)
        notes(world)
        git(world, "add", "notes.txt")
        git(world, "commit", "-qm", "first")
        git(world, "branch", "other")
    _fresh(world)
    git(world, "reset", "-q", "--hard", "main")
    git(world, "switch", "-q", "main")
    notes(world, "changed\n")


def _stashed(world: World) -> None:
    repository(world)
    git(world, "stash", "push", "-q")


def _token(world: World) -> Fields:
    world.ask("create_token", token_name="gone", role="viewer")
    return {"token": "gone"}


def _kept_token(world: World) -> Fields:
    _revoke(world, "kept")
    world.ask("create_token", token_name="kept", role="viewer")
    return {"token": "kept"}


def _session(world: World) -> Fields:
    return {"session": world.ask("open_session", client="contract")["session"]["session"]}


def _change(world: World) -> Fields:
    _fresh(world)
    return {"change": world.ask("write_file", path="fresh.txt", content="two\n")["change"]}


def _checkpoint(world: World) -> Fields:
    repository(world)
    return {"checkpoint": world.ask("checkpoint", note="here")["id"]}


def _job(world: World) -> Fields:
    world.ask("resume_jobs")
    job: str = world.ask("add_job", template="greet")["job"]["id"]
    world.ask("wait_job", job=job)
    return {"job": job}


def _late_job(world: World) -> Fields:
    return {"job": world.ask("add_job", template="greet", delay=3600)["job"]["id"]}


def _cancelled_job(world: World) -> Fields:
    late = _late_job(world)
    world.ask("cancel_job", **late)
    return late


_WEB = {"services": ["web"]}
_WEB_ALONE = {"service": "web"}
CASES: dict[str, Case] = {
    "hello": Case(),
    "status": Case({}, ask("metrics")),  # a look: what it uses is known from then on
    "start": Case(_WEB, ask("stop", services=["web"])),
    "stop": Case(_WEB, ask("start", services=["web"])),
    "restart": Case(_WEB, ask("start", services=["web"])),
    "pause": Case(_WEB, ask("resume", services=["web"])),
    "resume": Case(_WEB, ask("pause", services=["web"])),
    "signal": Case({"services": ["web"], "signal": "CONT"}),
    "ps": Case(_WEB),
    "wait": Case({"service": "web", "condition": "running", "timeout": 10}),
    "environment": Case(_WEB_ALONE),
    "remove": Case(
        {"services": ["brief"]}, ask("run", argv=SLEEP, service="brief", environment=PLAIN)
    ),
    "adopt": Case({"service": "legacy", "pid": 999999999}, error="failed"),
    "logs": Case({"service": "web", "tail": 1}),
    "open_output": Case({"service": "web"}),
    "send_input": Case({"service": "shell", "data": base64.b64encode(b"x\n").decode()}),
    "resize": Case({"service": "shell", "cols": 100, "rows": 30}),
    "events": Case({"limit": 1}),
    "runs": Case({"service": "web", "limit": 1}),
    "prune": Case({"services": ["idle"], "older_than": 3600}),
    "config": Case(),
    "plan": Case(),
    # One that changes nothing is on record by itself again after a change.
    "reload": Case({}, ask("unlock")),
    "create_token": Case(
        {"token_name": "fresh", "role": "viewer"}, lambda world: _revoke(world, "fresh")
    ),
    "list_tokens": Case(),
    "revoke_token": Case(_token),
    "rotate_token": Case(_kept_token, lambda world: _revoke(world, "kept")),
    "check_access": Case({"who": "viewer", "about": "stop", "services": ["web"]}),
    "policies": Case(),
    "audit": Case({"limit": 1}),
    "get_mode": Case(),
    "lockdown": Case({"reason": "a drill"}, ask("unlock")),
    "unlock": Case({}, ask("lockdown", reason="a drill")),
    "approvals": Case(),
    "approve": Case({"approval": "approval-none"}, error="not_found"),
    "get_approval": Case({"approval": "approval-none"}, error="not_found"),
    "withdraw": Case({"approval": "approval-none"}, error="not_found"),
    "reject": Case({"approval": "approval-none"}, error="not_found"),
    "open_terminal": Case({"service": "idle"}, lambda world: _no_terminal(world)),
    "custom_restart": Case({"service": "web", "pre_commands": [GREET]}),
    "execute_command": Case({"custom_command": GREET}),
    "run_workflow": Case({"name": "release"}),
    "follow_workflow": Case({"workflow": "workflow-none"}, error="not_found"),
    "cancel_workflow": Case({"workflow": "workflow-none"}, error="not_found"),
    "workflows": Case(),
    "alerts": Case(),
    "banners": Case(),
    "dismiss_banner": Case({"banner": "notice:0"}, error="not_found"),
    "dependencies": Case(_WEB),
    "preferences": Case(),
    "set_preferences": Case({"values": {"theme": "dark"}}),
    "explain": Case({"service": "web"}),
    "metrics": Case(_WEB),
    "health_check": Case(_WEB),
    "scale": Case({"instances": {"pool": 1}}),
    "rolling_restart": Case({"services": ["pool"]}),
    "open_session": Case({"client": "contract"}),
    "renew_session": Case(_session),
    "close_session": Case(_session),
    "list_sessions": Case(),
    "ports": Case(),
    "read_file": Case({"path": "notes.txt"}, notes),
    "list_files": Case({}, notes),
    "write_file": Case({"path": "fresh.txt", "content": "new\n"}, lambda world: _fresh(world)),
    "edit_file": Case({"path": "notes.txt", "edits": [{"old": "one", "new": "two"}]}, notes),
    "apply_patch": Case({"patch": PATCH}, notes),
    "undo_files": Case(_change),
    "file_changes": Case({"limit": 1}, lambda world: _changed_twice(world)),
    "search": Case({"pattern": "one", "glob": ["notes.txt"]}, notes),
    "search_logs": Case({"pattern": "hello", "services": ["web"], "limit": 1}),
    "git_status": Case({}, repository),
    "git_diff": Case({}, repository),
    "git_log": Case({}, repository),
    "git_show": Case({"rev": "HEAD"}, repository),
    "git_blame": Case({"path": "notes.txt"}, repository),
    "git_branches": Case({}, repository),
    "git_add": Case({"paths": ["notes.txt"]}, repository),
    "git_commit": Case({"message": "second", "paths": ["notes.txt"], "dry_run": True}, repository),
    "git_restore": Case({"paths": ["notes.txt"]}, repository),
    "git_switch": Case({"branch": "other"}, lambda world: _clean(world)),
    "git_abort": Case({}, repository),
    "git_stash": Case({"action": "push"}, repository),
    "git_tag": Case({"tag": "v1", "dry_run": True}, repository),
    "checkpoint": Case({}, repository),
    "checkpoints": Case({}, repository),
    "mcp_servers": Case(),
    "assistant_setups": Case(),
    "mcp_tools": Case(),
    "list_backends": Case(),
    "list_agents": Case(),
    "start_or_attach": Case({"backend": "nothing"}, error="not_found"),
    "prompt": Case({"session": "nothing", "text": "hello"}, error="not_found"),
    "interrupt": Case({"session": "nothing"}, error="not_found"),
    "stop_agent": Case({"session": "nothing"}, error="not_found"),
    "restart_agent": Case({"session": "nothing"}, error="not_found"),
    "resume_agent": Case({"session": "nothing"}, error="not_found"),
    "forget_agent": Case({"session": "nothing"}, error="not_found"),
    "fork_agent": Case({"session": "nothing"}, error="not_found"),
    "transcript": Case({"session": "nothing"}, error="not_found"),
    "delegate": Case({"backend": "nothing", "text": "hello"}, error="not_found"),
    "read_mcp_tool": Case({"tool": "nothing__here"}, error="not_found"),
    "call_mcp_tool": Case({"tool": "nothing__here"}, error="not_found"),
    "approve_mcp_tools": Case({"service": "nothing"}, error="not_found"),
    "login_mcp_server": Case(
        {"service": "nothing", "callback": "http://127.0.0.1:1/callback"}, error="not_found"
    ),
    "finish_mcp_login": Case(
        {"service": "nothing", "address": "http://127.0.0.1:1/callback"}, error="not_found"
    ),
    "logout_mcp_server": Case({"service": "nothing"}, error="not_found"),
    "restore_checkpoint": Case(_checkpoint),
    "add_job": Case({"template": "greet"}),
    "list_jobs": Case(),
    "show_job": Case(_job),
    "job_logs": Case(_job),
    "wait_job": Case(_job),
    "cancel_job": Case(_late_job),
    "retry_job": Case(_cancelled_job),
    "pause_jobs": Case(),
    "resume_jobs": Case(),
    "job_stats": Case(),
    "report_job": Case({"job": "job-none", "token": "none"}, error="conflict"),
}

ELSEWHERE = {
    "up": "takes the caller's environment; offered to the command line alone",
    "run": "offered to the command line and, if the configuration says so, to assistants",
    "watch": "a stream that does not end",
    "hold_session": "a stream that does not end",
    "upgrade": "replaces what is asked",
    "shutdown": "ends what is asked: `test_shutdown` gives it at every door",
    "set_mode": "relaunches what is asked",
    "create_login": "offered to the command line alone",
    "log_in": "needs a browser's code",
    "log_out": "ends the token that it is given with",
    "hand_over": "said by a gate to another",
    "report_refusal": "said by the gate alone",
    "serve_mcp_servers": "followed by the gate alone",
    "report_mcp_server": "said by the gate alone",
}
"""Commands that have tests of their own, and why."""


def _revoke(world: World, name: str) -> None:
    known = world.ask("list_tokens")["tokens"]
    if any(token["name"] == name for token in known):
        world.ask("revoke_token", token=name)


def _clean(world: World) -> None:
    """A repository without a change."""
    repository(world)
    notes(world)


def _changed_twice(world: World) -> None:
    _change(world)
    _change(world)


def _no_terminal(world: World) -> None:
    if "idle-terminal-1" in world.status()["services"]:
        world.ask("remove", services=["idle-terminal-1"])


def _fresh(world: World) -> None:
    (world.project / "fresh.txt").unlink(missing_ok=True)
