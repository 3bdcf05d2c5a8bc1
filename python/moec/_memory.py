# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The places of arrays and streams, and memory for a package's device."""

import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from moec import arrays
from moec._tensors import Row
from moec.errors import InvalidArgument

if TYPE_CHECKING:
    from moec.package import Package, Value


def torch_with_streams() -> Any:
    """torch where it uses a GPU already; before, its current stream is the default one."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized() else None


def current_stream(torch: Any, gpu: int) -> int:
    """The CUstream of torch's current stream. gpu: -1 for the current one."""
    ordinal = gpu if gpu >= 0 else torch.cuda.current_device()
    # The function that generated code of torch.compile calls takes a tenth of the time.
    fast = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(fast(ordinal) if fast else torch.cuda.current_stream(ordinal).cuda_stream)


def stream_handle(stream: Any, gpu: int | None) -> int:
    """The CUstream of what a caller calls a stream; 0 on the host."""
    if gpu is None:
        if stream is not None:
            raise InvalidArgument("stream: the package runs on the host, which has no streams; give None")
        return 0
    if stream is None:
        torch = torch_with_streams()
        return current_stream(torch, gpu) if torch else 0
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "cuda_stream"):
        return int(stream.cuda_stream)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(f"stream: expected an integer, a torch.cuda.Stream or what has __cuda_stream__; got {type(stream).__name__}")


@contextlib.contextmanager
def allocating_on(stream: int, gpu: int | None) -> Iterator[None]:
    """torch's memory is ordered by its current stream: it is this one meanwhile."""
    torch = torch_with_streams()
    if gpu is None or torch is None or stream == current_stream(torch, gpu):
        yield
        return
    with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=gpu if gpu >= 0 else None)):
        yield


def is_capturing(gpu: int | None) -> bool:
    torch = torch_with_streams()
    return gpu is not None and torch is not None and bool(torch.cuda.is_current_stream_capturing())


def device_memory(package: "Package", count: int, label: str) -> tuple[int, Any]:
    """The aligned address of so many bytes on the package's device, and their owner."""
    if package.gpu is None:
        return arrays.host_memory(count)
    made = arrays.empty((count,), "u8", gpu=max(package.gpu, 0), library="torch", label=label)
    return made.data_ptr(), made


def kept_memory(package: "Package", count: int, label: str) -> tuple[int, Any]:
    """As device_memory(), for what stays after the call.

    torch.compile runs a function in a pool of its CUDA graph first, into which all of the thread's memory goes, and which must
    be empty then. Another thread's memory goes elsewhere.
    """
    if package.gpu is None:
        return device_memory(package, count, label)
    stream = stream_handle(None, package.gpu)

    def allocate() -> tuple[int, Any]:
        with allocating_on(stream, package.gpu):
            return device_memory(package, count, label)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(allocate).result()


def bytes_of(package: "Package", array: Any, label: str) -> tuple[int, int, Any]:
    """Address, bytes and owner of memory that a caller gives."""
    found = arrays.view(array, label)
    check_place(package, found, label)
    if not found.writable or found.strides is not None:
        raise InvalidArgument(f"{label}: expected a contiguous array that may be written")
    if found.element_type not in arrays.BITS:
        raise InvalidArgument(f"{label}: expected bytes, uint8 say; got {found.element_type}")
    count = arrays.BITS[found.element_type] // 8
    for extent in found.shape:
        count *= extent
    return found.data, count, found.owner


def check_place(package: "Package", found: arrays.View, label: str) -> None:
    have = "host memory" if found.gpu is None else f"memory of GPU {found.gpu}"
    want = "host memory" if package.gpu is None else f"memory of {package.device}"
    same = found.gpu == package.gpu or (package.gpu == -1 and found.gpu is not None)
    if not same:
        raise InvalidArgument(f"value '{label}': expected {want}, where package {package.name} runs; got {have}")


def needed_alignment(value: "Value", found: arrays.View) -> int:
    """Bytes. A type narrower than the value's alignment needs its own size alone, where the value has several types."""
    element_bytes = arrays.BITS[found.element_type] // 8
    return min(value.alignment, element_bytes) if len(value.element_types) > 1 else value.alignment


def row_of(package: "Package", value: "Value", found: arrays.View, *, copies: bool) -> tuple[Row, arrays.View]:
    """The row for the library, and the view that it points into. `copies`: host memory that is not aligned is copied."""
    check_place(package, found, value.name)
    element_type = arrays.given_type(found, value.element_types, value.name)
    if copies:
        found = arrays.aligned_copy(found, arrays.BITS[found.element_type] // 8, needed_alignment(value, found))
    return Row(value.name, element_type, found.data, found.shape, found.strides), found
