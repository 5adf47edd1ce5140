"""JSON-RPC over lines, as ACP and Codex speak it: what both dialects share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.adapters.backends.adapter import AgentWord, Heard
from holdfast.adapters.backends.lines import Facts, as_dict, parse, raw, word, write
from holdfast.vocabulary.agents import AgentEventKind

NO_SUCH_METHOD = -32601


class Rpc:
    """One side of a conversation in JSON-RPC. `head` is in every message that is written."""

    def __init__(self, head: Facts) -> None:
        self._head = head

    def request(self, identity: str, method: str, **params: Any) -> bytes:
        return write({**self._head, "id": identity, "method": method, "params": params})

    def notify(self, method: str, **params: Any) -> bytes:
        return write({**self._head, "method": method, "params": params})

    def answer(self, identity: Any, result: Any) -> bytes:
        return write({**self._head, "id": identity, "result": result})

    def refuse(self, identity: Any, message: str) -> bytes:
        error = {"code": NO_SUCH_METHOD, "message": message}
        return write({**self._head, "id": identity, "error": error})

    def hear(
        self,
        stream: str,
        line: bytes,
        *,
        asked: Callable[[Any, str, Facts], Heard | None],
        told: Callable[[str, Facts], Heard | None],
        answered: Callable[[str, Facts, Facts | None], Heard | None],
    ) -> Heard:
        """Understand a line: a request (`asked`), a notification (`told`) or an answer."""
        facts = parse(line) if stream == "out" else None
        if facts is None:
            return Heard([raw(line, stream)] if line.strip() else [])
        method, params = facts.get("method"), as_dict(facts.get("params"))
        heard: Heard | None = None
        try:
            if isinstance(method, str) and "id" in facts:
                heard = asked(facts["id"], method, params)
                if heard is None:
                    no = self.refuse(facts["id"], f"{method} is not supported")
                    heard = Heard([raw(line)], no)
            elif isinstance(method, str):
                heard = told(method, params)
            elif "id" in facts:
                error = facts.get("error")
                result = as_dict(facts.get("result"))
                heard = answered(str(facts["id"]), result, as_dict(error) if error else None)
        except (TypeError, ValueError, KeyError, AttributeError):
            heard = None
        return heard if heard is not None else Heard([raw(line)])


def only(*words: AgentWord) -> Heard:
    return Heard(list(words))


def final(text: str) -> Heard:
    """The conversation cannot be begun: the run is ended with this reason."""
    return only(word(AgentEventKind.WARNING, text=text, is_final=True))
