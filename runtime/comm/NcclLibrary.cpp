//===- NcclLibrary.cpp - NCCL loaded at run time --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/NcclLibrary.h"

#include <dlfcn.h>
#include <fmt/core.h>

using namespace moec;
using namespace moec::comm;

std::string Nccl::describe(int status) const {
  const char *text = errorString(status);
  return fmt::format("{} ({})", text ? text : "unknown error", status);
}

Error Nccl::failed(std::string_view what, int status) const {
  return {status == kRemoteError ? ErrorCode::PeerLost
                                 : ErrorCode::NoCommunication,
          fmt::format("{} failed: {}", what, describe(status))};
}

/// Calls dlopen with the additional flags `more`. On failure, sets `reason` to
/// the text that dlerror returns.
static void *tryOpen(const char *name, int more, std::string &reason) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | more);
  if (!library)
    if (const char *text = dlerror())
      reason = text;
  return library;
}

Result<Nccl> comm::openNccl(const std::string &path, bool loadedAlone) {
  constexpr const char *kName = "libnccl.so.2";
  std::string reason;
  void *library = nullptr;
  if (!path.empty()) {
    library = tryOpen(path.c_str(), loadedAlone ? RTLD_NOLOAD : 0, reason);
  } else {
    // A library that is already loaded is preferred, because two NCCL libraries
    // in one process cannot use each other's communicators.
    library = tryOpen(kName, RTLD_NOLOAD, reason);
    if (!library && !loadedAlone)
      library = tryOpen(kName, 0, reason);
  }
  const std::string name = path.empty() ? kName : path;
  if (!library && loadedAlone)
    return Error(ErrorCode::NoCommunication,
                 "an ncclComm_t was given, and no {} is loaded that can have "
                 "made it",
                 name);
  if (!library)
    return Error(ErrorCode::NoCommunication,
                 "NCCL could not be opened: {}; the wheel nvidia-nccl-cu13 has "
                 "it, nccl_path names it",
                 reason);
  Nccl nccl;
  const char *missing = nullptr;
#define MOEC_NCCL(member, symbol, parameters)                                  \
  nccl.member =                                                                \
      reinterpret_cast<decltype(nccl.member)>(dlsym(library, #symbol));        \
  if (!nccl.member && !missing)                                                \
    missing = #symbol;
#define MOEC_NCCL_OPTIONAL(member, symbol, parameters)                         \
  nccl.member =                                                                \
      reinterpret_cast<decltype(nccl.member)>(dlsym(library, #symbol));
#include "runtime/comm/NcclSymbols.def"
  nccl.errorString = reinterpret_cast<decltype(nccl.errorString)>(
      dlsym(library, "ncclGetErrorString"));
  if (!nccl.errorString && !missing)
    missing = "ncclGetErrorString";
  int &version = nccl.version;
  if (nccl.getVersion)
    nccl.getVersion(&version);
  if (missing || version < kLeastVersion)
    return Error(ErrorCode::NoCommunication,
                 "{} is NCCL {}.{}.{}{}; expected 2.18 or later", name,
                 version / 10000, version / 100 % 100, version % 100,
                 missing ? fmt::format(" and has no function {}", missing)
                         : std::string());
  return nccl;
}
