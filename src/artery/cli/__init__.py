"""The command line; the only room that reads the environment."""

from artery.cli.main import main

__all__ = ["main"]
