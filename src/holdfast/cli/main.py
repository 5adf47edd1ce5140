"""The `holdfast` command: reads the line, runs the verb, reports errors.

Here every error becomes a message and an exit code. Imports nothing that a plain `status` does
not need.
"""

from __future__ import annotations

import os
import sys

from holdfast.vocabulary.errors import Failed, HoldfastError, UsageError, exit_code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser.arguments import ParsedArguments


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code. Without `argv` it is the program itself and
    exits."""
    if argv is None:
        _restart_in_utf8()
        _open_missing_streams()
        if os.getpid() == 1:
            from holdfast.cli.terminal.signals import treat_sigterm_as_interrupt

            treat_sigterm_as_interrupt()
    code = _exit_code_of(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Nothing is left to do, and a regular exit of the interpreter costs a tenth of a `status`.
        sys.stderr.flush()
        os._exit(code)
    return code


def _restart_in_utf8() -> None:
    """Start again in UTF-8 mode if the locale has another encoding for names of files: every
    process of Holdfast must read a name in the same way. Only what is shown keeps the encoding of
    the locale."""
    if sys.getfilesystemencoding() == "utf-8" or "utf8" in sys._xoptions:
        return
    shown = getattr(sys.stdout, "encoding", None) or "utf-8"
    options = ["-X", "utf8", "-X", f"shown={shown}"]
    try:
        os.execv(sys.executable, [sys.orig_argv[0], *options, *sys.orig_argv[1:]])
    except OSError as error:
        sys.stderr.write(f"holdfast: {sys.executable}: {error.strerror}; a UTF-8 locale helps\n")
        os._exit(Failed.exit_code)


def _open_missing_streams() -> None:
    """Open `/dev/null` where the caller closed a stream (`>&-`), so that no socket gets its
    number."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if getattr(sys, name) is None:
                os.open(os.devnull, os.O_RDWR)
                setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    shown = sys._xoptions.get("shown")
    for stream in (sys.stdout, sys.stderr):
        # In an old locale, a character that cannot be encoded becomes a question mark.
        if shown or stream.encoding != "utf-8":
            stream.reconfigure(encoding=shown, errors="replace")  # type: ignore[union-attr]


def _exit_code_of(words: list[str]) -> int:
    try:
        return _run_and_report(words)
    except BrokenPipeError:
        # The reader has left (`| head`). Python's own flush at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt as interrupt:
        number: int = interrupt.args[0] if interrupt.args else 2
        return 128 + number
    except OSError as error:
        # The answer itself cannot be written, because the disk is full for example.
        sys.stderr.write(f"holdfast: {error}\n")
        return exit_code_of(Failed.code)


def _run_and_report(words: list[str]) -> int:
    try:
        code = _run(words)
        sys.stdout.flush()
    except HoldfastError as error:
        return _report(error, is_json="--json" in _own_words(words))
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        failure = Failed(what, "`holdfast doctor` checks this host")
        return _report(failure, is_json="--json" in _own_words(words))
    return code


def _own_words(words: list[str]) -> list[str]:
    """The words for Holdfast, without those of a command to run."""
    return words[: words.index("--")] if "--" in words else words


def _run(words: list[str]) -> int:
    if words and words[0] == "__complete":
        from holdfast.cli.parser.completion import complete

        return complete(words[1:])
    if words and words[0] == "mcp" and sys.platform != "win32":
        from holdfast.cli.mcp.verb import relay_quickly

        if (code := relay_quickly(words[1:], os.environ)) is not None:
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
    if (code := _run_elsewhere(arguments, words)) is not None:
        return code
    if sys.platform == "win32":
        raise UsageError(
            "Holdfast cannot supervise processes on Windows: it needs Unix sockets, process "
            "groups and terminals (PTYs)",
            "run it inside WSL, or on Linux or macOS",
        )
    return _dispatch(arguments)


def _run_elsewhere(arguments: ParsedArguments, words: list[str]) -> int | None:
    """Run the line on the machine that is meant; None if that is this one."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    given = arguments.options.get("host") or os.environ.get("HOLDFAST_HOST")
    if not given and not os.path.exists(os.path.join(config, "holdfast", "contexts.json")):
        return None
    from holdfast.cli.remote import LOCAL_VERBS, host_of, run_there

    if arguments.verb is not None and arguments.verb.name in LOCAL_VERBS:
        return None
    host = host_of(given, os.environ)
    return None if host is None else run_there(host, words)


def _dispatch(arguments: ParsedArguments) -> int:
    from holdfast.cli.call import Call

    call = Call(arguments, os.environ)
    if not os.path.isdir(call.folder):
        raise UsageError(f"-C {arguments.options['C']}: no such folder")
    verb = arguments.verb
    if verb is None and arguments.operands:
        raise UsageError(
            f"say what to do with {arguments.operands[0]}",
            f"holdfast run -- {' '.join(arguments.operands)}",
        )
    if verb is None and (call.places.config or os.environ.get("SUPERVISOR_TARGET_CMD")):
        from holdfast.cli.parser.verbs import verb_of

        verb = verb_of("up")
    if verb is None:
        from holdfast.cli.parser.help import show_help

        return show_help(None)
    try:
        return verb.run(call)
    finally:
        call.close()


def _report(error: HoldfastError, *, is_json: bool) -> int:
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
