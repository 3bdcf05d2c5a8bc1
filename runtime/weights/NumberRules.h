//===- NumberRules.h - conditions on stored values --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The conditions for elements of stored weights. docs/reference/checkpoints.md
// lists them. They apply to checkpoints and to tensors that a caller passes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H
#define MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H

#include "runtime/package/Manifest.h"
#include "runtime/weights/CopyMatrix.h"
#include "runtime/weights/WeightPlan.h"

#include <span>

namespace moec::weights {

/// Returns the condition for tensors of kind `kind`. `group`: extents of the
/// group that shares a scale; `areFloats`: packing quantizes the weights.
NumberRule ruleOf(Kind kind, const LayerShape::Group &group, bool areFloats);

/// Returns the condition for a package's stored weight. Unlike the function
/// above, it also supports layers that no checkpoint format describes.
NumberRule ruleOf(const nlohmann::json &layer, std::string_view value);

/// Checks that a stored weight's elements meet `rule`, for experts [first,
/// first + experts). Padding is not checked. `extents`: shape of one expert,
/// whose elements are contiguous. `stride`: distance between two experts in
/// elements.
Result<void> checkStored(const nlohmann::json &layer, const Value &value,
                         std::string_view elementType, NumberRule rule,
                         const std::byte *data, int64_t first, int64_t experts,
                         std::span<const int64_t> extents, int64_t stride);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H
