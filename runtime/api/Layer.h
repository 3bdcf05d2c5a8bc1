//===- Layer.h - packed weights of one layer --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Layer binds and packs weights and encodes their tensor maps. It owns little
// memory: the caller owns the memory of the weights, and the Package owns the
// code. Runs do not change a Layer. Only repack() and unpack() change it, and
// the caller must order these calls against runs.
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

/// Returns true if a kernel of a variant reads the value called `name`. Kernels
/// that only pack weights are not considered.
bool readByVariants(const Target &target, const std::string &name);

struct LayerOptions {
  void *scratch = nullptr; ///< null: memory is allocated, used and freed
  uint64_t scratchBytes = 0;
  bool alreadyPacked = false;
};

struct UnpackOptions {
  bool toHost = false; ///< destinations are host memory
};

/// Name of the weight that the router adds to its scores before it selects the
/// top-k experts.
inline constexpr std::string_view kRoutingBias = "routing_bias";

class Layer {
public:
  /// Packs the weights on `stream`, a few experts at a time. Errors:
  /// InvalidArgument (unknown, missing or duplicate names), Misaligned,
  /// WorkspaceTooSmall (the scratch memory), Capturing.
  static Result<std::unique_ptr<Layer>>
  create(std::shared_ptr<const Package> package,
         std::span<const Tensor> weights, const LayerOptions &options,
         void *stream);

  /// Packs experts [first, first + count) again.
  Result<void> repack(std::span<const Tensor> weights, int64_t first,
                      int64_t count, void *scratch, uint64_t scratchBytes,
                      void *stream);

  /// Restores stored weights, bit for bit, and waits until they are written.
  /// Weights that packing quantizes are Refused. The destination may be the
  /// memory of a weight that was packed in place. All such weights must then be
  /// unpacked by the same call, and the layer cannot run until repack() has
  /// packed all experts.
  Result<void> unpack(std::span<const Tensor> weights,
                      const UnpackOptions &options, void *stream);
  /// Returns true if weights were unpacked in place and have not been packed
  /// again.
  bool isUnpacked() const { return unpacked; }

  /// Returns true if the layer was created without the routing bias. Each run
  /// must then provide ids and weights.
  bool lacksRoutingBias() const { return lacksBias; }

  const Package &package() const { return *code; }
  /// Returns the bound values, indexed by valueIndex. Only weights have
  /// addresses.
  const std::vector<BoundValue> &values() const { return bound; }
  /// The memory range of a weight that runs read.
  struct Span {
    size_t value; ///< valueIndex of the weight
    uint64_t begin, end;
  };
  const std::vector<Span> &readWeights() const { return spans; }
  /// A tensor map, indexed like Target::tensorMaps. Only the tensor maps of
  /// weights are encoded here.
  struct EncodedMap {
    bool encoded = false;
    cuda::CUtensorMap map = {};
  };
  const std::vector<EncodedMap> &tensorMaps() const { return maps; }

  /// Runs on the host device, one run at a time.
  Result<void> runOnHost(int64_t tokens, const host::Tensors &tensors,
                         std::span<std::byte> workspace,
                         std::span<std::byte> state, const Variant &variant,
                         comm::Communicator *communicator,
                         const comm::Window *window) const;
  /// Returns the bound weights by name, as the host device needs them.
  const host::Tensors &hostWeights() const { return hostTensors; }

private:
  /// Checks that packing some experts again in place does not read stored
  /// weights from memory that holds packed experts of another size.
  Result<void> checkPartInPlace(const std::vector<BoundValue> &sources,
                                bool isWhole) const;
  Result<void> checkPartIsOfExperts(std::span<const Tensor> weights,
                                    int64_t experts) const;
  Layer() = default;
  Result<void> bindWeights(std::span<const Tensor> weights, bool alreadyPacked);
  /// Binds a weight to zeroed memory that the layer owns.
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

  struct Unpacking; ///< unpacking plan for one weight, defined in Unpack.cpp
  Result<std::vector<Unpacking>> planUnpacking(std::span<const Tensor> weights,
                                               bool toHost) const;
  Result<Unpacking> planOne(const Tensor &weight, size_t value,
                            const Symbols &symbols, bool toHost) const;
  Result<void> checkOverlaps(const std::vector<Unpacking> &list) const;
  Result<void> unpackOne(const Unpacking &one, bool toHost);
  Result<void> copyOne(const Unpacking &one, bool toHost) const;

  std::shared_ptr<const Package> code;
  /// The caller's weights, made accessible to an emulated GPU.
  AdmittedMemory reached;
  std::vector<BoundValue> bound;
  bool lacksBias = false;
  struct alignas(256) ZeroBlock {
    std::byte bytes[256] = {};
  };
  DeviceMemory zeros; ///< memory of a missing weight that no run reads
  std::vector<ZeroBlock> hostZeros; ///< like `zeros`, for the host device
  std::vector<Span> spans;
  std::vector<EncodedMap> maps;
  /// HostDevice::run() is not const, so hostMutex serializes runs.
  std::unique_ptr<host::HostDevice> hostDevice;
  host::Tensors hostTensors;
  mutable std::mutex hostMutex;
  std::atomic<bool> unpacked = false;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_LAYER_H
