"""A shell beside a service: with its user, folder and environment, if the settings allow it."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.gate.conftest import Gate, gate_of
from tests.harness import Hold, quick, wait_for


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Hold(SHELL="/bin/sh") as hold:
        (hold.project / "sub").mkdir()
        web = quick(working_dir="sub", env={"COLOUR": "teal"})
        hold.write({"services": {"web": web}, "commands": {"allow_terminals": True}})
        hold.up()
        with gate_of(hold) as made:
            yield made


def printed(hold: Hold, name: str) -> str:
    return hold.raw(name).decode(errors="replace")


def type_into(hold: Hold, name: str, text: str) -> None:
    hold.ask("send_input", service=name, data=base64.b64encode(text.encode()).decode())


def test_a_shell_has_what_the_service_has(gate: Gate) -> None:
    """Folder and variables are the service's; it is recorded, and its name is free again later."""
    hold = gate.hold
    opened = hold.ask("open_terminal", service="web")
    name = opened["service"]
    assert (name, opened["beside"]) == ("web-terminal-1", "web")
    assert hold.service(name)["terminal"] is True
    type_into(hold, name, "echo $COLOUR in $(basename $PWD)\n")
    wait_for(lambda: "teal in sub" in printed(hold, name), what="the shell's answer")
    assert hold.ask("open_terminal", service="web")["service"] == "web-terminal-2"
    type_into(hold, name, "exit 3\n")
    assert hold.wait_status(name, "exited")["exit_code"] == 3
    assert hold.ask("open_terminal", service="web")["service"] == name
    assert hold.cli("terminal", "web", "--detach").stdout.startswith("web-terminal-3: ")
    hold.ask("stop", services=["web-terminal-1", "web-terminal-2", "web-terminal-3"])


def test_it_takes_an_operator(gate: Gate) -> None:
    """A viewer is refused; what an operator opened is on record."""
    hold = gate.hold
    viewer = hold.ask("create_token", token_name="looks", role="viewer")["text"]
    operator = hold.ask("create_token", token_name="acts", role="operator")["text"]
    path = "/api/services/web/terminal"
    gate.refused(403, "POST", path, token=viewer)
    opened = gate.post(path, token=operator)["service"]
    found = hold.ask("audit", about="open_terminal", limit=5)["records"]
    assert {one["decision"] for one in found[-2:]} == {"allowed", "refused"}
    hold.ask("stop", services=[opened])


def test_it_is_off_unless_configured(gate: Gate) -> None:
    """The refusal names the setting; the owner at the local socket needs none."""
    hold = gate.hold
    operator = hold.ask("create_token", token_name="tries", role="operator")["text"]
    hold.services(web=quick())
    hold.ask("reload")
    told = gate.refused(403, "POST", "/api/services/web/terminal", token=operator)
    assert "allow_terminals" in str(told)
    hold.ask("stop", services=[hold.ask("open_terminal", service="web")["service"]])
    with pytest.raises(HoldfastError, match="no service"):
        hold.ask("open_terminal", service="nobody")
