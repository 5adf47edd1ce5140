"""What the policies of a configuration say to a request. Pure.

The first policy that is about it decides. A policy only restricts what roles and scopes allow:
`allow` ends the search and grants nothing. Only `rules.authority.permissions` asks, except about
who may approve. For a session, the stricter of its own policy and its opener's holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import normpath

import msgspec
from msgspec.structs import replace

from holdfast.rules.authority.path_scopes import PathTarget
from holdfast.vocabulary.actors import Actor, Role, Target
from holdfast.vocabulary.command import Command, Effect
from holdfast.vocabulary.specs.policies import PolicySpec, Window

Local = Callable[[str | None], datetime]
"""Returns the time in a zone; None: the machine's."""
NEVER_CONFIRMED = frozenset({"approve", "reject", "lockdown", "unlock"})
"""An approval must not need another approval, and an emergency waits for nobody."""
_STRICTNESS = {"deny": 2, "confirm": 1, "allow": 0}
_RANK = {Role.OPERATOR: 1, Role.ADMIN: 2, Role.OWNER: 3}


class PolicyRequest(msgspec.Struct, frozen=True):
    """What a policy looks at."""

    actor: Actor
    command: Command | type[Command]
    targets: Sequence[Target] = ()
    """The services that it is about."""
    paths: Sequence[PathTarget] = ()
    """The files and folders that it is about."""
    tools: Sequence[str] = ()
    """All names of the tool of an MCP server that it is about."""


def decide(
    policies: Sequence[PolicySpec], request: PolicyRequest, local: Local
) -> PolicySpec | None:
    """Return the policy that decides; None: none is about this."""
    found = _first(policies, request, local)
    behind = request.actor.behind
    if behind is None:
        return found
    other = decide(policies, replace(request, actor=behind), local)
    if found is None or other is None:
        return found or other
    return max(found, other, key=lambda policy: _STRICTNESS[policy.effect])


def _first(
    policies: Sequence[PolicySpec], request: PolicyRequest, local: Local
) -> PolicySpec | None:
    actor, command = request.actor, request.command
    if is_greeting(command) or (actor.role is Role.OWNER and _keeps_owner_in(command)):
        return None
    return next((policy for policy in policies if _is_about(policy, request, local)), None)


def is_greeting(command: Command | type[Command]) -> bool:
    """Return whether it only tells callers their own identity: every known caller may, always."""
    return command.greets and command.effect is Effect.READS and not command.streams


def is_by_service(policies: Sequence[PolicySpec]) -> bool:
    """Return whether any of them asks which services a request is about."""
    return any(policy.services is not None or policy.tags is not None for policy in policies)


def is_by_tool(policies: Sequence[PolicySpec]) -> bool:
    """Return whether any of them asks which tool of an MCP server a request is about."""
    return any(policy.tools is not None for policy in policies)


def is_by_path(policies: Sequence[PolicySpec]) -> bool:
    """Return whether any of them asks which files a request is about."""
    return any(policy.paths is not None for policy in policies)


def says(policy: PolicySpec) -> str:
    """Return for people which policy it is, and why."""
    return f'policy "{policy.name}"' + (f": {policy.reason}" if policy.reason else "")


def why_not_approve(approver: Actor, asker: Actor, policy_approvers: str) -> str | None:
    """Return why this actor may not decide about that actor's request; None: it may.

    Whether it may give the command itself is another question.
    """
    if approver.role is Role.AGENT or approver.session is not None:
        return "an agent never approves"
    askers = [asker, *_openers(asker)]
    if approver.role is not Role.OWNER and any(_is_same(approver, one) for one in askers):
        return "nobody approves what was asked with the same token, or one made with it"
    if _RANK.get(approver.role, 0) < _RANK[Role(policy_approvers)]:
        return f"it takes an {policy_approvers} to approve it"
    return None


def _openers(actor: Actor) -> list[Actor]:
    return [actor.behind, *_openers(actor.behind)] if actor.behind is not None else []


def _is_same(one: Actor, other: Actor) -> bool:
    """Return whether two actors are the same person: whoever made a token has it."""
    mine, others = one.origin or one.token, other.origin or other.token
    return one.identity == other.identity or (mine is not None and mine == others)


def _keeps_owner_in(command: Command | type[Command]) -> bool:
    """Return whether the owner keeps it: the owner could edit the configuration anyway."""
    return command.in_lockdown or command.name in NEVER_CONFIRMED


def _is_about(policy: PolicySpec, request: PolicyRequest, local: Local) -> bool:
    actor, command = request.actor, request.command
    if policy.effect == "confirm" and not can_wait(command):
        return False
    return (
        _is_of(policy.actors, *_names_of(actor, policy))
        and _is_of(policy.roles, actor.role.value)
        and _is_of(policy.doors, actor.door.value)
        and _is_of(policy.commands, command.name)
        and _is_about_services(policy, request.targets)
        and _is_about_paths(policy, request)
        and _is_about_tools(policy, request)
        and (
            policy.times is None
            or any(is_within(window, local(window.zone)) for window in policy.times)
        )
    )


def can_wait(command: Command | type[Command]) -> bool:
    """Return whether it can wait for approval: it changes something, and is no decision itself."""
    return command.effect is not Effect.READS and command.name not in NEVER_CONFIRMED


def _names_of(actor: Actor, policy: PolicySpec) -> tuple[str, ...]:
    """Return the actor's name in the audit, and the own name of its token or session.

    A session's client chooses its name itself, so that name allows nothing.
    """
    if actor.session is None:
        return (actor.name, actor.name.removeprefix("token "))
    return (actor.session,) if policy.effect == "allow" else (actor.session, actor.name)


def _is_of(patterns: tuple[str, ...] | None, *names: str) -> bool:
    return patterns is None or any(fnmatchcase(n, pattern) for n in names for pattern in patterns)


def _is_about_services(policy: PolicySpec, targets: Sequence[Target]) -> bool:
    """A restricting policy is about a request that touches one of its services; an allowing one
    only about a request that touches no other.
    """
    if policy.services is None and policy.tags is None:
        return True
    found = [
        (policy.services is not None and _is_of(policy.services, *target.names))
        or (policy.tags is not None and any(tag in policy.tags for tag in target.tags))
        for target in targets
    ]
    return bool(found) and (all(found) if policy.effect == "allow" else any(found))


def _is_about_tools(policy: PolicySpec, request: PolicyRequest) -> bool:
    """A policy with tools is about calls of these, and about nothing else. One name of a tool is
    enough for a restriction; `allow` has to mean it by each."""
    if policy.tools is None or not request.tools:
        return policy.tools is None
    found = [_is_of(policy.tools, name) for name in request.tools]
    return all(found) if policy.effect == "allow" else any(found)


def _is_about_paths(policy: PolicySpec, request: PolicyRequest) -> bool:
    """A restricting policy is about a request that touches one of its paths; an allowing one only
    about a request that touches no other. A folder stands for everything below it, unless the
    command leaves out what is denied there; an approval is for the request as a whole.
    """
    if policy.paths is None:
        return True
    command, targets = request.command, request.paths
    if policy.effect == "allow":
        return bool(targets) and all(_is_allowed(target, policy.paths) for target in targets)
    holds = command.is_recursive and (not command.leaves_out or policy.effect == "confirm")
    return any(_is_meant(target, policy.paths, holds=holds) for target in targets)


def _is_allowed(target: PathTarget, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern matches the path exactly as it is written."""
    for pattern in patterns:
        path = target.absolute if pattern.startswith("/") else target.relative
        if path is not None and fnmatchcase(_plain(path), pattern):
            return True
    return False


def _is_meant(target: PathTarget, patterns: tuple[str, ...], *, holds: bool) -> bool:
    """Return whether a pattern means this path or a folder that it is in; with `holds`, also
    whether it could mean something below it. Case is ignored, because some file systems ignore
    it.
    """
    for pattern in patterns:
        for path in _spellings(target, pattern):
            folded = _folded(pattern)
            above = [path[:end] for end, letter in enumerate(path) if letter == "/" and end]
            for name in (path, *above):
                if fnmatchcase(name, folded) or fnmatchcase(f"{name.rstrip('/')}/", folded):
                    return True
            if holds and could_begin(path, folded):
                return True
    return False


def _spellings(target: PathTarget, pattern: str) -> list[str]:
    """Return the names of a path that a pattern may mean:

    `*/secrets/*` also means the folder at the top of the project.
    """
    if target.relative is None or pattern.startswith("/"):
        return [_folded(_plain(target.absolute))]
    relative = _folded(_plain(target.relative))
    return [relative] if relative == "." else [relative, f"/{relative}"]


def could_begin(folder: str, pattern: str) -> bool:
    """Return whether a path below this folder could match the pattern (`.`: the whole project)."""
    tokens = _tokens(pattern)
    places = _rested({0}, tokens)
    for letter in "" if folder == "." else f"{folder.rstrip('/')}/":
        moved = set()
        for place in places:
            if place == len(tokens):
                continue
            if tokens[place] == "*":
                moved.add(place)
            elif fnmatchcase(letter, tokens[place]):
                moved.add(place + 1)
        places = _rested(moved, tokens)
        if not places:
            return False
    return True


def _rested(places: set[int], tokens: tuple[str, ...]) -> set[int]:
    """Add the places that are reached because `*` may stand for nothing."""
    found = set(places)
    for place in places:
        at = place
        while at < len(tokens) and tokens[at] == "*":
            at += 1
            found.add(at)
    return found


@lru_cache(256)
def _tokens(pattern: str) -> tuple[str, ...]:
    """Split a pattern into pieces, each for one letter, or `*`."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "[":
            # A bracket that is closed at once is a letter of the set.
            close = pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "!" else 2))
            end = close + 1 if close > 0 else at + 1
        piece = pattern[at:end]
        found.append("[[]" if piece == "[" else piece)
        at = end
    return tuple(found)


@lru_cache(1024)
def _folded(text: str) -> str:
    """Return a path or a pattern as the least careful file system would take it."""
    if text.isascii():
        return text.casefold()
    import unicodedata

    plain = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", plain)


def _plain(path: str) -> str:
    """Normalise a path, because one file has many names."""
    return normpath(path) if path else "."


def next_turn(policies: Sequence[PolicySpec], local: Local) -> float | None:
    """Return the seconds until a window of a policy opens or closes; None: no policy has windows.

    With daylight saving time a moment may come too early: ask again then.
    """
    found: list[float] = []
    for window in (window for policy in policies for window in policy.times or ()):
        moment = local(window.zone)
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
        found += [(at * 60 - seconds) % 86400 or 86400.0 for at in (window.begin, window.end)]
    return min(found, default=None)


def is_within(window: Window, moment: datetime) -> bool:
    minute, day = moment.hour * 60 + moment.minute, moment.weekday()
    if window.begin < window.end:
        return day in window.days and window.begin <= minute < window.end
    # Over midnight: the day is the one on which it begins.
    is_begun = day in window.days and minute >= window.begin
    return is_begun or ((day - 1) % 7 in window.days and minute < window.end)
