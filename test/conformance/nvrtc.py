# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NVRTC through ctypes: compile one source with its headers, get log, PTX and cubin. No GPU needed."""

import ctypes
import glob
import os
import re


def find():
    """The path of an NVRTC library, or None."""
    candidates = [os.environ.get("MOEC_NVRTC_PATH", "")]
    candidates += sorted(glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.1[0-9]"), reverse=True)
    candidates += sorted(glob.glob("/usr/lib/x86_64-linux-gnu/libnvrtc.so.1[0-9]"), reverse=True)
    return next((path for path in candidates if path and os.path.exists(path)), None)


class Nvrtc:
    def __init__(self, path):
        # The builtins library is looked for by name: load it first from the same folder.
        for builtins in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.*")):
            ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
            break
        self.library = ctypes.CDLL(path)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def release(self):
        """13.0.88, say: the library itself says less of it."""
        _, _, ptx, _ = self.compile('extern "C" __global__ void nothing() {}', "nothing.cu", {}, ["-arch=sm_90"])
        found = re.search(r"Cuda compilation tools, release [\d.]+, V([\d.]+)", ptx)
        return found.group(1) if found else "unknown"

    def compiled(self, archs):
        """The rows of archs that this release compiles for; the others need a later one."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return [arch for arch in archs if tuple(map(int, arch["nvrtc"].split("."))) <= (major.value, minor.value)]

    def _text(self, program, size_function, get_function):
        size = ctypes.c_size_t()
        if getattr(self.library, size_function)(program, ctypes.byref(size)):
            return b""
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        getattr(self.library, get_function)(program, buffer)
        return buffer.raw[:size.value]

    def compile(self, source, name, headers, options):
        """(error text or "", log, PTX text, cubin bytes). `headers`: include name -> text."""
        program = ctypes.c_void_p()
        names = (ctypes.c_char_p * max(1, len(headers)))(*[key.encode() for key in headers])
        texts = (ctypes.c_char_p * max(1, len(headers)))(*[text.encode() for text in headers.values()])
        status = self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), len(headers),
                                                 texts, names)
        if status:
            return self.library.nvrtcGetErrorString(status).decode(), "", "", b""
        arguments = (ctypes.c_char_p * max(1, len(options)))(*[option.encode() for option in options])
        status = self.library.nvrtcCompileProgram(program, len(options), arguments)
        log = self._text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
        error, ptx, cubin = "", "", b""
        if status:
            error = self.library.nvrtcGetErrorString(status).decode()
        else:
            ptx = self._text(program, "nvrtcGetPTXSize", "nvrtcGetPTX").rstrip(b"\0").decode(errors="replace")
            cubin = self._text(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return error, log.strip(), ptx, cubin
