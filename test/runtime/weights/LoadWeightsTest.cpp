//===- LoadWeightsTest.cpp - what a layer says of its weights -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole checkpoints are loaded in test/conformance; here are manifests that say
// what cannot be, and copies between layouts and types.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

namespace {

json layer() {
  return json::parse(R"({
    "name": "l", "num_experts": 4, "hidden_size": 64,
    "intermediate_size": 32, "intermediate_size_per_partition": 16,
    "intermediate_begin": 16,
    "local_experts": {"begin": 1, "count": 2, "stride": 2},
    "activation": {"gated": true}, "gate_up_order": "up_first",
    "quant": {"w1": {"group": [128, 128]}, "w2": {"group": []}}})");
}

std::string errorOf(const json &described) {
  Result<LayerShape> read = LayerShape::read(described);
  return read ? "read" : read.error().message;
}

} // namespace

TEST(LayerShape, Read) {
  Result<LayerShape> read = LayerShape::read(layer());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->localStride, 2);
  EXPECT_EQ(read->columnBegin, 16);
  EXPECT_EQ(read->order.name, "up_first");
  EXPECT_EQ(read->w1.rows, 128);
  EXPECT_EQ(read->w2.rows, 0);
}

static std::string textOf(const WeightFormat &format) {
  return fmt::format("{} {} second {} zero {} rule {} [{}, {}]", format.element,
                     format.scale, format.second, format.zeroPoint,
                     format.scaleRule, format.groupRows, format.groupColumns);
}

static std::string textOf(const LayerShape &shape) {
  return fmt::format(
      "{}: experts {} shared {} sinks {} zero {}, local {} {} {}, hidden {}, "
      "intermediate {} {} {}, shared {} {} {}, gated {} order {}, "
      "w1 {} {} {}, w2 {} {} {}, {}, {}, bits {} index {} gate {} floats {} "
      "left out {}",
      shape.name, shape.experts, shape.shared, shape.sinks, shape.zeroExperts,
      shape.localBegin, shape.localCount, shape.localStride, shape.hidden,
      shape.intermediate, shape.columnBegin, shape.columns,
      shape.sharedIntermediate, shape.sharedBegin, shape.sharedColumns,
      shape.gated, shape.order.name, shape.w1.rows, shape.w1.columns,
      shape.w1.secondPerRow, shape.w2.rows, shape.w2.columns,
      shape.w2.secondPerRow, textOf(shape.format1), textOf(shape.format2),
      shape.codeBits, shape.groupIndex, shape.sharedGate, shape.storesFloats,
      shape.leftOut.empty() ? "nothing" : shape.leftOut.back());
}

static json fullLayer() {
  return json::parse(R"({
    "name": "full", "num_experts": 10, "n_shared_experts": 2,
    "hidden_size": 64, "intermediate_size": 40,
    "intermediate_size_per_partition": 8, "intermediate_begin": 24,
    "local_experts": {"begin": 3, "count": 4, "stride": 2},
    "routing": {"num_zero_experts": 5},
    "shared_intermediate_size": 48, "shared_intermediate_begin": 12,
    "shared_intermediate_size_per_partition": 36,
    "activation": {"gated": false}, "gate_up_order": "interleaved",
    "group_index": true, "shared_expert_gate": true, "weights_dtype": "bf16",
    "left_out": [{"value": "a1_scale"}, {"value": "a2_scale"}],
    "quant": {
      "w1": {"group": [-1, 32], "second_per_row": true, "element_type": "i4",
             "scale_type": "f16", "second_scale_type": "f32",
             "zero_point_type": "i4", "scale_rule": "r1"},
      "w2": {"group": [16, -1], "second_per_row": false,
             "element_type": "f8E4M3FN", "scale_type": "bf16",
             "scale_rule": "r2"}}})");
}

/// Each member is read from its own field.
TEST(LayerShape, EveryMember) {
  Result<LayerShape> read = LayerShape::read(fullLayer());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(textOf(*read),
            "full: experts 10 shared 2 sinks 0 zero 5, local 3 4 2, hidden 64, "
            "intermediate 40 24 8, shared 48 12 36, gated false order "
            "interleaved, w1 -1 32 true, w2 16 -1 false, "
            "i4 f16 second true zero true rule r1 [-1, 32], "
            "f8E4M3FN bf16 second false zero false rule r2 [16, -1], "
            "bits 4 index true gate true floats true left out a2_scale");
  EXPECT_TRUE(read->hasSharedMlp());
  EXPECT_EQ(textOf(read->ofSharedMlp()),
            "full: experts 10 shared 1 sinks 0 zero 5, local 10 1 1, hidden "
            "64, intermediate 48 12 36, shared 48 12 36, gated false order "
            "interleaved, w1 -1 32 true, w2 16 -1 false, "
            "i4 f16 second true zero true rule r1 [-1, 32], "
            "f8E4M3FN bf16 second false zero false rule r2 [16, -1], "
            "bits 4 index true gate true floats true left out a2_scale");
  json other = fullLayer();
  std::swap(other["quant"]["w1"], other["quant"]["w2"]);
  EXPECT_EQ(LayerShape::read(other)->codeBits, 8);
  EXPECT_TRUE(LayerShape::read(other)->w2.secondPerRow);

  const json least = json::parse(R"({
    "num_experts": 4, "hidden_size": 64, "intermediate_size": 32,
    "intermediate_size_per_partition": 16,
    "local_experts": {"begin": 0, "count": 4}, "activation": {"gated": true},
    "quant": {"w1": {"group": []}, "w2": {"group": []}}})");
  read = LayerShape::read(least);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(textOf(*read),
            ": experts 4 shared 0 sinks 0 zero 0, local 0 4 1, hidden 64, "
            "intermediate 32 0 16, shared 0 0 0, gated true order gate_first, "
            "w1 0 0 false, w2 0 0 false, "
            "  second false zero false rule  [0, 0], "
            "  second false zero false rule  [0, 0], "
            "bits 8 index false gate false floats false left out nothing");
  EXPECT_FALSE(read->hasSharedMlp());
}

/// The router's last experts are the shared ones.
TEST(LayerShape, Sinks) {
  json described = fullLayer();
  described["routing"]["sinks"] = 3;
  EXPECT_EQ(errorOf(described),
            "layer.routing.sinks: expected 0 beside n_shared_experts");
  described.erase("n_shared_experts");
  Result<LayerShape> read = LayerShape::read(described);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->experts, 7);
  EXPECT_EQ(read->shared, 3);
  EXPECT_EQ(read->sinks, 3);
  described["routing"]["sinks"] = 10;
  EXPECT_EQ(errorOf(described),
            "layer.routing.sinks: expected an integer from 0 to 9");
}

/// Each bound at its last value and at the one after it.
TEST(LayerShape, Bounds) {
  const auto changed = [](std::string_view path, const json &value) {
    json described = fullLayer();
    described[json::json_pointer(std::string(path))] = value;
    return errorOf(described);
  };
  // Experts 0 to 11, of which a rank has every second one from 3.
  EXPECT_EQ(changed("/local_experts/begin", 5), "read");
  EXPECT_EQ(changed("/local_experts/begin", 6),
            "layer.local_experts: expected experts of the layer");
  EXPECT_EQ(changed("/local_experts/stride", 0),
            "layer.local_experts.stride: expected an integer from 1 to "
            "2147483647");
  EXPECT_EQ(changed("/intermediate_begin", 32), "read");
  EXPECT_EQ(changed("/intermediate_begin", 33),
            "layer.intermediate_begin: expected columns of the intermediate");
  EXPECT_EQ(changed("/shared_intermediate_begin", 13),
            "layer.shared_intermediate_begin: expected columns of the shared "
            "experts' intermediate");
  for (const char *matrix : {"w1", "w2"}) {
    const std::string at = fmt::format("/quant/{}/group", matrix);
    EXPECT_EQ(changed(at, {-1, -1}), "read");
    EXPECT_EQ(changed(at, json::array()), "read");
    for (const json &wrong :
         {json(1), json{1}, json{1, 2, 3}, json{1, "a"}, json{"a", 1},
          json{0, 1}, json{1, 0}, json{-2, 1}, json{1, -2}})
      EXPECT_EQ(changed(at, wrong),
                fmt::format("layer.quant.{}.group: expected [] or two extents "
                            "of -1 or from 1 to 2147483647",
                            matrix))
          << wrong;
  }
  for (const json &wrong :
       {json(1), json::array({1}), json::parse(R"([{"value": "w13"}])"),
        json::parse(R"([{"value": "a1_scale"}, {}])"),
        json::parse(R"([{"value": 1}])")})
    EXPECT_EQ(changed("/left_out", wrong),
              "layer.left_out: expected objects whose 'value' is a scale of "
              "activations")
        << wrong;
  EXPECT_EQ(changed("/activation/gated", 1),
            "layer.activation.gated: expected true or false");
  EXPECT_EQ(changed("/quant", 1), "layer.quant.w1.group: expected [] or two "
                                  "extents of -1 or from 1 to 2147483647");
}

TEST(LayerShape, StoredLayout) {
  Result<StoredLayout> read = readStoredLayout(json::parse(R"({
    "name": "n",
    "weights": {"packed": "rows", "rows_last": true},
    "scales": {"atoms": true},
    "zero_points": {"packed": "columns", "added": 1}})"));
  ASSERT_TRUE(read) << read.error().message;
  const auto text = [](const StoredLayout::Unit &unit) {
    return fmt::format("{} {} {} {}", unit.packed, unit.rowsLast, unit.added,
                       unit.atoms);
  };
  EXPECT_EQ(read->name, "n");
  EXPECT_EQ(text(read->weights), "rows true 0 false");
  EXPECT_EQ(text(read->scales), " false 0 true");
  EXPECT_EQ(text(read->zeroPoints), "columns false 1 false");
  EXPECT_FALSE(readStoredLayout(json::array()));
  EXPECT_FALSE(
      readStoredLayout(json::parse(R"({"zero_points": {"added": 2}})")));
  EXPECT_FALSE(readStoredLayout(json::parse(R"({"weights": 1})")));
}

TEST(LayerShape, Refused) {
  json described = layer();
  described.erase("hidden_size");
  EXPECT_EQ(errorOf(described),
            "layer.hidden_size: expected an integer from 1 to 2147483647");
  for (const json &order : {json("ups"), json(1)}) {
    described = layer();
    described["gate_up_order"] = order;
    EXPECT_EQ(errorOf(described),
              "layer.gate_up_order: expected one of gate_first, up_first, "
              "interleaved, interleaved_8");
  }
  described = layer();
  described["local_experts"]["stride"] = int64_t(1) << 62;
  EXPECT_EQ(
      errorOf(described),
      "layer.local_experts.stride: expected an integer from 1 to 2147483647");
  described = layer();
  described["num_experts"] = 1 << 22;
  EXPECT_EQ(errorOf(described),
            "layer.num_experts: expected an integer from 1 to 65536");
  described = layer();
  described["n_shared_experts"] = 1 << 23;
  EXPECT_EQ(errorOf(described),
            "layer.n_shared_experts: expected an integer from 0 to 65536");
  described = layer();
  described["local_experts"]["count"] = 3;
  EXPECT_EQ(errorOf(described),
            "layer.local_experts: expected experts of the layer");
  described = layer();
  described["intermediate_begin"] = 17;
  EXPECT_EQ(errorOf(described),
            "layer.intermediate_begin: expected columns of the intermediate");
  described = layer();
  for (const int64_t columns : {int64_t(0), INT64_MAX}) {
    described = layer();
    described["quant"]["w1"]["group"] = {1, columns};
    EXPECT_EQ(errorOf(described), "layer.quant.w1.group: expected [] or two "
                                  "extents of -1 or from 1 to 2147483647");
  }
  described = layer();
  described["enable_eplb"] = true;
  EXPECT_EQ(errorOf(described),
            "layer 'l' has replicas of experts, whose places the engine "
            "chooses at run time; accepted: a layer without enable_eplb and "
            "redundant experts");
}

static Result<Checkpoint> withoutTensors(const std::string &name) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary)
      << std::string("\2\0\0\0\0\0\0\0{}", 10);
  return Checkpoint::open(path);
}

TEST(WeightLoader, FloatsAreQuantizedOnce) {
  Result<Checkpoint> checkpoint = withoutTensors("floats.safetensors");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  Manifest manifest;
  *manifest.layer = layer();
  manifest.layer["weights_dtype"] = "bf16";
  LoadOptions options;
  options.quantize = true;
  Result<WeightLoader> made =
      WeightLoader::create(*checkpoint, manifest, options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message,
            "layer 'l' takes its weights as floats and quantizes them itself; "
            "accepted: no --quantize");
}

TEST(WeightLoader, PartsAreRefused) {
  Result<Checkpoint> checkpoint = withoutTensors("parts.safetensors");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  Manifest manifest;
  *manifest.layer = layer();
  manifest.layer["part"] = "route";
  Result<WeightLoader> made = WeightLoader::create(*checkpoint, manifest, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message,
            "package 'l' is part 'route' of a layer, and a checkpoint is held "
            "against a whole one; accepted: the package of the layer, whose "
            "weights have the same names");
}

/// A manifest's layer may be any object.
TEST(WeightLoader, LayoutsOfWrongTypesAreRefused) {
  const std::string path = testing::TempDir() + "none.safetensors";
  std::ofstream(path, std::ios::binary)
      << std::string("\2\0\0\0\0\0\0\0{}", 10);
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto said = [&](const json &layout) {
    Manifest manifest;
    *manifest.layer = layer();
    manifest.layer["stored_layout"] = layout;
    Result<WeightLoader> made = WeightLoader::create(*checkpoint, manifest);
    return made ? "made" : made.error().message;
  };
  EXPECT_EQ(said("gptq"), "manifest: layer.stored_layout: expected an object, "
                          "got the string \"gptq\"");
  EXPECT_EQ(said({{"name", 7}}), "manifest: layer.stored_layout.name: expected "
                                 "a string, got the number 7");
  EXPECT_EQ(said({{"weights", "x"}}),
            "manifest: layer.stored_layout.weights: expected an object, got "
            "the string \"x\"");
  EXPECT_EQ(said({{"scales", {{"rows_last", 1}}}}),
            "manifest: layer.stored_layout.scales.rows_last: expected true or "
            "false, got the number 1");
}

/// Engines make them of weights; no checkpoint has them.
TEST(WeightLoader, StoredFormsOfEnginesAreRefused) {
  json described = layer();
  described["gate_up_order"] = "interleaved_8";
  EXPECT_EQ(errorOf(described),
            "layer 'l' has gate and up rows in runs (gate_up_order "
            "interleaved_8), which an engine makes and no checkpoint holds; "
            "accepted: gate_first, up_first, interleaved");
  for (const std::string padded :
       {"stored_hidden_size", "stored_intermediate_size_per_partition"}) {
    described = layer();
    described[padded] = 128;
    EXPECT_EQ(errorOf(described),
              "layer 'l' has padded weights (" + padded +
                  "), which an engine makes and no checkpoint holds; "
                  "accepted: a layer without stored_hidden_size and "
                  "stored_intermediate_size_per_partition");
  }
  Manifest manifest;
  *manifest.layer = layer();
  manifest.layer["stored_layout"] = {{"name", "scales_128x4"},
                                     {"scales", {{"atoms", true}}}};
  Result<WeightPlan> made = WeightPlan::create(manifest);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message,
            "layer 'l' has scales in atoms (stored_layout scales_128x4), which "
            "an engine makes and no checkpoint holds; accepted: a layer whose "
            "stored_layout is rows");
}

TEST(CopyMatrix, BetweenRowsAndColumns) {
  constexpr int64_t kRows = 70, kColumns = 3;
  std::vector<uint16_t> from(kRows * kColumns), to(kRows * kColumns);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<uint16_t>(i);
  SourceMatrix source;
  source.data = reinterpret_cast<const std::byte *>(from.data());
  source.bits = 16;
  source.rows = kRows, source.columns = kColumns;
  source.rowStride = kColumns;
  TargetMatrix target;
  target.data = reinterpret_cast<std::byte *>(to.data());
  target.bits = 16;
  target.rows = kRows, target.columns = kColumns;
  target.rowStride = 1, target.columnStride = kRows;
  ASSERT_TRUE(copyMatrix(source, target, Conversion::Copy, false));
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column)
      EXPECT_EQ(to[size_t(column * kRows + row)],
                from[size_t(row * kColumns + column)]);
}

TEST(CopyMatrix, Integers) {
  const auto copied = [](int64_t number) {
    int32_t made = 7;
    SourceMatrix source;
    source.data = reinterpret_cast<const std::byte *>(&number);
    source.bits = 64, source.storage = host::Storage::I64;
    source.rows = source.columns = 1;
    TargetMatrix target;
    target.data = reinterpret_cast<std::byte *>(&made);
    target.bits = 32, target.storage = host::Storage::I32;
    target.rows = target.columns = 1;
    const Result<void> ok =
        copyMatrix(source, target, Conversion::Integers, /*inverse=*/false);
    return ok ? std::to_string(made) : ok.error().message;
  };
  for (const int64_t number : {int64_t(INT32_MIN), int64_t(-1), int64_t(0),
                               int64_t(3), int64_t(INT32_MAX)})
    EXPECT_EQ(copied(number), std::to_string(number));
  for (const int64_t beyond :
       {INT64_MIN, int64_t(INT32_MIN) - 1, int64_t(INT32_MAX) + 1, INT64_MAX})
    EXPECT_EQ(copied(beyond),
              fmt::format("holds {}, which is none of 32 bits", beyond));
}

TEST(CopyMatrix, Types) {
  EXPECT_EQ(conversionOf("BF16", "bf16", false), Conversion::Copy);
  EXPECT_EQ(conversionOf("BF16", "f32", false), Conversion::Round);
  EXPECT_EQ(conversionOf("F8_E8M0", "f32", false), Conversion::Round);
  EXPECT_EQ(conversionOf("U8", "f8E8M0FNU", false), Conversion::Copy);
  EXPECT_EQ(conversionOf("F32", "f8E8M0FNU", false), Conversion::Round);
  EXPECT_EQ(conversionOf("U8", "f4E2M1FN", false), Conversion::Copy);
  EXPECT_EQ(conversionOf("I32", "i4", true), Conversion::Copy);
  EXPECT_EQ(conversionOf("I64", "i32", false), Conversion::Integers);
  // Words of eight codes by another name have another order.
  EXPECT_EQ(conversionOf("I32", "i4", false), Conversion::None);
  EXPECT_EQ(conversionOf("U8", "i8", false), Conversion::None);
  EXPECT_EQ(conversionOf("BF16", "f8E4M3FN", false), Conversion::None);
  // Codes are no floats, whichever type has as many bytes.
  for (const char *type : {"F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL", "I16"})
    for (const char *element : {"f32", "f16", "bf16"})
      EXPECT_EQ(conversionOf(type, element, false), Conversion::None)
          << type << " as " << element;
  EXPECT_EQ(conversionOf("I32", "f32", false), Conversion::None);
  EXPECT_EQ(conversionOf("F8_E5M2", "f8E4M3FN", false), Conversion::None);
  EXPECT_EQ(conversionOf("I8", "f8E4M3FN", false), Conversion::None);
  EXPECT_EQ(conversionOf("F16", "bf16", false), Conversion::Round);

  const auto copied = [](float number, const char *type, bool inverse) {
    float stored = 0;
    SourceMatrix source;
    source.data = reinterpret_cast<const std::byte *>(&number);
    source.bits = 32, source.storage = host::Storage::F32;
    source.rows = source.columns = 1;
    TargetMatrix target;
    target.data = reinterpret_cast<std::byte *>(&stored);
    target.storage = host::storageOf(type);
    target.bits = host::storageBits(target.storage);
    target.rows = target.columns = 1;
    Result<void> ok = copyMatrix(source, target, Conversion::Round, inverse);
    if (!ok)
      return ok.error().message;
    float back = 0;
    host::loadFloats(target.storage, reinterpret_cast<std::byte *>(&stored), 1,
                     &back);
    return std::to_string(back);
  };
  EXPECT_EQ(copied(0.5f, "bf16", false), "0.500000");
  EXPECT_EQ(copied(4.0f, "f32", true), "0.250000");
  EXPECT_EQ(copied(0.25f, "f8E8M0FNU", false), "0.250000");
  EXPECT_EQ(copied(0x1p127f, "f8E8M0FNU", true),
            copied(0x1p-127f, "f32", false));
  const std::string power = ", expected a power of two from 2^-127 to 2^127";
  EXPECT_EQ(copied(0.75f, "f8E8M0FNU", false), "holds 0.75" + power);
  EXPECT_EQ(copied(-1, "f8E8M0FNU", false), "holds -1" + power);
  EXPECT_EQ(copied(0, "f8E8M0FNU", false), "holds 0" + power);
  // The least and the largest power, and those beyond them.
  for (const float least : {0x1p-127f, 0x1p-126f, 0x1p126f, 0x1p127f})
    EXPECT_EQ(copied(least, "f8E8M0FNU", false), std::to_string(least));
  for (const float beyond : {0x1p-128f, 0x1p-129f, 0x1p-149f, INFINITY})
    for (const bool inverse : {false, true})
      EXPECT_EQ(copied(beyond, "f8E8M0FNU", inverse),
                fmt::format("holds {}", beyond) + power);
  // To the nearest number, ties to even.
  EXPECT_EQ(copied(1 + 0x1p-8f, "bf16", false), std::to_string(1.0f));
  EXPECT_EQ(copied(1 + 0x3p-8f, "bf16", false), std::to_string(1 + 0x4p-8f));
  EXPECT_EQ(copied(1 + 0x1p-8f + 0x1p-20f, "bf16", false),
            std::to_string(1 + 0x2p-8f));
  EXPECT_EQ(copied(2049, "f16", false), std::to_string(2048.0f));
  EXPECT_EQ(copied(1e6f, "f16", false),
            "holds 1000000, which is beyond the numbers of that type");
  EXPECT_EQ(copied(3.4e38f, "bf16", false),
            "holds 3.4e+38, which is beyond the numbers of that type");
  EXPECT_EQ(copied(INFINITY, "bf16", false), std::to_string(INFINITY));
}

TEST(CopyMatrix, NumbersOfScales) {
  using R = NumberRule;
  const auto copied = [](float number, R rule, bool inverse = false,
                         const char *type = "f32") {
    float stored = 0;
    SourceMatrix source;
    source.data = reinterpret_cast<const std::byte *>(&number);
    source.bits = 32, source.storage = host::Storage::F32;
    source.rows = source.columns = 1;
    TargetMatrix target;
    target.data = reinterpret_cast<std::byte *>(&stored);
    target.storage = host::storageOf(type);
    target.bits = host::storageBits(target.storage);
    target.rows = target.columns = 1;
    const bool same = target.storage == host::Storage::F32;
    Result<void> ok =
        copyMatrix(source, target, same ? Conversion::Copy : Conversion::Round,
                   inverse, rule);
    return ok ? "taken" : ok.error().message;
  };
  for (float number : {NAN, INFINITY, -INFINITY}) {
    const std::string holds = fmt::format("holds {}, expected a ", number);
    EXPECT_EQ(copied(number, R::Any), "taken");
    EXPECT_EQ(copied(number, R::Finite), holds + "finite number");
    EXPECT_EQ(copied(number, R::Scale),
              holds + "scale that is a finite number");
    for (bool inverse : {false, true})
      EXPECT_EQ(copied(number, R::PositiveScale, inverse),
                holds + "scale that is finite and above 0");
  }
  for (float number : {0.0f, -0.0f, -2.5f}) {
    EXPECT_EQ(copied(number, R::Scale), "taken");
    for (bool inverse : {false, true})
      EXPECT_EQ(copied(number, R::PositiveScale, inverse),
                fmt::format("holds {}, expected a scale that is finite and "
                            "above 0",
                            number));
  }
  for (float number : {0x1p31f, -0x1p31f, 0x1p100f})
    EXPECT_EQ(copied(number, R::Scale),
              fmt::format("holds {}, expected a scale below 2^31", number));
  for (float number : {0x1.fffffep30f, -0x1.fffffep30f})
    EXPECT_EQ(copied(number, R::Scale), "taken");
  EXPECT_EQ(copied(0x1p100f, R::PositiveScale), "taken");
  EXPECT_EQ(copied(1e-40f, R::PositiveScale), "taken");
  EXPECT_EQ(copied(1e-40f, R::PositiveScale, true),
            "holds 1e-40, whose inverse is beyond the numbers of f32");
  EXPECT_EQ(copied(1e-20f, R::Finite, false, "f16"), "taken");
  EXPECT_EQ(copied(1e-20f, R::Scale, false, "f16"),
            "holds 1e-20, which would become 0 in that type");
  EXPECT_EQ(copied(0, R::Scale, false, "f16"), "taken");
  // Codes of a scale's own type.
  for (const auto &[type, byte, taken] : {std::tuple("f8E8M0FNU", 255, false),
                                          {"f8E8M0FNU", 0, true},
                                          {"f8E4M3FN", 0x7f, false},
                                          {"f8E4M3FN", 0xff, false},
                                          {"f8E4M3FN", 0, true}}) {
    const auto code = std::byte(byte);
    std::byte stored{};
    SourceMatrix source;
    source.data = &code;
    source.rows = source.columns = 1;
    TargetMatrix target;
    target.data = &stored;
    target.storage = host::storageOf(type);
    target.rows = target.columns = 1;
    EXPECT_EQ(
        bool(copyMatrix(source, target, Conversion::Copy, false, R::Scale)),
        taken)
        << type << " " << byte;
  }
}

TEST(WeightLoader, ScalesNeedGroups) {
  const std::string header =
      R"({"layers.3.mlp.experts.1.down_proj.weight_scale":)"
      R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string path = testing::TempDir() + "scales.safetensors";
  std::ofstream(path, std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header
      << std::string(4, '\0');
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  Value scales;
  scales.name = "w2_scale";
  scales.role = ValueRole::StoredWeight;
  scales.elementTypes = {"f32"};
  scales.shape = {Expression(2), Expression(1)};
  Manifest manifest;
  *manifest.layer = layer();
  manifest.values = {scales};
  Result<WeightLoader> loader = WeightLoader::create(*checkpoint, manifest);
  ASSERT_FALSE(loader);
  EXPECT_EQ(loader.error().message,
            "value 'w2_scale': expected layer.quant.w2.group of two extents, "
            "got none; accepted: a layer without 'w2_scale', or with groups");
}
