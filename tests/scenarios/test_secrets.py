"""Secrets everywhere: none of them is told, except by the recorded log itself and a local --raw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError
from tests.contract.doors import World, by_flat_json, by_rest, by_websocket
from tests.gate.ws.client import Place, Ws, content
from tests.harness import PYTHON, quick, wait_for
from tests.scenarios.test_tcp import Wire

SECRETS = {
    "api key": "zq81-kd02-mmxv-api",
    "named": "licence#4711#ours",
    "argument": "argv-secret-5561",
    "bearer": "bearer0secret0in0a0url",
    "aws": "AKIAQ7QJ4ZEXAMPLE123",
    "github": "ghp_" + "Zk3" * 12,
    "password": "p4ss-in-a-url",
    "webhook": "T0001/B0002/hookhookhook",
    "header": "probe-header-secret-9",
    "given": "given-with-a-request-77",
    "typed": "token-in-a-file-abcdefgh",
}
STAY = "import time; time.sleep(1000)"
PRINTS = (
    "key {api key} licence {named} argv {argument} get https://h/x?token={bearer} {aws} {github}",
    "clone https://joe:{password}@git.example/x https://hooks.slack.com/services/{webhook}",
    '{{"authorization": "Bearer {header}", "password": "{given}"}}',
)


def config(world: World) -> dict[str, Any]:
    printed = "\n".join(PRINTS).format(**SECRETS)
    say = f"import sys; print({printed!r}, flush=True); print({printed!r}, file=sys.stderr)"
    secret = SECRETS
    return {
        "port": world.tcp_port,
        "http_port": world.http_port,
        "security": {"secrets": ["LICENCE"]},
        "services": {
            "web": quick(
                [PYTHON, "-c", f"{say}; {STAY}", "--token", secret["argument"]],
                env={
                    "API_KEY": secret["api key"],
                    "LICENCE": secret["named"],
                    "DATABASE_URL": f"postgres://joe:{secret['password']}@db/x",
                },
                start_seconds=0,
                health_check={
                    "http": "http://127.0.0.1:9/health?token=" + secret["bearer"],
                    "headers": {"Authorization": f"Bearer {secret['header']}"},
                    "interval": "200ms",
                    "timeout": "1s",
                },
            ),
            "broken": quick(
                [PYTHON, "-c", f"{say}; sys.exit(f'bad token={secret['argument']}')"],
                env={"API_KEY": secret["api key"]},
                restart_policy="never",
                autostart=False,
            ),
            "screen": quick(
                [PYTHON, "-c", f"{say}; {STAY}"], terminal=True, start_seconds=0
            ),
        },
        "commands": {
            "leak": {"command": [PYTHON, "-c", say], "env": {"API_KEY": secret["api key"]}}
        },
        "workflows": {"release": {"steps": [{"command": "leak"}]}},
        "alerts": [{"webhook": f"http://127.0.0.1:9/services/{secret['webhook']}"}],
        "files": {"roots": {"project": {"path": ".", "write": True}}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        made.write(config(made))
        made.up(expect=None)  # its checks fail
        wait_for(lambda: {"tcp", "http"} <= made.status()["supervisor"]["doors"].keys())
        # The first is restarted for its failing checks, sooner or later.
        wait_for(lambda: min(made.raw(name).count(b"\n") for name in ("web", "screen")) >= 6)
        provoke(made)
        yield made


def provoke(world: World) -> None:
    """Put them into requests, failures, probes, alerts, workflows, remotes and files."""
    given = SECRETS["given"]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("start", {"services": ["broken"]}),
        ("run_workflow", {"name": "release"}),
        ("execute_command", {"custom_command": {"command": "leak"}}),
        ("restart", {"services": ["web"], "env_vars": {"MY_TOKEN": given}}),
        ("restart", {"services": ["web"], "args": ["--password", given]}),
        ("restart", {"services": [f"token={given}"]}),
        ("logs", {"service": f"password={given}"}),
        ("search_logs", {"pattern": f"token={given}"}),
        ("write_file", {"path": "a.txt", "content": f"token={SECRETS['typed']}\n"}),
        ("edit_file", {"path": "a.txt", "edits": [{"old": SECRETS["typed"], "new": given}]}),
        ("lockdown", {"reason": f"password={given}"}),
        ("unlock", {}),
        ("create_token", {"token_name": f"token={given}", "role": "viewer"}),
        ("wait", {"service": "web", "condition": "log:clone", "timeout": 5}),
    ]
    for command, fields in asked:
        for ask in (by_flat_json, by_websocket):
            # A lockdown switches the mode: who asks at that moment may be cut off.
            with contextlib.suppress(KeyError, json.JSONDecodeError):
                ask(world, world.token, command, fields)
        with contextlib.suppress(HoldfastError):
            world.ask(command, **fields)
    git = ["git", "-C", str(world.project)]
    for words in (
        ["init", "-q"],
        ["remote", "add", "origin", f"https://joe:{SECRETS['password']}@git.example/x"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    wait_for(lambda: len(world.ask("events", limit=1000)["events"]) > 20)


def knock(world: World) -> None:
    """Requests that are turned away at the gate and at the TCP door, with secrets everywhere."""
    import http.client

    known = ("api key", "named", "argument", "aws", "github", "password")
    for secret in (*(SECRETS[name] for name in known), world.token):
        asked: list[tuple[str, dict[str, str]]] = [
            (f"/api/{secret}?token={secret}", {"Host": f"{secret}.example"}),
            (f"/api/status/{'x' * 150}/{secret}", {"Origin": f"https://{secret}.example"}),
        ]
        for path, headers in asked:
            connection = http.client.HTTPConnection("127.0.0.1", world.http_port, timeout=60)
            try:
                path = path.replace("#", "%23")
                connection.request("GET", path, headers={"User-Agent": secret, **headers})
                assert connection.getresponse().status == 403
            finally:
                connection.close()
        with Wire(world.tcp_port) as wire:
            wire.send(json.dumps({"command": secret + "x" * 3000}))
            wire.line()


def test_what_was_turned_away_is_recorded_without_secrets(world: World) -> None:
    """Paths, names and origins that strangers sent: hidden, and bounded in length."""
    knock(world)
    by = "pages of"

    def recorded() -> list[dict[str, Any]]:
        entries = world.ask("audit", limit=1000)["records"]
        return [entry for entry in entries if entry["role"] == "stranger"]

    wait_for(lambda: any(by in str(entry["reason"]) for entry in recorded()))
    files = [path for path in world.state.rglob("*") if "audit" in path.name and path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        assert leaks(data, world) == [], path
        assert leaks(data, world, lower=True) == [], path
    told = recorded()
    assert sum("[hidden]" in str(entry) for entry in told) >= 10
    texts = [str(entry[name]) for entry in told for name in ("actor", "command", "reason")]
    assert max(map(len, texts)) < 260


def leaks(text: str | bytes, world: World, *, lower: bool = False) -> list[str]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    known = {**SECRETS, "admin token": world.token}
    if lower:
        data, known = data.lower(), {name: it.lower() for name, it in known.items()}
    return [name for name, it in known.items() if it.encode() in data]


def test_nothing_is_in_our_files(world: World) -> None:
    """Own log, errors of our processes, history, audit; the recorded log is the user's own."""
    world.ask("status")
    for path in world.state.rglob("*"):
        is_given = "logs" in path.parts or path.name in ("admin.token", "tokens.json")
        if path.is_file() and not is_given and "files" not in path.parts:
            assert leaks(path.read_bytes(), world) == [], path


ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("hello", {}),
    ("status", {}),
    ("logs", {"service": "web"}),
    ("logs", {"service": "screen"}),
    ("logs", {"service": "web", "grep": "key"}),
    ("search_logs", {"pattern": "clone|key", "services": ["web", "broken"]}),
    ("explain", {"service": "web"}),
    ("explain", {"service": "broken"}),
    ("events", {"limit": 1000}),
    ("runs", {"service": "broken"}),
    ("audit", {"limit": 1000}),
    ("alerts", {}),
    ("metrics", {}),
    ("workflows", {}),
    ("ps", {}),
    ("list_tokens", {}),
    ("list_sessions", {}),
    ("plan", {}),
    ("health_check", {"services": ["web"]}),
    ("start", {"services": ["broken"]}),
    ("execute_command", {"custom_command": {"command": "leak"}}),
    ("run_workflow", {"name": "release"}),
    ("wait", {"service": "web", "condition": "log:clone", "timeout": 5}),
    ("wait", {"service": "web", "condition": f"log:{SECRETS['api key']}", "timeout": 0.2}),
    ("git_status", {}),
    ("get_mode", {}),
    ("open_output", {"service": "web"}),
    ("logs", {"service": f"password={SECRETS['given']}"}),
    ("run_workflow", {"name": SECRETS["github"]}),
]


@pytest.mark.parametrize("way", ["line", "mcp", "tcp", "rest", "websocket"])
def test_nothing_is_in_answers(world: World, way: str) -> None:
    """Whichever door is asked, whatever the role."""
    hidden = 0
    for command, fields in ANSWERS:
        answer = _answer(world, way, command, fields)
        assert leaks(answer, world) == [], (command, answer[:3000])
        hidden += answer.count("[hidden]")
    assert hidden > 50


def _answer(world: World, way: str, command: str, fields: dict[str, Any]) -> str:
    if way == "rest":
        try:
            return str(by_rest(world, world.token, command, fields))
        except StopIteration:
            return ""  # it has no path
    if way == "websocket":
        return str(by_websocket(world, world.token, command, fields))
    if way == "tcp":
        with Wire(world.tcp_port) as wire:
            wire.send(f"token {world.token}", json.dumps({"command": command, **fields}))
            return wire.line() + wire.line()
    caller = {"caller": {"token": world.token, "door": "mcp"}} if way == "mcp" else {}
    connection = Connection(str(world.runtime / "line.sock"))
    try:
        return str(connection.ask(command, **fields, **caller))
    except HoldfastError as error:
        return str(error.as_fields())
    finally:
        connection.close()


VERBS = [
    ["logs"], ["logs", "web", "--json"], ["logs", "--grep", "key"], ["status"], ["explain", "web"],
    ["explain", "broken"], ["events"], ["audit"], ["alerts"], ["doctor"], ["plan"],
    ["runs", "broken"], ["metrics"],
    ["metrics", "--prometheus"], ["start", "broken"], ["exec", "leak"],
    ["workflow", "release"], ["ps"], ["token", "ls"], ["search", "--logs", "clone"],
]  # fmt: skip


def test_nothing_is_on_the_screen(world: World) -> None:
    """Of any verb; --raw by the owner shows the bytes as they were printed."""
    for verb in VERBS:
        done = world.cli(*verb, expect=None)
        assert leaks(done.stdout + done.stderr, world) == [], (verb, done.stdout)
    assert "[hidden]" in world.cli("logs", "web").stdout
    raw = world.raw("web")
    assert SECRETS["api key"].encode() in raw
    assert SECRETS["github"].encode() in raw


@pytest.mark.parametrize("path", ["logs?tail=100", "log", "log?format=text", "log?run=1"])
def test_nothing_is_downloaded(world: World, path: str) -> None:
    """As lines, as a file, as server-sent events."""
    assert leaks(_get(world, f"/api/services/web/{path}"), world) == []


def test_no_half_of_a_secret_is_downloaded(world: World) -> None:
    """Parts that begin or end in the middle of one."""
    secret = SECRETS["api key"].encode()
    whole = world.raw("web", "--stream", "out")
    place = world.raw("web").find(secret) if world.raw("web").startswith(whole) else 4
    for cut in range(place, place + len(secret)):
        digits = _base36(cut)
        for part in (f"cursor=P{digits}", f"until_cursor=P{digits}"):
            data = _get(world, f"/api/services/web/log?{part}")
            assert secret[:6] not in data, part
            assert secret[-6:] not in data, part


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def _get(world: World, path: str) -> bytes:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", world.http_port, timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {world.token}"})
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return data
    finally:
        connection.close()


@pytest.mark.parametrize("service", ["web", "screen"])
@pytest.mark.parametrize("binary", [False, True])
def test_nothing_is_shown_to_viewers(world: World, service: str, binary: bool) -> None:
    """Over WebSocket; cursors count the bytes that were printed. In a terminal, what only stands
    behind a name may be seen."""

    async def look() -> bytes:
        async with await Ws.open(Place(world.http_port, world.token)) as ws:
            seen, size = b"", 0
            await ws.watch(service, cursor="P0", binary=binary)
            wanted = len(world.raw(service))
            while size < wanted:
                if binary:
                    frame = await ws.frame(lambda it: isinstance(it, bytes))
                    seen, size = seen + frame[13:], size + len(frame) - 13
                else:
                    message = (await ws.event("output"))["data"]
                    seen, size = seen + content(message), size + message["bytes"]
            if binary:
                assert len(seen) == size
            return seen

    seen = asyncio.run(look())
    told = leaks(seen, world)
    on_a_screen = {"argument", "bearer", "given", "password", "header"}
    assert set(told) <= (on_a_screen if service == "screen" else set()), seen


def test_a_supervised_process_is_not_told(world: World) -> None:
    """What must be hidden is known to the owner and to the gate; not to who is supervised."""
    line = world.runtime / "line.sock"
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX);"
        f"s.connect({str(line)!r});"
        's.sendall(b\'{"id": 1, "command": "hello", "secrets": true}\\n\');'
        "print(s.makefile().readline(), flush=True)"
    )
    world.cli("run", "--name", "asks", "--", PYTHON, "-c", code)
    said = wait_for(lambda: world.raw("asks"))
    assert b'"ok":true' in said
    assert b"hidden" not in said
    assert leaks(said, world) == []
    assert SECRETS["named"] in world.ask("hello", secrets=True)["hidden"]["values"]
    for ask in (by_websocket, by_rest, by_flat_json):
        with contextlib.suppress(StopIteration):
            end = ask(world, world.token, "hello", {"secrets": True})
            assert "hidden" not in (end.result or {})


def test_what_becomes_a_secret_is_hidden_at_once() -> None:
    """A viewer who was there before the reload does not see the new value either."""
    new = "brand-new-value-4242"
    says = quick(["sh", "-c", "printenv PLAIN_NAME || echo nothing; exec sleep 1000"])
    with World() as world:
        facts: dict[str, Any] = {"port": world.tcp_port, "http_port": world.http_port}
        world.write({**facts, "services": {"web": says}})
        world.up()
        wait_for(lambda: "http" in world.status()["supervisor"]["doors"])

        async def look() -> bytes:
            async with await Ws.open(Place(world.http_port, world.token)) as ws:
                await ws.watch("web", cursor="P0")
                seen = content((await ws.event("output"))["data"])
                assert seen == b"nothing\n"
                changed = {**says, "env": {"PLAIN_NAME": new}}
                security = {"secrets": ["PLAIN_NAME"]}
                world.write({**facts, "security": security, "services": {"web": changed}})
                await asyncio.to_thread(world.cli, "reload")
                return content((await ws.event("output"))["data"])

        assert asyncio.run(look()) == b"[hidden]\n"
        assert new not in world.cli("logs", "web").stdout
        assert new.encode() in world.raw("web")
