# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Determines moec's name and parameters of an activation by evaluating it, without a table of model families."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import torch

from moec.errors import InvalidArgument

# torch may be missing during type checking.
Tensor: TypeAlias = Any
Gated: TypeAlias = Callable[[Tensor, Tensor], Tensor]

# A limit that no f32 value reaches, because swigluoai always has a limit.
NO_LIMIT = 3.0e38
FAR = 1.0e6
TOLERANCE = 1.0e-5


class Activation(NamedTuple):
    """An activation of moec, as fields of a layer JSON."""

    name: str
    order: str
    """The gate_up_order of a layer JSON; "" without a gate."""
    fields: dict[str, float]

    def __str__(self) -> str:
        numbers = ", ".join(f"{name.removeprefix('activation_')} {value:g}" for name, value in self.fields.items())
        return f"{self.name} ({numbers})" if numbers else self.name


def _gelu(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x)


def _gelu_tanh(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def _relu2(x: Tensor) -> Tensor:
    return torch.relu(x).square()


def _swiglu(alpha: float, beta: float, limit: float) -> Gated:
    def apply(gate: Tensor, up: Tensor) -> Tensor:
        gate = gate.clamp(max=limit)
        return gate * torch.sigmoid(alpha * gate) * (up.clamp(-limit, limit) + beta)

    return apply


def _swiglustep(limit: float) -> Gated:
    return lambda gate, up: torch.nn.functional.silu(gate).clamp(max=limit) * up.clamp(-limit, limit)


def _situ(beta: float, linear_beta: float) -> Gated:
    def apply(gate: Tensor, up: Tensor) -> Tensor:
        up = linear_beta * torch.tanh(up / linear_beta) if linear_beta > 0 else up
        return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * up

    return apply


OF_ONE = {"silu": torch.nn.functional.silu, "gelu": _gelu, "gelu_tanh": _gelu_tanh, "relu": torch.relu, "relu2": _relu2}


def _tidy(number: float) -> float:
    """Rounds to six significant digits if that is near enough, to recover the intended decimal number."""
    short = float(f"{number:.6g}")
    return short if abs(short - number) <= 2e-6 * max(1.0, abs(number)) else number


def _candidates(function: Callable[[float, float], float]) -> Iterator[tuple[str, dict[str, float], Gated]]:
    """Yields candidates for an unknown gated activation. `function` returns its value for one gate and one up value. A few values
    determine the parameters of each candidate; the caller compares the candidates with the activation on many values."""
    for name, one in OF_ONE.items():
        if name != "silu":
            yield name, {}, lambda gate, up, one=one: one(gate) * up  # type: ignore[misc]
    # h * sigmoid(alpha * h) * (up + beta) is linear in `up` below the limit.
    near = 0.25
    base = function(near, 0.0)
    slope = (function(near, near) - base) / near
    if 0 < slope < near:
        alpha, beta = _tidy(-math.log(near / slope - 1) / near), _tidy(base / slope)
        limit = _tidy(function(near, FAR) / slope - beta)
        limit = NO_LIMIT if limit > 0.99 * FAR else limit
        if limit > 0 and (alpha, beta) == (1, 0):
            yield "silu", {} if limit == NO_LIMIT else {"swiglu_limit": limit}, _swiglu(alpha, beta, limit)
        elif limit > 0:
            fields = {"swiglu_alpha": alpha, "swiglu_beta": beta, "swiglu_limit": limit}
            yield "swigluoai", fields, _swiglu(alpha, beta, limit)
        # silu(near) divided by near is sigmoid(near).
        step = _tidy(function(near, FAR) * (1 + math.exp(-near)) / near)
        if 0 < step < 0.99 * FAR:
            yield "swiglustep", {"swiglu_limit": step}, _swiglustep(step)
    small = 1e-4
    beta = _tidy(function(FAR, small) / small)
    if 0 < beta < 0.99 * FAR:
        linear_beta = _tidy(function(FAR, FAR) / beta)
        if linear_beta > 0:
            linear_beta = 0.0 if linear_beta > 0.99 * FAR else linear_beta
            yield (
                "situ",
                {"activation_situ_beta": beta, "activation_situ_linear_beta": linear_beta},
                _situ(beta, linear_beta),
            )


def _halves(order: str, gate: Tensor, up: Tensor) -> Tensor:
    if order == "interleaved":
        return torch.stack([gate, up], -1).flatten(-2)
    return torch.cat([gate, up] if order == "gate_first" else [up, gate], -1)


def _same(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and bool(((got - expected).abs() <= TOLERANCE * expected.abs() + 1e-6).all())


def _numbers(limits: list[float]) -> tuple[Tensor, Tensor]:
    """Returns gate and up values of all magnitudes, on both sides of the limits."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor(
        [0.1, 1.0, 4.0, 30.0, 1.0e3, 1.0e5, *(2 * limit for limit in limits if limit < FAR)], dtype=torch.float64
    )
    made = torch.randn(2, len(scales), 64, generator=generator, dtype=torch.float64) * scales[:, None]
    return made[0].flatten(), made[1].flatten()


def gated(apply_gate: Callable[[Tensor], Tensor], label: str) -> Activation:
    """Returns the activation and the gate/up order of a function from [..., 2 * I] to [..., I].

    Raises InvalidArgument for a function that moec does not have.
    """
    for order in ("gate_first", "interleaved", "up_first"):

        def of_halves(gate: Tensor, up: Tensor, order: str = order) -> Tensor:
            return _evaluated(apply_gate, _halves(order, gate, up)[None], label)[0]

        def of_numbers(gate: float, up: float, apply: Gated = of_halves) -> float:
            # Four equal pairs, so that a wrong order does not mix them with other values.
            filled = [torch.full((4,), number, dtype=torch.float64) for number in (gate, up)]
            return float(apply(*filled)[0])

        for name, fields, expected in _candidates(of_numbers):
            gate, up = _numbers(list(fields.values()))
            if _same(of_halves(gate, up), expected(gate, up)):
                return Activation(name, order, fields)
    raise InvalidArgument(
        f"{label}: its _apply_gate is no activation of moec, in no order of gates and ups; expected one of "
        f"{', '.join([*OF_ONE, 'swigluoai', 'swiglustep', 'situ'])}"
    )


def plain(function: Callable[[Tensor], Tensor], label: str) -> Activation:
    """Returns the activation of experts without a gate. Raises InvalidArgument for a function that moec does not have."""
    numbers = _numbers([])[0]
    got = _evaluated(function, numbers, label)
    for name, one in OF_ONE.items():
        if _same(got, one(numbers)):
            return Activation(f"{name}_no_mul", "", {})
    raise InvalidArgument(f"{label}: its act_fn is no activation of moec; expected one of {', '.join(OF_ONE)}")


def _evaluated(function: Callable[[Tensor], Tensor], numbers: Tensor, label: str) -> Any:
    """Returns the function's values in double precision, computed on the CPU."""
    try:
        with torch.no_grad():
            return function(numbers).double()
    except Exception as error:
        raise InvalidArgument(f"{label}: its activation cannot be evaluated on the processor: {error}") from error
