"""A page of the running Artery, for each test its own."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from bench.running import Running
from tests.web.browser import Screen, chromium, open_page, start_link


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest.fixture
async def artery_page_url(artery: Running) -> str:
    """A link that opens the page once."""
    return await start_link(artery)


@pytest.fixture
async def screen(browser: Browser, artery_page_url: str) -> AsyncIterator[Screen]:
    """The page at a desk, open and full; it may not complain, whatever the test does with it."""
    opened = await open_page(browser, artery_page_url)
    await opened.until_full()
    yield opened
    assert opened.errors == []
