//===- NumberRules.h - the numbers that a stored weight may hold -*- C++
//-*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rule for checkpoints and for arrays that a caller gives;
// docs/reference/checkpoints.md states it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H
#define MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H

#include "runtime/package/Manifest.h"
#include "runtime/weights/CopyMatrix.h"
#include "runtime/weights/WeightPlan.h"

namespace moec::weights {

/// Returns the condition of the numbers of a kind. `group` is what shares a
/// scale; `areFloats` says that packing quantizes the weights.
NumberRule ruleOf(Kind kind, const LayerShape::Group &group, bool areFloats);

/// Returns the condition of the numbers of a stored weight of a package. The
/// layer may be one that no checkpoint holds.
NumberRule ruleOf(const nlohmann::json &layer, std::string_view value);

/// Verifies that the numbers of some experts of a stored weight meet a
/// condition. Those of an expert are contiguous, and its successor begins
/// `stride` elements further.
Result<void> checkStored(const Value &value, std::string_view elementType,
                         NumberRule rule, const std::byte *data, int64_t first,
                         int64_t experts, int64_t ofExpert, int64_t stride);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_NUMBERRULES_H
