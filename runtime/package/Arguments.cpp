//===- Arguments.cpp - binds values and packs argument blocks -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the value sizes, argument blocks and grid of a launch. A packer
// stores indices of values, so a run looks up no names.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Arguments.h"

#include "runtime/package/ElementTypes.h"
#include "runtime/package/Limits.h"
#include "runtime/package/Ranks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

using namespace moec;

Result<Symbols> moec::symbolsFor(const Manifest &manifest, int64_t tokens,
                                 std::optional<int64_t> smCount) {
  Symbols symbols;
  symbols.tokens = tokens;
  if (manifest.tokenRanks > 1)
    symbols.ownTokens =
        tokens / manifest.tokenRanks + (tokens % manifest.tokenRanks > 0);
  symbols.maxTokens = manifest.maxTokens;
  symbols.smCount = smCount;
  symbols.rows = TRY(manifest.rows.evaluate(symbols));
  setRankSymbols(manifest, symbols);
  return symbols;
}

Error moec::tooManyTokens(const Manifest &manifest, int64_t tokens) {
  return Error(ErrorCode::TooManyTokens,
               "expected at most {} tokens, got {}; compile the package with "
               "max_tokens of {} or more",
               manifest.maxTokens, tokens, tokens);
}

Result<int64_t> moec::tokensOfRanks(const Manifest &manifest, int64_t own) {
  const int64_t ranks = manifest.tokenRanks;
  if (ranks > 1 && own > manifest.maxTokens / ranks)
    return Error(ErrorCode::TooManyTokens,
                 "package {} takes at most {} tokens of each of {} ranks, {} "
                 "together, and {} were given; compile the package with "
                 "max_tokens of {} or more",
                 manifest.name, manifest.maxTokens / ranks, ranks,
                 manifest.maxTokens, own,
                 own < INT64_MAX / ranks ? own * ranks : INT64_MAX);
  return own * ranks;
}

/// Returns the product of the extents of dimensions `first` and higher.
static Result<int64_t> product(const Value &value, const Symbols &symbols,
                               size_t first) {
  int64_t count = 1;
  for (size_t i = first; i < value.shape.size(); ++i) {
    int64_t extent = TRY(value.shape[i].evaluate(symbols));
    if (extent < 0)
      return invalidManifest(
          "value '{}': expected an extent >= 0 for dimension {}, got {} = {}",
          value.name, i, value.shape[i].text(), extent);
    if (__builtin_mul_overflow(count, extent, &count))
      return invalidManifest(
          "value '{}': the number of elements overflows 64 bits", value.name);
  }
  return count;
}

Result<int64_t> moec::elementCount(const Value &value, const Symbols &symbols) {
  return product(value, symbols, 0);
}

Result<int64_t> moec::rowStride(const Value &value, const Symbols &symbols) {
  if (!value.strides.empty())
    return value.strides.front().evaluate(symbols);
  return product(value, symbols, 1);
}

Result<int64_t> moec::valueBytes(const Value &value, const Symbols &symbols,
                                 std::string_view elementType,
                                 int64_t givenRowStride) {
  if (elementType.empty() && !value.elementTypes.empty())
    elementType = value.elementTypes.front();
  const ElementType *type = findElementType(elementType);
  if (!type)
    return invalidManifest(
        "value '{}': expected an element type out of {}, got '{}'", value.name,
        elementTypeNames(), elementType);
  int64_t count = TRY(elementCount(value, symbols));
  if (count == 0)
    return 0;
  // The element offset of the last element is the sum of (extent - 1) * stride
  // over all dimensions.
  int64_t last = 0, contiguous = 1;
  for (size_t i = value.shape.size(); i-- > 0;) {
    int64_t extent = TRY(value.shape[i].evaluate(symbols));
    int64_t stride = contiguous;
    if (!value.strides.empty()) {
      stride = TRY(value.strides[i].evaluate(symbols));
    }
    if (i == 0 && givenRowStride)
      stride = givenRowStride;
    int64_t span;
    if (stride < 0 || __builtin_mul_overflow(extent - 1, stride, &span) ||
        __builtin_add_overflow(last, span, &last))
      return invalidManifest(
          "value '{}': expected strides >= 0 that fit 64 bits, got {}",
          value.name, stride);
    contiguous *= extent;
  }
  int64_t bits;
  if (__builtin_mul_overflow(last + 1, type->bits, &bits) ||
      bits > std::numeric_limits<int64_t>::max() - 7)
    return invalidManifest("value '{}': its size overflows 64 bits",
                           value.name);
  return (bits + 7) / 8;
}

Result<BoundValue> moec::bindValue(const Value &value, const Symbols &symbols,
                                   uint64_t address,
                                   std::string_view elementType,
                                   int64_t givenRowStride) {
  auto argument = [&](ErrorCode code, std::string message) {
    return Error(code, "value '{}': {}", value.name, std::move(message));
  };
  if (elementType.empty() && !value.elementTypes.empty())
    elementType = value.elementTypes.front();
  const ElementType *type = findElementType(elementType);
  if (!type || std::ranges::find(value.elementTypes, elementType) ==
                   value.elementTypes.end())
    return argument(ErrorCode::InvalidArgument,
                    fmt::format("expected element type {}, got '{}'",
                                fmt::join(value.elementTypes, " or "),
                                elementType));
  int64_t own = TRY(rowStride(value, symbols));
  // Kernels access a value with several element types element by element, so
  // the address only needs the alignment of one element.
  const int64_t alignment =
      value.elementTypes.size() > 1
          ? std::min(value.alignment, (type->bits + 7) / 8)
          : value.alignment;
  BoundValue bound;
  bound.address = address;
  bound.rowStride = own;
  bound.elementCode = codeOf(*type);
  if (!address) {
    if (value.role == ValueRole::OptionalInput ||
        value.role == ValueRole::OptionalOutput)
      return bound;
    return argument(ErrorCode::InvalidArgument,
                    "expected an address, got none; the value is not optional");
  }
  if (address % static_cast<uint64_t>(alignment))
    return argument(ErrorCode::Misaligned,
                    fmt::format("expected an address that is a multiple of {} "
                                "bytes, got {:#x}",
                                alignment, address));
  if (givenRowStride && givenRowStride != own) {
    if (!value.callerRowStride)
      return argument(ErrorCode::InvalidArgument,
                      fmt::format("expected row stride {} (elements), got {}",
                                  own, givenRowStride));
    if (givenRowStride < own)
      return argument(ErrorCode::InvalidArgument,
                      fmt::format("expected a row stride of at least {} "
                                  "elements, got {}",
                                  own, givenRowStride));
    // Every row must have the same alignment as the first row.
    if (static_cast<__int128>(givenRowStride) * type->bits % (alignment * 8))
      return argument(
          ErrorCode::Misaligned,
          fmt::format("expected a row stride that is a multiple of {} bytes, "
                      "got {} elements of {} bits",
                      alignment, givenRowStride, type->bits));
    Result<int64_t> bytes =
        valueBytes(value, symbols, elementType, givenRowStride);
    if (!bytes)
      return argument(ErrorCode::InvalidArgument,
                      fmt::format("expected a row stride whose rows fit 64 "
                                  "bits, got {}",
                                  givenRowStride));
    if (*bytes >= kOperandBytes)
      return argument(ErrorCode::InvalidArgument,
                      fmt::format("expected less than {} bytes from the first "
                                  "row to the last, got {} with a row stride "
                                  "of {} elements",
                                  kOperandBytes, *bytes, givenRowStride));
    bound.rowStride = givenRowStride;
  }
  return bound;
}

int64_t moec::valueIndex(const Manifest &manifest, const Target &target,
                         std::string_view name) {
  int64_t index = 0;
  for (const std::vector<Value> *values : {&manifest.values, &target.values})
    for (const Value &value : *values) {
      if (value.name == name)
        return index;
      ++index;
    }
  return -1;
}

size_t moec::valueCount(const Manifest &manifest, const Target &target) {
  return manifest.values.size() + target.values.size();
}

const Value &moec::valueAt(const Manifest &manifest, const Target &target,
                           size_t index) {
  return index < manifest.values.size()
             ? manifest.values[index]
             : target.values[index - manifest.values.size()];
}

template <typename Row>
static int64_t indexOf(const std::vector<Row> &rows, std::string_view name) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name)
      return static_cast<int64_t>(i);
  return -1;
}

Result<ArgumentPacker> ArgumentPacker::create(const Manifest &manifest,
                                              const Target &target,
                                              const Kernel &kernel) {
  ArgumentPacker packer;
  packer.kernelName = kernel.name;
  packer.blockBytes = kernel.arguments.bytes;
  packer.blockAlignment = kernel.arguments.alignment;
  for (const ArgumentField &field : kernel.arguments.fields) {
    auto unknown = [&](std::string_view what, std::string_view name) {
      return invalidManifest(
          "kernel '{}', argument '{}': expected the name of a {}, got '{}'",
          kernel.name, field.name, what, name);
    };
    Field out;
    out.kind = field.kind;
    out.offset = field.offset;
    out.index = -1;
    out.optional = false;
    out.elementType = field.elementType == "i64"   ? 'l'
                      : field.elementType == "f32" ? 'f'
                                                   : 'i';
    out.expression = field.expression;
    out.name = field.name;
    if (field.offset < 0 || field.bytes() > kernel.arguments.bytes ||
        field.offset > kernel.arguments.bytes - field.bytes())
      return invalidManifest(
          "kernel '{}', argument '{}': expected it inside a block "
          "of {} bytes, got offset {}",
          kernel.name, field.name, kernel.arguments.bytes, field.offset);
    switch (field.kind) {
    case ArgumentField::Kind::Pointer:
    case ArgumentField::Kind::RowStride:
    case ArgumentField::Kind::ElementType: {
      out.index = valueIndex(manifest, target, field.value);
      if (out.index < 0)
        return unknown("value", field.value);
      ValueRole role = valueAt(manifest, target, out.index).role;
      out.optional =
          role == ValueRole::OptionalInput || role == ValueRole::OptionalOutput;
      break;
    }
    case ArgumentField::Kind::TensorMap:
      out.index = indexOf(target.tensorMaps, field.tensorMap);
      if (out.index < 0)
        return unknown("tensor map", field.tensorMap);
      break;
    case ArgumentField::Kind::Size:
    case ArgumentField::Kind::FirstExpert:
    case ArgumentField::Kind::Peers:
    case ArgumentField::Kind::Status:
      break;
    }
    packer.fields.push_back(std::move(out));
  }
  return packer;
}

Result<void> ArgumentPacker::pack(const ArgumentSources &sources,
                                  std::byte *block) const {
  std::memset(block, 0, static_cast<size_t>(blockBytes));
  auto write = [&](const Field &field, auto number) {
    std::memcpy(block + field.offset, &number, sizeof(number));
  };
  auto fail = [&](const Field &field, std::string message) {
    return invalidArgument("kernel '{}', argument '{}': {}", kernelName,
                           field.name, std::move(message));
  };
  auto writeInteger = [&](const Field &field, int64_t number) {
    if (field.elementType == 'l')
      write(field, number);
    else if (field.elementType == 'f')
      write(field, static_cast<float>(number));
    else if (number > std::numeric_limits<int32_t>::max() ||
             number < std::numeric_limits<int32_t>::min())
      return false;
    else
      write(field, static_cast<int32_t>(number));
    return true;
  };
  for (const Field &field : fields) {
    switch (field.kind) {
    case ArgumentField::Kind::Pointer: {
      uint64_t address = sources.values[field.index].address;
      if (!address && !field.optional)
        return fail(field, "expected a value with memory at this launch, and "
                           "it has none");
      write(field, address);
      break;
    }
    case ArgumentField::Kind::RowStride:
      write(field, sources.values[field.index].rowStride);
      break;
    case ArgumentField::Kind::ElementType:
      write(field, sources.values[field.index].elementCode);
      break;
    case ArgumentField::Kind::TensorMap: {
      if (!sources.tensorMap || !*sources.tensorMap)
        return fail(field, "expected a device that encodes tensor maps, and "
                           "this one does not");
      TRY((*sources.tensorMap)(field.index, block + field.offset));
      break;
    }
    case ArgumentField::Kind::Size: {
      Result<int64_t> size = field.expression.evaluate(sources.symbols);
      if (!size)
        return fail(field, size.error().message);
      if (!writeInteger(field, *size))
        return fail(field, fmt::format("expected a 32-bit size, got {} = {}",
                                       field.expression.text(), *size));
      break;
    }
    case ArgumentField::Kind::FirstExpert:
      write(field, static_cast<int32_t>(sources.firstExpert));
      break;
    case ArgumentField::Kind::Peers:
    case ArgumentField::Kind::Status: {
      const bool isTable = field.kind == ArgumentField::Kind::Peers;
      const uint64_t address = isTable ? sources.peers : sources.status;
      if (!address)
        return fail(field, "expected a run with the windows of all ranks, and "
                           "there is none");
      write(field, address);
      break;
    }
    }
  }
  return {};
}

Result<std::array<int64_t, 3>> moec::gridOf(const Launch &launch,
                                            const Kernel &kernel,
                                            const Symbols &symbols) {
  std::array<int64_t, 3> grid = {1, 1, 1};
  auto fail = [&](std::string message) {
    return invalidManifest("grid of kernel '{}': {}", kernel.name,
                           std::move(message));
  };
  if (launch.grid.persistent) {
    Result<int64_t> tiles = launch.grid.tiles.evaluate(symbols);
    if (!tiles)
      return fail(tiles.error().message);
    if (!symbols.smCount)
      return fail("a persistent grid needs the number of SMs");
    int64_t cluster = kernel.cluster[0];
    grid[0] = std::min(*tiles, *symbols.smCount * launch.grid.ctasPerSm);
    if (cluster > 1)
      grid[0] = grid[0] / cluster * cluster;
  } else {
    for (size_t i = 0; i < 3; ++i) {
      Result<int64_t> extent = launch.grid.ctas[i].evaluate(symbols);
      if (!extent)
        return fail(extent.error().message);
      grid[i] = *extent;
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    int64_t most = i == 0 ? 2147483647 : 65535;
    if (grid[i] < 1 || grid[i] > most)
      return fail(fmt::format("expected 1 to {} CTAs in {}, got {} with {}",
                              most, "xyz"[i], grid[i], describe(symbols)));
    if (grid[i] % kernel.cluster[i])
      return fail(fmt::format("expected a multiple of the cluster's {} CTAs in "
                              "{}, got {} with {}",
                              kernel.cluster[i], "xyz"[i], grid[i],
                              describe(symbols)));
  }
  return grid;
}

Result<const Variant *>
moec::selectVariant(const Manifest &manifest, const Target &target,
                    int64_t tokens, int64_t smCount,
                    std::span<const std::string> whyUnfit) {
  for (const Variant &variant : target.variants) {
    const auto index = static_cast<size_t>(&variant - target.variants.data());
    if (tokens >= variant.minTokens && tokens <= variant.maxTokens &&
        smCount >= variant.minSms &&
        (index >= whyUnfit.size() || whyUnfit[index].empty()))
      return &variant;
  }
  if (tokens > manifest.maxTokens)
    return tooManyTokens(manifest, tokens);
  return invalidArgument("expected 1 to {} tokens, got {}", manifest.maxTokens,
                         tokens);
}
