//===- main.cpp - from config.json to a running layer, in one process -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine does this at model load: hand the model's config.json to
// libmoec.so, get a package in memory, load it (kernels are compiled in
// parallel, or come from the cache), give it weights, run. No files besides
// the cache, no nvcc, no Python.
//
//   example-jit-at-load config.json [--host]
//
// Without a GPU, or with --host, the layer is scaled down and runs on the host
// device, which executes the very launches of the package in plain C++.
//
//===----------------------------------------------------------------------===//

#include "examples/common/RunBatch.h"

#include <moec/compiler.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

/// A layer of the same kind that plain C++ runs in a moment.
static std::string scaledDown(const std::string &text) {
  nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object())
    return text; // moec says what is wrong with it
  for (auto [key, most] : {std::pair{"hidden_size", 256},
                           {"intermediate_size", 128},
                           {"moe_intermediate_size", 128},
                           {"num_experts", 16},
                           {"hidden_size", 256}})
    if (config.contains(key) && config[key].is_number_integer())
      config[key] = std::min(config[key].get<int64_t>(), int64_t(most));
  return config.dump();
}

int main(int argc, char **argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s config.json [--host]\n", argv[0]);
    return 2;
  }
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  std::string config = text.str();

  bool host = argc > 2 && std::string(argv[2]) == "--host";
  example::Memory memory(/*wantGpu=*/!host);
  std::string options;
  if (memory.onGpu()) {
    options = R"({"arch": [")" + memory.arch() + R"("], "max_tokens": 8192})";
  } else {
    std::printf("no GPU is used: a scaled-down layer on the host device\n");
    config = scaledDown(config);
    options = R"({"arch": ["sm_80"], "max_tokens": 1024})";
  }

  moec_package_files *compiled = nullptr;
  moec_status status =
      moec_compile_config(config.c_str(), options.c_str(), &compiled);
  auto files = moec::api::Files::wrap(status, compiled);
  if (!files)
    return example::report(files.error());

  moec_load_options load = moec::api::loadOptions();
  load.device = memory.onGpu() ? MOEC_DEVICE_CUDA : MOEC_DEVICE_HOST;
  auto package = moec::api::Package::load(*files, load);
  if (!package)
    return example::report(package.error());
  std::printf("loaded %s for %s\n", package->name().c_str(),
              package->arch().c_str());

  auto layer = example::makeLayer(*package, memory);
  if (!layer)
    return example::report(layer.error());
  for (int64_t tokens : {1, 7, 64}) {
    auto done = example::runBatch(*package, *layer, memory, tokens);
    if (!done)
      return example::report(done.error());
  }
  return 0;
} catch (const std::exception &exception) { // memory, say
  std::fprintf(stderr, "%s: %s\n", argv[0], exception.what());
  return 1;
}
