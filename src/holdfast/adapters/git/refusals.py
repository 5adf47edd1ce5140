"""Which changes of a work tree are refused: of files that write_file would not change, and of links
that lead to such files or out of the roots. Looks at names only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from holdfast.adapters.files.roots import Roots
from holdfast.adapters.git.repository import Repository
from holdfast.rules.authority.path_scopes import shown
from holdfast.rules.files import LocatedPath, locate
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError


def refused(roots: Roots, repository: Repository, paths: Iterable[str]) -> dict[str, Refused]:
    """Return the paths that may not be changed, as git names them, each with the reason."""
    # In a read-only root a caller may still ask what a change would do.
    admit = roots.admit_change if repository.root.is_writable else roots.admit
    found = {}
    for path in dict.fromkeys(paths):
        try:
            admit(repository.place_of(path))
        except Refused as error:
            found[path] = error
        except UsageError as error:  # a path that write_file does not take
            found[path] = Refused(f'"{shown(path)}": {error.message}', error.hint)
    return found


def wrong_link(roots: Roots, repository: Repository, path: str, target: str) -> str | None:
    """Return in words where a forbidden link leads; None: it may be made."""
    folder = repository.place_of(path).absolute.rpartition("/")[0]
    led = os.path.normpath(os.path.join(folder, target))
    try:
        located = locate(roots.roots, led)
    except HoldfastError:
        return f'"{shown(target)}", below no root'
    return None if _is_offered(roots, located) else f'"{shown(target)}", which is denied'


def _is_offered(roots: Roots, located: LocatedPath) -> bool:
    """Return whether a path, and for a folder what is in it, is offered."""
    inside = located._replace(parts=(*located.parts, "_"))
    return all(roots.denials.reason(one) is None for one in (located, inside))
