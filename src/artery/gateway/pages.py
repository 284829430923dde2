"""The page: files that were built by `web/`, or a few words on how to build them."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Artery</title>
<style>
body{font:16px/1.5 system-ui;max-width:40rem;margin:10vh auto;padding:0 1rem}
code{background:#8883;padding:.1em .3em}
</style></head><body>
<h1>Artery is running</h1>
<p>The page has not been built yet. It needs Node 20 or newer: install it, then run <code>make run</code> again, or
<code>cd web &amp;&amp; npm ci &amp;&amp; npm run build</code> and load this page anew.</p>
<p>Everything else works without it: <code>artery tail</code>, <code>artery history</code>, the Python client,
<code>/v1/stream</code> and <a href="/openapi.json">the HTTP interface</a>.</p>
</body></html>
"""


class Pages(StaticFiles):
    """Built files; those with a hash in their name may be kept for ever, the page itself is asked for each time."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(directory=folder or "/nonexistent", html=True, check_dir=False)

    async def check_config(self) -> None:
        """A folder that is not there yet may come: then the page is there too."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code == 404 and path in ("", ".", "index.html"):
                return HTMLResponse(_MISSING)
            raise
        kept = path.startswith("assets/") and response.status_code == 200
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if kept else "no-cache"
        return response
