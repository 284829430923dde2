"""The candle query between its book and the bus: what is saved was appended, and time goes on."""

import pytest

from artery.errors import Fenced
from artery.pipeline import shelf
from artery.pipeline.fast import SAVE_MAX_S, SAVE_S, WRITER, Onward, save_pause_s
from tests.pipeline.conftest import House, Log
from tests.pipeline.whole import BASE, DAY, Whole, newest, scenario, values, wanted


def test_candles_that_could_not_be_appended_are_not_saved_as_shown(spark: House, log: Log) -> None:
    whole, entries = Whole(spark, log, number=8_100), scenario(3, "FENCED")
    whole.take(entries[:60], entries[59].event_ts)
    whole.run()
    before = log.do(lambda: whole.store.get(f"{shelf.KEY}8100"))
    log.do(lambda: log.bus.append("candle", [], writer=WRITER, epoch=whole.epoch + 1))
    whole.take(entries[60:], entries[-1].event_ts)
    with pytest.raises(Fenced):
        whole.run()
    whole.fast.save()
    assert log.do(lambda: whole.store.get(f"{shelf.KEY}8100")) == before
    whole.begin()
    whole.run()
    whole.end(BASE + 10 * DAY)
    found = {key: values(candle) for key, candle in newest(whole.shown()).items()}
    assert found == wanted(list({one.tid: one for one in entries}.values()))


def test_a_driver_whose_place_was_taken_saves_nothing(spark: House, log: Log) -> None:
    whole, entries = Whole(spark, log, number=8_101), scenario(4, "TAKEN")
    whole.take(entries, entries[-1].event_ts)
    whole.run()
    sleeper = whole.fast
    whole.begin()
    log.do(lambda: log.bus.append("candle", [], writer=WRITER, epoch=whole.epoch))
    with pytest.raises(Fenced):
        sleeper.save()
    log.do(whole.store.close)


def test_time_goes_on_where_it_was_when_the_clock_is_set_back_and_follows_it_when_it_is_ahead() -> None:
    wall, passed = [1_000.0], [5.0]
    now_ms = Onward(0, lambda: wall[0], lambda: passed[0])
    assert now_ms() == 1_000_000
    wall[0], passed[0] = 1_000.0 - 3_600, 7.5
    assert now_ms() == 1_002_500
    wall[0], passed[0] = 1_000.0 + 3_600, 8.0
    assert now_ms() == 4_600_000
    later = Onward(now_ms(), lambda: 1_000.0, lambda: passed[0])
    passed[0] = 9.0
    assert later() == 4_601_000


def test_a_book_that_takes_long_to_save_is_saved_more_seldom_within_a_bound() -> None:
    assert save_pause_s(0.0) == save_pause_s(0.1) == SAVE_S
    assert save_pause_s(0.2) == 10.0
    assert save_pause_s(60.0) == SAVE_MAX_S
