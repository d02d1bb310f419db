"""The command line under another name: ``python -m rlvc``."""

from rlvc.cli import main

if __name__ == "__main__":  # not when its documentation is read
    main()
