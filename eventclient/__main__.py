"""``python -m eventclient`` is the ``eventclient`` command."""

from eventclient.cli import main

if __name__ == "__main__":
    main()
