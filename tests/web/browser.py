"""The page in a real Chromium, and what can be asked of it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from artery.app import up
from artery.settings import load
from bench.running import Running
from tests.journeys.waiting import until

DESK, PHONE = (1440, 900), (390, 844)
_SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NETWORK = ("Failed to load resource", "WebSocket connection to")


@asynccontextmanager
async def chromium(scale: float = 1) -> AsyncIterator[Browser]:
    """The system's own Chromium, or the one that Playwright has fetched; `scale` is the screen's own pixel ratio."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    async with async_playwright() as playwright:
        switches = [*_SWITCHES, f"--force-device-scale-factor={scale}"]
        browser = await playwright.chromium.launch(executable_path=path, args=switches)
        try:
            yield browser
        finally:
            await browser.close()


class Screen:
    """One open page, and what it said on the console."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def errors(self) -> list[str]:
        """What the page itself did wrong: that a server was away is the network's word, not its own."""
        return [words for words in self.complaints if not words.startswith(_NETWORK)]

    async def state(self) -> dict[str, Any]:
        """`window.artery` as it is now; empty while the page is starting."""
        return dict(await self.page.evaluate("() => ({ ...window.artery })"))

    async def until(self, what: str, test: Any, *, within_s: float = 60.0) -> dict[str, Any]:
        """The first state that passes `test`."""

        async def look() -> dict[str, Any] | None:
            state = await self.state()
            return state if state and test(state) else None

        found = await until(f"{what}; the page said {self.complaints}", look, within_s=within_s, every_s=0.1)
        assert found is not None
        return found

    async def until_full(self) -> dict[str, Any]:
        """Everything has arrived: past candles, trades and a book."""
        return await self.until(
            "past candles, trades and a book",
            lambda state: state["history"] == "ready" and state["candles"] > 100 and state["trades"] and state["books"],
            within_s=120,
        )

    async def text(self, selector: str) -> str:
        return (await self.page.inner_text(selector)).strip()

    async def until_text(self, what: str, selector: str, test: Any, *, within_s: float = 60.0) -> str:
        """The first text of an element that passes `test`."""

        async def look() -> str | None:
            words = await self.text(selector)
            return words if test(words) else None

        return await until(what, look, within_s=within_s, every_s=0.1) or ""

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


async def open_page(browser: Browser, link: str, size: tuple[int, int] = DESK, **context: Any) -> Screen:
    """A page with a browser's memory of its own."""
    made = await browser.new_context(viewport={"width": size[0], "height": size[1]}, **context)
    screen = Screen(await made.new_page())
    await screen.page.goto(link)
    return screen


async def start_link(artery: Running) -> str:
    """A one-use link to the page, as `artery open` makes it."""
    return await up.start_link(load({"ART_DATA_DIR": str(artery.folder)}), artery.url)
