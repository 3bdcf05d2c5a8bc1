# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Creates weights and inputs of layers whose sums are exact.

All values are small integers and powers of two, and the routing is given. Tensor cores therefore never round, in whatever order
they sum, so all engines and devices produce the same bits. Needs neither numpy nor torch.
"""

import hashlib
import pathlib
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

# The codes (quantized values) of 0, 1, -1, 2 and -2 by type.
CODES = {
    "f8E4M3FN": (0x00, 0x38, 0xB8, 0x40, 0xC0),
    "f6E3M2FN": (0x00, 0x0C, 0x2C, 0x10, 0x30),
    "f6E2M3FN": (0x00, 0x08, 0x28, 0x10, 0x30),
    "i8": (0, 1, 255, 2, 254),
    "f4E2M1FN": (0x0, 0x2, 0xA, 0x4, 0xC),
    "i4": (0, 1, 15, 2, 14),
}
# Number of nonzero weights in each row of the first matmul; few, so that the values to be squared stay small.
ONES = 3
# In each block of 128 columns, x has its largest magnitude in this column. The magnitude divided by the largest code is a power
# of two, so the scale is exact. No weight uses this column.
LARGEST = 5
PACKED = ("f4E2M1FN", "i4")
SIX_BITS = ("f6E3M2FN", "f6E2M3FN")
STATIC_SCALES = ("a1_scale", "a2_scale", "a1_second_scale", "a2_second_scale")


def single(value: float) -> bytes:
    return struct.pack("<f", value)


def half(value: float) -> bytes:
    return struct.pack("<e", value)


def bfloat(value: float) -> bytes:
    return struct.pack("<f", value)[2:]


FLOATS: dict[str, Callable[[float], bytes]] = {"f32": single, "f16": half, "bf16": bfloat}


def powers(least: int, count: int) -> list[bytes]:
    """Returns `count` f32 powers of two, from 2^least on, as bytes."""
    return [single(2.0 ** (least + i)) for i in range(count)]


def spread(values: Sequence[bytes], ones: int) -> list[bytes]:
    """Returns 256 entries: `ones` entries cycle through values[1:], the others are values[0]."""
    return [values[1 + i % (len(values) - 1)] if i < ones else values[0] for i in range(256)]


def codes_of(element: str) -> list[bytes]:
    """Returns the bytes (or half bytes) of 0, 1, -1, 2 and -2."""
    return [bytes([code]) for code in CODES[element]] if element in CODES else [FLOATS[element](v) for v in (0, 1, -1, 2, -2)]


def drawn(name: str, count: int) -> bytes:
    return hashlib.shake_256(name.encode()).digest(count)


def bits_of(element: str) -> int:
    """Returns the number of bits of a weight element."""
    if element in PACKED or element in SIX_BITS:
        return 4 if element in PACKED else 6
    return 8 * len(codes_of(element)[0])


def six_bits(codes: bytes) -> bytes:
    """Packs 6-bit codes without gaps, the first one in the lowest bits."""
    words = (codes[i] | codes[i + 1] << 6 | codes[i + 2] << 12 | codes[i + 3] << 18 for i in range(0, len(codes), 4))
    return b"".join(word.to_bytes(3, "little") for word in words)


def first_weights(name: str, element: str, experts: int, rows: int, columns: int) -> bytes:
    """Returns rows with ONES weights of 1 and -1."""
    codes, packed = codes_of(element), element in PACKED
    if element in SIX_BITS:
        wide = first_weights(name, "f8E4M3FN", experts, rows, columns)
        return six_bits(wide.translate(bytes.maketrans(bytes(CODES["f8E4M3FN"]), bytes(CODES[element]))))
    size = len(codes[0])
    row_bytes = columns // 2 if packed else columns * size
    data, draws = bytearray(experts * rows * row_bytes), drawn(name, experts * rows * ONES * 3)
    for i in range(experts * rows * ONES):
        number = int.from_bytes(draws[3 * i : 3 * i + 3], "little")
        column, code = (number >> 1) % columns, codes[1 + number % 2]
        if column % 128 == LARGEST:
            continue
        at = i // ONES * row_bytes
        if packed:
            data[at + column // 2] |= code[0] << column % 2 * 4
        else:
            data[at + column * size : at + (column + 1) * size] = code
    return bytes(data)


def scale_of(element: str, power: int) -> bytes:
    """Returns a power of two as a scale."""
    if element == "f8E8M0FNU":
        return bytes([127 + power])
    if element == "f8E4M3FN":
        return bytes([(7 + power) << 3])
    return FLOATS[element](2.0**power)


def table_of(name: str, element: str, wide: bool) -> list[bytes]:
    """Returns a table from a random byte to an element, or two 4-bit codes, of value `name`. wide: 4-bit codes have all
    values."""
    if name == "w2":
        if element in PACKED:
            if wide:
                return [bytes([i]) for i in range(256)]
            codes = CODES[element]
            return [bytes([codes[i % 5] | codes[i // 5 % 5] << 4]) for i in range(100)] + [b"\0"] * 156
        return spread(codes_of(element), 48)
    if name.endswith("zero_point"):
        return [bytes([(0, 1, 0, 255)[i % 4]]) for i in range(256)]
    if "scale" in name:
        return [scale_of(element, i % 2) for i in range(256)]
    raise ValueError(f"no numbers of {name} as {element}")


def write_npy(path: pathlib.Path, dtype: str, shape: Sequence[int], data: bytes) -> None:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    # Packages that are checked concurrently share files.
    part = path.with_suffix(f".{threading.get_ident()}")
    part.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    part.rename(path)


def read_npy(path: pathlib.Path) -> bytes:
    """Returns the bytes of the array in a .npy file."""
    data = path.read_bytes()
    start: int = struct.unpack("<H", data[8:10])[0]
    return data[10 + start :]


def dtype_of(element: str) -> str:
    """Returns NumPy's name of an element type. Floats that NumPy lacks are raw bits."""
    return {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i8": "|i1", "i4": "|u1", "i32": "<i4"}.get(element, "|u1")


def inputs_of(
    manifest: dict[str, Any], name: str, tokens: int, folder: pathlib.Path
) -> tuple[dict[str, pathlib.Path], dict[str, pathlib.Path]]:
    """Writes the values of a package to .npy files in `folder`. Returns {value: path} for weights and for inputs."""
    files: tuple[dict[str, pathlib.Path], dict[str, pathlib.Path]] = {}, {}
    layer = manifest["layer"]
    experts, topk, hidden = layer["num_experts"], layer["top_k"], layer["hidden_size"]
    weights = {value["name"]: value for value in manifest["values"] if value["role"] == "stored_weight"}

    def give(value: str, dtype: str, shape: Sequence[int], data: bytes) -> None:
        path = folder / f"{name}-{value}{'' if value in weights else f'-{tokens}'}.npy"
        files[value not in weights][value] = path
        if not path.exists():
            write_npy(path, dtype, shape, data)

    for value in weights.values():
        element, shape = value["element_types"][0], list(value["shape"])
        if element in PACKED or element in SIX_BITS:
            shape[-1] = shape[-1] * bits_of(element) // 8
        count = 1
        for extent in shape:
            count *= extent
        if value["name"] in STATIC_SCALES:
            # Static scales are equal for all experts.
            data = single(2.0 ** (-4 if value["name"].startswith("a1") else 1)) * count
        elif value["name"] == "w13":
            data = first_weights(f"{name} w13", element, *value["shape"])
        else:
            table = table_of(value["name"], element, name.endswith("a16"))
            of_six = element in SIX_BITS
            data = b"".join(table[byte] for byte in drawn(f"{name} {value['name']}", count * 8 // 6 if of_six else count))
            data = six_bits(data) if of_six else data
        give(value["name"], dtype_of(element), shape, data)
    x = next(value for value in manifest["values"] if value["name"] == "x")["element_types"][0]
    encode = half if x == "f16" else bfloat
    largest = 127.0 if "int8" in name else 7.0
    numbers = [encode(float((0, 1, -1)[i % 3])) for i in range(256)]
    codes = drawn(f"{name} x {tokens}", tokens * hidden)
    x_bytes = (encode(largest) if at % hidden % 128 == LARGEST else numbers[codes[at]] for at in range(tokens * hidden))
    give("x", dtype_of(x), (tokens, hidden), b"".join(x_bytes))
    ids: list[int] = []
    each = drawn(f"{name} ids {tokens}", tokens)
    for token in range(tokens):
        # Half of the tokens select the same experts, so tiles of some experts are full and others have one row.
        start = each[token] % experts if each[token] < 128 else 0
        ids += [(start + i) % experts for i in range(topk)]
    give("given_ids", "<i4", (tokens, topk), struct.pack(f"<{len(ids)}i", *ids))
    shares = b"".join(powers(-2, 4)[byte % 4] for byte in drawn(f"{name} weights {tokens}", tokens * topk))
    give("given_weights", "<f4", (tokens, topk), shares)
    return files
