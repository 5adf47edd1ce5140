"""A wrong configuration is refused with every problem at once, each with place and remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.adapters.config import load, load_project
from holdfast.adapters.config.document import LARGEST_FILE
from holdfast.adapters.config.keys.root import ROOT
from holdfast.adapters.config.keys.services import SERVICE
from holdfast.vocabulary.errors import ConfigError, UsageError


def refused(
    folder: Path, text: str | bytes, environ: Mapping[str, str] | None = None, **kw: Any
) -> ConfigError:
    path = folder / kw.pop("name", "holdfast.yaml")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load(str(path), environ=environ or {}, **kw)
    return caught.value


def problems(folder: Path, text: str | bytes, **kw: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = refused(folder, text, **kw).details["problems"]
    return found


WEB = "services:\n  web:\n    command: x\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("comand: y", 'services.web.comand: unknown key; did you mean "command"?'),
        ("cwd: y", 'services.web.cwd: unknown key; did you mean "working_dir"?'),
        ("zzzzzz: y", "services.web.zzzzzz: unknown key; the nearest of "),
        ("pools: 3", "services.web.pools: unknown key"),
        (
            "restart: {delay: soon}",
            'services.web.restart.delay: "soon" is not a duration; '
            "write 5s, 200ms, 1h30m or a number of milliseconds",
        ),
        ("restart: {delay: -1}", '"-1" is negative'),
        ("restart: {backoff: 1e999}", '"1e999" is too large; write a number from 1 to 1000'),
        (
            f"start_retries: {'9' * 5000}",
            "is too large; write a number from 0 to 9007199254740992",
        ),
        (f"log: {{max_size: {'9' * 400}.5}}", "is too large; write fewer digits"),
        (f"stop: {{signal: {'9' * 5000}}}", "is not a signal; write SIGTERM"),
        (f"rlimits: {{nofile: {'9' * 5000}}}", "is not a limit; write a number or unlimited"),
        (f"user: {'9' * 5000}", "is not a user of this machine"),
        ("user: 54321", '"54321" is not a user of this machine; with a group it can be one: write'),
        ("user: 54321:no-such-group", '"no-such-group" is not a group of this machine; write its'),
        ("user: no-such-user-here:0", '"no-such-user-here:0" is not a user of this machine'),
        ("user: 'root:'", '"" is not a group of this machine'),
        (f"cpu_limit: {'9' * 400}", "is out of range; write more than 0% and at most 1000000%"),
        ("restart: {backoff: 0.5}", '"0.5" is too small; write a number from 1 to 1000'),
        ("restart: {jitter: 150%}", '"150%" is not between 0 and 1'),
        ("restart: {max_restarts: lots}", 'is not a whole number or "unlimited"'),
        ("restart: {delay: 9s, max_delay: 1s}", "max_delay (1s) is shorter than delay (9s)"),
        ("restart: sometimes", '"sometimes" is not known; write one of always, on_failure, never'),
        ("restart_policy: alway", 'did you mean "always"?'),
        ("restart: [always]", "this is a list, not a mapping"),
        ("start_retries: 010", '"010" is not a whole number'),
        ("start_retries: 1:30", '"1:30" is not a whole number'),
        ("start_retries: 2.5", '"2.5" is not a whole number'),
        ("start_seconds: {a: 1}", "this is a mapping, not a duration"),
        ("success_exit_codes: [0, 300]", "success_exit_codes[1]: "),
        ("stop: {signal: TERMINATE}", '"TERMINATE" is not a signal'),
        ("stop: 5s", 'this is "5s", not a mapping'),
        ("terminal: maybe", '"maybe" is neither true nor false'),
        ("terminal: 1", '"1" is neither true nor false'),
        ("umask: 088", '"088" is not an octal number'),
        ("umask: 1777", '"1777" is not an octal number'),
        ("log: {max_size: big}", '"big" is not a size; write 16MB, 1GiB'),
        ("log: {max_size: 9GB}", '"9GB" is too large; write 4.0 GiB or less'),
        ("log: {max_size: 2MB, total_size: 1MB}", "total_size (1000000) is below max_size"),
        ("rlimits: {nofle: 1}", 'unknown limit; did you mean "nofile"?'),
        ("rlimits: {nofile: [9, 5]}", "the soft limit is above the hard one"),
        ("rlimits: {nofile: [unlimited, 5]}", "the soft limit is above the hard one"),
        ("rlimits: {nofile: {soft: 1}}", "this is not a limit; write a number, {soft"),
        ("rlimits: {nofile: many}", '"many" is not a limit; write a number or unlimited'),
        ("user: no-such-user-here", '"no-such-user-here" is not a user of this machine'),
        ("recovery: {crash: {command: }}", "says no command; write restart, stop, notify"),
        ("depends_on: [wep]", 'there is no service "wep"'),
        ("depends_on: [web]", "services wait for each other: web → web"),
        ("depends_on: {web: {condition: odd}}", '"odd" is not known; write one of started, ready'),
        ("environment: inherited", "write inherit, clean, or variables as under env"),
        ("args: '{{ prot }}'", "{{ prot }} means nothing; did you mean {{ port }}? known: index"),
        ("args: '{{ index }}'", "the service has no instances; write instances: 2"),
        ("env: {A: [1]}", "services.web.env.A: the value is a list, not text"),
        ("env: A=1", "this is not a mapping of variables"),
        ('env: {"A B": 1}', "this is not a name for a variable"),
        ("env_file: nowhere.env", "does not exist; create it, or write"),
        ("args: [{a: 1}]", "args[0]: this is a mapping, not a word"),
        ("max_restarts: 1\n    restart: {max_restarts: 2}", "contradicts services.web.restart."),
        ("health_check_url: localhost", '"localhost" is not a URL'),
        ("health_check: {interval: 0}", '"0" is too short'),
        ("health_check: {retries: 0}", '"0" is too small'),
        ("health_check: {tcp: 0}", '"0" is not a port'),
        ("health_check: http://localhost:99999/", "is not a URL"),
        ("liveness: {interval: 5}", "this probe asks nothing"),
        ("liveness: {tcp: 1, log: x}", "a probe asks one thing, not tcp and log"),
        ("startup: {log: '(('}", '"((" is no regular expression'),
        ("readiness: {tcp: 1, body: x}", "body is for http, not for tcp"),
        ("readiness: {tcp: 1, action: restart}", "a service that is not ready is not restarted"),
        ("liveness: {http: 'http://h/', status: 999}", '"999" is not a status'),
        ("liveness: {http: 'http://h/', headers: {'a b': c}}", "cannot be the name of a header"),
        ("liveness: {exec: a && b}", "only a shell understands &&"),
        ("liveness: {tcp: 1, intervall: 5}", 'did you mean "interval"?'),
        ("liveness: soon", '"soon" is not a URL'),
        ("notify: {fd: 2}", '"2" is too small'),
        ("health_check: {retries: 2, consecutive_failures: 3}", "contradicts"),
        ("working_dir: ${NO_SUCH}", "the variable NO_SUCH is not set; "),
        ("working_dir: ${NO_SUCH:?say where}", "the variable NO_SUCH is not set; say where"),
        ("working_dir: ${NO_SUCH:?}", "set it in the shell or in .env, or write"),
        (f"working_dir: {'${A:-' * 3000}x{'}' * 3000}", "defaults stand in defaults more than 16"),
        (f"args: {'${A:-' * 3000}x{'}' * 3000}", "defaults stand in defaults more than 16"),
        ("working_dir: ${A%%b}", "${A%%b} is not understood; write ${NAME}"),
        ("working_dir: ${A", "${ is not closed"),
        ('working_dir: "a\\0b"', "contains a NUL character"),
    ],
)
def test_each_mistake_names_key_value_and_remedy(tmp_path: Path, line: str, shown: str) -> None:
    """A mistake in a service is told by key, with what was found and what to write."""
    error = refused(tmp_path, f"{WEB}    {line}\n")
    assert shown in error.message
    assert all(found["line"] >= 3 for found in error.details["problems"])
    assert len(error.details["problems"]) == 1


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("npm start && true", "only a shell understands &&; add shell: true"),
        ("a | b", "only a shell understands |"),
        ("a > log", "only a shell understands >"),
        ("a 2>&1", "only a shell understands 2>&1"),
        ("a; b", "only a shell understands a;"),
        ("PORT=3 node x", "the command begins with a variable (PORT=…); put it under env"),
        ("a 'b", "the single quote at character 3 of the command is not closed"),
        ("a \\", "ends with a lone backslash"),
        ('""', "the command is empty"),
        ("[]", "this is a list, not a command"),
        ("{a: b}", "this is a mapping, not a command"),
    ],
)
def test_commands_that_cannot_work(tmp_path: Path, command: str, shown: str) -> None:
    """A command that needs a shell, or has no end, is told before it fails at run time."""
    error = refused(tmp_path, f"services:\n  web:\n    command: {command}\n")
    assert shown in error.message
    assert len(error.details["problems"]) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("alerts: [{command: x, services: [wev]}]", 'no service "wev"; did you mean "web"?'),
        (
            "alerts: [{webhook: 'http://h/', headers: {'a b': c}}]",
            '"a b" cannot be the name of a header',
        ),
        ("workflows: {Deploy It: [make]}", '"Deploy It" is not a name; use lower-case letters'),
        ("alerts: [{severity: warning}]", "one of webhook, command and desktop; add one"),
        (
            "workflows: {w: {steps: [{wait: {service: web, for: glory}}]}}",
            '"glory" is not a condition; write running, ready',
        ),
    ],
)
def test_what_would_never_happen_is_a_problem(tmp_path: Path, text: str, shown: str) -> None:
    """A target that nobody tells, a step that waits for nothing: told before it matters."""
    [problem] = problems(tmp_path, WEB + text)
    assert shown in f"{problem['message']}; {problem['suggestion']}"


def test_names_that_lead_nowhere_have_their_line(tmp_path: Path) -> None:
    """Of a name that nobody has, the line is told in which it stands."""
    text = (
        "services:\n  web:\n    command: x\n    recovery:\n      crash:\n        command: mend\n"
        "workflows:\n  a:\n    steps:\n      - make\n      - command: built\n  b:\n    - true\n"
        "    - restart: wep\n"
        "alerts:\n  - desktop: true\n  - command: x\n    services: [wev]\n"
        "groups:\n  all:\n    - web\n    - wez\n"
    )
    assert [problem["line"] for problem in problems(tmp_path, text)] == [6, 11, 14, 18, 22]


def test_quoted_operators_are_words(tmp_path: Path) -> None:
    """What a shell would not interpret either is left alone."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("services: {a: \"grep '|' a;b x=1 \\\\;\", b: [a, '&&', b]}")
    services = load(str(path), environ={}).services
    assert services["a"].argv == ("grep", "|", "a;b", "x=1", ";")
    assert services["b"].argv == ("a", "&&", "b")


def test_everything_at_once(tmp_path: Path) -> None:
    """All problems come in one error, in the order of the file, with places."""
    text = (
        "port: 99999\n"
        "services:\n"
        "  web:\n"
        "    restart: {delay: soon}\n"
        "    stop: {grace: never}\n"
        "  Web Server: x\n"
        "  db@1: x\n"
        "  api:\n"
    )
    found = problems(tmp_path, text)
    assert [(p["line"], p["column"], p["key"]) for p in found] == [
        (1, 7, "port"),
        (3, 3, "services.web"),
        (4, 22, "services.web.restart.delay"),
        (5, 19, "services.web.stop.grace"),
        (6, 3, "services.Web Server"),
        (7, 3, "services.db@1"),
        (8, 7, "services.api"),
    ]
    assert {p["file"] for p in found} == {str(tmp_path / "holdfast.yaml")}
    assert found[2]["value"] == "soon"
    assert 'write "web-server"' in found[4]["suggestion"]
    error = refused(tmp_path, text)
    assert error.message.startswith(f"7 problems in {tmp_path}/holdfast.yaml\n")
    assert "holdfast.yaml:4:22: services.web.restart.delay:" in error.message
    assert error.exit_code == 7


def test_cycles_are_walked(tmp_path: Path) -> None:
    """A cycle of dependencies is reported by naming it."""
    text = (
        "services:\n  a: {command: x, depends_on: b}\n  b: {command: x, depends_on: [c]}\n"
        "  c: {command: x, depends_on: [a]}\n"
    )
    (found,) = problems(tmp_path, text)
    assert "a → b → c → a" in found["message"]
    assert found["line"] == 2


def test_duplicate_keys(tmp_path: Path) -> None:
    """A key given twice is told with both places."""
    (found,) = problems(tmp_path, "services:\n  web:\n    command: x\n    command: y\n")
    assert found["key"] == "services.web.command"
    assert found["line"] == 4
    assert "first in line 3" in found["message"]


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("services:\n\tweb: x\n", 2, "use spaces"),
        ("services:\n  web: a: b\n", 2, "put quotes around a value that contains ': '"),
        ("services:\n  web: 'a\n", 3, "opened in line 2"),
        ("services:\n  web: @a\n", 2, "put quotes around a value that begins with @"),
        ("services:\n  web: x\n   db: y\n", 3, ""),
        ("services: [a\n", 2, ""),
    ],
)
def test_syntax_errors_have_a_place(
    tmp_path: Path, text: str | bytes, line: int, shown: str
) -> None:
    """What is no YAML is told with line, remedy and the line itself."""
    (found,) = problems(tmp_path, text)
    assert found["line"] == line
    assert shown in found["suggestion"]


def test_syntax_errors_show_the_line(tmp_path: Path) -> None:
    """The offending line is shown with a caret below the place."""
    message = refused(tmp_path, "services:\n  web: a: b\n").message
    assert "    2 |   web: a: b\n    " + " " * 12 + "^" in message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- a\n- b\n", "the file is not a mapping; begin with services:"),
        ("services: [a]\n", "services: this is a list, not a mapping of services"),
        ("a: 1\n---\nb: 2\n", "a second document"),
        ("services: {web: !!python/object/apply:os.system [x]}", "is not understood"),
        ("services: *nothing\n", "the alias *nothing is not defined above"),
        ("services: &a {web: *a}\n", "refers to itself"),
        ("? [a]\n: b\n", "a key must be a single word"),
        ("services:\n  web: [\n", "check this line and the one above it: brackets"),
        (b"services: \xff\n", "not UTF-8 text"),
        (b"services: a\x01\n", ""),
        (b"a" * (LARGEST_FILE + 1), "larger than 1 MiB"),
        ("[" * 100_000, "nested deeper than"),
        ("- " * 100_000, "nested deeper than"),
        ("host: 127.example.org\n", "can be reached from the network"),
        ("host: 0.0.0.0\n", "can be reached from the network"),
        ("host: 0.0.0.0\nsecurity: {bind_to_localhost: true}\n", "bind_to_localhost is true"),
        ("servics: {}\n", 'unknown key; did you mean "services"?'),
        ("pools: {}\n", "not supported by this version yet"),
        ("restart: {delay: 1}\nsupervisor: {restart: {delay: 2}}\n", "keep one of them"),
        ("log_level: loud\n", '"loud" is not a log level'),
        ("log_level: engine=debug,app=loud\n", '"app=loud" is not a log level'),
        ("supervisor: 5\n", 'supervisor: this is "5", not a mapping'),
    ],
)
def test_documents_that_cannot_be_used(tmp_path: Path, text: str | bytes, shown: str) -> None:
    """Whatever the file holds, the answer is a configuration error, bounded in time and memory."""
    assert shown in refused(tmp_path, text).message


def test_billion_laughs(tmp_path: Path) -> None:
    """Aliases cannot multiply a small file into a large one."""
    lines = ["x-0: &a0 [lol, lol]"]
    lines += [f"x-{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "aliases are expanded" in refused(tmp_path, "\n".join(lines)).message


def test_json_errors_have_a_place(tmp_path: Path) -> None:
    """A JSON file is held to JSON."""
    (found,) = problems(tmp_path, '{\n "services": {"web": x}\n}', name="holdfast.json")
    assert (found["line"], found["column"]) == (2, 22)


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is an error with the next step."""
    with pytest.raises(ConfigError, match=r"No such file.*holdfast init"):
        load(str(tmp_path / "holdfast.yaml"), environ={})


def test_problems_outside_the_file(tmp_path: Path) -> None:
    """A bad variable or option is told by its own name."""
    environ = {"SUPERVISOR_PORT": "many"}
    error = refused(tmp_path, WEB, environ=environ, settings={"prot": "1", "log_level": "x"})
    found = {(p["file"], p["key"]) for p in error.details["problems"]}
    assert found == {
        ("the environment", "SUPERVISOR_PORT"),
        ("the command line", "prot"),
        ("the command line", "log_level"),
    }


def test_problems_of_the_command_line_alone(tmp_path: Path) -> None:
    """The configuration is not blamed for what was typed."""
    (tmp_path / "holdfast.yaml").write_text(WEB)
    for config in (str(tmp_path / "holdfast.yaml"), None):
        with pytest.raises(UsageError, match=r"^1 problem in the command line\n"):
            load_project(config, {}, {"port": "99999"}, cwd=str(tmp_path))


def test_long_open_quote_of_an_env_file(tmp_path: Path) -> None:
    """A quote that is never closed is told as soon in a large file as in a small one."""
    (tmp_path / "a.env").write_text("A=1\nB='\n" + "0123456789\n" * 90_000)
    (found,) = problems(tmp_path, WEB + "    env_file: a.env\n")
    assert (found["line"], found["key"], found["message"]) == (2, "B", "the quote is not closed")


def test_env_files_that_cannot_be_used(tmp_path: Path) -> None:
    """Nobody waits for a pipe, a NUL is found before the start; each with what to do."""
    os.mkfifo(tmp_path / "pipe.env")
    (tmp_path / "nul.env").write_bytes(b"A=1\nB='2\n\0'\n")
    text = f"{WEB}    env_file: [pipe.env, nul.env, .]\n"
    found = {p["message"].rpartition(": ")[2]: p for p in problems(tmp_path, text)}
    assert set(found) == {
        "it is a pipe, not a file",
        "contains a NUL character",
        "Is a directory",
    }
    assert found["contains a NUL character"]["line"] == 3
    assert all(problem["suggestion"] for problem in found.values())


def test_configurations_that_are_no_file(tmp_path: Path) -> None:
    """A pipe or a folder in the place of the file is told, with what to do."""
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ConfigError, match="it is a pipe, not a file; name another file"):
        load(str(tmp_path / "pipe.yaml"), environ={})
    with pytest.raises(ConfigError, match="Is a directory; name a file in this folder"):
        load(str(tmp_path), environ={})


def test_bad_env_file_has_its_own_lines(tmp_path: Path) -> None:
    """A mistake in an env file is told with that file and line, without the value."""
    (tmp_path / "a.env").write_text("A=1\nhunter2\n# fine\nB='open\n")
    found = problems(tmp_path, WEB + "    env_file: a.env\n")
    assert [(os.path.basename(p["file"]), p["line"]) for p in found] == [("a.env", 2), ("a.env", 4)]
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  web:\n    command: x\n    env: {API_TOKEN: [hunter2]}\n",
        "services:\n  web:\n    command: x\n    env: [hunter2 hunter2=]\n",
        "services:\n  web:\n    command: x\n    env: hunter2\n",
        'services:\n  web:\n    command: x\n    env:\n      API_KEY: "hunter2\n',
        "services:\n  web:\n    command: x\n    env:\n      PASSWORD: hunter2: x\n",
        "services:\n  web:\n    command: x\n    start_retries: ${SECRET}\n",
        "services:\n  web:\n    command: x\n    stop: {signal: '${SECRET}'}\n",
        "services:\n  web:\n    command: x\n    restart_policy: ${SECRET}\n",
        "services:\n  web:\n    command: x\n    liveness: {http: 'http://h/', headers: "
        '{Authorization: "hunter2\\n"}}\n',
        "security: {authentication: {token: [hunter2]}}\n",
        "services:\n  web: run --token hunter2 'x\n",
    ],
)
def test_secrets_are_never_repeated(tmp_path: Path, text: str | bytes) -> None:
    """No report repeats a secret, or what a variable held."""
    error = refused(tmp_path, text, environ={"SECRET": "hunter2"})
    assert "hunter2" not in str(error.as_fields())


def test_only_root_becomes_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root, `user` may only name oneself."""
    monkeypatch.setattr(os, "geteuid", lambda: 65500)
    error = refused(tmp_path, WEB + "    user: root\n")
    assert "only root can start services as another" in error.message


def test_program_not_found_is_no_problem_yet(tmp_path: Path) -> None:
    """Whether the program exists is found out when it is started."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("services: {web: no-such-program-anywhere}")
    assert load(str(path), environ={}).services["web"].argv == ("no-such-program-anywhere",)


def test_target_that_cannot_be_split(tmp_path: Path) -> None:
    """A bad SUPERVISOR_TARGET_CMD is told by its name."""
    with pytest.raises(ConfigError, match=r"SUPERVISOR_TARGET_CMD: the double quote .* not closed"):
        load_project(None, {"SUPERVISOR_TARGET_CMD": 'run "it'}, cwd=str(tmp_path))


def test_target_that_needs_a_shell(tmp_path: Path) -> None:
    """What only a shell understands is told for the target, too, without the variable's value."""
    with pytest.raises(ConfigError, match=r"TARGET_CMD: only a shell understands &&; write sh -c"):
        load_project(None, {"SUPERVISOR_TARGET_CMD": "make && ./run"}, cwd=str(tmp_path))
    with pytest.raises(ConfigError, match=r"begins with a variable \(KEY=…\)") as caught:
        load_project(None, {"SUPERVISOR_TARGET_CMD": "KEY=hunter2 ./run"}, cwd=str(tmp_path))
    assert "hunter2" not in str(caught.value.as_fields())


def test_host_of_the_environment_is_told_by_its_name(tmp_path: Path) -> None:
    """What a variable said is not blamed on a line of the file."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("services: {web: x}")
    with pytest.raises(ConfigError, match=r"the environment: SUPERVISOR_HOST: .* from the network"):
        load(str(path), environ={"SUPERVISOR_HOST": "0.0.0.0"})


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("services: {Web: {comand: x, stop: {grace: soon}}}", ["Web", "comand", "grace"]),
        (
            "services: {Web: {command: x, restart_policy: always, restart: {policy: never}}}",
            ["Web", "restart_policy"],
        ),
        (
            "services: {web: {command: x, restart_policy: always, "
            "restart: {policy: never}, instances: 0}}",
            ["restart_policy"],
        ),
    ],
)
def test_nothing_hides_another_problem(tmp_path: Path, text: str, keys: list[str]) -> None:
    """Neither a bad name nor a service without instances keeps what is wrong in it from view."""
    assert [it["key"].rpartition(".")[2] for it in problems(tmp_path, text)] == keys


def test_without_libyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pure parser reads the same, and tells the same places."""
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    found = problems(tmp_path, "services:\n  web:\n    command: x\n    terminal: maybe\n")
    assert [(p["line"], p["column"]) for p in found] == [(4, 15)]
    assert "nested deeper" in refused(tmp_path, "[" * 5000).message
    assert "unprintable character" in refused(tmp_path, b"a: \x01\n").message


def test_unprintable_characters_have_their_line(tmp_path: Path) -> None:
    """Letters of several bytes before it do not move the line that is told."""
    (found,) = problems(tmp_path, f"# {'ü' * 50}\n\n\na: \x01\n\n\n\n\n")
    assert found["line"] == 4


def test_deep_json(tmp_path: Path) -> None:
    """Nesting is bounded in JSON too."""
    error = refused(tmp_path, "[" * 50_000 + "]" * 50_000, name="holdfast.json")
    assert "nested" in error.message


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("replicas: 2", "write instances: 3"),
        ("numprocs: 2", "write instances: 3"),
        ('cron: "* * * * *"', 'write schedule: "*/5 * * * *"'),
        ("max_memory_restart: 1G", "write memory_limit: {size: 1GB, action: restart}"),
        ("image: nginx", "Holdfast runs programs, not images"),
        ("availability: {restart: always}", "write restart: {policy: on_failure"),
        ("stopwaitsecs: 3", "write stop: {grace: 10s}"),
        ("stdout_logfile: /tmp/x", "remove it: output is recorded"),
        ("autorestart: true", 'did you mean "restart_policy"?'),
    ],
)
def test_words_of_other_supervisors_are_known(tmp_path: Path, written: str, shown: str) -> None:
    """Those of compose, process-compose, supervisord and pm2: one problem, with the way out."""
    found = problems(tmp_path, f"services: {{web: {{command: x, {written}}}}}")
    assert len(found) == 1
    assert shown in found[0]["suggestion"]


def test_advice_for_foreign_keys_is_right() -> None:
    """No key of ours is called foreign, and what stands for one of ours exists."""
    for block in (SERVICE, ROOT):
        assert not block.keys.keys() & block.foreign.keys()
        assert {one.instead for one in block.foreign.values()} - {""} <= block.keys.keys()


def test_an_unknown_key_names_the_nearest_five(tmp_path: Path) -> None:
    """Not all fifty."""
    (found,) = problems(tmp_path, "services: {web: {command: x, zzzzzz: y}}")
    assert found["suggestion"].count(",") == 4
    (found,) = problems(tmp_path, "services: {web: {command: x, stop: {zzz: y}}}")
    assert found["suggestion"] == "known keys: signal, grace"


@pytest.mark.parametrize("key", ["comand", "cmd", "script", "image"])
def test_one_mistake_is_one_problem(tmp_path: Path, key: str) -> None:
    """A misspelt command is not also a missing one."""
    assert len(problems(tmp_path, f"services: {{web: {{{key}: x}}}}")) == 1


@pytest.mark.parametrize(
    ("written", "span"),
    [
        ('schedule: "61 * * * *"', "the minute of"),
        ('schedule: "61 * * * *"', "it is 0–59"),
        ('schedule: "0 25 * * *"', "it is 0–23"),
        ('schedule: "0 0 0 * *"', "it is 1–31"),
        ('schedule: "0 0 * 13 *"', "it is 1–12"),
        ('schedule: "0 0 * * 9"', "it is 0–7"),
        ("port: 99999", "from 1 to 65535"),
        ("health_check: {http: http://x, retries: 0}", "from 1 to 1000"),
    ],
)
def test_a_range_is_told(tmp_path: Path, written: str, span: str) -> None:
    """Both ends, in the words of the field."""
    (found,) = problems(tmp_path, f"services: {{web: {{command: x, {written}}}}}")
    assert span in f"{found['message']}; {found['suggestion']}"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("ls $HOME/*", "$HOME and $HOME/*"),
        ('sh -c "ls $HOME"', None),
        ("ls ~/x", "~/x"),
        ("rm *.pyc", "*.pyc"),
        ("ls '$HOME/*'", None),
        ("python -m pytest -k '*x'", None),
        ("tool --include=*.py http://x/*", None),
        ("echo ${HOME}", None),
    ],
)
def test_what_only_a_shell_replaces_is_a_warning(
    tmp_path: Path, command: str, what: str | None
) -> None:
    """It can be meant so, and mostly is not."""
    path = tmp_path / "holdfast.yaml"
    path.write_text(json.dumps({"services": {"web": {"command": command}}}))
    warnings = load(str(path), environ={"HOME": "/h"}).warnings
    if what is None:
        assert warnings == ()
        return
    (warning,) = warnings
    assert f"the program gets {what} as it is written" in warning
    assert "shell: true" in warning
    path.write_text(json.dumps({"services": {"web": {"command": command, "shell": True}}}))
    assert load(str(path), environ={}).warnings == ()
