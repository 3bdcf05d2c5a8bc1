//===- HostArray.h - uninitialized host memory ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_HOSTARRAY_H
#define MOEC_TOOLS_MOECRUN_HOSTARRAY_H

#include <cstddef>
#include <cstdint>
#include <memory>

namespace moec::run {

/// Host memory that is left uninitialized, because weights are gigabytes.
struct HostArray {
  explicit HostArray(int64_t bytes = 0)
      : bytes(bytes), data(new std::byte[static_cast<size_t>(bytes)]) {}
  int64_t bytes;
  std::unique_ptr<std::byte[]> data;
};

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_HOSTARRAY_H
