"""A page of the running Artery, for each test its own."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from bench.running import Running
from tests.web.browser import Screen, chromium, open_page, start_link


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests; each opens pages with a memory of their own."""
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def closed_pages(browser: Browser) -> AsyncIterator[None]:
    """No page goes on working behind the next test's back."""
    yield
    for context in browser.contexts:
        await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def artery_page_url(artery: Running) -> str:
    """A link that opens the page once."""
    return await start_link(artery)


@pytest_asyncio.fixture(loop_scope="module")
async def screen(browser: Browser, artery_page_url: str) -> AsyncIterator[Screen]:
    """The page at a desk, open and full; it may not complain, whatever the test does with it."""
    opened = await open_page(browser, artery_page_url)
    await opened.until_full()
    yield opened
    assert opened.errors == []
