//===- CallerStructs.h - structs of the C interface's callers ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Helpers for the implementation of functions of moec/moec.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_CALLERSTRUCTS_H
#define MOEC_RUNTIME_API_CALLERSTRUCTS_H

#include "runtime/api/Handles.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace moec::runtime {

/// Returns a copy of an options struct in this library's version. If the
/// caller's version is older and shorter, the missing fields are zero. If it is
/// later and longer, nonzero bytes in the additional fields are an error,
/// because they must not be ignored. NULL yields all zeros.
template <typename Options>
Result<Options> readOptions(const Options *given, const char *name) {
  Options options;
  std::memset(static_cast<void *>(&options), 0, sizeof(options));
  if (!given)
    return options;
  size_t size = given->struct_size;
  if (size < sizeof(size_t))
    return invalidArgument("{}.struct_size is {}; set it to sizeof({})", name,
                           size, name);
  // No version of the struct is larger than this limit. A larger struct_size
  // was not initialized, so the bytes must not be read.
  constexpr size_t kMostBytes = 4096;
  if (size > kMostBytes)
    return invalidArgument("{}.struct_size is {}; set it to sizeof({})", name,
                           size, name);
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  for (size_t i = sizeof(options); i < size; ++i)
    if (bytes[i] != 0)
      return invalidArgument("{} has fields that this library ({}.{}.{}) does "
                             "not know; leave them zero",
                             name, MOEC_VERSION_MAJOR, MOEC_VERSION_MINOR,
                             MOEC_VERSION_PATCH);
  std::memcpy(static_cast<void *>(&options), given,
              std::min(size, sizeof(options)));
  return options;
}

/// Converts the tensors of a caller. The result points into `storage`.
Result<std::span<const Tensor>> readTensors(const moec_tensor *tensors,
                                            size_t count, const char *function,
                                            std::vector<Tensor> &storage);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_CALLERSTRUCTS_H
