//===- CommandTest.cpp - the command and the catalog in libmoec.so --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command is called many times in one process, as a program of another
// language does; the catalog's rows are those of the tables.
//
//===----------------------------------------------------------------------===//

#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Gpus.h"
#include "dialect/catalog/Realizations.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"

#include "moec/compiler.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

using nlohmann::json;

namespace {

struct Said {
  int status = 0;
  std::string out, errors;
};

/// Calls moec_main with these words behind the program's name.
Said call(std::vector<std::string> words) {
  words.insert(words.begin(), "moec");
  std::vector<char *> pointers;
  for (std::string &word : words)
    pointers.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Said said;
  said.status = moec_main(static_cast<int>(pointers.size()), pointers.data());
  said.out = testing::internal::GetCapturedStdout();
  said.errors = testing::internal::GetCapturedStderr();
  return said;
}

json take(moec_status status, moec_text *text) {
  EXPECT_EQ(status, MOEC_OK) << moec_last_error();
  const json made = json::parse(moec_text_get(text));
  moec_text_destroy(text);
  return made;
}

std::string model(const char *name) {
  return std::string(getenv("MOEC_SOURCE_DIR")) + "/examples/models/" + name;
}

template <typename Row, size_t N>
void expectNames(const json &table, const Row (&rows)[N]) {
  ASSERT_EQ(table.size(), N);
  for (size_t i = 0; i < N; ++i)
    EXPECT_EQ(table[i]["name"], std::string(rows[i].name));
}

} // namespace

TEST(Command, ManyTimes) {
  const std::string folder = testing::TempDir() + "moec-command";
  const std::vector<std::string> compile = {
      "compile",    model("mixtral-8x7b.json"), "--arch=sm_80",
      "--no-cubin", "--max-tokens=64",          "-o",
      folder};
  for (int i = 0; i < 3; ++i) {
    std::filesystem::remove_all(folder);
    const Said made = call(compile);
    EXPECT_EQ(made.status, 0) << made.errors;
    EXPECT_NE(made.out.find("for sm_80: "), std::string::npos) << made.out;
    EXPECT_TRUE(std::filesystem::exists(folder + "/manifest.json"));
    // The words of one call do not last.
    const Said refused = call({"compile", model("mixtral-8x7b.json")});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.errors.find("moec: expected --arch=NAME"),
              std::string::npos)
        << refused.errors;
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(call({"melt"}).status, 2);
    const Said list = call({"list", "schemes"});
    EXPECT_EQ(list.status, 0);
    EXPECT_EQ(list.out.find("scheme "), 0u) << list.out;
    const Said help = call({"compile", "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("--max-tokens"), std::string::npos);
    EXPECT_EQ(help.errors, "");
    EXPECT_EQ(call({"--version"}).out, "moec 0.1.0\n");
  }
  std::filesystem::remove_all(folder);
}

TEST(Command, BesideTheRestOfTheLibrary) {
  int64_t calls = 0;
  ASSERT_EQ(moec_set_progress([](void *user, const char *, int64_t,
                                 int64_t) { ++*static_cast<int64_t *>(user); },
                              &calls),
            MOEC_OK);
  EXPECT_EQ(
      call({"explain", model("mixtral-8x7b.json"), "--arch=sm_80"}).status, 0);
  // The function that was set before is still called.
  moec_package_files *files = nullptr;
  const char *layer = R"({
    "moec_layer": 1, "name": "tiny", "num_experts": 4, "top_k": 2,
    "hidden_size": 32, "intermediate_size": 16, "in_dtype": "float32",
    "routing_method": "renormalize"})";
  ASSERT_EQ(moec_compile_config(layer, R"({"arch": "sm_80"})", &files),
            MOEC_OK);
  moec_load_options load = {};
  load.struct_size = sizeof(load);
  load.prebuild = 1;
  load.arch = "sm_80";
  load.cache_dir = "";
  moec_package *package = nullptr;
  const moec_status loaded = moec_package_load_files(files, &load, &package);
  moec_package_destroy(package);
  moec_package_files_destroy(files);
  EXPECT_EQ(moec_set_progress(nullptr, nullptr), MOEC_OK);
  if (loaded == MOEC_NO_COMPILER)
    GTEST_SKIP() << "no NVRTC on this machine: " << moec_last_error();
  EXPECT_EQ(loaded, MOEC_OK) << moec_last_error();
  EXPECT_GT(calls, 0);
}

TEST(Command, NullWords) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(moec_main(0, nullptr), 2);
  EXPECT_EQ(moec_main(1, nullptr), 2);
  char name[] = "moec", list[] = "list";
  char *words[] = {name, nullptr, list};
  EXPECT_EQ(moec_main(3, words), 2);
  EXPECT_EQ(moec_main(-1, words), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "moec: expected the words of a command line, the program's name "
            "first, got none\n"
            "moec: expected the words of a command line, the program's name "
            "first, got none\n"
            "moec: a word of the command line is NULL\n"
            "moec: expected the words of a command line, the program's name "
            "first, got none\n");
}

TEST(Catalog, IsTheTables) {
  moec_text *text = nullptr;
  const moec_status status = moec_catalog_json(&text);
  const json catalog = take(status, text);
  using namespace moec::catalog;
  expectNames(catalog["schemes"], kSchemes);
  expectNames(catalog["routing"], kRoutingMethods);
  expectNames(catalog["activations"], kActivations);
  expectNames(catalog["engines"], kEngines);
  expectNames(catalog["backends"], kBackends);
  expectNames(catalog["archs"], kArchitectures);
  expectNames(catalog["gpus"], kGpus);
  expectNames(catalog["realizations"], kRealizations);
  EXPECT_EQ(catalog.size(), 8u);
  const auto row = [&](const char *table, const char *name) -> json {
    for (const json &each : catalog[table])
      if (each["name"] == name)
        return each;
    return nullptr;
  };
  EXPECT_EQ(row("schemes", "fp8_block")["w1"],
            json::parse(R"({"element": "f8E4M3FN", "scale": "f32",
              "group": [128, 128], "dynamic": false, "second_scale": null,
              "second_per_row": false, "zero_point": null,
              "scale_rule": null})"));
  EXPECT_EQ(row("schemes", "bf16")["a1"]["group"], nullptr);
  EXPECT_EQ(row("activations", "swigluoai")["parameters"], json::parse(R"([
              {"name": "alpha", "required": false, "default": 1.702},
              {"name": "beta", "required": false, "default": 1.0},
              {"name": "limit", "required": false, "default": 7.0}])"));
  EXPECT_EQ(
      row("activations", "swigluoai_uninterleave")["parameters"][2],
      json::parse(R"({"name": "limit", "required": true, "default": null})"));
  EXPECT_EQ(row("archs", "sm_90a")["serves"], "exact");
  EXPECT_EQ(moec_catalog_json(nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_catalog_json: catalog is NULL");
}

TEST(Wrapper, Compiler) {
  const std::string layer = R"({
    "moec_layer": 1, "name": "tiny", "num_experts": 4, "top_k": 2,
    "hidden_size": 32, "intermediate_size": 16, "in_dtype": "float32",
    "routing_method": "renormalize"})";
  const std::string options = R"({"arch": "sm_80"})";
  auto files = moec::api::compileConfig(layer, options);
  ASSERT_TRUE(files) << files.error().message;
  auto report = moec::api::explainConfig(layer, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(json::parse(*report)["served"], true);
  EXPECT_EQ(moec::api::compileConfig("{}").error().status, MOEC_REFUSED);
  EXPECT_EQ(json::parse(*moec::api::catalog()).size(), 8u);
  EXPECT_GT(json::parse(*moec::api::families()).size(), 10u);
}

TEST(Catalog, Families) {
  moec_text *text = nullptr;
  const moec_status status = moec_families_json(&text);
  const json families = take(status, text);
  std::set<std::string> types, architectures;
  for (const json &family : families) {
    EXPECT_FALSE(family["source"].get<std::string>().empty());
    for (const std::string name : family["model_types"])
      types.insert(name);
    for (const std::string name : family["architectures"])
      architectures.insert(name);
  }
  // Each example is of a family.
  int count = 0;
  for (const auto &file : std::filesystem::directory_iterator(model(""))) {
    const json config = json::parse(std::ifstream(file.path()));
    if (!config.contains("model_type"))
      continue;
    ++count;
    bool isKnown = types.contains(config["model_type"]);
    for (const std::string name : config.value("architectures", json::array()))
      isKnown |= architectures.contains(name);
    EXPECT_TRUE(isKnown) << file.path();
  }
  EXPECT_GT(count, 30);
  EXPECT_EQ(moec_families_json(nullptr), MOEC_INVALID_ARGUMENT);
  EXPECT_STREQ(moec_last_error(), "moec_families_json: families is NULL");
}
