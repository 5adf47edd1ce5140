"""How commands, answers and events are written on the wire: one JSON object a line."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import Failed, HoldfastError, UsageError
from holdfast.vocabulary.events import Event
from holdfast.vocabulary.names import closest

AnswerT = TypeVar("AnswerT", bound=Result, covariant=True)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(value: Any) -> bytes:
    """Encode a value as JSON. Bytes in names of files that are not UTF-8 become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # The hook is for parts that are JSON already.
        plain = msgspec.to_builtins(value, enc_hook=msgspec.json.decode)
        return _encoder.encode(_as_text(plain))


def _as_text(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_as_text(name): _as_text(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_as_text(inner) for inner in value]
    return value


def decode_frame(line: bytes) -> dict[str, Any]:
    """Decode a request; raise UsageError if it is not a JSON object."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if "surrogate" in str(error):
            # Clients write bytes that are not text so, in an argument or the name of a folder.
            message = "a word of the request is not UTF-8, and cannot be told"
            raise UsageError(message, "name it in UTF-8, or put it into a script") from None
        raise UsageError(
            f"not a JSON object: {error}",
            'send one object a line: {"id": 1, "command": "status"}',
        ) from None


def id_from(value: object) -> int | str | None:
    """Return the id of a request; raise UsageError if it cannot be one."""
    if value is None or isinstance(value, int | str):
        return value
    raise UsageError("an id is a number or a string", '{"id": 1, "command": "status"}')


def command_from(name: object, fields: dict[str, Any]) -> Command:
    """Return the typed command; raise UsageError that says what is wrong and which names exist."""
    if not isinstance(name, str):
        raise UsageError("which command?", '{"id": 1, "command": "status"}')
    kind = COMMANDS.get(name)
    if kind is None:
        guess = closest(name, list(COMMANDS))
        known = ", ".join(sorted(COMMANDS))
        raise UsageError(
            f'no command "{name}"' + (f'; did you mean "{guess}"?' if guess else ""),
            f"known: {known}",
        )
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        own = kind.__struct_encode_fields__
        for field in fields:
            if field not in own:
                raise UsageError.no_field(name, field, own) from None
        raise UsageError(f"{name}: {error}", f"see the reference of `{name}`") from None


def answer(request_id: object, result: Any) -> bytes:
    return encode({"id": request_id, "ok": True, "result": result}) + b"\n"


def failure(request_id: object, error: HoldfastError) -> bytes:
    return encode({"id": request_id, "ok": False, "error": error.as_fields()}) + b"\n"


def notice(request_id: object, value: Any) -> bytes:
    """Encode a message that is sent before the answer, to a caller who may have to wait."""
    return encode({"id": request_id, "notice": value}) + b"\n"


def item(request_id: object, value: Any) -> bytes:
    return encode({"id": request_id, "item": value}) + b"\n"


class Answered(Protocol[AnswerT]):
    """A command, seen as what it is answered with."""

    name: ClassVar[str]

    @property
    def answers(self) -> type[AnswerT]: ...


def fields_of(command: Command) -> dict[str, Any]:
    """The fields of a command that differ from their defaults, as they are sent. What is not said
    cannot be unknown to an older supervisor."""
    plain: dict[str, Any] = msgspec.to_builtins(command)
    for field in msgspec.structs.fields(command):
        value = getattr(command, field.name)
        if field.default_factory is not msgspec.NODEFAULT:
            is_default = value == field.default_factory()
        else:
            is_default = value == field.default
        if is_default:
            del plain[field.encode_name]
    return plain


def answer_to(command: Answered[AnswerT], result: Any) -> AnswerT:
    """The typed answer of a decoded one; raises Failed if it is not understood."""
    try:
        return msgspec.convert(result, command.answers)
    except msgspec.ValidationError as error:
        message = f"the answer to {command.name} is not understood: {error}"
        raise Failed(message, "use the version of holdfast that runs") from None


def event_from(fields: dict[str, Any]) -> Event:
    return msgspec.convert(fields, Event)
