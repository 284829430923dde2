"""A wall clock that jumps an hour ahead and an hour back under a feed that runs."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from artery.bus.base import Entry, place
from artery.model import codec, fold
from artery.model.events import Clock, Trade
from artery.model.periods import Period
from artery.pipeline.candles import CandleBook
from artery.pipeline.parts import Batch, Partial
from tests.faults.checker import closed_again
from tests.faults.logs import Log
from tests.faults.processes import Stage
from tests.faults.trial import Trial
from tests.faults.venue import scene

HOUR_S = 3_600
PERIODS = (Period(1), Period(60))

ONCE = True


def partials(trades: Sequence[tuple[str, Trade]]) -> list[Partial]:
    """What Spark hands to the candle book for these trades."""
    found = []
    for period in PERIODS:
        for (provider, coin, start), bar in fold.bars([trade for _, trade in trades], period).items():
            newest = max((at for at, trade in trades if trade.coin == coin), key=place)
            found.append(Partial((provider, coin, period.seconds, start), bar, newest))
    return found


def candles(trades: list[Entry], feed: list[Entry]) -> dict[tuple[str, int, int], list[tuple[bool, int]]]:
    """Every state in which each candle was shown, as the log has it."""
    book, at = CandleBook(epoch=1), 0
    shown = defaultdict(list)
    for entry in feed:
        said = codec.decode(entry.fields)
        if not isinstance(said, Clock):
            continue
        new = []
        while at < len(trades) and place(trades[at].id) <= place(said.up_to):
            new.append((trades[at].id, codec.decode(trades[at].fields)))
            at += 1
        batch = Batch(partials([(id_, trade) for id_, trade in new if isinstance(trade, Trade)]), {"sim": said.ts})
        for candle in book.apply(batch, said.ts):
            shown[candle.coin, candle.period.seconds, candle.start_ts].append((candle.closed, candle.rev))
    return shown


def set_clock(file: Path, wrong_s: int) -> None:
    """In one step, because the feed may look at any moment."""
    file.with_suffix(".new").write_text(str(wrong_s))
    file.with_suffix(".new").replace(file)


async def test_a_clock_that_jumps_an_hour_stops_nothing_and_opens_no_candle_again(
    trial: Trial, some_log: Log, stage: Stage
) -> None:
    shift = stage.folder / "shift"
    set_clock(shift, 0)
    async with scene(stage, some_log) as one:
        feed = one.feed("one", shift=str(shift))
        await one.vouched()
        epoch = await one.epoch()
        for hours in [*trial.dice.sample([1, -1], 2), 0]:
            set_clock(shift, hours * HOUR_S)
            await one.vouched(trial.pick(2, 10))
        assert await one.epoch() == epoch, "a clock that jumps must not cost a leader its term"
        await feed.stop()
        said = [event for entry in await one.entries("feed") if isinstance(event := codec.decode(entry.fields), Clock)]
        assert all(old.ts < new.ts for old, new in pairwise(said))
        shown = candles(await one.entries("trade"), await one.entries("feed"))
        assert sum(any(closed for closed, _ in states) for states in shown.values()) >= 3
        assert sum(closed_again(states) for states in shown.values()) == 0
        await one.judge(trial)
