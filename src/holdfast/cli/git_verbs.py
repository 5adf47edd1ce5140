"""The verbs about searching, git and checkpoints; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

GIT_VERBS = (
    Verb(
        "search",
        "Search in files, or in what services printed",
        "search:search",
        operands="PATTERN [PATH…|SERVICE…]",
        least=1,
        most=None,
        options=(
            Option("--logs", "search in the output of services instead of files"),
            Option("-g --glob", "only files like these: '*.py', '!tests/**'", "GLOB", "several"),
            Option("--type", "only files of this type: py, rust, md", "TYPE", "several"),
            Option("-l --files", "only names of files"),
            Option("--counts", "only how many lines of each file match"),
            Option("--context", "so many lines around each match", "N", "number"),
            Option("-F --literal", "the pattern is the very text"),
            Option("--case", "letters; smart by default", choices=("smart", "sensitive", "ignore")),
            Option("--hidden", "files and folders that begin with a dot, too"),
            Option("--since", "logs: only what is newer: 10m, 2h, or a time", "TIME", "when"),
            Option("--until", "logs: only what is older", "TIME", "when"),
            Option("--stream", "logs: only standard output or error", choices=("out", "err")),
            Option("-n --limit", "at most so many; 50 by default", "N", "number"),
            Option("--cursor", "go on where an answer ended", "CURSOR"),
        ),
        commands=("search", "search_logs"),
        about=(
            "A regular expression as ripgrep takes it. Ignore files are honoured, links not\n"
            "followed. Exit code 1 if nothing was found."
        ),
        examples=(
            ("holdfast search 'def \\w+_of' src -g '*.py'", "in some files of a folder"),
            ("holdfast search --files -F 'import msgspec'", "the names of files"),
            ("holdfast search --logs 'ERROR|WARN' web --since 1h", "in what a service printed"),
        ),
    ),
    Verb(
        "git",
        "Look at a git repository and change it, kept from running its hooks",
        "git:git",
        operands="OPERATION [ARGUMENT…]",
        least=1,
        most=None,
        options=(
            Option("--repository", "a folder in it; this one by default", "PATH"),
            Option("--rev", "a commit, branch or tag, or a range a..b", "REV"),
            Option("--staged", "diff, restore: the index"),
            Option("-m --message", "commit, stash, tag: what to say", "TEXT"),
            Option("--create", "switch: make the branch"),
            Option("--remote", "branches: those of remotes, too"),
            Option("--number", "stash: which one; 0 is the newest", "N", "number"),
            Option("-n --limit", "log, blame, branches: at most so many", "N", "number"),
            Option("--dry-run", "only tell what would be done"),
        ),
        commands=(
            *("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
            *("git_add", "git_commit", "git_restore", "git_switch", "git_stash", "git_tag"),
        ),
        about=(
            "OPERATION is status, diff, log, show, blame or branches; or add, commit, restore,\n"
            "switch, stash or tag. ARGUMENTs are paths; for switch and tag a name, for show a\n"
            "commit, for stash push, pop, apply, drop or list. Changes take a root that may be\n"
            "written: `files: {roots: {project: {path: ., write: true}}}`. Nothing is pushed."
        ),
        examples=(
            ("holdfast git status", "what is staged, changed, untracked"),
            ("holdfast git diff --staged src", "what would be committed of a folder"),
            ("holdfast git commit -m 'fix the port' src/app.py", "this file and nothing else"),
            ("holdfast git switch topic --create", "on a new branch"),
        ),
    ),
    Verb(
        "checkpoint",
        "Keep the files of a repository as they are, and bring them back",
        "git:checkpoint",
        operands="[create|ls|restore] [ID]",
        most=2,
        options=(
            Option("--repository", "a folder in it; this one by default", "PATH"),
            Option("-m --message", "what to remember of it", "TEXT"),
            Option("--session", "ls: only of this session", "SESSION"),
            Option("-n --limit", "ls: at most so many", "N", "number"),
            Option("--dry-run", "restore: only tell what would be changed"),
        ),
        commands=("checkpoint", "checkpoints", "restore_checkpoint"),
        about=(
            "Untracked files are kept, too; ignored ones are not. Work tree, index and branches\n"
            "stay as they are. `restore` keeps what is there in a further checkpoint first.\n"
            "Before the first change of an assistant's session one is made by itself."
        ),
        examples=(
            ("holdfast checkpoint -m 'before the rename'", "now"),
            ("holdfast checkpoint ls", "which there are"),
            ("holdfast checkpoint restore", "the newest"),
        ),
    ),
)
