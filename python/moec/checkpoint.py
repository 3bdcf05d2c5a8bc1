# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads the weights of a layer from the safetensors files of a model."""

import ctypes
import json
import os
from collections.abc import Iterable
from typing import Any

from moec import _abi, _c, arrays
from moec._library import library
from moec._messages import Progress, reported
from moec._tensors import Row, packed
from moec.package import Package

__all__ = ["Checkpoint"]


class Checkpoint:
    """The safetensors files of a model: a folder in the layout of Hugging Face, or a single file. The files must not change while
    they are open."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.handle = library().made("checkpoint_open", _c.path(path, "path"))

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The layers that have experts: a list of dicts with "layer", "prefix", "experts", "shared_experts" and "holds"."""
        made: list[dict[str, Any]] = json.loads(library().text("checkpoint_layers_json", self.handle))
        return made

    def load(
        self,
        package: Package,
        layer: int | None = None,
        *,
        quantize: bool = False,
        no_shared_experts: bool = False,
        ignored: Iterable[str] = (),
        names: Iterable[str] | None = None,
        progress: bool | Progress | None = None,
    ) -> dict[str, Any]:
        """Loads the stored weights of one layer by value name, as Package.layer() accepts them.

        On the host, the arrays are numpy arrays; on a GPU, they are torch tensors on the package's device.

        package: the package of the layer.
        layer: the layer number in the model. None: the first layer with experts.
        quantize: quantizes float weights of the checkpoint on the CPU, for a package that stores codes (quantized values).
        no_shared_experts: leaves the shared experts out, because the caller computes them.
        ignored: words such as "input_scale". Tensors with such a word in their names that no value uses are left out.
        names: the stored weights to load. None: all.
        progress: as moec.compile() accepts it.

        Raises NotSupported if package and checkpoint do not match; the message describes which layer would use the tensor.
        """
        words = [_c.text(word, "ignored") for word in ignored]
        number = -1 if layer is None else _c.integer(layer, "layer")
        options = _abi.WeightsOptions(
            struct_size=ctypes.sizeof(_abi.WeightsOptions), quantize=quantize, no_shared_experts=no_shared_experts
        )
        # A ctypes pointer field does not keep Python objects alive, so this local variable must.
        list_of_words = (ctypes.c_char_p * len(words))(*words)
        if words:
            options.ignored, options.num_ignored = list_of_words, len(words)
        with reported(library(), progress):
            weights = library().made("weights_open", self.handle, package.handle, number, ctypes.byref(options))
            wanted = names if names is not None else [v.name for v in package.values.values() if v.role == "stored_weight"]
            made = {}
            for name in wanted:
                memory = package.empty(name, host=True, library="" if package.gpu is None else "torch")
                value, found = package.values[name], arrays.view(memory, name)
                element_type = arrays.given_type(found, value.element_types, name)
                buffer, count = packed([Row(name, element_type, found.data, found.shape, found.strides)])
                library().check(library().weights_load(weights, ctypes.addressof(buffer), count))
                made[name] = memory if package.gpu is None else memory.to(package.device)
        return made

    def __repr__(self) -> str:
        return f"<moec.Checkpoint {self.path}>"
