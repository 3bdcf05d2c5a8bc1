//===- FuzzManifest.cpp - manifests: read, validated, written, run --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest that validate() accepts runs on the host device in memory of
// exactly the bytes that it says, so that the sanitizer sees any other one.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/HostDevice.h"
#include "runtime/package/Package.h"
#include "runtime/package/Ranks.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>
#include <vector>

using namespace moec;
using namespace moec::host;

namespace {

/// Larger layers are read and validated alone.
constexpr int64_t kMostBytes = 1 << 18;

/// Memory of exactly as many bytes, filled by the input.
class Memory {
public:
  Memory(int64_t bytes, uint64_t seed) : bytes(static_cast<size_t>(bytes)) {
    constexpr size_t kAlignment = 256;
    fuzz::require(::posix_memalign(&data, kAlignment,
                                   std::max<size_t>(this->bytes, 1)) == 0,
                  "memory is there");
    auto *to = static_cast<uint8_t *>(data);
    for (size_t i = 0; i < this->bytes; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      // Small integers and floats of moderate size, and some of any.
      to[i] = seed >> 60 ? uint8_t((seed >> 33) & 3) : uint8_t(seed >> 40);
    }
  }
  ~Memory() { std::free(data); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  std::span<std::byte> span() const {
    return {static_cast<std::byte *>(data), bytes};
  }
  void *data = nullptr;
  size_t bytes;
};

class Run {
public:
  Run(const Manifest &manifest, const Target &target, uint64_t hash)
      : manifest(manifest), target(target), hash(hash) {}

  void run() {
    const int64_t tokens =
        std::min<int64_t>(manifest.maxTokens, 1 + draw() % 5);
    auto symbols = symbolsFor(manifest, tokens, kSms);
    Options options;
    options.smCount = kSms, options.threads = 1;
    auto device = HostDevice::create(manifest, target, options);
    if (!device || !symbols)
      return;
    for (size_t i = 0; i < valueCount(manifest, target); ++i)
      if (!addValue(valueAt(manifest, target, i), *symbols))
        return;
    if (!packAll(*device))
      return;
    auto workspace = device->workspaceBytes(tokens);
    if (!workspace || !fits(*workspace) || !fits(target.stateBytes))
      return;
    Memory scratch(*workspace, draw()), state(target.stateBytes, 0);
    Result<void> done =
        device->run(tokens, tensors, scratch.span(), state.span());
    if (!done)
      fuzz::requireRefusal(done.error());
  }

private:
  static constexpr int64_t kSms = 4;

  uint64_t draw() {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    return hash >> 33;
  }
  bool fits(int64_t bytes) {
    return bytes >= 0 && (total += bytes) <= kMostBytes;
  }
  bool addValue(const Value &value, const Symbols &symbols) {
    using enum ValueRole;
    const bool optional =
        value.role == OptionalInput || value.role == OptionalOutput;
    if (value.role == Workspace || value.role == State ||
        (optional && draw() % 2))
      return true;
    const std::string &type =
        value.elementTypes[draw() % value.elementTypes.size()];
    auto bytes = valueBytes(value, symbols, type);
    if (!bytes || !fits(*bytes))
      return false;
    memory.push_back(std::make_unique<Memory>(*bytes, draw()));
    tensors[value.name] = {memory.back()->data, type, 0};
    return true;
  }
  bool packAll(HostDevice &device) {
    for (const Pack &pack : target.pack) {
      Tensors weights;
      for (const std::string &name : pack.from)
        weights[name] = tensors[name];
      weights[pack.result] = tensors[pack.result];
      if (pack.inPlace)
        weights[pack.result].data = weights[pack.from[0]].data;
      auto bytes = device.scratchBytes(pack);
      if (!bytes || !fits(*bytes) || pack.totalExperts > 64)
        return false;
      Memory scratch(*bytes, draw());
      Result<void> done =
          device.pack(pack, weights, scratch.span(), 0, pack.totalExperts);
      if (!done) {
        fuzz::requireRefusal(done.error());
        return false;
      }
      tensors[pack.result] = weights[pack.result];
    }
    return true;
  }

  const Manifest &manifest;
  const Target &target;
  uint64_t hash;
  int64_t total = 0;
  Tensors tensors;
  std::vector<std::unique_ptr<Memory>> memory;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text = fuzz::textOf(data, size);
  Result<ManifestFile> file = manifestFileFromJson(text);
  if (!file) {
    fuzz::requireRefusal(file.error());
    return 0;
  }
  if (const auto *index = std::get_if<ShareIndex>(&*file)) {
    Result<ManifestFile> same = manifestFileFromJson(toJson(*index));
    fuzz::require(same && std::holds_alternative<ShareIndex>(*same),
                  "an index that is written is read again");
    return 0;
  }
  const auto *manifest = std::get_if<Manifest>(&*file);
  const std::string written = toJson(*manifest);
  Result<Manifest> again = fromJson(written);
  fuzz::require(again && toJson(*again) == written,
                "what is written is read again");
  Result<void> valid = validate(*manifest);
  if (!valid) {
    fuzz::requireRefusal(valid.error());
    return 0;
  }
  const uint64_t hash = fuzz::hashOf(text);
  // One rank runs: whatever the table says, kernels stay in their memory.
  const std::vector<int64_t> ranks = ranksOf(*manifest);
  Result<Manifest> one = ofRank(*manifest, ranks[hash % ranks.size()]);
  fuzz::require(bool(one), "a rank of the table is one of the package");
  for (const Target &target : one->targets)
    Run(*one, target, hash).run();
  return 0;
}
