//===- Result.cpp - names of the error codes ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The spelling of an ErrorCode for logs, JSON and programs.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Result.h"

using namespace moec;

/// By number.
static constexpr std::string_view kNames[] = {
    "ok",
    "invalid_argument",
    "invalid_manifest",
    "damaged_package",
    "no_matching_target",
    "device_limit",
    "too_many_tokens",
    "workspace_too_small",
    "misaligned",
    "context_in_use",
    "capturing",
    "strict_miss",
    "compile_failed",
    "no_compiler",
    "no_driver",
    "driver_failed",
    "file_system",
    "refused",
    "internal",
    "peer_lost",
    "peer_mismatch",
    "no_communication",
};
static_assert(std::size(kNames) == size_t(ErrorCode::NoCommunication) + 1);

std::string_view moec::errorCodeName(ErrorCode code) {
  const auto number = static_cast<size_t>(code);
  if (number < std::size(kNames))
    return kNames[number];
  return "unknown";
}
