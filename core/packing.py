"""Fitting names of different lengths into rows of one length. No torch here.

Source: Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination", section 3.1
(best-fit decreasing).
"""

from collections import defaultdict
from collections.abc import Sequence


def pack(lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Put the longest first, each into the fullest row that still holds it.

    Args:
        lengths: Length of each item; none above row_length.
        row_length: Length of a row.

    Returns:
        For each row the numbers of the items in it; every item is in exactly one row.

    Raises:
        ValueError: If an item is longer than a row.
    """
    longest = max(lengths, default=0)
    if longest > row_length:
        raise ValueError(f"an item of length {longest} does not fit a row of {row_length}.")
    rows: list[list[int]] = []
    open_rows: dict[int, list[int]] = defaultdict(list)  # room left -> rows with that much
    for item in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[item]
        room = next((r for r in range(length, row_length + 1) if open_rows[r]), None)
        if room is None:
            row, room = len(rows), row_length
            rows.append([])
        else:
            row = open_rows[room].pop()
        rows[row].append(item)
        open_rows[room - length].append(row)
    return rows
