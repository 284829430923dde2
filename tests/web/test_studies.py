"""Indicators on the chart, in a real browser, on the whole of Artery."""

import pytest
from playwright.async_api import expect

from tests.web.browser import Screen

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_indicators_are_drawn_for_every_candle_and_the_choice_is_remembered(screen: Screen) -> None:
    assert (await screen.state())["studied"] == 0
    canvases = await screen.page.locator("#chart canvas").count()
    for name in ("EMA", "RSI"):
        await screen.page.click(f"#studies button:text-is('{name}')")
    full = await screen.until("values of the past", lambda state: state["studied"] > 100, within_s=120)
    assert await screen.page.locator("#chart canvas").count() > canvases, "RSI has a pane of its own"
    newest = full["lastCandle"]["start"]
    await screen.until("the next candle's values", lambda state: state["studied"] > full["studied"], within_s=150)
    assert (await screen.state())["lastCandle"]["start"] > newest
    await screen.page.reload()
    await screen.until("values again", lambda state: state.get("studied", 0) > 100, within_s=120)
    assert await screen.page.get_attribute("#studies button:text-is('EMA')", "aria-pressed") == "true"
    for name in ("EMA", "RSI"):
        await screen.page.click(f"#studies button:text-is('{name}')")
    await expect(screen.page.locator("#chart canvas")).to_have_count(canvases)  # a pane goes with the next picture
    assert screen.complaints == []
