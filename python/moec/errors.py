# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exception classes, one for each status of the C interface."""

from dataclasses import dataclass
from typing import ClassVar


class MoecError(RuntimeError):
    """Base class of all errors of moec. The message describes what was expected, what was found, and what would be accepted."""

    code: ClassVar[str] = "internal"
    """The status as a word, such as "too_many_tokens"."""


class InvalidArgument(MoecError, ValueError):
    """An argument, an option, a name, a shape or an element type is invalid."""

    code = "invalid_argument"


class InvalidManifest(MoecError):
    """The package's manifest violates its format."""

    code = "invalid_manifest"


class DamagedPackage(MoecError):
    """A file of the package is missing or does not match its SHA-256 hash."""

    code = "damaged_package"


class NoMatchingTarget(MoecError):
    """The package has no code for the device."""

    code = "no_matching_target"


class DeviceLimit(MoecError):
    """A kernel exceeds a limit of the device."""

    code = "device_limit"


class TooManyTokens(MoecError):
    """A run has more tokens than the package was compiled for."""

    code = "too_many_tokens"


class WorkspaceTooSmall(MoecError):
    """Memory that the caller passed is too small."""

    code = "workspace_too_small"


class Misaligned(MoecError):
    """An address is not a multiple of the value's alignment."""

    code = "misaligned"


class ContextInUse(MoecError):
    """Two runs used one context at the same time."""

    code = "context_in_use"


class Capturing(MoecError):
    """A CUDA stream is being captured, and the call is not allowed during capture."""

    code = "capturing"


class StrictMiss(MoecError):
    """Strict mode: a kernel is neither in the package nor in the cache."""

    code = "strict_miss"


class CompileFailed(MoecError):
    """NVRTC failed to compile a kernel."""

    code = "compile_failed"


class NoCompiler(MoecError):
    """NVRTC was not found."""

    code = "no_compiler"


class NoDriver(MoecError):
    """The CUDA driver was not found."""

    code = "no_driver"


class DriverFailed(MoecError):
    """A call to the CUDA driver failed."""

    code = "driver_failed"


class FileSystemError(MoecError):
    """A file cannot be read or written."""

    code = "file_system"


@dataclass(frozen=True)
class Reason:
    """The reason why a candidate was rejected."""

    code: str
    """A stable identifier."""
    text: str
    """A sentence for people."""
    arch: str = ""
    """The target, such as "sm_90a"; "" if the layer itself was rejected."""
    backend: str = ""
    engine: str = ""
    """"" if the backend itself was rejected."""

    def __str__(self) -> str:
        who = " ".join(part for part in (self.arch, self.backend, self.engine) if part)
        return f"{who}: {self.text}" if who else self.text


class NotSupported(MoecError):
    """moec does not support the layer. `reasons`: the rejected candidates."""

    code = "refused"

    def __init__(self, message: str, reasons: tuple[Reason, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        """The rejected candidates; empty if the layer itself was rejected."""


class InternalError(MoecError):
    """An internal error of moec."""

    code = "internal"


class PeerLost(MoecError):
    """Another rank has failed or did not arrive in time."""

    code = "peer_lost"


class PeerMismatch(MoecError):
    """Ranks issued different collectives, or have different packages or token counts."""

    code = "peer_mismatch"


class NoCommunication(MoecError):
    """The package exchanges tokens between ranks, and the ranks have no way to reach each other."""

    code = "no_communication"


class Interrupted(MoecError):
    """A function set by moec_set_interrupt ended the call. After Ctrl-C, Python raises KeyboardInterrupt instead."""

    code = "interrupted"


_CLASSES: dict[str, type[MoecError]] = {
    each.code: each
    for each in (
        InvalidArgument,
        InvalidManifest,
        DamagedPackage,
        NoMatchingTarget,
        DeviceLimit,
        TooManyTokens,
        WorkspaceTooSmall,
        Misaligned,
        ContextInUse,
        Capturing,
        StrictMiss,
        CompileFailed,
        NoCompiler,
        NoDriver,
        DriverFailed,
        FileSystemError,
        NotSupported,
        InternalError,
        PeerLost,
        PeerMismatch,
        NoCommunication,
        Interrupted,
    )
}


def error_of(code: str, message: str) -> MoecError:
    """Returns the exception of a status by its name. An unknown status of a newer library becomes a MoecError that names it."""
    known = _CLASSES.get(code)
    return known(message) if known else MoecError(f"{code}: {message}")
