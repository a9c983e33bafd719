"""How the first weights are drawn, before any training.

Sources: Radford et al. 2019, section 2.3 (small residual outputs); He et al. 2015, "Delving Deep
into Rectifiers" (spread by fan-in). LayerNorms always start at 1 and 0, biases at 0.
"""

import math

import torch
from torch import Tensor, nn

EMBEDDING_STD = 0.02
RESIDUAL_OUTPUTS = ("attn.proj.weight", "ff.down.weight")


def initialise(model: nn.Module, init: str, generator: torch.Generator) -> None:
    """Draw every weight of a model anew.

    Args:
        model: A MiniGPT or a baseline with parameters; changed in place.
        init: "book": all matrices N(0, 0.02²), as in Chapter 7. "fan_in": matrices
            N(0, 1/fan_in), those that write into the residual stream half as wide, embeddings
            N(0, 0.02²). "torch": as PyTorch's own layers start: embeddings N(0, 1), matrices and
            biases uniform within 1/sqrt(fan_in).
        generator: Where the draws come from.
    """
    drawn: set[Tensor] = set()  # a tied head is one tensor under two names
    for module_name, module in model.named_modules():
        if not isinstance(module, nn.Linear | nn.Embedding):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter in drawn:
                continue
            drawn.add(parameter)
            _draw(parameter, f"{module_name}.{name}", module, init, generator)


@torch.no_grad()
def _draw(
    parameter: Tensor,
    name: str,
    module: nn.Linear | nn.Embedding,
    init: str,
    generator: torch.Generator,
) -> None:
    is_embedding = isinstance(module, nn.Embedding)
    fan_in = module.embedding_dim if isinstance(module, nn.Embedding) else module.in_features
    if init == "torch":
        if is_embedding:
            parameter.normal_(0.0, 1.0, generator=generator)
        else:
            bound = 1.0 / math.sqrt(fan_in)
            parameter.uniform_(-bound, bound, generator=generator)
    elif parameter.dim() == 1:
        parameter.zero_()
    elif init == "book" or is_embedding:
        parameter.normal_(0.0, EMBEDDING_STD, generator=generator)
    else:
        half = 0.5 if name.endswith(RESIDUAL_OUTPUTS) else 1.0
        parameter.normal_(0.0, half / math.sqrt(fan_in), generator=generator)
