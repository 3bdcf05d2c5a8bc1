//===- HostInputs.h - inputs of a run on the host ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_HOSTINPUTS_H
#define MOEC_TOOLS_MOECRUN_HOSTINPUTS_H

#include "test/reference/Reference.h"
#include "tools/moec-run/HostArray.h"

#include <string>

namespace moec::run {

/// The tensors that define the routing of a run.
enum class RoutingInput { Logits, Ids32, Ids64 };

/// Variations of the inputs. moec-run uses the defaults; test/check has options
/// for them.
struct InputOptions {
  RoutingInput routeBy = RoutingInput::Logits;
  std::string tokenIds = "i32"; ///< element type of token ids, for layers that
                                ///< route by a hash table
  std::string logitsType;       ///< element type; "": the layer's logits type
  std::string weightsType;      ///< element type of given weights; "": f32
  int64_t rowStride = 0; ///< elements by which the row stride of x exceeds the
                         ///< hidden size
  int64_t validTokens = -1; ///< -1: not given
};

/// The tensors that a run reads.
struct HostInputs {
  HostArray x, xScale, xSecondScale, logits, ids, weights, tokenIds, sharedGate,
      residual, partials, intermediate;
  HostArray gateUpAddend, downAddend;
  int32_t validTokens = -1;
  reference::Inputs described;
};

/// Creates the inputs of a run. `slots`: the number of tokens of the run, or of
/// slots per expert if the layer is batched.
Result<HostInputs> makeInputs(const reference::Layer &layer, uint64_t seed,
                              const InputOptions &options, int64_t slots,
                              const std::string &pattern);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_HOSTINPUTS_H
