//===- NcclLibrary.h - NCCL, opened at run time -----------------*- C++ -*-===//
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

// As src/nccl.h.in of NVIDIA/nccl declares them.
struct NcclCommTag;
using NcclComm = NcclCommTag *;
using NcclWindow = struct NcclWindowTag *;

struct NcclId {
  char bytes[128];
};

// Numbers of nccl.h.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kRemoteError = 6;
inline constexpr int kInProgress = 7;
inline constexpr int kUint8 = 1;
inline constexpr int kSum = 0;
inline constexpr int kLeastVersion = 21800;  // ncclCommSplit
inline constexpr int kWindowVersion = 22902; // ncclGetPeerDevicePointer
inline constexpr int kSymmetric = 1;         // NCCL_WIN_COLL_SYMMETRIC

/// The functions of an opened library.
struct Nccl {
// The macro declares: `member` is a name and takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define MOEC_NCCL(member, symbol, parameters) int(*member) parameters = nullptr;
#include "runtime/comm/NcclSymbols.def"
  // NOLINTEND(bugprone-macro-parentheses)
  const char *(*errorString)(int status) = nullptr;
  int version = 0;

  /// The words for a status, with its number.
  std::string describe(int status) const;
  Error failed(std::string_view what, int status) const;
};

/// Opens the library at `path`; "": the one of the process, then the usual
/// places. `loadedAlone`: only if the process has it already, since a
/// communicator means something to its own library alone. NoCommunication where
/// there is none, or one that is too old.
Result<Nccl> openNccl(const std::string &path, bool loadedAlone);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_NCCLLIBRARY_H
