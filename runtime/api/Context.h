//===- Context.h - workspace and state of one stream in flight --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run needs a workspace (the caller's memory, any content) and a state
// (zeroed once; moec's memory, or the caller's). A Context holds both, and
// everything that a run fills in, so that running allocates nothing. One run at
// a time: a second one that begins while the first is being queued is
// ContextInUse; two streams that use one context in turn must be ordered by the
// caller.
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
  std::string_view variant; ///< "" chooses by tokens
};

/// Memory of the package's device; none: the context allocates it.
struct StateMemory {
  void *data = nullptr;
  uint64_t bytes = 0;
};

class Context {
public:
  /// The alignment of workspace and state is Package::kMemoryAlignment. Of a
  /// package with collectives all ranks create theirs together.
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
  /// Takes `given` or allocates, and zeroes.
  Result<void> makeState(const StateMemory &given);
  Result<void> runUnshared(const Layer &layer, void *stream,
                           std::span<const Tensor> tensors, int64_t tokens,
                           const RunOptions &options);
  Result<void> bindTensors(std::span<const Tensor> tensors,
                           const Symbols &symbols);
  /// A layer without its routing bias runs with given ids only.
  Result<void> checkRouting(const Layer &layer) const;
  /// Fails where a run would write memory that it reads, but for `out`.
  Result<void> checkOverlaps(const Symbols &symbols) const;
  Result<void> checkMemory(const Layer &layer, const Variant &variant,
                           const Symbols &symbols) const;
  Result<void> bindWorkspace(const Variant &variant, const Symbols &symbols);
  Result<void> launchAll(const Layer &layer, size_t variant,
                         const Symbols &symbols, cuda::CUstream stream,
                         bool overlapPrevious);
  Result<void> writeTensorMap(const Layer &layer, size_t index,
                              const Symbols &symbols, std::byte *to);
  /// Runs on an emulated GPU, which reaches the tensors meanwhile, and waits.
  Result<void> runEmulated(const Layer &layer, size_t variant,
                           const Symbols &symbols, bool overlapPrevious);
  Result<void> runHost(const Layer &layer, std::span<const Tensor> tensors,
                       int64_t tokens, const Symbols &symbols,
                       const Variant &variant);

  /// Queues what ranks do together.
  Result<void> communicate(const Collective &collective, const Symbols &symbols,
                           void *stream);
  /// Fills the outputs of a run that failed between ranks with NaN.
  void spoilOutputs(const Symbols &symbols, cuda::CUstream stream);

  std::shared_ptr<const Package> code;
  std::shared_ptr<comm::Communicator> communicator; ///< or null
  std::vector<comm::Part> parts;                    ///< of a collective
  std::unique_ptr<comm::Window> window; ///< or null; before its communicator
  std::atomic<bool> busy = false;
  void *workspace = nullptr;
  uint64_t workspaceBytes = 0;
  void *state = nullptr; ///< the caller's, or of one of the next two
  DeviceMemory ownState;
  AdmittedMemory reachedWorkspace, reachedState;
  std::unique_ptr<void, void (*)(void *)> ownHostState{nullptr, std::free};
  std::vector<BoundValue> values;
  /// Tensor maps of this run's tensors, kept while address and tokens stay.
  struct CachedMap {
    uint64_t address = 0;
    int64_t tokens = -1;
    cuda::CUtensorMap map = {};
  };
  std::vector<CachedMap> maps;
  /// The argument block: CUtensorMap is 128 bytes and aligned to 128.
  std::vector<cuda::CUtensorMap> block;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_API_CONTEXT_H
