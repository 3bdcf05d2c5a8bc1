# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ctypes declarations of the C interface, runtime/include/moec/moec.h. A test compares the two with a C program."""

import ctypes as c
import enum
import struct
from typing import Any

from moec import __version__

VERSION_MAJOR, VERSION_MINOR, VERSION_PATCH = (int(word) for word in __version__.split(".", 2))


class Status(enum.IntEnum):
    OK = 0
    INVALID_ARGUMENT = 1
    INVALID_MANIFEST = 2
    DAMAGED_PACKAGE = 3
    NO_MATCHING_TARGET = 4
    DEVICE_LIMIT = 5
    TOO_MANY_TOKENS = 6
    WORKSPACE_TOO_SMALL = 7
    MISALIGNED = 8
    CONTEXT_IN_USE = 9
    CAPTURING = 10
    STRICT_MISS = 11
    COMPILE_FAILED = 12
    NO_COMPILER = 13
    NO_DRIVER = 14
    DRIVER_FAILED = 15
    FILE_SYSTEM = 16
    REFUSED = 17
    INTERNAL = 18
    PEER_LOST = 19
    PEER_MISMATCH = 20
    NO_COMMUNICATION = 21
    INTERRUPTED = 22


class LogLevel(enum.IntEnum):
    NONE = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    DEBUG = 4


class DeviceKind(enum.IntEnum):
    CUDA = 0
    HOST = 1
    EMULATED = 2


class Role(enum.IntEnum):
    INPUT = 0
    OPTIONAL_INPUT = 1
    OUTPUT = 2
    OPTIONAL_OUTPUT = 3
    STORED_WEIGHT = 4
    PACKED_WEIGHT = 5


class LoadOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("device", c.c_int32),
        ("ordinal_plus_one", c.c_int32),
        ("strict", c.c_int32),
        ("jobs", c.c_int32),
        ("cache_dir", c.c_char_p),
        ("arch", c.c_char_p),
        ("prebuild", c.c_int32),
        ("nvrtc_path", c.c_char_p),
        ("rank_plus_one", c.c_int32),
    ]


class Value(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("role", c.c_int32),
        ("element_types", c.c_char_p),
        ("rank", c.c_int32),
        ("caller_row_stride", c.c_int32),
        ("alignment", c.c_int64),
        ("may_alias", c.c_char_p),
    ]


class Variant(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("min_tokens", c.c_int64),
        ("max_tokens", c.c_int64),
        ("num_launches", c.c_int32),
        ("min_sms", c.c_int64),
    ]


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("data", c.c_void_p),
        ("element_type", c.c_char_p),
        ("rank", c.c_int32),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
    ]


# The layout of Tensor. Packing bytes into an existing buffer takes a quarter of the time of filling ctypes structs.
TENSOR = struct.Struct("@PPPi4xPP")


class LayerOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("scratch", c.c_void_p),
        ("scratch_bytes", c.c_uint64),
        ("already_packed", c.c_int32),
    ]


class UnpackOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("to_host", c.c_int32)]


class WeightsOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("quantize", c.c_int32),
        ("no_shared_experts", c.c_int32),
        ("ignored", c.POINTER(c.c_char_p)),
        ("num_ignored", c.c_size_t),
    ]


# Callback types for callers that connect the ranks themselves.
ALL_GATHER_FUNCTION = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_uint64, c.c_void_p)
WINDOW_FUNCTION = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_uint64, c.POINTER(c.c_uint64))


class CommOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("ranks", c.c_int32),
        ("rank", c.c_int32),
        ("unique_id", c.c_void_p),
        ("nccl_comm", c.c_void_p),
        ("group", c.c_void_p),
        ("ordinal_plus_one", c.c_int32),
        ("timeout_ms", c.c_int32),
        ("nccl_path", c.c_char_p),
        ("all_gather", ALL_GATHER_FUNCTION),
        ("window", WINDOW_FUNCTION),
        ("user", c.c_void_p),
        ("nccl_windows", c.c_int32),
    ]


class ContextOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("state", c.c_void_p),
        ("state_bytes", c.c_uint64),
        ("comm", c.c_void_p),
    ]


class RunOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("overlap_previous", c.c_int32),
        ("variant", c.c_char_p),
    ]


# Names of the header's structs, without the prefix moec_.
STRUCTS: dict[str, type[c.Structure]] = {
    "load_options": LoadOptions,
    "value": Value,
    "variant": Variant,
    "tensor": Tensor,
    "layer_options": LayerOptions,
    "unpack_options": UnpackOptions,
    "weights_options": WeightsOptions,
    "comm_options": CommOptions,
    "context_options": ContextOptions,
    "run_options": RunOptions,
}
# For each enumeration of the header: the prefix of its constants, and its Python class.
ENUMS: dict[str, tuple[str, type[enum.IntEnum]]] = {
    "status": ("MOEC_", Status),
    "log_level": ("MOEC_LOG_", LogLevel),
    "device_kind": ("MOEC_DEVICE_", DeviceKind),
    "role": ("MOEC_", Role),
}

LOG_FUNCTION = c.CFUNCTYPE(None, c.c_void_p, c.c_int32, c.c_char_p)
PROGRESS_FUNCTION = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_int64, c.c_int64)
INTERRUPT_FUNCTION = c.CFUNCTYPE(c.c_int32, c.c_void_p)

_handle, _text, _size = c.c_void_p, c.c_char_p, c.c_size_t
_out = c.POINTER(c.c_void_p)
_count, _extents = c.POINTER(c.c_uint64), c.POINTER(c.c_int64)

# Result type and argument types of each function of the header, by name without moec_.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "version": (c.c_int32, []),
    "status_name": (_text, [c.c_int]),
    "last_error": (_text, []),
    "text_get": (_text, [_handle]),
    "text_destroy": (None, [_handle]),
    "set_log": (c.c_int, [LOG_FUNCTION, c.c_void_p, c.c_int32]),
    "set_progress": (c.c_int, [PROGRESS_FUNCTION, c.c_void_p]),
    "set_interrupt": (c.c_int, [INTERRUPT_FUNCTION, c.c_void_p]),
    "package_files_read": (c.c_int, [_text, _out]),
    "package_files_write": (c.c_int, [_handle, _text]),
    "package_files_destroy": (None, [_handle]),
    "package_load": (c.c_int, [_text, c.POINTER(LoadOptions), _out]),
    "package_load_files": (c.c_int, [_handle, c.POINTER(LoadOptions), _out]),
    "package_destroy": (None, [_handle]),
    "package_name": (_text, [_handle]),
    "package_arch": (_text, [_handle]),
    "package_device": (_text, [_handle]),
    "package_max_tokens": (c.c_int64, [_handle]),
    "package_manifest_json": (_text, [_handle]),
    "package_load_report_json": (_text, [_handle]),
    "package_num_values": (_size, [_handle]),
    "package_value": (c.c_int, [_handle, _size, c.POINTER(Value)]),
    "package_value_shape": (c.c_int, [_handle, _text, c.c_int64, _extents]),
    "package_value_bytes": (c.c_int, [_handle, _text, c.c_int64, _count]),
    "package_num_variants": (_size, [_handle]),
    "package_variant": (c.c_int, [_handle, _size, c.POINTER(Variant)]),
    "package_variant_for": (c.c_int, [_handle, c.c_int64, c.POINTER(_size)]),
    "package_workspace_bytes": (c.c_int, [_handle, c.c_int64, _count]),
    "package_state_bytes": (c.c_int, [_handle, _count]),
    "package_pack_scratch_bytes": (c.c_int, [_handle, _count]),
    # Tensors are passed as the address of a buffer of TENSOR records.
    "layer_create": (c.c_int, [_handle, c.c_void_p, _size, c.POINTER(LayerOptions), c.c_void_p, _out]),
    "layer_repack": (
        c.c_int,
        [_handle, c.c_void_p, _size, c.c_int64, c.c_int64, c.c_void_p, c.c_uint64, c.c_void_p],
    ),
    "layer_unpack": (c.c_int, [_handle, c.c_void_p, _size, c.POINTER(UnpackOptions), c.c_void_p]),
    "layer_destroy": (None, [_handle]),
    "checkpoint_open": (c.c_int, [_text, _out]),
    "checkpoint_close": (None, [_handle]),
    "checkpoint_layers_json": (c.c_int, [_handle, _out]),
    "weights_open": (c.c_int, [_handle, _handle, c.c_int64, c.POINTER(WeightsOptions), _out]),
    "weights_layer": (c.c_int64, [_handle]),
    "weights_load": (c.c_int, [_handle, c.c_void_p, _size]),
    "weights_load_experts": (c.c_int, [_handle, c.c_void_p, _size, c.c_int64, c.c_int64]),
    "weights_close": (None, [_handle]),
    "package_weight_map_json": (c.c_int, [_handle, _out]),
    "comm_unique_id": (c.c_int, [_text, c.c_void_p]),
    "comm_group_create": (c.c_int, [c.c_int32, c.c_int32, _out]),
    "comm_group_destroy": (None, [_handle]),
    "comm_create": (c.c_int, [c.POINTER(CommOptions), _out]),
    "comm_status": (c.c_int, [_handle]),
    "comm_abort": (c.c_int, [_handle]),
    "comm_destroy": (None, [_handle]),
    "context_create": (c.c_int, [_handle, c.c_void_p, c.c_uint64, c.POINTER(ContextOptions), _out]),
    "context_set_workspace": (c.c_int, [_handle, c.c_void_p, c.c_uint64]),
    "context_destroy": (None, [_handle]),
    "run": (c.c_int, [_handle, _handle, c.c_void_p, c.c_void_p, _size, c.c_int64, c.POINTER(RunOptions)]),
    "compile_config": (c.c_int, [_text, _text, _out]),
    "explain_config": (c.c_int, [_text, _text, _out]),
    "tune_config": (c.c_int, [_text, _text, _out]),
    "explain_html": (c.c_int, [_text, _text, _out]),
    "catalog_json": (c.c_int, [_out]),
    "families_json": (c.c_int, [_out]),
    "main": (c.c_int, [c.c_int, c.POINTER(c.c_char_p)]),
}
# Functions that libmoec-runtime.so does not have.
OF_THE_COMPILER = (
    "compile_config",
    "explain_config",
    "explain_html",
    "tune_config",
    "catalog_json",
    "families_json",
    "main",
)
