"""Reading what a learner typed, and judging it. No torch here.

The tolerance rule: an answer is right if it equals the value as the screen shows it, or has at
least 2 significant digits and equals the exact value rounded to the digits typed, or has at least
3 and is within one unit of its last digit. A bare 0 is right only where the value is 0.
"""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction

from data.errors import UsageError

SHOWN_DIGITS = 3
SIGNS = str.maketrans({"−": "-", "–": "-", "＋": "+", "·": "."})


class AnswerError(UsageError):
    """Something that can't be read as an answer of this kind; it costs the learner nothing."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A number as it was typed."""

    value: Fraction
    n_decimals: int | None
    """Digits behind the point; None for a fraction, which is exact."""
    n_significant: int


def read_number(text: str) -> Typed:
    """Read a decimal number, a fraction or a percentage; a comma may stand for the point.

    Raises:
        AnswerError: If it is none of these.
    """
    tidy = re.sub(r"\s", "", text.translate(SIGNS)).removeprefix("+")
    if re.fullmatch(r"-?\d+/\d+", tidy):
        above, below = tidy.split("/")
        if int(below) == 0:
            raise AnswerError(f"{text!r} divides by 0.")
        value = Fraction(int(above), int(below))
        return Typed(value, None, 99)
    is_percent = tidy.endswith("%")
    number = tidy.removesuffix("%").replace(",", ".")
    if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e-?\d{1,3})?", number, re.IGNORECASE):
        raise AnswerError(f"{text!r} is no number; write it like 0.336, 1/3 or 34%.")
    try:
        decimal = Decimal(number)
    except InvalidOperation:
        raise AnswerError(f"{text!r} is no number; write it like 0.336, 1/3 or 34%.") from None
    exponent = decimal.as_tuple().exponent
    n_decimals = max(0, -exponent) if isinstance(exponent, int) else 0
    n_significant = len(decimal.as_tuple().digits) if decimal else 0
    value = Fraction(decimal) / (100 if is_percent else 1)
    return Typed(value, n_decimals + 2 * is_percent, n_significant)


def is_right(text: str, exact: float, *, must_be_exact: bool = False) -> bool:
    """Judge a typed number by the tolerance rule.

    Args:
        text: What was typed.
        exact: The right value in full.
        must_be_exact: For counts, where nothing but the value itself will do.

    Raises:
        AnswerError: If it is no number.
    """
    typed, target = read_number(text), Fraction(exact)
    if must_be_exact or typed.n_decimals is None:
        return abs(typed.value - target) < Fraction(1, 10**9)
    if typed.value == 0:
        return abs(target) < Fraction(1, 10**9)
    if typed.value == round_half_up(target, SHOWN_DIGITS):
        return True
    if typed.n_significant >= 2 and typed.value == round_half_up(target, typed.n_decimals):
        return True
    one_unit = Fraction(1, 10**typed.n_decimals)
    return typed.n_significant >= 3 and abs(typed.value - target) <= one_unit


def round_half_up(value: Fraction, n_decimals: int) -> Fraction:
    """Round to some decimals, a half away from zero; binary noise below 10⁻¹² is no obstacle."""
    nudge = Decimal(1 if value >= 0 else -1).scaleb(-12)
    decimal = Decimal(value.numerator) / Decimal(value.denominator) + nudge
    return Fraction(decimal.quantize(Decimal(1).scaleb(-n_decimals), rounding=ROUND_HALF_UP))


def is_right_shape(text: str, shape: tuple[int, ...]) -> bool:
    """Judge a typed shape, such as (4, 2), 4x2 or 4 2, in any spacing.

    Raises:
        AnswerError: If it is no shape.
    """
    numbers = re.findall(r"\d+", text)
    if not numbers or re.search(r"[^\d\s(),\[\]x×*]", text):
        raise AnswerError(f"{text!r} is no shape; write it like (4, 2).")
    return tuple(map(int, numbers)) == shape


def is_right_choice(text: str, right: str, choices: tuple[str, ...]) -> bool:
    """Judge a typed choice, or its first letters where they name only one.

    Raises:
        AnswerError: If it fits none of the choices, or several.
    """
    tidy = text.strip().casefold()
    fits = [c for c in choices if c.casefold() == tidy]
    fits = fits or [c for c in choices if tidy and c.casefold().startswith(tidy)]
    if len(fits) != 1:
        raise AnswerError(f"{text!r} is not one of {', '.join(choices)}.")
    return fits[0] == right
