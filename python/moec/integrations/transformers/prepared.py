# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts modules whose forward runs moec, with copied weights or with weights packed in place."""

import threading
import weakref
from typing import Any, NamedTuple

import torch

from moec.errors import Capturing, InvalidArgument
from moec.integrations.transformers import check
from moec.integrations.transformers.experts import Description, Found, describe
from moec.torch.modules import Experts
from moec.torch.ops import call_before

NAME = "moec"
MAX_TOKENS = 8192
ATTRIBUTE = "_moec"
FROM_FILES = "moec loaded its weights from a checkpoint"
HOW_TO_LEAVE = "call moec.integrations.transformers.detach(model) first"

_lock = threading.Lock()


class Stale(InvalidArgument):
    """The weights have changed since they were packed."""


class Prepared:
    """A moec layer that runs instead of an experts module's own forward."""

    def __init__(self, found: Found, description: Description | None, top_k: int, experts: Experts) -> None:
        self.label, self.description, self.top_k = found.name, description, top_k
        self.experts = experts
        self.max_tokens = experts.package.max_tokens
        self.error: float | None = None
        """The error that the check found; None without a check."""
        self.kept: dict[str, torch.nn.Parameter] = {}
        """Parameters that were packed in place, by their names in the module."""
        self.hidden: tuple[str, ...] = ()
        """Names of parameters that are hidden from the module."""
        self.order: list[str] = []
        """Names of the module's parameters before some were hidden."""
        self.router: Any = None
        """The router that replace_blocks() made return logits."""
        self.former: str | None = None
        """The module's implementation before attach()."""
        self.parameters: tuple[torch.nn.Parameter, ...] = ()
        """The module's weights, which may require a gradient."""
        self.versions: list[tuple[str, torch.Tensor, int, int]] = []
        """Weights that were copied: names in the module, parameters, addresses and version counters."""
        self.versions_of_others: list[tuple[str, torch.Tensor, int, int]] = []

    def watch(self, module: Any, names: list[str], others: dict[str, torch.Tensor]) -> None:
        """Stores the versions of copied weights and of other tensors of the layer. A run fails if a tensor has changed."""
        self.versions = [self._version(name, module._parameters[name]) for name in names]
        self.versions_of_others = [self._version(name, tensor) for name, tensor in others.items()]
        # The table of layers must not keep this object alive.
        reference = weakref.ref(self)

        def before() -> None:
            if (made := reference()) is not None:
                made.check_versions()

        call_before(self.experts._number, before)

    def _version(self, name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor, int, int]:
        if tensor.is_inference():
            raise InvalidArgument(
                f"{self.label}.{name} was made in inference mode, where torch does not count changes; "
                "use moec.integrations.transformers.attach(model)"
            )
        return (name, tensor, tensor.data_ptr(), tensor._version)

    def check_versions(self, module: Any = None) -> None:
        """Raises Stale if a weight has changed since it was copied, or was replaced by another parameter."""
        for name, tensor, address, version in (*self.versions, *self.versions_of_others):
            if tensor.data_ptr() != address or tensor._version != version:
                raise Stale(f"{self.label}.{name} has changed since moec packed it; call attach(model) again")
        if module is not None and any(module._parameters.get(name) is not tensor for name, tensor, _, _ in self.versions):
            raise Stale(f"{self.label}: its parameters are others than those that moec packed; call attach(model) again")

    def run(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Returns [tokens, hidden], computed in parts of at most max_tokens tokens.

        ids: [tokens, top_k]; or the logits [tokens, experts] from a router that replace_blocks() has replaced.
        """
        if ids.is_floating_point():
            return self._in_parts(x, ids.contiguous(), None, None)
        if ids.shape[-1] != self.top_k:
            raise InvalidArgument(
                f"{self.label} was prepared for {self.top_k} experts a token, and the router gives {ids.shape[-1]}; "
                f"call attach(model, top_k={ids.shape[-1]})"
            )
        return self._in_parts(x, None, ids.contiguous(), weights.contiguous())

    def _in_parts(self, x: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
        """Runs x in parts of at most max_tokens tokens. `others`: logits, ids and weights."""
        number, most = self.experts.number, self.max_tokens
        # Rows may be padded.
        x = x if x.stride(-1) == 1 else x.contiguous()
        if x.shape[0] <= most:
            result: torch.Tensor = torch.ops.moec.run(number, x, *others, None)
            return result
        parts = [slice(begin, begin + most) for begin in range(0, x.shape[0], most)]
        return torch.cat(
            [
                torch.ops.moec.run(number, x[part], *(each if each is None else each[part] for each in others), None)
                for part in parts
            ]
        )

    def __deepcopy__(self, memo: Any) -> None:
        """Copies nothing: a copied module prepares itself again."""

    def __reduce__(self) -> Any:
        return _nothing, ()


def _nothing() -> None:
    """Returns None, to which a pickled Prepared unpickles: an unpickled module prepares itself again."""


class Routing(NamedTuple):
    """The routing that follows a router's logits, in moec's terms."""

    fields: dict[str, Any]
    """Fields of a layer JSON."""
    tensors: dict[str, torch.Tensor]
    """Stored weights, by moec's names."""
    watched: dict[str, torch.Tensor]
    """The router's tensors that the stored weights were created from, by their names in the router."""


def prepare(
    found: Found,
    *,
    dtype: torch.dtype,
    top_k: int,
    in_place: bool,
    checked: bool,
    max_tokens: int,
    routing: Routing | None = None,
    **options: Any,
) -> Prepared:
    """Packs the weights of a module. If it raises, nothing has changed.

    routing: given if the layer also reads logits.
    """
    label, module = found.name, found.module
    description = describe(label, module, top_k, dtype)
    parameters = {name: module._parameters[name] for name in description.weights.values()}
    tensors = {
        name: parameters[own].data.reshape(description.shapes.get(name, parameters[own].shape))
        for name, own in description.weights.items()
    }
    device = tensors["w13"].device
    expected = None
    if checked:
        hidden = description.source["hidden_size"]
        expected = check.sample(label, module, hidden=hidden, top_k=top_k, dtype=dtype, device=device)
    w13, w2 = tensors.pop("w13"), tensors.pop("w2")
    fields, more = (routing.fields, routing.tensors) if routing else ({}, {})
    experts = Experts.from_weights(
        w13, w2, top_k=top_k, dtype=dtype, fields=description.source | fields, tensors=tensors | more, in_place=in_place,
        max_tokens=max_tokens, **options,
    )  # fmt: skip
    made = Prepared(found, description, top_k, experts)
    made.parameters = tuple(parameters.values())
    try:
        if expected is not None:
            in_dtype = description.source["in_dtype"]
            limit = check.LIMIT_OF_CODES if description.source["quant_config"] else check.LIMITS[in_dtype]
            made.error = check.compare(label, expected, made.run, limit=limit)
        others = routing.watched if routing else {}
        if others or not in_place:
            made.watch(module, [] if in_place else list(parameters), others)
    except BaseException:
        if in_place:
            made.kept = parameters
            restore(made)
        raise
    if in_place:
        made.kept, made.hidden = parameters, tuple(parameters)
    return made


def aliases(made: Prepared) -> dict[str, torch.Tensor]:
    """Returns the parameters whose memory holds packed weights, by moec's names."""
    assert made.description is not None
    values = made.experts.package.values.values()
    packed = {value.may_alias for value in values if value.may_alias}
    shapes = made.description.shapes
    return {
        name: made.kept[own].data.reshape(shapes.get(name, made.kept[own].shape))
        for name, own in made.description.weights.items()
        if name in packed
    }


def restore(made: Prepared) -> None:
    """Restores the stored weights in the parameters, bit for bit."""
    layer = made.experts.layer
    assert layer is not None
    layer.unpack(aliases(made))


class Packed:
    """The base class that hide() puts before a module's own class: type(module) then derives from Packed and the own class."""

    _moec: Prepared
    config: Any

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.config._experts_implementation != NAME:
            raise InvalidArgument(
                f"{self._moec.label}: its weights are packed by moec, and the implementation of experts is "
                f"{self.config._experts_implementation!r}; expected 'moec', or {HOW_TO_LEAVE}"
            )
        return super().forward(*args, **kwargs)  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        made = self.__dict__.get(ATTRIBUTE)
        if made is not None and name in made.hidden:
            raise AttributeError(f"{made.label}.{name} is packed by moec; {HOW_TO_LEAVE}")
        return super().__getattr__(name)  # type: ignore[misc]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        made = self._moec
        if made.description is None:
            raise InvalidArgument(f"{made.label}: {FROM_FILES}, in a form that the module's state_dict cannot hold")
        layer, packed = made.experts.layer, aliases(made)
        assert layer is not None
        # In host memory, because the GPU may not have room for the weights of all layers twice.
        into = {name: torch.empty_like(tensor, device="cpu") for name, tensor in packed.items()}
        layer.unpack(into, host=True)
        for name, own in made.description.weights.items():
            tensor = into[name].reshape(made.kept[own].shape) if name in into else made.kept[own].data
            destination[prefix + own] = tensor

    def _load_from_state_dict(
        self, state: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        made = self._moec
        names = [prefix + name for name in made.hidden]
        if any(name in state for name in names):
            errors.append(f"{made.label}: its weights are packed by moec, so that none can be loaded; {HOW_TO_LEAVE}")
            return
        super()._load_from_state_dict(state, prefix, metadata, strict, missing, unexpected, errors)  # type: ignore[misc]
        if strict:
            missing.extend(names)

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError(f"{self._moec.label}: its weights are packed by moec and cannot be copied; {HOW_TO_LEAVE}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{self._moec.label}: its weights are packed by moec and cannot be pickled; {HOW_TO_LEAVE}")


def hide(module: Any, made: Prepared) -> None:
    """Removes the packed weights from the module, so that nothing else can read them."""
    made.order = list(module._parameters)
    for name in made.hidden:
        del module._parameters[name]
    kind = type(module)
    module.__dict__[ATTRIBUTE] = made
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    module.__class__ = type(kind.__name__, (Packed, kind), names)


def show(module: Any, made: Prepared) -> None:
    """Undoes hide()."""
    module.__class__ = type(module).__mro__[2]
    del module.__dict__[ATTRIBUTE]
    all_of_them = {**module._parameters, **made.kept}
    module._parameters.clear()
    module._parameters.update({name: all_of_them[name] for name in made.order})


def prepared(module: Any) -> Prepared | None:
    found: Prepared | None = module.__dict__.get(ATTRIBUTE)
    return found


@torch.compiler.disable(reason="moec packs the weights before the first run: call moec.integrations.transformers.attach(model)")  # type: ignore[untyped-decorator]
def _prepare_now(module: Any, x: torch.Tensor, ids: torch.Tensor) -> None:
    """Packs a copy of the weights, for a module that attach() has not seen or whose weights have changed."""
    with _lock:
        made = prepared(module)
        if made is not None:
            try:
                made.check_versions(module)
                return
            except Stale:
                if made.router is not None:
                    raise
                module.__dict__[ATTRIBUTE] = None
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            raise Capturing("the first run of an experts module packs its weights; call attach(model) before the capture")
        found = Found(made.label if made else type(module).__name__, module, None)
        most = made.max_tokens if made else MAX_TOKENS
        made = prepare(found, dtype=x.dtype, top_k=ids.shape[-1], in_place=False, checked=True, max_tokens=most)
        module.__dict__[ATTRIBUTE] = made


def experts_forward(
    self: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """Returns [tokens, hidden], computed from hidden_states [tokens, hidden], top_k_index and top_k_weights [tokens, top_k].

    transformers calls it for experts_implementation="moec".
    """
    made = self.__dict__.get(ATTRIBUTE)
    if made is None or (made.versions and not torch.compiler.is_compiling()):
        _prepare_now(self, hidden_states, top_k_index)
        made = self.__dict__[ATTRIBUTE]
    differentiated = (hidden_states, top_k_weights, *made.parameters)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiated):
        raise InvalidArgument(
            "experts_implementation='moec' computes no gradients; call the model in torch.no_grad() or torch.inference_mode(), "
            "or train with experts_implementation='eager'"
        )
    result: torch.Tensor = made.run(hidden_states, top_k_index, top_k_weights)
    return result
