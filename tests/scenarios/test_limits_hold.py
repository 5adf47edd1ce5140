"""Limits of tokens, policies about paths and filters hold, however a request goes around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, kill_9, quick, wait_for

SECRET = "the-treasure"


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.write(
            {
                "runtime_mode": "advanced",
                "services": {"web": quick(), "pool": quick(instances=1, env_file=["-pool.env"])},
                "files": {"roots": {"project": {"path": ".", "write": True}}},
                "policies": [
                    {"effect": "deny", "roles": ["viewer", "operator"], "paths": ["*/secrets/*"]},
                ],
                "security": {"filters": {"forbid": ["*rm -rf*"]}},
                "commands": {"allowed_types": ["binary"]},
                "mcp": {"run": True},
            }
        )
        for name in ("app/secrets/deep/key.txt", "secrets/key.txt"):
            path = made.project / name
            path.parent.mkdir(parents=True)
            path.write_text(f"{SECRET}\n")
        (made.project / "app" / "open.txt").write_text("nothing here\n")
        made.up()
        yield made


def token(hold: Hold, name: str, role: str = "admin", **limits: Any) -> str:
    return str(hold.ask("create_token", token_name=name, role=role, **limits)["text"])


def through(text: str) -> dict[str, str]:
    return {"token": text, "door": "rest"}


def refusal(hold: Hold, text: str, command: str, **fields: Any) -> str:
    """The message of a refusal; fails if it is done."""
    with pytest.raises(HoldfastError) as caught:
        hold.ask(command, **fields, caller=through(text))
    assert caught.value.code == "refused", caught.value
    return caught.value.message


def test_a_parent_folder_does_not_show_what_is_denied_below(hold: Hold) -> None:
    """Listing, searching and the changes of a folder leave out what a policy denies."""
    eyes = token(hold, "eyes", "operator")
    for path in ("", ".", "app", "app/", "./app"):
        listed = hold.ask("list_files", path=path, depth=9, hidden=True, caller=through(eyes))
        told = [one["path"] for one in listed["entries"]]
        assert told
        assert not [one for one in told if "key" in one or "deep" in one], path
        for mode in ("content", "files", "count"):
            found = hold.ask(
                "search", pattern=SECRET, path=path or None, mode=mode, caller=through(eyes)
            )
            assert "secrets" not in str(found), (path, mode)
    for command in ("read_file", "list_files"):
        for path in ("app/secrets", "secrets", "app/secrets/deep/key.txt", "secrets/key.txt"):
            assert "policy" in refusal(hold, eyes, command, path=path)
    assert "policy" in refusal(hold, eyes, "search", pattern="x", path="app/secrets/deep")
    boss = token(hold, "boss")
    assert SECRET in str(hold.ask("search", pattern=SECRET, path="app", caller=through(boss)))


def test_changes_of_denied_files_are_neither_told_nor_undone(hold: Hold) -> None:
    """By no path, by the number of the change, or as the newest one."""
    boss, hand = token(hold, "boss of files"), token(hold, "hand", "operator")
    change = hold.ask(
        "write_file", path="app/secrets/new.txt", content=SECRET, caller=through(boss)
    )["change"]
    assert "secrets" not in str(hold.ask("file_changes", caller=through(hand)))
    assert "policy" in refusal(hold, hand, "undo_files", change=change)
    assert "policy" in refusal(hold, hand, "undo_files")
    assert (hold.project / "app/secrets/new.txt").read_text() == SECRET
    patch = "--- /dev/null\n+++ b/app/secrets/p.txt\n@@ -0,0 +1 @@\n+x\n"
    assert "policy" in refusal(hold, hand, "apply_patch", patch=patch)
    assert not (hold.project / "app/secrets/p.txt").exists()


def test_a_token_limited_to_status_only_asks_for_it(hold: Hold) -> None:
    """It opens no session, ends none, and learns nothing of where Holdfast lives."""
    other = hold.ask("open_session", client="somebody")["session"]["session"]
    for role in ("viewer", "operator", "admin"):
        narrow = token(hold, f"narrow {role}", role, commands=["status"])
        assert "limited" in refusal(hold, narrow, "open_session", client="me")
        for command in ("close_session", "renew_session"):
            refusal(hold, narrow, command, session=other)
        told = hold.ask("hello", caller=through(narrow))
        assert (told["role"], told["project"], told["state"], told["doors"]) == (role, "", "", {})
    webs = token(hold, "webs", services=["web"])
    assert "about all" in refusal(hold, webs, "close_session", session=other)
    said = refusal(hold, webs, "plan", config="/etc/passwd", services=["web"])
    assert "limited to some services" in said
    assert other in str(hold.ask("list_sessions"))


def test_an_answer_under_a_key_belongs_to_one_token(hold: Hold) -> None:
    """A token of the same name that is made later does not read it, nor a token without rights."""
    fields = {"token_name": "made", "role": "viewer", "key": "one key"}
    first = token(hold, "twin")
    text = hold.ask("create_token", **fields, caller=through(first))["text"]
    assert hold.ask("create_token", **fields, caller=through(first))["text"] == text
    hold.ask("revoke_token", token="twin")
    second = token(hold, "twin")
    again = hold.ask("create_token", **fields, caller=through(second))["text"]
    assert again != text
    hold.ask("lockdown", reason="a drill")
    try:
        refusal(hold, second, "create_token", **fields)
    finally:
        hold.ask("unlock")


def test_a_filter_sees_the_whole_line(hold: Hold) -> None:
    """What no word of a command says alone, its words say together."""
    boss = token(hold, "boss of lines")
    for command in (
        {"command": "rm", "args": ["-rf", "nothing"]},
        {"command": "rm  -rf nothing"},
        {"command": 'r"m" -rf nothing'},
    ):
        said = refusal(hold, boss, "execute_command", custom_command=command)
        assert "forbidden" in said, command


def test_an_operator_reloads_only_what_an_admin_has_loaded(hold: Hold) -> None:
    """A changed file is named and not loaded, over the death of the supervisor, until an admin
    reloads."""
    hand = token(hold, "reloader", "operator")
    assert hold.ask("reload", caller=through(hand))["changes"] is False
    config = hold.project / "holdfast.json"
    before = config.read_text()
    (hold.project / "pool.env").write_text("LD_PRELOAD=/tmp/x.so\n")
    assert "pool.env" in refusal(hold, hand, "reload")
    assert "pool.env" in refusal(hold, hand, "scale", instances={"pool": 2})
    assert hold.service("pool@1")["pid"]
    assert len(hold.status()["services"]) == 2
    config.write_text(before.replace("*/secrets/*", "nowhere/*"))
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    wait_for(lambda: hold.supervisor_pid != supervisor, what="a new one")
    said = refusal(hold, hand, "reload")
    assert config.name in said
    assert "pool.env" in said
    assert "policy" in refusal(hold, hand, "read_file", path="secrets/key.txt")
    agent = token(hold, "reloading agent", "agent", commands=["reload"])
    assert "since an admin loaded it" in refusal(hold, agent, "reload")
    boss = token(hold, "boss of files of variables")
    hold.ask("reload", caller=through(boss))
    assert hold.ask("reload", caller=through(hand))["changes"] is False
    config.write_text(before)
    (hold.project / "pool.env").unlink()
    hold.ask("reload")


def test_a_program_does_not_run_outside_through_a_link(hold: Hold) -> None:
    """Neither by `run` nor by a command with a folder of the caller's, nor after a restart."""
    outside = hold.folder / "outside"
    outside.mkdir()
    inside = hold.project / "inside"
    inside.mkdir()
    (hold.project / "leads").symlink_to(outside)
    (hold.project / "stays").symlink_to(inside)
    session = hold.ask("open_session", client="an assistant")["token"]
    caller = {"token": session, "door": "mcp"}
    touch = ["sh", "-c", "touch been-here; exec sleep 100"]
    for folder, said in (("leads", "leads out"), ("..", "not below"), (".git/hooks", "denied")):
        (hold.project / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
        with pytest.raises(HoldfastError, match=said):
            hold.ask("run", argv=touch, service="walker", working_dir=folder, caller=caller)
    hold.ask("run", argv=touch, service="walker", working_dir="stays", caller=caller)
    wait_for(lambda: (inside / "been-here").exists())
    (hold.project / "stays").unlink()
    (hold.project / "stays").symlink_to(outside)
    hold.ask("restart", services=["walker"], wait=False)
    why = wait_for(lambda: hold.service("walker").get("reason"), what="a failed start")
    assert "not below" in str(why)
    hand = token(hold, "walking hand", "operator")
    for folder in ("leads", str(outside), "../outside"):
        command = {"command": "touch been-here", "working_dir": folder}
        assert "leads out" in refusal(hold, hand, "execute_command", custom_command=command)
    assert list(outside.iterdir()) == []
    hold.ask("remove", services=["walker"])
