"""Entry of the process that talks: `python -m holdfast.gate`, started by the supervisor."""

from holdfast.gate.main import main

if __name__ == "__main__":
    main()
