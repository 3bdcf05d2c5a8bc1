//===- ApiTesting.h - a tiny layer behind the C interface -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Package, weights and inputs of test/runtime/TinyManifest.h on the host
// device, in memory that is aligned as a caller's must be.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_RUNTIME_API_APITESTING_H
#define MOEC_TEST_RUNTIME_API_APITESTING_H

#include "runtime/api/Handles.h"
#include "runtime/host/Element.h"
#include "test/runtime/TinyManifest.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace moec::test {

/// 256-aligned host memory, poisoned.
class Buffer {
public:
  explicit Buffer(uint64_t bytes)
      : size(bytes),
        memory(std::aligned_alloc(256, (bytes + 511) / 256 * 256), std::free) {
    std::memset(memory.get(), 0xFF, (bytes + 511) / 256 * 256);
  }
  void *data() const { return memory.get(); }
  uint64_t bytes() const { return size; }
  template <typename T> T *as() const { return static_cast<T *>(memory.get()); }
  bool operator==(const Buffer &other) const {
    return size == other.size && std::memcmp(data(), other.data(), size) == 0;
  }

private:
  uint64_t size;
  std::unique_ptr<void, void (*)(void *)> memory;
};

/// Extents that stay where they are until the process ends.
inline const int64_t *kept(const std::vector<int64_t> &extents) {
  static std::mutex mutex;
  static std::set<std::vector<int64_t>> all;
  const std::lock_guard lock(mutex);
  return all.insert(extents).first->data();
}

inline moec_tensor tensor(const char *name, void *data,
                          const std::vector<int64_t> &shape,
                          const char *elementType = nullptr) {
  return {name,        data,   elementType, static_cast<int32_t>(shape.size()),
          kept(shape), nullptr};
}

inline moec_tensor withStrides(moec_tensor given,
                               const std::vector<int64_t> &strides) {
  given.strides = kept(strides);
  return given;
}

/// bf16 numbers in [-1, 1), the same for the same seed.
inline Buffer randomBf16(uint64_t count, uint32_t seed) {
  Buffer buffer(count * 2);
  uint32_t state = seed * 2654435761u + 1;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    buffer.as<uint16_t>()[i] = host::toBf16(
        static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f);
  }
  return buffer;
}

inline Buffer randomLogits(uint64_t count, uint32_t seed) {
  Buffer buffer(count * 4);
  uint32_t state = seed;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    buffer.as<float>()[i] = static_cast<float>(state >> 8) / 1e6f;
  }
  return buffer;
}

struct TinyLayer {
  TinyShape shape;
  moec_package *package = nullptr;

  explicit TinyLayer(const PackageFiles &files = tinyPackage()) {
    moec_package_files handle{{files}};
    moec_load_options options = {};
    options.struct_size = sizeof(options);
    options.device = MOEC_DEVICE_HOST;
    status = moec_package_load_files(&handle, &options, &package);
  }
  ~TinyLayer() { moec_package_destroy(package); }
  TinyLayer(const TinyLayer &) = delete;
  TinyLayer &operator=(const TinyLayer &) = delete;

  moec_status status;
};

/// Weights of one layer; packing in place changes w13.
struct Weights {
  Buffer w13, w2;
  std::vector<int64_t> w13Shape, w2Shape;
  Weights(const TinyShape &s, uint32_t seed)
      : w13(randomBf16(
            static_cast<uint64_t>(s.experts * 2 * s.intermediate * s.hidden),
            seed)),
        w2(randomBf16(
            static_cast<uint64_t>(s.experts * s.hidden * s.intermediate),
            seed + 1)),
        w13Shape{s.experts, 2 * s.intermediate, s.hidden},
        w2Shape{s.experts, s.hidden, s.intermediate} {}
  std::vector<moec_tensor> tensors() const {
    return {tensor("w13", w13.data(), w13Shape),
            tensor("w2", w2.data(), w2Shape)};
  }
};

/// Inputs and output of one run.
struct RunData {
  int64_t tokens, hidden, experts;
  Buffer x, logits, out;
  RunData(const TinyShape &s, int64_t tokens, uint32_t seed = 5)
      : tokens(tokens), hidden(s.hidden), experts(s.experts),
        x(randomBf16(static_cast<uint64_t>(tokens * s.hidden), seed)),
        logits(randomLogits(static_cast<uint64_t>(tokens * s.experts), seed)),
        out(static_cast<uint64_t>(tokens * s.hidden * 2)) {}
  std::vector<moec_tensor> tensors() const {
    return {tensor("x", x.data(), {tokens, hidden}),
            tensor("logits", logits.data(), {tokens, experts}),
            tensor("out", out.data(), {tokens, hidden})};
  }
};

/// A context with a workspace of its own.
struct OwnContext {
  Buffer workspace;
  moec_context *handle = nullptr;
  moec_status status;
  OwnContext(const moec_package *package, int64_t tokens)
      : workspace(bytesFor(package, tokens)) {
    status = moec_context_create(package, workspace.data(), workspace.bytes(),
                                 nullptr, &handle);
  }
  ~OwnContext() { moec_context_destroy(handle); }
  OwnContext(const OwnContext &) = delete;
  OwnContext &operator=(const OwnContext &) = delete;

private:
  static uint64_t bytesFor(const moec_package *package, int64_t tokens) {
    uint64_t bytes = 0;
    (void)moec_package_workspace_bytes(package, tokens, &bytes);
    return bytes;
  }
};

/// A context with a workspace of the caller.
struct OwnMemory {
  moec_context *handle = nullptr;
  moec_status status;
  OwnMemory(const moec_package *package, void *workspace, uint64_t bytes)
      : status(
            moec_context_create(package, workspace, bytes, nullptr, &handle)) {}
  ~OwnMemory() { moec_context_destroy(handle); }
  OwnMemory(const OwnMemory &) = delete;
  OwnMemory &operator=(const OwnMemory &) = delete;
};

struct LayerHandle {
  moec_layer *handle = nullptr;
  moec_status status = MOEC_OK;
  LayerHandle(const moec_package *package,
              const std::vector<moec_tensor> &weights,
              const moec_layer_options *options = nullptr) {
    status = moec_layer_create(package, weights.data(), weights.size(), options,
                               nullptr, &handle);
  }
  ~LayerHandle() { moec_layer_destroy(handle); }
  LayerHandle(const LayerHandle &) = delete;
  LayerHandle &operator=(const LayerHandle &) = delete;
};

inline moec_status run(const LayerHandle &layer, const OwnContext &context,
                       const std::vector<moec_tensor> &tensors, int64_t tokens,
                       const moec_run_options *options = nullptr) {
  return moec_run(layer.handle, context.handle, nullptr, tensors.data(),
                  tensors.size(), tokens, options);
}

} // namespace moec::test

#endif // MOEC_TEST_RUNTIME_API_APITESTING_H
