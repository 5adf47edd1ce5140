"""First code of the supervisor's process: its start consists of imports, so they are prepared.

Started by the keeper. Everything else is `supervisor`.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Import the supervisor with as little work as possible, and run it."""
    # Nothing that is made until the supervisor is up is garbage; it turns this on again.
    gc.disable()
    from holdfast.system.module_pack import Pack

    pack = Pack("supervisor")
    pack.use()
    # msgspec looks here first, and takes the same from `typing` where this is not installed.
    absent: dict[str, object] = {"typing_extensions": None}
    sys.modules.update(absent)  # type: ignore[arg-type]
    import msgspec  # noqa: F401

    del sys.modules["typing_extensions"]
    from holdfast import supervisor_process

    supervisor_process.main(pack)
