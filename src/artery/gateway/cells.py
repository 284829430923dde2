"""Columns of the lake's tables as whole numbers and as text. Pure."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from artery.model.decimals import canonical

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Texts = Any
"""An Arrow array."""


def chunk(rows: pa.Table, name: str) -> Texts:
    """A column in one piece."""
    chunks = rows.column(name).chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.array([], rows.schema.field(name).type)])


def ints(rows: pa.Table, name: str) -> Numbers:
    """A column of whole numbers; times in ms."""
    found = chunk(rows, name)
    values: Numbers = found.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return values // 1_000 if pa.types.is_timestamp(found.type) else values


def decimals(rows: pa.Table, name: str) -> Texts:
    """A column of exact decimals as canonical text."""
    text = chunk(rows, name).cast(pa.string())
    short = pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".")
    odd = pc.match_substring(text, "E")
    if not pc.any(odd).as_py():
        return short
    # Arrow writes what is very small with an exponent.
    plain = [canonical(Decimal(each)) for each in text.filter(odd).to_pylist()]
    return pc.replace_with_mask(short, odd, pa.array(plain, pa.string()))
