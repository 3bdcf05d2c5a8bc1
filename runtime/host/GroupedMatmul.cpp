//===- GroupedMatmul.cpp - stage grouped_matmul on the host ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each tile, multiplies rows [begin, end) by the weight of one expert:
// result[r, c] = sum over i of lhs[r, i] * rhs[expert, c, i] (+ bias).
// The work is split into tiles x column blocks. Each dot product uses 16
// interleaved f32 accumulators, which are added in a fixed order, so results
// are deterministic. If both operands have scales, the partial sum over each
// scale group is multiplied by the scales. If only the weight has scales, its
// elements are dequantized first.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Fragments.h"
#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"
#include "runtime/support/Progress.h"

using namespace moec;
using namespace moec::host;

static float dot(const float *a, const float *b, int64_t count) {
  constexpr int64_t lanes = 16;
  float sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  for (int64_t lane = 0; i < count; ++i, ++lane)
    sums[lane] += a[i] * b[i];
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane)
      sums[lane] += sums[lane + width];
  return sums[0];
}

/// Returns the zero point that applies if none is stored: 8 for I4, whose codes
/// (quantized values) are unsigned, otherwise 0.
static float middleOf(Storage storage) {
  return storage == Storage::I4 ? 8 : 0;
}

namespace {

/// The scales of both operands, or of only the weight, and their layout.
struct Scales {
  View lhs, rhs, second, zeroPoint;
  /// `given`: both operands have scales. `ofWeights`: only the weight has
  /// scales.
  bool given = false, ofWeights = false;
  bool twoDimensions = false;
  int64_t lhsRows = 0, lhsColumns = 0; ///< extent of a group of lhs
  int64_t rhsRows = 0, rhsColumns = 0;
  int64_t parts = 1, partRows = 0; ///< 2 parts if gate and up have separate
                                   ///< groups, else 1; rows of one part
  int64_t perExpert = 0;           ///< number of scale rows per expert
  int64_t step = 0; ///< number of consecutive columns in which no scale changes
  bool fragments = false;    ///< the weight's scales are in fragment order
  bool atoms = false;        ///< the weight's scales are in scale blocks
  bool secondPerRow = false; ///< true: each weight row has a second scale;
                             ///< false: each part has one
  View lhsSeconds;           ///< second scale of each lhs row
  /// Second scale of the whole lhs: the maximum of the given values.
  float lhsSecond = 1;

  float ofLhs(int64_t row, int64_t column) const {
    return lhs.number(lhsRows == 1 ? row : 0, column / lhsColumns);
  }
  float ofRhs(int64_t expert, const RowOrder::Row &row, int64_t column) const {
    return at(rhs, expert, row, column);
  }
  /// Returns the second scale of a weight row. The row's accumulators are
  /// multiplied by it.
  float secondOf(int64_t expert, const RowOrder::Row &row) const {
    if (!second)
      return lhsSecond;
    return lhsSecond * second.number(expert, secondPerRow ? row.stored
                                             : parts == 1 ? 0
                                                          : row.part);
  }
  /// Dequantizes a weight row without applying its second scale, and rounds the
  /// elements to the type `multiplied`, in which the kernels multiply.
  void dequantize(Storage storage, Storage multiplied, int64_t expert,
                  const RowOrder::Row &row, std::vector<float> &weight) const {
    const float middle = middleOf(storage);
    const auto columns = static_cast<int64_t>(weight.size());
    for (int64_t first = 0; first < columns; first += rhsColumns) {
      const float scale = ofRhs(expert, row, first);
      const float zero = zeroPoint ? at(zeroPoint, expert, row, first) : middle;
      for (int64_t c = first; c < std::min(first + rhsColumns, columns); ++c)
        weight[c] = (weight[c] - zero) * scale;
    }
    std::vector<std::byte> rounded(columns * sizeof(float));
    storeFloats(multiplied, weight.data(), columns, rounded.data());
    loadFloats(multiplied, rounded.data(), columns, weight.data());
  }

private:
  float at(const View &view, int64_t expert, const RowOrder::Row &row,
           int64_t column) const {
    if (fragments) {
      const int64_t groups = twoDimensions ? 1 : view.columns;
      const int64_t index =
          fragmentNumber(row.packed, column / rhsColumns, groups);
      return twoDimensions ? view.number(expert, index)
                           : view.number(expert * perExpert + index / groups,
                                         index % groups);
    }
    if (atoms) {
      const int64_t index =
          scaleAtomNumber(row.packed, column / rhsColumns, view.columns);
      return view.number(expert * perExpert + index / view.columns,
                         index % view.columns);
    }
    // If each weight row has its own scales, the scales are stored in the same
    // row order as the weight.
    int64_t index = rhsRows == 1 || parts == 1
                        ? row.stored / rhsRows
                        : row.part * (perExpert / parts) + row.index / rhsRows;
    return twoDimensions
               ? view.number(expert, index)
               : view.number(expert * perExpert + index, column / rhsColumns);
  }
};

Result<Scales> scalesOf(KernelRun &run, int64_t lhsRows, int64_t n, int64_t k,
                        int64_t experts) {
  Scales scales;
  scales.step = k;
  scales.given = run.has("lhs_scale");
  const bool ofRhs = run.has("rhs_scale");
  if (scales.given && !ofRhs)
    return run.fail("expected scales for both operands, for the weight only, "
                    "or for neither");
  scales.ofWeights = ofRhs && !scales.given;
  scales.fragments = run.flag("fragments");
  if (scales.fragments && !ofRhs)
    return run.fail("expected scales of the weight with fragments");
  if (!ofRhs)
    return scales;
  auto extent = [&](const char *attribute, int64_t whole) {
    int64_t value = run.integer(attribute);
    return value == -1 ? whole : value;
  };
  scales.lhsRows = run.integer("lhs_group_rows");
  scales.lhsColumns = scales.given ? extent("lhs_group_columns", k) : k;
  scales.parts = run.flag("gate_up") ? 2 : 1;
  scales.partRows = n / scales.parts;
  scales.rhsRows = extent("rhs_group_rows", scales.partRows);
  scales.rhsColumns = extent("rhs_group_columns", k);
  scales.twoDimensions = run.integer("rhs_group_columns") == -1;
  scales.step = std::min(scales.lhsColumns, scales.rhsColumns);
  const int64_t wider = std::max(scales.lhsColumns, scales.rhsColumns);
  if (scales.fragments &&
      (n % kFragmentRows || k % kFragmentRows || scales.rhsRows != 1))
    return run.fail("expected a scale for each row of a weight in fragments, "
                    "of multiples of {} rows and columns, got {} x {} and "
                    "scales of {} rows",
                    kFragmentRows, n, k, scales.rhsRows);
  // If the attribute of a group extent is missing, the extent and thus `least`
  // are 0.
  const int64_t least =
      std::min({scales.rhsRows, scales.rhsColumns, scales.lhsColumns});
  if (least < 1 || scales.lhsRows > 1 || n % scales.parts ||
      (scales.given && wider < k && wider % scales.step))
    return run.fail(
        "expected lhs groups within one row, as many gates as ups, and groups "
        "that divide each other, got {} x {} and {} x {} of {} rows",
        scales.lhsRows, scales.lhsColumns, scales.rhsRows, scales.rhsColumns,
        n);
  scales.perExpert =
      scales.parts * ((scales.partRows + scales.rhsRows - 1) / scales.rhsRows);
  scales.lhs =
      TRY(run.neededIfNamed("lhs_scale", scales.lhsRows == 1 ? lhsRows : 1,
                            (k + scales.lhsColumns - 1) / scales.lhsColumns));
  // With block scales of lhs, only the weight's scales are in another order.
  scales.atoms =
      scales.fragments && scales.lhs && storageBits(scales.lhs.storage) == 8;
  scales.fragments &= !scales.atoms;
  const int64_t blockColumns = fragmentColumns(FragmentKind::ScaleAtoms);
  if (scales.atoms &&
      (scales.rhsRows != 1 || scales.twoDimensions ||
       scales.perExpert % fragmentRows(FragmentKind::ScaleAtoms) ||
       k % (scales.rhsColumns * blockColumns)))
    return run.fail("expected whole blocks of scales, got {} rows of {} "
                    "columns with scales of {} columns",
                    scales.perExpert, k, scales.rhsColumns);
  auto ofWeight = [&](const char *name) {
    return scales.twoDimensions
               ? run.neededIfNamed(name, experts, scales.perExpert)
               : run.neededIfNamed(name, experts * scales.perExpert,
                                   (k + scales.rhsColumns - 1) /
                                       scales.rhsColumns);
  };
  scales.rhs = TRY(ofWeight("rhs_scale"));
  scales.zeroPoint = TRY(ofWeight("rhs_zero_point"));
  scales.secondPerRow = run.flag("rhs_second_per_row");
  scales.second = TRY(run.neededIfNamed(
      "rhs_second_scale", experts, scales.secondPerRow ? n : scales.parts));
  if (run.flag("lhs_second_per_row")) {
    scales.lhsSeconds = TRY(run.needed("lhs_second_scale", lhsRows, 1));
  } else if (run.has("lhs_second_scale")) {
    const int64_t count = TRY(run.columnsOf("lhs_second_scale"));
    View ofLhs = TRY(run.needed("lhs_second_scale", 1, count));
    scales.lhsSecond = 0;
    for (int64_t i = 0; i < count; ++i)
      scales.lhsSecond = std::max(scales.lhsSecond, ofLhs.number(0, i));
  }
  return scales;
}

/// The operands of a launch. multiply() computes one tile.
class Operands {
public:
  std::vector<Tile> work;
  int64_t n = 0;

  static Result<Operands> read(KernelRun &run);

  /// Computes and stores columns [begin, end) of a tile's result.
  void multiply(const Tile &tile, int64_t begin, int64_t end) const;

private:
  Result<void> readSource(KernelRun &run, int64_t endRow);
  Result<void> checkFragments(const KernelRun &run) const;
  /// Loads and dequantizes weight row `c` of an expert into `weight`. `codes`:
  /// a buffer for k codes.
  void loadWeight(int64_t expert, int64_t c, std::vector<std::byte> &codes,
                  std::vector<float> &weight) const;
  /// Returns the dot product of `left`, the lhs row of result row `row`, and a
  /// weight row. The second scale is not applied.
  float multiplyRow(const float *left, int64_t row,
                    const std::vector<float> &weight, int64_t expert,
                    const RowOrder::Row &stored) const;

  int64_t k = 0, experts = 0;
  RowOrder order;
  std::vector<int64_t> source; ///< the lhs row that each result row uses
  int64_t lhsRows = 0;
  View lhs, rhs, bias, result;
  Scales scales;
  FragmentKind fragments = FragmentKind::Codes;
};

Result<Operands> Operands::read(KernelRun &run) {
  Operands made;
  made.n = run.integer("n");
  made.k = run.integer("k");
  made.experts = run.integer("experts");
  const int64_t pairs = run.flag("gather") ? run.integer("pairs") : 1;
  if (made.n < 1 || made.k < 1 || made.experts < 1 || pairs < 1)
    return run.fail(
        "expected n, k, experts and pairs of at least 1, got {}, {}, {}, {}",
        made.n, made.k, made.experts, pairs);
  made.order = TRY(RowOrder::of(run, made.n));
  made.work = TRY(readTiles(run));
  int64_t endRow = 0;
  for (const Tile &tile : made.work) {
    if (tile.expert >= made.experts)
      return run.fail("expected tiles of {} experts, got one of expert {}",
                      made.experts, tile.expert);
    endRow = std::max(endRow, tile.end);
  }
  TRY(made.readSource(run, endRow));
  made.lhs = TRY(run.needed("lhs", made.lhsRows, made.k));
  made.rhs = TRY(run.needed("rhs", made.experts * made.n, made.k));
  made.scales = TRY(scalesOf(run, made.lhsRows, made.n, made.k, made.experts));
  made.fragments = codesFor(made.lhs.storage);
  TRY(made.checkFragments(run));
  made.bias = TRY(run.neededIfNamed("bias", made.experts, made.n));
  if (TRY(run.ofRank("add_bias", 1)) == 0)
    made.bias = View();
  made.result = TRY(run.neededResult("result", endRow, made.n));
  return made;
}

/// Sets the lhs row of each result row. If the stage gathers, this is the token
/// of the pair in `rows`; otherwise the lhs row has the same index as the
/// result row.
Result<void> Operands::readSource(KernelRun &run, int64_t endRow) {
  source.assign(endRow, 0);
  lhsRows = endRow;
  if (!run.flag("gather")) {
    for (int64_t row = 0; row < endRow; ++row)
      source[row] = row;
    return {};
  }
  const int64_t pairs = run.integer("pairs");
  View rows = TRY(run.needed("rows", 1, endRow));
  lhsRows = 0;
  for (const Tile &tile : work)
    for (int64_t row = tile.begin; row < tile.end; ++row) {
      int64_t pair = rows.integer(0, row);
      if (pair < 0)
        return run.fail("expected pairs >= 0 in rows, got {} at {}", pair, row);
      source[row] = pair / pairs;
      lhsRows = std::max(lhsRows, source[row] + 1);
    }
  return {};
}

Result<void> Operands::checkFragments(const KernelRun &run) const {
  if (!scales.fragments)
    return {};
  if (storageBits(rhs.storage) != 4 &&
      (storageBits(rhs.storage) > 8 || fragments != FragmentKind::Codes))
    return run.fail("expected codes of 4 bits in fragments, or of 6 or 8 for "
                    "lhs of 16 bits, got {} bits",
                    storageBits(rhs.storage));
  if (k % fragmentColumns(fragments))
    return run.fail("expected whole blocks of {} columns in fragments, got {}",
                    fragmentColumns(fragments), k);
  return {};
}

void Operands::loadWeight(int64_t expert, int64_t c,
                          std::vector<std::byte> &codes,
                          std::vector<float> &weight) const {
  const std::byte *from = rhs.at(expert * n + c);
  if (scales.fragments) {
    loadFragmentRow(fragments, rhs.storage, rhs.at(expert * n), c, k,
                    codes.data());
    from = codes.data();
  }
  loadFloats(rhs.storage, from, k, weight.data());
  if (scales.given)
    for (float &value : weight)
      value -= middleOf(rhs.storage);
  if (scales.ofWeights)
    scales.dequantize(rhs.storage, lhs.storage, expert, order.at(c), weight);
}

float Operands::multiplyRow(const float *left, int64_t row,
                            const std::vector<float> &weight, int64_t expert,
                            const RowOrder::Row &stored) const {
  const int64_t step = scales.given ? scales.step : k;
  float sum = 0;
  for (int64_t at = 0; at < k; at += step) {
    float part = dot(left + at, &weight[at], std::min(step, k - at));
    if (scales.given)
      part *= scales.ofLhs(source[row], at) * scales.ofRhs(expert, stored, at);
    sum += part;
  }
  return sum;
}

void Operands::multiply(const Tile &tile, int64_t begin, int64_t end) const {
  const int64_t rowCount = tile.end - tile.begin, columns = end - begin;
  std::vector<float> left(rowCount * k), weight(k), biases(n);
  std::vector<float> products(rowCount * columns);
  std::vector<std::byte> codes(scales.fragments ? k : 0);
  for (int64_t r = 0; r < rowCount; ++r)
    loadFloats(lhs.storage, lhs.at(source[tile.begin + r]), k, &left[r * k]);
  if (bias)
    loadFloats(bias.storage, bias.at(tile.expert), n, biases.data());
  for (int64_t c = begin; c < end; ++c) {
    loadWeight(tile.expert, c, codes, weight);
    const RowOrder::Row stored = order.at(c);
    const float second = scales.secondOf(tile.expert, stored);
    for (int64_t r = 0; r < rowCount; ++r) {
      const float sum = multiplyRow(&left[r * k], tile.begin + r, weight,
                                    tile.expert, stored);
      const float ofRow =
          scales.lhsSeconds
              ? scales.lhsSeconds.number(source[tile.begin + r], 0)
              : 1.0f;
      products[r * columns + c - begin] =
          sum * (second * ofRow) + biases[stored.stored];
    }
  }
  for (int64_t r = 0; r < rowCount; ++r)
    storeFloats(result.storage, &products[r * columns], columns,
                result.at(tile.begin + r, begin));
}

} // namespace

Result<void> stages::grouped_matmul(KernelRun &run) {
  const Operands operands = TRY(Operands::read(run));
  if (operands.work.empty())
    return {};
  constexpr int64_t chunkColumns = 64;
  const int64_t chunks = (operands.n + chunkColumns - 1) / chunkColumns;
  const int64_t items = static_cast<int64_t>(operands.work.size()) * chunks;
  Progress progress("host device: tiles of a matmul", items);
  parallelFor(run.threads, items, 1, [&](int64_t item, int64_t) {
    const int64_t begin = item % chunks * chunkColumns;
    operands.multiply(operands.work[item / chunks], begin,
                      std::min(begin + chunkColumns, operands.n));
    progress.advance();
  });
  return {};
}
