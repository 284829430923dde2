"""Indicators as a client asks for them: the newest values, or a table of the past."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa

from artery.client.tables import cut_short
from artery.indicators.standard import NAMES
from artery.model.channels import Channel
from artery.model.periods import Period

ROWS_PER_PAGE = 5_000
ROWS_MAX = 1_000_000
Get = Callable[[str, dict[str, Any]], Awaitable[bytes]]

_COLUMNS: dict[str, pa.DataType] = {"startTs": pa.int64(), "rev": pa.int32(), "closed": pa.bool_()}
_NUMBERS: dict[str, pa.DataType] = dict.fromkeys(NAMES, pa.float64())
SCHEMA = pa.schema(_COLUMNS | _NUMBERS)


async def now(get: Get, wanted: Channel, period: Period) -> dict[str, Any]:
    """The values of the newest closed and of the open candle."""
    found: dict[str, Any] = msgspec.json.decode(await get(_path(wanted, period), {}))
    return found


async def past(get: Get, wanted: Channel, period: Period, start_ms: int, end_ms: int) -> pa.Table:
    """The values of every candle that starts in [start_ms, end_ms), fetched page by page."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None and start_ms < end_ms and len(rows) < ROWS_MAX:
        asked = {"cursor": cursor} if cursor else {"start": start_ms}
        answer = await get(_path(wanted, period), {**asked, "end": end_ms, "limit": ROWS_PER_PAGE})
        page = msgspec.json.decode(answer)
        rows += page["rows"]
        cursor = page["next"]
    if cursor and len(rows) >= ROWS_MAX:
        cut_short(len(rows), cursor)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _path(wanted: Channel, period: Period) -> str:
    return f"/v1/indicators/{wanted.provider}/{quote(wanted.market, safe='')}/{period}"
