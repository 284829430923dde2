"""Commands that show the market: tail, history. They ask the gateway, as any other client does."""

import asyncio
import sys
from typing import Annotated

import msgspec
import typer

from artery.cli import show
from artery.cli.environment import local_key, running, settings_now
from artery.cli.running import Json
from artery.errors import Unavailable
from artery.settings import Settings


def add_to(app: typer.Typer) -> None:
    app.command()(tail)
    app.command()(history)


def tail(
    market: Annotated[str, typer.Argument(help="A ticker (SIM:BTC) or a channel (artery:stream:sim:BTC).")],
    types: Annotated[str, typer.Option(help="Only these, separated by commas: TRADE, BOOK_TOPN, CANDLE:1m.")] = "",
    json: Json = False,
) -> None:
    """Show what happens in a market, live."""
    settings, url = running(settings_now())
    wanted = [name.strip() for name in types.split(",") if name.strip()]
    try:
        asyncio.run(_follow(url, local_key(settings), market, wanted, json))
    except KeyboardInterrupt:
        return


async def _follow(url: str, key: str, market: str, types: list[str], json: bool) -> None:
    from artery.cli.lines import line_of
    from artery.client import Artery, Gap
    from artery.model.codec import encode

    async with Artery(url, key) as artery:
        async for event in artery.stream(market, types=types):
            if not json:
                sys.stdout.write(line_of(event) + "\n")
                sys.stdout.flush()
            elif isinstance(event, Gap):
                show.as_json({"t": "GAP"} | msgspec.structs.asdict(event) | {"channel": str(event.channel)})
            else:
                show.as_json(encode(event))


def history(
    market: Annotated[str, typer.Argument(help="A ticker (SIM:BTC) or a channel.")],
    period: Annotated[str, typer.Argument(help="1m, 5m, 15m, 1h, 4h or 1d.")] = "1m",
    since: Annotated[str, typer.Option(help="2h or 7d (ago), or an ISO time.")] = "1d",
    fetch: Annotated[bool, typer.Option("--fetch", help="First bring what the lake lacks from the venue.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: Json = False,
) -> None:
    """Show past candles, oldest first."""
    from artery.cli.lines import CANDLE_COLUMNS, candle_cells
    from artery.client import history as read

    settings, url = running(settings_now())
    failed = asyncio.run(_bring(settings, market, period, since)) if fetch else ""
    rows = [candle_cells(row) for row in read(url, local_key(settings), market, period, since).to_pylist()]
    if json:
        show.as_json([dict(zip(CANDLE_COLUMNS, row, strict=True)) for row in rows])
    elif csv:
        show.as_csv(CANDLE_COLUMNS, rows)
    else:
        show.table(CANDLE_COLUMNS, rows, right=CANDLE_COLUMNS[1:])
    if failed:
        raise Unavailable(f"only a part of it could be fetched: {failed}")


async def _bring(settings: Settings, market: str, period: str, since: str) -> str:
    """Have the venue's candles brought to the lake, with a bar that moves where a person watches; return why only a
    part of them came, if so."""
    from artery.app.relaying import where
    from artery.client.relay import Progress, Relay

    found = await where(settings)
    with show.bar(f"{market} {period}") as move:

        def progress(now: Progress) -> None:
            move(now.done, f"{now.state}, {now.rows} rows")

        async with Relay(found.requests, found.clients, key=settings.relay.key) as relay:
            outcome = await relay.fetch(market, period, since, progress=progress)
    return outcome.error if outcome.status == outcome.PARTIAL else ""
