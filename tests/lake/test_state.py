"""How well a table is kept, in numbers and words; pure."""

from datetime import UTC, datetime

from artery.lake.state import DAY_MS, SMALL_BYTES, SMALL_MAX, SNAPSHOTS_MAX, File, Look, Snap, health_of, month_of
from artery.lake.tables import OHLC, TRADES

NOW = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp() * 1_000)


def file(number: int, size: int = 1_000, low_ms: int = NOW, period_s: int = 0) -> File:
    return File(f"f{number}", 10, size, low_ms, low_ms + 1, period_s)


def test_a_file_is_small_only_if_it_could_be_joined_with_another() -> None:
    files = [file(1), file(2, low_ms=NOW - DAY_MS), file(3, SMALL_BYTES), file(4, SMALL_BYTES)]
    assert health_of(TRADES, Look("trades", files, []), NOW).small == 0
    assert health_of(TRADES, Look("trades", [*files, file(5)], []), NOW).small == 2
    apart = [file(1, period_s=60), file(2, period_s=300)]
    assert health_of(OHLC, Look("ohlc", apart, []), NOW).small == 0


def test_too_many_small_files_or_snapshots_are_said_with_what_to_do() -> None:
    fine = health_of(TRADES, Look("trades", [file(1)], []), NOW)
    assert (fine.ok, fine.words, fine.rows, fine.bytes) == (True, "well kept", 10, 1_000)
    files = [file(number) for number in range(SMALL_MAX + 1)]
    snaps = [Snap(number, 0, NOW, number) for number in range(SNAPSHOTS_MAX + 1)]
    bad = health_of(TRADES, Look("trades", files, snaps), NOW)
    assert not bad.ok
    assert "artery lake compact trades" in bad.words
    assert "artery lake expire trades" in bad.words
    assert bad.small_share == 1.0


def test_joining_files_is_no_news() -> None:
    snaps = [Snap(1, 0, 100, 1, "append"), Snap(2, 1, 200, 2, "replace")]
    assert health_of(TRADES, Look("trades", [file(1)], snaps), NOW).committed_ms == 100


def test_months_are_counted_on_from_year_to_year() -> None:
    times = [datetime(2025, 12, 31, 23, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]
    before, after = (month_of(int(at.timestamp() * 1_000)) for at in times)
    assert after == before + 1
