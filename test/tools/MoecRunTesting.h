//===- MoecRunTesting.h - a tiny package for the programs -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TOOLS_MOECRUNTESTING_H
#define MOEC_TEST_TOOLS_MOECRUNTESTING_H

#include "runtime/support/Files.h"
#include "test/runtime/TinyManifest.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>

namespace moec::test {

/// The layer of test/runtime/TinyManifest.h.
inline nlohmann::json tinyLayer(const TinyShape &s) {
  using nlohmann::json;
  json bf16 = {{"element_type", "bf16"},       {"group", json::array()},
               {"scale_type", nullptr},        {"dynamic", false},
               {"second_scale_type", nullptr}, {"zero_point_type", nullptr}};
  return {
      {"name", "tiny"},
      {"num_experts", s.experts},
      {"top_k", s.topK},
      {"hidden_size", s.hidden},
      {"intermediate_size", s.intermediate},
      {"intermediate_size_per_partition", s.intermediate},
      {"local_experts", {{"begin", 0}, {"count", s.experts}}},
      {"in_dtype", "bf16"},
      {"out_dtype", "bf16"},
      {"router_logits_dtype", "f32"},
      {"routing",
       {{"name", "renormalize_naive"},
        {"score", "softmax"},
        {"select", "top_k"},
        {"normalize", "sum"},
        {"groups", 0},
        {"top_groups", 0},
        {"scale", 1.0},
        {"bias", false}}},
      {"activation",
       {{"name", "silu"},
        {"function", "silu"},
        {"gated", true},
        {"alpha", nullptr},
        {"beta", nullptr},
        {"limit", nullptr}}},
      {"quant",
       {{"name", "bf16"},
        {"a1", bf16},
        {"a2", bf16},
        {"w1", bf16},
        {"w2", bf16}}},
      {"gate_up_order", "gate_first"},
      {"has_bias", false},
      {"add_w2_bias", true},
      {"apply_router_weight_on_input", false},
      {"parallel",
       {{"tp_size", 1},
        {"tp_rank", 0},
        {"pcp_size", 1},
        {"dp_size", 1},
        {"ep_size", 1},
        {"ep_rank", 0},
        {"sp_size", 1}}},
  };
}

/// A tiny package on disk, and the programs that run it.
class MoecRun : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/moec-run-XXXXXX";
    root = mkdtemp(name);
    package = tinyPackage();
    *package.manifest.layer = tinyLayer({});
    ASSERT_TRUE(writePackage(package, root + "/package"));
  }
  void TearDown() override { (void)removeAll(root); }

  /// Exit status of moec-run; what it prints is in `output` and `errors`.
  int run(const std::string &arguments) { return start("moec-run", arguments); }
  /// The same of moec-check.
  int check(const std::string &arguments) {
    return start("moec-check", arguments);
  }
  int start(const std::string &program, const std::string &arguments) {
    std::string command = std::string(getenv("MOEC_BINARY_DIR")) + "/bin/" +
                          program + " " + root + "/package " + arguments +
                          " >" + root + "/out 2>" + root + "/err";
    int status = std::system(command.c_str());
    output = readFile(root + "/out") ? *readFile(root + "/out") : "";
    errors = readFile(root + "/err") ? *readFile(root + "/err") : "";
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string root, output, errors;
  PackageFiles package;
};

} // namespace moec::test

#endif // MOEC_TEST_TOOLS_MOECRUNTESTING_H
