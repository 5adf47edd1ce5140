"""Handlers of commands about banners: gathers the facts and lets `rules.banners` tell."""

from __future__ import annotations

import os
import time

from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.banners import Banner, Banners, BannersResult, DismissBanner
from holdfast.vocabulary.command import Done
from holdfast.vocabulary.errors import NotFound, Refused

EDITED_PATIENCE_SECONDS = 1.0


@handles(Banners)
async def banners(context: Context, command: Banners) -> BannersResult:
    await context.edited_configuration.refresh(EDITED_PATIENCE_SECONDS)
    found = current_banners(context)
    if command.services:
        names = frozenset(context.roster.names(command.services))
        found = [one for one in found if one.service is None or one.service in names]
    return BannersResult(banners=found)


@handles(DismissBanner)
def dismiss_banner(context: Context, command: DismissBanner) -> Done:
    found = {one.id: one for one in current_banners(context)}
    banner = found.get(command.banner)
    if banner is None:
        raise NotFound(f'no banner "{command.banner}"', "`banners` lists those of this moment")
    if not banner.is_dismissible:
        message = f"«{banner.title}» leaves when its cause is gone"
        raise Refused(message, banner.hint or "wait until it is over")
    context.banners.dismiss(banner.id)
    return Done(message=f"«{banner.title}» was put away")


def current_banners(context: Context) -> list[Banner]:
    """Return the banners of this moment. Quick: every status asks."""
    memory, authority = context.banners, context.authority
    alerts = list(context.alerting.alerts.open.values())
    under_way = context.workflows.under_way()
    outdated = [name for name, one in context.roster.runners.items() if one.is_outdated]
    unrecorded, unclaimed = context.store.database.failing, context.log_sizes.unclaimed
    lockdown, waiting = authority.lockdown.now, len(authority.approvals.waiting)
    notices = memory.notices()
    edited = context.edited_configuration.files
    something = (
        alerts,
        under_way,
        edited,
        outdated,
        unrecorded,
        unclaimed,
        lockdown,
        waiting,
        notices,
    )
    if memory.rolling is None and not any(something):
        return []
    from holdfast.rules import banners as rules

    found = rules.banners(
        rules.BannerFacts(
            now=time.time(),
            lockdown=lockdown,
            approvals=waiting,
            alerts=alerts,
            under_way=under_way,
            rolling=memory.rolling,
            edited=[os.path.basename(path) for path in edited],
            outdated=outdated,
            unrecorded=unrecorded,
            unclaimed=unclaimed or (),
            notices=notices,
            dismissed=memory.dismissed,
        )
    )
    return [_redacted(one) for one in found]


def _redacted(banner: Banner) -> Banner:
    from msgspec.structs import replace

    detail = redact(banner.detail) if banner.detail else ""
    return banner if detail == banner.detail else replace(banner, detail=detail)
