"""`artery bus`: look at the log, tail and replay it, see to its dead letters, trim it, move it."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from artery.cli import show
from artery.cli.environment import settings_now
from artery.cli.running import Json
from artery.errors import BadInput
from artery.settings import Settings
from artery.telemetry import set_up_logs

if TYPE_CHECKING:
    from artery.app.bus_entries import Missing, Seen
    from artery.bus.base import Bus

T = TypeVar("T")

Url = Annotated[
    str,
    typer.Option("--url", help="The log, if not that of the settings (ART_BUS_URL); @FILE: the URL is in that file."),
]
Stream = Annotated[str, typer.Argument(help="trade, book, candle, feed … as `artery bus` lists them.")]
From = Annotated[str, typer.Option("--from", help="Begin after this position (0: with the oldest).")]
Limit = Annotated[int, typer.Option("--limit", min=0, max=1_000_000, help="Stop after so many; 0: do not stop.")]

app = typer.Typer(
    help="Look at the log; tail, replay, trim and copy it.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def _streams_unless_told(context: typer.Context, url: Url = "", json: Json = False) -> None:
    if context.invoked_subcommand is None:
        streams(url=url, json=json)


@app.command()
def streams(url: Url = "", json: Json = False) -> None:
    """List the streams: length, age, rate, losses."""
    from artery.app.bus_view import stream_rows
    from artery.cli.bus_lines import STREAM_COLUMNS, stream_cells

    rows = _on_the_bus(url, lambda bus: stream_rows(bus, _now_ms()), "looking at the streams")
    if json:
        show.as_json(rows)
    else:
        show.table(STREAM_COLUMNS, map(stream_cells, rows), right=STREAM_COLUMNS[1:6])


@app.command()
def groups(url: Url = "", json: Json = False) -> None:
    """List the groups: lag, pending, the oldest pending."""
    from artery.app.bus_view import group_rows
    from artery.cli.bus_lines import GROUP_COLUMNS, group_cells

    rows = _on_the_bus(url, group_rows, "looking at the groups")
    if json:
        show.as_json(rows)
    else:
        show.table(GROUP_COLUMNS, map(group_cells, rows), right=GROUP_COLUMNS[2:4])


@app.command()
def dead(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 50,
    every: Annotated[bool, typer.Option("--all", help="Also those that were requeued.")] = False,
    url: Url = "",
    json: Json = False,
) -> None:
    """List entries that were given up, and why."""
    from artery.bus.dead import letter_rows
    from artery.cli.bus_lines import LETTER_COLUMNS, letter_cells

    rows = _on_the_bus(url, lambda bus: letter_rows(bus, limit, every=every), "looking at the dead letters")
    if json:
        show.as_json(rows)
    elif rows:
        show.table(LETTER_COLUMNS, map(letter_cells, rows))
    else:
        show.out.print("There are no dead letters.")


@app.command()
def requeue(
    dead_id: Annotated[str, typer.Argument(metavar="[ID]", help="A letter, as `artery bus dead` lists it.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every letter, at most 10,000 at once.")] = False,
    url: Url = "",
    json: Json = False,
) -> None:
    """Append given-up entries to their streams again."""
    from artery.app.bus_view import Requeued, requeue_all
    from artery.bus.dead import LETTERS_MAX

    if bool(dead_id) == every:
        raise BadInput("say which letter to requeue, or --all")

    async def work(bus: "Bus") -> list[Requeued]:
        return await requeue_all(bus, LETTERS_MAX) if every else [Requeued(dead_id, await bus.requeue(dead_id))]

    done = _on_the_bus(url, work, "requeueing")
    failed = [row for row in done if row.error]
    if json:
        show.as_json(done)
    else:
        for row in failed:
            show.out.print(f"{row.id}: {row.error}", markup=False)
        show.out.print(f"{len(done) - len(failed)} of {len(done)} requeued.", markup=False)
    if failed:
        raise typer.Exit(1)


@app.command()
def tail(
    stream: Stream,
    after: From = "",
    since: Annotated[str, typer.Option(help="Begin so long ago (10m, 2h) or at an ISO time.")] = "",
    limit: Limit = 0,
    url: Url = "",
    json: Json = False,
) -> None:
    """Show a stream's entries as they come."""
    from artery.app import bus_entries

    async def work(bus: "Bus") -> None:
        start = await bus_entries.place_of(bus, await _known(bus, stream), after, since, _now_ms())
        await _print(bus_entries.tail(bus, stream, start), limit, json)

    _until_stopped(url, work)


@app.command()
def replay(
    stream: Stream,
    since: Annotated[str, typer.Option(help="Begin so long ago (10m, 2h) or at an ISO time.")] = "",
    after: From = "",
    speed: Annotated[float, typer.Option(help="Times the original speed; 0: without waiting.")] = 1.0,
    limit: Limit = 0,
    url: Url = "",
    json: Json = False,
) -> None:
    """Show a stream's past at its own speed or n times it."""
    from artery.app import bus_entries

    if not (since or after):
        raise BadInput("say where to begin: --since 1h, or --from a position (0: the oldest)")

    async def work(bus: "Bus") -> None:
        start = await bus_entries.place_of(bus, await _known(bus, stream), after, since, _now_ms())
        await _print(bus_entries.paced(bus_entries.span(bus, stream, start), speed), limit, json)

    _until_stopped(url, work)


@app.command()
def trim(url: Url = "", json: Json = False) -> None:
    """Cut streams that are over their caps.

    What a required group has not acked, or the lake has not committed, stays.
    """
    from artery.app.trimming import trim_now

    settings = settings_now()
    done = _on_the_bus(url, lambda bus: trim_now(bus, settings), "trimming")
    if json:
        show.as_json([{"stream": name} | msgspec.structs.asdict(row) for name, row in done.items()])
    elif done:
        show.table(("stream", "removed", "lost"), [(name, row.removed, row.lost) for name, row in done.items()])
    else:
        show.out.print("No stream is over its cap.")


@app.command()
def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM_URL",
            help="The log to copy from; stop its writers first. -: that of the settings; @FILE: its URL is in a file.",
        ),
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO_URL", help="The log to copy to; it must be empty. -, @FILE: the same.")
    ],
    append: Annotated[bool, typer.Option("--append", help="Add to a log that is not empty.")] = False,
    json: Json = False,
) -> None:
    """Copy entries, groups and epochs to another log."""
    from artery.app.bus_carry import carrier
    from artery.app.bus_copy import Copied
    from artery.app.bus_copy import copy as move
    from artery.app.bus_view import opened_bus
    from artery.cli.bus_lines import COPY_COLUMNS, copy_cells

    settings = settings_now()
    source, target = log_named(source, settings), log_named(target, settings)
    if source == target:
        raise BadInput("a log cannot be copied to itself")
    set_up_logs(settings.log.level, as_json=settings.log.json)
    base = settings.bus.base

    async def work() -> Copied:
        async with opened_bus(source, base) as old, opened_bus(target, base, make=True) as new:
            with show.progress("copying") as status:

                def tell(stream: str, done: int, total: int) -> None:
                    if status is not None:
                        status.update(f"copying {stream}: {done:,} of {total:,}")  # type: ignore[attr-defined]

                return await move(old, new, append=append, tell=tell, carry=carrier(settings))

    done = asyncio.run(work())
    if json:
        show.as_json(done)
    else:
        show.table(COPY_COLUMNS, map(copy_cells, done.streams), right=COPY_COLUMNS[1:3])
        show.out.print(f"\n{len(done.epochs)} epochs copied; every stream was counted at both ends.", markup=False)
        if done.carried:
            show.out.print("With ART_BUS_URL set to the new log, the pipeline goes on where it was.", markup=False)


def log_named(text: str, settings: Settings) -> str:
    """The URL of a log that a person names, who must not have to write a password where others can see it."""
    if text in ("", "-"):
        return settings.bus_url()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{text[1:]!r:.80} cannot be read: name a file that holds nothing but a URL") from error


def _on_the_bus(url: str, work: "Callable[[Bus], Awaitable[T]]", doing: str = "") -> T:
    """What the work makes of a log; `doing` is what a person who watches is told meanwhile."""
    from artery.app.bus_view import opened_bus

    settings = settings_now()
    set_up_logs(settings.log.level, as_json=settings.log.json)

    async def on_it() -> T:
        async with opened_bus(log_named(url, settings), settings.bus.base) as bus:
            return await work(bus)

    with show.progress(doing) if doing else nullcontext():
        return asyncio.run(on_it())


def _until_stopped(url: str, work: "Callable[[Bus], Awaitable[None]]") -> None:
    try:
        _on_the_bus(url, work)
    except KeyboardInterrupt:
        return


async def _known(bus: "Bus", stream: str) -> str:
    from artery.app.bus_view import known_stream

    return await known_stream(bus, stream)


async def _print(items: "AsyncIterator[Seen | Missing]", limit: int, json: bool) -> None:
    from artery.app.bus_entries import Seen
    from artery.cli.bus_lines import entry_line

    shown = 0
    async for item in items:
        if json:
            show.as_json(item)
        else:
            sys.stdout.write(entry_line(item) + "\n")
            sys.stdout.flush()
        shown += isinstance(item, Seen)
        if limit and shown >= limit:
            return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
