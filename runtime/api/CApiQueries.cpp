//===- CApiQueries.cpp - the C interface: queries of a package ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Query functions read the manifest and the load report. They never access a
// device.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Handles.h"

#include <fmt/core.h>

#include <cstring>

using namespace moec;
using namespace moec::runtime;

// The roles of moec.h have the same values as the first roles of ValueRole.
static_assert(MOEC_INPUT == static_cast<int>(ValueRole::Input));
static_assert(MOEC_OPTIONAL_INPUT ==
              static_cast<int>(ValueRole::OptionalInput));
static_assert(MOEC_OUTPUT == static_cast<int>(ValueRole::Output));
static_assert(MOEC_OPTIONAL_OUTPUT ==
              static_cast<int>(ValueRole::OptionalOutput));
static_assert(MOEC_STORED_WEIGHT == static_cast<int>(ValueRole::StoredWeight));
static_assert(MOEC_PACKED_WEIGHT == static_cast<int>(ValueRole::PackedWeight));

const char *moec_package_name(const moec_package *package) {
  return package ? package->package->manifest().name.c_str() : nullptr;
}

const char *moec_package_arch(const moec_package *package) {
  return package ? package->package->target().arch.c_str() : nullptr;
}

const char *moec_package_device(const moec_package *package) {
  return package ? package->package->deviceName().c_str() : nullptr;
}

int64_t moec_package_max_tokens(const moec_package *package) {
  if (!package)
    return 0;
  const Manifest &manifest = package->package->manifest();
  return manifest.maxTokens / manifest.tokenRanks;
}

const char *moec_package_manifest_json(const moec_package *package) {
  return package ? package->manifestJson.c_str() : nullptr;
}

const char *moec_package_load_report_json(const moec_package *package) {
  return package ? package->reportJson.c_str() : nullptr;
}

/// Fills a struct that the caller passed, which may be an older, shorter
/// version of the struct. Only the first `to->struct_size` bytes are written.
template <typename Struct>
static Result<void> writeStruct(const Struct &from, Struct *to,
                                const char *name) {
  size_t size = to->struct_size;
  if (size < sizeof(size_t))
    return invalidArgument("{}.struct_size is {}; set it to sizeof({})", name,
                           size, name);
  std::memcpy(static_cast<void *>(to), &from, std::min(size, sizeof(from)));
  to->struct_size = size;
  return {};
}

static Error outOfRange(const char *what, size_t index, size_t count) {
  return invalidArgument("expected the index of a {} below {}, got {}", what,
                         count, index);
}

size_t moec_package_num_values(const moec_package *package) {
  return package ? package->values.size() : 0;
}

moec_status moec_package_value(const moec_package *package, size_t index,
                               moec_value *value) {
  return guarded([&]() -> Result<void> {
    if (!package || !value)
      return nullArgument("moec_package_value", package ? "value" : "package");
    if (index >= package->values.size())
      return outOfRange("value", index, package->values.size());
    const auto &line = package->values[index];
    moec_value result = {};
    result.name = line.value->name.c_str();
    result.role = static_cast<int32_t>(line.value->role);
    result.element_types = line.elementTypes.c_str();
    result.rank = static_cast<int32_t>(line.value->shape.size());
    result.caller_row_stride = line.value->callerRowStride;
    result.alignment = line.value->alignment;
    result.may_alias = line.value->mayAlias.c_str();
    return writeStruct(result, value, "moec_value");
  });
}

/// Returns the input, output or weight called `name`.
static Result<const Value *> namedValue(const moec_package *package,
                                        const char *function,
                                        const char *name) {
  if (!package || !name)
    return nullArgument(function, package ? "name" : "package");
  std::string known;
  for (const auto &line : package->values) {
    if (line.value->name == name)
      return line.value;
    known += (known.empty() ? "" : ", ") + line.value->name;
  }
  return invalidArgument("package {} has no value '{}'; it has {}",
                         package->package->manifest().name, name, known);
}

static Result<Symbols> symbolsOf(const moec_package *package, int64_t tokens) {
  const Package &code = *package->package;
  const int64_t most = code.manifest().maxTokens / code.manifest().tokenRanks;
  if (tokens < 0)
    return invalidArgument("expected 0 to {} tokens, got {}", most, tokens);
  const int64_t together = TRY(tokensOfRanks(code.manifest(), tokens));
  if (together > code.manifest().maxTokens)
    return tooManyTokens(code.manifest(), together);
  return symbolsFor(code.manifest(), together, code.smCount());
}

moec_status moec_package_value_shape(const moec_package *package,
                                     const char *name, int64_t tokens,
                                     int64_t *shape) {
  return guarded([&]() -> Result<void> {
    auto value = TRY(namedValue(package, "moec_package_value_shape", name));
    if (!shape)
      return nullArgument("moec_package_value_shape", "shape");
    auto symbols = TRY(symbolsOf(package, tokens));
    std::vector<int64_t> extents;
    for (const Expression &expression : value->shape) {
      auto extent = TRY(expression.evaluate(symbols));
      extents.push_back(extent);
    }
    std::copy(extents.begin(), extents.end(), shape);
    return {};
  });
}

moec_status moec_package_value_bytes(const moec_package *package,
                                     const char *name, int64_t tokens,
                                     uint64_t *bytes) {
  return guarded([&]() -> Result<void> {
    auto value = TRY(namedValue(package, "moec_package_value_bytes", name));
    if (!bytes)
      return nullArgument("moec_package_value_bytes", "bytes");
    auto symbols = TRY(symbolsOf(package, tokens));
    auto size = TRY(valueBytes(*value, symbols));
    *bytes = static_cast<uint64_t>(size);
    return {};
  });
}

size_t moec_package_num_variants(const moec_package *package) {
  return package ? package->package->target().variants.size() : 0;
}

moec_status moec_package_variant(const moec_package *package, size_t index,
                                 moec_variant *variant) {
  return guarded([&]() -> Result<void> {
    if (!package || !variant)
      return nullArgument("moec_package_variant",
                          package ? "variant" : "package");
    const auto &variants = package->package->target().variants;
    if (index >= variants.size())
      return outOfRange("variant", index, variants.size());
    moec_variant result = {};
    result.name = variants[index].name.c_str();
    result.min_tokens = variants[index].minTokens;
    result.max_tokens = variants[index].maxTokens;
    result.num_launches = static_cast<int32_t>(variants[index].launches.size());
    result.min_sms = variants[index].minSms;
    return writeStruct(result, variant, "moec_variant");
  });
}

moec_status moec_package_variant_for(const moec_package *package,
                                     int64_t tokens, size_t *index) {
  return guarded([&]() -> Result<void> {
    if (!package || !index)
      return nullArgument("moec_package_variant_for",
                          package ? "index" : "package");
    auto variant = TRY(package->package->variantFor(tokens));
    *index = variant;
    return {};
  });
}

moec_status moec_package_workspace_bytes(const moec_package *package,
                                         int64_t tokens, uint64_t *bytes) {
  return guarded([&]() -> Result<void> {
    if (!package || !bytes)
      return nullArgument("moec_package_workspace_bytes",
                          package ? "bytes" : "package");
    auto size = TRY(package->package->workspaceBytes(tokens));
    *bytes = static_cast<uint64_t>(size);
    return {};
  });
}

moec_status moec_package_state_bytes(const moec_package *package,
                                     uint64_t *bytes) {
  return guarded([&]() -> Result<void> {
    if (!package || !bytes)
      return nullArgument("moec_package_state_bytes",
                          package ? "bytes" : "package");
    *bytes = static_cast<uint64_t>(package->package->target().stateBytes);
    return {};
  });
}

moec_status moec_package_pack_scratch_bytes(const moec_package *package,
                                            uint64_t *bytes) {
  return guarded([&]() -> Result<void> {
    if (!package || !bytes)
      return nullArgument("moec_package_pack_scratch_bytes",
                          package ? "bytes" : "package");
    auto size = TRY(package->package->packScratchBytes());
    *bytes = static_cast<uint64_t>(size);
    return {};
  });
}
