"""All that can be asked. One class a command; every door is made from these definitions."""

from __future__ import annotations

from holdfast.vocabulary.commands.authority import (
    Approvals,
    Approve,
    GetMode,
    Lockdown,
    Reject,
    SetMode,
    Unlock,
)
from holdfast.vocabulary.commands.browsing import (
    CreateLogin,
    HandOver,
    LogIn,
    LogOut,
    ReportRefusal,
)
from holdfast.vocabulary.commands.checkpoints import (
    Checkpoints,
    MakeCheckpoint,
    RestoreCheckpoint,
)
from holdfast.vocabulary.commands.command import Command
from holdfast.vocabulary.commands.configuration import Plan, Reload
from holdfast.vocabulary.commands.custom import (
    CancelWorkflow,
    CustomRestart,
    ExecuteCommand,
    RunWorkflow,
    Workflows,
)
from holdfast.vocabulary.commands.files import (
    ApplyPatch,
    EditFile,
    FileChanges,
    ListFiles,
    ReadFile,
    UndoFiles,
    WriteFile,
)
from holdfast.vocabulary.commands.git import (
    GitAdd,
    GitBlame,
    GitBranches,
    GitCommit,
    GitDiff,
    GitLog,
    GitRestore,
    GitShow,
    GitStash,
    GitStatus,
    GitSwitch,
    GitTag,
)
from holdfast.vocabulary.commands.health import HealthCheck
from holdfast.vocabulary.commands.history import Events, Runs
from holdfast.vocabulary.commands.holdfast import (
    Adopt,
    Hello,
    Prune,
    Run,
    Shutdown,
    Up,
    Upgrade,
)
from holdfast.vocabulary.commands.instances import RollingRestart, Scale
from holdfast.vocabulary.commands.metrics import Metrics
from holdfast.vocabulary.commands.output import Logs, OpenOutput, Resize, SendInput, Watch
from holdfast.vocabulary.commands.search import Search, SearchLogs
from holdfast.vocabulary.commands.ports import ListPorts
from holdfast.vocabulary.commands.security import Audit, CreateToken, ListTokens, RevokeToken
from holdfast.vocabulary.commands.services import (
    Pause,
    Ps,
    Remove,
    Restart,
    Resume,
    Signal,
    Start,
    Status,
    Stop,
    Wait,
)
from holdfast.vocabulary.commands.sessions import (
    CloseSession,
    HoldSession,
    ListSessions,
    OpenSession,
    RenewSession,
)
from holdfast.vocabulary.commands.trouble import Alerts, Explain

COMMANDS: dict[str, type[Command]] = {
    command.name: command
    for command in (
        Hello, Status, Up, Run, Start, Stop, Restart, Pause, Resume, Signal, Ps, Wait, Remove,
        Adopt, Logs, OpenOutput, Watch, SendInput, Resize, Events, Runs, Prune, Upgrade, Shutdown,
        Plan, Reload, CreateToken, ListTokens, RevokeToken, Audit,
        CreateLogin, LogIn, LogOut, HandOver, ReportRefusal,
        GetMode, SetMode, Lockdown, Unlock, Approvals, Approve, Reject,
        CustomRestart, ExecuteCommand, RunWorkflow, CancelWorkflow, Workflows,
        Alerts, Explain, Metrics, HealthCheck, Scale, RollingRestart,
        OpenSession, RenewSession, HoldSession, CloseSession, ListSessions, ListPorts,
        ReadFile, ListFiles, WriteFile, EditFile, ApplyPatch, UndoFiles, FileChanges,
        Search, SearchLogs, GitStatus, GitDiff, GitLog, GitShow, GitBlame, GitBranches, GitAdd,
        GitCommit, GitRestore, GitSwitch, GitStash, GitTag,
        MakeCheckpoint, Checkpoints, RestoreCheckpoint,
    )
}  # fmt: skip

__all__ = ["COMMANDS", "Command"]
