# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of docs/reference/checkpoints.md for weights that are quantized at load, once more: numbers as lists, f32 by struct."""

import bisect
import math
import struct

from checkpoint_layers import Matrix

# Bits of exponent and fraction, codes at the end that are no numbers.
FLOATS = {"f8E4M3FN": (4, 3, 1), "f8E5M2": (5, 2, 4), "f6E3M2FN": (3, 2, 0), "f6E2M3FN": (2, 3, 0), "f4E2M1FN": (2, 1, 0)}


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def value_of(code, exponent_bits, fraction_bits):
    exponent, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == 0:
        return fraction * 2.0 ** (1 - bias - fraction_bits)
    return (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


TABLES = {name: [value_of(code, *bits[:2]) for code in range((1 << (bits[0] + bits[1])) - bits[2])] for name, bits in FLOATS.items()}


def nearest(element, number):
    """The code of a number: to nearest, ties to even codes, saturated."""
    table = TABLES[element]
    sign = (1 << (FLOATS[element][0] + FLOATS[element][1])) if math.copysign(1, number) < 0 else 0
    at = bisect.bisect_left(table, abs(number))
    if at == len(table):
        return sign | (at - 1)
    near = [code for code in (at - 1, at) if code >= 0]
    return sign | min(near, key=lambda code: (abs(table[code] - abs(number)), code % 2))


def rounded(scale, element):
    """A scale as its type has it, and its bytes."""
    if element == "f32":
        return f32(scale), struct.pack("<f", scale)
    if element == "f16":
        data = struct.pack("<e", scale)
        return struct.unpack("<e", data)[0], data
    if element == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", scale))[0]
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0], struct.pack("<H", bits)
    code = nearest(element, scale)
    return TABLES[element][code], bytes([code])


def power_of_two(amax, element, rule):
    if amax == 0:
        return 0
    exponent_bits, fraction_bits, _ = FLOATS[element]
    most = math.floor(math.log2(TABLES[element][-1]))
    if rule == "ceil":
        exponent = math.ceil(math.log2(f32(amax / TABLES[element][-1])))
    elif rule == "floor":
        exponent = math.floor(math.log2(amax)) - most
    else:
        bits = struct.unpack("<I", struct.pack("<f", amax))[0]
        exponent = ((bits + (1 << (22 - fraction_bits))) >> 23) - 127 - most
    return max(0, min(254, exponent + 127))


def quantize(values, scheme):
    """values[row][column], f32 numbers; what `scheme` makes of them: kind -> Matrix."""
    element, scale_element = scheme["w"], scheme["scale"]
    rows, columns = len(values), len(values[0])
    group_rows, group_columns = (whole if extent == -1 else extent for extent, whole in zip(scheme["group"], (rows, columns)))
    codes = [[0] * columns for _ in values]
    scales, zeros = [], []
    second = 1.0
    if scheme.get("second"):
        amax = max(abs(value) for row in values for value in row)
        second = f32(amax / f32(448 * TABLES[element][-1]))
    for first in range(0, rows, group_rows):
        scales.append(b"")
        zeros.append(b"")
        for begin in range(0, columns, group_columns):
            places = [(r, c) for r in range(first, min(first + group_rows, rows)) for c in range(begin, min(begin + group_columns, columns))]
            group = [values[r][c] for r, c in places]
            amax = max(map(abs, group))
            if scheme.get("zero"):
                least, most = min(0.0, *group), max(0.0, *group)
                factor, data = rounded(f32(max(f32(most - least), f32(1e-10)) / 15), scale_element)
                zero = min(15, max(0, round(f32(-least / factor))))
                zeros[-1] += bytes([zero])
                made = [min(15, max(0, round(f32(value / factor)) + zero)) for value in group]
            elif element in ("i8", "i4"):
                most = 127 if element == "i8" else 7
                factor, data = rounded(f32(max(amax, f32(1e-10)) / most), scale_element)
                made = [min(most, max(-most, round(f32(value / factor)))) for value in group]
                made = [code & 255 if element == "i8" else code + 8 for code in made]
            else:
                largest = TABLES[element][-1]
                of_tensor, of_channel = scheme["group"] == (-1, -1), scheme["group"] == (1, -1)
                if scale_element == "f8E8M0FNU":
                    code = power_of_two(amax, element, scheme.get("rule") or ("even" if element == "f4E2M1FN" else "ceil"))
                    factor, data = 2.0 ** (code - 127), bytes([code])
                elif scheme.get("second"):
                    factor, data = rounded(f32(f32(amax / largest) / second), scale_element)
                    factor = f32(factor * second)
                elif of_tensor:
                    factor, data = rounded(f32(amax / largest) if amax else 1.0, scale_element)
                elif of_channel:
                    factor, data = rounded(max(f32(amax / largest), f32(1 / (largest * 512))), scale_element)
                else:
                    factor, data = rounded(f32(max(amax, f32(1e-10)) / largest), scale_element)
                inverse = f32(1 / factor) if factor else 0.0
                divided = [0.0 if factor == 0 else f32(value * inverse) if of_tensor else f32(value / factor) for value in group]
                made = [nearest(element, value) for value in divided]
            scales[-1] += data
            for (r, c), code in zip(places, made):
                codes[r][c] = code
    bits = {"i4": 4, "i8": 8}.get(element) or sum(FLOATS[element][:2]) + 1
    packed = [sum(code << bits * i for i, code in enumerate(row)).to_bytes(columns * bits // 8, "little") for row in codes]
    result = {"weight": Matrix(element, packed), "scale": Matrix(scale_element, scales)}
    if scheme.get("zero"):
        result["zero"] = Matrix("i8", zeros)
    if scheme.get("second"):
        result["second"] = Matrix("f32", [struct.pack("<f", second)])
    return result


def quantized(layer, scheme):
    """Replaces the numbers of a bf16 layer by those of the scheme."""
    made = {}
    for part, matrices in layer.of["weight"].items():
        for matrix in matrices:
            values = [[struct.unpack("<f", b"\0\0" + row[i:i + 2])[0] for i in range(0, len(row), 2)] for row in matrix.rows]
            for kind, result in quantize(values, scheme).items():
                made.setdefault(kind, {}).setdefault(part, []).append(result)
    layer.of = {**layer.of, **made}
    layer.scheme = scheme
