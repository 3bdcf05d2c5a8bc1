//===- PackedWeights.h - weights that are packed again ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine may pack a layer's weights again at any time, in place.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_PACKEDWEIGHTS_H
#define MOEC_TEST_CHECK_PACKEDWEIGHTS_H

#include "tools/moec-run/LoadedLayer.h"

namespace moec::check {

/// Stored weights, uploaded once more.
struct StoredWeights {
  std::vector<tools::Buffer> memory;
  std::vector<runtime::Tensor> tensors;
  tools::Buffer scratch;
};

/// Makes all that packing writes unusable, and what repack() takes.
Result<StoredWeights> destroyPacked(run::LoadedLayer &layer,
                                    const run::HostWeights &weights);
/// Queues packing; `stored` must live until it has ended.
Result<void> repack(run::LoadedLayer &layer, const StoredWeights &stored,
                    int stream);
/// All that is this local expert's becomes that of `weights`, at the
/// addresses where it is; waits.
Result<void> replaceExpert(run::LoadedLayer &layer,
                           const run::HostWeights &weights, int64_t expert);

/// Whether packing made the reference's bytes out of weights that are stored as
/// floats. What is returned says how many are not, "" if all are.
Result<std::string> checkQuantized(run::LoadedLayer &layer,
                                   const run::HostWeights &weights);

/// Whether unpacking gives the weights as they were given, once to other memory
/// and once in place, after which they are packed again. Returned as above.
Result<std::string> checkUnpacked(run::LoadedLayer &layer,
                                  const run::HostWeights &weights);

} // namespace moec::check

#endif // MOEC_TEST_CHECK_PACKEDWEIGHTS_H
