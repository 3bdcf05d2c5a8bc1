//===- ApiCheckpointTest.cpp - checkpoints through the C interface --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiny layer's weights out of files, whole and in pieces, and what is said
// of files that are another layer's.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"
#include "test/runtime/weights/CheckpointTesting.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <thread>

using namespace moec;
using namespace moec::test;
using nlohmann::json;
using testing::HasSubstr;

namespace {

/// The tiny package, whose layer says all that a checkpoint is read by.
PackageFiles packageWith(const json &more = json::object()) {
  PackageFiles files = tinyPackage();
  json &layer = *files.manifest.layer;
  const json weight = {{"group", json::array()}, {"element_type", "bf16"}};
  layer["intermediate_size_per_partition"] = 16;
  layer["local_experts"] = {{"begin", 0}, {"count", 4}};
  layer["activation"] = {{"gated", true}};
  layer["quant"] = {{"w1", weight}, {"w2", weight}};
  layer.update(more);
  RankFacts &rank = files.manifest.ranks.at(0);
  rank.localBegin = layer["local_experts"]["begin"];
  rank.intermediateBegin = layer.value("intermediate_begin", int64_t(0));
  return files;
}

/// Numbers that say where they stand: each is exact in bf16.
Stored numbered(std::vector<int64_t> shape, int64_t first) {
  Stored made = filled("BF16", std::move(shape));
  for (size_t i = 0; i < made.bytes.size() / 2; ++i) {
    const uint16_t bits = static_cast<uint16_t>(first * 256 + int64_t(i));
    std::memcpy(made.bytes.data() + 2 * i, &bits, 2);
  }
  return made;
}

class ApiCheckpoint : public testing::Test {
protected:
  ApiCheckpoint() {
    for (int64_t layer : {2, 7})
      for (int64_t expert = 0; expert < 4; ++expert) {
        int64_t part = 0;
        for (const char *name : {"gate_proj", "up_proj", "down_proj"})
          tensors[fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", layer,
                              expert, name)] =
              numbered({16, 16}, (layer * 4 + expert) * 3 + part++);
      }
  }
  ~ApiCheckpoint() override {
    moec_weights_close(weights);
    moec_checkpoint_close(checkpoint);
  }
  ApiCheckpoint(const ApiCheckpoint &) = delete;
  ApiCheckpoint &operator=(const ApiCheckpoint &) = delete;

  /// Writes the tensors and opens them; "" or what is said, the folder as DIR.
  std::string open(int64_t layer = -1,
                   const moec_weights_options *options = nullptr) {
    folder.write("model.safetensors", fileOf(tensors));
    moec_weights_close(weights);
    moec_checkpoint_close(checkpoint);
    checkpoint = nullptr, weights = nullptr;
    if (moec_checkpoint_open(folder.path.c_str(), &checkpoint) == MOEC_OK &&
        moec_weights_open(checkpoint, tiny.package, layer, options, &weights) ==
            MOEC_OK)
      return "";
    return said();
  }
  std::string said() const {
    std::string text = moec_last_error();
    if (const size_t at = text.find(folder.path); at != std::string::npos)
      text.replace(at, folder.path.size(), "DIR");
    return text;
  }
  static std::string take(moec_text *text) {
    const std::string made = moec_text_get(text);
    moec_text_destroy(text);
    return made;
  }
  /// An expert's part as the fixture made it.
  std::string bytesOf(int64_t layer, int64_t expert, const char *part) const {
    return tensors
        .at(fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", layer,
                        expert, part))
        .bytes;
  }

  std::map<std::string, Stored> tensors;
  Folder folder;
  TinyLayer tiny{packageWith()};
  moec_checkpoint *checkpoint = nullptr;
  moec_weights *weights = nullptr;
};

} // namespace

TEST_F(ApiCheckpoint, LoadsALayerThatRuns) {
  ASSERT_EQ(open(7), "");
  EXPECT_EQ(moec_weights_layer(weights), 7);
  Buffer w13(4 * 32 * 16 * 2), w2(4 * 16 * 16 * 2);
  const moec_tensor both[] = {tensor("w13", w13.data(), {4, 32, 16}),
                              tensor("w2", w2.data(), {4, 16, 16})};
  ASSERT_EQ(moec_weights_load(weights, both, 2), MOEC_OK) << moec_last_error();
  std::string first, second;
  for (int64_t expert = 0; expert < 4; ++expert) {
    first += bytesOf(7, expert, "gate_proj") + bytesOf(7, expert, "up_proj");
    second += bytesOf(7, expert, "down_proj");
  }
  EXPECT_EQ(std::string(w13.as<char>(), w13.bytes()), first);
  EXPECT_EQ(std::string(w2.as<char>(), w2.bytes()), second);
  // The checkpoint may be closed before the layer that was opened of it.
  moec_checkpoint_close(checkpoint);
  checkpoint = nullptr;
  EXPECT_EQ(moec_weights_load(weights, both + 1, 1), MOEC_OK);
  LayerHandle layer(tiny.package, {both[0], both[1]});
  EXPECT_EQ(layer.status, MOEC_OK) << moec_last_error();
}

TEST_F(ApiCheckpoint, PiecesAreTheWhole) {
  ASSERT_EQ(open(), "");
  EXPECT_EQ(moec_weights_layer(weights), 2);
  Buffer all(4 * 32 * 16 * 2), piece(2 * 32 * 16 * 2 + 1);
  const moec_tensor whole = tensor("w13", all.data(), {4, 32, 16});
  ASSERT_EQ(moec_weights_load(weights, &whole, 1), MOEC_OK);
  for (int64_t begin = 0; begin < 4; begin += 2) {
    // Host memory needs no alignment.
    char *to = piece.as<char>() + 1;
    const moec_tensor some = tensor("w13", to, {2, 32, 16});
    ASSERT_EQ(moec_weights_load_experts(weights, &some, 1, begin, 2), MOEC_OK)
        << moec_last_error();
    EXPECT_EQ(std::memcmp(to, all.as<char>() + begin * 1024, 2048), 0) << begin;
  }
  const moec_tensor none = tensor("w13", piece.data(), {0, 32, 16});
  EXPECT_EQ(moec_weights_load_experts(weights, &none, 1, 4, 0), MOEC_OK);
}

TEST_F(ApiCheckpoint, Progress) {
  ASSERT_EQ(open(), "");
  struct Heard {
    std::string step;
    int64_t calls = 0, done = 0, total = 0;
  } heard;
  ASSERT_EQ(moec_set_progress(
                [](void *user, const char *step, int64_t done, int64_t total) {
                  auto &of = *static_cast<Heard *>(user);
                  of = {step, of.calls + 1, done, total};
                },
                &heard),
            MOEC_OK);
  Buffer w13(4 * 32 * 16 * 2);
  const moec_tensor to = tensor("w13", w13.data(), {4, 32, 16});
  EXPECT_EQ(moec_weights_load(weights, &to, 1), MOEC_OK);
  EXPECT_EQ(moec_set_progress(nullptr, nullptr), MOEC_OK);
  EXPECT_EQ(heard.step, "parts of experts read");
  EXPECT_EQ(heard.calls, 8);
  EXPECT_EQ(heard.done, 8);
  EXPECT_EQ(heard.total, 8);
}

TEST_F(ApiCheckpoint, ManyThreadsLoad) {
  ASSERT_EQ(open(), "");
  std::vector<Buffer> made;
  for (int i = 0; i < 4; ++i)
    made.emplace_back(4 * 32 * 16 * 2);
  std::vector<moec_status> statuses(made.size(), MOEC_INTERNAL);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < made.size(); ++i)
    threads.emplace_back([&, i] {
      moec_weights *own = nullptr;
      const moec_tensor to = tensor("w13", made[i].data(), {4, 32, 16});
      if (moec_weights_open(checkpoint, tiny.package, 2, nullptr, &own) ==
          MOEC_OK)
        statuses[i] = moec_weights_load(i % 2 ? own : weights, &to, 1);
      moec_weights_close(own);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(statuses[i], MOEC_OK);
    EXPECT_TRUE(made[i] == made[0]);
  }
}

TEST_F(ApiCheckpoint, Layers) {
  tensors["model.layers.7.mlp.shared_experts.gate_proj.weight_scale"] =
      filled("F32", {1});
  tensors["model.layers.9.mlp.experts.gate_up_proj"] = filled("BF16", {4, 8});
  tensors["model.layers.11.mlp.gate_proj.weight"] = filled("BF16", {8});
  (void)open();
  moec_text *text = nullptr;
  ASSERT_EQ(moec_checkpoint_layers_json(checkpoint, &text), MOEC_OK);
  const json expected = json::parse(R"([
    {"layer": 2, "prefix": "model.", "experts": 4, "shared_experts": false,
     "holds": ["weights"]},
    {"layer": 7, "prefix": "model.", "experts": 4, "shared_experts": true,
     "holds": ["weights", "scales"]},
    {"layer": 9, "prefix": "model.", "experts": null, "shared_experts": false,
     "holds": ["weights"]}])");
  EXPECT_EQ(json::parse(take(text)), expected);
}

TEST_F(ApiCheckpoint, UnusedTensors) {
  const std::string scale = "model.layers.2.mlp.experts.0.up_proj.input_scale";
  tensors[scale] = filled("F32", {1});
  EXPECT_EQ(
      open(2),
      "DIR: tensor '" + scale +
          "' holds scales of activations of the layer's experts, and no value "
          "of layer 'tiny' takes it; accepted: a layer with static scales of "
          "activations (quant_config fp8_tensor, int8_tensor or nvfp4), or "
          "moec_weights_options.ignored=input_scale if no number of the layer "
          "depends on it");
  EXPECT_EQ(moec_weights_layer(weights), -1);
  const char *const words[] = {"input_scale", "bias"};
  moec_weights_options options = {};
  options.struct_size = sizeof(options);
  options.ignored = words;
  options.num_ignored = 1;
  EXPECT_EQ(open(2, &options), "");
  options.num_ignored = 2;
  EXPECT_EQ(open(2, &options),
            "DIR: moec_weights_options.ignored=bias: layer 2 has no tensor of "
            "that word that no value takes");
  // Tensors of another layer do not matter.
  EXPECT_EQ(open(7), "");
}

TEST_F(ApiCheckpoint, SharedExpertsOfTheCaller) {
  tensors["model.layers.2.mlp.shared_expert.down_proj.weight"] =
      filled("BF16", {16, 16});
  EXPECT_THAT(open(2), HasSubstr("moec_weights_options.no_shared_experts "
                                 "where the caller computes them"));
  moec_weights_options options = {};
  options.struct_size = sizeof(options);
  options.no_shared_experts = 1;
  EXPECT_EQ(open(2, &options), "");
}

TEST_F(ApiCheckpoint, MissingTensors) {
  tensors.erase("model.layers.2.mlp.experts.3.up_proj.weight");
  ASSERT_EQ(open(2), "");
  Buffer w13(4 * 32 * 16 * 2);
  const moec_tensor all = tensor("w13", w13.data(), {4, 32, 16});
  EXPECT_EQ(moec_weights_load(weights, &all, 1), MOEC_REFUSED);
  EXPECT_THAT(said(),
              HasSubstr("DIR: layer 2, value 'w13': expected a tensor of "
                        "expert 3, up_proj (or w3, v1) or gate_up_proj"));
  // Experts that are there can be loaded.
  const moec_tensor some = tensor("w13", w13.data(), {3, 32, 16});
  EXPECT_EQ(moec_weights_load_experts(weights, &some, 1, 0, 3), MOEC_OK);
  tensors["model.layers.2.mlp.experts.3.up_proj.weight"] =
      filled("BF16", {16, 8});
  ASSERT_EQ(open(2), "");
  EXPECT_EQ(moec_weights_load(weights, &all, 1), MOEC_REFUSED);
  EXPECT_THAT(said(), HasSubstr("expected bf16 [16, 16] for value 'w13' of "
                                "layer 'tiny', got BF16 [16, 8]"));
}

TEST_F(ApiCheckpoint, WrongLayers) {
  EXPECT_THAT(open(3),
              HasSubstr("DIR: layer 3 has no experts' weights; expected "));
  EXPECT_EQ(open(-2), "moec_weights_open: expected a layer >= 0, or -1 for the "
                      "first that has experts, got -2");
  tensors["model.layers.2.mlp.experts.4.up_proj.weight"] =
      filled("BF16", {16, 16});
  EXPECT_THAT(open(2), HasSubstr("expected experts 0 to 3 of layer 'tiny', got "
                                 "expert 4"));
}

TEST_F(ApiCheckpoint, WrongFiles) {
  EXPECT_EQ(moec_checkpoint_open("/no/such/folder", &checkpoint),
            MOEC_FILE_SYSTEM);
  EXPECT_EQ(checkpoint, nullptr);
  EXPECT_THAT(moec_last_error(), HasSubstr("/no/such/folder"));
  EXPECT_EQ(moec_checkpoint_open(folder.path.c_str(), &checkpoint),
            MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(said(), "DIR: expected one *.safetensors.index.json or files "
                    "*.safetensors, got neither");
  const std::string file = fileOf(tensors);
  for (const size_t bytes :
       {size_t(0), size_t(5), size_t(100), file.size() - 1}) {
    folder.write("model.safetensors", file.substr(0, bytes));
    EXPECT_EQ(moec_checkpoint_open(folder.path.c_str(), &checkpoint),
              MOEC_INVALID_ARGUMENT)
        << bytes;
    EXPECT_EQ(checkpoint, nullptr);
    EXPECT_THAT(said(), HasSubstr("DIR/model.safetensors: ")) << bytes;
  }
  folder.write("model.safetensors", fileOf({}));
  ASSERT_EQ(moec_checkpoint_open(folder.path.c_str(), &checkpoint), MOEC_OK);
  EXPECT_EQ(moec_weights_open(checkpoint, tiny.package, -1, nullptr, &weights),
            MOEC_REFUSED);
  EXPECT_THAT(said(), HasSubstr("got no tensors"));
}

TEST_F(ApiCheckpoint, WrongMemory) {
  ASSERT_EQ(open(2), "");
  Buffer memory(4 * 32 * 16 * 2);
  const auto load = [&](const std::vector<moec_tensor> &list) {
    EXPECT_EQ(moec_weights_load(weights, list.data(), list.size()),
              MOEC_INVALID_ARGUMENT);
    return said();
  };
  EXPECT_EQ(load({tensor("w3", memory.data(), {4, 32, 16})}),
            "package tiny has no stored weight 'w3'; its stored weights are "
            "w13, w2");
  EXPECT_THAT(load({tensor("w13_packed", memory.data(), {4, 32, 16})}),
              HasSubstr("has no stored weight 'w13_packed'"));
  EXPECT_EQ(load({tensor("w13", memory.data(), {4, 16, 16})}),
            "value 'w13': expected [4, 32, 16], got [4, 16, 16]");
  EXPECT_EQ(load({tensor("w13", memory.data(), {4, 32, 16}, "f16")}),
            "value 'w13': expected element type bf16, got 'f16'");
  EXPECT_THAT(load({tensor("w13", nullptr, {4, 32, 16})}),
              HasSubstr("expected an address, got none"));
  const moec_tensor twice = tensor("w2", memory.data(), {4, 16, 16});
  EXPECT_EQ(load({twice, twice}), "weight 'w2' was given twice");
  EXPECT_THAT(load({withStrides(tensor("w13", memory.data(), {4, 32, 16}),
                                {512, 1, 32})}),
              HasSubstr("expected strides [512, 16, 1]"));

  const auto some = [&](const char *name, int64_t first, int64_t count) {
    const moec_tensor to = tensor(name, memory.data(), {2, 32, 16});
    EXPECT_EQ(moec_weights_load_experts(weights, &to, 1, first, count),
              MOEC_INVALID_ARGUMENT);
    return said();
  };
  EXPECT_EQ(some("w13", 3, 2), "value 'w13': expected experts within [0, 4), "
                               "got 2 from 3 on");
  EXPECT_EQ(some("w13", -1, 2), "value 'w13': expected experts within [0, 4), "
                                "got 2 from -1 on");
  EXPECT_EQ(some("w13", INT64_MAX, 2),
            "value 'w13': expected experts within [0, 4), got 2 from "
            "9223372036854775807 on");
  EXPECT_EQ(some("w13", 0, -1), "moec_weights_load_experts: expected a number "
                                "of experts >= 0, got -1");
  EXPECT_EQ(some("w13", 0, 3),
            "value 'w13': expected [3, 32, 16], got [2, 32, 16]");
}

TEST_F(ApiCheckpoint, NullArguments) {
  ASSERT_EQ(open(2), "");
  moec_checkpoint *files = checkpoint;
  moec_weights *made = nullptr;
  moec_text *text = nullptr;
  const auto expect = [&](moec_status status, const char *message) {
    EXPECT_EQ(status, MOEC_INVALID_ARGUMENT);
    EXPECT_STREQ(moec_last_error(), message);
  };
  expect(moec_checkpoint_open(nullptr, &files),
         "moec_checkpoint_open: path is NULL");
  expect(moec_checkpoint_open("x", nullptr),
         "moec_checkpoint_open: checkpoint is NULL");
  expect(moec_checkpoint_layers_json(nullptr, &text),
         "moec_checkpoint_layers_json: checkpoint is NULL");
  expect(moec_checkpoint_layers_json(checkpoint, nullptr),
         "moec_checkpoint_layers_json: layers is NULL");
  expect(moec_weights_open(nullptr, tiny.package, 2, nullptr, &made),
         "moec_weights_open: checkpoint is NULL");
  expect(moec_weights_open(checkpoint, nullptr, 2, nullptr, &made),
         "moec_weights_open: package is NULL");
  expect(moec_weights_open(checkpoint, tiny.package, 2, nullptr, nullptr),
         "moec_weights_open: weights is NULL");
  moec_weights_options options = {};
  expect(moec_weights_open(checkpoint, tiny.package, 2, &options, &made),
         "moec_weights_options.struct_size is 0; set it to "
         "sizeof(moec_weights_options)");
  options.struct_size = sizeof(options);
  options.num_ignored = 1;
  expect(moec_weights_open(checkpoint, tiny.package, 2, &options, &made),
         "moec_weights_options: ignored is NULL");
  const char *const none[] = {nullptr};
  options.ignored = none;
  expect(moec_weights_open(checkpoint, tiny.package, 2, &options, &made),
         "moec_weights_options: a word of ignored is NULL");
  expect(moec_weights_load(nullptr, nullptr, 0),
         "moec_weights_load: weights is NULL");
  expect(moec_weights_load(weights, nullptr, 1),
         "moec_weights_load: the array of tensors is NULL");
  expect(moec_weights_load_experts(nullptr, nullptr, 0, 0, 0),
         "moec_weights_load_experts: weights is NULL");
  expect(moec_package_weight_map_json(nullptr, &text),
         "moec_package_weight_map_json: package is NULL");
  expect(moec_package_weight_map_json(tiny.package, nullptr),
         "moec_package_weight_map_json: map is NULL");
  EXPECT_EQ(moec_weights_load(weights, nullptr, 0), MOEC_OK);
  moec_checkpoint_close(nullptr);
  moec_weights_close(nullptr);
  EXPECT_EQ(moec_weights_layer(nullptr), -1);
}

/// A program with a loader of its own: it follows the map and arrives at the
/// same bytes, here of the second of two ranks.
TEST_F(ApiCheckpoint, WeightMap) {
  const json share = {
      {"num_experts", 8},
      {"intermediate_size", 32},
      {"intermediate_begin", 16},
      {"gate_up_order", "interleaved"},
      {"local_experts", {{"begin", 1}, {"count", 4}, {"stride", 2}}}};
  TinyLayer rank(packageWith(share));
  ASSERT_EQ(rank.status, MOEC_OK) << moec_last_error();
  std::map<std::string, Stored> files;
  for (int64_t expert = 0; expert < 8; ++expert)
    for (const auto &[name, shape] :
         {std::pair("w1", std::vector<int64_t>{32, 16}),
          {"w3", {32, 16}},
          {"w2", {16, 32}}})
      files[fmt::format("layers.0.experts.{}.{}.weight", expert, name)] =
          numbered(shape, int64_t(files.size()) * 2);
  folder.write("model.safetensors", fileOf(files));
  ASSERT_EQ(moec_checkpoint_open(folder.path.c_str(), &checkpoint), MOEC_OK);
  ASSERT_EQ(moec_weights_open(checkpoint, rank.package, 0, nullptr, &weights),
            MOEC_OK)
      << moec_last_error();
  Buffer w13(4 * 32 * 16 * 2), w2(4 * 16 * 16 * 2);
  const moec_tensor both[] = {tensor("w13", w13.data(), {4, 32, 16}),
                              tensor("w2", w2.data(), {4, 16, 16})};
  ASSERT_EQ(moec_weights_load(weights, both, 2), MOEC_OK) << moec_last_error();

  moec_text *text = nullptr;
  ASSERT_EQ(moec_package_weight_map_json(rank.package, &text), MOEC_OK)
      << moec_last_error();
  const json map = json::parse(take(text));
  EXPECT_EQ(map["layer"], "tiny");
  ASSERT_EQ(map["experts"].size(), 4u);
  EXPECT_EQ(map["experts"][3], json({{"expert", 7}, {"shared", false}}));
  Buffer ownW13(w13.bytes()), ownW2(w2.bytes());
  int parts = 0;
  for (const json &value : map["values"]) {
    const bool first = value["value"] == "w13";
    Buffer &to = first ? ownW13 : ownW2;
    const int64_t rowsOfExpert = value["shape"][1];
    const int64_t columnsOfExpert = value["shape"][2];
    for (const json &part : value["parts"])
      for (size_t e = 0; e < map["experts"].size(); ++e)
        for (const json &one : part["tensors"])
          for (std::string name : one["names"]) {
            if (const size_t at = name.find("{expert}");
                at != std::string::npos)
              name.replace(at, 8, map["experts"][e]["expert"].dump());
            const auto file = files.find("layers.0." + name);
            if (file == files.end() || one["holds"] == "gate_up")
              continue;
            ++parts;
            EXPECT_EQ(
                file->second.shape,
                (std::vector<int64_t>{one["of_rows"], one["of_columns"]}));
            const json &rows = one["rows"], &columns = one["columns"];
            for (int64_t r = 0; r < rows["count"].get<int64_t>(); ++r)
              for (int64_t c = 0; c < columns["count"].get<int64_t>(); ++c) {
                const int64_t row = rows["begin"].get<int64_t>() +
                                    r * rows["step"].get<int64_t>();
                const int64_t column = columns["begin"].get<int64_t>() + c;
                const int64_t at = part["rows"]["begin"].get<int64_t>() +
                                   r * part["rows"]["step"].get<int64_t>();
                std::memcpy(
                    to.as<uint16_t>() +
                        (int64_t(e) * rowsOfExpert + at) * columnsOfExpert + c,
                    file->second.bytes.data() +
                        2 * (row * one["of_columns"].get<int64_t>() + column),
                    2);
              }
          }
  }
  EXPECT_EQ(parts, 12);
  EXPECT_TRUE(ownW13 == w13);
  EXPECT_TRUE(ownW2 == w2);
}
