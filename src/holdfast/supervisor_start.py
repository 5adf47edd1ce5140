"""First code of the supervisor's process. Its start consists of imports, so they are prepared here.

The keeper runs `main`, also the keeper of an older version: this module and `main` must stay here.
Everything else is in `supervisor_process`. To do without the module pack, remove `Pack` here and in
`supervisor_process`; nothing else depends on it.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Import the supervisor with as little work as possible, and run it."""
    # Nothing that is created until the supervisor is up is garbage; `_preload` enables it again.
    gc.disable()
    from holdfast.system.module_pack import Pack

    pack = Pack("supervisor")
    pack.use()
    # msgspec looks for this module first; without it, it takes the same names from `typing`.
    absent: dict[str, object] = {"typing_extensions": None}
    sys.modules.update(absent)  # type: ignore[arg-type]
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]
    from holdfast import supervisor_process

    supervisor_process.main(pack)
