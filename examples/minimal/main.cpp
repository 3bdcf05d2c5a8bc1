//===- main.cpp - the least program that runs a layer ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the layer of README.md on the host device with weights that are all
// equal. On a GPU the arrays are in its memory, and the stream is a CUstream.
//
//   moec compile layer.json --arch=sm_90a --no-cubin -o small
//   example-minimal small
//
//===----------------------------------------------------------------------===//

#include <moec/moec.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace api = moec::api;

/// Workspaces have this alignment.
struct alignas(256) Block {
  std::byte bytes[256];
};

/// Numbers of bf16: 1/32.
static std::vector<uint16_t> filled(size_t count) {
  return std::vector<uint16_t>(count, 0x3d00);
}

static int fail(const api::Failure &failure) {
  std::fprintf(stderr, "%s\n", failure.message.c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PACKAGE\n", argv[0]);
    return 2;
  }
  constexpr int64_t kTokens = 7;
  auto w13 = filled(16 * 192 * 256), w2 = filled(16 * 256 * 96);
  auto x = filled(kTokens * 256), logits = filled(kTokens * 16);
  std::vector<uint16_t> out(kTokens * 256);
  moec_load_options options = api::loadOptions();
  options.device = MOEC_DEVICE_HOST;
  void *stream = nullptr;

  auto package = api::Package::load(argv[1], options);
  if (!package)
    return fail(package.error());
  auto layer = api::Layer::create(
      *package,
      {{"w13", w13.data(), {16, 192, 256}}, {"w2", w2.data(), {16, 256, 96}}},
      stream);
  auto bytes = package->workspaceBytes(kTokens);
  if (!layer || !bytes)
    return fail(layer ? bytes.error() : layer.error());
  std::vector<Block> workspace(*bytes / sizeof(Block) + 1);
  auto context = api::Context::create(*package, workspace.data(), *bytes);
  if (!context)
    return fail(context.error());
  auto done = context->run(*layer, stream,
                           {{"x", x.data(), {kTokens, 256}},
                            {"logits", logits.data(), {kTokens, 16}},
                            {"out", out.data(), {kTokens, 256}}},
                           kTokens);
  if (!done)
    return fail(done.error());
  std::printf("out[0][0] = 0x%04x in bf16\n", out[0]);
  return 0;
}
