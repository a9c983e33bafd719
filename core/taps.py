"""Listening to a forward pass, and changing it: one way in for traces, ablation and patching.

A tap is a function that is offered each named value on its way and returns the value to go on with.
"""

from collections.abc import Callable

from torch import Tensor

Tap = Callable[[str, Tensor], Tensor]


class Recorder(dict[str, Tensor]):
    """A tap that keeps every value under its name and changes none."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Remember a copy of the value and hand the value on."""
        self[name] = value.detach().clone()
        return value


class Patch:
    """A tap that replaces the values it is given by name and lets the others pass."""

    def __init__(self, values: dict[str, Tensor]) -> None:
        self.values = values

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Return the replacement for this name, or the value itself.

        Raises:
            ValueError: If the replacement has another shape than the value.
        """
        replacement = self.values.get(name)
        if replacement is None:
            return value
        if replacement.shape != value.shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, "
                f"but its replacement has {tuple(replacement.shape)}."
            )
        return replacement


class AblateHead:
    """A tap that silences one head: what it would have added to its layer becomes zero."""

    def __init__(self, layer: int, head: int) -> None:
        self._name = f"blocks.{layer}.attn.mixed"
        self._head = head

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Zero the head's share of the mixed values, (B, H, T, Dh)."""
        if name != self._name:
            return value
        silenced = value.clone()
        silenced[:, self._head] = 0.0
        return silenced


def scoped(tap: Tap | None, prefix: str) -> Tap | None:
    """Give the values of a part their address: `scoped(tap, "blocks.2")` sees "blocks.2.attn"."""
    if tap is None:
        return None
    return lambda name, value: tap(f"{prefix}.{name}", value)


def offer(tap: Tap | None, name: str, value: Tensor) -> Tensor:
    """Offer a value to the tap, if there is one, and return what to go on with."""
    return value if tap is None else tap(name, value)
