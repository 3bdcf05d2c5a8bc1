# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints: safetensors files of a model, and the weights of a layer out of them."""

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
    """The safetensors files of a model: a folder as Hugging Face writes it, or one file. Its files must not change."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.handle = library().made("checkpoint_open", _c.path(path, "path"))

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The layers that have experts: "layer", "prefix", "experts", "shared_experts", "holds"."""
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
        """The stored weights of one layer, as Package.layer() takes them. On a GPU they are torch tensors there.

        layer: the model's number. None: the first that has experts.
        quantize: the files have floats, and the package stores codes: quantizes on the processor.
        no_shared_experts: the caller computes the shared experts.
        ignored: words of tensors that no value takes and that are left out, "input_scale" say.
        names: the stored weights to load. None: all.
        progress: as moec.compile() takes it.

        Raises NotSupported where package and files disagree; the message says what would take a tensor.
        """
        words = [_c.text(word, "ignored") for word in ignored]
        number = -1 if layer is None else _c.integer(layer, "layer")
        options = _abi.WeightsOptions(
            struct_size=ctypes.sizeof(_abi.WeightsOptions), quantize=quantize, no_shared_experts=no_shared_experts
        )
        # A field of pointers keeps no Python object alive: the array lives as long as this function.
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
