"""Which handler answers which command: exactly one each, checked by a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.app.handlers import (
    alerting,
    custom,
    declaring,
    explaining,
    health,
    history,
    holdfast,
    instances,
    metrics,
    output,
    reloading,
    security,
    services,
    status,
    waiting,
)
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.commands import configuration as about_configuration
from holdfast.vocabulary.commands import custom as about_custom
from holdfast.vocabulary.commands import health as about_health
from holdfast.vocabulary.commands import history as about_history
from holdfast.vocabulary.commands import holdfast as about_holdfast
from holdfast.vocabulary.commands import instances as about_instances
from holdfast.vocabulary.commands import metrics as about_metrics
from holdfast.vocabulary.commands import output as about_output
from holdfast.vocabulary.commands import security as about_security
from holdfast.vocabulary.commands import services as about_services
from holdfast.vocabulary.commands import trouble as about_trouble

Handler = Callable[[Any, Any], Any]

HANDLERS: dict[type[Command], Callable[..., Any]] = {
    about_holdfast.Hello: holdfast.hello,
    about_holdfast.Up: declaring.up,
    about_holdfast.Run: declaring.run,
    about_holdfast.Adopt: declaring.adopt,
    about_holdfast.Prune: holdfast.prune,
    about_holdfast.Upgrade: holdfast.upgrade,
    about_holdfast.Shutdown: holdfast.shutdown,
    about_services.Status: status.status,
    about_services.Start: services.start,
    about_services.Stop: services.stop,
    about_services.Restart: services.restart,
    about_services.Pause: services.pause,
    about_services.Resume: services.resume,
    about_services.Signal: services.signal,
    about_services.Ps: status.ps,
    about_metrics.Metrics: metrics.metrics,
    about_health.HealthCheck: health.health_check,
    about_services.Wait: waiting.wait,
    about_instances.Scale: instances.scale,
    about_instances.RollingRestart: instances.rolling_restart,
    about_services.Remove: services.remove,
    about_output.Logs: output.logs,
    about_output.OpenOutput: output.open_output,
    about_output.Watch: output.watch,
    about_output.SendInput: output.send_input,
    about_output.Resize: output.resize,
    about_history.Events: history.events,
    about_history.Runs: history.runs,
    about_trouble.Alerts: alerting.alerts,
    about_trouble.Explain: explaining.explain,
    about_custom.CustomRestart: custom.custom_restart,
    about_custom.ExecuteCommand: custom.execute_command,
    about_custom.RunWorkflow: custom.run_workflow,
    about_custom.CancelWorkflow: custom.cancel_workflow,
    about_custom.Workflows: custom.workflows,
    about_configuration.Plan: reloading.plan,
    about_configuration.Reload: reloading.reload,
    about_security.CreateToken: security.create_token,
    about_security.ListTokens: security.list_tokens,
    about_security.RevokeToken: security.revoke_token,
    about_security.Audit: security.audit,
}
TELLS_ACTOR = frozenset(
    {
        about_holdfast.Hello,
        about_custom.CustomRestart,
        about_custom.ExecuteCommand,
        about_custom.RunWorkflow,
    }
)
"""Commands whose handlers are told who asks: to answer it, or to keep it on record."""


def handler_for(command: Command, actor: Actor) -> Handler:
    handler = HANDLERS[type(command)]
    return partial(handler, actor=actor) if type(command) in TELLS_ACTOR else handler
