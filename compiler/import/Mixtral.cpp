//===- Mixtral.cpp - config.json of Mixtral models ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MixtralForCausalLM: every layer is sparse, softmax over all experts, the best
// num_experts_per_tok, weights divided by their sum.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/HuggingFace.h"
#include "compiler/import/Vocabulary.h"

using namespace moec::compiler;

static constexpr std::string_view kReads[] = {
    "hidden_act",          "hidden_size",       "intermediate_size",
    "num_experts_per_tok", "num_hidden_layers", "num_local_experts",
};

static constexpr std::string_view kIrrelevant[] = {
    "output_router_logits", // of training
    "router_aux_loss_coef", // of training
    "router_jitter_noise",  // of training
    "rope_scaling",         // of attention
};

static void read(JsonReader &config, const ImportOptions &options,
                 LayerDescription &layer) {
  layer.numExperts = config.integer("num_local_experts", 1, kMaxExperts);
  layer.topK = config.integer("num_experts_per_tok", 1, layer.numExperts);
  layer.hidden = config.integer("hidden_size", 1, kMaxHidden);
  layer.intermediate = config.integer("intermediate_size", 1, kMaxIntermediate);
  layer.activation.function = readHiddenActivation(config);
  layer.routing.method = "renormalize_naive";
  readLayerIndex(config, options,
                 config.integer("num_hidden_layers", 1, 1 << 16));
}

const ModelFamily moec::compiler::kMixtral = {"MixtralForCausalLM", "mixtral",
                                              kReads, kIrrelevant, read};
