//===- CallerStructs.cpp - structs of the C interface's callers -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/api/CallerStructs.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::runtime;

// Callers in other languages declare this struct by hand, so its layout is
// fixed.
static_assert(offsetof(moec_tensor, element_type) == 2 * sizeof(void *));
static_assert(offsetof(moec_tensor, rank) == 3 * sizeof(void *));
static_assert(offsetof(moec_tensor, shape) == 4 * sizeof(void *));
static_assert(sizeof(moec_tensor) == 6 * sizeof(void *));

/// Converts a tensor without copying its strings.
static Result<Tensor> readTensor(const moec_tensor &given,
                                 const char *function) {
  if (!given.name)
    return nullArgument(function, "the name of a tensor");
  const auto fail = [&](const std::string &what) {
    return invalidArgument("{}: tensor '{}': {}", function, given.name, what);
  };
  if (given.rank < 0 || given.rank > kMaxRank)
    return fail(fmt::format("expected a rank of 0 to {}, got {}", kMaxRank,
                            given.rank));
  if (!given.shape && given.rank > 0)
    return fail(fmt::format("shape is NULL; expected {} extents", given.rank));
  Tensor tensor;
  tensor.name = given.name;
  tensor.data = given.data;
  if (given.element_type)
    tensor.elementType = given.element_type;
  tensor.rank = given.rank;
  std::copy_n(given.shape, given.rank, tensor.shape.begin());
  tensor.hasStrides = given.strides != nullptr;
  if (given.strides)
    std::copy_n(given.strides, given.rank, tensor.strides.begin());
  return tensor;
}

Result<std::span<const Tensor>>
runtime::readTensors(const moec_tensor *tensors, size_t count,
                     const char *function, std::vector<Tensor> &storage) {
  if (!tensors && count > 0)
    return nullArgument(function, "the array of tensors");
  storage.clear();
  for (size_t i = 0; i < count; ++i) {
    auto tensor = TRY(readTensor(tensors[i], function));
    storage.push_back(tensor);
  }
  return std::span<const Tensor>(storage);
}
