"""Every key that the supervisor keeps in the keeper's memory, with its owner and meaning.

The next supervisor may be of another version, so these keys and the form of their values are the
contract of every upgrade: add keys, never change or reuse one. No other module spells a key; a
test checks that. The keeper itself knows three of them, and its `memory` module defines those.
Values are texts, mostly JSON. They outlive every supervisor, but not the keeper's own end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.keeper import memory as keeper_side


class KeyFamily:
    """Keys that share a prefix, one for each service, request or run."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __call__(self, name: str) -> str:
        """The key for this name."""
        return self.prefix + name

    def entries(self, kept: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """The name and the value of each key of this family."""
        length = len(self.prefix)
        for key, value in kept.items():
            if key.startswith(self.prefix):
                yield key[length:], value


# The supervisor's process.

SEQUENCE = "seq"
"""`supervisor`: the highest event number that may have been given out."""
KEEPER = "keeper"
"""`supervisor`: pid and start of the keeper, `PID:STARTED_AT`, to notice that it was replaced."""
UPGRADE_FROM = "upgrade_from"
"""`app.handlers.holdfast`: the version that began an upgrade."""
SUPERVISOR_ENVIRONMENT = keeper_side.SUPERVISOR_ENVIRONMENT
"""`engine.authority.modes`: variables for the next supervisor; the keeper sets them."""
LOG_LEVEL = "log_level"
"""`app.handlers.configuration`: the level of Holdfast's own log."""
LOG_FORMAT = "log_format"
"""`app.handlers.configuration`: the format of Holdfast's own log."""
LOG_FILE = "log_file"
"""`app.handlers.configuration`: where Holdfast's own log lies, if not in the state folder."""
SHUTDOWN = "shutdown"
"""`engine.shutdown`: a shutdown that has begun, and how it was asked for."""
listener = KeyFamily("listen:")
"""`engine.gate.listeners`, by door: the address that was asked for. The descriptor that the
keeper holds for it has the same name."""

# Configuration.

CONFIGURATION = "config"
"""`app.handlers.configuration`: the path of the configuration in force."""
SETTINGS = "settings"
"""`engine.settings`: what the configuration says about Holdfast itself."""
APPROVED_CONFIGURATION = "approved_configuration"
"""`app.authority.approved_configuration`: the files that an admin has loaded, with digests."""
CALLER = "caller"
"""`engine.caller`: the environment and folder of the person who loaded the configuration."""

# Services.

spec = KeyFamily("spec:")
"""`engine.roster`, by service: its declaration."""
environ = KeyFamily("environ:")
"""`engine.roster`, by digest: an environment that services start from; `spawn` names the key."""
desired = KeyFamily(keeper_side.DESIRED)
"""`engine.runner`, by service: its desired state. The keeper writes it, too, when a person stops
a service while no supervisor answers."""
condition = KeyFamily("condition:")
"""`engine.runner`, by service: its run id, and how ready and healthy that run is."""
verdict = KeyFamily("sentence:")
"""`engine.runner`, by service: why its run is being ended as a failure."""
restarts = KeyFamily("restarts:")
"""`engine.runner`, by service: how often it was restarted, by cause. It is there before the store
has it, so that no death takes back a count that somebody has seen."""
overlap = KeyFamily("overlap:")
"""`engine.runner`, by service: which of two runs has to leave."""
ports = KeyFamily("ports:")
"""`engine.ports`, by service: the ports that were leased to it."""
heard = KeyFamily(keeper_side.HEARD)
"""`engine.health.notify_sockets`, by service: its last notify messages. The keeper writes them
while no supervisor listens."""
scale = KeyFamily("scale:")
"""`engine.instances.scaling`, by template: how many instances were asked for."""
schedule = KeyFamily("schedule:")
"""`engine.schedules`, by schedule: the time of the last due date that was handled."""
good_run = KeyFamily("good:")
"""`engine.alerts.good_runs`, by service: its last good run, and what that was started with."""
owner = KeyFamily("owner:")
"""`engine.sessions.ownership`, by service: the session that started it."""
workflow = KeyFamily("workflow:")
"""`engine.workflows`, by activity: a workflow or command that is under way."""

DISMISSED_BANNERS = "dismissed_banners"
"""`engine.banners`: ids of banners that somebody put away, as a list."""
mcp_handshake = KeyFamily("mcp_handshake:")
"""`engine.mcp_servers`, by service: its run id, and how that run answered the handshake."""
mcp_call = KeyFamily("mcp_call:")
"""`engine.mcp_servers`, by call: a call of a tool that may have been sent and has no end yet."""
agent_written = KeyFamily("agent_written:")
"""`engine.agents.conversation`, by session: the number of its run, and of the last text that was
written to it."""

# Authority and audit.

MODE_BY_HAND = "mode_by_hand"
"""`engine.authority.modes`: the mode that a person chose."""
MODE_FROM = "mode_from"
"""`engine.authority.modes`: the mode before a switch that replaces the supervisor."""
MODE_FOLLOWED = "mode_followed"
"""`engine.authority.mode_followers`: there while services wait to be restarted for a new mode."""
LOCKDOWN = "lockdown"
"""`engine.authority.lockdown`: the lockdown in force."""
approval = KeyFamily("approval:")
"""`engine.authority.approvals`, by approval: a request that waits for approval."""
AUDIT_HEAD = "audit_head"
"""`supervisor`: the newest entry of the audit log, to notice a rollback."""
audit_under_way = KeyFamily("under_way:")
"""`app.audit.auditor`, by request: a command that has begun and has no audit entry yet."""
repeat = KeyFamily("repeat:")
"""`app.idempotency`, by digest: the answer to a command that was given with a key."""
recent = KeyFamily("recent:")
"""`app.idempotency`, by place in a ring: a recent command that steered a service."""
