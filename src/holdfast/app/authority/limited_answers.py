"""Answers for who may see some services only: without names and numbers of the others.

What a command is about was narrowed before; here goes what answers tell beyond it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast.app.registry import Answer
from holdfast.vocabulary.alerts import AlertsResult
from holdfast.vocabulary.command import Result
from holdfast.vocabulary.errors import UnknownService
from holdfast.vocabulary.ports import PortsResult
from holdfast.vocabulary.services import StatusResult, WrittenStatus
from holdfast.vocabulary.sessions import SessionsResult
from holdfast.vocabulary.workflows import WorkflowsResult

MaySee = Callable[[str], bool]


def limited(answer: Answer, may_see: MaySee, session: str | None) -> Answer:
    """The same answer; `session` is that of who asks."""
    if isinstance(answer, Result):
        return shown(answer, may_see, session)
    if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
        return _awaited(answer, may_see, session)
    return answer  # a stream is of the services that it was narrowed to


async def _awaited(answer: Awaitable[Result], may_see: MaySee, session: str | None) -> Result:
    try:
        return shown(await answer, may_see, session)
    except UnknownService as error:
        raise nameless(error) from None


def nameless(error: UnknownService) -> UnknownService:
    """Which names there are is not told to who may not see them."""
    name = str(error.details.get("service", ""))
    return UnknownService(f'no service "{name}"', "", {"service": name})


def shown(answer: Result, may_see: MaySee, session: str | None) -> Result:
    replace: Any = msgspec.structs.replace
    changed: Any = answer
    match answer:
        case WrittenStatus():
            return shown(answer.read(), may_see, session)
        case StatusResult():
            about = replace(
                answer.supervisor,
                managed_services=len(answer.services),
                selectors=msgspec.UNSET,
                alerts=msgspec.UNSET,
                unclaimed=msgspec.UNSET,
            )
            changed = replace(answer, supervisor=about)
        case AlertsResult():
            changed = replace(answer, targets=[])
        case WorkflowsResult():
            # They are about all services, and so are the commands: not for who is limited.
            changed = replace(answer, workflows={}, commands={}, under_way=[])
        case PortsResult():
            seen = [one for one in answer.ports if one.service is not None and may_see(one.service)]
            changed = replace(answer, ports=seen)
        case SessionsResult():
            own = [one for one in answer.sessions if one.session == session]
            changed = replace(answer, sessions=own)
    result: Result = changed
    return result
