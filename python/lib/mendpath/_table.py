"""Tables of Arrow from what the native half gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

# pyarrow takes longer to import than all else together: whoever wants a table waits for it, nobody before.


def table(parquet: bytes) -> pyarrow.Table:
    """What is in a file of Parquet."""
    import pyarrow
    import pyarrow.parquet

    return pyarrow.parquet.read_table(pyarrow.BufferReader(parquet))


def rows(records: list) -> pyarrow.Table:
    """Records with equal keys."""
    import pyarrow

    return pyarrow.Table.from_pylist(records)
