"""Which custom commands may be run: the settings decide, the caller can only refuse."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.authority.commands import permit_command, permit_commands
from holdfast.rules.workflows import Prepared, argv_of, prepare
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.jobs import AddJob
from holdfast.vocabulary.specs.settings import Settings
from holdfast.vocabulary.specs.workflows import CommandPolicy, CommandSpec, StepSpec, WorkflowSpec
from holdfast.vocabulary.workflows import (
    COMMAND_TYPES,
    NAMED,
    CustomCommand,
    CustomRestart,
    ExecuteCommand,
    RunWorkflow,
)

OWNER = Actor(Role.OWNER, "owner")
OPERATOR = Actor(Role.OPERATOR, "token ci")
CLEAN = CommandSpec(argv=("make", "clean"), working_dir="/p")
SETTINGS = Settings(commands={"clean": CLEAN})

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
types = st.sampled_from([None, *COMMAND_TYPES])
actors = st.sampled_from([OWNER, OPERATOR, Actor(Role.ADMIN, "a"), Actor(Role.AGENT, "b")])
policies = st.builds(
    CommandPolicy,
    allow_shell=st.booleans(),
    allowed_types=st.none() | st.lists(st.sampled_from(COMMAND_TYPES), max_size=3).map(tuple),
    allowed_programs=st.none() | st.just((("make",), ("npm", "run"))),
)
settings = st.builds(
    Settings,
    is_production=st.booleans(),
    commands=st.sampled_from([{}, {"clean": CLEAN}]),
    command_policy=policies,
)
flags = st.none() | st.booleans()


@st.composite
def commands(draw: st.DrawFn) -> CustomCommand:
    text = draw(
        words.map(shlex.quote)
        | st.sampled_from(["clean", "make clean", "sh -c true", "/bin/bash", "env sh", "a | b"])
    )
    return CustomCommand(
        command=text if text.strip() else "x",
        command_type=draw(types),
        args=draw(st.none() | st.lists(words, max_size=2)),
        is_safe=draw(flags),
        allowed_in_production=draw(flags),
    )


def is_allowed(actor: Actor, command: CustomCommand, now: Settings) -> bool:
    return permit_command(actor, command, now).is_allowed


@given(actors, commands(), settings)
def test_the_callers_word_grants_nothing(
    actor: Actor, command: CustomCommand, now: Settings
) -> None:
    """`is_safe: true` and `allowed_in_production: true` change no refusal; false refuses."""
    fields = {name: getattr(command, name) for name in command.__struct_fields__}
    silent = CustomCommand(**{**fields, "is_safe": None, "allowed_in_production": None})
    praised = CustomCommand(**{**fields, "is_safe": True, "allowed_in_production": True})
    assert is_allowed(actor, silent, now) == is_allowed(actor, praised, now)
    assert not is_allowed(actor, CustomCommand(**{**fields, "is_safe": False}), now)
    if is_allowed(actor, command, now):
        assert is_allowed(actor, silent, now)


@given(actors, commands(), settings)
def test_no_shell_without_the_settings(actor: Actor, command: CustomCommand, now: Settings) -> None:
    """Whatever it calls itself, a shell runs only where the settings say so."""
    policy = now.command_policy
    says_so = policy.allow_shell or "shell" in (policy.allowed_types or ())
    if says_so or not is_allowed(actor, command, now):
        return
    kind = command.command_type
    if kind == NAMED or (kind is None and command.command in now.commands):
        return
    assert argv_of(command, now)[0].rpartition("/")[2] not in ("sh", "bash")


@given(actors, commands(), settings)
def test_a_refusal_gives_its_reason_and_what_is_allowed_can_be_run(
    actor: Actor, command: CustomCommand, now: Settings
) -> None:
    """No refusal without a reason; nothing permitted that cannot be prepared."""
    verdict = permit_command(actor, command, now)
    assert verdict.reason
    if verdict.is_allowed:
        prepared: Prepared = prepare(command, now)
        assert prepared.argv
        assert prepared.timeout > 0


@given(actors, commands(), settings)
def test_production_runs_only_what_the_configuration_allows_there(
    actor: Actor, command: CustomCommand, now: Settings
) -> None:
    """In production nothing runs that is not named and allowed there."""
    if now.is_production:
        assert not is_allowed(actor, command, now)


@given(commands(), settings)
def test_a_door_never_allows_more_than_the_owner_may(command: CustomCommand, now: Settings) -> None:
    """What an operator at a network door may run, the owner may, too."""
    if is_allowed(OPERATOR, command, now):
        assert is_allowed(OWNER, command, now)


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"command_type": "shell", "command": "echo hi"}, "commands: {allow_shell: true}"),
        ({"command": "bash -c true"}, "commands: {allow_shell: true}"),
        ({"command": "env FOO=1 /bin/sh"}, "commands: {allow_shell: true}"),
        ({"command": "env -S 'sh -c id'"}, "commands: {allow_shell: true}"),
        ({"command": "ionice rbash -c id"}, "commands: {allow_shell: true}"),
        ({"command_type": "named", "command": "nope"}, "under `commands:`"),
        ({"command": "ls | wc"}, "only a shell understands |; put quotes around it"),
        ({"command": "echo $HOME"}, "only a shell understands $HOME"),
        ({"command": "clean", "args": ["x"]}, "write them into `commands:`"),
        ({"command": "echo 'open"}, "split into words"),
    ],
)
def test_the_owners_refusals_name_the_setting(fields: dict[str, object], setting: str) -> None:
    """Who is refused is told what would allow it."""
    verdict = permit_command(OWNER, CustomCommand(**fields), SETTINGS)  # type: ignore[arg-type]
    assert not verdict.is_allowed
    assert setting in verdict.reason


def test_the_owner_may_run_programs_and_a_door_may_not() -> None:
    """The owner could run it anyway; a network door gets what is named, or allowed by type."""
    make = CustomCommand(command_type="Make", command="clean")
    assert is_allowed(OWNER, make, Settings())
    verdict = permit_command(OPERATOR, make, Settings())
    assert "allowed_types: [make]" in verdict.reason
    assert not verdict.is_allowed
    assert is_allowed(OPERATOR, CustomCommand(command="clean"), SETTINGS)
    types = Settings(command_policy=CommandPolicy(allowed_types=("make",)))
    assert is_allowed(OPERATOR, make, types)
    assert not is_allowed(OPERATOR, CustomCommand(command="ls"), types)
    assert is_allowed(OWNER, CustomCommand(command="ls"), types), "types are for requests"


def test_allowed_programs_are_prefixes_that_the_environment_cannot_bend() -> None:
    """With a list of programs, a caller cannot bring a PATH or a folder of its own."""
    policy = CommandPolicy(allowed_types=("npm",), allowed_programs=(("npm", "run"),))
    now = Settings(command_policy=policy)
    run = CustomCommand(command_type="npm", command="run build")
    assert is_allowed(OPERATOR, run, now)
    assert not is_allowed(OPERATOR, CustomCommand(command_type="npm", command="install"), now)
    bent = CustomCommand(command_type="npm", command="run build", env={"PATH": "/evil"})
    assert not is_allowed(OPERATOR, bent, now)


def test_production_allows_what_says_so() -> None:
    """allowed_in_production counts where the configuration says it."""
    spec = CommandSpec(argv=("x",), working_dir="/", allowed_in_production=True)
    now = Settings(is_production=True, commands={"go": spec, "clean": CLEAN})
    assert is_allowed(OPERATOR, CustomCommand(command="go"), now)
    verdict = permit_command(OWNER, CustomCommand(command="clean"), now)
    assert "commands: {clean: {allowed_in_production: true}}" in verdict.reason
    steps = (StepSpec(action="command", command="clean"),)
    workflow = WorkflowSpec(steps=steps, allowed_in_production=True)
    wide = Settings(
        is_production=True,
        commands=now.commands,
        workflows={"a": workflow, "b": WorkflowSpec(steps=())},
    )
    for name, what in (("a", '"clean" is not for production'), ("b", '"b" is not for production')):
        verdict = permit_commands(OWNER, RunWorkflow(workflow=name), wide)
        assert what in verdict.reason


def test_one_refused_command_refuses_the_whole_restart() -> None:
    """Nothing begins when something later in it must not be run."""
    fine, shell = CustomCommand(command="make"), CustomCommand(command="x", command_type="shell")
    restart = CustomRestart(pre_commands=[fine], post_commands=[shell])
    assert not permit_commands(OWNER, restart, Settings()).is_allowed
    assert permit_commands(OWNER, CustomRestart(pre_commands=[fine]), Settings()).is_allowed


def test_only_the_owner_brings_an_environment() -> None:
    """A network door cannot choose the environment of a command, named or not."""
    asked = ExecuteCommand(command=CustomCommand(command="clean"), environment={"PATH": "/evil"})
    assert not permit_commands(OPERATOR, asked, SETTINGS).is_allowed
    assert permit_commands(OWNER, asked, SETTINGS).is_allowed


@pytest.mark.parametrize(
    ("fields", "argv"),
    [
        ({"command_type": "Make", "command": "clean"}, ("make", "clean")),
        ({"command_type": "npm", "command": "run build"}, ("npm", "run", "build")),
        ({"command_type": "python", "command": "-m app"}, ("python3", "-m", "app")),
        ({"command": "'my tool' --x", "args": ["a b"]}, ("my tool", "--x", "a b")),
        ({"command_type": "SHELL", "command": "a | b"}, ("/bin/sh", "-c", "a | b")),
        (
            {"command_type": "shell", "command": "echo $1", "args": ["x"]},
            ("/bin/sh", "-c", "echo $1", "sh", "x"),
        ),
        ({"command": "clean"}, ("make", "clean")),
    ],
)
def test_what_a_type_runs(fields: dict[str, object], argv: tuple[str, ...]) -> None:
    """Types are programs, in any case; a command of the configuration goes by its name."""
    assert argv_of(CustomCommand(**fields), SETTINGS) == argv  # type: ignore[arg-type]


def test_secrets_are_not_told() -> None:
    """What is told of a command holds no token and no password."""
    command = CustomCommand(
        command="curl -H 'Authorization: Bearer abcdefgh12345678'",
        args=["--password", "hunter2", "https://u:hunter2@host/"],
        description="with token=hunter2",
    )
    prepared = prepare(command, Settings())
    assert "hunter2" not in prepared.what
    assert "abcdefgh" not in prepared.what
    assert "curl" in prepared.what


def test_an_unknown_name_is_a_usage_error() -> None:
    """Preparing what was never permitted does not crash."""
    with pytest.raises(UsageError, match="no command"):
        prepare(CustomCommand(command="nope", command_type="named"), Settings())


@pytest.mark.parametrize("door", [Door.REST, Door.WEBSOCKET, Door.TCP])
@pytest.mark.parametrize("role", [Role.ADMIN, Role.OWNER])
def test_a_job_brings_no_more_through_a_network_door_than_execute_command(
    role: Role, door: Door
) -> None:
    """Shells, types, programs and production count for a job's own words, too."""
    actor = Actor(role, "a", door=door)
    types = CommandPolicy(allowed_types=("make",))
    programs = CommandPolicy(allowed_types=("binary",), allowed_programs=(("my tool",),))
    for argv in (["sh", "-c", "id"], ["env", "sh", "-c", "id"], ["make", "x"], ["my tool", "|"]):
        for policy in (CommandPolicy(), types, programs):
            for is_production in (False, True):
                now = Settings(command_policy=policy, is_production=is_production)
                command = CustomCommand(command=shlex.join(argv))
                verdict = permit_commands(actor, AddJob(argv=argv), now)
                assert verdict.is_allowed == is_allowed(actor, command, now), (argv, policy)
                assert not (verdict.is_allowed and (is_production or "sh" in argv))
    bent = AddJob(argv=["my tool"], env={"PATH": "/evil"})
    allowed = permit_commands(actor, bent, Settings(command_policy=programs)).is_allowed
    assert allowed == (role is Role.OWNER)


def test_a_job_at_the_command_line_brings_what_it_likes() -> None:
    """The owner could run it in the next shell anyway."""
    now = Settings(is_production=True)
    assert permit_commands(OWNER, AddJob(argv=["sh", "-c", "id"]), now).is_allowed
