"""MCP servers that programs of assistants are configured with, in the words of `mcp_servers:`.

Reads the files of Claude, Cursor, VS Code, Codex, Gemini CLI and OpenCode. A key of an entry is
carried over, is among the losses, or needs no equivalent. A value that looks like a secret is
handed back apart from the keys, which refer to it by a file. Runs nothing and writes nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.migration.findings import escaped
from holdfast.secrets.redaction import is_secret_name, redact
from holdfast.vocabulary.errors import Failed, UsageError

_DESKTOP = (
    "~/Library/Application Support/Claude" if sys.platform == "darwin" else "~/.config/Claude"
)
_CODE_USER = (
    "~/Library/Application Support/Code/User" if sys.platform == "darwin" else "~/.config/Code/User"
)
FILES: dict[str, tuple[str, ...]] = {
    "claude": (".mcp.json", "~/.claude.json"),
    "claude-desktop": (f"{_DESKTOP}/claude_desktop_config.json",),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
    "vscode": (".vscode/mcp.json", f"{_CODE_USER}/mcp.json"),
    "codex": (".codex/config.toml", "~/.codex/config.toml"),
    "gemini": (".gemini/settings.json", "~/.gemini/settings.json"),
    "opencode": (
        "opencode.json",
        "opencode.jsonc",
        "~/.config/opencode/opencode.json",
        "~/.config/opencode/opencode.jsonc",
    ),
}
"""Where each client has its servers: in the project, or with `~` for the user."""
LARGEST_BYTES = 32 << 20
_LONGEST_NAME = 20
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(:-[^}]*)?\}")
_BARE = re.compile(r"\$([A-Za-z_]\w*)")
_ODD = re.compile(r"\$\{([^}]*)\}")
_OPENCODE = re.compile(r"\{(env|file):([^}]*)\}")


class McpLoss(NamedTuple):
    """Something that the new configuration does not say."""

    server: str
    what: str
    instead: str


class FoundServer(NamedTuple):
    """A server, its keys as in holdfast.yaml, and the secrets that these refer to, by the path of
    their files."""

    name: str
    keys: dict[str, Any]
    secrets: dict[str, str]


class McpFindings:
    """What one file holds."""

    def __init__(self, client: str, path: str) -> None:
        self.client = client
        self.path = path
        self.servers: list[FoundServer] = []
        self.losses: list[McpLoss] = []


class Place(NamedTuple):
    """Where the servers are taken to."""

    project: str
    environ: Mapping[str, str]
    secrets: str
    """The folder of the files with secrets."""


def client_of(path: str, text: str) -> str:
    """Return whose file this is, by its name and content."""
    for client, files in FILES.items():
        ends = [os.path.join("", *name.removeprefix("~/").split("/")[-2:]) for name in files]
        if any(path.endswith(os.sep + end) for end in ends):
            return client
    name = os.path.basename(path)
    if name.endswith(".toml"):
        return "codex"
    value = _parsed(path, text, "claude")
    if "mcpServers" in value:
        return "gemini" if name == "settings.json" else "claude"
    if "servers" in value:
        return "vscode"
    if "mcp" in value:
        return "opencode"
    raise UsageError(f"{path} names no MCP servers", f"known: files of {', '.join(FILES)}")


def read_file(path: str, client: str | None, place: Place) -> McpFindings:
    """Return the servers in a file."""
    try:
        if os.path.getsize(path) > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than 32 MiB", "is it a configuration?")
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from None
    client = client or client_of(path, text)
    found = McpFindings(client, path)
    value = _parsed(path, text, client)
    for name, entry in _entries(value, client, place.project):
        if not isinstance(entry, dict):
            found.losses.append(McpLoss(name, "the entry", "it is no table of keys"))
        elif not _is_holdfast(entry):
            _Entry(found, name, entry, place).take()
    if client == "vscode":
        for one in value.get("inputs") or ():
            if isinstance(one, dict) and one.get("id"):
                _lose_input(found, str(one["id"]))
    return found


def _lose_input(found: McpFindings, identity: str) -> None:
    name = _input_variable(identity)
    found.losses.append(
        McpLoss("inputs", identity, f"nobody is asked here: set {name} in the shell or in .env")
    )


def _parsed(path: str, text: str, client: str) -> dict[str, Any]:
    try:
        if client == "codex":
            value: Any = importlib.import_module("tomllib").loads(text)
        else:
            plain = _COMMENT.sub(lambda match: match[1] or " ", text)
            value = json.loads(_LAST_COMMA.sub(lambda match: match[1] or "", plain) or "{}")
    except ImportError:
        raise Failed(f"{path}: reading TOML needs Python 3.11 or newer") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}", "mend the file, or leave it out") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no table of keys", "is it a configuration?")
    return value


def _entries(value: dict[str, Any], client: str, project: str) -> list[tuple[str, Any]]:
    """Return the names and entries of a file; in that of Claude Code also those of the project."""
    match client:
        case "codex":
            tables = [value.get("mcp_servers")]
        case "vscode":
            tables = [value.get("servers"), (value.get("mcp") or {}).get("servers")]
        case "opencode":
            mcp = value.get("mcp")
            is_newer = isinstance(mcp, dict) and set(mcp) <= {"servers", "timeout"}
            tables = [mcp.get("servers") if is_newer and isinstance(mcp, dict) else mcp]
        case _:
            projects = value.get("projects")
            own = projects.get(project) if isinstance(projects, dict) else None
            tables = [value.get("mcpServers"), (own or {}).get("mcpServers")]
    return [pair for table in tables if isinstance(table, dict) for pair in table.items()]


def _is_holdfast(entry: Mapping[str, Any]) -> bool:
    command = entry.get("command")
    words = [*command] if isinstance(command, list) else [command, *(entry.get("args") or ())]
    texts = [str(word) for word in words]
    is_ours = any(os.path.basename(word) == "holdfast" for word in texts[:3])
    return is_ours and "mcp" in texts[1:]


class _Entry:
    """One entry while it is read."""

    def __init__(
        self, found: McpFindings, name: str, entry: Mapping[str, Any], place: Place
    ) -> None:
        self._found = found
        self._entry = dict(entry)
        self._place = place
        self._written = name
        self.name = self._free_name(name)
        self._keys: dict[str, Any] = {}
        self._secrets: dict[str, str] = {}

    def _free_name(self, name: str) -> str:
        plain = re.sub(r"[^a-z0-9-]+", "-", name.strip().lower()).strip("-")[:_LONGEST_NAME]
        plain = plain.strip("-") or "server"
        taken = {server.name for server in self._found.servers}
        number, own = 2, plain
        while own in taken:
            own, number = f"{plain[: _LONGEST_NAME - 3]}-{number}", number + 1
        return own

    def lose(self, what: str, instead: str) -> None:
        self._found.losses.append(McpLoss(self._written, what, instead))

    def take(self) -> None:
        if self.name != self._written:
            self.lose(f'the name "{self._written}"', f'it is called "{self.name}" here')
        is_taken = self._take_address() if self._address() else self._take_command()
        if not is_taken:
            return
        is_off = self._pop("enabled") is False
        if self._pop("disabled") is True or is_off:
            if "url" in self._keys:
                self.lose("the entry", "it is switched off there, so it is left out")
                return
            self._keys["enabled"] = False
        for key in list(self._entry):
            self._take_key(key, self._entry[key])
        self._found.servers.append(FoundServer(self.name, self._keys, self._secrets))

    def _pop(self, key: str) -> Any:
        return self._entry.pop(key, None)

    # How it is reached

    def _address(self) -> str | None:
        for key in ("httpUrl", "url", "serverUrl"):
            if self._entry.get(key):
                return key
        return None

    def _take_address(self) -> bool:
        key = self._address() or "url"
        url, kind = str(self._pop(key)), str(self._pop("type") or "")
        for other in ("httpUrl", "url", "serverUrl", "command", "args", "transport"):
            self._pop(other)
        is_sse = kind == "sse" or (self._found.client == "gemini" and key == "url")
        if is_sse and kind != "http":
            self.lose("the entry", "it speaks the older SSE; ask for its address of today's HTTP")
            return False
        if not re.match(r"https?://|\$", url):
            self.lose(f"the address {url[:60]}", "only http and https are spoken; left out")
            return False
        if redact(url) != url:
            self._keys["url"] = self._variable("URL", url, "the address")
        else:
            self._keys["url"] = self._text(url)
        return True

    def _take_command(self) -> bool:
        command, args = self._pop("command"), self._pop("args")
        self._pop("type")
        words = [*command] if isinstance(command, list) else [command, *(args or ())]
        if not words or not words[0]:
            self.lose("the entry", "it has neither a command nor an address")
            return False
        self._keys["command"] = self._words([str(word) for word in words])
        return True

    def _words(self, words: list[str]) -> list[str]:
        """Return the words of a command, each secret among them as a variable."""
        taken: list[str] = []
        is_secret_next = False
        for word in words:
            flag, equals, value = word.partition("=")
            name = flag.lstrip("-").replace("-", "_")
            is_flag = flag.startswith("-")
            if is_flag and equals and is_secret_name(name) and not _VARIABLE.search(value):
                taken.append(f"{flag}={self._variable(name, value, 'an argument')}")
            elif (is_secret_next or redact(word) != word) and not _VARIABLE.search(word):
                taken.append(self._variable(f"ARGUMENT_{len(taken)}", word, "an argument"))
            else:
                taken.append(self._text(word))
            is_secret_next = is_flag and not equals and is_secret_name(name)
        return taken

    def _variable(self, name: str, value: str, what: str) -> str:
        """Return a reference to a variable that the user sets to a secret."""
        own = re.sub(r"\W", "_", f"{self.name}_{name}").upper()
        path = self._keep_secret(own, value)
        self.lose(f"a secret in {what}", f"set {own} in the shell or in .env to what {path} holds")
        return f"${{{own}:-}}"

    # The other keys

    def _take_key(self, key: str, value: Any) -> None:
        row = _ROWS.get(key)
        if row is not None:
            row(self, value)
        elif key not in _NEEDS_NOTHING:
            self.lose(key, _INSTEAD.get(key, "there is no such key here"))

    def env(self, value: Any) -> None:
        for name, text in (value or {}).items():
            if isinstance(text, (dict, list)):
                self.lose(f"env {name}", "its value is no text")
            elif text is None:
                self._variables()[str(name)] = None
            else:
                self._variables()[str(name)] = self._value(str(name), _plain(text))

    def env_vars(self, value: Any) -> None:
        """Variables that are passed on."""
        for name in value or ():
            own = name.get("name") if isinstance(name, dict) else name
            self._variables()[str(own)] = None

    def _variables(self) -> dict[str, Any]:
        variables: dict[str, Any] = self._keys.setdefault("env", {})
        return variables

    def headers(self, value: Any) -> None:
        for name, text in (value or {}).items():
            self._headers()[str(name)] = self._value(str(name), _plain(text))

    def env_headers(self, value: Any) -> None:
        for name, variable in (value or {}).items():
            self._headers()[str(name)] = self._variable_of(str(variable), None)

    def bearer(self, value: Any) -> None:
        self._headers()["Authorization"] = f"Bearer {self._variable_of(str(value), None)}"

    def _headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = self._keys.setdefault("headers", {})
        return headers

    def env_file(self, value: Any) -> None:
        if "url" in self._keys:
            self.lose("envFile", "it has no process here")
        else:
            self._keys["env_file"] = [self._text(str(value))]

    def working_dir(self, value: Any) -> None:
        if "url" not in self._keys:
            self._keys["working_dir"] = self._text(str(value))

    def timeout_ms(self, value: Any) -> None:
        self._seconds("call_timeout", value, 1000)

    def call_seconds(self, value: Any) -> None:
        self._seconds("call_timeout", value, 1)

    def start_seconds(self, value: Any) -> None:
        self._seconds("start_timeout", value, 1)

    def start_ms(self, value: Any) -> None:
        self._seconds("start_timeout", value, 1000)

    def _seconds(self, key: str, value: Any, unit: int) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            self._keys[key] = f"{max(1, round(value / unit * 1000))}ms"
            if value / unit >= 1 and float(value / unit).is_integer():
                self._keys[key] = f"{int(value / unit)}s"
        else:
            self.lose(key, f"{value!r} is no time")

    def allow(self, value: Any) -> None:
        self._keys["allow"] = [str(name) for name in value]

    def deny(self, value: Any) -> None:
        self._keys["deny"] = [str(name) for name in value]

    def always(self, value: Any) -> None:
        if value is True:
            self._keys["always"] = ["*"]

    def oauth(self, value: Any) -> None:
        facts = value if isinstance(value, dict) else {}
        if value is False or "url" not in self._keys:
            return
        self._keys["auth"] = "oauth"
        if facts.get("clientId") or facts.get("clientSecret"):
            self.lose("its client of OAuth", "write headers: {Authorization: {file: PATH}}")

    def dev(self, value: Any) -> None:
        watched = value.get("watch") if isinstance(value, dict) else None
        if watched:
            patterns = watched if isinstance(watched, list) else [watched]
            text = ", ".join(map(str, patterns))
            self.lose("dev.watch", f"restart it when you changed it, or watch {text} by a service")

    # Values

    def _value(self, name: str, text: str) -> Any:
        """Return the value of a variable or header: text, or where the secret is."""
        own = self._text(text)
        file = _OPENCODE.fullmatch(text) if self._found.client == "opencode" else None
        if file is not None and file[1] == "file":
            return {"file": file[2]}
        is_secret = (
            is_secret_name(name)
            or redact(text) != text
            or redact(f"{name}={text}") != (f"{name}={text}")
        )
        if not is_secret or own != escaped(text) or not text:
            return own
        return {"file": self._keep_secret(name, text)}

    def _keep_secret(self, name: str, text: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        path = os.path.join(self._place.secrets, f"{self.name}-{plain}")
        self._secrets[path] = text
        return path

    def _text(self, text: str) -> str:
        """Return a text with its variables as they are written here."""
        if self._found.client == "opencode":
            return _OPENCODE.sub(self._of_opencode, escaped(text))
        if self._found.client == "codex":
            return escaped(text)
        if self._found.client == "gemini":
            text = _BARE.sub(r"${\1}", text)
        parts: list[str] = []
        place = 0
        for match in _ODD.finditer(text):
            parts += [escaped(text[place : match.start()]), self._placeholder(match)]
            place = match.end()
        return "".join([*parts, escaped(text[place:])])

    def _of_opencode(self, match: re.Match[str]) -> str:
        if match[1] == "env" and re.fullmatch(r"[A-Za-z_]\w*", match[2]):
            return self._variable_of(match[2], None)
        self.lose(match[0], "write env: {NAME: {file: PATH}}")
        return ""

    def _placeholder(self, match: re.Match[str]) -> str:
        known = _VARIABLE.fullmatch(match[0])
        if known is not None and known[1] not in _FOLDERS:
            return self._variable_of(known[1], known[2])
        inner = match[1]
        if inner in _FOLDERS:
            return _FOLDERS[inner](self._place.project)
        if inner.startswith("input:"):
            name = _input_variable(inner.removeprefix("input:"))
            self.lose(match[0], f"set {name} in the shell or in .env")
            return f"${{{name}:-}}"
        self.lose(match[0], "it means nothing here; it stands as it is")
        return f"${match[0]}"

    def _variable_of(self, name: str, default: str | None) -> str:
        if default is None and name not in self._place.environ:
            self.lose(f"the variable {name}", "it is not set here: set it in the shell or in .env")
            default = ":-"
        return f"${{{name}{default or ''}}}"


def _input_variable(identity: str) -> str:
    return re.sub(r"\W", "_", identity).upper()


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_FOLDERS: dict[str, Callable[[str], str]] = {
    "workspaceFolder": lambda project: ".",
    "workspaceFolderBasename": os.path.basename,
    "userHome": lambda project: "${HOME}",
    "pathSeparator": lambda project: os.sep,
    "/": lambda project: os.sep,
}
_ROWS: dict[str, Callable[[_Entry, Any], None]] = {
    "env": _Entry.env,
    "environment": _Entry.env,
    "env_vars": _Entry.env_vars,
    "headers": _Entry.headers,
    "http_headers": _Entry.headers,
    "env_http_headers": _Entry.env_headers,
    "bearer_token_env_var": _Entry.bearer,
    "envFile": _Entry.env_file,
    "cwd": _Entry.working_dir,
    "timeout": _Entry.timeout_ms,
    "tool_timeout_sec": _Entry.call_seconds,
    "startup_timeout_sec": _Entry.start_seconds,
    "startup_timeout_ms": _Entry.start_ms,
    "includeTools": _Entry.allow,
    "enabled_tools": _Entry.allow,
    "excludeTools": _Entry.deny,
    "disabled_tools": _Entry.deny,
    "alwaysLoad": _Entry.always,
    "oauth": _Entry.oauth,
    "auth": _Entry.oauth,
    "dev": _Entry.dev,
}
_NEEDS_NOTHING = frozenset(
    ("description", "gallery", "version", "name", "required", "supports_parallel_tool_calls")
)
_INSTEAD = {
    "headersHelper": "write headers: {Authorization: {file: PATH}}",
    "sandbox": "write limits: memory_limit, process_limit, user",
    "sandboxEnabled": "write limits: memory_limit, process_limit, user",
    "trust": "say who may call what by policies: {servers, tools}",
    "autoApprove": "say who may call what by policies: {servers, tools}",
    "alwaysAllow": "say who may call what by policies: {servers, tools}",
    "default_tools_approval_mode": "say who may call what by policies: {servers, tools}",
}
