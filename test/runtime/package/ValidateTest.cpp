//===- ValidateTest.cpp - one wrong entry at a time -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each row changes one entry of a good manifest and demands an error whose
// message begins with the entry's JSON path and says what was expected.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/package/ValidateCases.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

/// The layer has a scheme whose weights come with a scale of x.
static void leaveOut(Manifest &m, nlohmann::json list) {
  m.layer["realization"] = "weight_only";
  m.layer["stored_quant"] = {
      {"a1", {{"dynamic", false}, {"scale_type", "f32"}}},
      {"a2", {{"dynamic", true}, {"scale_type", "f32"}}}};
  m.layer["left_out"] = std::move(list);
}

static nlohmann::json scales(const std::vector<std::string> &names) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string &name : names)
    list.push_back({{"value", name}, {"because", "so"}});
  return list;
}

/// A map of three dimensions, in blocks of 32 bytes.
static void interleave(TensorMap &map, const char *swizzle) {
  map.interleave = "32b", map.swizzle = swizzle;
  map.extents.emplace_back(2), map.box.push_back(1);
  map.elementStrides.push_back(1);
  map.strides.emplace_back(map.strides.back() * 64);
}

static std::vector<Row> manifestRows() {
  return {{"name", "expected a name of letters", CHANGE(m.name = "a b")},
          {"max_tokens", "expected 1 to", CHANGE(m.maxTokens = 0)},
          {"rows", "expected an expression of tokens",
           CHANGE(m.rows = Expression::symbol("sm_count"))},
          {"rows", "expected 1 to", CHANGE(m.rows = kTokens - 1)},
          {"rows", "2147483647", CHANGE(m.rows = kTokens * (int64_t(1) << 31))},
          {"one_of[0]", "optional inputs, got 'x'", CHANGE(m.oneOf[0] = {"x"})},
          {"one_of[1]", "at least one", CHANGE(m.oneOf[1] = {})},
          {"one_of[1]", "'logits' again",
           CHANGE(m.oneOf[1] = {"logits", "logits"})},
          {"files.a.cu", "64 lower-case hex digits",
           CHANGE(m.files["a.cu"] = kLong)},
          {"files.../a.cu", "inside the package",
           CHANGE(m.files["../a.cu"] = m.files["a.cu"])},
          {"targets", "at least one", CHANGE(m.targets.clear())},
          {"targets[1].arch", "'sm_90a' again",
           CHANGE(m.targets.push_back(Target(m.targets[0])))}};
}

static std::vector<Row> valueRows() {
  return {
      {"values[1].name", "'x' again", CHANGE(m.values[1].name = "x")},
      {"values[0].role", "expected an input, an output or stored_weight",
       CHANGE(m.values[0].role = ValueRole::Workspace)},
      {"targets[0].values[1].role", "expected packed_weight",
       CHANGE(t.values[1].role = ValueRole::Input)},
      {"values[0].element_types", "at least one",
       CHANGE(m.values[0].elementTypes = {})},
      {"values[0].element_types[0]", "got 'float'",
       CHANGE(m.values[0].elementTypes = {"float"})},
      {"values[2].element_types[1]", "'i32' again",
       CHANGE(m.values[2].elementTypes = {"i32", "i32"})},
      {"targets[0].kernels[0].arguments.fields[0]",
       "a field of kind element_type next to the pointer to 'logits', which a "
       "run may give as f32 or f16 or bf16, got none",
       CHANGE(t.kernels[0].arguments.fields[1].value = "given_ids")},
      {"values[5].element_types", "only an input",
       CHANGE(m.values[5].elementTypes = {"bf16", "f16"})},
      {"values[5].shape", "constant extents",
       CHANGE(m.values[5].shape[0] = kTokens)},
      {"values[0].shape[1]", "with tokens = 1",
       CHANGE(m.values[0].shape[1] = kTokens - 2)},
      {"values[0].shape", "64 bits",
       CHANGE(m.values[0].shape[1] = int64_t(1) << 60)},
      {"values[0].strides", "expected 2 strides",
       CHANGE(m.values[0].strides = {16})},
      {"values[0].strides[0]", "expected 16 to",
       CHANGE(m.values[0].strides = {8, 1})},
      {"values[0].alignment", "power of two from 1 to 256, got 24",
       CHANGE(m.values[0].alignment = 24)},
      {"values[4].caller_row_stride", "expected false",
       CHANGE(m.values[4].callerRowStride = true)},
      {"values[0].may_alias", "only a packed weight",
       CHANGE(m.values[0].mayAlias = "out")},
      {"targets[0].values[0].may_alias", "a stored weight, for a packed one",
       CHANGE(t.values[0].mayAlias = "x")},
      {"targets[0].values[0].may_alias", "at least the 4096 bytes",
       CHANGE(m.values[5].shape[2] = Expression(8))},
      {"layer.stored_quant",
       "expected it only with realization 'weight_only', got realization "
       "'emulated'",
       CHANGE(m.layer["stored_quant"] = nlohmann::json::object();
              m.layer["realization"] = "emulated")},
      {"layer.stored_quant", "got realization 'weight_only'",
       CHANGE(m.layer["realization"] = "weight_only")},
      {"layer.left_out", "expected it only with stored_quant",
       CHANGE(m.layer["left_out"] = nlohmann::json::array())},
      {"layer.left_out", "objects with the texts 'value' and 'because'",
       CHANGE(leaveOut(m, nlohmann::json::array({{{"value", "a1_scale"}}})))},
      {"layer.left_out", "objects with the texts 'value' and 'because'",
       CHANGE(leaveOut(m, "a1_scale"))},
      {"layer.left_out", "stored_quant has (a1_scale), got ()",
       CHANGE(leaveOut(m, scales({})))},
      {"layer.left_out",
       "stored_quant has (a1_scale), got (a1_scale, a1_scale)",
       CHANGE(leaveOut(m, scales({"a1_scale", "a1_scale"})))},
      {"layer.left_out", "stored_quant has (a1_scale), got (a2_scale)",
       CHANGE(leaveOut(m, scales({"a2_scale"})))},
      {"layer.left_out",
       "stored_quant has (a1_scale, a2_second_scale), got (a1_scale); a "
       "package of another moec is compiled again",
       CHANGE(leaveOut(m, scales({"a1_scale"}));
              m.layer["stored_quant"]["a2"]["second_scale_type"] = "f32")},
      {"layer.left_out", "expected no value of the package, got 'a1_scale'",
       CHANGE(leaveOut(m, scales({"a1_scale"}));
              m.values.push_back(m.values[0]);
              m.values.back().name = "a1_scale")}};
}

static std::vector<Row> targetRows() {
  return {
      {"targets[0].arch", "a name like sm_80", CHANGE(t.arch = "sm_9x")},
      {"targets[0].compute_major", "expected 9", CHANGE(t.computeMajor = 8)},
      {"targets[0].compute_minor", "expected 0", CHANGE(t.computeMinor = 1)},
      {"targets[0].compatibility", "expected 'exact'",
       CHANGE(t.compatibility = "major")},
      {"name", "at most 160 characters, got 5000000",
       CHANGE(m.name = std::string(5000000, 'a'))},
      {"targets[0].kernels[0].entry", "at most 160 characters, got 5000",
       CHANGE(t.kernels[0].entry = std::string(5000, 'a'))},
      {"files", "paths of at most 1024 characters, got 2000",
       CHANGE(m.files[std::string(2000, 'a')] = std::string(64, '0'))}};
}

static std::vector<Row> kernelRows() {
  return {
      {"targets[0].kernels[1].name", "'route_permute' again",
       CHANGE(t.kernels[1].name = "route_permute")},
      {"targets[0].kernels[1].entry", "again",
       CHANGE(t.kernels[1].entry = t.kernels[0].entry)},
      {"targets[0].kernels[0].source", "inside the package",
       CHANGE(t.kernels[0].source = "../a.cu")},
      {"targets[0].kernels[0].cubin", "inside the package",
       CHANGE(t.kernels[0].cubin = "/a.cubin")},
      {"targets[0].kernels[0].headers[0]", "relative path",
       CHANGE(t.kernels[0].headers[0] = "/usr/include/math.h")},
      {"targets[0].kernels[0].options",
       "expected [-std=c++20, -arch=sm_90a, -default-device], got [-std=c++20, "
       "-arch=sm_90,",
       CHANGE(t.kernels[0].options[1] = "-arch=sm_90")},
      {"targets[0].kernels[0].options", "-default-device, --time=F]",
       CHANGE(t.kernels[0].options.push_back("--time=F"))},
      {"targets[0].kernels[0].options",
       "-default-device, -include=/etc/passwd]",
       CHANGE(t.kernels[0].options.push_back("-include=/etc/passwd"))},
      {"targets[0].kernels[0].options", "got []",
       CHANGE(t.kernels[0].options.clear())},
      {"targets[0].kernels[0].threads", "multiple of 32",
       CHANGE(t.kernels[0].threads = 100)},
      {"targets[0].kernels[0].threads", "got 2048",
       CHANGE(t.kernels[0].threads = 2048)},
      {"targets[0].kernels[0].shared_bytes", "0 to 232448",
       CHANGE(t.kernels[0].sharedBytes = -1)},
      {"targets[0].kernels[0].min_ctas_per_sm", "at most 16 CTAs of 128",
       CHANGE(t.kernels[0].minCtasPerSm = 17)},
      {"targets[0].kernels[0].cluster[1]", "expected 1 to 16",
       CHANGE(t.kernels[0].cluster[1] = 0)},
      {"targets[0].kernels[0].cluster", "at most 16 CTAs, got 64",
       CHANGE(t.kernels[0].cluster = {8, 8, 1})}};
}

static std::vector<Row> argumentRows() {
  return {{"targets[0].kernels[3].arguments.fields[2].offset", "multiple of 8",
           CHANGE(t.kernels[3].arguments.fields[2].offset += 4)},
          {"targets[0].kernels[3].arguments.fields[2].offset", "at least 16",
           CHANGE(t.kernels[3].arguments.fields[2].offset = 8)},
          {"targets[0].kernels[3].arguments.fields[6].offset", "end within",
           CHANGE(t.kernels[3].arguments.fields[6].offset += 8)},
          {"targets[0].kernels[3].arguments.bytes", "expected 56",
           CHANGE(t.kernels[3].arguments.bytes = 64)},
          {"targets[0].kernels[3].arguments.alignment", "expected 8, or 64",
           CHANGE(t.kernels[3].arguments.alignment = 16)},
          {"targets[0].kernels[8].arguments.fields[2].offset", "multiple of 64",
           CHANGE(t.kernels[8].arguments.fields[2].offset = 32)},
          {"targets[0].kernels[8].arguments.fields[2].tensor_map", "got 'none'",
           CHANGE(t.kernels[8].arguments.fields[2].tensorMap = "none")},
          {"targets[0].kernels[3].arguments.fields[0].value", "name of a value",
           CHANGE(t.kernels[3].arguments.fields[0].value = "none")},
          {"targets[0].kernels[3].arguments.fields[1].value", "with rows",
           CHANGE(t.kernels[3].arguments.fields[1].value = "rows")},
          {"targets[0].kernels[3].arguments.fields[3].name", "'rows' again",
           CHANGE(t.kernels[3].arguments.fields[3].name = "rows")},
          {"targets[0].kernels[0].arguments.fields[7].element_type",
           "expected one of i32, i64, f32",
           CHANGE(t.kernels[0].arguments.fields[7].elementType = "i16")}};
}

static std::vector<Row> stageRows() {
  return {
      {"targets[0].kernels[3].stages", "at least one",
       CHANGE(t.kernels[3].stages.clear())},
      {"targets[0].kernels[3].stages[0].op", "expected one of route, count",
       CHANGE(t.kernels[3].stages[0].op = "matmul")},
      {"targets[0].kernels[3].stages[0].operands", "expected 'lhs'",
       CHANGE(t.kernels[3].stages[0].operands.erase("lhs"))},
      {"targets[0].kernels[3].stages[0].operands.more", "unknown",
       CHANGE(t.kernels[3].stages[0].operands["more"] = "lhs")},
      {"targets[0].kernels[3].stages[0].operands.lhs", "pointer or tensor map",
       CHANGE(t.kernels[3].stages[0].operands["lhs"] = "lhs_row_stride")},
      {"targets[0].kernels[3].stages[1].operands.input", "an earlier stage",
       CHANGE(t.kernels[3].stages[1].operands["input"] = "%g")},
      {"targets[0].kernels[3].stages[1].results.result", "may be written",
       CHANGE(t.kernels[3].stages[1].results["result"] = "lhs")},
      {"targets[0].kernels[3].stages[0].attributes", "expected 'n'",
       CHANGE(t.kernels[3].stages[0].attributes->erase("n"))},
      {"targets[0].kernels[3].stages[0].attributes.n", "an integer, got \"32\"",
       CHANGE(t.kernels[3].stages[0].attributes["n"] = "32")},
      {"targets[0].kernels[3].stages[0].attributes.experts", "0 to 65536",
       CHANGE(t.kernels[3].stages[0].attributes["experts"] = 65537)},
      {"targets[0].kernels[0].stages[0].operands.valid_tokens",
       "expected 'valid_tokens' to be of i32, since valid_tokens is an integer "
       "of route, got i64",
       CHANGE(m.values[4].elementTypes = {"i64"})},
      {"targets[0].kernels[0].stages[0].operands.given_ids",
       "expected 'given_ids' to be of i32 or i64, since given_ids is an "
       "integer of route, got bf16",
       CHANGE(m.values[2].elementTypes = {"i32", "bf16"})},
      {"targets[0].kernels[3].stages[0].attributes.n", "0 to 2147483647",
       CHANGE(t.kernels[3].stages[0].attributes["n"] = -1)},
      {"targets[0].kernels[3].stages[0].attributes.rhs_group_rows",
       "expected -1 (all) or 1 to 2147483647, got 0",
       CHANGE(t.kernels[3].stages[0].attributes["rhs_group_rows"] = 0)},
      {"targets[0].kernels[3].stages[0].attributes.rhs_group_columns",
       "expected -1 (all) or 1 to 2147483647, got -2",
       CHANGE(t.kernels[3].stages[0].attributes["rhs_group_columns"] = -2)},
      {"targets[0].kernels[3].stages[1].attributes.limit", "a number or null",
       CHANGE(t.kernels[3].stages[1].attributes["limit"] = "")},
      {"targets[0].kernels[3].stages[0].attributes.more", "unknown",
       CHANGE(t.kernels[3].stages[0].attributes["more"] = 1)}};
}

/// The rules of cuTensorMapEncodeTiled.
static std::vector<Row> tensorMapRows() {
  return {
      {"targets[0].tensor_maps[0].value", "name of a value",
       CHANGE(t.tensorMaps[0].value = "none")},
      {"targets[0].tensor_maps[0].extents", "1 to 5 dimensions",
       CHANGE(t.tensorMaps[0].extents = {})},
      {"targets[0].tensor_maps[0].extents", "within the 2048 bytes",
       CHANGE(t.tensorMaps[0].extents[1] = Expression(65))},
      {"targets[0].tensor_maps[0].extents[0]", "expected 1 to",
       CHANGE(t.tensorMaps[0].extents[0] = Expression(0))},
      {"targets[0].tensor_maps[0].strides", "expected 1 strides",
       CHANGE(t.tensorMaps[0].strides = {})},
      {"targets[0].tensor_maps[0].strides[0]", "multiple of 16",
       CHANGE(t.tensorMaps[0].strides[0] = Expression(40))},
      {"targets[0].tensor_maps[0].box[1]", "expected 1 to 256, got 257",
       CHANGE(t.tensorMaps[0].box[1] = 257)},
      {"targets[0].tensor_maps[0].box[0]", "multiple of 16 bytes",
       CHANGE(t.tensorMaps[0].box[0] = 4)},
      {"targets[0].tensor_maps[0].box[0]", "at most 32 bytes with swizzle",
       CHANGE(t.tensorMaps[0].box[0] = 32)},
      {"targets[0].tensor_maps[0].element_strides[0]", "expected 1 to 8",
       CHANGE(t.tensorMaps[0].elementStrides[0] = 0)},
      {"targets[0].tensor_maps[0].swizzle", "expected one of none, 32b",
       CHANGE(t.tensorMaps[0].swizzle = "16b")},
      {"targets[0].tensor_maps[0].out_of_bounds_fill", "no floating-point",
       CHANGE(t.tensorMaps[0].outOfBoundsFill = "nan",
              t.tensorMaps[0].elementType = "i16")},
      {"targets[0].tensor_maps[0].extents", "expected 3 to 5",
       CHANGE(t.tensorMaps[0].interleave = "32b")},
      {"targets[0].tensor_maps[0].swizzle",
       "expected '32b' with interleave '32b', got 'none'",
       CHANGE(interleave(t.tensorMaps[0], "none"))},
      {"targets[0].tensor_maps[0].value", "aligned to 32 bytes",
       CHANGE(interleave(t.tensorMaps[0], "32b"); m.values[6].alignment = 16)},
      {"targets[0].tensor_maps[0].value", "aligned to 16 bytes",
       CHANGE(m.values[6].alignment = 8)}};
}

TEST(Validate, theGoodOnesPass) {
  for (const Manifest &manifest : {tinyManifest(), richManifest()}) {
    Result<void> valid = validate(manifest);
    EXPECT_TRUE(valid) << valid.error().message;
  }
}

/// The largest numbers that are taken; the rows above have what is one more.
TEST(Validate, limitsAreAccepted) {
  const std::vector<std::pair<const char *, decltype(Row::change)>> limits = {
      {"name", CHANGE(m.name = std::string(160, 'a'))},
      {"path of a file",
       CHANGE(m.files[std::string(1024, 'a')] = std::string(64, '0'))},
      {"alignment", CHANGE(m.values[0].alignment = 256)},
      {"threads", CHANGE(t.kernels[0].threads = 1024)},
      {"shared_bytes", CHANGE(t.kernels[0].sharedBytes = 232448)},
      {"min_ctas_per_sm", CHANGE(t.kernels[0].minCtasPerSm = 16)},
      {"cluster",
       CHANGE(t.kernels[8].cluster = {16, 1, 1};
              for (Variant &variant : t.variants) for (Launch &launch : variant
                                                           .launches) {
                if (launch.grid.persistent)
                  launch.grid.tiles = kTokens * 16;
              })},
      {"experts", CHANGE(t.kernels[3].stages[0].attributes["experts"] = 65536)},
      {"n", CHANGE(t.kernels[3].stages[0].attributes["n"] = 2147483647)},
      {"rhs_group_rows",
       CHANGE(t.kernels[3].stages[0].attributes["rhs_group_rows"] = -1)},
      {"box", CHANGE(t.tensorMaps[0].box[1] = 256)},
      {"element_strides", CHANGE(t.tensorMaps[0].elementStrides[1] = 8)},
      {"min_sms",
       CHANGE(t.variants.insert(t.variants.begin(), Variant(t.variants[0]));
              t.variants[0].name = "many"; t.variants[0].minSms = 1024)},
      {"grid in x",
       CHANGE(t.variants[0].launches[1].grid.ctas[0] = 2147483647)},
      {"grid in y", CHANGE(t.variants[0].launches[1].grid.ctas[1] = 65535)},
      {"grid in z", CHANGE(t.variants[0].launches[1].grid.ctas[2] = 65535)},
      {"ctas_per_sm", CHANGE(t.variants[1].launches[4].grid.ctasPerSm = 2)},
      {"experts_per_step", CHANGE(t.pack[0].expertsPerStep = 4)},
      {"state_bytes", CHANGE(t.stateBytes = 272)},
  };
  for (const auto &[name, change] : limits) {
    Manifest manifest = richManifest();
    change(manifest, manifest.targets[0]);
    Result<void> valid = validate(manifest);
    EXPECT_TRUE(valid) << name << ": " << valid.error().message;
  }
}

TEST(Validate, everyWrongManifestIsNamed) { expectFailures(manifestRows()); }
TEST(Validate, everyWrongValueIsNamed) { expectFailures(valueRows()); }
TEST(Validate, everyWrongTargetIsNamed) { expectFailures(targetRows()); }
TEST(Validate, everyWrongKernelIsNamed) { expectFailures(kernelRows()); }
TEST(Validate, everyWrongArgumentIsNamed) { expectFailures(argumentRows()); }
TEST(Validate, everyWrongStageIsNamed) { expectFailures(stageRows()); }
TEST(Validate, everyWrongTensorMapIsNamed) { expectFailures(tensorMapRows()); }

TEST(Validate, olderArchsHaveNoClustersTmaOrProgrammaticLaunch) {
  auto problem = [](auto change) {
    Manifest m = tinyManifest();
    Target &t = m.targets[0];
    t.arch = "sm_80";
    t.compatibility = "major";
    t.computeMajor = 8;
    for (Kernel &kernel : t.kernels) {
      kernel.programmatic = false;
      kernel.options[1] = "-arch=sm_80";
    }
    change(t);
    Result<void> valid = validate(m);
    return valid ? "" : valid.error().message;
  };
  EXPECT_EQ(problem([](Target &) {}), "");
  EXPECT_EQ(problem([](Target &t) { t.kernels[0].programmatic = true; }),
            "targets[0].kernels[0].programmatic: expected false: sm_80 has no "
            "programmatic launch (sm_90 and later have)");
  EXPECT_THAT(problem([](Target &t) { t.kernels[0].cluster[0] = 2; }),
              HasSubstr("sm_80 has no clusters"));
}
