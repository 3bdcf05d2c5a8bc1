//===- main.cpp - an engine with its own router and transport -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rank of an engine that routes by itself: it gives ids and weights, and
// sums the outputs of the ranks by its own means. Nothing is compiled at load.
//
//   example-engine PACKAGE FOLDER TOKENS
//
// FOLDER has the raw bytes of each stored weight and of x as NAME.bin, and
// scores.bin, the engine's own scores [tokens, experts] as f32. out.bin gets
// the output. The host device keeps arrays in host memory; on a GPU they are in
// its memory, and the stream is a CUstream.
//
//===----------------------------------------------------------------------===//

#include <moec/moec.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <list>
#include <numeric>
#include <string>
#include <vector>

namespace api = moec::api;

/// Memory with the alignment of workspaces.
struct alignas(256) Block {
  char bytes[256];
};
using Memory = std::vector<Block>;

[[noreturn]] static void fail(const std::string &message) {
  std::fprintf(stderr, "example-engine: %s\n", message.c_str());
  std::exit(1);
}

template <typename T> static T &need(api::Expected<T> &&result) {
  static std::list<api::Expected<T>> kept;
  if (!result)
    fail(result.error().message);
  kept.push_back(std::move(result));
  return *kept.back();
}

static std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The engine's router: the best experts by score; the r-th of k gets the
/// share (k - r) / (1 + 2 + ... + k).
static void route(const float *scores, int64_t experts, int64_t topK,
                  int32_t *ids, float *shares) {
  std::vector<int32_t> order(static_cast<size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  for (int64_t r = 0; r < topK; ++r) {
    ids[r] = order[static_cast<size_t>(r)];
    shares[r] = float(topK - r) / (float(topK * (topK + 1)) / 2.0F);
  }
}

int main(int argc, char **argv) {
  if (argc != 4)
    fail("expected PACKAGE FOLDER TOKENS");
  const std::string folder = std::string(argv[2]) + "/";
  const int64_t tokens = std::atoll(argv[3]);

  moec_load_options options = api::loadOptions();
  options.device = MOEC_DEVICE_HOST; // MOEC_DEVICE_CUDA in an engine
  options.strict = 1; // a kernel that would have to be compiled is an error
  const api::Package &package = need(api::Package::load(argv[1], options));

  // The package says which weights this rank stores, and their sizes.
  std::list<Memory> memory;
  std::vector<api::Tensor> weights, tensors;
  int64_t topK = 0;
  for (size_t i = 0; i < moec_package_num_values(package.get()); ++i) {
    moec_value value = {};
    value.struct_size = sizeof value;
    if (moec_package_value(package.get(), i, &value) != MOEC_OK)
      fail(moec_last_error());
    const std::string name = value.name;
    const bool isWeight = value.role == MOEC_STORED_WEIGHT;
    const std::vector<int64_t> shape = need(package.valueShape(name, tokens));
    if (name == "given_ids")
      topK = shape[1];
    // This engine never gives logits, so it needs no routing_bias.
    if ((!isWeight && name != "x" && name != "out") || name == "routing_bias")
      continue;
    const uint64_t bytes = need(package.valueBytes(name, tokens));
    memory.emplace_back(bytes / sizeof(Block) + 1);
    if (name != "out") {
      const std::string given = read(folder + name + ".bin");
      if (given.size() != bytes)
        fail(name + ".bin has " + std::to_string(given.size()) +
             " bytes, expected " + std::to_string(bytes));
      std::copy(given.begin(), given.end(),
                reinterpret_cast<char *>(memory.back().data()));
    }
    (isWeight ? weights : tensors)
        .push_back({name, memory.back().data(), shape});
  }

  const std::string scores = read(folder + "scores.bin");
  const int64_t experts =
      static_cast<int64_t>(scores.size() / sizeof(float)) / tokens;
  std::vector<int32_t> ids(static_cast<size_t>(tokens * topK));
  std::vector<float> shares(ids.size());
  for (int64_t token = 0; token < tokens; ++token)
    route(reinterpret_cast<const float *>(scores.data()) + token * experts,
          experts, topK, &ids[size_t(token * topK)],
          &shares[size_t(token * topK)]);
  tensors.push_back({"given_ids", ids.data(), {tokens, topK}});
  tensors.push_back({"given_weights", shares.data(), {tokens, topK}});

  void *stream = nullptr;
  const api::Layer &layer = need(api::Layer::create(package, weights, stream));
  const uint64_t bytes = need(package.workspaceBytes(tokens));
  Memory workspace(bytes / sizeof(Block) + 1);
  api::Context &context =
      need(api::Context::create(package, workspace.data(), bytes));
  if (auto done = context.run(layer, stream, tensors, tokens); !done)
    fail(done.error().message);

  for (const api::Tensor &tensor : tensors)
    if (tensor.name == "out")
      std::ofstream(folder + "out.bin", std::ios::binary)
          .write(static_cast<const char *>(tensor.data),
                 static_cast<std::streamsize>(
                     need(package.valueBytes("out", tokens))));
  return 0;
}
