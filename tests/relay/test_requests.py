"""Requests on 5559: every peer gets its answer, and an accepted request is on the bus."""

import asyncio
import time
from collections.abc import Callable

import pytest
import zmq

from artery.wire import messages, requests
from artery.wire.artery_pb2 import (
    HistoryReadyNotification,
    IngestorControl,
    OHLCBatch,
    StatusRequest,
    StatusResponse,
    SubmitHistoricalRequest,
    SubmitResponse,
)
from artery.wire.envelope import FRAME_MAX
from tests.relay.conftest import House, Peer
from tests.relay.test_fuzz import refused

HOUR = 3_600_000
NOW = int(time.time() * 1_000)


def asked(request_id: str = "r1", **changes: object) -> SubmitHistoricalRequest:
    values: dict[str, object] = {
        "request_id": request_id, "client_id": "c1", "ticker": "SIM:BTC", "start_ms": NOW - HOUR, "end_ms": NOW,
        "period_s": 60,
    }  # fmt: skip
    return SubmitHistoricalRequest(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "options", "before"),
    [
        (zmq.REQ, {}, []),
        (zmq.REQ, {"REQ_CORRELATE": 1}, []),
        (zmq.DEALER, {}, []),
        (zmq.DEALER, {}, [b""]),
        (zmq.DEALER, {}, [b"number", b""]),
    ],
    ids=["REQ", "REQ with correlation", "DEALER", "DEALER like REQ", "DEALER with correlation"],
)
async def test_every_kind_of_peer_gets_its_answer(
    house: House, kind: int, options: dict[str, int], before: list[bytes]
) -> None:
    peer = house.peer(kind, house.where.requests, **options)
    answer = await peer.ask(StatusRequest(request_id="r1"), before)
    assert answer.state == StatusResponse.UNKNOWN
    assert "no such request" in answer.error


async def test_a_request_without_an_ingestor_leaves_nothing_behind(house: House) -> None:
    await house.ingestor("BINANCE:")
    answer = await house.client().ask(asked())
    assert answer.status == SubmitResponse.NO_INGESTOR
    assert "no ingestor of SIM" in answer.error
    assert await house.bus.head("request") == "0"
    assert await house.store.get(requests.key("r1")) is None


async def test_an_accepted_request_is_on_the_bus_before_the_answer_and_wakes_its_exchange(house: House) -> None:
    ingestor, other = await house.ingestor(), await house.ingestor("BINANCE:")
    answer = await house.client().ask(asked())
    assert (answer.status, answer.request_id) == (SubmitResponse.ACCEPTED, "r1")
    assert answer.notification_topic == "RESPONSE:c1|"
    (entry,) = await house.bus.read("request")
    work = requests.decode(entry.fields)
    assert (work.ticker, work.historical.period_s, work.client_id) == ("SIM:BTC", 60, "c1")
    assert work.historical.start_ms % 60_000 == work.historical.end_ms % 60_000 == 0
    assert await ingestor.hear() == ("SIM:", work)
    assert await other.socket.poll(50) == 0


async def test_an_ingestor_that_comes_a_moment_later_is_in_time(house: House) -> None:
    waiting = asyncio.create_task(house.client().ask(asked()))
    await house.ingestor()
    assert (await waiting).status == SubmitResponse.ACCEPTED


async def test_the_same_request_twice_is_one_job(house: House) -> None:
    await house.ingestor()
    client = house.client()
    assert (await client.ask(asked())).status == SubmitResponse.ACCEPTED
    assert (await client.ask(asked())).status == SubmitResponse.DUPLICATE
    assert len(await house.bus.read("request")) == 1
    another = await client.ask(asked(ticker="SIM:ETH"))
    assert another.status == SubmitResponse.INVALID
    assert "used for another request" in another.error


async def test_many_at_once_with_one_id_are_one_job(house: House) -> None:
    await house.ingestor()
    peers = [house.client() for _ in range(20)]
    answers = await asyncio.gather(*(peer.ask(asked()) for peer in peers))
    assert sorted(answer.status for answer in answers) == [SubmitResponse.ACCEPTED] + [SubmitResponse.DUPLICATE] * 19
    assert len(await house.bus.read("request")) == 1


async def test_an_outcome_that_is_there_is_announced_again_to_who_asks_again(house: House) -> None:
    await house.ingestor()
    client, subscriber = house.client(), house.subscriber()
    await subscriber.subscribe("RESPONSE:c1|")
    await client.ask(asked())
    record = requests.read_record(await house.store.get(requests.key("r1")))
    assert record is not None
    outcome = HistoryReadyNotification(request_id="r1", client_id="c1", status=HistoryReadyNotification.READY, rows=60)
    done = requests.Record(record.asked, "done", outcome=requests.text(outcome))
    await house.store.put(requests.key("r1"), requests.write_record(done))
    assert (await client.ask(asked())).status == SubmitResponse.DUPLICATE
    assert await subscriber.hear() == ("RESPONSE:c1|", outcome)
    status = await client.ask(StatusRequest(request_id="r1"))
    assert (status.state, status.outcome) == (StatusResponse.DONE, outcome)


async def test_a_program_that_was_started_anew_takes_up_its_request_by_its_id(house: House) -> None:
    await house.ingestor()
    client, subscriber = house.client(), house.subscriber()
    await subscriber.subscribe("RESPONSE:c2|")
    await client.ask(asked())
    again = await client.ask(asked(client_id="c2"))
    assert (again.status, again.notification_topic) == (SubmitResponse.DUPLICATE, "HISTORY_READY:r1|")
    outcome = HistoryReadyNotification(request_id="r1", client_id="c1", status=HistoryReadyNotification.READY, rows=60)
    record = requests.read_record(await house.store.get(requests.key("r1")))
    assert record is not None
    done = requests.Record(record.asked, "done", outcome=requests.text(outcome))
    await house.store.put(requests.key("r1"), requests.write_record(done))
    again = await client.ask(asked(client_id="c2"))
    assert (again.status, again.notification_topic) == (SubmitResponse.DUPLICATE, "RESPONSE:c2|")
    outcome.client_id = "c2"
    assert await subscriber.hear() == ("RESPONSE:c2|", outcome)
    assert len(await house.bus.read("request")) == 1


async def test_a_request_that_was_noted_but_never_appended_is_appended_when_asked_again(house: House) -> None:
    await house.ingestor()
    client = house.client()
    await client.ask(asked("seen"))
    (entry,) = await house.bus.read("request")
    lost = requests.decode(entry.fields)
    lost.request_id = "lost"
    record = requests.Record(requests.text(lost), since_ms=NOW - 10_000)
    await house.store.put(requests.key("lost"), requests.write_record(record))
    assert (await client.ask(asked("lost"))).status == SubmitResponse.DUPLICATE
    assert [one.fields["request_id"] for one in await house.bus.read("request")] == ["seen", "lost"]


@pytest.mark.parametrize("state", ["queued", "fetching"])
async def test_a_request_of_which_nothing_was_heard_for_long_is_appended_once_more_when_asked_again(
    house: House, state: requests.State
) -> None:
    await house.ingestor()
    client = house.client()
    await client.ask(asked())
    (entry,) = await house.bus.read("request")
    now = int(time.time() * 1_000)
    for since_ms in (now - 120_000, now):
        record = requests.Record(requests.text(requests.decode(entry.fields)), state, since_ms=since_ms)
        await house.store.put(requests.key("r1"), requests.write_record(record))
        for _ in range(2):
            assert (await client.ask(asked())).status == SubmitResponse.DUPLICATE
            assert len(await house.bus.read("request")) == 2
            noted = requests.read_record(await house.store.get(requests.key("r1")))
            assert noted is not None
            assert noted.state == state
    assert {requests.decode(one.fields).request_id for one in await house.bus.read("request")} == {"r1"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start_ms": NOW, "end_ms": NOW - 1}, "must be after"),
        ({"period_s": 0}, "period_s must be 1"),
        ({"period_s": -60}, "period_s must be 1"),
        ({"ticker": "SIM:NOBODY"}, "nobody here knows"),
        ({"ticker": "BTC"}, "is not a ticker"),
        ({"start_ms": NOW + HOUR, "end_ms": NOW + 2 * HOUR}, "in the future"),
        ({"start_ms": 0, "end_ms": 31_556_952_000_000_000, "period_s": 1}, "between 1970 and 2100"),
        ({"start_ms": 0, "period_s": 1}, "ask for a shorter range"),
        ({"start_ms": -5}, "between 1970 and 2100"),
        ({"limit": -1}, "limit must not be below zero"),
        ({"request_id": "", "client_id": ""}, "give a request_id or a client_id"),
        ({"request_id": "a|b"}, "request_id must be"),
        ({"client_id": "x" * 129}, "client_id must be"),
        ({"request_id": "own:first"}, "must not begin with own:"),
    ],
)
async def test_a_bad_request_is_refused_at_once_with_a_sentence(
    house: House, changes: dict[str, object], reason: str
) -> None:
    answer = await house.client().ask(asked(**changes))
    assert answer.status == SubmitResponse.INVALID
    assert reason in answer.error
    assert await house.bus.head("request") == "0"


async def test_a_limit_asks_for_the_newest_candles_and_a_missing_id_is_made(house: House) -> None:
    await house.ingestor()
    answer = await house.client().ask(asked("", limit=10, end_ms=NOW - NOW % 60_000))
    assert answer.status == SubmitResponse.ACCEPTED
    (entry,) = await house.bus.read("request")
    work = requests.decode(entry.fields)
    assert work.request_id == answer.request_id != ""
    assert (work.historical.end_ms - work.historical.start_ms) == 600_000


BAD: list[tuple[str, Callable[[], list[bytes]]]] = [
    ("another version", lambda: [b"\x02", b"\x15"]),
    ("an unknown type", lambda: [b"\x01", b"\x7f"]),
    ("deprecated 0x02", lambda: [b"\x01", b"\x02"]),
    ("deprecated 0x07", lambda: [b"\x01", b"\x07"]),
    ("deprecated 0x08", lambda: [b"\x01", b"\x08"]),
    ("short", lambda: [b"\x01"]),
    ("not protobuf", lambda: [b"\x01", b"\x10\xff\xff"]),
    ("many frames", lambda: [b"\x01"] * 500),
    ("100 KiB", lambda: [b"\x01", b"\x15" + bytes(100 * 1024)]),
    ("no request", lambda: messages.write(OHLCBatch(request_id="r1"))),
]


@pytest.mark.parametrize("frames", [make for _, make in BAD], ids=[name for name, _ in BAD])
async def test_what_is_no_request_is_answered_with_an_error(house: House, frames: Callable[[], list[bytes]]) -> None:
    peer, before = house.peer(zmq.REQ, house.where.requests), refused("requests")
    await peer.send(*frames())
    answer = messages.read(await peer.receive())
    assert isinstance(answer, SubmitResponse)
    assert answer.status == SubmitResponse.INVALID
    assert answer.error
    assert refused("requests") == before + 1
    assert (await peer.ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN


async def test_a_huge_frame_ends_its_own_connection_and_no_other(house: House) -> None:
    other, huge = house.client(), house.client()
    await other.ask(StatusRequest(request_id="r1"))
    await huge.send(b"\x01", b"\x15" + bytes(FRAME_MAX))
    assert (await other.ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN
    assert (await house.client().ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN


async def test_a_cancelled_request_is_told_to_every_ingestor(house: House) -> None:
    await house.ingestor()
    told = house.peer(zmq.SUB, house.where.control)
    told.socket.setsockopt(zmq.SUBSCRIBE, b"")
    await told.hear()  # a sign of life, or what is wanted
    client = house.client()
    await client.ask(asked())
    await client.ask(IngestorControl(action=IngestorControl.CANCEL, request_id="r1"))
    order = await _next_order(told)
    assert (order.action, order.request_id) == (IngestorControl.CANCEL, "r1")
    assert (await _next_order(told)).generation == order.generation, "it is said again for those who come late"


async def _next_order(told: Peer) -> IngestorControl:
    while True:
        _, order = await told.hear()
        assert isinstance(order, IngestorControl)
        if order.action == IngestorControl.CANCEL:
            return order


async def test_an_outcome_that_outlived_its_request_is_announced_to_who_asks_again(house: House) -> None:
    """The store was lost while the request was worked on; the pipeline then knows the outcome alone."""
    await house.ingestor()
    client, subscriber = house.client(), house.subscriber()
    await subscriber.subscribe("RESPONSE:c1|")
    outcome = HistoryReadyNotification(
        request_id="r1", client_id="c1", ticker="SIM:BTC", period_s=60, status=HistoryReadyNotification.READY, rows=60
    )
    done = requests.Record("", "done", outcome=requests.text(outcome))
    await house.store.put(requests.key("r1"), requests.write_record(done))
    assert (await client.ask(asked())).status == SubmitResponse.DUPLICATE
    assert await subscriber.hear() == ("RESPONSE:c1|", outcome)
    other = await client.ask(asked(period_s=300))
    assert (other.status, "used for another request" in other.error) == (SubmitResponse.INVALID, True)
