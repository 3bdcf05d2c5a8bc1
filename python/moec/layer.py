# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed weights of one layer, and the contexts of its runs."""

import contextlib
import ctypes
import importlib
from collections.abc import Mapping
from typing import Any

from moec import _abi, _c, _memory, arrays
from moec._library import Handle, library
from moec._tensors import Row, packed
from moec._words import did_you_mean
from moec.comm import Communicator
from moec.errors import Capturing, InvalidArgument, WorkspaceTooSmall
from moec.package import Package

__all__ = ["Context", "Layer"]

# vLLM's names of arguments of a run.
ALIASES = {"topk_ids": "given_ids", "topk_weights": "given_weights"}


class Context:
    """The workspace and state of one CUDA stream. Every layer of its package can use it, one run at a time."""

    def __init__(
        self, package: Package, max_tokens: int, *, workspace: Any = None, state: Any = None, comm: Communicator | None = None
    ) -> None:
        self.package = package
        self.max_tokens = max_tokens
        """The maximum number of tokens of a run."""
        self.comm = comm
        """The communicator of this rank, or None."""
        needed = package.workspace_bytes(max_tokens)
        if workspace is None:
            address, workspace_owner = _memory.kept_memory(package, needed, "workspace")
        else:
            address, count, workspace_owner = _memory.bytes_of(package, workspace, "workspace")
            if count < needed:
                raise WorkspaceTooSmall(f"workspace: runs of {max_tokens} tokens need {needed} bytes, and {count} were given")
        options = _abi.ContextOptions(struct_size=ctypes.sizeof(_abi.ContextOptions))
        state_owner: Any = None
        if state is not None and package.state_bytes:
            options.state, options.state_bytes, state_owner = _memory.bytes_of(package, state, "state")
        if comm is not None:
            options.comm = comm.handle._as_parameter_
        with contextlib.nullcontext() if comm is None else comm.calling():
            self._handle: Handle | None = library().made("context_create", package.handle, address, needed, ctypes.byref(options))
        self._handle.memory = (workspace_owner, state_owner, comm and comm.handle)

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise InvalidArgument("the context was closed; Package.context() makes another")
        return self._handle

    def close(self) -> None:
        """Releases the memory. If another thread is enqueueing a run, the memory is released after that run is enqueued."""
        self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"at most {self.max_tokens} tokens"
        return f"<moec.Context of {self.package.name}, {state}>"


def _target_of(package: Any) -> dict[str, Any]:
    """Returns the manifest's target of a loaded package."""
    found: dict[str, Any] = next(each for each in package.manifest["targets"] if each["arch"] == package.arch)
    return found


class Layer:
    """The packed weights of one layer, callable as a function of arrays. Package.layer() creates it."""

    def __init__(
        self, package: Package, weights: Mapping[str, Any], *, in_place: bool, already_packed: bool, stream: Any
    ) -> None:
        self.package = package
        self._handle: Handle | None = None
        # CUDA graphs contain the addresses of these contexts, so another reserve() must not free them.
        self._captured: set[Context] = set()
        queue = _memory.stream_handle(stream, package.gpu)
        if not isinstance(weights, Mapping):
            raise TypeError(
                f"weights: expected a dict of arrays by name, such as {{'w13': ..., 'w2': ...}}; got {type(weights).__name__}"
            )
        arrays_of = dict(weights)
        self._check_names(arrays_of)
        with _memory.allocating_on(queue, package.gpu):
            kind = "torch" if any(map(arrays.is_torch, arrays_of.values())) else ""
            for value in package.values.values():
                free = value.role == "packed_weight" and value.name not in arrays_of and not already_packed
                if free and not (in_place and value.may_alias):
                    arrays_of[value.name] = package.empty(value.name, library=kind)
            rows, views = self._rows(arrays_of, writes=() if already_packed else self._written(arrays_of), stream=queue)
            scratch_bytes = 0 if already_packed else package.pack_scratch_bytes
            scratch, scratch_owner = _memory.device_memory(package, scratch_bytes, "pack_scratch")
            options = _abi.LayerOptions(
                struct_size=ctypes.sizeof(_abi.LayerOptions),
                scratch=scratch,
                scratch_bytes=scratch_bytes,
                already_packed=already_packed,
            )
            buffer, count = packed(rows)
            self._handle = library().made(
                "layer_create", package.handle, ctypes.addressof(buffer), count, ctypes.byref(options), queue or None
            )
        del scratch_owner
        self._stored = {name for name in weights if package.values[name].role == "stored_weight"}
        self._incomplete = ""
        read = self._read_by_runs(arrays_of)
        # The handle owns the arrays, because another thread's run may still hold the handle when this layer is closed.
        self._handle.memory = [found.owner for name, found in views.items() if name in read]
        self.weights: dict[str, Any] = {name: array for name, array in arrays_of.items() if name in read}
        """The arrays that runs read, by name. The layer keeps them alive."""

    def _check_names(self, given: Mapping[str, Any]) -> None:
        known = [name for name, value in self.package.values.items() if value.role.endswith("_weight")]
        for name in given:
            if name not in known:
                raise InvalidArgument(
                    f"package {self.package.name} has no weight '{name}'; "
                    f"{did_you_mean(name, known)}its weights are {', '.join(known)}"
                )

    def _written(self, given: Mapping[str, Any]) -> set[str]:
        """Returns the names of the arrays that packing writes."""
        names = {name for name in given if self.package.values[name].role == "packed_weight"}
        for value in self.package.values.values():
            if value.role == "packed_weight" and value.name not in given and value.may_alias:
                names.add(value.may_alias)
        return names

    def _rows(
        self, given: Mapping[str, Any], *, writes: set[str] | tuple[str, ...], stream: int
    ) -> tuple[list[Row], dict[str, arrays.View]]:
        rows, views = [], {}
        for name, array in given.items():
            value = self.package.values[name]
            found = arrays.view(array, name, stream=stream)
            if name in writes and not found.writable:
                raise InvalidArgument(
                    f"value '{name}': packing writes to this array, which is read-only; give another, or in_place=False"
                )
            row, views[name] = _memory.row_of(self.package, value, found, copies=value.role == "stored_weight")
            rows.append(row)
        return rows, views

    def _read_by_runs(self, given: Mapping[str, Any]) -> set[str]:
        """Returns the weights that a run may read. The host device may read all of them. On a GPU, stored torch tensors that were
        packed into other memory may be freed, because torch's allocator orders the reuse of memory by stream."""
        if self.package.gpu is None:
            return set(given)
        target = _target_of(self.package)
        read = {map_["value"] for map_ in target["tensor_maps"]}
        # A launch of a collective has no kernel.
        launched = {launch.get("kernel") for variant in target["variants"] for launch in variant["launches"]}
        for kernel in target["kernels"]:
            if kernel["name"] in launched:
                read |= {field.get("value", "") for field in kernel["arguments"]["fields"]}
        taken = {value.may_alias for value in self.package.values.values() if value.may_alias and value.name not in given}
        return {name for name, array in given.items() if name in read | taken or not arrays.is_torch(array)}

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise InvalidArgument("the layer was closed; Package.layer() makes another")
        return self._handle

    @property
    def device(self) -> str:
        return self.package.device

    def close(self) -> None:
        """Releases the weights. If another thread is enqueueing a run, they are released after that run is enqueued."""
        self._handle = None
        self.weights = {}

    def repack(self, weights: Mapping[str, Any], first_expert: int, num_experts: int, *, stream: Any = None) -> None:
        """Packs the experts [first_expert, first_expert + num_experts) again, into the layer's own memory.

        weights: for every packed weight, the complete stored weights that it is packed from, by name. The MLP of shared
            experts is packed only if all experts are.
        stream: as Package.layer() accepts it.

        The caller must order the call against runs of the layer.
        """
        handle = self.handle
        queue = _memory.stream_handle(stream, self.package.gpu)
        self._check_names(weights)
        with _memory.allocating_on(queue, self.package.gpu):
            rows, views = self._rows(weights, writes=(), stream=queue)
            count_of_scratch = self.package.pack_scratch_bytes
            scratch, owner = _memory.device_memory(self.package, count_of_scratch, "pack_scratch")
            buffer, count = packed(rows)
            library().check(
                library().layer_repack(
                    handle,
                    ctypes.addressof(buffer),
                    count,
                    _c.integer(first_expert, "first_expert"),
                    _c.integer(num_experts, "num_experts"),
                    scratch,
                    count_of_scratch,
                    queue or None,
                )
            )
        del owner, views

    def reload(self, weights: Mapping[str, Any], *, stream: Any = None) -> None:
        """Replaces all weights in the layer's own memory. Addresses stay valid, also in captured graphs.

        weights: every stored weight that the layer was created from. Weights that runs read without packing are copied; the
            others are packed. The arrays may be freed after the stream has completed this work.
        stream: as Package.layer() accepts it.

        The caller must order the call against runs of the layer. Raises InvalidArgument, before anything is written, if a weight
        is missing, unknown, or has another shape or type. If the call fails later, runs fail until a reload() succeeds.
        """
        handle, package = self.handle, self.package
        queue = _memory.stream_handle(stream, package.gpu)
        self._check_names(weights)
        packs = _target_of(package)["pack"]
        packed_from = {name for pack in packs for name in pack["from"]}
        wanted = self._stored | packed_from
        for found, what in ((wanted - set(weights), "are missing"), (set(weights) - wanted, "are none of them")):
            if found:
                raise InvalidArgument(
                    f"weights: expected all that the layer was made of, {', '.join(sorted(wanted))}; "
                    f"{', '.join(sorted(found))} {what}"
                )
        with _memory.allocating_on(queue, package.gpu):
            rows, views = self._rows(weights, writes=(), stream=queue)
            kept = [(name, self._kept(name, views[name])) for name in sorted(set(weights) - packed_from)]
            count_of_scratch = package.pack_scratch_bytes
            scratch, owner = _memory.device_memory(package, count_of_scratch, "pack_scratch")
            buffer, count = packed(rows)
            experts = max((pack["total_experts"] for pack in packs), default=0)
            # The host checks all values before it writes; a GPU checks them while it packs.
            self._incomplete = "its weights were reloaded in part" if package.gpu is not None else ""
            library().check(
                library().layer_repack(
                    handle, ctypes.addressof(buffer), count, 0, experts, scratch, count_of_scratch, queue or None
                )
            )
            for name, to in kept:
                if package.gpu is None:
                    if to.data != views[name].data:
                        _copy_back(views[name], to)
                else:
                    _copy_on_gpu(weights[name], self.weights[name], name)
            self._incomplete = ""
        del owner, views

    def _kept(self, name: str, given: arrays.View) -> arrays.View:
        """Returns the memory of a weight that runs read without packing. Raises InvalidArgument if the given array does not
        match."""
        to, accepted = arrays.view(self.weights[name], name), self.package.values[name].element_types
        expected, got = ((each.shape, arrays.given_type(each, accepted, name)) for each in (to, given))
        if got != expected:
            raise InvalidArgument(
                f"value '{name}': expected {expected[1]} {list(expected[0])}, as the layer was made of; "
                f"got {got[1]} {list(got[0])}"
            )
        if not to.writable:
            raise InvalidArgument(f"value '{name}': the layer was made from a read-only array, which cannot be overwritten")
        return to

    def unpack(self, into: Mapping[str, Any] | None = None, *, host: bool = False, stream: Any = None) -> dict[str, Any]:
        """Reconstructs the stored weights bit for bit, and waits for the stream. Returns the arrays by name.

        into: arrays by the names of stored weights. None: new arrays for all of them. Arrays that were packed in place may be
            given, but only all of them; the layer then cannot run until repack() has packed all experts again.
        host: the arrays are in host memory, whatever the package's device.
        stream: as Package.layer() accepts it.

        Raises NotSupported for a weight that packing quantizes.
        """
        handle, package = self.handle, self.package
        queue = _memory.stream_handle(stream, package.gpu)
        kind = "torch" if any(map(arrays.is_torch, self.weights.values())) else ""
        with _memory.allocating_on(queue, package.gpu):
            made = (
                dict(into)
                if into is not None
                else {
                    name: package.empty(name, library=kind, host=host)
                    for name, value in package.values.items()
                    # A layer that is used only with given ids may have no routing bias.
                    if value.role == "stored_weight" and (name in self.weights or name != "routing_bias")
                }
            )
            self._check_names(made)
            rows = []
            for name, array in made.items():
                found = arrays.view(array, name, stream=queue)
                if not found.writable:
                    raise InvalidArgument(f"value '{name}': expected an array that may be written, got a read-only one")
                if not host or found.gpu is not None:
                    _memory.check_place(package, found, name)
                element_type = arrays.given_type(found, package.values[name].element_types, name)
                rows.append(Row(name, element_type, found.data, found.shape, found.strides))
            options = _abi.UnpackOptions(struct_size=ctypes.sizeof(_abi.UnpackOptions), to_host=host or package.gpu is None)
            buffer, count = packed(rows)
            library().check(library().layer_unpack(handle, ctypes.addressof(buffer), count, ctypes.byref(options), queue or None))
        return made

    def __call__(
        self,
        x: Any = None,
        logits: Any = None,
        *,
        given_ids: Any = None,
        given_weights: Any = None,
        out: Any = None,
        context: Context | None = None,
        comm: Communicator | None = None,
        stream: Any = None,
        tokens: int | None = None,
        variant: str | None = None,
        overlap_previous: bool = False,
        **others: Any,
    ) -> Any:
        """Runs the layer on the tokens of x. On a GPU the run is enqueued; on the host it is complete when the call returns.

        x: [tokens, hidden]. None if the package is a part of a layer that reads no x.
        logits: [tokens, experts], instead of given_ids and given_weights.
        given_ids, given_weights: [tokens, top_k]. vLLM's names, topk_ids and topk_weights, are also accepted.
        out: the array to write, which may be x itself. None: a new numpy or torch array, like the first input.
        context: the workspace and state to use. None: one of the package's contexts for this stream.
        comm: connects the ranks of a package that exchanges tokens itself. With `context`, it must be the context's communicator.
        stream: as Package.layer() accepts it.
        tokens: the number of tokens. None: the extent of x, or of the input of a part.
        variant: the name of the variant to run. None: chosen by the number of tokens.
        overlap_previous: lets the first launch start before the predecessor launch has ended (programmatic dependent launch). No
            kernel in flight may then write weights.
        others: further inputs and optional outputs of package.values, by name.

        Returns `out`, or a dict of outputs by name if the package has several. Raises TooManyTokens if tokens exceed
        package.max_tokens, ContextInUse if another run uses the context, and Capturing if a captured run has no context.
        """
        package = self.package
        queue = _memory.stream_handle(stream, package.gpu)
        for name, of_given in (("topk_ids", given_ids), ("topk_weights", given_weights)):
            if others.get(name) is not None and of_given is not None:
                raise InvalidArgument(f"{name}: another name of {ALIASES[name]}, which was given, too; expected one of them")
        others = {ALIASES.get(name, name): array for name, array in others.items() if array is not None}
        if context is not None and not isinstance(context, Context):
            raise TypeError(f"context: expected what Package.context() makes, got {type(context).__name__}")
        if comm is not None and not isinstance(comm, Communicator):
            raise TypeError(f"comm: expected a moec.Communicator, got {type(comm).__name__}")
        given = {"x": x, "logits": logits, "given_ids": given_ids, "given_weights": given_weights, "out": out} | others
        given = {name: array for name, array in given.items() if array is not None}
        views = self._run_views(given, queue)
        inputs = [name for name in package.values if name in given and "input" in package.values[name].role]
        if not inputs:
            known = [value.name for value in package.values.values() if "input" in value.role]
            raise InvalidArgument(f"a run of package {package.name} needs inputs, got none; it has {', '.join(known)}")
        first = given[inputs[0]]
        tokens = self._tokens(views) if tokens is None else _c.integer(tokens, "tokens")
        with _memory.allocating_on(queue, package.gpu):
            for name in package.outputs:
                if name not in given:
                    given[name] = package.empty(name, tokens, library="torch" if arrays.is_torch(first) else "")
                    views[name] = arrays.view(given[name], name)
            options = _abi.RunOptions(struct_size=ctypes.sizeof(_abi.RunOptions), overlap_previous=overlap_previous)
            options.variant = _c.text(variant, "variant") if variant is not None else None
            self._run(views, options, context, comm, queue, tokens)
        results = {name: self._like(first, views[inputs[0]], given[name]) for name in package.outputs}
        return next(iter(results.values())) if len(results) == 1 else results

    def _run_views(self, given: Mapping[str, Any], queue: int) -> dict[str, arrays.View]:
        values = self.package.values
        for name in given:
            if name not in values or values[name].role.endswith("_weight"):
                known = [each.name for each in values.values() if not each.role.endswith("_weight")]
                raise InvalidArgument(
                    f"package {self.package.name} has no input or output '{name}'; "
                    f"{did_you_mean(name, known)}it has {', '.join(known)}"
                )
        return {name: arrays.view(array, name, stream=queue, differentiated=True) for name, array in given.items()}

    def _tokens(self, views: Mapping[str, arrays.View]) -> int:
        axes = self.package.token_axes
        name = next((each for each in axes if each in views), None)
        if name is None:
            known = " or ".join(f"'{each}'" for each in axes)
            raise InvalidArgument(f"tokens: expected value {known}, whose extent counts them, or tokens=N")
        rank, axis = self.package.values[name].rank, axes[name]
        if len(views[name].shape) != rank:
            which = ("first", "second", "third")[axis]
            raise InvalidArgument(
                f"value '{name}': expected {rank} dimensions, of which the {which} counts tokens; got {len(views[name].shape)}"
            )
        return views[name].shape[axis]

    def _run(
        self,
        views: dict[str, arrays.View],
        options: _abi.RunOptions,
        context: Context | None,
        comm: Communicator | None,
        queue: int,
        tokens: int,
    ) -> None:
        package, rows, copied = self.package, [], []
        for name, found in views.items():
            value = package.values[name]
            row, used = _memory.row_of(package, value, found, copies=True)
            rows.append(row)
            if value.role in ("output", "optional_output"):
                if not found.writable:
                    raise InvalidArgument(f"value '{name}': expected an array that may be written, got a read-only one")
                if used is not found:
                    copied.append((found, used))
            views[name] = used
        buffer, count = packed(rows)
        handle = self.handle
        if self._incomplete:
            raise InvalidArgument(f"the layer does not run: {self._incomplete}; reload() packs all of them")
        if context is None and _memory.is_capturing(package.gpu):
            context = package.reserved
            if context is None:
                raise Capturing(
                    "a captured run keeps its context: call package.reserve(max_tokens) before the capture, or give context="
                )
            self._captured.add(context)
        if context is not None and comm is not None and context.comm is not comm:
            raise InvalidArgument(f"comm: expected that of the context, {context.comm}, or none; got {comm}")
        own = context is None
        used_context = package.take_context(queue, tokens, comm) if context is None else context
        try:
            library().check(
                library().run(
                    handle,
                    used_context.handle,
                    queue or None,
                    ctypes.addressof(buffer),
                    count,
                    tokens,
                    ctypes.byref(options),
                )
            )
        finally:
            if own:
                package.give_context(queue, used_context, comm)
        for to, made in copied:
            _copy_back(made, to)

    @staticmethod
    def _like(given: Any, view: arrays.View, made: Any) -> Any:
        """Converts bf16 results to ml_dtypes.bfloat16 if the input had this type; returns other results unchanged."""
        if view.element_type == "bf16" and arrays.is_numpy(given) and arrays.is_numpy(made) and made.dtype == "uint16":
            return made.view(given.dtype)
        return made

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"for {self.package.arch} on {self.device}"
        return f"<moec.Layer {self.package.name} {state}>"

    def _repr_html_(self) -> str:
        return self.package._repr_html_()


def _copy_on_gpu(given: Any, to: Any, name: str) -> None:
    """Copies the bits of `given` to `to`, whatever their torch types."""
    if not (arrays.is_torch(given) and arrays.is_torch(to)):
        raise InvalidArgument(f"value '{name}': expected tensors of torch for a layer on a GPU, which runs read as they are")
    torch = importlib.import_module("torch")
    if to.is_contiguous():
        to.view(torch.uint8).copy_(given.contiguous().view(torch.uint8))
    else:
        to.copy_(given.view(to.dtype))


def _copy_back(made: arrays.View, to: arrays.View) -> None:
    element_bytes = arrays.BITS[to.element_type] // 8
    rows, row_bytes, stride = arrays.contiguous_rows(to, element_bytes)
    for row in range(rows):
        ctypes.memmove(to.data + row * stride, made.data + row * row_bytes, row_bytes)
