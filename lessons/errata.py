"""The true values behind errata.toml, computed on the chapters' own sheets."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from lessons.answers import round_half_up
from lessons.chapters.ch02_attention.steps import attention_sheet
from lessons.errata_list import Erratum
from lessons.sheet import Rounding, Sheet, book_rounding, exact

Compute = Callable[[Sheet], float]


def _cell(grid: str, row: str, col: str) -> Compute:
    return lambda sheet: sheet.value(sheet.cell(grid, row, col))


def _product(row: str, token: str, feature: str) -> Compute:
    """One term of an output: a weight times a value."""

    def compute(sheet: Sheet) -> float:
        weight = sheet.grids["weights"].values[_row(sheet, row), _row(sheet, token)]
        value = sheet.grids["V"].values[_row(sheet, token), int(feature)]
        return sheet.rounded(weight * value).item()

    return compute


def _row(sheet: Sheet, token: str) -> int:
    return sheet.grids["X"].rows.index(token)


TRUE: dict[str, Compute] = {
    "sum_sat": _cell("sums", "sat", "sum"),
    "sum_down": _cell("sums", "down", "sum"),
    "percent_down_sat": _cell("weights", "down", "sat"),
    "term_sat_sat_1": _product("sat", "sat", "1"),
    "term_sat_down_0": _product("sat", "down", "0"),
    "term_down_sat_1": _product("down", "sat", "1"),
    "output_down_0": _cell("output", "down", "0"),
}


def true_text(erratum: Erratum) -> str:
    """Return what is true, a number at the precision the book prints."""
    return _as_printed(erratum, exact) if erratum.is_number else erratum.true


def carried_text(erratum: Erratum) -> str:
    """Return what comes out when every operation is rounded, as the book did."""
    return _as_printed(erratum, book_rounding)


def _as_printed(erratum: Erratum, rounding: Rounding) -> str:
    value = TRUE[erratum.true](replace(attention_sheet(), rounded=rounding))
    if erratum.printed.endswith("%"):
        return f"{_rounded(100 * value, 0)}%"
    n_decimals = len(erratum.printed.partition(".")[2])
    return _rounded(value, n_decimals)


def _rounded(value: float, n_decimals: int) -> str:
    return f"{float(round_half_up(Fraction(value), n_decimals)):.{n_decimals}f}"
