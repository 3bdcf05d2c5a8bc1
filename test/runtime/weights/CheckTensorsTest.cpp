//===- CheckTensorsTest.cpp - tensors that no value takes -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small checkpoints of two experts, each with one tensor too many, or with one
// that is another than it should be.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"
#include "test/runtime/weights/CheckpointTesting.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace moec;
using namespace moec::test;
using namespace moec::weights;
using nlohmann::json;

namespace {

constexpr int64_t kExperts = 2, kHidden = 16, kInner = 8;
const std::string kPrefix = "model.layers.3.mlp.experts.";
const std::string kWhere = "DIR: tensor '" + kPrefix;

/// A layer, its values and its checkpoint.
struct Model {
  Manifest manifest;
  std::map<std::string, Stored> tensors;
  LoadOptions options;

  explicit Model(const std::string &element = "bf16",
                 const std::string &type = "BF16") {
    const json weight = {{"group", json::array()}, {"element_type", element}};
    *manifest.layer = {{"name", "l"},
                       {"num_experts", kExperts},
                       {"hidden_size", kHidden},
                       {"intermediate_size", kInner},
                       {"intermediate_size_per_partition", kInner},
                       {"local_experts", {{"begin", 0}, {"count", kExperts}}},
                       {"activation", {{"gated", true}}},
                       {"quant", {{"w1", weight}, {"w2", weight}}}};
    value("w13", element, {kExperts, 2 * kInner, kHidden});
    value("w2", element, {kExperts, kHidden, kInner});
    value("logits", "bf16", {1, kExperts}, ValueRole::OptionalInput);
    for (int64_t e = 0; e < kExperts; ++e) {
      put(e, "gate_proj.weight", filled(type, {kInner, kHidden}));
      put(e, "up_proj.weight", filled(type, {kInner, kHidden}));
      put(e, "down_proj.weight", filled(type, {kHidden, kInner}));
    }
  }
  void value(const std::string &name, const std::string &element,
             std::vector<Expression> shape,
             ValueRole role = ValueRole::StoredWeight) {
    Value made;
    made.name = name;
    made.role = role;
    made.elementTypes = {element};
    made.shape = std::move(shape);
    manifest.values.push_back(made);
  }
  void put(int64_t expert, const std::string &name, Stored tensor) {
    tensors[fmt::format("{}{}.{}", kPrefix, expert, name)] = std::move(tensor);
  }
  void putInLayer(const std::string &name, Stored tensor) {
    tensors["model.layers.3." + name] = std::move(tensor);
  }
  /// Makes the codes integers in groups of 8, with scales.
  void scale(const char *layout, int64_t added) {
    for (const char *which : {"w1", "w2"})
      manifest.layer["quant"][which]["group"] = {1, 8};
    manifest.layer["stored_layout"] = {
        {"name", layout},
        {"zero_points",
         {{"rows_last", true}, {"packed", "rows"}, {"added", added}}}};
    tensors.clear();
    for (int64_t e = 0; e < kExperts; ++e)
      for (const char *part : {"gate_proj.", "up_proj.", "down_proj."}) {
        const bool isDown = part[0] == 'd';
        const int64_t rows = isDown ? kHidden : kInner;
        const int64_t columns = isDown ? kInner : kHidden;
        put(e, part + std::string("qweight"),
            filled("I32", {columns / 8, rows}));
        put(e, part + std::string("scales"),
            filled("BF16", {columns / 8, rows}));
      }
    for (const char *name : {"w13_scale", "w2_scale"})
      value(name, "bf16", {1});
  }

  /// Returns the error of loading a value such as w13, or "taken".
  std::string loaded(const std::string &name = "w13",
                     std::vector<int32_t> *numbers = nullptr) const {
    const Folder folder;
    folder.write("model.safetensors", fileOf(tensors));
    Result<Checkpoint> checkpoint = Checkpoint::open(folder.path);
    Result<WeightLoader> loader =
        WeightLoader::create(*checkpoint, manifest, options);
    if (!loader)
      return loader.error().message;
    const Value &value =
        *std::ranges::find(manifest.values, name, &Value::name);
    int64_t bits =
        host::storageBits(host::storageOf(value.elementTypes.front()));
    for (const Expression &extent : value.shape)
      bits *= *extent.evaluate({});
    std::vector<std::byte> to(size_t(bits / 8));
    Result<void> done = loader->load(value, to);
    if (numbers && done) {
      numbers->resize(to.size() / 4);
      std::memcpy(numbers->data(), to.data(), to.size());
    }
    return done ? "taken" : done.error().message.substr(folder.path.size() + 2);
  }
  /// The error of the check of names, "taken" if none.
  std::string said() const {
    const Folder folder;
    folder.write("model.safetensors", fileOf(tensors));
    return said(folder.path);
  }
  std::string said(const std::string &path) const {
    Result<Checkpoint> checkpoint = Checkpoint::open(path);
    std::string text = checkpoint ? "taken" : checkpoint.takeError().message;
    if (checkpoint)
      if (Result<WeightLoader> made =
              WeightLoader::create(*checkpoint, manifest, options);
          !made)
        text = made.error().message;
    for (size_t at = 0; (at = text.find(path, at)) != std::string::npos;)
      text.replace(at, path.size(), "DIR");
    return text;
  }
};

std::string notTaken(const std::string &name, const std::string &what,
                     const std::string &accepted,
                     const std::string &word = "") {
  return fmt::format("{}{}' {}, and no value of layer 'l' takes it; accepted: "
                     "{}{}",
                     kWhere, name, what, accepted,
                     word.empty() ? ""
                                  : ", or --ignore-tensor=" + word +
                                        " if no number of the layer depends "
                                        "on it");
}

} // namespace

TEST(CheckTensors, AllAreTaken) {
  Model model;
  EXPECT_EQ(model.said(), "taken");
  // Tensors of no expert, tensors without facts, other layers, other models.
  model.putInLayer("mlp.gate.weight", filled("BF16", {kExperts, kHidden}));
  model.putInLayer("mlp.gate.weight_scale", filled("F32", {1}));
  model.putInLayer("mlp.router.bias", filled("BF16", {kExperts}));
  model.putInLayer("self_attn.gate.qzeros", filled("I32", {1}));
  model.putInLayer("mlp.gate_proj.weight_scale_inv", filled("F32", {1}));
  model.put(0, "up_proj.weight_shape", filled("I64", {2}));
  model.tensors["model.layers.30.mlp.experts.0.up_proj.weight_scale_inv"] =
      filled("F32", {1});
  model.tensors["mtp.layers.3.mlp.experts.0.up_proj.weight_scale_inv"] =
      filled("F32", {1});
  model.options.layer = 3;
  EXPECT_EQ(model.said(), "taken");
}

TEST(CheckTensors, Scales) {
  Model model;
  model.put(1, "up_proj.weight_scale_inv", filled("F32", {1, 1}));
  EXPECT_EQ(model.said(), notTaken("1.up_proj.weight_scale_inv",
                                   "holds scales of the layer's experts",
                                   "a layer with quant_config fp8_block"));
  // Ones, too: whoever wrote them has another layer in mind.
  Model ofCodes("bf16", "F8_E4M3");
  ofCodes.put(0, "gate_proj.weight_scale",
              {"F32", {}, std::string("\0\0\x80\x3f", 4)});
  EXPECT_EQ(ofCodes.said(),
            notTaken("0.gate_proj.weight_scale",
                     "holds scales of the layer's experts",
                     "a layer with quant_config fp8_tensor, fp8_channel or "
                     "fp8_block"));
  ofCodes.manifest.layer["weights_dtype"] = "bf16";
  EXPECT_EQ(ofCodes.said(),
            notTaken("0.gate_proj.weight_scale",
                     "holds scales of the layer's experts",
                     "a layer without weights_dtype, since these weights are "
                     "quantized"));
  Model second;
  second.put(0, "up_proj.weight_scale_2", filled("F32", {}));
  EXPECT_EQ(second.said(),
            notTaken("0.up_proj.weight_scale_2",
                     "holds scales of scales of the layer's experts",
                     "a layer with quant_config nvfp4 or nvfp4_w4a16"));
}

TEST(CheckTensors, CodesAreNoFloats) {
  EXPECT_EQ(Model().loaded(), "taken");
  // These types have no scale that could be left out.
  for (const char *type :
       {"F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "I16"}) {
    const Model model("bf16", type);
    EXPECT_EQ(model.said(), "taken");
    EXPECT_EQ(model.loaded(),
              fmt::format("tensor '{}0.gate_proj.weight': expected bf16 [8, "
                          "16] for value 'w13' of layer 'l', got {} [8, 16]",
                          kPrefix, type));
  }
}

TEST(CheckTensors, ScalesOfActivations) {
  Model model;
  model.put(0, "down_proj.input_scale", filled("F32", {}));
  const std::string refused =
      notTaken("0.down_proj.input_scale",
               "holds scales of activations of the layer's experts",
               "a layer with static scales of activations (quant_config "
               "fp8_tensor, int8_tensor or nvfp4)",
               "input_scale");
  EXPECT_EQ(model.said(), refused);
  // The first matmul alone has a scale.
  model.value("a1_scale", "f32", {kExperts});
  EXPECT_EQ(model.said(), refused);
  model.options.ignored = {"input_scale"};
  EXPECT_EQ(model.said(), "taken");
  model.options.ignored = {"input_scale", "bias"};
  EXPECT_EQ(model.said(), "DIR: --ignore-tensor=bias: layer 3 has no tensor of "
                          "that word that no value takes");
}

TEST(CheckTensors, ScalesThatTheRealizationLeavesOut) {
  Model model;
  const json second = {{"value", "a2_second_scale"}, {"because", "so"}};
  model.manifest.layer["left_out"] = {second};
  model.put(0, "down_proj.input_scale", filled("F32", {}, '?'));
  EXPECT_EQ(model.said(), "taken");
  // Scales of the other matmul, and other kinds, are none of these.
  Model other = model;
  other.put(1, "up_proj.input_scale", filled("F32", {}, '?'));
  EXPECT_EQ(other.said(),
            notTaken("1.up_proj.input_scale",
                     "holds scales of activations of the layer's experts",
                     "a layer with static scales of activations (quant_config "
                     "fp8_tensor, int8_tensor or nvfp4)",
                     "input_scale"));
  other.manifest.layer["left_out"].push_back(
      {{"value", "a1_second_scale"}, {"because", "so"}});
  EXPECT_EQ(other.said(), "taken");
  other.put(0, "down_proj.weight_scale_2", filled("F32", {}, '?'));
  EXPECT_EQ(other.said(),
            notTaken("0.down_proj.weight_scale_2",
                     "holds scales of scales of the layer's experts",
                     "a layer with quant_config nvfp4 or nvfp4_w4a16"));
  // A scale that a calibration left unset is none of any realization.
  Model unset = model;
  unset.put(0, "down_proj.input_scale", filled("F32", {}));
  EXPECT_EQ(unset.said(),
            kWhere + "0.down_proj.input_scale' of expert 0 holds 0, expected a "
                     "scale that is finite and above 0; or "
                     "--ignore-tensor=input_scale to leave it out");
  unset.options.ignored = {"input_scale"};
  EXPECT_EQ(unset.said(), "taken");
  unset.options.ignored = {};
  unset.put(0, "down_proj.input_scale", filled("I32", {}));
  EXPECT_EQ(unset.said(), kWhere + "0.down_proj.input_scale': expected scales "
                                   "in F32, F16 or BF16, got I32 []");
  // An expert that the layer has not.
  model.put(kExperts, "down_proj.input_scale", filled("F32", {}, '?'));
  EXPECT_EQ(model.said(),
            kWhere + "2.down_proj.input_scale': expected experts 0 to 1 of "
                     "layer 'l', got expert 2");
}

TEST(CheckTensors, AListOfWhatIsLeftOutMustBeOne) {
  for (const json &list :
       {json("a1_scale"), json::array({"a1_scale"}),
        json::array({json::object()}), json::array({{{"value", 1}}}),
        json::array({{{"value", "w13_scale"}, {"because", "so"}}})}) {
    Model model;
    model.manifest.layer["left_out"] = list;
    EXPECT_EQ(model.said(), "layer.left_out: expected objects whose 'value' is "
                            "a scale of activations")
        << list;
  }
}

TEST(CheckTensors, Biases) {
  Model model;
  model.putInLayer("mlp.experts.gate_up_proj_bias",
                   filled("BF16", {kExperts, 2 * kInner}, 1));
  EXPECT_EQ(model.said(),
            notTaken("gate_up_proj_bias", "holds biases of the layer's experts",
                     "a layer with has_bias"));
  // Zeros add nothing; some quantizers write them, with either sign.
  model.putInLayer("mlp.experts.gate_up_proj_bias",
                   filled("BF16", {kExperts, 2 * kInner}));
  EXPECT_EQ(model.said(), "taken");
  std::string &bytes = model.tensors[kPrefix + "gate_up_proj_bias"].bytes;
  bytes[1] = char(0x80);
  EXPECT_EQ(model.said(), "taken");
  // One number, the first or the last.
  for (const size_t at : {size_t(0), bytes.size() - 2}) {
    bytes[at] = 1;
    EXPECT_EQ(model.said(), notTaken("gate_up_proj_bias",
                                     "holds biases of the layer's experts",
                                     "a layer with has_bias"))
        << at;
    bytes[at] = 0;
  }
  model.value("b13", "bf16", {kExperts, 2 * kInner});
  model.putInLayer("mlp.experts.gate_up_proj_bias",
                   filled("BF16", {kExperts, 2 * kInner}, 1));
  EXPECT_EQ(model.said(), "taken");
}

TEST(CheckTensors, ZeroPoints) {
  // Less by one in GPTQ's first format.
  for (const auto &[layout, added, byte] :
       {std::tuple("gptq", 1, 0x77), std::tuple("gptq_v2", 0, 0x88)}) {
    Model model("i4");
    model.scale(layout, added);
    EXPECT_EQ(model.said(), "taken");
    for (int64_t e = 0; e < kExperts; ++e)
      model.put(e, "up_proj.qzeros", filled("I32", {2, 1}, char(byte)));
    EXPECT_EQ(model.said(), "taken") << layout;
    model.tensors[kPrefix + "1.up_proj.qzeros"].bytes[6] ^= 0x20;
    EXPECT_EQ(model.said(),
              fmt::format("{}1.up_proj.qzeros' holds zero point {}, and layer "
                          "'l' is symmetric: expected {} everywhere in "
                          "stored_layout {}; accepted: a layer with zero "
                          "points (sym false in quantization_config, or "
                          "quant_config int4_zp_w4a16 of a layer JSON)",
                          kWhere, added ? 5 : 10, added ? 7 : 8, layout));
    // A file of the other format.
    Model other = model;
    other.put(1, "up_proj.qzeros",
              filled("I32", {2, 1}, char(added ? 0x88 : 0x77)));
    EXPECT_EQ(other.said(),
              fmt::format("{}1.up_proj.qzeros' holds zero point {}, and layer "
                          "'l' is symmetric: expected {} everywhere in "
                          "stored_layout {}; accepted: the layer of "
                          "checkpoint_format {} in quantization_config "
                          "(stored_layout of a layer JSON), or "
                          "--ignore-tensor=qzeros, where 8 is the middle of "
                          "the codes",
                          kWhere, added ? 8 : 7, added ? 7 : 8, layout,
                          added ? "gptq_v2" : "gptq"));
    other.options.ignored = {"qzeros"};
    EXPECT_EQ(other.said(), "taken");
    // Another rank's experts are that rank's to check.
    model.manifest.layer["local_experts"]["count"] = 1;
    EXPECT_EQ(model.said(), "taken");
  }
  Model floats;
  floats.put(0, "up_proj.qzeros", filled("I32", {2, 1}, 0x77));
  EXPECT_EQ(floats.said(),
            notTaken("0.up_proj.qzeros",
                     "holds zero points of the layer's experts",
                     "a layer with zero points (quant_config int4_zp_w4a16)"));
  // Bytes with a sign have their zero at 0.
  Model bytes("i8", "I8");
  bytes.put(0, "up_proj.weight_zero_point", filled("I8", {kInner, 1}));
  EXPECT_EQ(bytes.said(), "taken");
  bytes.put(0, "up_proj.weight_zero_point", filled("I8", {kInner, 1}, 1));
  EXPECT_EQ(bytes.said(),
            kWhere + "0.up_proj.weight_zero_point' holds zero point 1, and "
                     "layer 'l' is symmetric: expected 0 everywhere; accepted: "
                     "a layer with zero points (symmetric false in "
                     "quantization_config, or quant_config int8_zp_w8a16 of a "
                     "layer JSON)");
  bytes.put(0, "up_proj.weight_zero_point", filled("F32", {kInner, 1}));
  EXPECT_EQ(bytes.said(),
            kWhere + "0.up_proj.weight_zero_point': expected zero points in "
                     "I32, I8 or U8, got F32 [8, 1]");
}

TEST(CheckTensors, OrderOfColumns) {
  Model model;
  model.put(0, "up_proj.g_idx", filled("I32", {kHidden}));
  EXPECT_EQ(model.said(),
            notTaken("0.up_proj.g_idx",
                     "holds the groups of columns of the layer's experts",
                     "a layer with group_index"));
  // Beside integers its content is looked at, when they are loaded.
  Model integers("i4");
  integers.scale("gptq", 1);
  integers.put(0, "up_proj.g_idx", filled("I32", {kHidden}));
  EXPECT_EQ(integers.said(), "taken");
}

namespace {

Stored groups(const std::vector<int32_t> &numbers) {
  Stored tensor = filled("I32", {int64_t(numbers.size())});
  std::memcpy(tensor.bytes.data(), numbers.data(), 4 * numbers.size());
  return tensor;
}

/// Columns in interleaved groups and in consecutive ones.
const std::vector<int32_t> kTurns = {0, 1, 0, 1, 0, 1, 0, 1,
                                     0, 1, 0, 1, 0, 1, 0, 1};
const std::vector<int32_t> kAscending = {0, 0, 0, 0, 0, 0, 0, 0,
                                         1, 1, 1, 1, 1, 1, 1, 1};

} // namespace

TEST(GroupIndex, GateAndUpHaveOneOrder) {
  Model model("i4");
  model.scale("gptq", 1);
  model.manifest.layer["group_index"] = true;
  model.value("w13_group_index", "i32", {kExperts, kHidden});
  for (int64_t e = 0; e < kExperts; ++e)
    for (const char *part : {"gate_proj.g_idx", "up_proj.g_idx"})
      model.put(e, part, groups(e ? kAscending : kTurns));
  std::vector<int32_t> read, expected = kTurns;
  expected.insert(expected.end(), kAscending.begin(), kAscending.end());
  EXPECT_EQ(model.loaded("w13_group_index", &read), "taken");
  EXPECT_EQ(read, expected);

  Model other = model;
  other.put(1, "up_proj.g_idx", groups(kTurns));
  EXPECT_EQ(other.loaded("w13_group_index"),
            "tensors '" + kPrefix + "1.gate_proj.g_idx' and '" + kPrefix +
                "1.up_proj.g_idx' differ; expected one order of the columns of "
                "gate and up of expert 1");
  std::vector<int32_t> uneven = kTurns;
  uneven[0] = 1;
  other = model;
  other.put(0, "gate_proj.g_idx", groups(uneven));
  EXPECT_EQ(other.loaded("w13_group_index"),
            "tensor '" + kPrefix +
                "0.gate_proj.g_idx': expected 8 columns of "
                "group 0, got 7, in groups of 8 of expert 0");
}

/// A rank's columns of the second matmul begin in the middle.
TEST(GroupIndex, AShardHasItsGroups) {
  for (const int64_t begin : {0, 8}) {
    Model model("i4");
    model.scale("gptq", 1);
    auto &layer = model.manifest.layer;
    layer["intermediate_size"] = 16;
    layer["intermediate_begin"] = begin;
    // Words of eight codes along the columns.
    Value &words = model.manifest.values[1];
    words.elementTypes = {"i32"};
    words.shape = {kExperts, 1, kHidden};
    layer["stored_layout"]["weights"] = {{"rows_last", true},
                                         {"packed", "columns"}};
    for (int64_t e = 0; e < kExperts; ++e) {
      model.put(e, "down_proj.qweight", filled("I32", {2, kHidden}));
      model.put(e, "down_proj.scales", filled("BF16", {2, kHidden}));
      model.put(e, "down_proj.g_idx", groups(kAscending));
    }
    EXPECT_EQ(model.loaded("w2"), "taken") << begin;
    // Another rank verifies the other half of the columns.
    std::vector<int32_t> swapped = kAscending;
    std::swap(swapped[size_t(begin)], swapped[size_t(8 - begin)]);
    model.put(1, "down_proj.g_idx", groups(swapped));
    EXPECT_EQ(model.loaded("w2"),
              fmt::format("tensor '{}1.down_proj.g_idx': expected group {} of "
                          "column {}, since layer 'l' has no group_index, got "
                          "{}",
                          kPrefix, begin / 8, begin, 1 - begin / 8));
  }
}

TEST(CheckTensors, Router) {
  Model model;
  model.putInLayer("mlp.gate.e_score_correction_bias",
                   filled("F32", {kExperts}));
  EXPECT_EQ(model.said(),
            "DIR: tensor 'model.layers.3.mlp.gate.e_score_correction_bias' "
            "holds the bias that chooses experts of the router, and no value "
            "of layer 'l' takes it; accepted: a layer with "
            "e_score_correction_bias");
  // A layer that is given ids has no router.
  Model given = model;
  given.manifest.values.pop_back();
  EXPECT_EQ(given.said(), "taken");
  model.value("routing_bias", "f32", {kExperts});
  EXPECT_EQ(model.said(), "taken");

  // A router may have a bias of its linear layer and one that chooses experts.
  model.putInLayer("mlp.gate.bias", filled("BF16", {kExperts}));
  EXPECT_EQ(model.said(), "taken");
  Model linear;
  linear.putInLayer("mlp.gate.bias", filled("BF16", {kExperts}));
  EXPECT_EQ(linear.said(), "taken") << "logits are an input";

  Model table;
  table.putInLayer("ffn.gate.tid2eid", filled("I32", {4, 1}));
  EXPECT_NE(table.said().find("a layer with hash_vocabulary"),
            std::string::npos);
  Model factors;
  factors.putInLayer("router.per_expert_scale", filled("F32", {kExperts}));
  EXPECT_NE(factors.said().find("a layer with per_expert_scale"),
            std::string::npos);
  Model norm;
  norm.putInLayer("mlp.experts.post_expert_norm.weight", filled("BF16", {4}));
  EXPECT_NE(norm.said().find("holds factors of the norm after each expert"),
            std::string::npos)
      << norm.said();
  EXPECT_NE(norm.said().find("a layer with post_expert_norm_eps"),
            std::string::npos);
  Model other;
  other.putInLayer("mlp.router.temperature", filled("F32", {1}));
  EXPECT_EQ(
      other.said(),
      "DIR: tensor 'model.layers.3.mlp.router.temperature' belongs to "
      "the layer's router, and no value of layer 'l' takes it; accepted: "
      "tensors that docs/reference/checkpoints.md lists, or "
      "--ignore-tensor=temperature if no number of the layer depends on it");
}

/// The option of a command line that would leave nothing out.
TEST(CheckTensors, NoSharedExpertsWithoutEffect) {
  Model model;
  model.options.noSharedExperts = true;
  EXPECT_EQ(model.said(), "taken");
  model.options.needsSharedExperts = true;
  EXPECT_EQ(model.said(), "DIR: layer 3 has no shared experts; leave "
                          "--no-shared-experts out");
  model.manifest.layer["n_shared_experts"] = 1;
  EXPECT_EQ(model.said(),
            "layer 'l' of the package has shared experts, so that their "
            "weights are loaded; leave --no-shared-experts out");
}

TEST(CheckTensors, SharedExperts) {
  Model model;
  model.putInLayer("mlp.shared_experts.up_proj.weight",
                   filled("BF16", {kInner, kHidden}));
  EXPECT_EQ(model.said(),
            "DIR: tensor 'model.layers.3.mlp.shared_experts.up_proj.weight' is "
            "a shared expert's, and layer 'l' has none; accepted: a layer with "
            "n_shared_experts, or --no-shared-experts where the caller "
            "computes them");
  model.putInLayer("mlp.shared_expert_gate.weight", filled("BF16", {1, 16}));
  model.putInLayer("mlp.shared_experts.up_proj.odd", filled("BF16", {1}));
  model.options.noSharedExperts = model.options.needsSharedExperts = true;
  EXPECT_EQ(model.said(), "taken");
  // A gate that the layer does not have.
  model.options.noSharedExperts = false;
  model.manifest.layer["n_shared_experts"] = 1;
  EXPECT_EQ(model.said(),
            "DIR: tensor 'model.layers.3.mlp.shared_expert_gate.weight' weighs "
            "the layer's shared experts, and no value of layer 'l' takes it; "
            "accepted: a layer with shared_expert_gate, or "
            "--ignore-tensor=shared_expert_gate if no number of the layer "
            "depends on it");
  model.manifest.layer["shared_expert_gate"] = true;
  EXPECT_EQ(model.said(),
            "DIR: tensor 'model.layers.3.mlp.shared_experts.up_proj.odd' "
            "belongs to the layer's shared experts, and no value of layer 'l' "
            "takes it; accepted: tensors that docs/reference/checkpoints.md "
            "lists, or "
            "--ignore-tensor=odd if no number of the layer depends on it");
}

TEST(CheckTensors, VectorsOfAwq) {
  Model model;
  model.put(1, "down_proj.pre_quant_scale", filled("BF16", {kInner}));
  EXPECT_EQ(model.said(),
            kWhere + "1.down_proj.pre_quant_scale' belongs to the layer's "
                     "experts, and no value of layer 'l' takes it; accepted: "
                     "tensors that docs/reference/checkpoints.md lists, or "
                     "--ignore-tensor=pre_quant_scale if no number of the "
                     "layer depends on it");
}

TEST(CheckTensors, UnknownNames) {
  Model model;
  model.put(0, "up_proj.pre_quant_scale", filled("BF16", {kHidden}));
  EXPECT_EQ(model.said(),
            notTaken("0.up_proj.pre_quant_scale",
                     "belongs to the layer's experts",
                     "tensors that docs/reference/checkpoints.md lists",
                     "pre_quant_scale"));
  model.options.ignored = {"pre_quant_scale"};
  EXPECT_EQ(model.said(), "taken");
}

TEST(CheckTensors, OtherExperts) {
  Model model;
  model.put(2, "up_proj.weight", filled("BF16", {kInner, kHidden}));
  EXPECT_EQ(model.said(), kWhere + "2.up_proj.weight': expected experts 0 to 1 "
                                   "of layer 'l', got expert 2");
  // Zero experts have no weights, whatever a checkpoint holds of them.
  model.manifest.layer["routing"] = {{"num_zero_experts", 1}};
  EXPECT_EQ(model.said(), "taken");
  model.put(3, "up_proj.weight", filled("BF16", {kInner, kHidden}));
  EXPECT_EQ(model.said(), kWhere + "3.up_proj.weight': expected experts 0 to 1 "
                                   "of layer 'l', got expert 3");
  // Another rank's experts need no bytes here, but must be of the same kinds.
  Model rank;
  rank.manifest.layer["local_experts"]["count"] = 1;
  rank.put(1, "up_proj.weight", filled("F8_E4M3", {1, 1}));
  EXPECT_EQ(rank.said(), "taken");
  rank.put(1, "up_proj.weight_scale", filled("F32", {1}));
  EXPECT_NE(rank.said(), "taken");
  Model ungated;
  ungated.manifest.layer["activation"]["gated"] = false;
  ungated.putInLayer("mlp.experts.gate_up_proj", filled("BF16", {1}));
  EXPECT_EQ(ungated.said(),
            kWhere + "gate_up_proj' holds gates, and layer 'l' has none; "
                     "accepted: a layer with a gated activation");
}

TEST(CheckTensors, SaidTwice) {
  // Both halves together, and apart.
  Model model;
  model.putInLayer("mlp.experts.gate_up_proj",
                   filled("BF16", {kExperts, 2 * kInner, kHidden}));
  EXPECT_EQ(model.said(),
            "DIR: tensors '" + kPrefix + "0.gate_proj.weight' and '" + kPrefix +
                "gate_up_proj' both hold weights of expert 0, gate_proj (or "
                "w1); expected one of them");
  Model pairs;
  pairs.tensors.clear();
  const std::string llm = "model.llm.layers.3.mlp.experts.";
  for (const char *name : {"gate_up_proj", "w13_weight"})
    pairs.tensors[llm + name] = filled("BF16", {kExperts, 2 * kInner, kHidden});
  pairs.tensors[llm + "w2_weight"] =
      filled("BF16", {kExperts, kHidden, kInner});
  EXPECT_EQ(pairs.said(),
            "DIR: tensors '" + llm + "gate_up_proj' and '" + llm +
                "w13_weight' both hold weights of expert 0, gate_proj (or "
                "w1); expected one of them");
  // Weights and their codes.
  Model codes;
  codes.put(1, "down_proj.weight_packed", filled("U8", {kHidden, kInner}));
  EXPECT_EQ(codes.said(),
            "DIR: tensors '" + kPrefix + "1.down_proj.weight' and '" + kPrefix +
                "1.down_proj.weight_packed' both hold weights of expert 1, "
                "down_proj (or w2, output_linear); expected one of them");
  // One spelling beside another.
  Model spelled;
  spelled.put(1, "w2.weight", filled("BF16", {kHidden, kInner}));
  EXPECT_EQ(spelled.said(), "DIR: tensors '" + kPrefix +
                                "1.down_proj.weight' and '" + kPrefix +
                                "1.w2.weight' are the same weight of layer 3; "
                                "expected one of them");
  // A gate where the layer has none.
  Model ungated;
  ungated.manifest.layer["activation"]["gated"] = false;
  EXPECT_NE(ungated.said().find("both hold weights of expert 0"),
            std::string::npos);
  // The same layer of another model in the same files.
  Model two;
  two.tensors["draft_less.layers.3.mlp.experts.0.up_proj.bias"] =
      filled("BF16", {kInner});
  EXPECT_EQ(two.said(), "taken") << "drafts are other models";
  two.tensors["teacher.layers.3.mlp.experts.0.up_proj.bias"] =
      filled("BF16", {kInner});
  EXPECT_EQ(
      two.said(),
      "DIR: tensors '" + kPrefix +
          "0.gate_proj.weight' and "
          "'teacher.layers.3.mlp.experts.0.up_proj.bias' are of two models' "
          "layers 3; expected one of them");
}

TEST(CheckTensors, LayersByNumber) {
  Model model;
  for (const auto &[name, tensor] :
       std::map<std::string, Stored>(model.tensors)) {
    std::string other = name;
    other.replace(other.find(".3."), 3, ".31.");
    model.tensors[other] = tensor;
  }
  model.tensors["model.layers.31.mlp.experts.0.up_proj.bias"] =
      filled("BF16", {kInner}, 1);
  model.options.layer = 3;
  EXPECT_EQ(model.said(), "taken");
  model.options.layer = 31;
  EXPECT_NE(model.said().find("'model.layers.31.mlp.experts.0.up_proj.bias'"),
            std::string::npos);
  model.options.layer = 1;
  EXPECT_NE(model.said().find("layer 1 has no experts' weights; expected "),
            std::string::npos);
}

TEST(CheckTensors, Shards) {
  const Model model;
  std::map<std::string, Stored> first = model.tensors;
  const std::string name = kPrefix + "1.up_proj.weight";
  const std::map<std::string, Stored> second = {{name, first.at(name)}};
  first.erase(name);
  const auto index = [&](const std::string &left) {
    json map = json::object();
    for (const auto &[tensor, stored] : model.tensors)
      if (tensor != left)
        map[tensor] =
            second.contains(tensor) ? "b.safetensors" : "a.safetensors";
    return json{{"weight_map", map}}.dump();
  };
  const char *const kIndex = "model.safetensors.index.json";
  const Folder folder;
  folder.write("a.safetensors", fileOf(first));
  folder.write("b.safetensors", fileOf(second));
  EXPECT_EQ(model.said(folder.path), "taken");
  folder.write(kIndex, index(""));
  EXPECT_EQ(model.said(folder.path), "taken");
  // A tensor that the index leaves out.
  folder.write("a.safetensors", fileOf(model.tensors));
  EXPECT_EQ(model.said(folder.path),
            "tensor '" + name +
                "' is in two files, DIR/b.safetensors and DIR/a.safetensors");
  Model scaled = model;
  std::map<std::string, Stored> more = first;
  more[kPrefix + "0.up_proj.weight_scale"] = filled("F32", {1});
  folder.write("a.safetensors", fileOf(more));
  EXPECT_EQ(model.said(folder.path),
            "DIR/a.safetensors holds tensor '" + kPrefix +
                "0.up_proj.weight_scale', which the index of DIR does not "
                "name");
  // A shard without a tensor that the index promises.
  folder.write("a.safetensors", fileOf(first));
  folder.write("b.safetensors", fileOf({}));
  EXPECT_EQ(model.said(folder.path),
            "DIR/b.safetensors: expected tensor '" + name +
                "', which the index lists, got a file without it");
  std::filesystem::remove(folder.path + "/b.safetensors");
  EXPECT_NE(model.said(folder.path).find("cannot open"), std::string::npos);
}
