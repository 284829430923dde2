"""No secret is written anywhere but in the answer that shows it: not in a log, not in the numbers, not in the store."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from websockets.exceptions import ConnectionClosed

from artery.gateway import keys
from artery.telemetry import logger, set_up_logs
from tests.gateway.running import Running, started

ANY = {"port": 0, "requests_per_s": 0.0, "strangers_per_s": 0.0}


@pytest.fixture
def loud() -> Iterator[None]:
    """Everything that can be logged is."""
    before = structlog.get_config()
    set_up_logs("debug")
    yield
    structlog.configure(**before)


def everything_in(folder: Path) -> bytes:
    """All that was written there, but for the local user's own key."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "key")


async def used_everywhere(running: Running, text: str, code: str) -> None:
    """Show a key and a code wherever one can be shown, rightly and wrongly."""
    async with running.http({}) as http:
        await http.get("/v1/markets", headers=running.bearer(text))
        await http.get(f"/v1/markets?token={text}", headers=running.bearer(text))
        await http.get(f"/{text}", headers={"Cookie": f"artery_session_sim={text}"})
        await http.get(f"/v1/history?ticker={text}", headers=running.bearer(text))
        await http.get("/v1/markets", headers=running.bearer(text + "x"))
        await http.post("/v1/session", json={"key": text})
        await http.post("/v1/session", json={"key": text, "start": code})
        await http.post("/v1/session", json={"start": code})
        await http.delete("/v1/session")
    shown: list[dict[str, Any]] = [
        {"additional_headers": running.bearer(text)},
        {"uri": f"{running.ws}?token={text}", "additional_headers": {}},
        {"subprotocols": ["artery.v1", f"bearer.{text}"], "additional_headers": {}},
        {"uri": f"{running.ws}?token={text}x", "additional_headers": {}},
    ]
    for options in shown:
        async with running.connect(**options) as socket:
            with suppress(ConnectionClosed):  # the wrong one is shown the door
                await socket.send(f'{{"type":"subscribe","id":"{text}","channels":["{text}"]}}')


async def test_a_secret_is_in_no_log_and_in_no_number(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], loud: None
) -> None:
    async with started(tmp_path, gateway=ANY) as running:
        async with running.http() as admin:
            made = (await admin.post("/v1/keys", json={"user": "ann", "scopes": ["read", "stream"]})).json()
            secret, code = made["key"].split(".")[1], await keys.make_start_code(running.store)
            await used_everywhere(running, made["key"], code)
            logger("gateway").debug("shown", url=f"/v1/stream?token={made['key']}", link=f"/#start={code}")
            numbers = (await admin.get("/metrics")).text
            listed = (await admin.get("/v1/keys")).text
            await running.store.close()  # what fails now is told in the log
            assert (await admin.get("/readyz")).status_code in (200, 503)
            async with running.http({}) as http:
                await http.get("/v1/markets", headers=running.bearer(made["key"] + "y"))
        kept = everything_in(tmp_path)
    said = "".join(capfd.readouterr())
    assert "shown" in said  # it is the log that is looked at
    for where, text in (("log", said), ("numbers", numbers), ("list", listed)):
        assert secret not in text, where
        assert code not in text, where
    assert secret.encode() not in kept
    assert code.encode() not in kept
