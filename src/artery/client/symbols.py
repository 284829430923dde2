"""Markets' metadata for a client: all of it, then what is newer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from artery.model.decimals import number
from artery.model.symbols import Symbol
from artery.wire.artery_pb2 import SymbolMetadataUpdated

RELOAD_S = 300.0
"""A message may be lost: once in a while everything is read without one."""


def symbols_of(rows: list[dict[str, Any]]) -> list[Symbol]:
    """The rows of `/v1/markets` of which something is known."""
    return [_symbol(row) for row in rows if row.get("version")]


async def changes(
    updates: AsyncIterator[SymbolMetadataUpdated | None], load: Callable[[], Awaitable[list[Symbol]]]
) -> AsyncIterator[Symbol]:
    """Subscribed, then loaded, then whatever is newer: no version comes twice, and none is missed for long."""
    known: dict[str, int] = {}
    coming = asyncio.ensure_future(anext(updates))
    try:
        while True:
            await asyncio.wait({coming}, timeout=RELOAD_S)
            if coming.done():
                coming.result()
                coming = asyncio.ensure_future(anext(updates))
            for symbol in await load():
                if symbol.version > known.get(symbol.ticker, 0):
                    known[symbol.ticker] = symbol.version
                    yield symbol
    finally:
        coming.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
            await coming


def _symbol(row: Mapping[str, Any]) -> Symbol:
    return Symbol(
        provider=row["provider"],
        coin=row["coin"],
        base=row["base"],
        quote=row["quote"],
        tick_size=number(row["tick_size"], what="tick_size"),
        size_step=number(row["size_step"], what="size_step"),
        status=row["status"],
        version=row["version"],
        valid_from=row["valid_from"],
    )
