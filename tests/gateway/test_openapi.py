"""The description of the interface is true: what it shows is valid, and the server answers as it says."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import msgspec
import pytest
import requests
import schemathesis
import uvloop
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as some
from schemathesis.specs.openapi import checks

from artery.gateway import keys
from tests.faults.trial import LONG, seed
from tests.gateway.made import candle, trade
from tests.gateway.running import Running, started

EXAMPLES = 400 if LONG else 16
SEED = seed(20_261)
ANYTHING = {"port": 0, "requests_per_s": 0.0, "strangers_per_s": 0.0}
# A request may be well-formed and still ask for what cannot be: both a ticker and a market, a key twice requeued.
LEFT_OUT = [checks.positive_data_acceptance, checks.use_after_free, checks.ensure_resource_availability]


class Served:
    """A gateway in a thread of its own, so that a client that waits does not hold it up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._up, self._over = threading.Event(), asyncio.Event()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self.url = self.key = ""

    def __enter__(self) -> "Served":
        self._thread.start()
        assert self._up.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with started(self._folder, gateway=ANYTHING) as running:
            await _fill(running)
            self.url, self.key = running.url, running.key
            self._up.set()
            await self._over.wait()


async def _fill(running: Running) -> None:
    await running.bus.ensure_group("trade", "cg_storage_trade")
    await running.append("trade", trade(1), trade(2))
    await running.candles(candle(0), candle(1, seq=2))
    feed = {"state": "live", "updated_ms": keys.wall_ms() + 3_600_000}
    await running.store.put("artery:feed:sim", msgspec.json.encode(feed))
    for entry in await running.bus.read_new("trade", "cg_storage_trade", "me", 1):
        await running.bus.dead_letter("trade", "cg_storage_trade", entry, "it cannot be stored")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("openapi")) as running:
        yield running


@pytest.fixture(scope="module")
def described(served: Served) -> dict[str, Any]:
    answer = requests.get(f"{served.url}/openapi.json", timeout=30)
    found: dict[str, Any] = answer.json()
    return found


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_everything_that_the_contracts_name_is_there(described: dict[str, Any]) -> None:
    assert {name for name, _ in operations(described)} >= {
        "GET /v1/providers", "GET /v1/markets", "GET /v1/history", "GET /v1/gaps", "GET /v1/keys", "POST /v1/keys",
        "PATCH /v1/keys/{id}", "DELETE /v1/keys/{id}", "GET /v1/dead", "POST /v1/dead/{id}/requeue",
        "POST /v1/session", "GET /v1/session", "DELETE /v1/session", "GET /udf/config", "GET /udf/symbols",
        "GET /udf/search", "GET /udf/history", "GET /udf/time", "GET /healthz", "GET /readyz", "GET /metrics",
    }  # fmt: skip
    names = [operation["operationId"] for _, operation in operations(described)]
    assert len(names) == len(set(names))


def test_every_answer_and_every_error_has_an_example_and_it_is_valid(described: dict[str, Any]) -> None:
    shown = 0
    for name, operation in operations(described):
        contents = [
            (status, content)
            for status, answer in operation["responses"].items()
            for content in answer.get("content", {}).values()
        ]
        contents += [("body", content) for content in operation.get("requestBody", {}).get("content", {}).values()]
        for status, content in contents:
            schema = {**content["schema"], "components": described["components"]}
            assert list(jsonschema_rs.iter_errors(schema, content["example"])) == [], (name, status)
            shown += 1
        for parameter in operation.get("parameters", []):
            assert jsonschema_rs.is_valid(parameter["schema"], parameter["example"]), (name, parameter["name"])
            default = parameter["schema"].get("default", parameter["example"])
            assert jsonschema_rs.is_valid(parameter["schema"], default), (name, parameter["name"])
        assert {"400", "403", "429", "503"} <= set(operation["responses"]), name
    assert shown > 100


# The generator draws from `random`, which Hypothesis seeds and frowns upon.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.timeout(3_600 if LONG else 300)
def test_the_server_does_what_its_description_says(served: Served, described: dict[str, Any]) -> None:
    """Generated requests, right and wrong ones, of one seed: no 500, and no answer that is not described.

    ART_FAULT_LONG=1 makes it many more, of a new seed; ART_FAULT_SEED=n repeats a run.
    """
    print(f"seed {SEED}")
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=served.url)
    called = 0
    for result in schema.get_all_operations():
        called += _checked(result.ok(), served.key)
    assert called > 10 * EXAMPLES


def _checked(operation: schemathesis.APIOperation, key: str) -> int:
    """Ask for one operation in many ways; return in how many."""
    # A chart, a probe and a scraper may send parameters that only they know.
    left_out = LEFT_OUT if operation.path.startswith("/v1/") else [*LEFT_OUT, checks.negative_data_rejection]
    cases = some.one_of(*(operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode))
    called = 0

    @seeded(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def check(case: schemathesis.Case) -> None:
        nonlocal called
        called += 1
        answer = case.call(headers={"Authorization": f"Bearer {key}"}, timeout=30)
        unsent = [] if _is_sent(case, answer) else [checks.negative_data_rejection]
        case.validate_response(answer, excluded_checks=[*left_out, *unsent])

    check()
    return called


def _is_sent(case: schemathesis.Case, answer: schemathesis.Response) -> bool:
    """Whether every parameter was in the address: one that is an empty list, which no address can say, was left out."""
    sent = parse_qs(urlsplit(answer.request.url or "").query, keep_blank_values=True)
    return set(map(str, case.query or {})) <= sent.keys()
