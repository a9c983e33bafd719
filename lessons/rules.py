"""Mistakes that people make on the way from scores to output, each computed as they would.

An answer that equals one of these values is recognised and named; where a mistake happens to give
the right value, it is not listed.
"""

import math

from torch import Tensor

from core.attention import shares
from lessons.answers import is_right
from lessons.lesson import Wrong

Mistake = tuple[float, str]


def named(right: float, *mistakes: Mistake) -> tuple[Wrong, ...]:
    """Keep the mistakes whose value the tolerance rule would refuse."""
    return tuple(
        Wrong(value=value, message=message)
        for value, message in mistakes
        if math.isfinite(value) and not is_right(f"{value:.6f}", right)
    )


def weight_mistakes(scores: Tensor, row: int, col: int) -> list[Mistake]:
    """Return what wrong ways of normalising would put into a cell of the weights, (T, T)."""
    total = scores[row].sum().item()
    mistakes = [
        (scores[row, col].item(), "that is the score itself; a weight is its share of the row"),
        (
            shares(scores.T).T[row, col].item(),
            "that is a softmax down the column, not along the row",
        ),
        (
            shares(scores.flatten()).view_as(scores)[row, col].item(),
            "that divides by the sum over the whole matrix; each row is shared out by itself",
        ),
        (scores[row, col].exp().item(), "that is e^score; it is still to be divided by the sum"),
    ]
    if total:
        mistakes.append(
            (
                scores[row, col].item() / total,
                "that divides the scores by their sum and leaves out the e^",
            )
        )
    return mistakes


def output_mistakes(
    weights: Tensor, keys: Tensor, values: Tensor, row: int, col: int
) -> list[Mistake]:
    """Return what wrong ways of mixing would put into a cell of the output, (T, Dh)."""
    return [
        ((weights[row] @ keys[:, col]).item(), "that mixes the keys; what is mixed are the values"),
        (values[:, col].mean().item(), "that is the plain mean of the values, without weights"),
        (values[:, col].sum().item(), "that adds the values up without their weights"),
        (values[row, col].item(), "that is the token's own value, not the mixture"),
        ((weights[:, row] @ values[:, col]).item(), "that uses a column of the weights as the row"),
    ]
