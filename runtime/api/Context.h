//===- Context.h - workspace and state of one stream ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run needs a workspace (the caller's memory, with any content) and a state
// (zeroed once; memory of moec or of the caller). A Context holds workspace and
// state, and preallocates all structures that a run fills in, so that a run
// allocates nothing. It executes one run at a time. A run that starts while
// another run is being queued fails with ContextInUse. If two streams use the
// same context, the caller must order them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_API_CONTEXT_H
#define MOEC_RUNTIME_API_CONTEXT_H

#include "runtime/api/Layer.h"

#include <atomic>
#include <cstdlib>
#include <memory>

namespace moec::runtime {

struct RunOptions {
  bool overlapPrevious = false;
  std::string_view variant; ///< "": chosen by the token count
};

/// Memory for the state, on the package's device. If `data` is null, the
/// context allocates the memory.
struct StateMemory {
  void *data = nullptr;
  uint64_t bytes = 0;
};

class Context {
public:
  /// Creates a context. Workspace and state must be aligned to
  /// Package::kMemoryAlignment. If the package has collectives, all ranks must
  /// create their contexts together.
  static Result<std::unique_ptr<Context>>
  create(std::shared_ptr<const Package> package, void *workspace,
         uint64_t workspaceBytes, const StateMemory &state = {},
         std::shared_ptr<comm::Communicator> communicator = nullptr);

  Result<void> setWorkspace(void *workspace, uint64_t bytes);

  /// Queues one run of a layer of this context's package. Errors:
  /// TooManyTokens, WorkspaceTooSmall, Misaligned, ContextInUse,
  /// InvalidArgument, DriverFailed.
  Result<void> run(const Layer &layer, void *stream,
                   std::span<const Tensor> tensors, int64_t tokens,
                   const RunOptions &options);

private:
  Context() = default;
  /// Uses the memory of `given`, or allocates memory if `given` is empty, and
  /// zeroes it.
  Result<void> makeState(const StateMemory &given);
  Result<void> runUnshared(const Layer &layer, void *stream,
                           std::span<const Tensor> tensors, int64_t tokens,
                           const RunOptions &options);
  Result<void> bindTensors(std::span<const Tensor> tensors,
                           const Symbols &symbols);
  /// Checks that the run provides ids if the layer was created without routing
  /// bias.
  Result<void> checkRouting(const Layer &layer) const;
  /// Checks that no output overlaps another tensor of the run. `out` may be
  /// equal to some inputs.
  Result<void> checkOverlaps(const Symbols &symbols) const;
  Result<void> checkMemory(const Layer &layer, const Variant &variant,
                           const Symbols &symbols) const;
  Result<void> bindWorkspace(const Variant &variant, const Symbols &symbols);
  Result<void> launchAll(const Layer &layer, size_t variant,
                         const Symbols &symbols, cuda::CUstream stream,
                         bool overlapPrevious);
  Result<void> writeTensorMap(const Layer &layer, size_t index,
                              const Symbols &symbols, std::byte *to);
  /// Runs on an emulated GPU and waits for the end of the run. The caller's
  /// tensors are accessible to the emulated GPU only during the run.
  Result<void> runEmulated(const Layer &layer, size_t variant,
                           const Symbols &symbols, bool overlapPrevious);
  Result<void> runHost(const Layer &layer, std::span<const Tensor> tensors,
                       int64_t tokens, const Symbols &symbols,
                       const Variant &variant);

  /// Queues a collective operation between the ranks.
  Result<void> communicate(const Collective &collective, const Symbols &symbols,
                           void *stream);
  /// Fills required floating-point outputs with NaN after communication with
  /// other ranks has failed.
  void spoilOutputs(const Symbols &symbols, cuda::CUstream stream);

  std::shared_ptr<const Package> code;
  std::shared_ptr<comm::Communicator> communicator; ///< may be null
  std::vector<comm::Part> parts; ///< tensor parts of the current collective
  /// May be null. Destroyed before `communicator`.
  std::unique_ptr<comm::Window> window;
  std::atomic<bool> busy = false;
  void *workspace = nullptr;
  uint64_t workspaceBytes = 0;
  /// The caller's memory, or the memory of ownState or ownHostState.
  void *state = nullptr;
  DeviceMemory ownState;
  AdmittedMemory reachedWorkspace, reachedState;
  std::unique_ptr<void, void (*)(void *)> ownHostState{nullptr, std::free};
  std::vector<BoundValue> values;
  /// The encoded tensor map of one tensor of a run. It is reused by later runs
  /// while the address and the token count stay the same.
  struct CachedMap {
    uint64_t address = 0;
    int64_t tokens = -1;
    cuda::CUtensorMap map = {};
  };
  std::vector<CachedMap> maps;
  /// The argument block. CUtensorMap is only used as an element of 128 bytes
  /// with an alignment of 128 bytes.
  std::vector<cuda::CUtensorMap> block;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_CONTEXT_H
