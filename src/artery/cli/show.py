"""How results look: tables for people, JSON for programs."""

import csv
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 160
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPED_WIDTH)
err = Console(highlight=False, soft_wrap=True, stderr=True)
_COLOURS = {"artery": "bold", "sim": "magenta", "serve": "cyan", "pipeline": "yellow"}


def as_json(value: Any) -> None:
    """One line of JSON; decimals as text."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Rows under their names; nothing is cut off."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else Text(_text(cell)) for cell in row))
    out.print(grid)


def _text(cell: object) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Comma-separated values, with a first line of names."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(cell) for cell in row] for row in rows)


def say(who: str, line: str) -> None:
    """A line of someone who runs, with the name in front."""
    err.print(Text.assemble((f"{who:<8} ", _COLOURS.get(who, "")), ("│ ", "dim"), line))


def progress(text: str) -> AbstractContextManager[object]:
    """A line that moves while something is under way, where a person watches."""
    return err.status(f"{text} …") if err.is_terminal else nullcontext()


@contextmanager
def bar(text: str) -> Iterator[Callable[[int, str], None]]:
    """A bar of a thousand parts, where a person watches; call what it yields with how far it is, and a word."""
    with Progress(
        "{task.description}", BarColumn(), "{task.fields[word]}", console=err, disable=not err.is_terminal
    ) as it:
        task = it.add_task(text, total=1_000, word="")
        yield lambda done, word: it.update(task, completed=done, word=word)


def open_page(link: str) -> None:
    """Show a page in this desktop's browser, if it has one."""
    opener = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    if opener:
        null = subprocess.DEVNULL
        subprocess.Popen([opener, link], stdin=null, stdout=null, stderr=null, start_new_session=True)
