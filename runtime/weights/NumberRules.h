//===- NumberRules.h - numbers that stored weights may hold -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The conditions of docs/reference/checkpoints.md, for checkpoints and for
// arrays that a caller gives.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H
#define MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H

#include "runtime/package/Manifest.h"
#include "runtime/weights/CopyMatrix.h"
#include "runtime/weights/WeightPlan.h"

#include <span>

namespace moec::weights {

/// Returns the condition of the numbers of a kind. `group` is what shares a
/// scale; `areFloats` says that packing quantizes the weights.
NumberRule ruleOf(Kind kind, const LayerShape::Group &group, bool areFloats);

/// Returns the condition for the numbers of a stored weight of a package, also
/// for layers that no checkpoint format describes.
NumberRule ruleOf(const nlohmann::json &layer, std::string_view value);

/// Verifies that the numbers of some experts of a stored weight meet a
/// condition. Padding may hold any number. `extents` are those of one expert,
/// whose elements are contiguous; experts begin `stride` elements apart.
Result<void> checkStored(const nlohmann::json &layer, const Value &value,
                         std::string_view elementType, NumberRule rule,
                         const std::byte *data, int64_t first, int64_t experts,
                         std::span<const int64_t> extents, int64_t stride);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H
