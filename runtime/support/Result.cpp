//===- Result.cpp - names of the error codes ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The spelling of an ErrorCode for logs, JSON and programs. The switch has no
// default, so that the compiler names a code that has no spelling.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Result.h"

using namespace moec;

std::string_view moec::errorCodeName(ErrorCode code) {
  switch (code) {
  case ErrorCode::Ok:
    return "ok";
  case ErrorCode::InvalidArgument:
    return "invalid_argument";
  case ErrorCode::InvalidManifest:
    return "invalid_manifest";
  case ErrorCode::DamagedPackage:
    return "damaged_package";
  case ErrorCode::NoMatchingTarget:
    return "no_matching_target";
  case ErrorCode::DeviceLimit:
    return "device_limit";
  case ErrorCode::TooManyTokens:
    return "too_many_tokens";
  case ErrorCode::WorkspaceTooSmall:
    return "workspace_too_small";
  case ErrorCode::Misaligned:
    return "misaligned";
  case ErrorCode::ContextInUse:
    return "context_in_use";
  case ErrorCode::Capturing:
    return "capturing";
  case ErrorCode::StrictMiss:
    return "strict_miss";
  case ErrorCode::CompileFailed:
    return "compile_failed";
  case ErrorCode::NoCompiler:
    return "no_compiler";
  case ErrorCode::NoDriver:
    return "no_driver";
  case ErrorCode::DriverFailed:
    return "driver_failed";
  case ErrorCode::FileSystem:
    return "file_system";
  case ErrorCode::Refused:
    return "refused";
  case ErrorCode::Internal:
    return "internal";
  }
  return "unknown";
}
