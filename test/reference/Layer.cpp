//===- Layer.cpp - reading a manifest's layer -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layer's structure from JSON. Whatever the reference cannot compute is an
// error here: a check that ignores a field of the layer would prove nothing.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Limits.h"
#include "runtime/support/JsonReader.h"
#include "test/reference/FirstHalf.h"
#include "test/reference/Reference.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace moec::reference {

namespace {

/// Reads fields; remembers the first error and from then on reads nothing.
class Reader {
public:
  explicit Reader(const nlohmann::json &root) : root(root) {}

  const nlohmann::json *at(std::string_view path) {
    const nlohmann::json *node = &root;
    for (size_t begin = 0; begin <= path.size();) {
      size_t end = std::min(path.find('.', begin), path.size());
      const std::string key(path.substr(begin, end - begin));
      if (!node->is_object() || !node->contains(key)) {
        fail(path, "is missing");
        return nullptr;
      }
      node = &(*node)[key];
      begin = end + 1;
    }
    return node;
  }
  int64_t integer(std::string_view path, int64_t least,
                  int64_t most = INT32_MAX) {
    const nlohmann::json *node = at(path);
    if (!node)
      return least;
    const std::optional<int64_t> value = integerIn(*node, least, most);
    if (!value)
      fail(path, "must be an integer from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", not " + node->dump());
    return value.value_or(least);
  }
  double number(std::string_view path) {
    const nlohmann::json *node = at(path);
    if (node && !node->is_number())
      fail(path, "must be a number, not " + node->dump());
    return node && node->is_number() ? node->get<double>() : 0;
  }
  /// `otherwise` where it is null.
  double numberOr(std::string_view path, double otherwise) {
    const nlohmann::json *node = at(path);
    return node && node->is_null() ? otherwise : number(path);
  }
  bool boolean(std::string_view path) {
    const nlohmann::json *node = at(path);
    if (node && !node->is_boolean())
      fail(path, "must be true or false, not " + node->dump());
    return node && node->is_boolean() && node->get<bool>();
  }
  /// One of `allowed`, or any text when it is empty.
  std::string word(std::string_view path,
                   const std::vector<std::string_view> &allowed) {
    const nlohmann::json *node = at(path);
    if (!node)
      return "";
    std::string text = node->is_string() ? node->get<std::string>() : "";
    std::string list;
    for (std::string_view candidate : allowed) {
      if (node->is_string() && candidate == text)
        return text;
      list += (list.empty() ? "" : ", ") + std::string(candidate);
    }
    if (node->is_string() && allowed.size() == 0)
      return text;
    fail(path, "must be " + (list.empty() ? "a text" : "one of " + list) +
                   " for the reference, not " + node->dump());
    return "";
  }
  const Element *floatType(std::string_view path) {
    const nlohmann::json *node = at(path);
    if (!node)
      return nullptr;
    const Element *element =
        node->is_string() ? findElement(node->get<std::string>()) : nullptr;
    if (!element || !element->isFloat || element->bytes < 2) {
      fail(path, "must be f32, f16 or bf16, not " + node->dump());
      return nullptr;
    }
    return element;
  }
  /// The element type of an operand.
  const Element *operandType(std::string_view path) {
    const nlohmann::json *node = at(path);
    if (!node)
      return nullptr;
    const Element *element =
        node->is_string() ? findElement(node->get<std::string>()) : nullptr;
    const bool isByte =
        element && (element->name == "f8E4M3FN" || element->name == "i8");
    if (!isByte && (!element || !element->isFloat || element->bytes < 2)) {
      fail(path, "must be f32, f16, bf16, f8E4M3FN or i8, not " + node->dump());
      return nullptr;
    }
    return element;
  }
  /// That of a weight, or of its scales.
  const Element *weightType(std::string_view path) {
    const nlohmann::json *node = at(path);
    const Element *element = node && node->is_string()
                                 ? findElement(node->get<std::string>())
                                 : nullptr;
    if (node && (!element || (!element->isFloat && element->bytes > 1)))
      fail(path, "must be a float, i8 or i4, not " + node->dump());
    return element;
  }
  /// An optional option that must be absent, null, or equal to `neutral`.
  void demand(std::string_view path, const nlohmann::json &neutral) {
    const nlohmann::json *node = at(path);
    if (node && !node->is_null() && *node != neutral)
      fail(path, "is " + node->dump() +
                     ", which the reference does not know; "
                     "it knows " +
                     neutral.dump());
  }

  std::string error;

private:
  void fail(std::string_view path, const std::string &what) {
    if (error.empty())
      error = "layer." + std::string(path) + " " + what;
  }
  const nlohmann::json &root;
};

} // namespace

/// An element type, and for those of 8 bits f32 scales: `groups` are the
/// extents that the reference computes with.
static const Element *descriptor(Reader &reader, const std::string &which,
                                 const nlohmann::json &groups,
                                 Scaling &scaling) {
  const std::string base = "quant." + which + ".";
  const Element *element = reader.operandType(base + "element_type");
  reader.demand(base + "second_scale_type", nullptr);
  reader.demand(base + "zero_point_type", nullptr);
  if (!element || element->bytes > 1) {
    reader.demand(base + "group", nlohmann::json::array());
    reader.demand(base + "scale_type", nullptr);
    reader.demand(base + "dynamic", false);
    return element;
  }
  scaling.given = true;
  if (reader.word(base + "scale_type", {"f32", "f8E8M0FNU"}) == "f8E8M0FNU")
    scaling.rule = reader.word(base + "scale_rule", {"ceil"});
  scaling.dynamic = reader.boolean(base + "dynamic");
  const nlohmann::json *group = reader.at(base + "group");
  bool known = false;
  for (const nlohmann::json &candidate : groups)
    known |= group && *group == candidate;
  if (!known) {
    reader.demand(base + "group", groups);
    return element;
  }
  scaling.rows = (*group)[0].get<int64_t>();
  scaling.columns = (*group)[1].get<int64_t>();
  return element;
}

/// Activations of a layer whose weights are dequantized: plain, or emulated.
static const Element *emulated(Reader &reader, const nlohmann::json &json,
                               const std::string &which, Scaling &scaling) {
  const std::string base = "quant." + which + ".";
  const nlohmann::json *scale = reader.at(base + "scale_type");
  const Element *element = reader.weightType(base + "element_type");
  if (!scale || scale->is_null() || !element)
    return reader.floatType(base + "element_type");
  const std::string type =
      reader.word(base + "scale_type", {"f32", "f8E8M0FNU", "f8E4M3FN"});
  reader.demand(base + "zero_point_type", nullptr);
  scaling.given = true;
  scaling.scaleType = reader.weightType(base + "scale_type");
  scaling.dynamic = reader.boolean(base + "dynamic");
  scaling.second = type == "f8E4M3FN";
  reader.demand(base + "second_scale_type",
                scaling.second ? nlohmann::json("f32") : nlohmann::json());
  const nlohmann::json &descriptor = json["quant"][which];
  if (descriptor.contains("second_per_row"))
    scaling.secondPerRow = reader.boolean(base + "second_per_row");
  if (type == "f8E8M0FNU")
    scaling.rule = reader.word(base + "scale_rule", {"even", "ceil", "floor"});
  const nlohmann::json *group = reader.at(base + "group");
  if (group && group->is_array() && group->size() == 2) {
    scaling.rows = integerIn((*group)[0], -1, INT32_MAX).value_or(0);
    scaling.columns = integerIn((*group)[1], -1, INT32_MAX).value_or(0);
  }
  const bool ofRow =
      scaling.rows == 1 &&
      (scaling.columns > 0 || (scaling.columns == -1 && type == "f32"));
  if (!(ofRow && scaling.dynamic) && !(scaling.ofTensor() && type == "f32"))
    reader.demand(base + "group", "[1, columns] of dynamic scales, or f32 "
                                  "scales of [1, -1] or [-1, -1]");
  return element;
}

/// A weight: plain, or with static scales of groups of rows and columns.
static const Element *weight(Reader &reader, const nlohmann::json &json,
                             const std::string &which, Scaling &scaling) {
  const std::string base = "quant." + which + ".";
  const Element *element = reader.weightType(base + "element_type");
  const nlohmann::json *scale = reader.at(base + "scale_type");
  if (!scale || scale->is_null()) {
    reader.demand(base + "group", nlohmann::json::array());
    reader.demand(base + "zero_point_type", nullptr);
    reader.demand(base + "second_scale_type", nullptr);
    return reader.operandType(base + "element_type");
  }
  scaling.given = true;
  scaling.scaleType = reader.weightType(base + "scale_type");
  reader.demand(base + "dynamic", false);
  const auto present = [&](const char *field, const nlohmann::json &type) {
    const nlohmann::json *node = reader.at(base + field);
    if (!node || node->is_null())
      return false;
    reader.demand(base + field, type);
    return true;
  };
  scaling.second = present("second_scale_type", "f32");
  if (json["quant"][which].contains("second_per_row"))
    scaling.secondPerRow = reader.boolean(base + "second_per_row");
  scaling.zeroPoint = present("zero_point_type", "i8");
  const nlohmann::json *group = reader.at(base + "group");
  const auto extent = [&](size_t i) -> int64_t {
    const bool isPair = group && group->is_array() && group->size() == 2;
    const int64_t value =
        isPair ? integerIn((*group)[i], -1, INT32_MAX).value_or(0) : 0;
    if (value == 0)
      reader.demand(base + "group", "two extents, -1 or from 1 to 2147483647");
    return value;
  };
  scaling.rows = extent(0);
  scaling.columns = extent(1);
  return element;
}

static int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// None without scales, whose groups are 0.
static int64_t scalesIn(int64_t extent, int64_t group) {
  if (group == 0)
    return 0;
  return group == -1 ? 1 : ceilDivide(extent, group);
}

int64_t Layer::w13ScaleRows() const {
  return (gated ? 2 : 1) * scalesIn(intermediate, w1Scaling.rows);
}
int64_t Layer::w13ScaleColumns() const {
  return scalesIn(hidden, w1Scaling.columns);
}
int64_t Layer::w2ScaleRows() const { return scalesIn(hidden, w2Scaling.rows); }
int64_t Layer::w2ScaleColumns() const {
  return scalesIn(intermediate, w2Scaling.columns);
}

static void readRouting(Reader &reader, const nlohmann::json &json,
                        Layer &layer) {
  layer.score = reader.word("routing.score",
                            {"identity", "softmax", "sigmoid", "log_sigmoid",
                             "sqrtsoftplus", "sparsemixer", "drawn",
                             "drawn_normal", "none"});
  layer.select = reader.word("routing.select",
                             {"top_k", "top_k_per_group", "table", "given"});
  layer.normalize =
      reader.word("routing.normalize",
                  {"none", "softmax", "sigmoid", "sum", "sum_epsilon"});
  layer.groups = reader.integer("routing.groups", 0, kMostExperts);
  layer.topGroups = reader.integer("routing.top_groups", 0, kMostExperts);
  layer.routingBias = reader.boolean("routing.bias");
  layer.routingScale = reader.number("routing.scale");
  // Absent where there are none.
  const auto has = [&](const char *key) {
    return json.contains("routing") && json["routing"].contains(key);
  };
  if (has("expert_scale"))
    layer.expertScale = reader.boolean("routing.expert_scale");
  if (has("softcap"))
    layer.softcap = reader.number("routing.softcap");
  if (has("logit_scale"))
    layer.logitScale = reader.number("routing.logit_scale");
  if (has("epsilon"))
    layer.sumEpsilon = reader.number("routing.epsilon");
  if (has("sinks"))
    layer.sinks = reader.integer("routing.sinks", 0, layer.topK - 1);
  if (has("table_rows"))
    layer.tableRows = reader.integer("routing.table_rows", 1);
  if (has("num_zero_experts"))
    layer.zeroExperts =
        reader.integer("routing.num_zero_experts", 0, kMostExperts);
  if (has("num_constant_experts"))
    layer.constantExperts =
        reader.integer("routing.num_constant_experts", 0, kMostExperts);
  if (layer.zeroExperts > 0)
    layer.addZeroExperts = reader.boolean("routing.add_zero_experts");
  if (has("output_scale"))
    layer.outputScale = reader.number("routing.output_scale");
  if (!reader.error.empty())
    return;
  const int64_t groups = layer.groups, routed = layer.routedExperts();
  if ((layer.select == "table") != (layer.tableRows > 0))
    reader.error = "layer.routing.table_rows belongs to select \"table\"";
  else if (groups > 0 && (routed % groups != 0 || layer.topGroups < 1 ||
                          layer.topGroups > groups ||
                          layer.topK > routed / groups * layer.topGroups))
    reader.error = "layer.routing.groups do not divide the experts, or hold "
                   "fewer than top_k";
  else if (layer.sinks > 0 &&
           (groups > 0 || layer.select != "top_k" || layer.zeroExperts > 0))
    reader.error = "layer.routing.sinks belong to select \"top_k\" without "
                   "groups and zero experts";
  else if (layer.select == "top_k_per_group" &&
           (groups == 0 || layer.topK % groups != 0))
    reader.error = "layer.top_k must be a multiple of layer.routing.groups";
}

static void readOfExperts(Reader &reader, const nlohmann::json &activation,
                          Layer &layer) {
  for (const nlohmann::json &name :
       activation.value("per_expert", nlohmann::json::array())) {
    const auto *known =
        std::find(kActivationNumbers.begin(), kActivationNumbers.end(), name);
    if (known == kActivationNumbers.end())
      reader.error =
          "layer.activation.per_expert has an unknown number, " + name.dump();
    else
      layer.ofExperts[known - kActivationNumbers.begin()] = true;
  }
}

static StoredTensor readStored(Reader &reader, const nlohmann::json &json,
                               const std::string &name) {
  const std::string path = "stored_layout." + name;
  StoredTensor stored;
  stored.rowsLast = reader.boolean(path + ".rows_last");
  stored.packed = reader.word(path + ".packed", {"", "rows", "columns"});
  std::istringstream slots(reader.word(path + ".slots", {}));
  for (int64_t slot = 0; slots >> slot;)
    stored.slots.push_back(slot);
  stored.added = reader.integer(path + ".added", 0);
  // Absent where there are none.
  if (json.contains(
          nlohmann::json::json_pointer("/stored_layout/" + name + "/atoms")))
    stored.atoms = reader.boolean(path + ".atoms");
  return stored;
}

static void readActivation(Reader &reader, const nlohmann::json &json,
                           Layer &layer) {
  layer.function = reader.word("activation.function", activationFunctions());
  layer.gated = reader.boolean("activation.gated");
  layer.numbers.alpha = reader.numberOr("activation.alpha", 1);
  layer.numbers.beta = reader.numberOr("activation.beta", 0);
  layer.numbers.limit = reader.numberOr("activation.limit", 0);
  if (layer.function == "situ")
    layer.numbers.linearBeta = reader.number("activation.linear_beta");
  // Absent where there are none.
  if (json.contains("activation") && json["activation"].is_object())
    readOfExperts(reader, json["activation"], layer);
}

/// Reads the types and scales of both matmuls' operands.
static void readOperands(Reader &reader, const nlohmann::json &json,
                         Layer &layer) {
  const nlohmann::json tensor = {-1, -1}, row = {1, -1}, group = {1, 128};
  const nlohmann::json ofActivations = {tensor, row, group};
  // Absent where no activations are emulated.
  if (json.contains("compute_type")) {
    layer.computeType = reader.floatType("compute_type");
    layer.a1 = emulated(reader, json, "a1", layer.a1Scaling);
    layer.a2 = emulated(reader, json, "a2", layer.a2Scaling);
  } else {
    layer.a1 = descriptor(reader, "a1", ofActivations, layer.a1Scaling);
    layer.a2 = descriptor(reader, "a2", ofActivations, layer.a2Scaling);
  }
  layer.weightType = weight(reader, json, "w1", layer.w1Scaling);
  const Element *w2 = weight(reader, json, "w2", layer.w2Scaling);
  if (reader.error.empty() && w2 != layer.weightType)
    reader.error = "layer.quant.w2 must have the element type of w1";
  // Absent in packages that older compilers wrote.
  if (json.contains("accumulate"))
    layer.accumulatesFast =
        reader.word("accumulate", {"f32", "fast"}) == "fast";
  layer.groupIndex =
      json.contains("group_index") && reader.boolean("group_index");
}

/// Reads how a checkpoint stores the weights.
static void readStoredLayout(Reader &reader, const nlohmann::json &json,
                             Layer &layer) {
  layer.gateUpOrder =
      reader.word("gate_up_order",
                  {"gate_first", "up_first", "interleaved", "interleaved_8"});
  if (json.contains("stored_layout")) {
    layer.storedWeights = readStored(reader, json, "weights");
    layer.storedScales = readStored(reader, json, "scales");
    layer.storedZeroPoints = readStored(reader, json, "zero_points");
  }
  if (json.contains("stored_hidden_size"))
    layer.storedHidden = reader.integer("stored_hidden_size", layer.hidden);
  if (json.contains("stored_intermediate_size_per_partition"))
    layer.storedIntermediate = reader.integer(
        "stored_intermediate_size_per_partition", layer.intermediate);
  if (json.contains("weights_dtype"))
    layer.storedWeightType = reader.floatType("weights_dtype");
}

/// Reads options, most of which are absent unless they are set.
static void readOptions(Reader &reader, const nlohmann::json &json,
                        Layer &layer) {
  auto option = [&](const char *name) {
    return json.contains(name) && reader.boolean(name);
  };
  if (json.contains("post_expert_norm_eps"))
    layer.postExpertNorm = reader.number("post_expert_norm_eps");
  layer.residual = option("residual");
  layer.deferFinalize = option("defer_moe_finalize");
  layer.batchInvariant = option("batch_invariant");
  layer.lora = option("is_lora_enabled");
  layer.inputQuantized = option("input_quantized");
  layer.eplb = option("enable_eplb");
  layer.expertMap = option("expert_map");
  layer.sharedGate = option("shared_expert_gate");
  if (json.contains("num_redundant_experts"))
    layer.redundantExperts =
        reader.integer("num_redundant_experts", 0, kMostExperts);
  if (json.contains("n_shared_experts"))
    layer.sharedExperts = reader.integer("n_shared_experts", 0, kMostExperts);
  // Absent where these are behind the others in the weights.
  if (json.contains("shared_intermediate_size_per_partition"))
    layer.sharedIntermediate =
        reader.integer("shared_intermediate_size_per_partition", 1);
  if (json.contains("activation_format"))
    layer.batched =
        reader.word("activation_format", {"standard", "batched"}) == "batched";
  layer.hasBias = reader.boolean("has_bias");
  layer.addW2Bias = reader.boolean("add_w2_bias");
  layer.weightOnInput = reader.boolean("apply_router_weight_on_input");
  // Absent where the package is the whole layer.
  if (json.contains("part"))
    layer.part = reader.word(
        "part", {"route", "quantize", "gate_up", "down", "finalize"});
}

static void checkLayer(Reader &reader, const Layer &layer) {
  if (reader.error.empty() && layer.topK > layer.routedExperts())
    reader.error = "layer.top_k is larger than num_experts";
  if (reader.error.empty() &&
      layer.localBegin + layer.localExperts > layer.storedExperts())
    reader.error = "layer.local_experts ends behind num_experts";
  for (const Scaling *scaling : {&layer.a1Scaling, &layer.a2Scaling})
    if (reader.error.empty() && scaling->given && !scaling->dynamic &&
        !scaling->ofTensor())
      reader.error = "layer.quant.a1 and a2: a static scale must be of the "
                     "whole tensor";
  if (reader.error.empty() && !layer.a1Scaling.given &&
      (!layer.a1->isFloat || layer.a1->bytes < 2))
    reader.error = "layer.quant.a1 without a scale must be f32, f16 or bf16";
}

/// Leaves out the routing of a layer whose experts are given.
static void takeGivenExperts(Layer &layer) {
  layer.select = "given";
  layer.routingBias = layer.expertScale = false;
  layer.tableRows = layer.groups = layer.topGroups = 0;
}

Result<Layer> parseLayer(const nlohmann::json &json) {
  Reader reader(json);
  Layer layer;
  layer.name = reader.word("name", {});
  layer.experts = reader.integer("num_experts", 1, kMostExperts);
  layer.topK = reader.integer("top_k", 1, kMostExperts);
  layer.hidden = reader.integer("hidden_size", 1);
  layer.intermediate = reader.integer("intermediate_size_per_partition", 1);
  layer.localBegin = reader.integer("local_experts.begin", 0, kMostExperts);
  layer.localExperts = reader.integer("local_experts.count", 1, kMostExperts);
  layer.inputType = reader.floatType("in_dtype");
  layer.outputType = reader.floatType("out_dtype");
  layer.logitsType = reader.floatType("router_logits_dtype");
  readRouting(reader, json, layer);
  readActivation(reader, json, layer);
  readOperands(reader, json, layer);
  readStoredLayout(reader, json, layer);
  readOptions(reader, json, layer);
  checkLayer(reader, layer);
  if (!reader.error.empty())
    return Error{ErrorCode::InvalidManifest, reader.error};
  // Codes are what a part makes, except where it multiplies them.
  if (!layer.part.empty() && layer.part != "gate_up")
    layer.inputQuantized = false;
  // These parts read weights as they are given, bit for bit, if any.
  if (!layer.part.empty() && layer.part != "route")
    takeGivenExperts(layer);
  if (layer.batched) {
    // Who sent the rows has routed, and weighs what comes back.
    takeGivenExperts(layer);
    layer.topK = 1;
    layer.routingScale = layer.outputScale = 1;
    layer.weightOnInput = false;
    layer.eplb = false;
  }
  return layer;
}

} // namespace moec::reference
