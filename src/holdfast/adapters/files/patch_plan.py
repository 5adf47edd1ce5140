"""What a patch makes of the files that it names. Finds every reason why it does not fit."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.adapters.files.changer import Changer, WantedFile
from holdfast.adapters.files.reading import etag_of
from holdfast.adapters.files.replacement import FileSnapshot
from holdfast.adapters.files.roots import Roots
from holdfast.rules.authority.path_scopes import shown
from holdfast.rules.files import LocatedPath, locate
from holdfast.rules.text import encoding, patching
from holdfast.rules.text.unified_diff import FilePatch, parse
from holdfast.vocabulary.errors import Conflict, HoldfastError, Refused
from holdfast.vocabulary.files import PatchedFile

MOST_REASONS = 20
MOST_BYTES = 128 * 1024 * 1024
"""So much may all files of a patch hold together: they are in memory until all are replaced."""


class PatchPlan(NamedTuple):
    """The files to change, and the answer about them."""

    wanted: list[WantedFile]
    files: list[PatchedFile]


class _Reject(Exception):
    """Why one file cannot be patched."""

    def __init__(self, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.more = more


class PatchPlanner:
    """Plans one patch."""

    def __init__(self, roots: Roots, changer: Changer, root: str | None) -> None:
        self._roots = roots
        self._changer = changer
        self._root = root or roots.roots[0].name
        self._used: set[str] = set()
        self._effort = patching.Effort()

    def plan(self, patch: str) -> PatchPlan:
        """Return the plan; raises Conflict with all reasons if any part does not fit."""
        planned = PatchPlan([], [])
        rejects: list[dict[str, Any]] = []
        size = 0
        for one in parse(patch):
            path = shown((one.new if one.new is not None else one.old) or "")
            try:
                wanted, told = self._file(one)
                planned.wanted.extend(wanted)
                planned.files.append(told)
                size += sum(_held(one) for one in wanted)
            except _Reject as reject:
                rejects.append({"path": path, "reason": str(reject), **reject.more})
            except HoldfastError as error:
                rejects.append({"path": path, "reason": error.message})
            if len(rejects) == MOST_REASONS:
                break
            if size > MOST_BYTES:
                most = MOST_BYTES // 1024**2
                raise Refused(
                    f"the files of this patch hold more than {most} MiB, before and after",
                    "send it in parts",
                )
        if rejects:
            lines = [f"{one['path']}: {one['reason']}" for one in rejects]
            lines += ["… what comes behind was not tried"] if len(rejects) == MOST_REASONS else []
            raise Conflict(
                "the patch does not fit, and nothing was changed:\n" + "\n".join(lines),
                "read the files again and make the patch anew",
                {"rejects": rejects},
            )
        return planned

    def _file(self, one: FilePatch) -> tuple[list[WantedFile], PatchedFile]:
        if one.old is None:
            return self._created(one)
        source, seen = self._existing(one.old)
        if one.new is None:
            return self._deleted(one, source, seen)
        target = source if one.new == one.old else self._claimed(one.new)
        if not one.hunks and one.executable is None and target is source:
            raise _Reject("the patch changes nothing of it")
        data, offset = self._patched(one, seen.data)
        facts: dict[str, Any] = {**_counts(one), "offset": offset, **_sizes(data, seen)}
        if target is source:
            wanted = [WantedFile(source, seen, data, executable=one.executable)]
            return wanted, PatchedFile(path=self._roots.told(source), outcome="changed", **facts)
        if self._changer.see(self._roots, target) is not None:
            raise _Reject("there is a file of this name already")
        made = WantedFile(target, None, data, like=seen.state, executable=one.executable)
        wanted = [made] if one.is_copy else [WantedFile(source, seen, None), made]
        told = PatchedFile(
            path=self._roots.told(target),
            outcome="copied" if one.is_copy else "renamed",
            previous_path=self._roots.told(source),
            **facts,
        )
        return wanted, told

    def _created(self, one: FilePatch) -> tuple[list[WantedFile], PatchedFile]:
        assert one.new is not None
        target = self._claimed(one.new)
        if self._changer.see(self._roots, target) is not None:
            raise _Reject("it is to be made, but there is a file of this name already")
        data, _ = self._patched(one, b"")
        told = PatchedFile(
            path=self._roots.told(target), outcome="created", **_counts(one), **_sizes(data, None)
        )
        return [WantedFile(target, None, data, executable=one.executable or None)], told

    def _deleted(
        self, one: FilePatch, source: LocatedPath, seen: FileSnapshot
    ) -> tuple[list[WantedFile], PatchedFile]:
        data, _ = self._patched(one, seen.data)
        if encoding.decode(data)[0]:
            raise _Reject("it is to be deleted, but has more lines than the patch removes")
        told = PatchedFile(
            path=self._roots.told(source),
            outcome="deleted",
            **_counts(one),
            etag_before=etag_of(seen.data),
        )
        return [WantedFile(source, seen, None)], told

    def _existing(self, path: str) -> tuple[LocatedPath, FileSnapshot]:
        located = self._claimed(path)
        seen = self._changer.see(self._roots, located)
        if seen is None:
            raise _Reject("there is no such file")
        return located, seen

    def _claimed(self, path: str) -> LocatedPath:
        located = locate(self._roots.roots, path, self._root)
        self._roots.admit_change(located)
        if located.relative in self._used:
            raise _Reject("the patch names it twice")
        self._used.add(located.relative)
        return located

    def _patched(self, one: FilePatch, data: bytes) -> tuple[bytes, int]:
        if not one.hunks:
            return data, 0
        try:
            text, form = encoding.decode(data)
        except encoding.NotText as error:
            raise _Reject(f"it cannot be patched: {error}") from None
        try:
            patched = patching.apply(text, form, one.hunks, self._effort)
        except patching.Misfit as misfit:
            more = {"region": misfit.region} if misfit.region else {}
            number = misfit.hunk.number
            raise _Reject(f"part {number}: {misfit.reason}", part=number, **more) from None
        return encoding.encode(patched.text, form), patched.offset


def _held(wanted: WantedFile) -> int:
    seen = 0 if wanted.seen is None else len(wanted.seen.data)
    return seen + len(wanted.data or b"")


def _counts(one: FilePatch) -> dict[str, Any]:
    return {
        "added": sum(hunk.added for hunk in one.hunks),
        "removed": sum(hunk.removed for hunk in one.hunks),
    }


def _sizes(data: bytes, seen: FileSnapshot | None) -> dict[str, Any]:
    before = None if seen is None else etag_of(seen.data)
    return {"etag": etag_of(data), "etag_before": before, "bytes": len(data)}
