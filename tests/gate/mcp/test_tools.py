"""The tools, through a real relay, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from typing import Any

import pytest

from holdfast.gate.mcp.relays import parse_failure
from holdfast.gate.mcp.server import INSTRUCTIONS
from holdfast.gate.mcp.tools import TABLE, offered
from holdfast.vocabulary.command import Door, Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.specs.mcp import McpSpec
from tests.gate.mcp.conftest import ERAS, McpHold, text_of

EVERYTHING = McpSpec(run=True, send=True, delegate=True)


def test_definitions_are_few_words() -> None:
    """Twelve tools, and `delegate` where it is on, under 2,500 tokens together; instructions under
    500 characters."""
    listed = {"tools": [tool.described() for tool in offered(EVERYTHING).values()]}
    compact = json.dumps(listed, separators=(",", ":"), ensure_ascii=False)
    assert len(offered(McpSpec(run=True, send=True))) == 12
    assert len(listed["tools"]) == 13
    assert len(compact) / 4 < 2500
    assert len(INSTRUCTIONS) < 500


def test_every_tool_is_a_union_of_commands() -> None:
    """Each is known and offered at this door; who only looks has no other."""
    for tool in TABLE:
        for name in tool.commands:
            assert Door.MCP in COMMANDS[name].doors, name
        schema = tool.described()["inputSchema"]
        assert schema["additionalProperties"] is False
        assert "title" not in json.dumps(schema)
        hints = tool.described()["annotations"]
        reads = all(COMMANDS[name].effect is Effect.READS for name in tool.commands)
        assert hints["readOnlyHint"] is reads


TOOLLESS = {
    "resize": "a tool has no window; `attach` sends it",
    "execute_command": "`run` does more, and what it starts can be waited for",
    "file_changes": "`edit` and `write` name each change, and `undo: last` needs no name",
    "read_mcp_tool": "each tool of another server is a tool",
    "call_mcp_tool": "each tool of another server is a tool",
}
"""Commands with a toolset that no tool gives, and why."""


def test_every_command_of_a_toolset_is_in_a_tool() -> None:
    """Or in the list above, with a reason: nothing is forgotten."""
    given = {name for tool in TABLE for name in tool.commands}
    meant = {name for name, command in COMMANDS.items() if command.toolset is not None}
    assert meant - given == set(TOOLLESS)


def test_no_tool_changes_configuration_or_rights() -> None:
    """Not one of them can reach such a command."""
    given = {name for tool in TABLE for name in tool.commands}
    forbidden = {"up", "reload", "create_token", "revoke_token", "set_mode", "lockdown", "unlock"}
    assert not given & (forbidden | {"approve", "shutdown", "upgrade", "adopt"})


def test_what_is_offered_is_narrowed() -> None:
    """By the settings, and further by the client; run and send are off unless configured."""
    assert not {"run", "send", "delegate"} & set(offered(McpSpec()))
    looking = offered(McpSpec(run=True, send=True, delegate=True, read_only=True))
    assert set(looking) == {"status", "logs", "wait", "read", "search", "git"}
    assert set(offered(McpSpec(toolsets=("git",)))) == {"git", "git_change"}
    hands_off = offered(McpSpec(changes_files=False))
    assert not {"edit", "write", "git_change"} & set(hands_off)
    assert {"read", "search", "git"} <= set(hands_off)


def test_what_can_be_brought_back_is_not_called_destructive() -> None:
    """A client asks its user before destructive tools: these hints are honest."""
    hints = {tool.name: tool.described()["annotations"].get("destructiveHint") for tool in TABLE}
    destructive = {name for name, hint in hints.items() if hint}
    assert destructive == {"run", "send", "delegate", "git_change"}
    assert {name for name, hint in hints.items() if hint is False} == {"control", "edit", "write"}


@pytest.mark.parametrize("era", ERAS)
def test_services(assistants: McpHold, era: str) -> None:
    """Status, logs, wait and control answer in words."""

    async def story(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert len(tools) == 13
        status = await client.call_tool("status", {})
        assert re.search(r"^web +running", text_of(status), re.MULTILINE)
        logs = await client.call_tool("logs", {"name": "web"})
        assert "hello\n" in text_of(logs)
        assert "\x1b" not in text_of(logs)
        waited = await client.call_tool("wait", {"names": ["web"], "until": "ready"})
        assert "web: met" in text_of(waited)
        started = await client.call_tool("control", {"action": "start", "names": ["web"]})
        assert "already running" in text_of(started)

    assistants.talk(story, era=era)


def test_a_failure_tells_code_reason_and_last_lines(assistants: McpHold) -> None:
    """So that no second call is needed."""

    async def story(client: Any) -> None:
        failed = await client.call_tool("control", {"action": "start", "names": ["bad"]})
        assert failed.is_error
        assert "exit code: 3" in text_of(failed)
        assert "oh no" in text_of(failed)

    assistants.talk(story)


def test_each_has_its_own_outcome_when_time_runs_out(assistants: McpHold) -> None:
    """Who is there is not called under way because of another who takes longer."""

    async def outcomes(client: Any, action: str) -> dict[str, str]:
        given = {"action": action, "names": ["web", "slow"], "wait_s": 1}
        told = await client.call_tool("control", given)
        return dict(line.split(": ", 1) for line in text_of(told).splitlines())

    async def story(client: Any) -> None:
        started = await outcomes(client, "start")
        assert started["web"].startswith("already running")
        assert started["slow"].startswith("start is still under way")
        await client.call_tool("wait", {"names": ["slow"], "until": "log", "pattern": "deaf"})
        stopped = await outcomes(client, "stop")
        assert stopped["web"].startswith("stopped;")
        assert stopped["slow"].startswith("stop is still under way")
        assistants.ask("stop", services=["slow"], grace=0)
        restarted = await outcomes(client, "restart")
        assert restarted["web"].startswith("restarted;")
        assert restarted["slow"].startswith("restart is still under way")
        assistants.ask("stop", services=["slow"], grace=0)

    assistants.talk(story)


def test_a_misspelt_argument_is_refused_with_a_suggestion(assistants: McpHold) -> None:
    """Never ignored; nor is a value of the wrong kind, an unknown service or tool."""

    async def story(client: Any) -> None:
        wrong = await client.call_tool("logs", {"name": "web", "tial": 5})
        assert wrong.is_error
        assert 'did you mean "tail"' in text_of(wrong)
        wrong = await client.call_tool("logs", {"name": "web", "tail": "many"})
        assert wrong.is_error
        wrong = await client.call_tool("status", {"names": ["wbe"]})
        assert 'did you mean "web"' in text_of(wrong)

    assistants.talk(story)


def test_waiting_tells_its_progress(assistants: McpHold) -> None:
    """To who wants to know; a condition that is not met in time is no error."""
    told: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)
        assert total == 3

    async def story(client: Any) -> None:
        given = {"names": ["web"], "until": "exit", "timeout_s": 3}
        waited = await client.call_tool("wait", given, progress_callback=on_progress)
        assert not waited.is_error
        assert "NOT met" in text_of(waited)

    assistants.talk(story)
    assert told


def test_hostile_output_is_bounded(assistants: McpHold) -> None:
    """A line of ten megabytes, bytes that are no text, progress bars, repetition."""

    async def story(client: Any) -> None:
        await client.call_tool("wait", {"names": ["noisy"], "until": "exit"})
        shown = text_of(await client.call_tool("logs", {"name": "noisy", "tail": 2000}))
        assert len(shown.encode()) < 9_000
        most = {"name": "noisy", "tail": 2000, "max_bytes": 64_000}
        shown = text_of(await client.call_tool("logs", most))
        assert len(shown.encode()) <= 64_000
        head = text_of(await client.call_tool("logs", {"name": "noisy", "cursor": "P0"}))
        assert "100%\n" in head
        assert "10%" not in head.replace("100%", "")
        assert "… x" in head
        assert "\ufffd\ufffd broken" in head or "next cursor" in head

    assistants.talk(story)


def test_typing_into_a_service(assistants: McpHold) -> None:
    """What it printed then is told."""

    async def story(client: Any) -> None:
        sent = await client.call_tool("send", {"name": "cat", "text": "echo me", "keys": "enter"})
        assert "echo me" in text_of(sent)

    assistants.talk(story)


def test_running_a_program(assistants: McpHold) -> None:
    """To its end, or on as a supervised task; the same one is joined, not started twice."""

    async def story(client: Any) -> None:
        done = await client.call_tool("run", {"argv": ["sh", "-c", "echo out; exit 4"]})
        assert "exit code 4" in text_of(done)
        assert "out" in text_of(done)
        long = {"argv": ["sleep", "300"], "timeout_s": 0.2}
        first = await client.call_tool("run", long)
        assert "still runs" in text_of(first)
        second = await client.call_tool("run", long)
        assert "joined" in text_of(second)
        name = re.search(r"sleep-[0-9a-f]{4}", text_of(second))[0]  # type: ignore[index]
        stopped = await client.call_tool("control", {"action": "stop", "names": [name]})
        assert not stopped.is_error
        taken = await client.call_tool("run", {"argv": ["true"], "name": "web"})
        assert taken.is_error
        outside = await client.call_tool("run", {"argv": ["true"], "cwd": "../.."})
        assert "not below the project" in text_of(outside)

    assistants.talk(story)


@pytest.mark.parametrize("era", ERAS)
def test_files_and_git(assistants: McpHold, era: str) -> None:
    """Read, edit, write, search, look and commit; nothing to commit is no failure."""
    new = f"new-{era}.txt"

    async def story(client: Any) -> None:
        read = text_of(await client.call_tool("read", {"path": "a.txt"}))
        assert "2\t" in read
        word = "two" if "two" in read else "TWO"
        other = "TWO" if word == "two" else "two"
        edits = [{"old": word, "new": other}]
        changed = await client.call_tool("edit", {"path": "a.txt", "edits": edits})
        assert f"+{other}" in text_of(changed)
        missed = await client.call_tool("edit", {"path": "a.txt", "edits": edits})
        assert missed.is_error
        written = await client.call_tool("write", {"path": new, "content": "a needle\n"})
        assert f"created {new}" in text_of(written)
        again = await client.call_tool("write", {"path": new, "content": "x\n"})
        assert again.is_error
        found = text_of(await client.call_tool("search", {"pattern": "needle"}))
        assert f"{new}:1:a needle" in found
        status = text_of(await client.call_tool("git", {"op": "status"}))
        assert "changed: modified a.txt" in status
        commit = {"op": "commit", "paths": ["a.txt", new], "message": f"in {era}"}
        assert "commit" in text_of(await client.call_tool("git_change", commit))
        nothing = await client.call_tool("git_change", {"op": "commit", "message": "more"})
        assert not nothing.is_error
        assert "nothing to commit" in text_of(nothing)
        log = text_of(await client.call_tool("git", {"op": "log"}))
        assert f"in {era}" in log
        folder = text_of(await client.call_tool("read", {"path": "."}))
        assert "a.txt" in folder
        refused = await client.call_tool("read", {"path": "../../etc/passwd"})
        assert refused.is_error
        mixed = await client.call_tool("git_change", {"op": "stash_pop", "rev": "HEAD"})
        assert "takes no rev" in text_of(mixed)

    assistants.talk(story, era=era)


def test_a_client_that_may_only_look(assistants: McpHold) -> None:
    """`--read-only` and `--toolsets` of the relay narrow what is offered."""

    async def names(client: Any) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    assert assistants.talk(names, "--read-only", "--toolsets", "process,git") == {
        "status", "logs", "wait", "git",
    }  # fmt: skip


def test_only_the_gate_pays_for_the_library() -> None:
    """Neither the supervisor nor the relay imports it; nor does the gate before it answers."""
    import subprocess

    from tests.harness import PYTHON

    for module in ("holdfast.supervisor", "holdfast.cli.mcp.relay", "holdfast.gate.main"):
        code = f"import sys, {module}; sys.exit('mcp' in sys.modules or 'pydantic' in sys.modules)"
        assert subprocess.run([PYTHON, "-c", code]).returncode == 0, module


def test_of_long_output_the_end_is_shown(assistants: McpHold) -> None:
    """That is where results stand; what lies between is told, with a cursor that reads it."""

    async def story(client: Any) -> None:
        shown = text_of(await client.call_tool("run", {"argv": ["seq", "30000"]}))
        assert "\n1\n2\n" in shown
        assert "\n30000\n" in shown
        assert len(shown.encode()) < 9_000
        cursor = shown.partition("with cursor ")[2].split()[0]
        last = int(shown.partition("\n-- lines left out")[0].rpartition("\n")[2])
        name = shown.partition("(")[2].partition(")")[0]
        more = text_of(await client.call_tool("logs", {"name": name, "cursor": cursor}))
        assert f", run 1\n{last + 1}\n" in more
        assert "goes on: next cursor" in more
        few = text_of(await client.call_tool("logs", {"name": name, "run": 1, "tail": 2}))
        assert ", run 1\n29999\n30000\n```" in few

    assistants.talk(story)


def test_answers_say_what_to_do(assistants: McpHold) -> None:
    """What may be given instead; that waiting is in vain; where a file ends."""

    async def story(client: Any) -> None:
        wrong = await client.call_tool("control", {"action": "explode", "names": ["web"]})
        assert "one of: pause, restart" in text_of(wrong)
        await client.call_tool("control", {"action": "start", "names": ["bad"]})
        waited = await client.call_tool("wait", {"names": ["bad"], "timeout_s": 20})
        assert "control with action start starts it" in text_of(waited)
        assert "again" not in text_of(waited)
        beyond = text_of(await client.call_tool("read", {"path": "a.txt", "offset": 900}))
        assert "the last line is 3" in beyond
        assert "900\t" not in beyond
        missing = text_of(await client.call_tool("logs", {"name": "web", "run": 99}))
        assert "web has no run 99" in missing
        listed = text_of(await client.call_tool("read", {"path": "", "limit": 1}))
        assert "goes on: offset 2" in listed
        assert listed not in text_of(await client.call_tool("read", {"path": "", "offset": 2}))

    assistants.talk(story)


def test_a_file_is_read_in_pieces(assistants: McpHold) -> None:
    """Of eight kilobytes unless more are wanted; each says where the next begins."""
    whole = [f"{number} {'x' * 90}" for number in range(1, 401)]
    (assistants.project / "long.txt").write_text("\n".join(whole) + "\n")

    async def story(client: Any) -> None:
        told: list[str] = []
        while True:
            given = {"path": "long.txt", "offset": len(told) + 1}
            text = text_of(await client.call_tool("read", given))
            assert len(text.encode()) < 9_000
            told += [line.partition("\t")[2] for line in text.split("\n") if "\t" in line]
            if f"-- goes on: offset {len(told) + 1}" not in text:
                break
        assert told == whole
        both = {"path": "long.txt", "offset": 1, "tail": 1}
        assert (await client.call_tool("read", both)).is_error
        most = text_of(await client.call_tool("read", {"path": "long.txt", "max_bytes": 64_000}))
        assert "400\t400 x" in most

    assistants.talk(story)


def test_what_is_no_request_is_answered_under_its_id() -> None:
    """Or who asked would wait for ever."""
    assert json.loads(parse_failure(b'{"id":7,"method":5}'))["id"] == 7
    assert json.loads(parse_failure(b'{"id":"\xc3\xa9","params":"\\ud800"}'))["id"] == "é"
    for line in (b"{", b"[" * 100_000, b"\xff\xfe", b"[1]", b'{"id":true}', b'{"id":[1]}'):
        assert json.loads(parse_failure(line))["id"] is None


def test_what_git_needs_is_said_in_words_of_the_tool(assistants: McpHold) -> None:
    """And nothing to commit has no commit."""

    async def story(client: Any) -> None:
        async def said(**given: Any) -> str:
            return text_of(await client.call_tool("git_change", given))

        assert "op add needs paths" in await said(op="add")
        assert "op switch needs a name" in await said(op="switch")
        assert await said(op="commit", message="x", paths=["a.txt"]) == "nothing to commit"
        made = (await said(op="checkpoint")).split()[1]
        assert made in await said(op="restore_checkpoint", name="other")
        assert made in text_of(await client.call_tool("git", {"op": "checkpoints"}))
        missing = await said(op="add", paths=["nowhere.txt"])
        assert "'nowhere.txt' did not match" in missing

    assistants.talk(story)


def test_whose_a_service_is(assistants: McpHold) -> None:
    """«yours», of another assistant of the same program, or of another program."""

    async def story(client: Any) -> None:
        start = {"action": "start", "names": ["idle"]}
        started = text_of(await client.call_tool("control", start))
        assert "[yours]" in started

        async def other(second: Any) -> None:
            seen = text_of(await second.call_tool("status", {"names": ["idle"]}))
            assert "[of another mcp]" in seen, seen

        await asyncio.to_thread(assistants.talk, other)
        kept = text_of(await client.call_tool("control", {**start, "keep": True}))
        assert "[" not in kept, kept
        await client.call_tool("control", {"action": "stop", "names": ["idle"]})
        wrong = await client.call_tool(
            "control", {"action": "stop", "names": ["idle"], "keep": True}
        )
        assert "takes no `keep`" in text_of(wrong)

    assistants.talk(story)


def test_finished_tasks_leave_status(assistants: McpHold) -> None:
    """They cost one line together, and can be asked for by name."""

    async def story(client: Any) -> None:
        for name in ("one", "two"):
            await client.call_tool("run", {"argv": ["echo", name], "name": f"task-{name}"})
        shown = text_of(await client.call_tool("status", {}))
        assert not re.search(r"^task-", shown, re.MULTILINE)
        assert re.search(
            r"^-- \d+ finished tasks; names shows them: .*task-two", shown, re.MULTILINE
        )
        named = text_of(await client.call_tool("status", {"names": ["task-one"]}))
        assert re.search(r"^task-one +exited", named, re.MULTILINE)

    assistants.talk(story)


def test_waiting_leads_on(assistants: McpHold) -> None:
    """For what was never started, has ended, fails its check, or printed the line long ago."""

    async def wait(client: Any, name: str, until: str, **more: Any) -> str:
        given = {"names": [name], "until": until, "timeout_s": 20, **more}
        return text_of(await client.call_tool("wait", given))

    async def story(client: Any) -> None:
        told = await wait(client, "never", "ready")
        assert "it was never started: control with action start starts it" in told
        await client.call_tool("control", {"action": "start", "names": ["bad"]})
        told = await wait(client, "bad", "ready")
        assert "NOT met" in told
        assert "control with action start" in told
        assert "oh no" in told
        assert "bad: met" in await wait(client, "bad", "log", pattern="oh n[o]")
        told = await wait(client, "bad", "log", pattern="oh yes")
        assert "its newest run printed no such line" in told
        told = await wait(client, "sick", "ready", timeout_s=0.5)
        # Before its check has looked once, and after.
        assert re.search(r'is not ready \((not yet: a line that|no line) matches "fine"', told)
        assert "why:" in told
        told = await wait(client, "web", "log", pattern="^hello$")
        assert "web: met" in told
        assert "next cursor" in told
        assert "NOT met" in await wait(client, "web", "log", pattern="\\[31m", timeout_s=0.5)
        assert "web: met" in await wait(client, "web", "log", pattern="\\[31m", raw=True)

    assistants.talk(story)


def test_the_whole_log_is_looked_through(assistants: McpHold) -> None:
    """By `logs` with grep, which keeps the newest matches and marks run and time; by `search`."""

    async def story(client: Any) -> None:
        found = text_of(await client.call_tool("logs", {"name": "long", "grep": "needle|^3$"}))
        assert "needle\n" in found
        assert re.search(r"^-- at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, run 1$", found, re.MULTILINE)
        assert "-- 2 lines that match; next cursor" in found
        one = {"name": "long", "grep": "needle|^3$", "tail": 1}
        found = text_of(await client.call_tool("logs", one))
        assert "needle" not in found
        found = text_of(await client.call_tool("search", {"pattern": "needle", "logs": ["long"]}))
        assert re.search(r"^long run 1 .* UTC: needle$", found, re.MULTILINE)
        wrong = {"pattern": "needle", "logs": ["*"], "path": "."}
        assert (await client.call_tool("search", wrong)).is_error

    assistants.talk(story)


def test_detail_shows_the_last_lines(assistants: McpHold) -> None:
    """Fifteen to twenty of them."""

    async def story(client: Any) -> None:
        shown = text_of(await client.call_tool("status", {"names": ["long"], "detail": True}))
        assert 15 <= sum(line.isdigit() for line in shown.splitlines()) <= 20

    assistants.talk(story)


PATCH = """\
diff --git a/first.txt b/moved/first.txt
similarity index 50%
rename from first.txt
rename to moved/first.txt
--- a/first.txt
+++ b/moved/first.txt
@@ -1,2 +1,2 @@
 one
-two
+TWO
diff --git a/second.txt b/second.txt
deleted file mode 100644
--- a/second.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/third.txt b/third.txt
new file mode 100644
--- /dev/null
+++ b/third.txt
@@ -0,0 +1 @@
+new
"""


def test_a_patch_of_several_files_and_back(assistants: McpHold) -> None:
    """Changed and moved, deleted, made: all or none of it; and taken back."""
    project = assistants.project
    (project / "first.txt").write_text("one\ntwo\n")
    (project / "second.txt").write_text("gone\n")

    async def story(client: Any) -> None:
        async def edit(**given: Any) -> str:
            return text_of(await client.call_tool("edit", given))

        tried = await edit(patch=PATCH, dry_run=True)
        assert "dry run" in tried
        assert (project / "second.txt").exists()
        done = await edit(patch=PATCH)
        assert "renamed moved/first.txt (was first.txt) +1 -1" in done
        assert "deleted second.txt" in done
        assert "created third.txt" in done
        assert (project / "moved" / "first.txt").read_text() == "one\nTWO\n"
        assert not (project / "first.txt").exists()
        again = await client.call_tool("edit", {"patch": PATCH})
        assert again.is_error
        change = done.rpartition("undo ")[2]
        assert change in await edit(undo="last", dry_run=True)
        assert "undone:" in await edit(undo=change)
        assert (project / "first.txt").read_text() == "one\ntwo\n"
        assert (project / "second.txt").read_text() == "gone\n"
        assert not (project / "third.txt").exists()
        one = {"old": "two", "new": "2"}
        assert ", undo " in await edit(path="first.txt", edits=one)
        assert "one of them" in await edit(path="first.txt")
        assert "one of them" in await edit(patch=PATCH, undo="last")

    assistants.talk(story)


def test_an_image_is_an_image(assistants: McpHold) -> None:
    """With its size and type beside it; what only has the name of one is text."""
    pixel = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
    )
    (assistants.project / "dot.png").write_bytes(pixel)
    (assistants.project / "noise.png").write_bytes(pixel + os.urandom(200_000))
    (assistants.project / "words.png").write_text("no image\n")

    async def story(client: Any) -> None:
        for name in ("dot.png", "noise.png"):
            read = await client.call_tool("read", {"path": name})
            assert "image/png" in text_of(read)
            image = read.content[1]
            assert image.mime_type == "image/png"
            assert base64.b64decode(image.data) == (assistants.project / name).read_bytes()
        words = await client.call_tool("read", {"path": "words.png"})
        assert "no image" in text_of(words)
        assert len(words.content) == 1

    assistants.talk(story)


def test_a_long_line_is_read_on(assistants: McpHold) -> None:
    """Piece by piece, as each answer says."""
    line = "".join(f"<{number}>" for number in range(5_000))
    (assistants.project / "wide.txt").write_text(f"{line}\nnext\n")

    async def story(client: Any) -> None:
        told, given = "", dict[str, Any](path="wide.txt")
        while "<4999>" not in told:
            text = text_of(await client.call_tool("read", given))
            told += text.partition("```\n")[2].partition("\n```")[0].removeprefix("1\t")
            found = re.search(r"from_byte (\d+) goes on within it", text)
            if found is None:
                break
            given = {"path": "wide.txt", "from_byte": int(found[1])}
        assert told.partition("\n")[0] == line

    assistants.talk(story)
