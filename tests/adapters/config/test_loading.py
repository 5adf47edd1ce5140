"""A right configuration becomes complete specifications, whatever spelling it uses."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.config import load, load_project, loading
from holdfast.adapters.config.interpolation import split_command
from holdfast.adapters.config.keys.health import HEALTH_CHECK
from holdfast.adapters.config.keys.root import ROOT
from holdfast.adapters.config.kinds.blocks import default_of
from holdfast.adapters.config.kinds.kind import ScalarKind
from holdfast.adapters.config.kinds.scalars import ListOf
from holdfast.adapters.config.schema import BLOCKS
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.probes import HttpTarget, ProbeSpec, TcpTarget
from holdfast.vocabulary.specs.services import (
    UNLIMITED,
    LogSpec,
    RestartSpec,
    ServiceSpec,
    StopSpec,
)
from holdfast.vocabulary.specs.settings import Configuration, DoorSpec

EXAMPLES = Path(__file__).parents[3] / "examples"


def read(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, name: str = "holdfast.yaml"
) -> Configuration:
    path = folder / name
    path.write_text(text)
    return load(str(path), environ=environ or {})


def service(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> ServiceSpec:
    return read(folder, "services:\n  web:\n" + text, environ).services["web"]


def build_door(configuration: Configuration) -> DoorSpec:
    assert configuration.settings.door is not None
    return configuration.settings.door


def test_least_configuration_has_every_default(tmp_path: Path) -> None:
    """A command alone is a complete service, in the project folder."""
    configuration = read(tmp_path, "services: {web: npm run dev}")
    assert configuration.services == {
        "web": ServiceSpec(
            name="web", argv=("npm", "run", "dev"), command_words=3, working_dir=str(tmp_path)
        )
    }
    assert configuration.project == str(tmp_path)
    assert build_door(configuration) == DoorSpec()


def test_source_shape_as_it_stands() -> None:
    """The shape of the source guide is accepted with its keys, units and defaults."""
    path = EXAMPLES / "magictunnel.yaml"
    configuration = load(str(path), environ={"SUPERVISOR_TOKEN": "Kq3-vT9x_Zr7mWp2Lc8Y"})
    tunnel, frontend = (configuration.services[name] for name in ("magictunnel", "frontend"))
    assert tunnel.argv == ("./target/release/magictunnel", "--config", "config.yaml")
    assert tunnel.command_words == 1
    assert tunnel.restart_policy == "always"
    assert tunnel.restart == RestartSpec(delay=5.0, max_delay=60.0, backoff=2.0, max_restarts=10)
    assert [(probe.kind, probe.interval) for probe in tunnel.probes] == [("process", 30.0)]
    assert frontend.working_dir == str(EXAMPLES / "frontend")
    assert frontend.probes == (
        ProbeSpec(
            roles=("readiness", "liveness"),
            target=HttpTarget(url="http://localhost:5173"),
            interval=30.0,
            timeout=10.0,
            retries=3,
        ),
    )
    assert build_door(configuration) == DoorSpec(
        allowed_commands=("status", "restart"),
        authentication=True,
        token="Kq3-vT9x_Zr7mWp2Lc8Y",
        is_port_given=True,
    )


def test_file_of_another_program(tmp_path: Path) -> None:
    """Beside `supervisor:`, a file of another name may hold what is not ours."""
    text = "server: {port: 1}\nsecurity: {own: 1}\nsupervisor: {services: {web: x}}\n"
    assert list(read(tmp_path, text, name="config.yaml").services) == ["web"]
    for name in ("holdfast.yaml", "holdfast.test.yaml"):
        with pytest.raises(ConfigError, match="server: unknown key"):
            read(tmp_path, text, name=name)


def test_every_key(tmp_path: Path) -> None:
    """Every key reaches the specification."""
    (tmp_path / "a.env").write_text("export A=1\nB='two words' # comment\n")
    found = service(
        tmp_path,
        """
    command: [python3, -c, "print(1)"]
    args: --port 8000 "a b"
    working_dir: sub/dir
    env_file: [a.env, -missing.env]
    env: {B: three, FLAG: yes, N: 010, T: 1:30, MODE: "0755", E: ""}
    environment: clean
    enabled: no
    autostart: off
    restart_policy: on-failure
    restart: {delay: 200, max_delay: 1m, backoff: 1.5, jitter: 20%, reset_after: 30s}
    max_restarts: unlimited
    start_seconds: 1.5
    start_retries: 0
    success_exit_codes: [0, 143]
    stop: {signal: int, grace: 10}
    terminal: true
    stdin: pipe
    umask: 027
    rlimits: {nofile: 1024, core: unlimited, as: [1GiB, unlimited], cpu: {soft: 1m, hard: 120}}
    log: {max_size: 1MB, total_size: 10MiB}
    on_supervisor_exit: keep
    survivors: stop
    essential: true
    health_check: {tcp: 8000, interval: 5, timeout: 500ms, consecutive_failures: 2}
""",
    )
    assert found == ServiceSpec(
        name="web",
        argv=("python3", "-c", "print(1)", "--port", "8000", "a b"),
        command_words=3,
        working_dir=str(tmp_path / "sub/dir"),
        env={
            "A": "1",
            "B": "three",
            "FLAG": "yes",
            "N": "010",
            "T": "1:30",
            "MODE": "0755",
            "E": "",
        },
        environment="clean",
        enabled=False,
        autostart=False,
        restart_policy="on_failure",
        restart=RestartSpec(
            delay=0.2,
            max_delay=60,
            backoff=1.5,
            jitter=0.2,
            reset_after=30,
            max_restarts=UNLIMITED,
        ),
        start_seconds=1.5,
        start_retries=0,
        success_exit_codes=(0, 143),
        stop=StopSpec(signal="SIGINT", grace=10),
        terminal=True,
        stdin="pipe",
        umask=0o027,
        rlimits={
            "nofile": (1024, 1024),
            "core": (UNLIMITED, UNLIMITED),
            "as": (1024**3, UNLIMITED),
            "cpu": (60, 120),
        },
        log=LogSpec(max_size=1_000_000, total_size=10 * 1024**2),
        on_supervisor_exit="keep",
        survivors="stop",
        essential=True,
        probes=(
            ProbeSpec(
                roles=("readiness", "liveness"),
                target=TcpTarget(host="localhost", port=8000),
                interval=5.0,
                timeout=0.5,
                retries=2,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("restart_policy: never", "never"),
        ("restart_policy: no", "never"),
        ('restart_policy: "Always"', "always"),
        ("restart: always", "always"),
        ("restart: {policy: on-failure}", "on_failure"),
        ("restart_policy: always\n    restart: {policy: always}", "always"),
    ],
)
def test_policies(tmp_path: Path, text: str, policy: str) -> None:
    """A restart policy may be written in the ways people know."""
    assert service(tmp_path, f"    command: x\n    {text}").restart_policy == policy


def test_blocks_at_the_top_are_defaults(tmp_path: Path) -> None:
    """What stands at the top holds for every service that does not say otherwise."""
    (tmp_path / "all.env").write_text("SHARED=1\n")
    configuration = read(
        tmp_path,
        """
restart: {policy: always, delay: 1s, max_restarts: 3}
stop: {grace: 1}
log: {max_size: 1MiB}
environment: clean
env: {A: top, B: top}
env_file: all.env
services:
  one: x
  two:
    command: x
    environment: inherit
    restart: {delay: 2s}
    restart_policy: never
    stop: {signal: HUP}
    env: {B: own}
""",
    )
    one, two = configuration.services["one"], configuration.services["two"]
    assert one.restart_policy == "always"
    assert one.restart == RestartSpec(delay=1, max_restarts=3)
    assert one.env == {"SHARED": "1", "A": "top", "B": "top"}
    assert one.environment == "clean"
    assert two.restart_policy == "never"
    assert two.restart == RestartSpec(delay=2, max_restarts=3)
    assert two.stop == StopSpec(signal="SIGHUP", grace=1)
    assert two.log.max_size == 1024**2
    assert two.env == {"SHARED": "1", "A": "top", "B": "own"}
    assert two.environment == "inherit"


def test_shell(tmp_path: Path) -> None:
    """With `shell: true` the command goes to /bin/sh as it stands."""
    found = service(tmp_path, "    command: cd x && echo $HOME | wc\n    shell: true")
    assert found.argv == ("/bin/sh", "-c", "cd x && echo $HOME | wc")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("run ${A}", ("run", "alpha")),
        ("run ${MISSING:-fall back}", ("run", "fall", "back")),
        ('run "${MISSING:-fall back}"', ("run", "fall back")),
        ("${TWO} x", ("two", "words", "x")),
        ("run '${TWO}'", ("run", "two words")),
        ("run ${QUOTE}", ("run", "it's")),
        ("run ${EMPTY}", ("run",)),
        ('run "${EMPTY}"', ("run", "")),
        ("run $$HOME $${A} $A", ("run", "$HOME", "${A}", "$A")),
        ("run --x=${A}/b", ("run", "--x=alpha/b")),
        ("run ${MISSING:-${A}}", ("run", "alpha")),
        ("run ${EMPTY-dash}", ("run",)),
        ("run ${EMPTY:-colon}", ("run", "colon")),
        (r"run a\ b 'c d' \"e\"", ("run", "a b", "c d", '"e"')),
    ],
)
def test_variables_in_commands(tmp_path: Path, written: str, expected: tuple[str, ...]) -> None:
    """A quoted variable is one word whatever it holds; an unquoted one splits like a shell's."""
    environ = {"A": "alpha", "TWO": "two words", "QUOTE": "it's", "EMPTY": ""}
    found = service(tmp_path, f"    command: {json.dumps(written)}", environ)
    assert found.argv == expected


def test_variables_in_every_value(tmp_path: Path) -> None:
    """Numbers, booleans and paths may come from the environment too."""
    text = (
        "port: ${PORT}\nservices:\n  web:\n    command: x\n    autostart: ${AUTO:-false}\n"
        "    working_dir: ${DIR}/sub\n    env: {K: 'a ${PORT} $$b'}\n"
    )
    configuration = read(tmp_path, text, {"PORT": "9000", "DIR": "/srv"})
    found = configuration.services["web"]
    assert build_door(configuration).port == 9000
    assert found.autostart is False
    assert found.working_dir == "/srv/sub"
    assert found.env == {"K": "a 9000 $b"}


def test_variables_taken_from_the_caller(tmp_path: Path) -> None:
    """A variable without a value is the caller's, and absent if the caller has none."""
    environ = {"A": "1", "B": "2"}
    assert service(tmp_path, "    command: x\n    env: {A: , C: }", environ).env == {"A": "1"}
    listed = service(tmp_path, "    command: x\n    env: [B, C, D=, E=x=y]", environ)
    assert listed.env == {"B": "2", "D": "", "E": "x=y"}


def test_home_in_paths(tmp_path: Path) -> None:
    """`~` is the caller's home."""
    found = service(tmp_path, "    command: x\n    working_dir: ~/app", {"HOME": "/home/me"})
    assert found.working_dir == "/home/me/app"


@pytest.mark.parametrize(
    "written", ["[db, cache]", "{db: , cache: started}", "{db: {condition: started}, cache: {}}"]
)
def test_dependencies(tmp_path: Path, written: str) -> None:
    """Dependencies are names, or names with the condition `started`."""
    text = f"services: {{db: x, cache: y, web: {{command: z, depends_on: {written}}}}}"
    needs = read(tmp_path, text).services["web"].depends_on
    assert [(need.service, need.condition) for need in needs] == [
        ("db", "started"),
        ("cache", "started"),
    ]


def test_anchors_and_extensions(tmp_path: Path) -> None:
    """Keys that begin with `x-` are free, so that anchors have a place; `<<` merges."""
    text = (
        "x-common: &common {restart_policy: always, stop: {grace: 1}}\n"
        "services:\n  a: {<<: *common, command: x}\n"
        "  b: {<<: *common, command: y, restart_policy: never}\n"
    )
    services = read(tmp_path, text).services
    assert services["a"].restart_policy == "always"
    assert services["b"].restart_policy == "never"
    assert services["b"].stop.grace == 1


def test_json(tmp_path: Path) -> None:
    """A JSON file is read alike, tabs and surrogate escapes included."""
    text = '{\n\t"$schema": "x",\n\t"services": {"web": {"command": ["e", "\\ud83d\\ude00\\/"]}}\n}'
    assert read(tmp_path, text, name="holdfast.json").services["web"].argv == ("e", "😀/")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "services:\n", "services: {}\n", "---\n"])
def test_no_services_yet(tmp_path: Path, text: str) -> None:
    """An empty file is a configuration without services."""
    assert read(tmp_path, text).services == {}


def test_delay_above_the_default_maximum(tmp_path: Path) -> None:
    """A longer delay or segment raises the limit that was not written."""
    found = service(tmp_path, "    command: x\n    restart: {delay: 5m}\n    log: {max_size: 1GiB}")
    assert found.restart.max_delay == 300
    assert found.log.total_size >= found.log.max_size


def test_supervisor_switched_off(tmp_path: Path) -> None:
    """`enabled: false` of the whole keeps every service known and unstarted."""
    found = read(tmp_path, "supervisor: {enabled: false, services: {web: x}}").services["web"]
    assert found.enabled is False


def test_precedence(tmp_path: Path) -> None:
    """Command line beats environment, environment beats file, file beats default."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("port: 1\nhost: 127.0.0.2\nlog_level: error\nservices: {}\n")
    environ = {"SUPERVISOR_PORT": "2", "SUPERVISOR_LOG_LEVEL": "WARN"}
    found = load(str(path), environ=environ, settings={"port": "3"})
    door = build_door(found)
    assert (door.port, door.host, found.log_level) == (3, "127.0.0.2", "warning")
    aliased = load(str(path), environ={"MAGICTUNNEL_RUNTIME_MODE": "advanced"})
    assert aliased.runtime_mode == "advanced"
    assert build_door(aliased).port == 1


def test_token_of_the_environment_turns_authentication_on(tmp_path: Path) -> None:
    """A token given from outside is asked for."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("host: 0.0.0.0\n")
    door = build_door(load(str(path), environ={"SUPERVISOR_TOKEN": "Kq3-vT9x_Zr7mWp2Lc8Y"}))
    assert door.authentication
    assert (door.token, door.host) == ("Kq3-vT9x_Zr7mWp2Lc8Y", "0.0.0.0")


def test_log_level_of_modules(tmp_path: Path) -> None:
    """Levels may be set for modules apart."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("")
    found = load(str(path), environ={}, settings={"log-level": "engine=trace, warn"})
    assert found.log_level == "engine=trace,warning"


def test_target_of_the_environment(tmp_path: Path) -> None:
    """SUPERVISOR_TARGET_CMD alone makes one service named target."""
    environ = {"SUPERVISOR_TARGET_CMD": "npm run 'my dev'", "SUPERVISOR_WORKING_DIR": "app"}
    found = load_project(None, environ, cwd=str(tmp_path))
    assert found.path is None
    assert list(found.services) == ["target"]
    target = found.services["target"]
    assert target.argv == ("npm", "run", "my dev")
    assert target.working_dir == str(tmp_path / "app")
    assert target.origin == "target"
    assert load_project(None, {}, cwd=str(tmp_path)).services == {}


def test_all_feed_one_registry(tmp_path: Path) -> None:
    """The target joins the services of the file, under the file's defaults."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("restart: {delay: 1s}\nservices: {web: x}\n")
    environ = {"SUPERVISOR_TARGET_CMD": "run it"}
    found = load_project(str(path), environ, {}, cwd=str(tmp_path))
    assert list(found.services) == ["web", "target"]
    assert found.services["target"].restart.delay == 1
    path.write_text("services: {target: {command: old, restart_policy: always}}\n")
    target = load_project(str(path), environ, {}, cwd=str(tmp_path)).services["target"]
    assert (target.argv, target.restart_policy) == (("run", "it"), "always")


def test_nothing_configured(tmp_path: Path) -> None:
    """Without a file and without a target there is a project without services."""
    found = load_project(None, {}, {"port": "9"}, cwd=str(tmp_path))
    assert (found.path, found.project, found.services) == (None, str(tmp_path), {})
    assert build_door(found).port == 9


def test_file_named_by_the_environment(tmp_path: Path) -> None:
    """MAGICTUNNEL_CONFIG names the file when nothing else does."""
    (tmp_path / "config.yaml").write_text("supervisor: {services: {web: x}}")
    found = load_project(None, {"MAGICTUNNEL_CONFIG": "./config.yaml"}, cwd=str(tmp_path))
    assert list(found.services) == ["web"]


def test_origins_of_the_environment_win(tmp_path: Path) -> None:
    """ALLOWED_ORIGINS stands in the place of what the file says, as every variable does."""
    text = "security: {allowed_origins: [http://a, http://b]}"
    for given, expected in (
        ({}, ("http://a", "http://b")),
        ({"ALLOWED_ORIGINS": " http://c,http://a, "}, ("http://c", "http://a")),
        ({"ALLOWED_ORIGINS": " , "}, ("http://a", "http://b")),
    ):
        http = read(tmp_path, text, environ=given).settings.http
        assert http is not None
        assert http.allowed_origins == expected


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("node x \\\n   --port 1", ["node", "x", "--port", "1"]),
        ("a\\\nb", ["ab"]),
        ('a "b\\\nc" "\\$X" "\\`" "\\n"', ["a", "bc", "$X", "`", "\\n"]),
    ],
)
def test_backslashes_mean_what_they_mean_to_a_shell(command: str, words: list[str]) -> None:
    """A line is continued by a backslash, and one in double quotes keeps a $ from meaning more."""
    assert split_command(command) == words
    said = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True
    )
    assert said.stdout.decode().split("\0")[:-1] == words


def test_words_of_a_command_line() -> None:
    """A command line is split like a shell's words, and nothing is expanded."""
    assert split_command("""a 'b c' "d \\"e" f\\ g $X ${Y} ''""") == [
        *("a", "b c", 'd "e', "f g", "$X", "${Y}", ""),
    ]
    with pytest.raises(ConfigError, match=r"single quote at character 3 .* not closed"):
        split_command("a 'b")
    with pytest.raises(ConfigError, match="empty"):
        split_command("  ")


def test_defaults_described_are_the_defaults_used() -> None:
    """The default that a key states is the one that leaving it out gives."""
    compared = 0
    for block, spec in (
        *((block, block.spec) for block in BLOCKS),
        *((ROOT, spec) for spec in (Configuration, DoorSpec)),
        (HEALTH_CHECK, HttpTarget),
    ):
        for name in set(block.keys).intersection(spec.__struct_fields__ if spec else ()):
            kind, written = block.keys[name].kind, block.default(name)
            if written is None or not isinstance(kind, (ScalarKind, ListOf)):
                continue
            assert spec is not None
            used = default_of(spec, name)
            if used is None:
                continue
            texts = written if isinstance(kind, ListOf) else [written]
            item = kind.item if isinstance(kind, ListOf) else kind
            assert isinstance(item, ScalarKind)
            read = tuple(
                item.convert(str(text).lower() if isinstance(text, bool) else str(text))
                for text in texts
            )
            used = used.lower() if name == "method" else used
            assert (read if isinstance(kind, ListOf) else read[0]) == used, name
            compared += 1
    assert compared > 60


def test_examples_load() -> None:
    """Every example is a right configuration."""
    paths = list(EXAMPLES.rglob("*.yaml"))
    assert paths
    for path in paths:
        assert load(
            str(path), environ={**os.environ, "SUPERVISOR_TOKEN": "Kq3-vT9x_Zr7mWp2Lc8Y"}
        ).services


@pytest.mark.parametrize("text", ['"b\\u00e9"', '"bé"', '"plain"', "3", "true", "null"])
def test_json_means_the_same_by_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """What is read fast is what the careful reader reads."""
    path = tmp_path / "holdfast.json"
    path.write_text(
        '{"services": {"web": {"command": ["a", "b c"], "start_seconds": 1.50,'
        f' "autostart": false, "description": {text}, "env_vars": {{"A": {text}}}}}}}}}'
    )

    def outcome() -> Any:
        try:
            return load(str(path), environ={})
        except ConfigError as error:
            return error.message

    fast = outcome()
    monkeypatch.setattr(loading, "parse_json", lambda data: None)
    assert fast == outcome()


def test_json_with_a_problem_tells_its_place(tmp_path: Path) -> None:
    """A key that comes twice, or means nothing, is told with line and column."""
    path = tmp_path / "holdfast.json"
    for wrong in ('"command": ["b"]', '"comand": ["b"]'):
        path.write_text(f'{{"services": {{"web": {{\n  "command": ["a"],\n  {wrong}}}}}}}')
        with pytest.raises(ConfigError, match=":3:3"):
            load(str(path), environ={})
