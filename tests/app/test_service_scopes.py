"""What an actor that may see some services only is told of the rest."""

from __future__ import annotations

import msgspec

from holdfast.app.authority.service_scopes import limit_result
from holdfast.vocabulary.services import StatusResult, SupervisorStatus


def test_processes_of_no_service_are_not_told() -> None:
    """They may be of a service that the actor must not know of."""
    about = SupervisorStatus(
        status="running", uptime=1.0, managed_services=2, pid=1, keeper_pid=2, version="1",
        alerts={"warning": 1}, selectors=["group:all"], unclaimed=[{"pid": 3, "name": "hidden"}],
    )  # fmt: skip
    told = limit_result(StatusResult(supervisor=about, services={}), lambda name: True, None)
    assert isinstance(told, StatusResult)
    assert told.supervisor.managed_services == 0
    for field in ("alerts", "selectors", "unclaimed"):
        assert getattr(told.supervisor, field) is msgspec.UNSET
