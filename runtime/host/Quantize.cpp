//===- Quantize.cpp - stages amax and quantize on the host ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes activations to f8E4M3FN or i8. One scale applies to a group of
// columns of a row, to a whole row, or to all values. A scale of all values is
// static, or computed from the block maxima that stage amax stores. If pairs
// have weights, each pair's row is the token's row times the weight, and is
// quantized after the multiplication. Without a scale, the products are only
// rounded.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Emulate.h"
#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"
#include "templates/moe/math/host.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

using namespace moec;
using namespace moec::host;
namespace quant = moe::quant;

namespace {

/// Number of kernel threads that share a group of columns.
constexpr int64_t kLanesPerGroup = 16;

/// Returns the number of kernel threads that share a row: the smallest power of
/// two from 32 to 256 for which each thread has at most 16 columns, or 256.
int64_t threadsPerRow(int64_t columns) {
  int64_t threads = 32;
  while (threads < 256 && threads * 16 < columns)
    threads *= 2;
  return threads;
}

/// The rows to quantize: the rows of the input, or for each pair the token's
/// row times the pair's weight.
struct Rows {
  View input, weights;
  int64_t pairs = 1;

  static Result<Rows> read(KernelRun &run, int64_t rows, int64_t columns) {
    Rows made;
    made.pairs = std::max<int64_t>(run.integer("pairs"), 1);
    const int64_t inputs = (rows + made.pairs - 1) / made.pairs;
    made.input = TRY(run.needed("input", inputs, columns));
    made.weights = TRY(run.neededIfNamed("row_weights", inputs, made.pairs));
    return made;
  }

  void load(int64_t row, int64_t first, int64_t count, float *values) const {
    loadFloats(input.storage, input.at(row / pairs, first), count, values);
    if (!weights)
      return;
    const float weight = weights.number(row / pairs, row % pairs);
    for (int64_t i = 0; i < count; ++i)
      values[i] *= weight;
  }
};

/// Returns the larger of two magnitudes, by the same NaN rule as the kernels.
float largerOf(float left, float right, bool propagatesNan) {
  return propagatesNan
             ? quant::largerOf<quant::DynamicTensorOfBytes>(left, right)
             : quant::largerOf<quant::DynamicTensor>(left, right);
}

} // namespace

float moec::host::largestOf(const float *values, int64_t count,
                            bool propagatesNan) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = largerOf(largest, std::fabs(values[i]), propagatesNan);
  return largest;
}

bool RowCount::isRow(int64_t row) const {
  if (!inTiles.empty())
    return inTiles[row];
  return ofExperts.empty() || row % slots < ofExperts[row / slots];
}

Result<RowCount> moec::host::countRows(KernelRun &run) {
  RowCount count;
  if (run.has("offsets")) {
    int64_t entries = TRY(run.columnsOf("offsets"));
    if (entries < 1)
      return run.fail("expected offsets of one or more experts");
    View offsets = TRY(run.needed("offsets", 1, entries));
    count.rows = offsets.integer(0, entries - 1);
  } else if (run.has("tiles")) {
    for (const Tile &tile : TRY(readTiles(run))) {
      count.rows = std::max(count.rows, tile.end);
      count.inTiles.resize(count.rows);
      std::fill(count.inTiles.begin() + tile.begin,
                count.inTiles.begin() + tile.end, true);
    }
  } else {
    count.rows = TRY(run.size("tokens"));
  }
  if (run.has("expert_num_tokens")) {
    count.ofExperts = TRY(readExpertCounts(run, count.rows));
    count.slots = count.rows;
    // In batched format, the row range ends after the last row that exists.
    count.rows = 0;
    for (size_t e = 0; e < count.ofExperts.size(); ++e)
      if (count.ofExperts[e] > 0)
        count.rows = int64_t(e) * count.slots + count.ofExperts[e];
  }
  const int64_t pairs = std::max<int64_t>(run.integer("pairs"), 1);
  if (count.rows < 0)
    return run.fail("expected rows >= 0, got {}", count.rows);
  count.counted = count.rows;
  View valid = TRY(run.operand("valid_tokens", 1, 1));
  if (valid)
    count.counted = std::clamp<int64_t>(valid.integer(0), 0, count.rows);
  count.rows *= pairs;
  count.counted *= pairs;
  return count;
}

namespace {

/// Returns the number of CTAs that quantize: all CTAs of the grid except the
/// CTAs that route. A matmul kernel quantizes everything that it computes, so
/// its grid is no limit.
int64_t quantizingCtas(const KernelRun &run, int64_t tokens) {
  const std::vector<Stage> &stages = run.kernel.stages;
  auto find = [&](std::string_view op) {
    return std::ranges::find_if(stages,
                                [&](const Stage &s) { return s.op == op; });
  };
  if (find("grouped_matmul") != stages.end())
    return std::numeric_limits<int32_t>::max();
  auto count = find("count");
  if (count == stages.end())
    return run.ctas();
  int64_t block = KernelRun::integer(*count, "block_tokens");
  bool alone = find("permute") != stages.end() || block < 1;
  int64_t routing =
      alone ? run.kernel.cluster[0] : (tokens + block - 1) / block;
  return std::max<int64_t>(run.ctas() - routing, 0);
}

/// Returns the function that computes a dynamic scale from the largest
/// magnitude. `groupColumns`: number of columns of a row that share a scale;
/// -1: the whole row.
using ScaleOf = float (*)(float largest);
ScaleOf scaleOf(Storage storage, bool ofTensor, int64_t groupColumns,
                bool isPower) {
  if (storage == Storage::I8)
    return ofTensor ? quant::DynamicTensorOfBytes::scale
                    : quant::TokenOfBytes::scale;
  if (ofTensor)
    return quant::DynamicTensor::scale;
  if (groupColumns < 1)
    return quant::Token::scale;
  return isPower ? quant::PowerGroup128::scale : quant::Group128::scale;
}

} // namespace

Result<void> stages::amax(KernelRun &run) {
  int64_t blockRows = run.integer("block_rows");
  if (blockRows < 1)
    return run.fail("expected block_rows of at least 1, got {}", blockRows);
  RowCount count = TRY(countRows(run));
  int64_t columns = TRY(run.columnsOf("input"));
  int64_t rows = count.counted;
  int64_t blocks = std::min((rows + blockRows - 1) / blockRows, run.ctas());
  const bool propagatesNan = run.flag("propagates_nan");
  Rows input = TRY(Rows::read(run, rows, columns));
  View maxima = TRY(run.neededResult("block_amax", 1, blocks));
  if (blocks == 0)
    return {};
  parallelFor(run.threads, blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> row(columns);
    for (int64_t block = begin; block < end; ++block) {
      float largest = 0;
      int64_t last = std::min((block + 1) * blockRows, rows);
      for (int64_t r = block * blockRows; r < last; ++r) {
        if (!count.isRow(r))
          continue;
        input.load(r, 0, columns, row.data());
        largest =
            largerOf(largest, largestOf(row.data(), columns, propagatesNan),
                     propagatesNan);
      }
      storeFloats(maxima.storage, &largest, 1, maxima.at(0, block));
    }
  });
  return {};
}

/// Returns the largest value of the operand `name`: the largest static scale
/// (the scale of all values), or the largest block maximum (the largest
/// magnitude of all values).
static Result<float> numberOfAll(KernelRun &run, const RowCount &count,
                                 const char *name, int64_t blockRows,
                                 bool propagatesNan = false) {
  int64_t entries = TRY(run.columnsOf(name));
  if (std::string_view(name) == "block_amax")
    entries = (count.counted + blockRows - 1) / blockRows;
  View view = TRY(run.needed(name, 1, entries));
  std::vector<float> values(entries);
  if (entries > 0)
    loadFloats(view.storage, view.at(0), entries, values.data());
  return largestOf(values.data(), entries, propagatesNan);
}

/// Quantizes and dequantizes the values. If `encodes` is true, stores the codes
/// (quantized values) and one scale per group instead.
static Result<void> runEmulated(KernelRun &run, bool encodes) {
  const Storage codes =
      encodes ? TRY(run.neededResult("data", 0, 0)).storage : Storage::None;
  Emulation emulation =
      TRY(encodes ? Emulation::readEncoding(run, codes) : Emulation::read(run));
  RowCount count = TRY(countRows(run));
  int64_t columns = TRY(run.columnsOf("input"));
  // The grid limits the rows that are written.
  const int64_t ctas = quantizingCtas(run, count.rows);
  const int64_t unit = emulation.unit();
  const int64_t units = (columns + unit - 1) / unit;
  const bool wholeRows = emulation.takesWholeRows();
  const int64_t ofCta =
      wholeRows
          ? std::max<int64_t>(run.kernel.threads / threadsPerRow(columns), 1)
          : run.kernel.threads / (unit / 8);
  const int64_t items =
      std::min(count.rows * (wholeRows ? 1 : units), ctas * ofCta);
  const int64_t rows = wholeRows ? items : (items + units - 1) / units;
  Rows input = TRY(Rows::read(run, rows, columns));
  View data = TRY(run.neededResult("data", rows, columns));
  View scales, seconds;
  if (encodes)
    scales = TRY(run.neededResult("scale", rows, units));
  if (encodes && wholeRows)
    seconds = TRY(run.neededResult("second_scale", rows, 1));
  if (rows == 0)
    return {};
  float ofAll = 0;
  for (const char *name : {"static_scale", "static_second_scale", "block_amax"})
    if (run.has(name))
      ofAll = TRY(numberOfAll(run, count, name,
                              std::max<int64_t>(run.integer("block_rows"), 1)));
  parallelFor(run.threads, rows, 4, [&](int64_t begin, int64_t end) {
    std::vector<float> values(columns), ofGroups(units);
    for (int64_t row = begin; row < end; ++row) {
      if (!count.isRow(row))
        continue;
      input.load(row, 0, columns, values.data());
      const int64_t there =
          wholeRows ? columns : std::min(columns, (items - row * units) * unit);
      if (encodes) {
        const float second =
            emulation.encode(values.data(), columns, ofAll, ofGroups.data());
        if (seconds)
          storeFloats(seconds.storage, &second, 1, seconds.at(row, 0));
        storeFloats(scales.storage, ofGroups.data(), (there + unit - 1) / unit,
                    scales.at(row, 0));
      } else {
        emulation.run(values.data(), columns, ofAll);
      }
      storeFloats(data.storage, values.data(), there, data.at(row, 0));
    }
  });
  return {};
}

Result<void> stages::quantize(KernelRun &run) {
  if (run.hasAttribute("emulates"))
    return runEmulated(run, /*encodes=*/false);
  int64_t groupRows = run.integer("group_rows");
  int64_t groupColumns = run.integer("group_columns");
  int64_t blockRows = run.integer("block_rows");
  bool isDynamic = run.flag("dynamic");
  bool isScaled = run.stage->results.contains("scale");
  if (isScaled) {
    const Storage storage = TRY(run.neededResult("scale", 0, 0)).storage;
    if (storage == Storage::UE8M0 || storage == Storage::E4M3)
      return runEmulated(run, /*encodes=*/true);
  }
  // Without a scale there are no groups.
  bool ofTensor = groupRows < 1 && groupColumns < 1;
  const std::string rule = run.word("scale_rule");
  if (!rule.empty() && (rule != "ceil" || groupColumns < 1))
    return run.fail("expected scale_rule ceil of groups of columns, got '{}' "
                    "of groups of {} x {}",
                    rule, groupRows, groupColumns);
  if (!ofTensor && (groupRows != 1 || !isDynamic))
    return run.fail(
        "expected one scale for all values, or dynamic scales per row, "
        "got groups of {} x {}{}",
        groupRows, groupColumns, isDynamic ? "" : ", static");
  if (ofTensor && blockRows < 1)
    return run.fail("expected block_rows of at least 1, got {}", blockRows);
  RowCount count = TRY(countRows(run));
  int64_t columns = TRY(run.columnsOf("input"));
  int64_t group = groupColumns < 1 ? columns : groupColumns;
  int64_t groups = (columns + group - 1) / group;
  int64_t rows = count.rows;
  // The grid limits the rows that are quantized.
  int64_t ctas = quantizingCtas(run, rows);
  int64_t threads = run.kernel.threads;
  if (ofTensor)
    rows = std::min(rows, ctas * blockRows);
  else if (groupColumns < 1)
    rows = std::min(
        rows, ctas * std::max<int64_t>(threads / threadsPerRow(columns), 1));
  int64_t items = rows * groups;
  if (!ofTensor && groupColumns >= 1)
    items = std::min(items, ctas * (threads / kLanesPerGroup));
  Rows input = TRY(Rows::read(run, rows, columns));
  View data = TRY(run.neededResult("data", rows, columns, Storage::E4M3));
  View scales;
  if (isScaled)
    scales = TRY(
        run.neededResult("scale", ofTensor ? 1 : rows, ofTensor ? 1 : groups));
  if (rows == 0)
    return {};
  const ScaleOf scale =
      scaleOf(data.storage, ofTensor, groupColumns, !rule.empty());
  const bool isInteger = data.storage == Storage::I8;
  float all = 1;
  if (ofTensor && isScaled) {
    float number =
        TRY(numberOfAll(run, count, isDynamic ? "block_amax" : "static_scale",
                        blockRows, isDynamic && isInteger));
    all = isDynamic ? scale(number) : number;
    storeFloats(scales.storage, &all, 1, scales.at(0));
  }
  parallelFor(run.threads, items, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> values(group);
    for (int64_t item = begin; item < end; ++item) {
      int64_t row = item / groups, first = item % groups * group;
      if (!count.isRow(row))
        continue;
      int64_t size = std::min(group, columns - first);
      input.load(row, first, size, values.data());
      if (ofTensor && isScaled) {
        float inverse = 1.0f / all;
        for (int64_t i = 0; i < size; ++i)
          values[i] *= inverse;
      } else if (isScaled) {
        const float divisor = scale(largestOf(values.data(), size, isInteger));
        for (int64_t i = 0; i < size; ++i)
          values[i] /= divisor;
        storeFloats(scales.storage, &divisor, 1, scales.at(row, item % groups));
      }
      storeFloats(data.storage, values.data(), size, data.at(row, first));
    }
  });
  return {};
}
