//===- TinyLayer.h - the tiny layer on the host device ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layer of TinyManifest.h with random data: a run on the host device, and
// the same by plain loops.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_HOST_TINYLAYER_H
#define MOEC_TEST_RUNTIME_HOST_TINYLAYER_H

#include "runtime/host/Element.h"
#include "runtime/host/HostDevice.h"
#include "test/runtime/TinyManifest.h"

#include <cmath>
#include <cstdlib>
#include <random>

namespace moec::test {

using namespace moec::host;

/// 256-byte aligned bytes, filled with 0xff.
struct Buffer {
  explicit Buffer(int64_t bytes) : memory(bytes + 256, std::byte{0xff}) {
    size_t skip = 256 - reinterpret_cast<uintptr_t>(memory.data()) % 256;
    span = {memory.data() + skip, static_cast<size_t>(bytes)};
  }
  std::vector<std::byte> memory;
  std::span<std::byte> span;
  template <typename T> T *as() { return reinterpret_cast<T *>(span.data()); }
};

/// A layer of random data for so many tokens, and its result.
struct Case {
  TinyShape shape;
  Manifest manifest;
  int64_t tokens;
  Buffer x, logits, w13, w2, out, ids, weights, counts, workspace;
  int64_t threads = 2;

  explicit Case(int64_t tokens, unsigned seed = 1)
      : manifest(tinyManifest()), tokens(tokens), x(tokens * shape.hidden * 2),
        logits(tokens * shape.experts * 4),
        w13(shape.experts * 2 * shape.intermediate * shape.hidden * 2),
        w2(shape.experts * shape.intermediate * shape.hidden * 2),
        out(tokens * shape.hidden * 2), ids(tokens * shape.topK * 4),
        weights(tokens * shape.topK * 4), counts(shape.experts * 4),
        workspace(1 << 16) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (Buffer *buffer : {&x, &w13, &w2})
      for (size_t i = 0; i < buffer->span.size() / 2; ++i)
        buffer->as<uint16_t>()[i] = toBf16(normal(random));
    for (int64_t i = 0; i < tokens * shape.experts; ++i)
      logits.as<float>()[i] = normal(random);
  }

  Tensors tensors() {
    auto tensor = [](Buffer &buffer) {
      return Tensor{buffer.span.data(), "", 0};
    };
    return {{"x", tensor(x)},          {"logits", tensor(logits)},
            {"w2", tensor(w2)},        {"out", tensor(out)},
            {"ids", tensor(ids)},      {"weights", tensor(weights)},
            {"counts", tensor(counts)}};
  }

  /// Packs a copy of w13 in place and runs.
  Result<void> run(std::function<void(Tensors &)> change = {}) {
    if (Result<void> valid = validate(manifest); !valid && !skipValidation)
      return valid;
    const Target &target = manifest.targets[0];
    Options options;
    options.threads = threads;
    if (smCount)
      options.smCount = *smCount;
    Result<HostDevice> device = HostDevice::create(manifest, target, options);
    if (!device)
      return device.takeError();
    Buffer packed(w13.span.size());
    std::copy(w13.span.begin(), w13.span.end(), packed.span.begin());
    Tensors all = tensors();
    all["w13_packed"] = {packed.span.data(), "", 0};
    Tensors forPack = {{"w13", all["w13_packed"]},
                       {"w13_packed", all["w13_packed"]}};
    Buffer scratch(*device->scratchBytes(target.pack[0]));
    if (Result<void> done = device->pack(target.pack[0], forPack, scratch.span,
                                         0, shape.experts);
        !done)
      return done;
    if (change)
      change(all);
    return device->run(tokens / manifest.tokenRanks, all, workspace.span, {},
                       nullptr, communicator, window);
  }
  bool skipValidation = false;
  comm::Communicator *communicator = nullptr;
  const comm::Window *window = nullptr;
  std::optional<int64_t> smCount;

  /// out by plain loops in double; rounds where numerics demand it.
  std::vector<double> expected(int64_t validTokens = -1) {
    std::vector<double> result(tokens * shape.hidden, 0.0);
    auto bf16 = [](Buffer &buffer, int64_t i) {
      return static_cast<double>(fromBf16(buffer.as<uint16_t>()[i]));
    };
    const int64_t H = shape.hidden, I = shape.intermediate, E = shape.experts;
    for (int64_t m = 0; m < tokens; ++m) {
      if (validTokens >= 0 && m >= validTokens)
        continue;
      std::vector<std::pair<double, int64_t>> order;
      for (int64_t e = 0; e < E; ++e)
        order.push_back({-logits.as<float>()[m * E + e], e});
      std::sort(order.begin(), order.end());
      double sum = 0;
      for (int64_t k = 0; k < shape.topK; ++k)
        sum += std::exp(-order[k].first);
      for (int64_t k = 0; k < shape.topK; ++k) {
        int64_t e = order[k].second;
        double weight = std::exp(-order[k].first) / sum;
        std::vector<double> t(I);
        for (int64_t i = 0; i < I; ++i) {
          double gate = 0, up = 0;
          for (int64_t h = 0; h < H; ++h) {
            gate += bf16(x, m * H + h) * bf16(w13, (e * 2 * I + i) * H + h);
            up += bf16(x, m * H + h) * bf16(w13, (e * 2 * I + I + i) * H + h);
          }
          t[i] = fromBf16(
              toBf16(static_cast<float>(gate / (1 + std::exp(-gate)) * up)));
        }
        for (int64_t h = 0; h < H; ++h) {
          double y = 0;
          for (int64_t i = 0; i < I; ++i)
            y += t[i] * bf16(w2, (e * H + h) * I + i);
          result[m * H + h] += weight * y;
        }
      }
    }
    return result;
  }

  double error(int64_t validTokens = -1) {
    std::vector<double> want = expected(validTokens);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      double got = fromBf16(out.as<uint16_t>()[i]);
      difference += (got - want[i]) * (got - want[i]);
      norm += want[i] * want[i];
    }
    double result = std::sqrt(difference / std::max(norm, 1e-30));
    return std::isnan(result) ? INFINITY : result;
  }

  std::vector<std::byte> bytes(Buffer &buffer) {
    return {buffer.span.begin(), buffer.span.end()};
  }
};

inline std::string messageOf(const Result<void> &result) {
  return result ? "" : result.error().message;
}

/// The region of a value in a variant of the first target.
inline Region &region(Manifest &manifest, const char *name,
                      size_t variant = 1) {
  for (Region &region : manifest.targets[0].variants[variant].regions)
    if (region.value == name)
      return region;
  std::abort();
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_HOST_TINYLAYER_H
