"""The learning rate as a pure function of the step, so that a resumed run can't get it wrong.

Sources: Vaswani et al. 2017, section 5.3 (warm-up); Loshchilov and Hutter 2017, "SGDR" (cosine).
No torch here.
"""

import math

from core.config import TrainConfig


def learning_rate_at(step: int, n_steps: int, config: TrainConfig) -> float:
    """Return the learning rate of one update.

    Args:
        step: Updates done before this one, from 0 to n_steps - 1.
        n_steps: Updates in the whole run.
        config: Gives learning_rate (the peak), warmup_steps, schedule and final_share.

    Returns:
        The rate: a straight climb to the peak, then constant, half a cosine or a straight line
        down to final_share of the peak. The first update has a rate above 0, not 0.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, n_steps - config.warmup_steps)
    match config.schedule:
        case "cosine":
            height = 0.5 * (1.0 + math.cos(math.pi * progress))
        case "linear":
            height = 1.0 - progress
        case _:
            return config.learning_rate
    lowest = config.learning_rate * config.final_share
    return lowest + height * (config.learning_rate - lowest)
