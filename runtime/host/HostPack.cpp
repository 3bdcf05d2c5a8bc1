//===- HostPack.cpp - packs and unpacks weights on the host ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Unpacking executes the launches of a pack, and the stages within each kernel,
// from last to first. For each stage it executes the stage's inverse.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/HostDeviceImpl.h"

#include <algorithm>
#include <utility>

using namespace moec;
using namespace moec::host;

Result<int64_t> HostDevice::scratchBytes(const Pack &pack) const {
  Symbols symbols;
  symbols.maxTokens = impl->manifest.maxTokens;
  symbols.smCount = impl->options.smCount;
  symbols.experts = pack.expertsPerStep;
  return pack.scratchBytes.evaluate(symbols);
}

Symbols HostDevice::Impl::symbolsOf(int64_t experts) const {
  Symbols symbols;
  symbols.maxTokens = manifest.maxTokens;
  symbols.smCount = options.smCount;
  symbols.experts = experts;
  return symbols;
}

Result<void> HostDevice::Impl::bindScratch(Binding &binding, const Pack &pack,
                                           const Symbols &symbols,
                                           std::span<std::byte> scratch) const {
  int64_t bytes = TRY(pack.scratchBytes.evaluate(symbols));
  if (std::cmp_greater(bytes, scratch.size()))
    return Error(ErrorCode::WorkspaceTooSmall,
                 "pack of '{}': expected {} bytes of scratch, got {}",
                 pack.result, bytes, scratch.size());
  if (pack.scratch.empty())
    return {};
  int64_t index = valueIndex(manifest, target, pack.scratch);
  if (index < 0)
    return invalidManifest("unknown value '{}'", pack.scratch);
  Tensor tensor;
  tensor.data = scratch.data();
  TRY(bind(binding, index, symbols, tensor));
  binding.bytes[index] = bytes;
  return {};
}

static Result<void> checkScratch(std::span<const std::byte> scratch) {
  if (addressOf(scratch.data()) % kBaseAlignment)
    return Error(ErrorCode::Misaligned,
                 "expected scratch at a multiple of {} bytes", kBaseAlignment);
  return {};
}

Result<void> HostDevice::pack(const Pack &pack, const Tensors &weights,
                              std::span<std::byte> scratch, int64_t begin,
                              int64_t end) {
  const Impl &self = *impl;
  if (begin < 0 || end < begin || end > pack.totalExperts)
    return invalidArgument("expected a range within {} experts, got [{}, {})",
                           pack.totalExperts, begin, end);
  TRY(checkScratch(scratch));
  for (int64_t first = begin; first < end; first += pack.expertsPerStep) {
    const Symbols symbols =
        self.symbolsOf(std::min(pack.expertsPerStep, end - first));
    Binding binding = TRY(self.bindCommon(symbols, weights));
    TRY(self.bindScratch(binding, pack, symbols, scratch));
    for (const Launch &launch : pack.launches)
      TRY(self.launch(launch, symbols, binding, first));
  }
  return {};
}

Result<void>
HostDevice::unpack(const Pack &pack,
                   const std::map<std::string, std::span<std::byte>> &memory,
                   std::span<std::byte> scratch, int64_t experts) {
  const Impl &self = *impl;
  if (experts < 1 || experts > pack.expertsPerStep)
    return invalidArgument("expected 1 to {} experts, got {}",
                           pack.expertsPerStep, experts);
  TRY(checkScratch(scratch));
  const Symbols symbols = self.symbolsOf(experts);
  Binding binding = TRY(self.bindCommon(symbols, {}));
  for (const auto &[name, span] : memory) {
    const int64_t index = valueIndex(self.manifest, self.target, name);
    if (index < 0)
      return invalidArgument("the package has no value '{}'", name);
    Value value = valueAt(self.manifest, self.target, size_t(index));
    value.alignment = 1; // the memory of an expert may have any alignment
    const BoundValue bound =
        TRY(bindValue(value, symbols, addressOf(span.data())));
    binding.values[size_t(index)] = bound;
    binding.bytes[size_t(index)] = int64_t(span.size());
  }
  TRY(self.bindScratch(binding, pack, symbols, scratch));
  for (size_t i = pack.launches.size(); i-- > 0;)
    TRY(self.launch(pack.launches[i], symbols, binding, /*firstExpert=*/0,
                    /*backwards=*/true));
  return {};
}
