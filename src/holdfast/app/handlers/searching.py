"""Handlers of the commands that search."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.vocabulary.commands.search import Search, SearchLogs
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.search_results import LogSearchResult, SearchResult


async def search(context: Context, command: Search) -> SearchResult:
    raise Failed("not built yet")


async def search_logs(context: Context, command: SearchLogs) -> LogSearchResult:
    raise Failed("not built yet")
