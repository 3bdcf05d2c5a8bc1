# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MoE layers as torch modules. Their packed weights are not parameters: state_dict() is empty, and to() has no effect."""

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import torch

from moec.checkpoint import Checkpoint
from moec.comm import Communicator
from moec.compiler import compile as compile_layer
from moec.compiler import text_of
from moec.errors import InvalidArgument, NoDriver
from moec.layer import Layer
from moec.package import Package, load
from moec.torch.ops import TYPES, register, release

# The host device executes packages of any arch.
HOST_ARCH = "sm_90a"
# The options of moec.compile() that define how ranks share a layer.
LAYOUT = ("dp", "pcp", "tp", "ep", "sp")
NAMES_OF_TYPES = {dtype: name for name, dtype in TYPES.items()}

# Equal layers share a package, so its kernels are loaded once and captures share one reserved context.
_packages: "weakref.WeakValueDictionary[tuple[Any, ...], Package]" = weakref.WeakValueDictionary()
_lock = threading.Lock()


def load_for(
    device: torch.device, source: Any, *, progress: Any = None, comm: Communicator | None = None, **options: Any
) -> Package:
    """Compiles and loads the package of a layer for a torch device. "cpu" is the host device, for tests.

    Equal source, options and communicator return the same package while it is in use.

    comm: the package covers all ranks of the communicator, and exchanges tokens and partial results. Without a layout in the
        options, each rank holds whole experts.
    """
    if comm is not None:
        options = ranks_of(comm, options)
    if device.type not in ("cpu", "cuda"):
        raise InvalidArgument(f"device: expected cpu or cuda, got {device}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise NoDriver(
            f"device: expected a GPU that torch can use for {device}, found none; without one say device='cpu', the host device"
        )
    index = -1 if device.type == "cpu" else torch.cuda.current_device() if device.index is None else device.index
    # The communicator keeps contexts of the package, so the key must not keep the communicator alive.
    end = None if comm is None else weakref.ref(comm)
    key = (text_of(source), index, end, repr(sorted(options.items())))
    with _lock:
        found = _packages.get(key)
    if found is None:
        made = _load(index, source, comm, progress=progress, **options)
        with _lock:
            # Another thread may have inserted the package first.
            found = _packages.setdefault(key, made)
    return found


def ranks_of(comm: Communicator, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of moec.compile() for all ranks of a communicator."""
    if (given := options.get("all_to_all")) not in (None, "gather_scatter", "one_sided"):
        raise InvalidArgument(f"all_to_all: expected gather_scatter or one_sided with comm=, got {given}")
    layout = {} if any(options.get(name) for name in LAYOUT) else {"dp": comm.size, "ep": True}
    return {"all_to_all": "gather_scatter", **layout, **options, "all_ranks": True}


def _load(
    index: int, source: Any, comm: Communicator | None, *, arch: str | None = None, progress: Any = None, **options: Any
) -> Package:
    rank = None if comm is None else comm.rank
    if index < 0:
        files = compile_layer(source, arch=arch or HOST_ARCH, progress=progress, **options)
        return load(files, device="host", rank=rank)
    with torch.cuda.device(index):
        files = compile_layer(source, arch=arch, progress=progress, **options)
        return load(files, device=f"cuda:{index}", rank=rank, progress=progress)


class _Module(torch.nn.Module):
    """A layer that is registered for the torch operations while the module lives."""

    def __init__(self, package: Package, comm: Communicator | None = None) -> None:
        super().__init__()
        self.package = package
        self.comm = comm
        """The communicator of this rank, or None."""
        self.number: int | None = None
        self.layer: Layer | None = None

    def _take(self, layer: Layer) -> None:
        self._drop()
        self.layer, self.number = layer, register(layer, comm=self.comm)

    def _drop(self) -> None:
        if self.number is not None:
            release(self.number)
        self.layer, self.number = None, None

    def __del__(self) -> None:
        if getattr(self, "number", None) is not None:
            self._drop()

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a module of moec cannot be copied: its packed weights belong to one layer")

    def __reduce__(self) -> Any:
        raise TypeError("a module of moec cannot be pickled: save the stored weights")

    @property
    def _number(self) -> int:
        if self.number is None:
            raise InvalidArgument("the module has no weights yet: call load_weights or load_checkpoint")
        return self.number

    def extra_repr(self) -> str:
        package = self.package
        state = "" if self.number is not None else ", no weights"
        return f"{package.name}, {package.arch} on {package.device}, at most {package.max_tokens} tokens{state}"

    def _repr_html_(self) -> str:
        return self.package._repr_html_()


class Experts(_Module):
    """The experts of a layer, without its router."""

    @classmethod
    def from_weights(
        cls,
        w13: torch.Tensor,
        w2: torch.Tensor,
        *,
        top_k: int,
        activation: str = "silu",
        quant_config: Any = None,
        dtype: torch.dtype | None = None,
        fields: Mapping[str, Any] | None = None,
        in_place: bool = False,
        tensors: Mapping[str, torch.Tensor] | None = None,
        comm: Communicator | None = None,
        **options: Any,
    ) -> "Experts":
        """Creates the module from weights on the device to run on.

        w13: [experts, 2 * intermediate, hidden], gate rows followed by up rows.
        w2: [experts, hidden, intermediate].
        top_k: the number of experts of each token.
        activation, quant_config: as in a layer JSON.
        dtype: the type of x. None: the type of w13.
        fields: more fields of the layer JSON. They override the fields that follow from the shapes.
        in_place: packs into the memory of w13 and w2, which overwrites them.
        tensors: the other stored weights by name, such as "w13_scale".
        comm: connects ranks that each hold the same number of experts and have their own tokens. The weights are this rank's
            part. All ranks must create their modules in the same order, and run them with equal token counts.
        options: the options of moec.compile().

        Raises InvalidArgument if shapes or types do not match.
        """
        source = source_of(w13, w2, top_k=top_k, activation=activation, quant_config=quant_config, dtype=dtype)
        source["num_experts"] *= 1 if comm is None else comm.size
        source |= dict(fields or {})
        made = cls(load_for(w13.device, source, comm=comm, **options), comm)
        weights = {"w13": w13, "w2": w2, **(tensors or {})}
        made._take(made.package.layer({name: each.detach() for name, each in weights.items()}, in_place=in_place))
        return made

    def forward(
        self,
        x: torch.Tensor,
        given_ids: torch.Tensor | None = None,
        given_weights: torch.Tensor | None = None,
        expert_map: torch.Tensor | None = None,
        *,
        topk_ids: torch.Tensor | None = None,
        topk_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Runs the experts. Returns [tokens, hidden].

        x: [tokens, hidden].
        given_ids, given_weights: [tokens, top_k].
        expert_map: int32 [experts], the local index of each expert, or -1.
        topk_ids, topk_weights: vLLM's names of given_ids and given_weights.
        """
        ids, weights = given_ids if topk_ids is None else topk_ids, given_weights if topk_weights is None else topk_weights
        result: torch.Tensor = torch.ops.moec.run(self._number, x, None, ids, weights, expert_map)
        return result


def source_of(
    w13: torch.Tensor, w2: torch.Tensor, *, top_k: int, activation: str, quant_config: Any, dtype: torch.dtype | None
) -> dict[str, Any]:
    """Returns the layer JSON of experts with row-major weights of these shapes."""
    if w13.dim() != 3 or w2.dim() != 3 or w13.shape[0] != w2.shape[0]:
        raise InvalidArgument(
            f"w13, w2: expected [experts, gates and ups, hidden] and [experts, hidden, intermediate], "
            f"got {list(w13.shape)} and {list(w2.shape)}"
        )
    type_of_x = NAMES_OF_TYPES.get(dtype or w13.dtype)
    if type_of_x is None:
        raise InvalidArgument(f"dtype: expected the type of x, bfloat16, float16 or float32; got {dtype or w13.dtype}")
    halves = 1 if activation.endswith("_no_mul") else 2
    return {
        "moec_layer": 1,
        "name": "experts",
        "num_experts": w13.shape[0],
        "top_k": top_k,
        "hidden_size": w2.shape[1],
        "intermediate_size": w13.shape[1] // halves,
        "in_dtype": type_of_x,
        "routing_method": "custom",
        "activation": activation,
        "quant_config": quant_config,
    }


class MoE(_Module):
    """A layer with its routing: from logits to the sum over experts."""

    @classmethod
    def from_config(
        cls,
        config: Any,
        *,
        layer: int | None = None,
        device: torch.device | str | None = None,
        comm: Communicator | None = None,
        **options: Any,
    ) -> "MoE":
        """Compiles and loads the layer, without weights.

        config: as moec.compile() accepts it.
        layer: the layer of a model. None: its first layer with experts.
        device: the torch device. None: the current GPU.
        comm: connects ranks that exchange tokens and partial results. x and the result hold this rank's tokens, and the weights
            are this rank's share. Without a layout in the options, whole experts are distributed over ranks that have their own
            tokens. All ranks must create their modules in the same order, and run them with equal token counts.
        options: the options of moec.compile().

        Call load_weights() or load_checkpoint() before the first run.
        """
        where = torch.device("cuda" if device is None else device)
        text_of(config)  # raises errors of the config before a device is selected
        return cls(load_for(where, config, comm=comm, layer=layer, **options), comm)

    def load_weights(self, weights: Mapping[str, torch.Tensor], *, in_place: bool = False) -> "MoE":
        """Packs the stored weights, given by name. `in_place`: as Package.layer() accepts it. Returns the module."""
        self._take(self.package.layer({name: each.detach() for name, each in weights.items()}, in_place=in_place))
        return self

    def load_checkpoint(self, path: str | os.PathLike[str], layer: int | None = None, **options: Any) -> "MoE":
        """Loads and packs the weights of safetensors files. `options`: the options of moec.Checkpoint.load(). Returns the
        module."""
        self._take(self.package.layer(Checkpoint(path).load(self.package, layer, **options), in_place=True))
        return self

    def forward(
        self,
        x: torch.Tensor,
        logits: torch.Tensor | None = None,
        given_ids: torch.Tensor | None = None,
        given_weights: torch.Tensor | None = None,
        *,
        topk_ids: torch.Tensor | None = None,
        topk_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Runs the layer on logits, or on given_ids and given_weights. Returns [tokens, hidden].

        x: [tokens, hidden].
        logits: [tokens, experts].
        given_ids, given_weights: [tokens, top_k].
        topk_ids, topk_weights: vLLM's names of given_ids and given_weights.
        """
        ids, weights = given_ids if topk_ids is None else topk_ids, given_weights if topk_weights is None else topk_weights
        result: torch.Tensor = torch.ops.moec.run(self._number, x, logits, ids, weights, None)
        return result
