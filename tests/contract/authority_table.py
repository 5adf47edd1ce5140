"""THE table: what each command takes, written by hand and compared with the vocabulary.

Whoever adds a command decides here what it takes. From this table alone, `expected` says whether
a caller may give a command; the tests ask the product the same.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from holdfast.vocabulary.actors import Role, Scopes
from holdfast.vocabulary.command import Door

VIEW = frozenset({
    *("hello", "status", "ps", "wait", "logs", "open_output", "watch", "events", "runs", "plan"),
    *("log_in", "log_out", "hand_over", "report_refusal", "get_mode", "workflows", "alerts"),
    *("get_approval", "withdraw"),
    *("explain", "metrics", "health_check", "ports", "read_file", "list_files", "file_changes"),
    *("open_session", "renew_session", "hold_session", "close_session", "list_sessions"),
    *("search", "search_logs", "git_status", "git_diff", "git_log", "git_show", "git_blame"),
    *("git_branches", "checkpoints", "banners", "dependencies", "preferences"),
    *("set_preferences", "mcp_servers", "mcp_tools", "read_mcp_tool"),
    "assistant_setups",
    *("serve_mcp_servers", "report_mcp_server", "list_backends"),
    *("list_agents", "transcript"),
    *("list_jobs", "show_job", "job_logs", "wait_job", "job_stats", "report_job"),
})  # fmt: skip
OPERATE = frozenset({
    *("start", "stop", "restart", "pause", "resume", "signal", "remove", "prune", "reload"),
    *("send_input", "resize", "approvals", "policies", "approve", "reject", "custom_restart"),
    *("execute_command", "run_workflow", "cancel_workflow", "scale", "rolling_restart"),
    *("config", "environment", "follow_workflow"),
    *("write_file", "edit_file", "apply_patch", "undo_files", "git_add", "git_commit"),
    *("git_restore", "git_switch", "git_stash", "git_tag", "checkpoint", "restore_checkpoint"),
    *("git_abort", "dismiss_banner", "open_terminal", "call_mcp_tool"),
    *("start_or_attach", "prompt", "interrupt", "stop_agent", "restart_agent", "resume_agent"),
    *("fork_agent", "forget_agent", "delegate"),
    *("add_job", "cancel_job", "retry_job", "pause_jobs", "resume_jobs"),
})  # fmt: skip
ADMINISTER = frozenset({
    *("up", "run", "adopt", "upgrade", "shutdown", "create_token", "list_tokens"),
    *("revoke_token", "rotate_token", "check_access", "audit", "create_login", "set_mode"),
    *("lockdown", "unlock", "approve_mcp_tools", "login_mcp_server"),
    *("finish_mcp_login", "logout_mcp_server"),
})  # fmt: skip
EVERYWHERE = frozenset(Door)
DOORS: dict[str, frozenset[Door]] = {
    "up": frozenset({Door.CLI}),
    "upgrade": frozenset({Door.CLI}),
    "create_login": frozenset({Door.CLI}),
    "run": frozenset({Door.CLI, Door.MCP}),
    "open_terminal": frozenset({Door.CLI, Door.REST, Door.WEBSOCKET, Door.TCP}),
    "open_output": frozenset({Door.CLI, Door.WEBSOCKET, Door.REST, Door.MCP}),
    "log_in": frozenset({Door.REST}),
    "log_out": frozenset({Door.REST}),
    "hand_over": frozenset({Door.REST}),
    "report_refusal": frozenset({Door.GATE}),
    "serve_mcp_servers": frozenset({Door.GATE}),
    "report_mcp_server": frozenset({Door.GATE}),
    "report_job": frozenset({Door.CLI}),
}
"""Where a command is offered, if not everywhere."""
OWN_STAY = frozenset({
    *("hello", "log_out", "hand_over", "renew_session", "hold_session", "close_session"),
})  # fmt: skip
"""What no limit takes away: who one is, and one's own leave."""
LETS_IN = frozenset({*OWN_STAY, "log_in", "open_session"})
CHANGING_VIEWS = frozenset({
    *("log_in", "log_out", "hand_over", "open_session", "renew_session", "close_session"),
    *("set_preferences", "withdraw", "report_job"),
})  # fmt: skip
"""What a viewer changes: its own coming and going."""
READING_MORE = frozenset({
    *("config", "environment", "follow_workflow", "approvals", "policies", "list_tokens"),
    *("check_access", "audit"),
})  # fmt: skip
"""What takes more than a viewer and only reads."""
IN_LOCKDOWN = frozenset({
    *("stop", "shutdown", "cancel_workflow", "revoke_token", "close_session", "lockdown"),
    *("interrupt", "stop_agent"),
    *("unlock", "reject", "create_login", "log_in", "log_out", "hand_over"),
    *("cancel_job", "pause_jobs"),
})  # fmt: skip
REACHES_OUT = frozenset({"read_mcp_tool"})
"""What reads, but not in a lockdown: a program of somebody else does it."""
ABOUT_FILES = frozenset({
    *("read_file", "list_files", "file_changes", "write_file", "edit_file", "apply_patch"),
    *("undo_files", "search", "git_status", "git_diff", "git_log", "git_show", "git_blame"),
    *("git_branches", "git_add", "git_commit", "git_restore", "git_switch", "git_stash"),
    *("git_tag", "git_abort", "checkpoint", "checkpoints", "restore_checkpoint"),
})  # fmt: skip
BELOW_FOLDERS = ABOUT_FILES - {"read_file", "write_file", "edit_file", "apply_patch"}
"""A folder that they name stands for what is below it."""
LEAVES_OUT = frozenset(
    {"list_files", "search", "file_changes", *(it for it in ABOUT_FILES if it.startswith("git_"))}
)
"""They decide about each path that they come to; the others are refused for a whole folder."""
BY_NAME = frozenset({"run"})
"""What takes an admin, and may be given to an agent by its very name."""

NETWORK = frozenset({Door.REST, Door.WEBSOCKET, Door.TCP, Door.MCP})
_RIGHTS: dict[Role, frozenset[str]] = {
    Role.OWNER: VIEW | OPERATE | ADMINISTER,
    Role.ADMIN: VIEW | OPERATE | ADMINISTER,
    Role.OPERATOR: VIEW | OPERATE,
    Role.VIEWER: VIEW,
    Role.AGENT: VIEW,
    Role.STRANGER: frozenset(),
}


class Limit(NamedTuple):
    """What narrows a caller, or everybody."""

    scopes: Scopes = Scopes()
    allowed: tuple[str, ...] | None = None
    lockdown: bool = False
    covers: bool = True
    """Whether the services and paths of the request are those of the limit."""


LIMITS: dict[str, Limit] = {
    "none": Limit(),
    "commands": Limit(Scopes(commands=("status", "restart", "run", "close_*"))),
    "no command": Limit(Scopes(commands=())),
    "services": Limit(Scopes(services=("web",))),
    "other services": Limit(Scopes(services=("db",)), covers=False),
    "tags": Limit(Scopes(tags=("dev",))),
    "other tags": Limit(Scopes(tags=("prod",)), covers=False),
    "paths": Limit(Scopes(paths=("docs/**",))),
    "other paths": Limit(Scopes(paths=("src/**",)), covers=False),
    "allowed commands": Limit(allowed=("status", "restart")),
    "lockdown": Limit(lockdown=True),
    "lockdown and commands": Limit(Scopes(commands=("stop", "status")), lockdown=True),
}


def reads(name: str) -> bool:
    return (name in VIEW and name not in CHANGING_VIEWS) or name in READING_MORE


def expected(name: str, role: Role, door: Door, limit: Limit, *, has_services: bool) -> bool:
    """Whether this caller may give this command. `has_services`: it names services."""
    if door not in DOORS.get(name, EVERYWHERE):
        return False
    if not _by_rights(name, role, door, limit, has_services=has_services):
        return False
    if not limit.lockdown or name == "hello":
        return True
    if role is Role.AGENT and door is not Door.GATE:
        return False
    is_admin = role in (Role.OWNER, Role.ADMIN)
    if reads(name) and name not in REACHES_OUT:
        return True
    return name in IN_LOCKDOWN and (is_admin or name in LETS_IN)


def _by_rights(name: str, role: Role, door: Door, limit: Limit, *, has_services: bool) -> bool:
    if name in OWN_STAY:
        return name in _RIGHTS[role]
    scopes = limit.scopes
    if limit.allowed is not None and door in NETWORK and name not in limit.allowed:
        return False
    is_named = scopes.commands is not None and any(
        fnmatchcase(name, one) for one in scopes.commands
    )
    is_given = (
        role is Role.AGENT
        and is_named
        and (name in OPERATE or (name in BY_NAME and name in (scopes.commands or ())))
    )
    if name not in _RIGHTS[role] and not is_given:
        return False
    if scopes.commands is not None and not is_named:
        return False
    if scopes.paths is not None:
        return name not in ABOUT_FILES or limit.covers
    if scopes.services is None and scopes.tags is None:
        return True
    if name in ABOUT_FILES:
        return False
    return limit.covers if has_services else name in VIEW
