//===- Layer.h - packed weights of one layer --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights bound and packed, tensor maps of weights encoded.
// Cheap: the memory is the caller's, the code the Package's. Const while it
// runs; repack() is the one change, and the caller orders it against runs.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_LAYER_H
#define MOEC_RUNTIME_API_LAYER_H

#include "runtime/api/Package.h"
#include "runtime/api/Tensor.h"

#include <atomic>
#include <mutex>
#include <span>
#include <string_view>

namespace moec::runtime {

inline bool isWeight(const Value &value) {
  return value.role == ValueRole::StoredWeight ||
         value.role == ValueRole::PackedWeight;
}

/// Whether a kernel of a variant (not of a pack) reads this value.
bool readByVariants(const Target &target, const std::string &name);

struct LayerOptions {
  void *scratch = nullptr; ///< null: allocated, waited for, freed
  uint64_t scratchBytes = 0;
  bool alreadyPacked = false;
};

struct UnpackOptions {
  bool toHost = false; ///< destinations are host memory
};

/// The name of the weight that a router adds to its scores.
inline constexpr std::string_view kRoutingBias = "routing_bias";

class Layer {
public:
  /// Packs on `stream`, expert by expert. Errors: InvalidArgument (unknown,
  /// missing or doubled names), Misaligned, WorkspaceTooSmall (the scratch),
  /// Capturing.
  static Result<std::unique_ptr<Layer>>
  create(std::shared_ptr<const Package> package,
         std::span<const Tensor> weights, const LayerOptions &options,
         void *stream);

  /// Packs experts [first, first + count) again.
  Result<void> repack(std::span<const Tensor> weights, int64_t first,
                      int64_t count, void *scratch, uint64_t scratchBytes,
                      void *stream);

  /// Writes the stored form of weights again, bit for bit, and waits for it.
  /// Refused for what packing quantizes. Memory of a weight that was packed in
  /// place may be its destination; then all such weights are unpacked in this
  /// call, and the layer runs no more until repack() has packed all experts.
  Result<void> unpack(std::span<const Tensor> weights,
                      const UnpackOptions &options, void *stream);
  /// Whether weights were unpacked in place.
  bool isUnpacked() const { return unpacked; }

  /// Returns true if the layer was created without the bias that its router
  /// adds: runs then give ids and weights.
  bool lacksRoutingBias() const { return lacksBias; }

  const Package &package() const { return *code; }
  /// By valueIndex; weights have addresses.
  const std::vector<BoundValue> &values() const { return bound; }
  /// Memory of a weight that runs read.
  struct Span {
    size_t value; ///< by valueIndex
    uint64_t begin, end;
  };
  const std::vector<Span> &readWeights() const { return spans; }
  /// By index into Target::tensorMaps; those of weights are encoded.
  struct EncodedMap {
    bool encoded = false;
    cuda::CUtensorMap map = {};
  };
  const std::vector<EncodedMap> &tensorMaps() const { return maps; }

  /// The host device's run; one at a time.
  Result<void> runOnHost(int64_t tokens, const host::Tensors &tensors,
                         std::span<std::byte> workspace,
                         std::span<std::byte> state, const Variant &variant,
                         comm::Communicator *communicator,
                         const comm::Window *window) const;
  /// Weights as the host device takes them.
  const host::Tensors &hostWeights() const { return hostTensors; }

private:
  /// An error where packing some experts again would read them out of memory
  /// that holds packed experts of another size.
  Result<void> checkPartInPlace(const std::vector<BoundValue> &sources,
                                bool isWhole) const;
  Result<void> checkPartIsOfExperts(std::span<const Tensor> weights,
                                    int64_t experts) const;
  Layer() = default;
  Result<void> bindWeights(std::span<const Tensor> weights, bool alreadyPacked);
  /// Gives a weight memory of the layer's own.
  Result<void> bindZeros(size_t index);
  Result<void> encodeMaps();
  Result<void> checkScratch(void *scratch, uint64_t bytes) const;
  Result<void> packExperts(const std::vector<BoundValue> &values, int64_t first,
                           int64_t count, void *scratch, uint64_t scratchBytes,
                           void *stream);
  Result<void> packOnCuda(const std::vector<BoundValue> &values, size_t pack,
                          int64_t first, int64_t last, uint64_t scratch,
                          cuda::CUstream stream);
  Result<void> packOnHost(const std::vector<BoundValue> &values, size_t pack,
                          int64_t first, int64_t last,
                          std::span<std::byte> scratch);

  struct Unpacking; ///< of one weight, in Unpack.cpp
  Result<std::vector<Unpacking>> planUnpacking(std::span<const Tensor> weights,
                                               bool toHost) const;
  Result<Unpacking> planOne(const Tensor &weight, size_t value,
                            const Symbols &symbols, bool toHost) const;
  Result<void> checkOverlaps(const std::vector<Unpacking> &list) const;
  Result<void> unpackOne(const Unpacking &one, bool toHost);
  Result<void> copyOne(const Unpacking &one, bool toHost) const;

  std::shared_ptr<const Package> code;
  AdmittedMemory reached; ///< the caller's weights, for an emulated GPU
  std::vector<BoundValue> bound;
  bool lacksBias = false;
  struct alignas(256) ZeroBlock {
    std::byte bytes[256] = {};
  };
  DeviceMemory zeros; ///< stands for a missing weight that no run reads
  std::vector<ZeroBlock> hostZeros; ///< the same on the host device
  std::vector<Span> spans;
  std::vector<EncodedMap> maps;
  /// Its run() is not const; hostMutex orders the runs.
  std::unique_ptr<host::HostDevice> hostDevice;
  host::Tensors hostTensors;
  mutable std::mutex hostMutex;
  std::atomic<bool> unpacked = false;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_LAYER_H
