"""The place of each event: `(epoch, seq)` in its series, from 1 in each epoch."""

import msgspec

from artery.model.events import Book, Mids, Trade

Stamped = Trade | Book | Mids


class Stamper:
    """Counts each series of one leader's epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._seq: dict[tuple[str, str], int] = {}

    def place(self, coin: str, series: str) -> int:
        """The next `seq` of this series."""
        seq = self._seq.get((coin, series), 0) + 1
        self._seq[coin, series] = seq
        return seq

    def trade(self, event: Trade) -> Trade:
        return msgspec.structs.replace(event, epoch=self.epoch, seq=self.place(event.coin, "TRADE"))

    def book(self, event: Book) -> Book:
        return msgspec.structs.replace(event, epoch=self.epoch, seq=self.place(event.coin, "BOOK_TOPN"))

    def mids(self, event: Mids) -> Mids:
        return msgspec.structs.replace(event, epoch=self.epoch, seq=self.place("*", "MIDS"))
