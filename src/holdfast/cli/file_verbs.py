"""The verb about files; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

FILE_VERBS = (
    Verb(
        "files",
        "Read, list, change and undo files below the configured roots",
        "files:files",
        operands="read|ls|write|edit|patch|undo|changes [PATH]",
        least=1,
        most=2,
        options=(
            Option("--offset", "read: the first line, from 1", "LINE", "number"),
            Option("--limit", "read: so many lines; ls, changes: so many at most", "N", "number"),
            Option("-n --tail", "read: only the last lines", "N", "number"),
            Option("--depth", "ls: so many folders deep", "N", "number"),
            Option("--hidden", "ls: names that begin with a dot, too"),
            Option("--ignored", "ls: what .gitignore and .ignore name, too"),
            Option("--old", "edit: the piece to be replaced", "TEXT"),
            Option("--new", "edit: what replaces it", "TEXT"),
            Option("-a --all", "edit: everywhere, not only where it is the only one"),
            Option("--etag", "write, edit: only if the file is still the one with this", "ETAG"),
            Option("--force", "write: whatever is there; undo: also if it was changed since"),
            Option("--root", "patch: its paths are below this root, not the first", "NAME"),
            Option("--dry-run", "only show what would be done"),
        ),
        commands=(
            *("read_file", "list_files", "write_file", "edit_file"),
            *("apply_patch", "undo_files", "file_changes"),
        ),
        about=(
            "A path is relative to this folder, or ROOT:PATH. `write` takes the content from\n"
            "standard input, `patch` a unified diff. `undo` takes back the newest change, or that\n"
            "of a PATH, or a change by its id. Which folders are offered, and whether they may be\n"
            "changed, is said under `files:` in the configuration."
        ),
        examples=(
            ("holdfast files read src/app.py --offset 40 --limit 20", "twenty lines"),
            ("holdfast files ls --depth 2", "two folders deep, without what is ignored"),
            ("holdfast files edit app.py --old 'port = 1' --new 'port = 2'", "one place"),
            ("git diff | holdfast files patch", "all of its files, or none"),
            ("holdfast files undo", "take the newest change back"),
        ),
    ),
)
