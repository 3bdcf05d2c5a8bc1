//===- Tensor.h - tensors of the caller -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A caller's description of its memory, and the check against the manifest's
// value. Kernels read memory as the manifest describes it and cannot see a
// mistake. So every extent and every stride is compared before an address is
// taken.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_TENSOR_H
#define MOEC_RUNTIME_API_TENSOR_H

#include "runtime/package/Arguments.h"

#include <array>
#include <span>
#include <string_view>

namespace moec::runtime {

/// More dimensions than any value has.
inline constexpr int32_t kMaxRank = 8;

/// A tensor by value name; memory of the package's device.
struct Tensor {
  std::string_view name;
  void *data = nullptr;
  std::string_view elementType; ///< "" is the value's default
  int32_t rank = 0;
  std::array<int64_t, kMaxRank> shape = {};   ///< outermost first
  bool hasStrides = false;                    ///< false is contiguous
  std::array<int64_t, kMaxRank> strides = {}; ///< in elements
};

/// Checks element type, rank, shape, strides, address and alignment of what a
/// caller gives for a value, and binds it. Allocates nothing unless it fails.
///
/// Strides of dimensions with at most one element say nothing and are not
/// read. The outermost stride may be larger where the value allows it; the
/// others are those of a contiguous tensor. A value whose elements have no
/// type in NumPy or PyTorch (below 8 bits, or f8E8M0FNU) may come as "u8":
/// shape and strides then count bytes.
Result<BoundValue> bindTensor(const Value &value, const Symbols &symbols,
                              const Tensor &tensor);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_TENSOR_H
