//===- HostDevice.h - package execution without a GPU -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes the launch list of a manifest in plain C++. Runs each kernel's
// `stages` in order, and reads their operands from the packed argument block at
// the manifest's offsets. Every address is checked against the memory that the
// launch may access. A wrong offset, extent or region in the manifest is
// therefore an error or a wrong result, never a crash. Results are
// deterministic. Accumulators are f32.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_HOSTDEVICE_H
#define MOEC_RUNTIME_HOST_HOSTDEVICE_H

#include "runtime/comm/Communicator.h"
#include "runtime/package/Arguments.h"
#include "runtime/package/Manifest.h"

#include <map>
#include <memory>
#include <span>
#include <string>

namespace moec::host {

/// A tensor that the caller passes.
struct Tensor {
  void *data = nullptr;    ///< null: absent, for optional values only
  std::string elementType; ///< empty: the value's default element type
  int64_t rowStride = 0;   ///< in elements; 0: the manifest's stride
};

/// Tensors by value name.
using Tensors = std::map<std::string, Tensor, std::less<>>;

struct Options {
  int64_t smCount = 132; ///< the value of the symbol `sm_count`
  int64_t threads = 0;   ///< 0: MOEC_JOBS if set, else usableThreads()
};

/// Executes one target of a manifest.
class HostDevice {
public:
  /// Creates a device that refers to `manifest` and `target`, which must
  /// outlive it. Call validate() on them first.
  static Result<HostDevice> create(const Manifest &manifest,
                                   const Target &target, Options options = {});
  ~HostDevice();
  HostDevice(HostDevice &&) noexcept;
  HostDevice &operator=(HostDevice &&) noexcept;

  /// Returns the bytes of workspace that run() needs for `tokens` tokens; 0 for
  /// 0 tokens.
  Result<int64_t> workspaceBytes(int64_t tokens,
                                 const Variant *variant = nullptr) const;
  /// Returns the bytes of scratch memory that pack() needs for one step.
  Result<int64_t> scratchBytes(const Pack &pack) const;

  /// Packs experts [begin, end), at most pack.expertsPerStep at a time.
  /// `weights` holds pack.result and pack.from. For in-place packing,
  /// pack.result and pack.from[0] are the same memory. `scratch` must be
  /// aligned to 256 bytes.
  Result<void> pack(const Pack &pack, const Tensors &weights,
                    std::span<std::byte> scratch, int64_t begin, int64_t end);

  /// Returns the first stage of `pack` that cannot be inverted, or null.
  static const Stage *withoutOpposite(const Target &target, const Pack &pack);

  /// Inverts pack() for `experts` experts, at most pack.expertsPerStep:
  /// computes pack.from[0] from pack.result. `memory` holds the memory of these
  /// experts for pack.result and for all of pack.from. For in-place packing,
  /// pack.result and pack.from[0] are the same memory. Returns InvalidArgument
  /// if no stored weight packs to the given packed memory.
  Result<void> unpack(const Pack &pack,
                      const std::map<std::string, std::span<std::byte>> &memory,
                      std::span<std::byte> scratch, int64_t experts);

  /// Runs the layer. `tensors` holds the inputs, the outputs, and the stored
  /// and packed weights that kernels read. If `variant` is null, the token
  /// count selects the variant; otherwise the variant's token range must
  /// contain the token count. `workspace` and `state` must be aligned to 256
  /// bytes, and the caller zeroes `state` once. If `tokens` is 0, nothing is
  /// done.
  /// `tokens` is the token count of this rank. If the package gathers tokens,
  /// all ranks must pass the same count; the input `valid_tokens` holds the
  /// number of valid tokens. A package with collectives needs `communicator`. A
  /// package with a window also needs `window`, of the target's windowBytes
  /// bytes; all runs of a rank use the same window.
  Result<void> run(int64_t tokens, const Tensors &tensors,
                   std::span<std::byte> workspace, std::span<std::byte> state,
                   const Variant *variant = nullptr,
                   comm::Communicator *communicator = nullptr,
                   const comm::Window *window = nullptr);

private:
  struct Impl;
  explicit HostDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_HOSTDEVICE_H
