"""`artery bus`: what people see of the log, on every backend, and moving from one to another."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from artery.app.bus_copy import copy
from artery.app.bus_entries import Missing, Seen, paced, place_of, span, tail
from artery.app.bus_view import group_rows, letter_rows, opened_bus, requeue_all, stream_rows, warning_of
from artery.bus.base import DEAD, START, Bus
from artery.bus.open import open_bus
from artery.errors import BadInput, Fenced, Unavailable
from tests.cli.command import Done, artery, environment, watched
from tests.kafka import BROKER
from tests.servers import RedisServer, free_port

HOUR_MS = 3_600_000
NOW_MS = 1_730_000_000_000

_server = RedisServer()


@pytest.fixture(scope="module", autouse=True)
def no_server_is_left_behind() -> Iterator[None]:
    yield
    _server.end()


def place(kind: str, folder: Path) -> tuple[str, str]:
    """Where a log of a kind may be, and a base that nobody has used there."""
    if kind == "kafka":
        return BROKER.running_url(), BROKER.new_base()
    return f"sqlite:///{folder}/log/bus.db" if kind == "sqlite" else _server.new_url(), "md_stream"


@pytest.fixture(params=["sqlite", "redis", "kafka"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    opened = open_bus(*place(request.param, tmp_path))
    yield opened
    await opened.close()


def trade(n: int) -> dict[str, str]:
    return {
        "ver": "1", "t": "TRADE", "coin": "BTC", "ts": str(NOW_MS + n), "tid": str(n), "px": "43255", "sz": "0.12",
        "side": "B", "eventTs": str(NOW_MS + n), "provider": "sim", "epoch": "3", "seq": str(n + 1),
    }  # fmt: skip


async def give_up(bus: Bus, count: int) -> None:
    await bus.ensure_group("trade", "cg_test")
    await bus.append("trade", [trade(n) for n in range(count)])
    for entry in await bus.read_new("trade", "cg_test", "one", count):
        await bus.dead_letter("trade", "cg_test", entry, f"{entry.fields['tid']} would not do")


async def all_of(items: AsyncIterator[Seen | Missing]) -> list[Seen | Missing]:
    return [item async for item in items]


async def test_a_stream_says_how_far_back_it_reaches_and_how_fast_it_grows(bus: Bus) -> None:
    old = [(NOW_MS - 30 * HOUR_MS + n, trade(n)) for n in range(60)]
    await bus.restore("trade", old + [(NOW_MS - 30_000, trade(n)) for n in range(60, 180)])
    await bus.ensure_group("candle", "cg_test")
    rows = {row.stream: row for row in await stream_rows(bus, NOW_MS)}
    assert (rows["trade"].length, rows["trade"].hours, rows["trade"].per_s) == (180, 30.0, 2.0)
    assert (rows["trade"].trimmed, rows["trade"].warning) == (False, "")
    assert (rows["candle"].length, rows["candle"].hours, rows["candle"].oldest_ms) == (0, 0.0, 0)
    await bus.trim("trade", keep=100)
    [row] = [row for row in await stream_rows(bus, NOW_MS) if row.stream == "trade"]
    assert (row.trimmed, row.hours < 24) == (True, True)
    assert "less than 24 h; older data comes from the lake" in row.warning


def test_a_young_stream_that_was_never_trimmed_needs_no_warning() -> None:
    assert warning_of(trimmed=False, hours=1.0, lost=0) == ""
    assert warning_of(trimmed=True, hours=25.0, lost=0) == ""
    assert warning_of(trimmed=True, hours=25.0, lost=7).startswith("7 entries were lost")


async def test_a_group_says_what_it_lacks_and_what_it_holds(bus: Bus) -> None:
    await bus.ensure_group("trade", "cg_test")
    ids = await bus.restore("trade", [(NOW_MS + n, trade(n)) for n in range(5)])
    given = await bus.read_new("trade", "cg_test", "one", 3)
    await bus.ack("trade", "cg_test", [given[0].id])
    [row] = await group_rows(bus)
    assert (row.stream, row.group, row.lag, row.pending) == ("trade", "cg_test", 2, 2)
    assert (row.last, row.oldest_pending, row.oldest_pending_ms) == (ids[2], ids[1], NOW_MS + 1)


async def test_dead_letters_are_listed_newest_first_and_requeued_once(bus: Bus) -> None:
    await give_up(bus, 3)
    rows = await letter_rows(bus, 10)
    assert [row.error for row in rows] == ["2 would not do", "1 would not do", "0 would not do"]
    assert (rows[0].stream, rows[0].group, rows[0].tries, rows[0].fields["tid"]) == ("trade", "cg_test", "1", "2")
    assert len(await letter_rows(bus, 2)) == 2
    done = await requeue_all(bus, 100)
    assert [row.error for row in done] == ["", "", ""]
    assert [entry.fields for entry in (await bus.read("trade"))[3:]] == [trade(n) for n in range(3)]
    assert await letter_rows(bus, 10) == []
    assert [row.requeued for row in await letter_rows(bus, 10, every=True)] == [True] * 3
    assert await requeue_all(bus, 100) == []


async def test_a_letter_that_holds_nothing_is_left_and_the_others_are_requeued(bus: Bus) -> None:
    await give_up(bus, 1)
    await bus.append(DEAD, [{"stream": "trade", "id": "1", "group": "g", "error": "trimmed", "tries": "1"}])
    first, second = await requeue_all(bus, 100)
    assert first.error == ""
    assert "nothing of it is left" in second.error


async def test_replay_keeps_the_original_pace_or_n_times_it(bus: Bus) -> None:
    await bus.restore("trade", [(NOW_MS, trade(0)), (NOW_MS + 2_000, trade(1)), (NOW_MS + 5_000, trade(2))])
    for speed, waits in ((1.0, [2.0, 3.0]), (10.0, [0.2, 0.3]), (0.0, [])):
        clock = Clock()
        seen = await all_of(paced(span(bus, "trade", START), speed, sleep=clock.sleep, monotonic=clock.now))
        assert [item.fields["tid"] for item in seen if isinstance(item, Seen)] == ["0", "1", "2"]
        assert [round(wait, 6) for wait in clock.slept] == waits
    with pytest.raises(BadInput, match="a speed is from 0"):
        await all_of(paced(span(bus, "trade", START), -1.0))


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_a_place_is_a_position_a_time_or_the_head(bus: Bus) -> None:
    ids = await bus.restore("trade", [(NOW_MS + n * 60_000, trade(n)) for n in range(10)])
    now_ms = NOW_MS + 10 * 60_000
    assert await place_of(bus, "trade", "", "", now_ms) == ids[-1]
    assert await place_of(bus, "trade", ids[3], "", now_ms) == ids[3]
    assert await place_of(bus, "trade", "", "5m", now_ms) == ids[4]
    with pytest.raises(BadInput, match="is not a position of this log"):
        await place_of(bus, "trade", "soon", "", now_ms)
    with pytest.raises(BadInput, match="either"):
        await place_of(bus, "trade", ids[3], "5m", now_ms)


async def test_what_was_trimmed_is_said_before_what_follows(bus: Bus) -> None:
    await bus.append("trade", [trade(n) for n in range(300)])
    await bus.trim("trade", keep=100)
    first, *rest = await all_of(span(bus, "trade", START))
    assert isinstance(first, Missing)
    assert "was trimmed" in first.missing
    assert [item.fields["tid"] for item in rest if isinstance(item, Seen)] == [str(n) for n in range(200, 300)]
    following = tail(bus, "trade", START)
    assert isinstance(await anext(following), Missing)
    assert isinstance(await anext(following), Seen)
    assert await all_of(span(bus, "book", START)) == []


@pytest.mark.parametrize(
    "kinds", ["sqlite redis", "redis sqlite", "sqlite kafka", "redis kafka", "kafka sqlite"], ids=lambda kinds: kinds
)
async def test_a_copy_has_every_entry_group_and_epoch(kinds: str, tmp_path: Path) -> None:
    source, target = (open_bus(*place(kind, tmp_path)) for kind in kinds.split())
    try:
        await _filled(source)
        told: list[tuple[str, int, int]] = []
        done = await copy(source, target, tell=lambda *about: told.append(about))
        assert {row.stream: (row.copied, row.skipped) for row in done.streams} == {
            "trade": (1_201, 0), "candle": (2, 0), "feed": (1, 0), DEAD: (1, 1),
        }  # fmt: skip
        assert told[-1][0] == DEAD
        await _same(source, target)
        with pytest.raises(BadInput, match="not empty"):
            await copy(source, target)
        assert (await copy(source, target, append=True)).epochs == done.epochs
        assert await target.count_after("trade", START) == 2_402
    finally:
        await source.close()
        await target.close()


async def _filled(source: Bus) -> None:
    """A log that was trimmed, with a group in the middle, another at the end, letters, and words about positions."""
    await source.ensure_group("trade", "cg_test")
    ids = await source.restore("trade", [(NOW_MS + n // 7, trade(n)) for n in range(1_400)])
    await source.trim("trade", keep=1_200)
    await source.ack_up_to("trade", "cg_test", ids[700])
    given = await source.read_new("trade", "cg_test", "one", 10)
    await source.ack("trade", "cg_test", [entry.id for entry in given[:3]])
    for entry in given[3:5]:
        await source.dead_letter("trade", "cg_test", entry, "no")
    first, _ = await source.read(DEAD)
    await source.requeue(first.id)
    await source.ensure_group("trade", "cg_done")
    await source.ack_up_to("trade", "cg_done", await source.head("trade"))
    await source.append("candle", [{"t": "CANDLE", "upTo": ids[900]}, {"t": "CANDLE", "upTo": ids[5]}])
    await source.append("feed", [{"t": "CLOCK", "upTo": ids[1_399]}], writer="sim", epoch=42)


async def _same(source: Bus, target: Bus) -> None:
    old, new = await source.read_back("trade", 10_000), await target.read("trade", limit=10_000)
    old.reverse()
    assert [entry.fields for entry in new] == [entry.fields for entry in old]
    ids = [entry.id for entry in new]
    assert await target.when("trade", ids) == await source.when("trade", [entry.id for entry in old])
    # Of 200 … 1399 and the one requeued, 701 … 710 were given; 706 is the oldest that nobody has done.
    tids = [entry.fields["tid"] for entry in new]
    state = await target.group("trade", "cg_test")
    assert (state.last, state.pending) == (ids[tids.index("705")], 0)
    assert (await target.group("trade", "cg_done")).lag == 0
    candles = await target.read("candle")
    assert [entry.fields["upTo"] for entry in candles] == [ids[tids.index("900")], START]
    [clock] = await target.read("feed")
    assert clock.fields["upTo"] == ids[tids.index("1399")]
    [letter] = await target.read(DEAD)
    assert letter.fields["id"] == ids[tids.index("705")]
    assert await target.fences() == {"sim": 42}
    with pytest.raises(Fenced):
        await target.append("feed", [{"t": "CLOCK"}], writer="sim", epoch=41)


async def test_a_source_that_grows_meanwhile_is_refused(tmp_path: Path) -> None:
    source, target = open_bus(f"sqlite:///{tmp_path}/a.db"), open_bus(f"sqlite:///{tmp_path}/b.db")
    await source.append("trade", [trade(n) for n in range(10)])
    grow = asyncio.Event()

    async def writer() -> None:
        await grow.wait()
        await source.append("book", [{"n": "1"}])

    writing = asyncio.create_task(writer())
    try:
        with pytest.raises(Unavailable, match="grew while it was copied"):
            await copy(_Slow(source, grow, writing), target)  # type: ignore[arg-type]
    finally:
        await source.close()
        await target.close()


class _Slow:
    """A bus on which something is written in the middle of a copy."""

    def __init__(self, bus: Bus, grow: asyncio.Event, written: asyncio.Task[None]) -> None:
        self._bus, self._grow, self._written = bus, grow, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def fences(self) -> dict[str, int]:
        self._grow.set()
        await self._written
        return await self._bus.fences()


def on_the_bus(url: str, work: Callable[[Bus], Awaitable[Any]], base: str = "md_stream") -> Any:
    async def doing() -> Any:
        async with opened_bus(url, base, make=True) as bus:
            return await work(bus)

    return asyncio.run(doing())


def read(done: Done) -> Any:
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_the_commands_answer_people_and_programs(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    url = f"sqlite:///{tmp_path}/sim/bus.db"
    on_the_bus(url, lambda bus: give_up(bus, 2))
    assert {row["stream"]: row["length"] for row in read(artery("bus", "--json", folder=tmp_path))} == {
        "dead": 2, "trade": 2,
    }  # fmt: skip
    assert "replayable" in artery("bus", folder=tmp_path).out
    assert [row["group"] for row in read(artery("bus", "groups", "--json", folder=tmp_path))] == ["cg_test"]
    [newest, oldest] = read(artery("bus", "dead", "--json", folder=tmp_path))
    assert newest["error"] == "1 would not do"
    [done] = read(artery("bus", "requeue", oldest["id"], "--json", folder=tmp_path))
    assert (done["id"], done["error"]) == (oldest["id"], "")
    assert "requeued before" in artery("bus", "requeue", oldest["id"], folder=tmp_path).sentence
    assert "1 of 1 requeued" in artery("bus", "requeue", "--all", folder=tmp_path).out
    assert artery("bus", "dead", folder=tmp_path).out.strip() == "There are no dead letters."
    lines = artery("bus", "replay", "trade", "--from", "0", "--speed", "0", folder=tmp_path).out.splitlines()
    assert len(lines) == 4
    assert "BTC" in lines[0]
    rows = artery("bus", "tail", "trade", "--since", "1h", "--limit", "3", "--json", folder=tmp_path).out.splitlines()
    assert [json.loads(row)["fields"]["tid"] for row in rows] == ["0", "1", "0"]
    assert read(artery("bus", "trim", "--json", folder=tmp_path)) == []


def test_requeueing_all_says_by_its_exit_code_that_some_stayed(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    empty = {"stream": "trade", "id": "1", "group": "g", "error": "trimmed", "tries": "1"}
    on_the_bus(f"sqlite:///{tmp_path}/sim/bus.db", lambda bus: bus.append(DEAD, [empty]))
    done = artery("bus", "requeue", "--all", folder=tmp_path)
    assert (done.code, "0 of 1 requeued" in done.out) == (1, True)
    done = artery("bus", "requeue", "--all", "--json", folder=tmp_path)
    assert (done.code, [row["id"] for row in json.loads(done.out)]) == (1, ["1"])


def test_copy_moves_a_log_to_redis_by_one_command(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", _server.new_url()
    on_the_bus(source, lambda bus: bus.append("trade", [trade(n) for n in range(50)], writer="sim", epoch=7))
    done = read(artery("bus", "copy", source, target, "--json", folder=tmp_path))
    assert ([row["copied"] for row in done["streams"]], done["epochs"]) == ([50], {"sim": 7})
    assert "not empty" in artery("bus", "copy", source, target, folder=tmp_path).sentence
    assert read(artery("bus", "--url", target, "--json", folder=tmp_path))[0]["length"] == 50
    assert "to itself" in artery("bus", "copy", source, source, folder=tmp_path).sentence


def test_no_password_need_stand_among_the_arguments(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", _server.new_url()
    on_the_bus(source, lambda bus: bus.append("trade", [trade(0)]))
    (tmp_path / "target").write_text(f"{target}\n")
    named = f"@{tmp_path}/target"
    read(artery("bus", "copy", "-", named, "--json", folder=tmp_path, ART_BUS_URL=source))
    assert [row["length"] for row in read(artery("bus", "--url", named, "--json", folder=tmp_path))] == [1]
    assert "to itself" in artery("bus", "copy", "-", named, folder=tmp_path, ART_BUS_URL=target).sentence
    assert "name a file that holds" in artery("bus", "--url", f"@{tmp_path}/none", folder=tmp_path).sentence


@pytest.mark.parametrize("words", [(), ("groups",), ("dead",), ("requeue", "--all"), ("trim",)])
def test_who_watches_sees_that_something_is_under_way(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    on_the_bus(f"sqlite:///{tmp_path}/sim/bus.db", lambda bus: bus.append("trade", [trade(0)]))
    said = watched("bus", *words, folder=tmp_path)
    assert any(word in said for word in ("looking at", "requeueing", "trimming"))


def test_the_commands_take_a_log_in_kafka(tmp_path: Path) -> None:
    url, base = place("kafka", tmp_path)
    settings = {"ART_BUS_URL": url, "ART_BUS_BASE": base}
    on_the_bus(url, lambda bus: give_up(bus, 2), base)
    [newest, _] = read(artery("bus", "dead", "--json", folder=tmp_path, **settings))
    [done] = read(artery("bus", "requeue", newest["id"], "--json", folder=tmp_path, **settings))
    assert (done["id"], done["error"]) == (newest["id"], "")
    words = ("bus", "tail", "trade", "--since", "1h", "--limit", "3", "--json")
    lines = artery(*words, folder=tmp_path, **settings).out.splitlines()
    assert [json.loads(line)["fields"]["tid"] for line in lines] == ["0", "1", "1"]


def test_doctor_looks_at_the_topics_of_kafka(tmp_path: Path) -> None:
    url, base = place("kafka", tmp_path)
    topic = NewTopic(f"{base}.trade", 1, 1, config={"retention.ms": "1000"})
    admin = AdminClient({"bootstrap.servers": url.removeprefix("kafka://"), "log_level": 0})
    admin.create_topics([topic])[topic.topic].result(30)
    done = artery("doctor", "--json", folder=tmp_path, ART_BUS_URL=url, ART_BUS_BASE=base)
    said = [one["do"] for one in json.loads(done.out)["findings"] if one["part"] == "the log's Kafka"]
    assert any("set retention.ms=-1" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bus",), "there is no log at"),
        (("bus", "groups", "--url", "kafka://127.0.0.1:{port}"), "nothing listens there"),
        (("bus", "groups", "--url", "redis://127.0.0.1:{port}"), "nothing listens there"),
        (("bus", "requeue"), "say which letter to requeue, or --all"),
        (("bus", "replay", "trade"), "say where to begin"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = artery(*(word.format(port=free_port()) for word in words), folder=tmp_path)
    assert done.code == 1
    assert sentence in done.sentence
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_stream_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    on_the_bus(url, lambda bus: bus.append("trade", [trade(0)]))
    assert "no stream is called 'trades'; there are book" in artery(
        "bus", "tail", "trades", "--url", url, folder=tmp_path
    ).sentence  # fmt: skip


def test_tail_follows_until_it_is_stopped(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    on_the_bus(url, lambda bus: bus.append("trade", [trade(0)]))
    words = [sys.executable, "-m", "artery", "bus", "tail", "trade", "--from", "0", "--url", url, "--json"]
    with subprocess.Popen(words, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["fields"] == trade(0)
        before = time.time() * 1_000
        on_the_bus(url, lambda bus: bus.append("trade", [trade(1)]))
        seen = json.loads(process.stdout.readline())
        assert seen["fields"] == trade(1)
        assert seen["at_ms"] >= int(before)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_doctor_says_what_is_wrong_with_a_redis_server(tmp_path: Path) -> None:
    url = _server.new_url()
    found = json.loads(artery("doctor", "--json", folder=tmp_path, ART_BUS_URL=url, ART_LIVE_URL=url).out)["findings"]
    about = [one for one in found if one["part"] == "the log's Redis"]
    assert [one["state"] for one in about] == ["optional"]
    assert "set maxmemory" in about[0]["do"]
    assert [one["part"] for one in found if "Redis" in one["part"]] == ["the log's Redis", "pub/sub's Redis"]
    away = artery("doctor", "--json", folder=tmp_path, ART_STORE_URL=f"redis://:hunter2@127.0.0.1:{free_port()}/0")
    [one] = [one for one in json.loads(away.out)["findings"] if one["part"] == "the store's Redis"]
    assert (away.code, one["state"], one["found"]) == (1, "missing", "cannot be used")
    assert "nothing listens there" in one["do"]
    assert "hunter2" not in away.out
