#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares single multiplies of the tensor cores with those of a GPU, bit for bit.

Each instruction of INSTRUCTIONS multiplies INSTANCES matrices of each kind of KINDS, which follow from a seed. sums.txt has what a GPU
gave: the first instance in hex digits, and the SHA-256 of all. --driver names a driver, the emulator's say, whose results are compared;
--write prints lines as of sums.txt instead, which --all follows with more instances in hex digits.
"""

import argparse
import ctypes
import hashlib
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTANCES = 32
# Bytes of an element, bits of its mantissa and its exponent, bits of the largest exponent that are no number.
FORMATS = {"f16": (2, 10, 5), "bf16": (2, 7, 8), "e4m3": (1, 3, 4), "e5m2": (1, 2, 5)}
# How elements and addends are drawn.
KINDS = ("integers", "near", "wide", "cancel", "zeros", "addend", "bits")
# Kind of instruction, k and element of each.
INSTRUCTIONS = [("mma", 8, "f16"), ("mma", 8, "bf16"), ("mma", 16, "f16"), ("mma", 16, "bf16"), ("mma", 32, "e4m3"), ("mma", 32, "e5m2"),
                ("wgmma", 16, "f16"), ("wgmma", 16, "bf16"), ("wgmma", 32, "e4m3"), ("wgmma", 32, "e5m2")]
COLUMNS = 8


class Draw:
    """Numbers that follow from a name, the same on every machine."""

    def __init__(self, name):
        self.name, self.turn, self.bytes = name, 0, b""

    def number(self, below):
        if len(self.bytes) < 4:
            self.bytes = hashlib.shake_256(f"{self.name} {self.turn}".encode()).digest(1 << 14)
            self.turn += 1
        value, self.bytes = int.from_bytes(self.bytes[:4], "little"), self.bytes[4:]
        return value % below


def code(fraction_bits, exponent_bits, sign, exponent, fraction):
    """Bits of a float; `exponent` is as stored."""
    return (sign << exponent_bits | exponent) << fraction_bits | fraction


def integer(format_, value):
    """Bits of a small integer."""
    _, fraction_bits, exponent_bits = FORMATS.get(format_, (4, 23, 8))
    magnitude = abs(value)
    if magnitude == 0:
        return 0
    power = magnitude.bit_length() - 1
    return code(fraction_bits, exponent_bits, int(value < 0), power + (1 << exponent_bits - 1) - 1,
                (magnitude - (1 << power)) << fraction_bits >> power)


def element(draw, kind, format_, k):
    """Bits of an element at column k of a row."""
    size, fraction_bits, exponent_bits = FORMATS[format_]
    bias = (1 << exponent_bits - 1) - 1
    fraction, sign = draw.number(1 << fraction_bits), draw.number(2)
    if kind == "integers":
        return integer(format_, draw.number(5) - 2)
    if kind == "bits":
        return draw.number(1 << 8 * size)
    if kind in ("near", "addend"):
        return code(fraction_bits, exponent_bits, sign, bias - 2 + draw.number(4), fraction)
    if kind == "cancel":
        return code(fraction_bits, exponent_bits, k % 2, bias + draw.number(2), fraction)
    reach = min(bias - 1, 20)
    if kind == "zeros" and draw.number(2):
        # Half of them are zero, or too small to be normal.
        return code(fraction_bits, exponent_bits, sign, 0, fraction if draw.number(2) else 0)
    return code(fraction_bits, exponent_bits, sign, bias - reach + draw.number(2 * reach + 1), fraction)


def addend(draw, kind):
    """Bits of an f32 to which products are added."""
    fraction, sign = draw.number(1 << 23), draw.number(2)
    if kind == "integers":
        return integer("f32", draw.number(65) - 32)
    if kind == "bits":
        return draw.number(1 << 32)
    reach = {"near": 2, "cancel": 1, "wide": 20, "zeros": 30, "addend": 30}[kind]
    if kind == "zeros" and draw.number(2):
        return 0
    return code(23, 8, sign, 127 - reach + draw.number(2 * reach + 1), fraction)


def matrices(form, k, format_, kind, instance):
    """A [rows][k], B [COLUMNS][k] and C [rows][COLUMNS] as bits."""
    draw = Draw(f"{form} {k} {format_} {kind} {instance}")
    rows = 64 if form == "wgmma" else 16
    a = [[element(draw, kind, format_, i) for i in range(k)] for _ in range(rows)]
    # In pairs of products that cancel, nearly.
    b = [[element(draw, "near" if kind == "cancel" else kind, format_, 0) for _ in range(k)] for _ in range(COLUMNS)]
    c = [[addend(draw, kind) for _ in range(COLUMNS)] for _ in range(rows)]
    return a, b, c


def row_bytes(row, format_):
    return b"".join(value.to_bytes(FORMATS[format_][0], "little") for value in row)


def lanes_of(rows):
    """(lane, register, row, column) of sums: 16 rows a warp."""
    for row in range(rows):
        for column in range(COLUMNS):
            yield row // 16 * 32 + row % 8 * 4 + column // 2, row % 16 // 8 * 2 + column % 2, row, column


def input_of(form, format_, made):
    """The bytes that a CTA reads."""
    a, b, c = made
    if form == "wgmma":
        # Cores of 8 rows by 16 bytes, first along k.
        image = b"".join(row_bytes(side[core * 8 + row], format_)[half * 16:half * 16 + 16]
                         for side in (a, b) for core in range(len(side) // 8) for half in range(2) for row in range(8))
        sums = [[0] * 4 for _ in range(128)]
        for lane, register, row, column in lanes_of(64):
            sums[lane][register] = c[row][column]
        return image + b"".join(struct.pack("<4I", *lane) for lane in sums)
    words = [[0] * 10 for _ in range(32)]
    of_b = len(row_bytes(b[0], format_)) // 16
    for row in range(16):
        data = row_bytes(a[row], format_)
        for word in range(len(data) // 4):
            words[row % 8 * 4 + word % 4][row // 8 + word // 4 * 2] = int.from_bytes(data[4 * word:4 * word + 4], "little")
    for column in range(8):
        data = row_bytes(b[column], format_)
        for word in range(4 * of_b):
            words[column * 4 + word % 4][4 + word // 4] = int.from_bytes(data[4 * word:4 * word + 4], "little")
    for lane, register, row, column in lanes_of(16):
        words[lane][6 + register] = c[row][column]
    return b"".join(struct.pack("<10I", *lane) for lane in words)


HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry multiply(.param .align 8 .b8 places[16]) {
.reg .b32 %r<24>; .reg .f32 %f<8>; .reg .b64 %d<8>; .reg .pred %p<2>;
ld.param.u64 %d0, [places]; ld.param.u64 %d1, [places+8];
mov.u32 %r20, %ctaid.x; mov.u32 %r21, %tid.x;
"""
MMA = """
mad.lo.u32 %r22, %r20, 32, %r21;
mad.wide.u32 %d2, %r22, 40, %d0; mad.wide.u32 %d3, %r22, 16, %d1;
ld.global.u32 %r0, [%d2]; ld.global.u32 %r1, [%d2+4]; ld.global.u32 %r2, [%d2+8]; ld.global.u32 %r3, [%d2+12];
ld.global.u32 %r4, [%d2+16]; ld.global.u32 %r5, [%d2+20];
ld.global.f32 %f0, [%d2+24]; ld.global.f32 %f1, [%d2+28]; ld.global.f32 %f2, [%d2+32]; ld.global.f32 %f3, [%d2+36];
"""
WGMMA = """
.shared .align 128 .b8 tile[2304];
mad.wide.u32 %d2, %r20, 4352, %d0;
mov.u32 %r0, tile;
mul.lo.u32 %r1, %r21, 4;
add.u32 %r2, %r0, %r1; cvt.u64.u32 %d3, %r1; add.u64 %d3, %d2, %d3;
"""
REST = """
ld.global.u32 %r3, [%d3+2048]; setp.lt.u32 %p1, %r21, 64; @%p1 st.shared.u32 [%r2+2048], %r3;
mul.lo.u32 %r4, %r21, 16; cvt.u64.u32 %d4, %r4; add.u64 %d4, %d2, %d4;
ld.global.f32 %f0, [%d4+2304]; ld.global.f32 %f1, [%d4+2308]; ld.global.f32 %f2, [%d4+2312]; ld.global.f32 %f3, [%d4+2316];
mad.lo.u32 %r22, %r20, 128, %r21; mad.wide.u32 %d3, %r22, 16, %d1;
fence.proxy.async; bar.sync 0;
shr.u32 %r5, %r0, 4; cvt.u64.u32 %d5, %r5; or.b64 %d5, %d5, 0x0000001000080000;
add.u64 %d6, %d5, 128;
setp.eq.u32 %p0, %r0, %r0;
wgmma.fence.sync.aligned;
"""
TAIL = """
st.global.v4.f32 [%d3], {%f0, %f1, %f2, %f3};
ret;
}
"""


def text_of(form, k, format_):
    """The PTX of a kernel whose CTAs multiply once."""
    types = f"f32.{format_}.{format_}"
    if form == "mma":
        few = k * FORMATS[format_][0] == 16
        a, b = ("%r0, %r1", "%r4") if few else ("%r0, %r1, %r2, %r3", "%r4, %r5")
        return (f"{HEAD}{MMA}mma.sync.aligned.m16n8k{k}.row.col.{types}.f32 {{%f0, %f1, %f2, %f3}}, {{{a}}}, {{{b}}}, "
                f"{{%f0, %f1, %f2, %f3}};{TAIL}")
    copies = "".join(f"ld.global.u32 %r3, [%d3+{at}]; st.shared.u32 [%r2+{at}], %r3;\n" for at in range(0, 2048, 512))
    last = ", 0, 0" if FORMATS[format_][0] == 2 else ""
    return (f"{HEAD}{WGMMA}{copies}{REST}wgmma.mma_async.sync.aligned.m64n8k{k}.{types} {{%f0, %f1, %f2, %f3}}, %d5, %d6, %p0, 1, 1{last};\n"
            f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;{TAIL}")


class Config(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


class Gpu:
    """The first device of a driver."""

    def __init__(self, driver):
        self.driver = ctypes.CDLL(driver)
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxPushCurrent_v2", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def allocate(self, count):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(count))
        return pointer

    def run(self, text, data, ctas, threads):
        """The sums of `ctas` CTAs that read `data`."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode())
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"multiply")
        source, target = self.allocate(len(data)), self.allocate(ctas * threads * 16)
        self.call("cuMemcpyHtoD_v2", source, data, ctypes.c_size_t(len(data)))
        places = (ctypes.c_uint64 * 2)(source.value, target.value)
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(places, ctypes.c_void_p))
        self.call("cuLaunchKernelEx", ctypes.byref(Config(ctas, 1, 1, threads, 1, 1, 0, None, None, 0)), function, arguments, None)
        self.call("cuCtxSynchronize")
        sums = ctypes.create_string_buffer(ctas * threads * 16)
        self.call("cuMemcpyDtoH_v2", sums, target, ctypes.c_size_t(len(sums)))
        for pointer in (source, target):
            self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)
        return sums.raw


def lines_of(gpu, only=""):
    """(name, the first 16 rows of each instance as hex digits, SHA-256 of all) of each instruction and kind."""
    for form, k, format_ in INSTRUCTIONS:
        threads = 128 if form == "wgmma" else 32
        for kind in KINDS:
            name = f"{form}-k{k}-{format_}-{kind}"
            if only not in name:
                continue
            data = b"".join(input_of(form, format_, matrices(form, k, format_, kind, i)) for i in range(INSTANCES))
            sums = gpu.run(text_of(form, k, format_), data, INSTANCES, threads)
            # Warp 0 has the first 16 rows.
            first = [sums[i * threads * 16:][:512].hex() for i in range(INSTANCES)]
            yield name, first, hashlib.sha256(sums).hexdigest()


def differences(got, expected):
    """The sums of the first instance that differ."""
    for i in range(0, min(len(got), len(expected)), 8):
        if got[i:i + 8] != expected[i:i + 8]:
            bits = [int.from_bytes(bytes.fromhex(text[i:i + 8]), "little") for text in (got, expected)]
            yield f"lane {i // 32}, register {i // 8 % 4}: {bits[0]:#010x}, expected {bits[1]:#010x}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="libcuda.so.1")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--all", type=int, default=1, help="instances in hex digits that --write prints")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    gpu = Gpu(arguments.driver)
    if arguments.write:
        print(f"# {gpu.name}")
        for name, first, digest in lines_of(gpu, arguments.only):
            print(name, digest, *first[:arguments.all], flush=True)
        return 0
    recorded = {}
    for line in (HERE / "sums.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, digest, first = line.split()[:3]
            recorded[name] = digest, first
    failures, count = 0, 0
    for name, first, digest in lines_of(gpu, arguments.only):
        count += 1
        wanted, known = recorded.get(name, ("", ""))
        if digest != wanted:
            failures += 1
            seen = list(differences(first[0], known))
            print(f"FAILED {name}: {len(seen)} of 128 differ; {'; '.join(seen[:3]) or 'another instance'}")
    print(f"{count} kinds of sums, {failures} differ from those of the GPU")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
