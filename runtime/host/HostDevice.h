//===- HostDevice.h - a device without a GPU -------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes the launch list of a manifest with plain C++: every kernel's
// `stages`, in order, each reading its operands from the packed argument bytes
// through the manifest's offsets. Every address is looked up among the memory
// that the launch may touch, so a wrong offset, extent or region is an error or
// a wrong result, never a crash. Deterministic; accumulates in f32.
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

/// A tensor of the caller.
struct Tensor {
  void *data = nullptr;    ///< null = absent (optional values only)
  std::string elementType; ///< "" = the value's default
  int64_t rowStride = 0;   ///< in elements; 0 = as the manifest says
};

/// By value name.
using Tensors = std::map<std::string, Tensor, std::less<>>;

struct Options {
  int64_t smCount = 132; ///< what `sm_count` is
  int64_t threads = 0;   ///< 0 = MOEC_JOBS, else usableThreads()
};

class HostDevice {
public:
  /// Keeps references to both, which must outlive it; validate() them first.
  static Result<HostDevice> create(const Manifest &manifest,
                                   const Target &target, Options options = {});
  ~HostDevice();
  HostDevice(HostDevice &&) noexcept;
  HostDevice &operator=(HostDevice &&) noexcept;

  /// Bytes of workspace that run() needs for this many tokens (0 for 0).
  Result<int64_t> workspaceBytes(int64_t tokens,
                                 const Variant *variant = nullptr) const;
  /// Bytes of scratch that pack() needs for one step.
  Result<int64_t> scratchBytes(const Pack &pack) const;

  /// Runs one pack over experts [begin, end), in steps of at most
  /// pack.expertsPerStep. `weights` holds pack.result and pack.from; in place,
  /// result and from[0] are the same memory. Alignment of scratch: 256 bytes.
  Result<void> pack(const Pack &pack, const Tensors &weights,
                    std::span<std::byte> scratch, int64_t begin, int64_t end);

  /// A stage of the pack that loses what it reads; null where none does.
  static const Stage *withoutOpposite(const Target &target, const Pack &pack);

  /// The opposite of pack(), of at most pack.expertsPerStep experts: fills
  /// pack.from[0] with what pack.result was made of. `memory` holds these two
  /// and the rest of pack.from, of these experts alone. In place, both are the
  /// same memory. InvalidManifest where packing cannot have made what is there.
  Result<void> unpack(const Pack &pack,
                      const std::map<std::string, std::span<std::byte>> &memory,
                      std::span<std::byte> scratch, int64_t experts);

  /// Runs the layer. `tensors` holds inputs, outputs, stored and packed weights
  /// (those that kernels read). The variant is chosen by tokens unless one is
  /// forced, whose range must hold them. Workspace and state must be aligned to
  /// 256 bytes; state is zeroed once by the caller. tokens = 0 does nothing.
  /// Tokens are those that this rank brings; where a package gathers them, all
  /// ranks bring as many (`valid_tokens` says how many are real). A package
  /// with collectives needs a communicator, one with a window also the
  /// communicator's window of windowBytes, which all runs of a rank share.
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
