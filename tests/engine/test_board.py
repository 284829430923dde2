"""What the engine knows, without a bus or a store."""

from artery.engine.board import Board
from tests.engine.made import MINUTE, candle


def test_the_number_of_series_is_bounded() -> None:
    board = Board(series_max=2)
    for number, coin in enumerate(("A", "B", "C"), 1):
        board.candle(str(number), candle(0, coin=coin))
    assert [key.coin for key in board.series()] == ["A", "B"]
    assert len(dict(board.series_to_write())) == 4
    assert dict(board.series_to_write()) == {}
    assert board.series()[0].period == MINUTE
