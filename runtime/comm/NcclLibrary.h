//===- NcclLibrary.h - NCCL loaded at run time ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_NCCLLIBRARY_H
#define MOEC_RUNTIME_COMM_NCCLLIBRARY_H

#include "runtime/support/Result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace moec::comm {

// Types as declared in src/nccl.h.in of NVIDIA/nccl.
struct NcclCommTag;
using NcclComm = NcclCommTag *;
using NcclWindow = struct NcclWindowTag *;

struct NcclId {
  char bytes[128];
};

// Constants of nccl.h, and the first NCCL versions with the functions named in
// the comments.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kRemoteError = 6;
inline constexpr int kInProgress = 7;
inline constexpr int kUint8 = 1;
inline constexpr int kSum = 0;
inline constexpr int kLeastVersion = 21800;  // ncclCommSplit
inline constexpr int kWindowVersion = 22902; // ncclGetPeerDevicePointer
inline constexpr int kSymmetric = 1;         // NCCL_WIN_COLL_SYMMETRIC

/// The functions of a loaded NCCL library.
struct Nccl {
// `member` is a declarator, so it cannot be parenthesized.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define MOEC_NCCL(member, symbol, parameters) int(*member) parameters = nullptr;
#include "runtime/comm/NcclSymbols.def"
  // NOLINTEND(bugprone-macro-parentheses)
  const char *(*errorString)(int status) = nullptr;
  int version = 0;

  /// Returns NCCL's description of `status`, followed by the numeric value.
  std::string describe(int status) const;
  Error failed(std::string_view what, int status) const;
};

/// Opens the NCCL library at `path`. If `path` is empty, a library that is
/// already loaded is preferred; otherwise the dynamic loader's folders are
/// searched. If `loadedAlone` is true, only a library that is already loaded is
/// used, because an ncclComm_t is valid only in the library that created it.
/// Returns NoCommunication if there is no library or if it is too old.
Result<Nccl> openNccl(const std::string &path, bool loadedAlone);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_NCCLLIBRARY_H
