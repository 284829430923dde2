"""`artery lake`: look at the tables, their files and snapshots; join files, expire snapshots, pin one."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from artery.cli import show
from artery.cli.environment import settings_now
from artery.cli.running import Json
from artery.telemetry import set_up_logs

if TYPE_CHECKING:
    from artery.lake.asks import Step
    from artery.lake.reads import Lake

T = TypeVar("T")
Table = Annotated[str, typer.Argument(help="ohlc, trades, books, gaps, symbols or requests.")]
Perhaps = Annotated[str, typer.Argument(metavar="[TABLE]", help="One table; not given: all of them.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="The newest so many.")]

app = typer.Typer(
    help="Look at the lake; join, expire and pin.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def _tables_unless_told(context: typer.Context, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        tables(json=json)


@app.command()
def tables(json: Json = False) -> None:
    """List the tables: rows, files, size, snapshots, health."""
    from artery.cli.lake_lines import TABLE_COLUMNS, table_cells
    from artery.lake.looking import all_health

    now_ms = time.time_ns() // 1_000_000
    rows = _in_the_lake(lambda lake: all_health(lake, now_ms))
    if json:
        show.as_json(rows)
    else:
        show.table(TABLE_COLUMNS, [table_cells(row, now_ms) for row in rows], right=TABLE_COLUMNS[1:7])


@app.command()
def files(table: Table, limit: Limit = 50, json: Json = False) -> None:
    """List a table's data files, those with the newest rows first."""
    from artery.cli.lake_lines import FILE_COLUMNS, file_cells
    from artery.lake.looking import looked_at

    found = _in_the_lake(lambda lake: looked_at(lake, table))
    newest = sorted(found.files, key=lambda file: -file.high_ms)[:limit]
    if json:
        show.as_json(newest)
    else:
        show.table(FILE_COLUMNS, map(file_cells, newest), right=FILE_COLUMNS[2:5])
        _rest(len(newest), len(found.files), "files")


@app.command()
def snapshots(table: Table, limit: Limit = 50, json: Json = False) -> None:
    """List a table's snapshots that can be read, the newest first."""
    from artery.cli.lake_lines import SNAPSHOT_COLUMNS, snapshot_cells
    from artery.lake.looking import looked_at

    found = _in_the_lake(lambda lake: looked_at(lake, table))
    newest = list(reversed(found.snapshots))[:limit]
    if json:
        show.as_json(newest)
    else:
        show.table(SNAPSHOT_COLUMNS, map(snapshot_cells, newest))
        _rest(len(newest), len(found.snapshots), "snapshots")


@app.command()
def compact(table: Perhaps = "", json: Json = False) -> None:
    """Join small files of what is over; rows stay as they are."""
    _step("compact", table, "joined {count:,} files", json)


@app.command()
def expire(table: Perhaps = "", json: Json = False) -> None:
    """Remove snapshots that nobody needs, and their files.

    What is newer than ART_LAKE_KEEP_MIN, pinned, or named by a notification stays.
    """
    _step("expire", table, "removed {count:,} snapshots", json)


@app.command()
def pin(
    table: Table,
    snapshot: Annotated[int, typer.Option(help="Which one; 0: the newest.")] = 0,
    hours: Annotated[float, typer.Option(min=0.01, max=8_760.0, help="For so long.")] = 24.0,
    json: Json = False,
) -> None:
    """Keep a snapshot readable, for work that takes long."""
    from artery.app.lake_steps import pin as keep
    from artery.cli.moments import iso_text

    done = asyncio.run(keep(settings_now(), table, snapshot, hours))
    if json:
        show.as_json(done)
    else:
        show.out.print(f"Snapshot {done.snapshot} of {table} can be read until {iso_text(done.until_ms)}.")


def _step(step: "Step", table: str, said: str, json: bool) -> None:
    from artery.app.lake_steps import do_step

    settings = settings_now()
    set_up_logs("warning", as_json=settings.log.json)
    with show.bar(step) as tell:
        done = asyncio.run(do_step(settings, step, table, tell))
    if json:
        show.as_json(done)
    else:
        show.out.print(f"{done.by[0].upper()}{done.by[1:]} has {said.format(count=done.count)}.", markup=False)


def _in_the_lake(work: "Callable[[Lake], T]") -> T:
    from artery.app.lake_steps import need_lake
    from artery.lake.open import open_lake

    settings = settings_now()
    set_up_logs(settings.log.level, as_json=settings.log.json)
    need_lake(settings)
    lake = open_lake(settings)
    try:
        with show.progress("looking at the lake"):
            return work(lake)
    finally:
        lake.close()


def _rest(shown: int, there: int, what: str) -> None:
    if shown < there:
        show.out.print(f"\n{there - shown:,} more {what}; --limit shows them.", markup=False)
