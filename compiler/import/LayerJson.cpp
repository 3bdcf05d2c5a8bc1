//===- LayerJson.cpp - reads moec's layer JSON ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Formats.h"

#include "compiler/import/LayerFields.h"
#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Activations.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

/// The version that "moec_layer" must have.
constexpr int kLayerJsonVersion = 1;

/// A field of vLLM's objects that a layer JSON does not have, and the reason or
/// an alternative for the error message.
struct ForeignField {
  std::string_view name;
  std::string_view reason;
};

constexpr ForeignField kForeignLayerFields[] = {
    {"num_local_experts", "moec computes it from moe_parallel_config"},
    {"num_logical_experts",
     "say num_experts (logical) and num_redundant_experts"},
    {"intermediate_size_per_partition",
     "moec computes it; say the whole layer's intermediate_size"},
    {"intermediate_size_per_partition_unpadded",
     "moec computes it; say the whole layer's intermediate_size, without "
     "padding"},
    {"intermediate_pad",
     "say intermediate_size without padding, and of padded weights "
     "stored_intermediate_size_per_partition"},
    {"hidden_dim_unpadded", "say it as hidden_size, and of padded weights "
                            "stored_hidden_size"},
    {"device", "the options --arch and --gpu specify it"},
    {"moe_backend", "the option --backend specifies it"},
    {"max_num_tokens", "the option --max-tokens specifies it"},
    {"max_capture_size", "every token count can be captured"},
    {"shared_expert_prefix", "say n_shared_experts"},
    {"defer_moe_finalize_max_num_tokens",
     "defer_moe_finalize is for every token count"},
};

constexpr ForeignField kForeignQuantFields[] = {
    {"gemm1_alpha", "say swiglu_alpha of the layer, or activation_per_expert"},
    {"gemm1_beta", "say swiglu_beta of the layer, or activation_per_expert"},
    {"gemm1_clamp_limit",
     "say swiglu_limit of the layer, or activation_per_expert"},
    {"mx_alignment", "say stored_hidden_size and "
                     "stored_intermediate_size_per_partition of the layer"},
};

void refuseForeign(JsonReader &reader, std::span<const ForeignField> fields) {
  for (const ForeignField &field : fields)
    if (reader.value().contains(std::string(field.name)))
      reader.refuse(field.name, "no field of this format: {}", field.reason);
}

/// Keys of config.json files that correspond to fields of this format.
constexpr JsonReader::Synonym kSynonyms[] = {
    {"num_experts_per_tok", "top_k"},
    {"moe_intermediate_size", "intermediate_size"},
    {"n_routed_experts", "num_experts"},
    {"hidden_act", "activation"},
    {"torch_dtype", "in_dtype"},
    {"dtype", "in_dtype"},
    {"scheme", "quant_config"},
    {"norm_topk_prob", "renormalize"},
};

/// Returns the upper bound for fields that count experts. An invalid
/// num_experts is stored as 0; the largest accepted count is then returned, to
/// avoid follow-up errors.
int64_t mostExperts(const LayerDescription &layer) {
  return layer.experts ? layer.experts : kMaxDescribedExperts;
}

/// Returns the name under which the object has the field. An absent alias is
/// not looked up, so that messages do not list it as an accepted field.
std::string_view nameIn(JsonReader &reader, const LayerField &row) {
  if (row.alias.empty() || !reader.value().contains(std::string(row.alias)) ||
      !reader.has(row.alias))
    return row.name;
  if (reader.has(row.name))
    reader.refuse(row.alias, "expected one of {} and {}, which are the same",
                  row.name, row.alias);
  return row.alias;
}

/// Reads one field of the table. An invalid integer becomes 0.
void readField(JsonReader &reader, const LayerField &row,
               LayerDescription &layer) {
  const std::string_view key = nameIn(reader, row);
  if (const auto *slot = std::get_if<LayerField::Slot<bool>>(&row.slot)) {
    (*slot)(layer) = reader.booleanOr(key, false);
  } else if (const auto *slot =
                 std::get_if<LayerField::Slot<std::string>>(&row.slot)) {
    std::string &value = (*slot)(layer);
    value = row.names ? readName(reader, key, row.names(), value)
                      : readFloatType(reader, key, "", row.isRequired);
  } else if (const auto *slot =
                 std::get_if<LayerField::Slot<int64_t>>(&row.slot)) {
    const int64_t max = row.max == kOfExperts ? mostExperts(layer) : row.max;
    const size_t before = reader.errors().count;
    (*slot)(layer) = row.isRequired ? reader.integer(key, row.min, max)
                                    : reader.integerOr(key, 0, 0, max);
    if (reader.errors().count != before) {
      (*slot)(layer) = 0;
      if (row.max == kOfExperts && layer.experts && reader.has(key))
        reader.explain(key, fmt::format("num_experts is {}", layer.experts));
    }
  } else {
    std::get<LayerField::Slot<std::optional<double>>>(row.slot)(layer) =
        reader.number(key);
  }
}

DescriptorDescription readDescriptor(JsonReader &quant, std::string_view key,
                                     std::string_view unquantized) {
  DescriptorDescription descriptor;
  descriptor.element = unquantized;
  std::optional<JsonReader> reader = quant.object(key);
  if (!reader)
    return descriptor;

  auto type = [&](std::string_view field, std::string_view otherwise) {
    std::string spelled = reader->textOr(field, otherwise);
    std::string element = elementTypeOf(spelled);
    if (element.empty() && !spelled.empty())
      reader->expected(field,
                       "an element type (bf16, f16, f32, f8E4M3FN, f8E5M2, "
                       "f6E3M2FN, f6E2M3FN, f4E2M1FN, f8E8M0FNU, i8 or i4)");
    return element;
  };
  descriptor.element = type("dtype", unquantized);
  descriptor.group =
      reader->integersOr("shape", {}, -1, kMaxDescribedIntermediate);
  descriptor.scale = type("scale", "");
  descriptor.secondScale = type("alpha_or_gscale", "");
  descriptor.zeroPoint = type("zp", "");
  descriptor.dynamic = reader->booleanOr("dynamic", false);
  descriptor.secondPerRow = reader->booleanOr("second_per_row", false);
  if (reader->has("scale_rule"))
    descriptor.scaleRule =
        readWord(*reader, "scale_rule", "even ceil floor", "");
  if (!descriptor.group.empty() && descriptor.group.size() != 2)
    reader->expected(
        "shape", "two integers, rows and columns of one scale (-1 for all)");
  for (int64_t extent : descriptor.group)
    if (extent == 0)
      reader->expected("shape", "extents of -1 (all) or at least 1");
  if (descriptor.group.empty() != descriptor.scale.empty())
    reader->refuse(descriptor.scale.empty() ? "scale" : "shape",
                   "expected \"shape\" and \"scale\" together (a scale and "
                   "what it covers) or neither, got one of them");
  reader->refuseUnknown();
  return descriptor;
}

QuantDescription readQuant(JsonReader &layer, std::string_view inputType) {
  QuantDescription quant;
  const json *field = layer.find("quant_config");
  if (!field)
    return quant;
  std::vector<std::string_view> schemes = schemeNames();
  if (field->is_string()) {
    quant.scheme = readName(layer, "quant_config", schemes, "");
    return quant;
  }
  if (!field->is_object()) {
    layer.expected("quant_config",
                   "null, the name of a scheme or an object with \"scheme\" or "
                   "with \"a1\", \"a2\", \"w1\" and \"w2\"");
    return quant;
  }
  std::optional<JsonReader> reader = layer.object("quant_config");
  refuseForeign(*reader, kForeignQuantFields);
  quant.scheme = readName(*reader, "scheme", schemes, "");
  bool spelledOut = false;
  for (std::string_view part : {"a1", "a2", "w1", "w2"})
    spelledOut |= reader->has(part);
  if (!quant.scheme.empty() && spelledOut)
    reader->refuse("scheme", "expected a scheme or descriptors (\"a1\", "
                             "\"a2\", \"w1\", \"w2\"), got both");
  quant.a1 = readDescriptor(*reader, "a1", inputType);
  quant.a2 = readDescriptor(*reader, "a2", inputType);
  quant.w1 = readDescriptor(*reader, "w1", inputType);
  quant.w2 = readDescriptor(*reader, "w2", inputType);
  if (quant.scheme.empty() && !spelledOut)
    reader->refuse("scheme", "expected \"scheme\" or descriptors (\"a1\", "
                             "\"a2\", \"w1\", \"w2\"), got neither");
  quant.groupSize =
      reader->integerOr("group_size", 0, -1, kMaxDescribedIntermediate);
  if (reader->has("group_size") &&
      (!reader->has("scheme") || quant.groupSize == 0))
    reader->expected("group_size", "-1 (all) or at least 1, with \"scheme\"");
  quant.scalesSwizzled = reader->booleanOr("is_scale_swizzled", false);
  reader->refuseUnknown();
  return quant;
}

/// Reads vLLM's flag is_act_and_mul, which this format expresses by the name of
/// the activation.
void readActAndMul(JsonReader &reader, ActivationDescription &activation) {
  if (!reader.has("is_act_and_mul"))
    return;
  const bool isGated = reader.booleanOr("is_act_and_mul", true);
  const auto *row = catalog::find(catalog::kActivations, activation.function);
  if (!row || row->gated == isGated)
    return;
  const std::string without = activation.function + "_no_mul";
  if (!isGated && catalog::find(catalog::kActivations, without)) {
    activation.function = without;
    return;
  }
  std::vector<std::string_view> names;
  for (const catalog::Activation &other : catalog::kActivations)
    if (other.gated == isGated)
      names.push_back(other.name);
  reader.refuse(
      "is_act_and_mul",
      "expected {} with activation \"{}\", got {}; activations that are {}: {}",
      !isGated, activation.function, isGated,
      isGated ? "multiplied by up" : "so", listOf(names, "and"));
}

void readActivation(JsonReader &reader, ActivationDescription &activation) {
  readActAndMul(reader, activation);
  if (reader.has("activation_situ_beta") && reader.has("swiglu_beta"))
    reader.refuse("swiglu_beta", "expected either swiglu_beta or "
                                 "activation_situ_beta, got both");
  if (std::optional<double> beta = reader.number("activation_situ_beta")) {
    activation.beta = beta;
    if (*beta <= 0)
      reader.expected("activation_situ_beta", "a number above 0");
  }
  if (activation.limit && *activation.limit <= 0)
    reader.expected("swiglu_limit",
                    "a number above 0, or no field for no limit");
}

/// Reports a layer with sigmoid scores and one expert per token that does not
/// specify `renormalize`, because its weight is ambiguous. The weight may be
/// the sigmoid, the sigmoid divided by itself (1), or the sigmoid may multiply
/// the input. vLLM's get_routing_method_type does not resolve this: depending
/// on the version, it returns Llama4 for top_k == 1 regardless of renormalize,
/// or it returns SigmoidRenorm or Sigmoid depending on renormalize.
void refuseUnclearSigmoid(JsonReader &layer, const RoutingDescription &routing,
                          int64_t topK) {
  if (routing.method == "auto" && routing.scoring == "sigmoid" && topK == 1 &&
      !routing.bias && !layer.has("renormalize"))
    layer.expected(
        "renormalize",
        "true (a weight divided by itself is 1) or false (the sigmoid is the "
        "weight) with \"sigmoid\" and one expert a token, or routing_method = "
        "\"llama4\" (the sigmoid multiplies the input)");
}

void readRouting(JsonReader &reader, LayerDescription &layer) {
  RoutingDescription &routing = layer.routing;
  if (layer.postExpertNorm && !catalog::isPositiveFloat(*layer.postExpertNorm))
    reader.expected("post_expert_norm_eps",
                    "a number of f32 above 0, or no field for no norm");
  routing.method = readName(reader, "routing_method", routingNames(), "auto");
  const bool infer = routing.method == "auto";
  for (std::string_view key : {"scoring_func", "renormalize"})
    if (reader.has(key) && !infer)
      reader.refuse(key,
                    "expected either routing_method or {}, got both; "
                    "routing_method = \"{}\" settles it",
                    key, routing.method);
  const std::string scoring =
      readName(reader, "scoring_func", scoringNames(), "softmax");
  const bool renormalize = reader.booleanOr("renormalize", true);
  if (infer) {
    routing.scoring = scoring;
    routing.renormalize = renormalize;
  }
  if (routing.softcap && *routing.softcap <= 0)
    reader.expected("router_logit_softcapping",
                    "a number above 0, or no field for no cap");
  if (routing.logitScale && !catalog::isPositiveFloat(*routing.logitScale))
    reader.expected("router_output_multiplier",
                    "a number of f32 above 0, or no field for 1");
  if (routing.epsilon && !catalog::isPositiveFloat(*routing.epsilon))
    reader.expected("norm_topk_prob_eps",
                    "a number of f32 above 0, or no field for the method's");
  if (layer.topK > 0 && routing.sinks >= layer.topK)
    reader.expected("num_sink_experts",
                    "fewer than top_k = {}, which counts them", layer.topK);
  const int64_t most = mostExperts(layer);
  const int64_t groups = reader.integerOr("num_expert_group", 0, 0, most);
  const int64_t asked = reader.integerOr("topk_group", 0, 0, most);
  if (groups > 0 && layer.experts % groups != 0)
    reader.expected("num_expert_group", "a divisor of num_experts = {}",
                    layer.experts);
  // A method that selects experts from each group uses all groups.
  const bool takesAll = routing.method.starts_with("intern_s1");
  if (groups > 0 && !takesAll && asked == 0)
    reader.expected("topk_group", "an integer from 1 to num_expert_group = {}",
                    groups);
  if (groups == 0 && asked > 1)
    return reader.expected("num_expert_group", "groups beside topk_group");
  routing.groups = groups;
  routing.topGroups = reader.integerOr("topk_group", takesAll ? groups : 0, 0,
                                       std::max<int64_t>(groups, 1));
  refuseUnclearSigmoid(reader, routing, layer.topK);
}

/// Converts the flattened values of vLLM's FusedMoEParallelConfig. Without
/// use_ep, that object's tp_size counts all dp * pcp * tp ranks, and its
/// tp_rank is the flattened rank. An object is recognized as vLLM's if it has
/// all of that class's fields, including ep_size, which is otherwise not
/// needed.
void readFlattenedShards(JsonReader &reader, ParallelDescription &parallel) {
  const int64_t outer = parallel.dp * parallel.pcp;
  if (outer == 1 || parallel.tp % outer != 0 || !reader.has("ep_size"))
    return;
  const int64_t inner = parallel.tp / outer;
  if (parallel.tpRank / inner !=
      parallel.dpRank * parallel.pcp + parallel.pcpRank)
    return; // not a rank of the flattened numbering
  bool isWhole = true;
  for (std::string_view key :
       {"tp_size", "tp_rank", "pcp_size", "pcp_rank", "dp_size", "dp_rank",
        "ep_rank", "sp_size", "use_ep", "all2all_backend", "enable_eplb"})
    isWhole &= reader.has(key);
  if (!isWhole)
    return reader.refuse(
        "tp_size",
        "{} beside dp_size {} and pcp_size {} may be {} ranks in all, "
        "flattened as vLLM's object has them, or {} for each of the others, {} "
        "in all; for the former say tp_size = {}, or all fields of vLLM's "
        "object; for the latter no ep_size",
        parallel.tp, parallel.dp, parallel.pcp, parallel.tp, parallel.tp,
        parallel.tp * outer, inner);
  parallel.tp = inner;
  parallel.tpRank %= inner;
}

/// Reads ep_size and ep_rank. With use_ep, vLLM's object has a tp_size of 1 and
/// an ep_size that counts all ranks, from which tp is computed here. An object
/// whose tp_size is not flattened is accepted too. ep_rank must agree with the
/// other ranks.
void readExpertRanks(JsonReader &reader, ParallelDescription &parallel) {
  const int64_t size = reader.integerOr("ep_size", 0, 1, kMaxDescribedRanks);
  const int64_t rank =
      reader.integerOr("ep_rank", -1, 0, std::max<int64_t>(size, 1) - 1);
  const int64_t sizes = parallel.ranks();
  if (reader.failed())
    return;
  if (size == 0) {
    if (rank >= 0)
      reader.refuse("ep_rank", "expected ep_size beside it");
    return;
  }
  if (!parallel.ep) {
    if (size != 1)
      reader.refuse("ep_size", "expected 1 without use_ep, got {}", size);
    return readFlattenedShards(reader, parallel);
  }
  const bool flattened = size != sizes;
  if (flattened && (parallel.tp != 1 || size % sizes != 0))
    return reader.refuse(
        "ep_size",
        "expected dp_size * pcp_size * tp_size = {}, or beside a tp_size of 1 "
        "a multiple of dp_size * pcp_size, got {}",
        sizes, size);
  if (flattened && rank < 0)
    return reader.refuse("ep_rank",
                         "expected a rank from 0 to {}, since ep_size counts "
                         "more ranks than the other sizes",
                         size - 1);
  parallel.tp *= size / sizes;
  if (rank < 0)
    return;
  const ParallelDescription given = parallel;
  parallel.setRank(rank);
  if ((reader.has("dp_rank") && given.dpRank != parallel.dpRank) ||
      (reader.has("pcp_rank") && given.pcpRank != parallel.pcpRank) ||
      (reader.has("tp_rank") && !flattened && given.tpRank != parallel.tpRank))
    reader.refuse("ep_rank",
                  "expected what the other ranks flatten to, {}, got {}",
                  given.rank(), rank);
}

ParallelDescription readParallel(JsonReader &layer) {
  ParallelDescription parallel;
  std::optional<JsonReader> reader = layer.object("moe_parallel_config");
  if (!reader)
    return parallel;
  auto size = [&](std::string_view key) {
    return reader->integerOr(key, 1, 1, kMaxDescribedRanks);
  };
  auto rank = [&](std::string_view key, int64_t of) {
    return reader->integerOr(key, 0, 0,
                             reader->failed() ? kMaxDescribedRanks : of - 1);
  };
  parallel.tp = size("tp_size");
  parallel.tpRank = rank("tp_rank", parallel.tp);
  parallel.pcp = size("pcp_size");
  parallel.pcpRank = rank("pcp_rank", parallel.pcp);
  parallel.dp = size("dp_size");
  parallel.dpRank = rank("dp_rank", parallel.dp);
  parallel.sp = size("sp_size");
  parallel.ep = reader->booleanOr("use_ep", false);
  readExpertRanks(*reader, parallel);
  parallel.placement = readWord(*reader, "expert_placement_strategy",
                                "linear round_robin", "linear");
  parallel.eplb = reader->booleanOr("enable_eplb", false);
  parallel.allToAll = reader->textOr("all2all_backend", "");
  reader->refuseUnknown();
  return parallel;
}

} // namespace

Result<LayerDescription>
moec::compiler::readLayerJson(const json &object, std::string_view name,
                              const ImportOptions &options) {
  JsonErrors errors{std::string(name), std::nullopt};
  JsonReader reader(object, "$", errors);

  const json *version = reader.find("moec_layer");
  if (!version || *version != kLayerJsonVersion)
    reader.expected("moec_layer", "the version of the format, {}",
                    kLayerJsonVersion);
  if (options.layer)
    errors.add(
        "--layer",
        "expected no --layer with a layer JSON, which describes one layer");
  if (options.as)
    errors.add("--as", "expected no --as with a layer JSON, which needs no "
                       "family");
  if (!options.ignoreFields.empty())
    errors.add("--ignore-field", "expected no --ignore-field with a layer "
                                 "JSON, whose every field counts");
  if (options.noSharedExperts)
    errors.add("--no-shared-experts",
               "expected no --no-shared-experts with a layer JSON, whose "
               "n_shared_experts specifies it");
  refuseForeign(reader, kForeignLayerFields);

  LayerDescription layer;
  layer.name = reader.textOr("name", stemOf(name));
  for (const LayerField &row : layerFields())
    if (!row.isInner)
      readField(reader, row, layer);
  layer.origin.words = wordsOfLayerJson();
  readActivation(reader, layer.activation);
  readRouting(reader, layer);
  layer.quant = readQuant(reader, layer.inputType);
  layer.parallel = readParallel(reader);
  // The caller decides at each run if the output overwrites the input, so this
  // has no effect.
  (void)reader.booleanOr("disable_inplace", false);
  reader.refuseUnknown(kSynonyms);

  return finished(std::move(layer), errors, options);
}
