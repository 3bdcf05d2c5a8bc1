//===- HostInputs.h - the tensors that a run reads --------------*- C++ -*-===//
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

/// The tensors that a run routes by.
enum class RoutingInput { Logits, Ids32, Ids64 };

/// The kind of inputs. moec-run has the defaults; test/check has options.
struct InputOptions {
  RoutingInput routeBy = RoutingInput::Logits;
  std::string tokenIds = "i32"; ///< their type, where a table asks for them
  std::string logitsType;       ///< "": the layer's
  std::string weightsType;      ///< type of given weights; "": f32
  int64_t rowStride = 0;        ///< elements of x beyond H
  int64_t validTokens = -1;     ///< -1: not given
};

/// The tensors that a run reads.
struct HostInputs {
  HostArray x, xScale, xSecondScale, logits, ids, weights, tokenIds, sharedGate,
      residual, partials;
  HostArray gateUpAddend, downAddend;
  int32_t validTokens = -1;
  reference::Inputs described;
};

/// Makes the inputs of a run of so many tokens, or slots of each expert.
Result<HostInputs> makeInputs(const reference::Layer &layer, uint64_t seed,
                              const InputOptions &options, int64_t slots,
                              const std::string &pattern);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_HOSTINPUTS_H
