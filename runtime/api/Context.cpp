//===- Context.cpp - workspace and state of one stream --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run chooses the variant, binds every value and launches. It allocates
// memory only if it fails.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Context.h"

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/TensorMaps.h"
#include "runtime/package/ElementTypes.h"

#include <cstdlib>
#include <cstring>

using namespace moec;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

static bool isTensorOfRun(const Value &value) {
  return value.role == ValueRole::Input ||
         value.role == ValueRole::OptionalInput ||
         value.role == ValueRole::Output ||
         value.role == ValueRole::OptionalOutput;
}

static std::string tensorNames(const Package &package) {
  std::string names;
  for (const Value &value : package.manifest().values)
    if (isTensorOfRun(value))
      names += (names.empty() ? "" : ", ") + value.name;
  return names;
}

//===----------------------------------------------------------------------===//
// Workspace and state
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<Context>>
Context::create(std::shared_ptr<const Package> package, void *workspace,
                uint64_t workspaceBytes, const StateMemory &state,
                std::shared_ptr<comm::Communicator> communicator) {
  std::unique_ptr<Context> context(new Context);
  context->code = std::move(package);
  const Package &code = *context->code;
  if (!code.cuda() && !code.onHost())
    return invalidArgument(
        "package {} was only prebuilt; load it on a device to make contexts",
        code.manifest().name);
  TRY(comm::check(communicator.get(), code.manifest(), code.target(),
                  !code.onHost()));
  if (communicator && code.cuda() && code.target().windowRanks > 1 &&
      communicator->context() != code.cuda()->place().context)
    return invalidArgument(
        "package {} was loaded on {}, and the communicator is of another GPU "
        "or CUDA context",
        code.manifest().name, code.cuda()->place().info.name);
  TRY(context->setWorkspace(workspace, workspaceBytes));
  TRY(context->makeState(state));
  if (const CudaCode *cuda = code.cuda())
    context->block.resize(
        static_cast<size_t>(cuda->largestBlock()) / sizeof(CUtensorMap) + 1);
  context->values.resize(valueCount(code.manifest(), code.target()));
  context->maps.resize(code.target().tensorMaps.size());
  // The window is created last and nothing after it may fail, because the other
  // ranks write to the window from then on.
  if (communicator && comm::ranksOf(code.target()) > 1) {
    TRY(comm::compareRanks(*communicator, code.manifest()));
    TRY(comm::prepare(*communicator, code.target()));
    if (code.target().windowRanks > 1)
      context->window = TRY(communicator->window(code.target().windowBytes));
  }
  context->communicator = std::move(communicator);
  return context;
}

/// Checks the memory for `needed` bytes of state that the caller passes.
static Result<void> checkState(const StateMemory &given, uint64_t needed,
                               const Package &code) {
  if (!given.data && given.bytes > 0)
    return invalidArgument(
        "the state is NULL, but its size is {} bytes; give memory "
        "of that size, or 0 bytes",
        given.bytes);
  if (reinterpret_cast<uint64_t>(given.data) % Package::kMemoryAlignment != 0)
    return Error(ErrorCode::Misaligned,
                 "the state's address {} is not a multiple of {}", given.data,
                 Package::kMemoryAlignment);
  if (given.data && given.bytes < needed)
    return Error(ErrorCode::WorkspaceTooSmall,
                 "a context of package {} needs {} bytes of state, and {} were "
                 "given; moec_package_state_bytes tells",
                 code.manifest().name, needed, given.bytes);
  return {};
}

Result<void> Context::makeState(const StateMemory &given) {
  auto bytes = static_cast<uint64_t>(code->target().stateBytes);
  TRY(checkState(given, bytes, *code));
  state = given.data;
  if (bytes == 0)
    return {};
  if (const CudaCode *cuda = code->cuda()) {
    const CudaPlace &place = cuda->place();
    ContextScope scope(*place.driver, place.context);
    TRY(scope.status());
    TRY(reachedState.add(place, reinterpret_cast<uint64_t>(state), bytes));
    if (!state) {
      ownState = TRY(DeviceMemory::allocate(place, bytes));
      state = reinterpret_cast<void *>(ownState.address());
    }
    TRY(place.driver->check(
        place.driver->memsetD8(reinterpret_cast<CUdeviceptr>(state), 0, bytes),
        "zeroing the state"));
    // cuMemsetD8 may return before the device has finished, and the streams of
    // runs do not necessarily wait for the null stream.
    return place.driver->check(place.driver->ctxSynchronize(),
                               "zeroing the state");
  }
  if (!state) {
    constexpr auto kAlignment = static_cast<size_t>(Package::kMemoryAlignment);
    ownHostState.reset(std::aligned_alloc(
        kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    state = ownHostState.get();
    if (!state)
      return invalidArgument("no memory for {} bytes of state", bytes);
  }
  std::memset(state, 0, bytes);
  return {};
}

Result<void> Context::setWorkspace(void *memory, uint64_t bytes) {
  if (busy)
    return Error{ErrorCode::ContextInUse,
                 "the workspace of a context cannot change while a run is "
                 "being queued on it"};
  if (!memory && bytes > 0)
    return invalidArgument(
        "the workspace is NULL, but its size is {} bytes; give "
        "memory of that size, or 0 bytes",
        bytes);
  if (reinterpret_cast<uint64_t>(memory) % Package::kMemoryAlignment != 0)
    return Error(ErrorCode::Misaligned,
                 "the workspace's address {} is not a multiple of {}", memory,
                 Package::kMemoryAlignment);
  reachedWorkspace.clear();
  if (const CudaCode *cuda = code->cuda())
    TRY(reachedWorkspace.add(cuda->place(), reinterpret_cast<uint64_t>(memory),
                             bytes));
  workspace = memory;
  workspaceBytes = bytes;
  return {};
}

//===----------------------------------------------------------------------===//
// Binding tensors
//===----------------------------------------------------------------------===//

Result<void> Context::bindTensors(std::span<const Tensor> tensors,
                                  const Symbols &symbols) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  for (const Tensor &tensor : tensors) {
    int64_t index = valueIndex(manifest, target, tensor.name);
    if (index < 0 ||
        !isTensorOfRun(valueAt(manifest, target, static_cast<size_t>(index))))
      return invalidArgument(
          "a run of package {} takes no tensor '{}'; it takes {}",
          manifest.name, tensor.name, tensorNames(*code));
    auto at = static_cast<size_t>(index);
    if (values[at].address != 0)
      return invalidArgument("tensor '{}' was given twice", tensor.name);
    const Value &value = valueAt(manifest, target, at);
    bool optional = value.role == ValueRole::OptionalInput ||
                    value.role == ValueRole::OptionalOutput;
    if (!tensor.data && optional)
      continue;
    values[at] = TRY(bindTensor(value, symbols, tensor));
  }
  for (size_t i = 0; i < manifest.values.size(); ++i) {
    const Value &value = manifest.values[i];
    if ((value.role == ValueRole::Input || value.role == ValueRole::Output) &&
        values[i].address == 0)
      return invalidArgument(
          "tensor '{}' is missing; a run of package {} takes {}", value.name,
          manifest.name, tensorNames(*code));
  }
  if (manifest.oneOf.empty())
    return {};
  // Exactly one group of tensors must be present completely, and no tensor of
  // another group may be present.
  size_t complete = 0;
  bool partial = false;
  std::string_view given;
  for (const auto &group : manifest.oneOf) {
    size_t present = 0;
    for (const std::string &name : group) {
      int64_t index = valueIndex(manifest, target, name);
      if (index >= 0 && values[static_cast<size_t>(index)].address != 0) {
        ++present;
        given = name;
      }
    }
    complete += present == group.size();
    partial |= present != 0 && present != group.size();
  }
  if (complete == 1 && !partial)
    return {};
  std::string groups;
  for (const auto &group : manifest.oneOf) {
    std::string names;
    for (const std::string &name : group)
      names += (names.empty() ? "" : " and ") + name;
    groups += (groups.empty() ? "" : ", or ") + names;
  }
  return invalidArgument(
      "a run of package {} takes either {}; {}", manifest.name, groups,
      given.empty()  ? "none of them was given"
      : complete > 1 ? "more than one of these was given"
                     : "one of these is incomplete or mixed with another");
}

Result<void> Context::checkRouting(const Layer &layer) const {
  if (!layer.lacksRoutingBias())
    return {};
  const int64_t ids = valueIndex(code->manifest(), code->target(), "given_ids");
  if (ids >= 0 && values[static_cast<size_t>(ids)].address != 0)
    return {};
  return invalidArgument("the layer was created without weight '{}', which its "
                         "router adds to the scores: expected given_ids and "
                         "given_weights, or a layer with that weight",
                         kRoutingBias);
}

/// Returns the size in bytes of a bound tensor of a run.
static Result<int64_t> bytesOf(const Value &value, const Symbols &symbols,
                               const BoundValue &bound) {
  return valueBytes(value, symbols, elementTypeOfCode(bound.elementCode)->name,
                    bound.rowStride);
}

/// Returns true if `out` may be the same tensor as the input `value`. This is
/// safe for an input of which each element is read only by the thread that
/// later writes the same element of `out`.
static bool mayBeOut(const Value &value) {
  return value.name == "x" || value.name == "residual";
}

Result<void> Context::checkOverlaps(const Symbols &symbols) const {
  const std::vector<Value> &all = code->manifest().values;
  for (size_t i = 0; i < all.size(); ++i) {
    const Value &output = all[i];
    const BoundValue &written = values[i];
    if ((output.role != ValueRole::Output &&
         output.role != ValueRole::OptionalOutput) ||
        written.address == 0)
      continue;
    auto writtenBytes = TRY(bytesOf(output, symbols, written));
    for (size_t j = 0; j < all.size(); ++j) {
      const Value &other = all[j];
      const BoundValue &bound = values[j];
      if (j == i || !isTensorOfRun(other) || bound.address == 0 ||
          bound.address >=
              written.address + static_cast<uint64_t>(writtenBytes))
        continue;
      if (bound.address < written.address) {
        auto bytes = TRY(bytesOf(other, symbols, bound));
        if (bound.address + static_cast<uint64_t>(bytes) <= written.address)
          continue;
      }
      if (output.name == "out" && mayBeOut(other) &&
          bound.address == written.address &&
          bound.elementCode == written.elementCode &&
          bound.rowStride == written.rowStride)
        continue;
      return invalidArgument(
          "tensor '{}' at {:#x} overlaps '{}' at {:#x}, which the run writes; "
          "only x and residual may share memory with out, at its address, of "
          "its element type and with contiguous rows",
          other.name, bound.address, output.name, written.address);
    }
  }
  return {};
}

/// Checks that no tensor of the run overlaps the workspace, state or window,
/// all of which the run writes, and that no output overlaps a weight that the
/// run reads.
Result<void> Context::checkMemory(const Layer &layer, const Variant &variant,
                                  const Symbols &symbols) const {
  struct Memory {
    const char *name;
    uint64_t begin, bytes;
  };
  const auto workspaceUsed =
      uint64_t(TRY(variant.workspaceBytes.evaluate(symbols)));
  const Target &target = code->target();
  const Memory written[] = {
      {"workspace", reinterpret_cast<uint64_t>(workspace),
       std::min(workspaceUsed, workspaceBytes)},
      {"state", reinterpret_cast<uint64_t>(state), uint64_t(target.stateBytes)},
      {"window", window ? window->own() : 0,
       window ? uint64_t(target.windowBytes) : 0}};
  const std::vector<Value> &all = code->manifest().values;
  for (size_t i = 0; i < all.size(); ++i) {
    const Value &value = all[i];
    if (!isTensorOfRun(value) || values[i].address == 0)
      continue;
    const uint64_t begin = values[i].address;
    const uint64_t end =
        begin + uint64_t(TRY(bytesOf(value, symbols, values[i])));
    for (const Memory &memory : written)
      if (begin < memory.begin + memory.bytes && memory.begin < end)
        return invalidArgument(
            "tensor '{}' at {:#x} overlaps the context's {} at {:#x}, {} bytes "
            "of which the run writes",
            value.name, begin, memory.name, memory.begin, memory.bytes);
    if (value.role != ValueRole::Output &&
        value.role != ValueRole::OptionalOutput)
      continue;
    for (const Layer::Span &weight : layer.readWeights())
      if (begin < weight.end && weight.begin < end)
        return invalidArgument(
            "tensor '{}' at {:#x}, which the run writes, overlaps weight '{}' "
            "of the layer at {:#x}",
            value.name, begin,
            valueAt(code->manifest(), target, weight.value).name, weight.begin);
  }
  return {};
}

Result<void> Context::bindWorkspace(const Variant &variant,
                                    const Symbols &symbols) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  auto needed = TRY(variant.workspaceBytes.evaluate(symbols));
  if (static_cast<uint64_t>(needed) > workspaceBytes)
    return Error(
        ErrorCode::WorkspaceTooSmall,
        "variant {} of package {} needs {} bytes of workspace for {} tokens, "
        "and the context has {}; moec_package_workspace_bytes tells",
        variant.name, manifest.name, needed, *symbols.tokens, workspaceBytes);
  auto base = reinterpret_cast<uint64_t>(workspace);
  for (const Region &region : variant.regions) {
    auto offset = TRY(region.offset.evaluate(symbols));
    auto at = static_cast<size_t>(valueIndex(manifest, target, region.value));
    values[at] = TRY(bindValue(valueAt(manifest, target, at), symbols,
                               base + static_cast<uint64_t>(offset)));
  }
  for (const StateRegion &region : target.stateRegions) {
    auto at = static_cast<size_t>(valueIndex(manifest, target, region.value));
    values[at] = TRY(bindValue(valueAt(manifest, target, at), symbols,
                               reinterpret_cast<uint64_t>(state) +
                                   static_cast<uint64_t>(region.offset)));
  }
  for (const WindowRegion &region : target.windowRegions) {
    auto at = static_cast<size_t>(valueIndex(manifest, target, region.value));
    values[at] =
        TRY(bindValue(valueAt(manifest, target, at), symbols,
                      window->own() + static_cast<uint64_t>(region.offset)));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Result<void> Context::run(const Layer &layer, void *stream,
                          std::span<const Tensor> tensors, int64_t tokens,
                          const RunOptions &options) {
  if (&layer.package() != code.get())
    return invalidArgument("the layer belongs to package {} ({}), the context "
                           "to another load of {}",
                           layer.package().manifest().name,
                           layer.package().target().arch,
                           code->manifest().name);
  if (tokens < 0)
    return invalidArgument("expected a token count >= 0, got {}", tokens);
  if (busy.exchange(true))
    return Error{ErrorCode::ContextInUse,
                 "this context is being used by another run; take one context "
                 "for each stream in flight"};
  struct Free {
    std::atomic<bool> &busy;
    ~Free() { busy = false; }
  } guard{busy};
  if (tokens == 0)
    return {};
  return runUnshared(layer, stream, tensors, tokens, options);
}

Result<void> Context::runUnshared(const Layer &layer, void *stream,
                                  std::span<const Tensor> tensors,
                                  int64_t tokens, const RunOptions &options) {
  if (layer.isUnpacked())
    return invalidArgument("the layer's weights were unpacked in place; "
                           "moec_layer_repack packs them again");
  auto variantIndex = TRY(code->variantFor(tokens, options.variant));
  const Variant &variant = code->target().variants[variantIndex];
  const int64_t together = TRY(tokensOfRanks(code->manifest(), tokens));
  auto symbols = TRY(symbolsFor(code->manifest(), together, code->smCount()));
  std::copy(layer.values().begin(), layer.values().end(), values.begin());
  TRY(bindTensors(tensors, symbols));
  TRY(checkRouting(layer));
  TRY(checkOverlaps(symbols));
  TRY(checkMemory(layer, variant, symbols));
  if (code->onHost()) {
    auto needed = TRY(variant.workspaceBytes.evaluate(symbols));
    if (static_cast<uint64_t>(needed) > workspaceBytes)
      return bindWorkspace(variant, symbols); // reports the missing size
    return runHost(layer, tensors, tokens, symbols, variant);
  }
  TRY(bindWorkspace(variant, symbols));
  if (code->isEmulated() && !stream)
    return runEmulated(layer, variantIndex, symbols, options.overlapPrevious);
  return launchAll(layer, variantIndex, symbols, static_cast<CUstream>(stream),
                   options.overlapPrevious);
}

Result<void> Context::writeTensorMap(const Layer &layer, size_t index,
                                     const Symbols &symbols, std::byte *to) {
  const auto &encoded = layer.tensorMaps()[index];
  if (encoded.encoded) {
    std::memcpy(to, &encoded.map, sizeof(CUtensorMap));
    return {};
  }
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  const TensorMap &map = target.tensorMaps[index];
  uint64_t address =
      values[static_cast<size_t>(valueIndex(manifest, target, map.value))]
          .address;
  CachedMap &cached = maps[index];
  if (cached.address != address || cached.tokens != *symbols.tokens) {
    auto fresh =
        TRY(encode(*code->cuda()->place().driver, map, address, symbols));
    cached = {address, *symbols.tokens, fresh};
  }
  std::memcpy(to, &cached.map, sizeof(CUtensorMap));
  return {};
}

Result<void> Context::launchAll(const Layer &layer, size_t variant,
                                const Symbols &symbols, CUstream stream,
                                bool overlapPrevious) {
  const CudaCode &cuda = *code->cuda();
  ContextScope scope(*cuda.place().driver, cuda.place().context);
  TRY(scope.status());
  // A failed exchange is permanent: no rank can determine which steps the other
  // ranks had completed.
  if (window)
    if (Result<void> whole = window->check(); !whole) {
      spoilOutputs(symbols, stream);
      return whole;
    }
  struct {
    Context *context;
    const Layer *layer;
    const Symbols *symbols;
  } self{this, &layer, &symbols};
  // The lambda captures only one pointer, so std::function does not allocate.
  const std::function<Result<void>(size_t, std::byte *)> writeMap =
      [&self](size_t index, std::byte *to) {
        return self.context->writeTensorMap(*self.layer, index, *self.symbols,
                                            to);
      };
  ArgumentSources sources;
  sources.values = values;
  sources.symbols = symbols;
  sources.tensorMap = &writeMap;
  if (window)
    sources.peers = window->peers(), sources.status = window->status();
  bool overlap = overlapPrevious;
  for (const LaunchStep &step : cuda.variantSteps(variant)) {
    // The kernel after a collective is launched without programmatic dependent
    // launch, so it waits until the collective has ended.
    if (step.launch->collective) {
      if (auto done = communicate(*step.launch->collective, symbols, stream);
          !done) {
        spoilOutputs(symbols, stream);
        return done;
      }
      overlap = false;
      continue;
    }
    TRY(cuda.launch(step, sources, reinterpret_cast<std::byte *>(block.data()),
                    stream, overlap));
    overlap = true;
  }
  return {};
}

Result<void> Context::communicate(const Collective &collective,
                                  const Symbols &symbols, void *stream) {
  TRY(comm::findParts(collective, code->manifest(), code->target(), symbols,
                      values, parts));
  return communicator->perform({collective.kind, collective.ranks,
                                collective.stride, parts, stream,
                                symbols.ownTokens.value_or(*symbols.tokens)});
}

void Context::spoilOutputs(const Symbols &symbols, CUstream stream) {
  // A floating-point value with all bits set is a NaN in every type that an
  // output may have.
  constexpr int kNan = 0xFF;
  const std::vector<Value> &all = code->manifest().values;
  for (size_t i = 0; i < all.size(); ++i) {
    const ElementType *type = elementTypeOfCode(values[i].elementCode);
    if (all[i].role != ValueRole::Output || !type || !type->floating)
      continue;
    const auto bytes = bytesOf(all[i], symbols, values[i]);
    if (!bytes)
      continue;
    if (code->onHost())
      std::memset(reinterpret_cast<void *>(values[i].address), kNan,
                  size_t(*bytes));
    else
      code->cuda()->place().driver->memsetD8Async(values[i].address, kNan,
                                                  size_t(*bytes), stream);
  }
}

Result<void> Context::runEmulated(const Layer &layer, size_t variant,
                                  const Symbols &symbols,
                                  bool overlapPrevious) {
  const CudaPlace &place = code->cuda()->place();
  AdmittedMemory reached;
  const std::vector<Value> &all = code->manifest().values;
  for (size_t i = 0; i < all.size(); ++i)
    if (isTensorOfRun(all[i]) && values[i].address != 0)
      TRY(reached.add(place, values[i].address,
                      uint64_t(TRY(bytesOf(all[i], symbols, values[i])))));
  const Result<void> launched =
      launchAll(layer, variant, symbols, nullptr, overlapPrevious);
  const ContextScope scope(*place.driver, place.context);
  TRY(scope.status());
  Result<void> ended =
      place.driver->check(place.driver->ctxSynchronize(), "cuCtxSynchronize");
  TRY(launched);
  return ended;
}

Result<void> Context::runHost(const Layer &layer,
                              std::span<const Tensor> tensors, int64_t tokens,
                              const Symbols &symbols, const Variant &variant) {
  host::Tensors all = layer.hostWeights();
  for (const Tensor &tensor : tensors) {
    if (!tensor.data)
      continue;
    const int64_t index =
        valueIndex(code->manifest(), code->target(), tensor.name);
    // The host device does not accept "u8" for a value of another type, so it
    // receives the default element type.
    const std::string_view type =
        tensor.elementType == "u8" ? "" : tensor.elementType;
    all[std::string(tensor.name)] = {tensor.data, std::string(type),
                                     values[size_t(index)].rowStride};
  }
  auto done = layer.runOnHost(tokens, all,
                              {static_cast<std::byte *>(workspace),
                               static_cast<size_t>(workspaceBytes)},
                              {static_cast<std::byte *>(state),
                               static_cast<size_t>(code->target().stateBytes)},
                              variant, communicator.get(), window.get());
  if (!done && (done.error().code == ErrorCode::PeerLost ||
                done.error().code == ErrorCode::PeerMismatch))
    spoilOutputs(symbols, nullptr);
  return done;
}
