"""`artery indicators`: the values of a market's newest candles, or of its past."""

import asyncio
from typing import Annotated, Any

import typer

from artery.cli import show
from artery.cli.environment import local_key, running, settings_now
from artery.cli.moments import iso_text
from artery.cli.running import Json

_TABLE = ("ema_12", "ema_26", "rsi_14", "macd", "macd_signal", "bb_upper", "bb_lower", "atr_14")
"""What fits beside the start of a candle; JSON and CSV have all of them."""


def add_to(app: typer.Typer) -> None:
    app.command()(indicators)


def indicators(
    market: Annotated[str, typer.Argument(help="A ticker (SIM:BTC) or a channel.")],
    period: Annotated[str, typer.Argument(help="1m, 5m, 15m, 1h, 4h or 1d.")] = "1m",
    since: Annotated[str, typer.Option(help="The past: since 2h or 7d (ago), or an ISO time.")] = "",
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: Json = False,
) -> None:
    """Show a market's indicators, now or in the past."""
    settings, url = running(settings_now())
    found = asyncio.run(_fetch(url, local_key(settings), market, period, since))
    if since:
        _show_past(found, csv=csv, json=json)
    elif json:
        show.as_json(found)
    else:
        _show_now(found, csv=csv)


async def _fetch(url: str, key: str, market: str, period: str, since: str) -> Any:
    from artery.client import Artery

    async with Artery(url, key) as artery:
        if not since:
            return await artery.indicators_now(market, period)
        return (await artery.indicators(market, period, since)).to_pylist()


def _show_now(found: dict[str, Any], *, csv: bool) -> None:
    closed, opened = found["closed"] or {}, found["open"] or {}
    names = [name for name in closed or opened if name not in ("startTs", "rev")]
    columns = ("indicator", f"closed {_start(closed)}".strip(), f"open {_start(opened)}".strip())
    rows = [(name, _number(closed.get(name)), _number(opened.get(name))) for name in names]
    if csv:
        show.as_csv(columns, rows)
        return
    show.table(columns, rows, right=columns[1:])
    if not rows:
        show.out.print("There are no values yet: the first candle has not come.")
    elif not found["warm"]:
        show.out.print("\nNot warm yet: some indicators need more candles than there are.")


def _show_past(found: list[dict[str, Any]], *, csv: bool, json: bool) -> None:
    rows = [{"start": iso_text(row.pop("startTs")), **row} for row in found]
    if json:
        show.as_json(rows)
    elif csv:
        columns = list(rows[0]) if rows else ["start"]
        show.as_csv(columns, [[_cell(row[name]) for name in columns] for row in rows])
    else:
        show.table(
            ("start", *_TABLE), [[row["start"], *[_number(row[name]) for name in _TABLE]] for row in rows], right=_TABLE
        )


def _cell(value: Any) -> object:
    return _number(value) if isinstance(value, float | None) else value


def _start(values: dict[str, Any]) -> str:
    return iso_text(values["startTs"]) if values else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
