"""Start of the keeper process: `python -I -S …/keeper/__main__.py`.

Isolated mode leaves the package off the import path, so it is put there first.
"""

import os
import sys

if __name__ == "__main__":
    _package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if _package_parent not in sys.path:
        sys.path.insert(0, _package_parent)

    from holdfast.keeper.main import main

    sys.exit(main(sys.argv[1:]))
