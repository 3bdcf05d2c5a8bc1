#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a package whose ranks are threads of this process, each with a GPU of its own; moec-run connects none.

  MOEC_LIBRARY=build/lib/libmoec.so PYTHONPATH=python rank_runs.py PACKAGE RUNS.json [--nccl=LIBRARY]

RUNS.json has "weights", a table of files of each rank by value, and "runs", of which each has "tokens", "inputs" as the weights are, and
"out", a file of each rank. Files are of numpy; outputs are the bytes of the array alone. Memory is the driver's: neither numpy nor
torch is needed. A package of gather_scatter is connected by NCCL.
"""

import argparse
import ctypes
import json
import math
import os
import struct
import sys
import threading
from pathlib import Path

import moec
from moec import _abi, arrays
from moec._library import library
from moec._tensors import Row, packed

NON_BLOCKING = 1
# Elements of numpy's types that stand for moec's bits.
OF_DTYPE = {"<f4": "f32", "<f2": "f16", "<u2": "u16", "|i1": "i8", "|u1": "u8", "<i4": "i32"}


def read_npy(path):
    """(element type, shape, bytes) of a file of numpy in C order."""
    data = Path(path).read_bytes()
    end = 10 + struct.unpack("<H", data[8:10])[0]
    header = data[10:end].decode()
    dtype = header.split("'descr': '")[1].split("'")[0]
    shape = header.split("'shape': (")[1].split(")")[0]
    return OF_DTYPE[dtype], tuple(int(extent) for extent in shape.split(",") if extent.strip()), data[end:]


class Driver:
    """Functions of the CUDA driver, or of the emulator in its place."""

    def __init__(self):
        self.functions = ctypes.CDLL(os.environ.get("MOEC_CUDA_DRIVER_PATH") or "libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        status = getattr(self.functions, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def make(self, name, kind, *arguments):
        made = kind()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def memory(self, count):
        # As much as the longest load behind the last byte, which the values' alignment allows.
        return self.make("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(max(count, 1))).value

    def upload(self, data):
        address = self.memory(len(data))
        if data:
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))
        return address

    def download(self, address, count):
        data = ctypes.create_string_buffer(count)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(count))
        return data.raw


def row_of(package, name, path, driver):
    """A file's tensor on the current GPU, as the library takes it."""
    element, shape, data = read_npy(path)
    found = arrays.View(driver.upload(data), shape, None, element, None, True, None)
    return Row(name, arrays.given_type(found, package.values[name].element_types, name), found.data, shape, None)


def bytes_of(package, name, tokens=1):
    return math.prod(package.shape(name, tokens)) * arrays.BITS[package.values[name].element_types[0]] // 8


class Rank:
    """A rank, whose thread has its GPU as the current one."""

    def __init__(self, driver, folder, number, runs, connect):
        self.driver, self.number = driver, number
        device = driver.make("cuDeviceGet", ctypes.c_int, number)
        driver.call("cuCtxPushCurrent_v2", driver.make("cuDevicePrimaryCtxRetain", ctypes.c_void_p, device))
        self.stream = driver.make("cuStreamCreate", ctypes.c_void_p, NON_BLOCKING)
        self.package = moec.load(folder, device=f"cuda:{number}", rank=number, progress=False)
        rows = [row_of(self.package, name, path, driver) for name, path in runs["weights"][number].items()]
        for name, value in self.package.values.items():
            if value.role == "packed_weight" and not value.may_alias:
                rows.append(Row(name, value.element_types[0], driver.memory(bytes_of(self.package, name)), self.package.shape(name), None))
        scratch = self.package.pack_scratch_bytes
        options = _abi.LayerOptions(struct_size=ctypes.sizeof(_abi.LayerOptions), scratch=driver.memory(scratch), scratch_bytes=scratch)
        buffer, count = packed(rows)
        self.layer = library().made("layer_create", self.package.handle, ctypes.addressof(buffer), count, ctypes.byref(options), self.stream)
        driver.call("cuStreamSynchronize", self.stream)
        self.comm = connect(number)
        needed = self.package.workspace_bytes(max(run["tokens"] for run in runs["runs"]))
        with_comm = _abi.ContextOptions(struct_size=ctypes.sizeof(_abi.ContextOptions), comm=self.comm.handle._as_parameter_)
        self.context = library().made("context_create", self.package.handle, driver.memory(needed), needed, ctypes.byref(with_comm))

    def run(self, one):
        tokens, package = one["tokens"], self.package
        rows = [row_of(package, name, path, self.driver) for name, path in one["inputs"][self.number].items()]
        size = bytes_of(package, "out", tokens)
        out = self.driver.upload(b"\xff" * size)
        rows.append(Row("out", package.values["out"].element_types[0], out, package.shape("out", tokens), None))
        options = _abi.RunOptions(struct_size=ctypes.sizeof(_abi.RunOptions))
        buffer, count = packed(rows)
        library().check(library().run(self.layer, self.context, self.stream, ctypes.addressof(buffer), count, tokens, ctypes.byref(options)))
        self.driver.call("cuStreamSynchronize", self.stream)
        self.comm.check()
        Path(one["out"][self.number]).write_bytes(self.driver.download(out, size))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--nccl", help="a libnccl.so.2")
    arguments = parser.parse_args()
    runs = json.loads(arguments.runs.read_text())
    size = len(runs["weights"])
    manifest = json.loads((arguments.package / "manifest.json").read_text())
    driver = Driver()
    if manifest["layer"]["communication"].get("one_sided"):
        connect = moec.Communicator.threads(size, devices=[f"cuda:{rank}" for rank in range(size)]).__getitem__
    else:
        unique_id = moec.Communicator.unique_id(arguments.nccl)

        def connect(rank):
            return moec.Communicator(unique_id, rank, size, device=f"cuda:{rank}", nccl_path=arguments.nccl)

    faults = []

    def work(number):
        try:
            rank = Rank(driver, arguments.package, number, runs, connect)
            for one in runs["runs"]:
                rank.run(one)
        except Exception as error:  # noqa: BLE001  # of any kind: the other ranks wait for this one
            faults.append(f"rank {number}: {type(error).__name__}: {error}")
            print(faults[-1], file=sys.stderr, flush=True)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    while not faults and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.05)
    sys.stdout.flush()
    # Ranks that wait for one that failed do not end.
    os._exit(1 if faults else 0)


if __name__ == "__main__":
    main()
