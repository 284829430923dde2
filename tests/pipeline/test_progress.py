"""What is said of a query is what its last whole batch was."""

import pytest

from artery.pipeline.progress import Progress


def test_phases_are_those_of_the_last_batch_that_was_done() -> None:
    progress = Progress()
    with progress.batch_of(3):
        with progress.phase("look"):
            assert progress.phases == {}
        with progress.phase("trade"):
            pass
        with progress.phase("trade"):
            pass
    assert (progress.batch, sorted(progress.phases)) == (3, ["look", "trade"])
    with pytest.raises(ValueError, match="broken"), progress.batch_of(4), progress.phase("save"):
        raise ValueError("broken")
    assert (progress.batch, sorted(progress.phases)) == (3, ["look", "trade"])
