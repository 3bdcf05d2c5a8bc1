//===- HostRun.cpp - runs of the host device ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host's counterpart of the CUDA launcher, driven by the same manifest.
// Binds values, places workspace values by the variant's regions, packs the
// argument block, and executes the stages of each launch.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/HostDeviceImpl.h"

#include "runtime/host/Element.h"
#include "runtime/host/KernelRun.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/package/Ranks.h"
#include "runtime/support/Env.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

using namespace moec;
using namespace moec::host;

namespace {

struct StageRow {
  std::string_view op;
  Result<void> (*run)(KernelRun &);
};

constexpr StageRow kStages[] = {
#define MOEC_STAGE(op) {#op, stages::op},
    MOEC_STAGES(MOEC_STAGE)
#undef MOEC_STAGE
};

constexpr StageRow kOpposites[] = {
#define MOEC_STAGE(op) {#op, opposites::op},
    MOEC_OPPOSITES(MOEC_STAGE)
#undef MOEC_STAGE
};

template <size_t N>
const StageRow *rowOf(const StageRow (&rows)[N], std::string_view op) {
  const StageRow *row = std::ranges::find(rows, op, &StageRow::op);
  return row == std::end(rows) ? nullptr : row;
}

} // namespace

HostDevice::HostDevice(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
HostDevice::~HostDevice() = default;
HostDevice::HostDevice(HostDevice &&) noexcept = default;
HostDevice &HostDevice::operator=(HostDevice &&) noexcept = default;

//===----------------------------------------------------------------------===//
// Setting up
//===----------------------------------------------------------------------===//

Result<HostDevice> HostDevice::create(const Manifest &manifest,
                                      const Target &target, Options options) {
  if (manifest.ranks.size() != 1)
    return invalidArgument("expected the manifest of one rank, got that of {}",
                           describeRanks(ranksOf(manifest)));
  auto impl = std::make_unique<Impl>(manifest, target);
  if (options.threads < 1) {
    int64_t jobs = TRY(envInteger("MOEC_JOBS"));
    options.threads = jobs > 0 ? jobs : usableThreads();
  }
  for (const Kernel &kernel : target.kernels) {
    ArgumentPacker packer =
        TRY(ArgumentPacker::create(manifest, target, kernel));
    impl->packers.emplace(kernel.name, std::move(packer));
  }
  impl->options = options;
  return HostDevice(std::move(impl));
}

Result<int64_t> HostDevice::workspaceBytes(int64_t tokens,
                                           const Variant *variant) const {
  if (tokens == 0)
    return 0;
  tokens = TRY(tokensOfRanks(impl->manifest, tokens));
  if (!variant) {
    variant = TRY(selectVariant(impl->manifest, impl->target, tokens,
                                impl->options.smCount));
  }
  Symbols symbols =
      TRY(symbolsFor(impl->manifest, tokens, impl->options.smCount));
  return variant->workspaceBytes.evaluate(symbols);
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

Result<void> HostDevice::Impl::bind(Binding &binding, size_t index,
                                    const Symbols &symbols,
                                    const Tensor &tensor) const {
  const Value &value = valueAt(manifest, target, index);
  BoundValue bound = TRY(bindValue(value, symbols, addressOf(tensor.data),
                                   tensor.elementType, tensor.rowStride));
  int64_t bytes =
      TRY(valueBytes(value, symbols, tensor.elementType, tensor.rowStride));
  binding.values[index] = bound;
  binding.bytes[index] = bytes;
  return {};
}

/// Binds the caller's tensors. A value that the caller omits is bound to no
/// memory. The argument packer returns an error for a kernel that needs such a
/// value.
Result<Binding> HostDevice::Impl::bindCommon(const Symbols &symbols,
                                             const Tensors &tensors) const {
  Binding binding;
  size_t count = valueCount(manifest, target);
  binding.values.resize(count);
  binding.bytes.resize(count);
  for (const auto &[name, tensor] : tensors) {
    int64_t index = valueIndex(manifest, target, name);
    if (index < 0)
      return invalidArgument("the package has no value '{}'", name);
    ValueRole role = valueAt(manifest, target, index).role;
    if (role == ValueRole::Workspace || role == ValueRole::State ||
        role == ValueRole::Window)
      return invalidArgument(
          "expected inputs, outputs and weights, '{}' is none of them", name);
    TRY(bind(binding, index, symbols, tensor));
  }
  return binding;
}

/// Binds the values of the window. A value has the same offset in every rank's
/// window.
Result<void> HostDevice::Impl::bindWindow(Binding &binding,
                                          const Symbols &symbols,
                                          const comm::Window *window) const {
  if (target.windowRanks == 1)
    return {};
  if (!window || window->bytes() != target.windowBytes)
    return invalidArgument("expected a window of {} bytes, got {}",
                           target.windowBytes, window ? window->bytes() : 0);
  TRY(window->check());
  for (const WindowRegion &region : target.windowRegions) {
    const int64_t index = valueIndex(manifest, target, region.value);
    if (index < 0)
      return invalidManifest("unknown value '{}'", region.value);
    Tensor tensor;
    tensor.data = reinterpret_cast<std::byte *>(window->own()) + region.offset;
    TRY(bind(binding, size_t(index), symbols, tensor));
  }
  return {};
}

Result<void> HostDevice::Impl::checkOneOf(const Tensors &tensors) const {
  if (manifest.oneOf.empty())
    return {};
  auto given = [&](const std::string &name) {
    auto found = tensors.find(name);
    return found != tensors.end() && found->second.data;
  };
  size_t complete = 0, touched = 0;
  std::string groups;
  for (const std::vector<std::string> &group : manifest.oneOf) {
    size_t present = std::ranges::count_if(group, given);
    complete += present == group.size();
    touched += present > 0;
    groups += fmt::format("{}{}", groups.empty() ? "" : ", or ",
                          fmt::join(group, " and "));
  }
  if (complete != 1 || touched != 1)
    return invalidArgument("expected exactly one of these inputs: {}", groups);
  return {};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Result<void> HostDevice::Impl::launch(const Launch &launch,
                                      const Symbols &symbols,
                                      const Binding &binding,
                                      int64_t firstExpert, bool backwards,
                                      const comm::Window *window) const {
  const Kernel *kernel = findKernel(target, launch.kernel);
  auto packer = packers.find(launch.kernel);
  if (!kernel || packer == packers.end())
    return invalidManifest("unknown kernel '{}'", launch.kernel);
  std::array<int64_t, 3> grid = TRY(gridOf(launch, *kernel, symbols));

  // On the host, a tensor map holds only the address of its value.
  std::function<Result<void>(size_t, std::byte *)> tensorMap =
      [&](size_t index, std::byte *destination) -> Result<void> {
    int64_t value =
        valueIndex(manifest, target, target.tensorMaps[index].value);
    uint64_t address = value < 0 ? 0 : binding.values[value].address;
    std::memcpy(destination, &address, sizeof(address));
    return {};
  };
  ArgumentSources sources;
  sources.values = binding.values;
  sources.symbols = symbols;
  sources.firstExpert = firstExpert;
  sources.tensorMap = &tensorMap;
  if (window)
    sources.peers = window->peers(), sources.status = window->status();
  std::vector<std::byte> block(packer->second.bytes());
  TRY(packer->second.pack(sources, block.data()));

  KernelRun run(manifest, target, *kernel);
  run.symbols = symbols;
  run.grid = grid;
  // On a GPU, the CTAs of a persistent grid loop over the tiles. The host uses
  // one CTA per tile instead.
  if (launch.grid.persistent) {
    int64_t tiles = TRY(launch.grid.tiles.evaluate(symbols));
    run.grid = {tiles, 1, 1};
  }
  run.arguments = block;
  run.threads = options.threads;
  run.window = window;
  for (size_t i = 0; i < binding.values.size(); ++i)
    if (uint64_t begin = binding.values[i].address)
      run.ranges.push_back(
          {begin, begin + binding.bytes[i], valueAt(manifest, target, i).name});
  std::vector<const Stage *> order;
  for (const Stage &stage : kernel->stages)
    order.push_back(&stage);
  if (backwards)
    std::ranges::reverse(order);
  for (const Stage *stage : order) {
    const StageRow *row =
        backwards ? rowOf(kOpposites, stage->op) : rowOf(kStages, stage->op);
    if (!row)
      return invalidManifest("the host device has no {}stage '{}'",
                             backwards ? "opposite of " : "", stage->op);
    run.stage = stage;
    TRY(row->run(run));
  }
  return {};
}

const Stage *HostDevice::withoutOpposite(const Target &target,
                                         const Pack &pack) {
  for (const Launch &launch : pack.launches)
    if (const Kernel *kernel = findKernel(target, launch.kernel))
      for (const Stage &stage : kernel->stages)
        if (!rowOf(kOpposites, stage.op))
          return &stage;
  return nullptr;
}

Result<void> HostDevice::run(int64_t tokens, const Tensors &tensors,
                             std::span<std::byte> workspace,
                             std::span<std::byte> state, const Variant *variant,
                             comm::Communicator *communicator,
                             const comm::Window *window) {
  const Impl &self = *impl;
  if (tokens == 0)
    return {};
  tokens = TRY(tokensOfRanks(self.manifest, tokens));
  TRY(comm::check(communicator, self.manifest, self.target, /*onGpu=*/false));
  if (!variant) {
    variant = TRY(selectVariant(self.manifest, self.target, tokens,
                                self.options.smCount));
  } else if (tokens < variant->minTokens || tokens > variant->maxTokens) {
    return invalidArgument("variant '{}' supports {} to {} tokens, got {}",
                           variant->name, variant->minTokens,
                           variant->maxTokens, tokens);
  }
  Symbols symbols =
      TRY(symbolsFor(self.manifest, tokens, self.options.smCount));
  TRY(self.checkOneOf(tensors));
  for (const Value &value : self.manifest.values) {
    if (value.role != ValueRole::Input && value.role != ValueRole::Output)
      continue;
    auto given = tensors.find(value.name);
    if (given == tensors.end() || !given->second.data)
      return invalidArgument("value '{}': expected a tensor, got none",
                             value.name);
  }
  Binding binding = TRY(self.bindCommon(symbols, tensors));

  int64_t bytes = TRY(variant->workspaceBytes.evaluate(symbols));
  if (std::cmp_less(workspace.size(), bytes))
    return Error(ErrorCode::WorkspaceTooSmall,
                 "expected {} bytes of workspace for {} tokens, got {}", bytes,
                 tokens, workspace.size());
  if (std::cmp_less(state.size(), self.target.stateBytes))
    return Error(ErrorCode::WorkspaceTooSmall,
                 "expected {} bytes of state, got {}", self.target.stateBytes,
                 state.size());
  for (std::span<std::byte> memory : {workspace, state})
    if (addressOf(memory.data()) % kBaseAlignment)
      return Error(ErrorCode::Misaligned,
                   "expected workspace and state at a multiple of {} bytes",
                   kBaseAlignment);
  for (const StateRegion &region : self.target.stateRegions) {
    int64_t index = valueIndex(self.manifest, self.target, region.value);
    Tensor tensor;
    tensor.data = state.data() + region.offset;
    if (index < 0)
      return invalidManifest("unknown value '{}'", region.value);
    TRY(self.bind(binding, index, symbols, tensor));
  }
  TRY(self.bindWindow(binding, symbols, window));

  for (size_t i = 0; i < variant->launches.size(); ++i) {
    // A workspace value is bound only in the launches in which its region is
    // live.
    Binding now = binding;
    for (const Region &region : variant->regions) {
      if (static_cast<int64_t>(i) < region.firstLaunch ||
          static_cast<int64_t>(i) > region.lastLaunch)
        continue;
      int64_t offset = TRY(region.offset.evaluate(symbols));
      int64_t size = TRY(region.bytes.evaluate(symbols));
      int64_t index = valueIndex(self.manifest, self.target, region.value);
      if (index < 0 || offset < 0 || size < 0 || size > bytes - offset)
        return invalidManifest("variant '{}': region of '{}' at {} with {} "
                               "bytes is not within the workspace of {}",
                               variant->name, region.value, offset, size,
                               bytes);
      Tensor tensor;
      tensor.data = workspace.data() + offset;
      TRY(self.bind(now, index, symbols, tensor));
      now.bytes[index] = size;
    }
    const Launch &launch = variant->launches[i];
    if (launch.collective) {
      std::vector<comm::Part> parts;
      TRY(comm::findParts(*launch.collective, self.manifest, self.target,
                          symbols, now.values, parts));
      TRY(communicator->perform({launch.collective->kind,
                                 launch.collective->ranks,
                                 launch.collective->stride, parts, nullptr,
                                 symbols.ownTokens.value_or(tokens)}));
    } else {
      TRY(self.launch(launch, symbols, now, 0, /*backwards=*/false, window));
    }
  }
  // If a rank stopped waiting for another rank, the output has been filled with
  // NaN.
  return window ? window->check() : Result<void>();
}
