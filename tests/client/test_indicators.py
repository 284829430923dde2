"""A client's indicators: pages become one table, whatever a market is called."""

from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from artery.client import indicators
from artery.indicators.standard import NAMES
from artery.model.channels import Channel
from artery.model.periods import Period

MINUTE = Period.parse("1m")


class Gateway:
    """Answers as `/v1/indicators` does, a few rows a page."""

    def __init__(self, rows: int, page: int) -> None:
        self.rows = [{"startTs": at, "rev": 0, "closed": True, **dict.fromkeys(NAMES, at / 3)} for at in range(rows)]
        self.page = page
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def get(self, path: str, query: dict[str, Any]) -> bytes:
        self.asked.append((path, query))
        if not query:
            return msgspec.json.encode({"closed": None, "open": None})
        start = query["start"] if "start" in query else int(query["cursor"][1:])
        rows = [row for row in self.rows if start <= row["startTs"] < query["end"]]
        following = f"s{rows[self.page]['startTs']}" if len(rows) > self.page else None
        return msgspec.json.encode({"rows": rows[: self.page], "next": following})


@pytest.mark.parametrize("page", [1, 3, 10, 100])
async def test_pages_become_one_table_with_every_bit(page: int) -> None:
    gateway = Gateway(20, page)
    table = await indicators.past(gateway.get, Channel("sim", "BTC"), MINUTE, 5, 18)
    assert table.schema == indicators.SCHEMA
    assert table["startTs"].to_pylist() == list(range(5, 18))
    assert table["macd"].to_pylist() == [at / 3 for at in range(5, 18)]
    assert len(gateway.asked) == -(-13 // page)


async def test_a_stretch_without_length_asks_nobody() -> None:
    gateway = Gateway(20, 5)
    table = await indicators.past(gateway.get, Channel("sim", "BTC"), MINUTE, 5, 5)
    assert (table.num_rows, table.schema, gateway.asked) == (0, indicators.SCHEMA, [])


async def test_a_market_with_a_slash_stays_one_part_of_the_path() -> None:
    gateway = Gateway(1, 1)
    assert await indicators.now(gateway.get, Channel("hyperliquid_spot", "PURR/USDC"), MINUTE) == {
        "closed": None, "open": None
    }  # fmt: skip
    (path, _), *_ = gateway.asked
    assert path.count("/") == 5
    assert unquote(path) == "/v1/indicators/hyperliquid_spot/PURR/USDC/1m"
