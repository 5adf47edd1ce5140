"""The `holdfast` command: understands the line, imports the verb's module, tells errors.

The border where every error becomes a message and an exit code. Imports nothing that a
plain `status` does not need.
"""

from __future__ import annotations

import os
import sys

from holdfast.vocabulary.errors import Failed, HoldfastError, UsageError, exit_code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser.arguments import Arguments


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code; as the program itself, end with it."""
    if argv is None:
        _speak_utf8()
        _have_standard_streams()
        if os.getpid() == 1:
            from holdfast.cli.terminal.signals import heed_sigterm

            heed_sigterm()
    code = _main(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Taking the interpreter apart would cost a tenth of a `status`; nothing is left to do.
        sys.stderr.flush()
        os._exit(code)
    return code


def _speak_utf8() -> None:
    """Begin again where a locale has names of files in another encoding than UTF-8: all of
    Holdfast has to mean the same by them. Only what is shown stays as the locale has it."""
    if sys.getfilesystemencoding() == "utf-8" or "utf8" in sys._xoptions:
        return
    shown = getattr(sys.stdout, "encoding", None) or "utf-8"
    options = ["-X", "utf8", "-X", f"shown={shown}"]
    try:
        os.execv(sys.executable, [sys.orig_argv[0], *options, *sys.orig_argv[1:]])
    except OSError as error:
        sys.stderr.write(f"holdfast: {sys.executable}: {error.strerror}; a UTF-8 locale helps\n")
        os._exit(Failed.exit_code)


def _have_standard_streams() -> None:
    """Put `/dev/null` where the caller closed a stream (`>&-`): no socket may take its number."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if getattr(sys, name) is None:
                os.open(os.devnull, os.O_RDWR)
                setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    shown = sys._xoptions.get("shown")
    for stream in (sys.stdout, sys.stderr):
        # In an old locale, an arrow that cannot be written is a question mark.
        if shown or stream.encoding != "utf-8":
            stream.reconfigure(encoding=shown, errors="replace")  # type: ignore[union-attr]


def _main(words: list[str]) -> int:
    try:
        return _answer(words)
    except BrokenPipeError:
        # The reader has seen enough (`| head`); nothing may be said at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt as interrupt:
        number: int = interrupt.args[0] if interrupt.args else 2
        return 128 + number
    except OSError as error:
        # It is the answer that cannot be written: the disk is full, say.
        sys.stderr.write(f"holdfast: {error}\n")
        return exit_code_of(Failed.code)


def _answer(words: list[str]) -> int:
    try:
        code = _run(words)
        sys.stdout.flush()
    except HoldfastError as error:
        return _tell(error, is_json="--json" in _own(words))
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        failure = Failed(what, "`holdfast doctor` checks this host")
        return _tell(failure, is_json="--json" in _own(words))
    return code


def _own(words: list[str]) -> list[str]:
    """The words that are ours, not those of a command to run."""
    return words[: words.index("--")] if "--" in words else words


def _run(words: list[str]) -> int:
    if words and words[0] == "__complete":
        from holdfast.cli.parser.completion import complete

        return complete(words[1:])
    if words and words[0] == "mcp" and sys.platform != "win32":
        from holdfast.cli.mcp.verb import quick

        if (code := quick(words[1:], os.environ)) is not None:
            return code
    from holdfast.cli.parser.arguments import parse

    arguments = parse(words)
    verb = arguments.verb
    if arguments.options.get("help"):
        from holdfast.cli.parser.help import show_help

        return show_help(verb)
    if arguments.options.get("version"):
        from holdfast import __version__

        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    if sys.platform == "win32":
        raise UsageError(
            "Holdfast cannot supervise processes on Windows: it needs Unix sockets, process "
            "groups and terminals (PTYs)",
            "run it inside WSL, or on Linux or macOS",
        )
    return _dispatch(arguments)


def _dispatch(arguments: Arguments) -> int:
    from holdfast.cli.call import Call

    call = Call(arguments, os.environ)
    if not os.path.isdir(call.folder):
        raise UsageError(f"-C {arguments.options['C']}: no such folder")
    if arguments.verb is not None:
        place = arguments.verb.place
    elif arguments.operands:
        raise UsageError(
            f"say what to do with {arguments.operands[0]}",
            f"holdfast run -- {' '.join(arguments.operands)}",
        )
    elif call.places.config or os.environ.get("SUPERVISOR_TARGET_CMD"):
        place = "up:up"
    else:
        from holdfast.cli.parser.help import show_help

        return show_help(None)
    module_name, function = place.split(":")
    module = __import__(f"holdfast.cli.{module_name}", fromlist=[function])
    try:
        code: int = getattr(module, function)(call)
    finally:
        call.close()
    return code


def _tell(error: HoldfastError, *, is_json: bool) -> int:
    from holdfast.vocabulary.printable import json_text, printable_lines

    code = exit_code_of(error.code)
    if is_json:
        import json

        fields = {**error.as_fields(), "exit_code": code}
        sys.stdout.write(json_text(json.dumps({"error": fields}, ensure_ascii=False)) + "\n")
        sys.stdout.flush()
        return code
    sys.stdout.flush()
    sys.stderr.write(f"holdfast: {printable_lines(error.message)}\n")
    if error.hint:
        sys.stderr.write(f"  {printable_lines(error.hint)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
