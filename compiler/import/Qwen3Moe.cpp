//===- Qwen3Moe.cpp - config.json of Qwen3-MoE models ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Qwen3MoeForCausalLM: softmax over all experts, the best num_experts_per_tok,
// divided by their sum if norm_topk_prob says so. Some layers may be dense:
// layer i is sparse unless it stands in mlp_only_layers or i + 1 is no multiple
// of decoder_sparse_step. Absent keys take the defaults of Transformers'
// Qwen3MoeConfig, sizes excepted, which must be there.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/HuggingFace.h"
#include "compiler/import/Vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

using namespace moec::compiler;

static constexpr std::string_view kReads[] = {
    "decoder_sparse_step", "hidden_act",          "hidden_size",
    "mlp_only_layers",     "norm_topk_prob",      "moe_intermediate_size",
    "num_experts",         "num_experts_per_tok", "num_hidden_layers",
};

static constexpr std::string_view kIrrelevant[] = {
    "output_router_logits", // of training
    "router_aux_loss_coef", // of training
    "rope_scaling",         // of attention
};

/// Why layer `index` is dense, or "".
static std::string whyDense(int64_t index, int64_t step,
                            const std::vector<int64_t> &dense) {
  if (std::find(dense.begin(), dense.end(), index) != dense.end())
    return fmt::format("layer {} stands in mlp_only_layers", index);
  if ((index + 1) % step != 0)
    return fmt::format("with decoder_sparse_step {} layer {} is dense", step,
                       index);
  return "";
}

static void read(JsonReader &config, const ImportOptions &options,
                 LayerDescription &layer) {
  layer.numExperts = config.integer("num_experts", 1, kMaxExperts);
  layer.topK = config.integer("num_experts_per_tok", 1, layer.numExperts);
  layer.hidden = config.integer("hidden_size", 1, kMaxHidden);
  layer.intermediate =
      config.integer("moe_intermediate_size", 1, kMaxIntermediate);
  layer.activation.function = readHiddenActivation(config);
  layer.routing.method = config.booleanOr("norm_topk_prob", false)
                             ? "renormalize_naive"
                             : "default";

  int64_t numLayers = config.integer("num_hidden_layers", 1, 1 << 16);
  int64_t step = config.integerOr("decoder_sparse_step", 1, 1, 1 << 16);
  std::vector<int64_t> dense =
      config.integersOr("mlp_only_layers", {}, 0, 1 << 16);
  std::optional<int64_t> asked = readLayerIndex(config, options, numLayers);
  if (config.failed())
    return;
  if (asked) {
    if (std::string reason = whyDense(*asked, step, dense); !reason.empty())
      config.refuse(
          "decoder_sparse_step",
          fmt::format("expected --layer to name a layer with experts, "
                      "got --layer={}: {}",
                      *asked, reason));
    return;
  }
  std::sort(dense.begin(), dense.end());
  for (int64_t index = step - 1; index < numLayers; index += step)
    if (!std::binary_search(dense.begin(), dense.end(), index))
      return;
  config.refuse("decoder_sparse_step",
                fmt::format("expected a model with experts, got one whose {} "
                            "layers are all dense (decoder_sparse_step {}, "
                            "mlp_only_layers of {})",
                            numLayers, step, dense.size()));
}

const ModelFamily moec::compiler::kQwen3Moe = {
    "Qwen3MoeForCausalLM", "qwen3_moe", kReads, kIrrelevant, read};
