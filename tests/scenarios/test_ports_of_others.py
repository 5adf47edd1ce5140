"""A service learns the port of another, and Python services print at once."""

from __future__ import annotations

from tests.harness import PYTHON, Hold, quick, wait_for


def test_ports_of_other_services() -> None:
    """Also of one that starts later or not at all, and each of the other; a restart keeps them."""
    fixed = {"OTHER": "{{ services.fix.port }}"}
    say = "echo own $PORT other {{ services.%s.port }} by variable $OTHER; exec sleep 1000"
    with Hold() as hold:
        hold.services(
            web=quick(
                ["sh", "-c", say % "api"], port="auto", env={"OTHER": "{{ services.rest.ports.a }}"}
            ),
            api=quick(["sh", "-c", say % "web"], port="auto", env=fixed),
            rest=quick(autostart=False, ports={"a": "auto"}),
            fix=quick(autostart=False, port=45671),
        )
        hold.up()
        ports = {name: hold.service(name)["ports"] for name in ("web", "api")}
        web, api = ports["web"]["port"], ports["api"]["port"]
        lines = {
            name: hold.cli("logs", name, "--no-prefix").stdout.split() for name in ("web", "api")
        }
        assert lines["web"][:4] == ["own", str(web), "other", str(api)]
        assert lines["api"] == f"own {api} other {web} by variable 45671".split()
        hold.cli("start", "rest")
        assert lines["web"][-1] == str(hold.service("rest")["ports"]["a"])
        assert hold.cli("exec", "web", "--", "printenv", "OTHER").stdout.strip() == lines["web"][-1]


def test_python_prints_at_once() -> None:
    """Unless the environment says otherwise."""
    script = "import os, time; print(os.environ['PYTHONUNBUFFERED']); time.sleep(1000)"
    with Hold() as hold:
        hold.services(
            plain=quick([PYTHON, "-c", script]),
            own=quick([PYTHON, "-u", "-c", script], env={"PYTHONUNBUFFERED": "own"}),
        )
        hold.up()
        for name, said in (("plain", "1\n"), ("own", "own\n")):
            wait_for(lambda: hold.cli("logs", name, "--no-prefix").stdout == said)  # noqa: B023
