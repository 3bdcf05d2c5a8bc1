//===- NcclTypes.h - NCCL's own types ---------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As src/nccl.h.in of NVIDIA/nccl declares ncclComm_t, ncclWindow_t and
// ncclUniqueId.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_NCCLTYPES_H
#define MOEC_RUNTIME_COMM_NCCLTYPES_H

namespace moec::comm {

struct NcclCommTag;
using NcclComm = NcclCommTag *;
using NcclWindow = struct NcclWindowTag *;

struct NcclId {
  char bytes[128];
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_NCCLTYPES_H
