"""A repository runs nothing: each way in which git runs programs of a repository is set up for
real, shown to work with plain git where that is quick, and shown not to work through us."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError, Refused
from holdfast.vocabulary.specs.git import GitSpec
from tests.git.desk import Desk

HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout"),
    *("post-index-change", "reference-transaction", "pre-auto-gc", "post-merge", "post-rewrite"),
    *("pre-applypatch", "applypatch-msg", "fsmonitor-watchman", "sendemail-validate"),
)


class Hostile:
    """A repository with a script that leaves a mark if anybody runs it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.desk = Desk(folder, **options)
        self.marker = folder / "marker"
        self.script = folder / "script.sh"
        self.script.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.marker}'\ncat\nexit 0\n")
        self.script.chmod(0o755)
        self.project = self.desk.repository(**{"a.txt": "one\n", "b.txt": "two\n"})

    def config(self, *words: str) -> None:
        self.desk.run_git("config", *words)

    def attributes(self, text: str) -> None:
        self.desk.write(".gitattributes", text)
        (self.project / ".git/info").mkdir(exist_ok=True)
        (self.project / ".git/info/attributes").write_text(text)

    def sweep(self) -> None:
        """Every command, each with something to do."""
        desk = self.desk

        def ask(name: str, **fields: Any) -> Any:
            try:
                return desk.ask(name, **fields)
            except HoldfastError as error:
                return error

        desk.write("a.txt", "one\nmore\n")
        desk.write("new.txt", "new\n")
        ask("git_status")
        ask("git_diff")
        ask("git_diff", rev="HEAD")
        ask("git_log")
        ask("git_show")
        ask("git_blame", path="a.txt")
        ask("git_branches", remote=True)
        ask("checkpoint")
        ask("git_add", paths=["new.txt"])
        ask("git_commit", message="by us", paths=["new.txt"])
        ask("git_stash")
        desk.write("a.txt", "one\nother\n")
        ask("git_commit", message="other", paths=["a.txt"])
        ask("git_stash", action="pop")
        ask("git_restore", paths=["."], rev="HEAD~1")
        ask("git_switch", branch="topic", create=True)
        ask("git_tag", tag="v1", message="a tag")
        ask("git_switch", rev="HEAD~1")
        ask("restore_checkpoint")
        ask("git_status")

    def assert_nothing_ran(self) -> None:
        assert not self.marker.exists(), self.marker.read_text()

    def forget(self) -> None:
        self.marker.unlink(missing_ok=True)


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


def plain(hostile: Hostile, *words: str) -> None:
    """Git as anybody would run it; it may fail, but the program was run."""
    env = {"PATH": os.environ["PATH"], "HOME": str(hostile.desk.home), "GIT_PAGER": "cat"}
    subprocess.run(
        ["git", *words], cwd=hostile.project, env=env, capture_output=True, check=False, timeout=60
    )


def show_it_works(hostile: Hostile, *words: str) -> None:
    plain(hostile, *words)
    assert hostile.marker.exists(), "this attack would not work anyway"
    hostile.forget()


def test_hooks_are_not_run(hostile: Hostile) -> None:
    """Neither those in the usual place nor those of core.hooksPath."""
    for name in HOOKS:
        (hostile.project / ".git/hooks").mkdir(exist_ok=True)
        (hostile.project / ".git/hooks" / name).symlink_to(hostile.script)
    # Links out of the roots are refused outright; so they are files.
    for name in HOOKS:
        path = hostile.project / ".git/hooks" / name
        path.unlink()
        path.write_text(hostile.script.read_text())
        path.chmod(0o755)
    show_it_works(hostile, "commit", "--allow-empty", "-m", "x")
    hostile.sweep()
    hostile.assert_nothing_ran()
    hostile.config("core.hooksPath", str(hostile.project / ".git/hooks"))
    hostile.sweep()
    hostile.assert_nothing_ran()


def test_hooks_are_run_if_allowed(tmp_path: Path) -> None:
    """`git: {allow_hooks: true}` lets them, and nothing else."""
    hostile = Hostile(tmp_path, git=GitSpec(allow_hooks=True))
    path = hostile.project / ".git/hooks/pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(hostile.script.read_text())
    path.chmod(0o755)
    hostile.desk.write("a.txt", "x\n")
    hostile.desk.ask("git_commit", message="m", paths=["a.txt"])
    assert hostile.marker.exists()


def test_config_hooks_of_newer_gits_are_off(hostile: Hostile) -> None:
    """`hook.NAME.command` is switched off by name."""
    hostile.config("hook.mine.command", str(hostile.script))
    hostile.config("hook.mine.event", "pre-commit")
    hostile.sweep()
    hostile.assert_nothing_ran()
    env = hostile.desk.tasks.ran[-1].env
    given = {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"]
             for n in range(int(env["GIT_CONFIG_COUNT"]))}  # fmt: skip
    assert given["hook.mine.enabled"] == "false"


@pytest.mark.parametrize("name", ["x", "a=b.c", "x y", "Ü"])
@pytest.mark.parametrize("key", ["clean", "smudge", "process"])
def test_filters_are_not_run(hostile: Hostile, name: str, key: str) -> None:
    """Whatever they are called; required ones do not make git fail either."""
    with (hostile.project / ".git/config").open("a") as file:
        file.write(f'[filter "{name}"]\n\t{key} = {hostile.script}\n\trequired = true\n')
    hostile.attributes(f"*.txt filter={name}\n" if " " not in name else "*.txt filter=x\n")
    hostile.sweep()
    hostile.assert_nothing_ran()
    assert hostile.desk.ask("git_status").branch is not None


def test_a_filter_would_have_run(hostile: Hostile) -> None:
    """The filters of the test above are real ones."""
    hostile.config("filter.x.clean", str(hostile.script))
    hostile.attributes("*.txt filter=x\n")
    hostile.desk.write("a.txt", "changed\n")
    show_it_works(hostile, "add", "a.txt")
    result = hostile.desk.ask("git_add", paths=["a.txt"])
    assert "filters of the repository are not run (x)" in result.notes[0]


def test_filters_of_worktree_config_and_includes_are_not_run(hostile: Hostile) -> None:
    """Wherever the configuration stands that git would read."""
    included = hostile.project / ".git/more"
    included.write_text(f'[filter "y"]\n\tclean = {hostile.script}\n')
    hostile.config("include.path", "more")
    hostile.config("extensions.worktreeConfig", "true")
    (hostile.project / ".git/config.worktree").write_text(
        f'[filter "z"]\n\tclean = {hostile.script}\n[core]\n\tfsmonitor = {hostile.script}\n'
    )
    hostile.attributes("a.txt filter=y\nnew.txt filter=z\n")
    show_it_works(hostile, "status")
    hostile.sweep()
    hostile.assert_nothing_ran()
    # What is included later is found, though the repository's own file is as before.
    included.write_text(f'[filter "other"]\n\tclean = {hostile.script}\n')
    hostile.attributes("*.txt filter=other\n")
    hostile.sweep()
    hostile.assert_nothing_ran()


def test_includes_that_depend_on_the_branch_are_refused(hostile: Hostile) -> None:
    """What git would read changes while it works: nobody can tell what to switch off."""
    hostile.config("includeIf.onbranch:topic.path", "more")
    with pytest.raises(Refused, match="depends on its branch"):
        hostile.desk.ask("git_status")


def test_drivers_of_diff_are_not_run(hostile: Hostile) -> None:
    """External diff, textconv and diff.external."""
    hostile.config("diff.x.command", str(hostile.script))
    hostile.config("diff.y.textconv", str(hostile.script))
    hostile.attributes("a.txt diff=x\nb.txt diff=y\n")
    hostile.desk.write("a.txt", "changed\n")
    show_it_works(hostile, "diff")
    hostile.desk.write("b.txt", "changed\n")
    hostile.sweep()
    hostile.config("diff.external", str(hostile.script))
    show_it_works(hostile, "diff", "HEAD~1")
    hostile.sweep()
    hostile.assert_nothing_ran()


def test_merge_drivers_are_not_run(hostile: Hostile) -> None:
    """A stash that is brought back is merged as text, whatever driver is configured."""
    hostile.config("merge.x.driver", f"{hostile.script} %O %A %B")
    hostile.attributes("*.txt merge=x\n")
    desk = hostile.desk
    desk.write("a.txt", "stashed\n")
    desk.ask("git_stash", paths=["a.txt"])
    desk.write("a.txt", "committed\n")
    desk.ask("git_commit", message="m", paths=["a.txt"])
    result = desk.ask("git_stash", action="pop")
    hostile.assert_nothing_ran()
    assert [(one.path, one.kind) for one in result.conflicts] == [("a.txt", "both modified")]
    assert "<<<<<<<" in desk.read("a.txt")
    assert "stashed" in desk.read("a.txt")
    assert "committed" in desk.read("a.txt")


def test_signers_are_not_run(hostile: Hostile) -> None:
    """Neither to sign nor to look at signatures."""
    for key in ("commit.gpgSign", "tag.gpgSign", "tag.forceSignAnnotated", "log.showSignature"):
        hostile.config(key, "true")
    for key in ("gpg.program", "gpg.ssh.program", "gpg.x509.program", "gpg.openpgp.program"):
        hostile.config(key, str(hostile.script))
    hostile.config("gpg.ssh.defaultKeyCommand", str(hostile.script))
    show_it_works(hostile, "commit", "--allow-empty", "-m", "x")
    for form in ("openpgp", "ssh", "x509"):
        hostile.config("gpg.format", form)
        hostile.sweep()
    hostile.assert_nothing_ran()


def test_nothing_is_fetched(hostile: Hostile) -> None:
    """A missing object of a partial clone starts no transport, not even one that is allowed."""
    hostile.script.write_text(hostile.script.read_text().replace("cat\n", ""))
    hostile.config("core.repositoryFormatVersion", "1")
    hostile.config("extensions.partialClone", "origin")
    hostile.config("remote.origin.promisor", "true")
    hostile.config("remote.origin.url", f"ext::{hostile.script} %S")
    hostile.config("remote.origin.uploadpack", str(hostile.script))
    hostile.config("protocol.ext.allow", "always")
    hostile.config("protocol.allow", "always")
    hostile.config("core.sshCommand", str(hostile.script))
    hostile.config("credential.helper", str(hostile.script))
    hostile.config("core.askPass", str(hostile.script))
    blob = hostile.desk.run_git("rev-parse", "HEAD:a.txt").strip()
    os.unlink(hostile.project / ".git/objects" / blob[:2] / blob[2:])
    show_it_works(hostile, "show", "HEAD")
    hostile.sweep()
    hostile.config("remote.origin.url", "ssh://host.invalid/repository")
    hostile.sweep()
    hostile.assert_nothing_ran()


def test_helpers_of_other_kinds_are_not_run(hostile: Hostile) -> None:
    """Monitors, pagers, editors, aliases, trailers, proxies, alternate refs."""
    script = str(hostile.script)
    hostile.config("core.fsmonitor", script)
    show_it_works(hostile, "status")
    for key in (
        *("core.pager", "pager.status", "pager.log", "core.editor", "sequence.editor"),
        *("core.gitProxy", "core.alternateRefsCommand", "interactive.diffFilter"),
        *("trailer.sign.command", "trailer.sign.cmd", "man.viewer", "web.browser"),
        *(
            "uploadpack.packObjectsHook",
            "difftool.x.cmd",
            "mergetool.x.cmd",
            "sendemail.smtpServer",
        ),
    ):
        hostile.config(key, script)
    for word in ("status", "diff", "log", "commit", "add", "show", "config", "stash", "switch"):
        hostile.config(f"alias.{word}", f"!{script}")
    hostile.sweep()
    hostile.assert_nothing_ran()


def test_submodules_are_not_entered(hostile: Hostile, tmp_path: Path) -> None:
    """Their own configuration runs nothing, and they are not updated."""
    other = tmp_path / "other"
    other.mkdir()
    hostile.desk.run_git("init", "-q", cwd=other)
    (other / "file").write_text("x\n")
    hostile.desk.run_git("add", "-A", cwd=other)
    hostile.desk.run_git("commit", "-qm", "x", cwd=other)
    hostile.desk.run_git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub"
    )
    hostile.desk.run_git("commit", "-qm", "with a submodule")
    hostile.config("submodule.sub.update", f"!{hostile.script}")
    hostile.config("submodule.recurse", "true")
    hostile.config("diff.submodule", "log")
    hostile.config("status.submoduleSummary", "true")
    hostile.desk.run_git(
        "config", "core.fsmonitor", str(hostile.script), cwd=hostile.project / "sub"
    )
    hostile.desk.run_git(
        "config", "filter.x.clean", str(hostile.script), cwd=hostile.project / "sub"
    )
    (hostile.project / "sub/.gitattributes").write_text("* filter=x\n")
    (hostile.project / "sub/file").write_text("changed\n")
    show_it_works(hostile, "status")
    hostile.sweep()
    hostile.assert_nothing_ran()


def test_the_environment_leads_nowhere(tmp_path: Path) -> None:
    """Variables of who started Holdfast do not reach git."""
    hostile = Hostile(tmp_path)
    script = str(hostile.script)
    elsewhere = tmp_path / "elsewhere"
    environ = {
        "PATH": f".:{os.environ['PATH']}",
        "HOME": str(hostile.desk.home),
        "GIT_DIR": str(elsewhere),
        "GIT_WORK_TREE": "/etc",
        "GIT_EXTERNAL_DIFF": script,
        "GIT_SSH": script,
        "GIT_SSH_COMMAND": script,
        "GIT_PAGER": script,
        "GIT_EDITOR": script,
        "GIT_ASKPASS": script,
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={script}'",
        "GIT_TRACE": str(tmp_path / "trace"),
        "LD_PRELOAD": "/nonexistent.so",
    }
    hostile.desk.git._environ = lambda: environ
    for name in ("git", "sh", "cat"):
        (hostile.project / name).write_text(hostile.script.read_text())
        (hostile.project / name).chmod(0o755)
    hostile.sweep()
    hostile.assert_nothing_ran()
    assert not (tmp_path / "trace").exists()


def test_a_work_tree_is_where_it_lies(hostile: Hostile, tmp_path: Path) -> None:
    """core.worktree does not lead git to other files."""
    other = tmp_path / "outside"
    other.mkdir()
    (other / "a.txt").write_text("secret\n")
    hostile.config("core.worktree", str(other))
    assert hostile.desk.ask("git_status").clean
    assert "secret" not in hostile.desk.ask("git_diff").text


@pytest.mark.parametrize(
    "kind",
    ["file", "link", "common", "alternates", "packed-refs", "objects", "refs", "HEAD", "include"],
)
def test_data_outside_the_roots_are_refused(tmp_path: Path, kind: str) -> None:
    """A repository whose data lie elsewhere would tell of files that nobody offered."""
    hostile = Hostile(tmp_path)
    outside = tmp_path / "outside"
    os.rename(hostile.project / ".git", outside)
    inner = hostile.project / ".git"
    if kind == "file":
        inner.write_text(f"gitdir: {outside}\n")
    elif kind == "link":
        inner.symlink_to(outside)
    else:
        hostile.desk.run_git("init", "-q")
        if kind == "common":
            (inner / "commondir").write_text(f"{outside}\n")
        elif kind == "alternates":
            (inner / "objects/info/alternates").write_text(f"{outside}/objects\n")
        elif kind == "include":
            hostile.desk.run_git("config", "include.path", str(outside / "config"))
        elif kind == "packed-refs":
            (inner / "packed-refs").symlink_to("/etc/passwd")
        else:
            os.rename(inner / kind, inner / f"{kind}.old")
            (inner / kind).symlink_to(outside / kind)
    with pytest.raises(Refused, match="below no root"):
        hostile.desk.ask("git_status")
    if kind in ("file", "link"):
        allowed = Desk(tmp_path, git=GitSpec(allow_outside=True))
        assert allowed.ask("git_status").branch == "main"


@pytest.mark.parametrize("kind", ["packed-refs", "include", "info/grafts"])
def test_data_that_are_a_denied_file_are_refused(tmp_path: Path, kind: str) -> None:
    """Git quotes what it does not understand, and takes names of people from what it includes."""
    hostile = Hostile(tmp_path)
    hostile.desk.write(".env", "[user]\n\tname = hunter2\n")
    if kind == "include":
        hostile.config("include.path", "../.env")
    else:
        (hostile.project / ".git/info").mkdir(exist_ok=True)
        (hostile.project / ".git" / kind).symlink_to(hostile.project / ".env")
    for name in ("git_status", "git_log", "git_branches"):
        with pytest.raises(Refused, match="which is denied") as caught:
            hostile.desk.ask(name)
        assert "hunter2" not in str(caught.value)


def test_includes_below_a_root_are_read(tmp_path: Path) -> None:
    """As git reads them; they are no reason to refuse a repository."""
    hostile = Hostile(tmp_path)
    hostile.desk.write("shared.gitconfig", "[user]\n\tname = Bea\n")
    hostile.config("--unset", "user.name")
    hostile.config("include.path", "../shared.gitconfig")
    hostile.desk.write("a.txt", "two\n")
    hostile.desk.ask("git_commit", message="m", paths=["a.txt"])
    assert hostile.desk.run_git("log", "-1", "--format=%an").strip() == "Bea"


def test_a_repository_above_the_root_is_not_found(tmp_path: Path) -> None:
    """Discovery ends at the root."""
    desk = Desk(tmp_path)
    desk.repository()
    (desk.project / "sub").mkdir()
    inner = Desk(tmp_path, sub=str(desk.project / "sub"))
    with pytest.raises(HoldfastError, match="in no git repository"):
        inner.ask("git_status")


def test_who_owns_a_repository_matters_if_it_may_run_programs(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another user's hooks are never run."""
    desk = Desk(tmp_path, git=GitSpec(allow_hooks=True))
    real = os.fstat

    def fake(descriptor: int) -> os.stat_result:
        values = list(real(descriptor))
        values[stat.ST_UID] = 4242
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", fake)
    with pytest.raises(Refused, match="another user"):
        desk.ask("git_branches")


def test_a_name_may_be_empty(tmp_path: Path) -> None:
    """Of a filter, a driver, a textconv: git takes it, so it is overridden, too."""
    hostile = Hostile(tmp_path)
    config = hostile.project / ".git/config"
    script = hostile.script
    text = f'[filter ""]\n\tclean = {script}\n\tsmudge = {script}\n\tprocess = {script}\n'
    config.write_text(f'{config.read_text()}{text}[merge ""]\n\tdriver = {script}\n')
    hostile.attributes("* filter= merge=\n")
    hostile.sweep()
    assert not hostile.marker.exists()
    hostile.desk.write("a.txt", "plain\n")
    hostile.desk.run_git("add", "a.txt")
    assert hostile.marker.exists()  # it would have


def test_a_configuration_that_changes_meanwhile(tmp_path: Path) -> None:
    """A repository that was found before is looked at anew before git is run in it."""
    hostile = Hostile(tmp_path)
    hostile.attributes("* filter=later\n")
    desk = hostile.desk

    async def story() -> None:
        roots = desk.files.roots
        async with desk.git.opened(roots.locate("."), roots) as found:
            await desk.git.check(found, "status")
            hostile.config("filter.later.clean", str(hostile.script))
            desk.write("a.txt", "another\n")
            await desk.git.check(found, "add", "--", "a.txt")

    asyncio.run(story())
    assert not hostile.marker.exists()


def test_names_that_are_no_text_and_far_too_many(tmp_path: Path) -> None:
    """The first are overridden and told, the others refused."""
    hostile = Hostile(tmp_path)
    config = hostile.project / ".git/config"
    plain = config.read_bytes()
    config.write_bytes(plain + b'[filter "a\xffb"]\n\tclean = %b\n' % bytes(hostile.script))
    (hostile.project / ".gitattributes").write_bytes(b"* filter=a\xffb\n")
    hostile.desk.write("a.txt", "another\n")
    added = hostile.desk.ask("git_add", paths=["a.txt"])
    assert "(a\ufffdb)" in added.notes[0]
    assert not hostile.marker.exists()
    many = "".join(f'[filter "f{number}"]\n\tclean = x\n' for number in range(1000))
    config.write_bytes(plain + many.encode())
    with pytest.raises(Refused, match="too many"):
        hostile.desk.ask("git_status")


def test_no_line_of_another_file_is_told(tmp_path: Path) -> None:
    """Git quotes what it does not understand, from whatever file it is told to read."""
    hostile = Hostile(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("hunter2 and so on\n")
    hostile.config("blame.ignoreRevsFile", str(secret))
    hostile.config("core.attributesFile", str(secret))
    with pytest.raises(HoldfastError) as caught:
        hostile.desk.ask("git_blame", path="a.txt")
    assert "hunter2" not in str(caught.value) + caught.value.hint
