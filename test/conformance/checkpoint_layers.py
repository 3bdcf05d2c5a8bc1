# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random layers as checkpoints hold them: the numbers as matrices of bytes, names as families spell them.

A Matrix is rows of bytes, which is all that a loader may do with numbers: take rows, take columns, put rows of gate and up
into their order. What is expected of it is computed here from the matrices, not from the names.
"""

import ctypes
import random
import struct

# Bits of an element; safetensors' word for it, as PyPI's package takes it.
TYPES = {
    "f32": (32, "float32"), "f16": (16, "float16"), "bf16": (16, "bfloat16"), "f8E4M3FN": (8, "float8_e4m3fn"),
    "f8E8M0FNU": (8, "uint8"), "i8": (8, "int8"), "i4": (4, "uint8"), "f4E2M1FN": (4, "uint8"), "i32": (32, "int32"),
    "f8E5M2": (8, "float8_e5m2"), "f6E3M2FN": (6, "uint8"), "f6E2M3FN": (6, "uint8"),
}


class Matrix:
    """Rows of an element type, as bytes."""

    def __init__(self, element, rows):
        self.element, self.rows = element, rows
        self.bits = TYPES[element][0]

    @property
    def columns(self):
        return len(self.rows[0]) * 8 // self.bits

    def data(self):
        return b"".join(self.rows)

    def take(self, first, count):
        return Matrix(self.element, self.rows[first:first + count])

    def columns_of(self, first, count):
        begin, end = first * self.bits // 8, (first + count) * self.bits // 8
        return Matrix(self.element, [row[begin:end] for row in self.rows])

    def turned(self):
        size = self.bits // 8
        return Matrix(self.element, [b"".join(row[i * size:(i + 1) * size] for row in self.rows) for i in range(self.columns)])

    def __add__(self, other):
        return Matrix(self.element, self.rows + other.rows)

    def alternating(self, other):
        return Matrix(self.element, [row for pair in zip(self.rows, other.rows) for row in pair])

    def widened(self):
        """As f32, of bf16."""
        assert self.element == "bf16"
        return Matrix("f32", [b"".join(b"\0\0" + row[i:i + 2] for i in range(0, len(row), 2)) for row in self.rows])


def number(value, element):
    if element == "f32":
        return struct.pack("<f", value)
    if element == "f16":
        return struct.pack("<e", value)
    assert element == "bf16"
    return struct.pack("<f", value)[2:]


class Numbers:
    """Seeded random matrices."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def floats(self, element, rows, columns, least, most):
        return Matrix(element, [b"".join(number(self.random.uniform(least, most), element) for _ in range(columns))
                                for _ in range(rows)])

    def codes(self, element, rows, columns):
        """Weights that are neither infinite nor NaN, and small where they are floats."""
        if element in ("f32", "f16", "bf16"):
            return self.floats(element, rows, columns, -0.25, 0.25)
        bits = TYPES[element][0]
        made = []
        for _ in range(rows):
            row = bytearray(self.random.randbytes(columns * bits // 8))
            if element in ("f8E4M3FN", "f8E5M2"):
                row = bytes(byte & 0xBF for byte in row)  # below 2
            made.append(bytes(row))
        return Matrix(element, made)

    def scales(self, element, rows, columns, size):
        if element == "f8E8M0FNU":
            return Matrix(element, [bytes(self.random.randrange(115, 121) for _ in range(columns)) for _ in range(rows)])
        if element == "f8E4M3FN":  # 1 to 15
            return Matrix(element, [bytes(self.random.randrange(0x38, 0x57) for _ in range(columns)) for _ in range(rows)])
        return self.floats(element, rows, columns, size / 2, size)


def groups(extent, group):
    return 1 if group == -1 else -(-extent // group)


PARTS = ("gate", "up", "down")


class Layer:
    """The whole layer's matrices: self.of[kind][part][expert], shared experts behind the others."""

    def __init__(self, shape, scheme, gated=True, bias=False, seed=1, shared=0, checkpoint_scale=None):
        self.shape, self.scheme, self.gated, self.shared = shape, scheme, gated, shared
        self.experts = shape["num_experts"]
        self.stored = self.experts + shared
        hidden, wide = shape["hidden_size"], shape["intermediate_size"]
        numbers = Numbers(seed)
        self.extents = {"gate": (wide, hidden), "up": (wide, hidden), "down": (hidden, wide)}
        self.parts = PARTS if gated else PARTS[1:]
        self.of = {"weight": self.make(lambda rows, columns: numbers.codes(scheme["w"], rows, columns))}
        if scheme.get("scale"):
            element = checkpoint_scale or scheme["scale"]
            group_rows, group_columns = scheme["group"]
            size = {"i8": 0.004, "i4": 0.03, "f4E2M1FN": 0.06}.get(scheme["w"], 0.25)
            if scheme.get("second"):
                size = 1
            self.of["scale"] = self.make(lambda rows, columns: numbers.scales(
                element, groups(rows, group_rows), groups(columns, group_columns), size))
        if scheme.get("zero"):
            group_rows, group_columns = scheme["group"]
            self.of["zero"] = self.make(lambda rows, columns: Matrix("i8", [
                bytes(numbers.random.randrange(3, 13) for _ in range(groups(columns, group_columns)))
                for _ in range(groups(rows, group_rows))]))
        if scheme.get("second"):
            # Powers of two, whose inverse is as exact.
            self.of["second"] = self.make(lambda rows, columns: Matrix(
                "f32", [number(2.0 ** -numbers.random.randrange(5, 9), "f32")]))
        if scheme.get("input"):
            self.of["input"] = self.make(lambda rows, columns: numbers.floats("f32", 1, 1, 0.01, 0.5))
        if bias:
            self.of["bias"] = self.make(lambda rows, columns: numbers.floats(scheme["in"], rows, 1, -0.3, 0.3))
        self.routing_bias = numbers.floats("f32", 1, self.experts, -0.3, 0.3)

    def make(self, function):
        return {part: [function(*self.extents[part]) for _ in range(self.stored)] for part in self.parts}

    def expected(self, order="gate_first", columns=None, experts=None):
        """The bytes of the stored values of a rank: its columns of the intermediate, its experts."""
        begin, count = columns or (0, self.shape["intermediate_size"])
        experts = range(self.stored) if experts is None else experts
        made = {}
        names = {"weight": "", "scale": "_scale", "zero": "_zero_point", "second": "_second_scale"}
        for kind, matrices in self.of.items():
            if kind == "input":
                values = {part: [struct.unpack("<f", matrix.data())[0] for matrix in matrices[part]] for part in self.parts}
                name = self.scheme["input"]
                made["a1" + name] = b"".join(struct.pack("<f", max(values[part][e] for part in self.parts[:-1]))
                                             for e in range(self.stored))
                made["a2" + name] = b"".join(struct.pack("<f", value) for value in values["down"])
                continue
            group_rows, group_columns = {"weight": (1, 1), "bias": (1, -1), "second": (-1, -1)}.get(
                kind, self.scheme.get("group"))
            first, second = [], []
            for e in experts:
                cut = lambda matrix: matrix if group_rows == -1 else matrix.take(
                    begin // group_rows, groups(count, group_rows))
                parts = [cut(matrices[part][e]) for part in self.parts[:-1]]
                if len(parts) == 1:
                    both = parts[0]
                elif order == "interleaved" and group_rows == 1:
                    both = parts[0].alternating(parts[1])
                else:
                    both = parts[1] + parts[0] if order == "up_first" else parts[0] + parts[1]
                first.append(both.data())
                down = matrices["down"][e]
                second.append((down if group_columns == -1 else down.columns_of(
                    begin // group_columns, groups(count, group_columns))).data())
            made["b13" if kind == "bias" else "w13" + names[kind]] = b"".join(first)
            made["b2" if kind == "bias" else "w2" + names[kind]] = b"".join(second)
        for name in list(made):
            # Scales of a layer whose checkpoint has them in bf16 are wider.
            if name.endswith("_scale") and self.scheme.get("scale") == "f32" and self.of.get("scale") and not name.startswith("a"):
                if self.of["scale"]["down"][0].element == "bf16":
                    made[name] = b"".join(b"\0\0" + made[name][i:i + 2] for i in range(0, len(made[name]), 2))
        return made


class Writer:
    """Tensors by name, written by PyPI's safetensors."""

    def __init__(self):
        self.tensors = {}

    def put(self, name, shape, data, kind):
        self.tensors[name] = (kind, list(shape), data)

    def matrix(self, name, matrix, shape=None, kind=None):
        per_row = len(matrix.rows[0])
        bits, word = TYPES[kind or matrix.element]
        self.put(name, shape if shape is not None else (len(matrix.rows), per_row * 8 // max(bits, 8)), matrix.data(), word)

    def write(self, path, names=None):
        import safetensors
        specs, alive = {}, []
        for name in names if names is not None else self.tensors:
            kind, shape, data = self.tensors[name]
            buffer = ctypes.create_string_buffer(data, len(data))
            alive.append(buffer)
            specs[name] = safetensors.TensorSpec(dtype=kind, shape=shape, data_ptr=ctypes.addressof(buffer), data_len=len(data))
        safetensors.serialize_file(specs, str(path), {"format": "pt"})
