//===- FuzzImport.cpp - layer JSON and config.json of models --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The readers without IR. What they read stays inside of the bounds that later
// passes count on; the options are drawn by the input.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Formats.h"
#include "compiler/import/Vocabulary.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;
using namespace moec::compiler;

static ImportOptions drawOptions(uint64_t hash) {
  ImportOptions options;
  auto draw = [&hash](uint64_t choices) {
    uint64_t drawn = hash % choices;
    hash = hash / choices * 6364136223846793005u + 1442695040888963407u;
    return drawn;
  };
  if (draw(2))
    return options; // as most are read
  if (draw(4) == 0)
    options.tp = int64_t(1) << draw(5);
  if (draw(4) == 0)
    options.dp = draw(9);
  if (draw(6) == 0)
    options.pcp = draw(3);
  if (draw(6) == 0)
    options.rank = draw(16);
  if (draw(4) == 0)
    options.layer = draw(100);
  if (draw(6) == 0)
    options.scheme = draw(2) ? "fp8_block" : "int4_w4a16";
  if (draw(8) == 0)
    options.dtype = draw(2) ? "f16" : "x";
  if (draw(8) == 0)
    options.weightsDtype = "bf16";
  if (draw(8) == 0)
    options.allToAll = draw(2) ? "deepep_low_latency" : "naive";
  options.ep = draw(4) == 0;
  options.noSharedExperts = draw(4) == 0;
  return options;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text = fuzz::textOf(data, size);
  Result<LayerDescription> layer =
      readDescription(text, "in.json", drawOptions(fuzz::hashOf(text)));
  if (!layer) {
    fuzz::requireRefusal(layer.error());
    fuzz::require(layer.error().message.starts_with("in.json: "),
                  "a refusal names the file: " + layer.error().message);
    return 0;
  }
  fuzz::require(layer->experts >= 1 && layer->experts <= kMaxDescribedExperts,
                "experts are in bounds");
  fuzz::require(layer->topK >= 1 && layer->topK <= layer->experts,
                "experts per token are in bounds");
  fuzz::require(layer->hidden >= 1 && layer->hidden <= kMaxDescribedHidden,
                "hidden is in bounds");
  fuzz::require(layer->intermediate >= 1 &&
                    layer->intermediate <= kMaxDescribedIntermediate,
                "intermediate is in bounds");
  const ParallelDescription &parallel = layer->parallel;
  fuzz::require(parallel.tp >= 1 && parallel.dp >= 1 && parallel.pcp >= 1,
                "groups are not empty");
  fuzz::require(parallel.rank() >= 0 && parallel.rank() < parallel.ranks(),
                "the rank is one of them");
  fuzz::require(!layer->inputType.empty(), "the input has a type");
  return 0;
}
