"""The self-test where Artery cannot start: it says so, in JSON too, and leaves nothing running."""

import json
import shutil
from pathlib import Path

from tests.cli.command import artery, left_behind


def test_a_selftest_that_fails_says_where_and_why(tmp_path: Path) -> None:
    done = artery("selftest", "--json", folder=tmp_path, JAVA_HOME=str(tmp_path / "nowhere"), TMPDIR=str(tmp_path))
    assert done.code == 1
    result = json.loads(done.out.splitlines()[-1])
    assert not result["ok"]
    first, last = result["steps"][0], result["steps"][-1]
    assert first["step"] == "gateway answers"
    assert not first["ok"]
    assert "there is no Java there" in first["error"]
    assert last["step"] == "clean stop"
    (kept,) = tmp_path.glob("artery-selftest-*")
    assert str(kept) in last["error"]
    assert left_behind(kept) == []
    shutil.rmtree(kept)
