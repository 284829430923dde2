"""`python -m artery` is `artery`."""

from artery.cli import main

if __name__ == "__main__":
    main()
