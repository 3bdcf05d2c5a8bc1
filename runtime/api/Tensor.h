//===- Tensor.h - tensors of the caller -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A caller's description of its memory, and the check against the manifest's
// value. Kernels rely on the manifest's shapes and strides and cannot detect a
// mistake, so every extent and stride is compared before the address is used.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_TENSOR_H
#define MOEC_RUNTIME_API_TENSOR_H

#include "runtime/package/Arguments.h"

#include <array>
#include <span>
#include <string_view>

namespace moec::runtime {

/// Maximum rank of a tensor; no value has more dimensions.
inline constexpr int32_t kMaxRank = 8;

/// A tensor named after a value, in memory of the package's device.
struct Tensor {
  std::string_view name;
  void *data = nullptr;
  std::string_view elementType; ///< "": the default of the value
  int32_t rank = 0;
  std::array<int64_t, kMaxRank> shape = {};   ///< outermost first
  bool hasStrides = false;                    ///< false: contiguous
  std::array<int64_t, kMaxRank> strides = {}; ///< in elements
};

/// Checks a caller's tensor against a value and binds it: element type, rank,
/// shape, strides, address and alignment. Allocates memory only if it fails.
///
/// Strides of dimensions with at most one element are not read. The outermost
/// stride may be larger if the value allows it; all other strides must be those
/// of a contiguous tensor. A value whose element type NumPy and PyTorch do not
/// have (fewer than 8 bits, or f8E8M0FNU) may be passed as "u8": shape and
/// strides then count bytes.
Result<BoundValue> bindTensor(const Value &value, const Symbols &symbols,
                              const Tensor &tensor);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_TENSOR_H
