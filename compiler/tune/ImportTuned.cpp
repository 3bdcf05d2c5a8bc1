//===- ImportTuned.cpp - rows out of foreign files ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block that no engine has as a tile is left out with a word about it.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/ImportTuned.h"

#include "compiler/plan/TunedStore.h"
#include "compiler/plan/VllmTuned.h"
#include "compiler/tune/TunedInput.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Whether the file is of this layer on this GPU.
static Result<void> checkFits(const std::string &path, const VllmTuned &file,
                              const TunedInput &input,
                              const TunedLayer &layer) {
  const catalog::Gpu *gpu = catalog::findGpuByDevice(file.deviceName);
  if (!gpu || gpu->name != input.hardware().gpu)
    return refused("'{}' is of device '{}', and schedules are for GPU '{}'; "
                   "expected --gpu and --arch of the file's",
                   path, file.deviceName, input.hardware().gpu);
  if (file.experts != layer.first.localExperts ||
      file.intermediate != layer.second.k)
    return refused("'{}' is of {} experts with an intermediate size of {}, and "
                   "the layer has {} with {}",
                   path, file.experts, file.intermediate,
                   layer.first.localExperts, layer.second.k);
  // Names of vLLM, and the bytes of what is multiplied and of what is stored.
  struct Type {
    std::string_view name;
    int64_t operandBytes;
    bool converts;
  };
  static constexpr Type kTypes[] = {
      {"", 2, false},          {"fp8_w8a8", 1, false},  {"int8_w8a8", 1, false},
      {"int8_w8a16", 2, true}, {"int4_w4a16", 2, true}, {"fp8_w8a16", 2, true}};
  const auto *type = std::ranges::find(kTypes, file.dtype, &Type::name);
  if (type == std::end(kTypes))
    return refused("'{}': dtype '{}' is none that maps", path, file.dtype);
  const bool converts = layer.first.codeBits > 0 ||
                        layer.first.elementType.find(' ') != std::string::npos;
  if (type->operandBytes != layer.first.elementBytes ||
      type->converts != converts)
    return refused("'{}' is of {}, and the layer multiplies {}", path,
                   file.dtype.empty() ? "weights as the model has them"
                                      : fmt::format("dtype {}", file.dtype),
                   layer.first.elementType);
  return {};
}

Result<std::string> compiler::importTuned(const ImportTunedOptions &options) {
  const TunedInput input = TRY(TunedInput::open(
      {options.input, std::nullopt}, options.import, options.compile));
  std::string output = options.output;
  if (output.empty()) {
    const std::string store = tunedStoreFolder(options.compile.cacheFolder);
    if (store.empty())
      return refused("there is no store of measured schedules "
                     "(MOEC_TUNED_STORE is off, or no folder of a cache is "
                     "known); expected --out");
    output = joinPath(store, input.hardware().gpu + ".json");
  }
  std::string said;
  std::vector<TunedRow> rows;
  constexpr int64_t kAnyTile = 16;
  const TunedLayer any = TRY(input.problemsFor({1, 1, 1}, kAnyTile));
  const std::vector<int64_t> sizes =
      tileRowsOf(any.engines, any.first.elementBytes);
  for (const std::string &path : options.files) {
    const VllmTuned file = TRY(parseVllmTuned(path, TRY(readFile(path))));
    TRY(checkFits(path, file, input, any));
    int64_t taken = 0;
    std::vector<std::string> left;
    for (const VllmTuned::Blocks &block : file.blocks) {
      if (block.first > input.maxTokens())
        continue;
      TokenRange range = {block.tokens, block.first,
                          std::min(block.last, input.maxTokens())};
      range.tokens = std::min(range.tokens, range.last);
      const TunedLayer layer = TRY(input.problemsFor(range, block.rows));
      const auto first = centerOf(layer.first, layer.engines, input.hardware());
      const auto second =
          centerOf(layer.second, layer.secondEngines, input.hardware());
      if (std::ranges::find(sizes, block.rows) == sizes.end() || !first ||
          !second) {
        left.push_back(fmt::format("{} for {} to {} tokens", block.rows,
                                   range.first, range.last));
        continue;
      }
      for (TunedRow row : input.rowsFor(range, layer, {*first, *second})) {
        row.microseconds = 0;
        const size_t slash = path.rfind('/');
        row.imported =
            slash == std::string::npos ? path : path.substr(slash + 1);
        rows.push_back(std::move(row));
      }
      ++taken;
    }
    said += fmt::format("{}: {} ranges of tile rows{}\n", path, taken,
                        left.empty()
                            ? std::string()
                            : fmt::format("; no engine has tiles of rows: {}",
                                          fmt::join(left, ", ")));
  }
  if (rows.empty())
    return refused("none of the files has tile rows that an engine has:\n{}",
                   said);
  TRY(addToTuned(output, rows));
  return said + fmt::format("{}: {} rows, imported and not measured here\n",
                            output, rows.size());
}
