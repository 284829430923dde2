"""The lock of those who write the lake: whoever asked first has it first."""

import threading

from artery.pipeline.turn import Turn


def test_a_batch_comes_in_after_the_job_during_which_it_asked() -> None:
    turn, order, asks = Turn(), list[str](), threading.Event()

    def batch() -> None:
        asks.set()
        with turn:
            order.append("batch")

    waiting = threading.Thread(target=batch)
    with turn:
        waiting.start()
        asks.wait()
        while len(turn._asked) < 2:
            waiting.join(0.001)
        order.append("job")
    with turn:
        order.append("job")
    waiting.join()
    assert order == ["job", "batch", "job"]
