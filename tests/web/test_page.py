"""The page in a real browser, on the whole of Artery."""

import asyncio
import os
import signal
from itertools import pairwise

import pytest
from playwright.async_api import Browser

from artery.app.notes import read_note
from bench.running import Running
from tests.journeys.waiting import until
from tests.web.browser import PHONE, Screen, open_page, start_link

pytestmark = pytest.mark.asyncio(loop_scope="module")

_RECORD_BANNER = """() => {
  window.said = [];
  const banner = document.getElementById("banner-text");
  new MutationObserver(() => said.push(banner.textContent)).observe(banner, { childList: true });
}"""


async def test_the_chart_has_past_candles_and_the_newest_one_changes(screen: Screen) -> None:
    before = await screen.until_full()
    assert before["candles"] > 100
    seen = before["lastCandle"]
    after = await screen.until("the newest candle changes", lambda state: state["lastCandle"] != seen, within_s=120)
    assert (after["lastCandle"]["start"], after["lastCandle"]["v"]) >= (seen["start"], seen["v"])
    assert await screen.page.locator("#chart canvas").count() > 0
    assert await screen.page.locator("#chart-note").is_hidden()
    assert screen.complaints == []


async def test_the_tape_and_the_book_move(screen: Screen) -> None:
    before = await screen.state()
    top, mid = await screen.text("#tape li:first-child"), await screen.text("#mid")
    await screen.until("trades", lambda state: state["trades"] > before["trades"] + 2)
    await screen.until("books", lambda state: state["books"] > before["books"] + 2)
    await screen.until_text("a new row on the tape", "#tape li:first-child", lambda text: text != top)
    await screen.until_text("another mid price", "#mid", lambda text: text not in (mid, "–", ""))
    assert await screen.page.locator("#tape li").count() <= 100
    assert await screen.page.locator("#bids li:visible").count() >= 15


async def test_the_page_says_that_it_is_simulated_and_how_each_part_is(screen: Screen) -> None:
    assert (await screen.text("#simulated")).upper() == "SIMULATED"
    assert await screen.page.is_visible("#simulated")
    said = await screen.until_text("the state of the parts", "#system", lambda text: "live" in text and "Lake" in text)
    assert "sim feed" in said
    assert await screen.text("#connection") == "Connected"


async def test_a_restart_of_the_server_is_survived(screen: Screen, artery: Running) -> None:
    before = await screen.state()
    await screen.page.evaluate(_RECORD_BANNER)
    serve = read_note(artery.folder / "sim", "serve")
    assert serve is not None
    os.kill(serve.pid, signal.SIGKILL)
    await screen.until("the loss is seen", lambda state: state["connection"] != "open")
    await screen.until("the connection is back", lambda state: state["connection"] == "open", within_s=90)
    said = await screen.page.evaluate("() => window.said")
    assert "Connection lost. Trying again" in said
    assert all("" in pair for pair in pairwise(said)), "whoever hears the page hears of one loss once"
    after = await screen.until("trades again", lambda state: state["trades"] > before["trades"] + 5, within_s=90)
    await screen.until("history again", lambda state: state["history"] == "ready" and state["candles"] > 100)
    assert after["lastCandle"]["start"] >= before["lastCandle"]["start"]
    assert await until("the banner is gone", lambda: screen.page.is_hidden("#banner"), within_s=30)


async def test_periods_and_markets_are_switched_by_mouse_and_keyboard(screen: Screen) -> None:
    page = screen.page
    await page.click("#periods button:text-is('1h')")
    hours = await screen.until("hours", lambda state: state["period"] == "1h" and state["candles"] > 24)
    assert hours["lastCandle"]["start"] % 3_600_000 == 0
    await page.keyboard.press("ArrowDown")
    moved = await screen.until("another market", lambda state: state["market"] != hours["market"])
    assert moved["period"] == "1h"
    await page.keyboard.press("/")
    await page.keyboard.type("sol")
    await page.keyboard.press("Enter")
    sol = await screen.until("SOL's candles", lambda state: state["market"].endswith(":SOL") and state["candles"] > 24)
    fresh = await screen.until("SOL's trades", lambda state: state["trades"] > sol["trades"])
    assert fresh["lastTrade"] is not None
    assert await page.input_value("#picker") == sol["market"]


async def test_scrolling_back_loads_older_candles(screen: Screen) -> None:
    before = await screen.until("a full page of candles", lambda state: state["candles"] >= 1_500, within_s=120)
    await screen.page.hover("#chart")
    for _ in range(40):
        await screen.page.mouse.wheel(-2_000, 0)
        if (await screen.state())["candles"] > before["candles"] + 100:
            break
        await asyncio.sleep(0.1)
    await screen.until("older candles", lambda state: state["candles"] > before["candles"] + 100)
    assert await screen.page.is_visible("#to-now")


async def test_a_phone_shows_every_panel_without_scrolling_sideways(browser: Browser, artery_page_url: str) -> None:
    screen = await open_page(browser, artery_page_url, PHONE, has_touch=True, is_mobile=True)
    await screen.until_full()
    for tab, panel in (("book", "#bids"), ("tape", "#tape"), ("markets", "#markets"), ("chart", "#chart")):
        await screen.page.click(f"#tabs [data-tab={tab}]")
        assert await screen.page.is_visible(panel)
        wide = await screen.page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= PHONE[0], f"the {tab} tab is {wide} px wide"
    assert await screen.page.is_visible("#simulated")
    assert screen.errors == []


async def test_a_start_link_is_used_up_and_a_key_opens_the_page_too(browser: Browser, artery: Running) -> None:
    link = await start_link(artery)
    first = await open_page(browser, link)
    await first.until("the page", lambda state: state["connection"] == "open")
    assert "#" not in first.page.url

    second = await open_page(browser, link)
    await second.until_text("the door", "#door", lambda text: "artery open" in text and "used before" in text)
    await second.page.fill("#door-key", "art_live_wrong.key")
    await second.page.press("#door-key", "Enter")
    await second.until_text("the refusal", "#door-why", lambda text: text == "This key is not accepted.")
    await second.page.fill("#door-key", artery.key)
    await second.page.press("#door-key", "Enter")
    await second.until("the page, by key", lambda state: state["connection"] == "open")
    assert second.errors == []


async def test_the_theme_follows_the_system_until_chosen_and_is_remembered(
    browser: Browser, artery_page_url: str
) -> None:
    screen = await open_page(browser, artery_page_url, color_scheme="dark")
    await screen.until("the page", lambda state: state["connection"] == "open")
    theme = "() => document.documentElement.dataset.theme"
    assert await screen.page.evaluate(theme) == "dark"
    await screen.page.click("#theme")
    assert await screen.page.evaluate(theme) == "light"
    await screen.page.reload()
    assert await screen.page.evaluate(theme) == "light"
    assert screen.errors == []
