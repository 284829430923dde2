"""What services say: cut into lines, kept within bounds, passed on when it matters."""

from pathlib import Path

from artery.app.output import LINE_MAX_BYTES, LINES_MAX, Lines, LogFile, Loud, level_of


def test_lines_are_whole_whatever_the_pieces() -> None:
    lines = Lines()
    assert lines.take(b"one\ntw") == ["one"]
    assert lines.take(b"o\n\x1b[31mthree\x1b[0m\n") == ["two", "three"]


def test_a_line_without_an_end_is_cut_at_the_limit() -> None:
    lines = Lines()
    taken = lines.take(b"x" * (LINE_MAX_BYTES + 10))
    assert [len(line) for line in taken] == [LINE_MAX_BYTES]
    assert lines.take(b"next\n") == ["next"]


def test_the_level_is_found_in_text_and_in_json() -> None:
    assert level_of("12:00:00 [warning  ] the feed is stale room=ingest") == "warning"
    assert level_of('{"event": "x", "level": "error", "timestamp": "12:00:00"}') == "error"
    assert level_of("WARNING: using incubator modules") == ""


def test_a_log_file_never_grows_past_its_limit(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs" / "one.log", max_bytes=2_000)
    for count in range(1_000):
        log.write(f"line {count}")
    log.close()
    files = list((tmp_path / "logs").iterdir())
    assert sum(path.stat().st_size for path in files) <= 2_100
    assert (tmp_path / "logs" / "one.log").read_text().splitlines()[-1] == "line 999"


def test_a_log_whose_folder_goes_away_does_not_hurt_the_process(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs" / "one.log", max_bytes=100)
    (tmp_path / "logs" / "one.log").unlink()
    (tmp_path / "logs").rmdir()
    for _ in range(50):
        log.write("still here")
    log.close()
    assert not (tmp_path / "logs").exists()


def test_a_flood_of_warnings_is_held_back_and_counted() -> None:
    heard: list[str] = []
    loud = Loud(heard.append)
    for count in range(100):
        loud.take(f"12:00:00 [warning] {count}", now=1.0)
    assert len(heard) == LINES_MAX
    loud.take("12:00:00 [warning] later", now=2.0)
    assert heard[-2:] == [f"({100 - LINES_MAX} more such lines are in its log)", "12:00:00 [warning] later"]
