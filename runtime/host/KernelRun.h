//===- KernelRun.h - one launch on the host device --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/host: a launch as the stage implementations see it. A
// KernelRun provides operands and results as Views, the grid, and the values
// that exist only within the kernel (named "%name" in the manifest). Views are
// created from the packed argument block at the manifest's offsets, and are
// checked against the memory that the launch may access.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_KERNELRUN_H
#define MOEC_RUNTIME_HOST_KERNELRUN_H

#include "runtime/comm/Window.h"
#include "runtime/host/Element.h"
#include "runtime/package/Manifest.h"
#include "runtime/package/Stages.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec::host {

/// An address range of the value `value` that a launch may access.
struct Range {
  uint64_t begin = 0, end = 0;
  std::string_view value;
};

/// A matrix in memory. Element (r, c) has index r * rowStride + c; each row
/// starts at a byte boundary. `data` is null for an absent optional operand.
struct View {
  std::byte *data = nullptr;
  Storage storage = Storage::None;
  int64_t rows = 0, columns = 0, rowStride = 0;

  explicit operator bool() const { return data; }
  std::byte *at(int64_t row, int64_t column = 0) const {
    return data + (row * rowStride + column) * storageBits(storage) / 8;
  }
  int64_t integer(int64_t row, int64_t column = 0) const {
    return loadInteger(storage, at(row, column), 0);
  }
  float number(int64_t row, int64_t column = 0) const {
    float value = 0;
    loadFloats(storage, at(row, column), 1, &value);
    return value;
  }
  void setInteger(int64_t row, int64_t column, int64_t value) const {
    storeInteger(storage, at(row, column), 0, value);
  }
};

/// The state of one launch while its stages execute.
class KernelRun {
public:
  const Manifest &manifest;
  const Target &target;
  const Kernel &kernel;
  Symbols symbols;
  std::array<int64_t, 3> grid;
  std::span<const std::byte> arguments; ///< the packed argument block
  std::vector<Range> ranges;
  int64_t threads = 1;
  const comm::Window *window = nullptr; ///< the window of the run, or null
  const Stage *stage = nullptr;         ///< the stage that is executing

  /// Returns true if the stage has an operand `name`.
  bool has(const std::string &name) const {
    return stage->operands.contains(name);
  }
  /// Returns operand `name` as a matrix of rows x columns elements. The View is
  /// empty if the stage or the run has no such optional operand.
  Result<View> operand(const std::string &name, int64_t rows, int64_t columns);
  /// Like operand(), but needed() returns an error if a nonempty matrix has no
  /// memory. neededIfNamed() additionally accepts that the stage has no such
  /// operand and then returns an empty View.
  Result<View> needed(const std::string &name, int64_t rows, int64_t columns);
  Result<View> neededIfNamed(const std::string &name, int64_t rows,
                             int64_t columns);
  /// Returns result `name`. For a value within the kernel ("%name"), allocates
  /// memory of type `local` and fills it with NaN (floats) or -1 (integers).
  Result<View> result(const std::string &name, int64_t rows, int64_t columns,
                      Storage local = Storage::F32);
  /// Like result(), but returns an error if a nonempty matrix has no memory.
  Result<View> neededResult(const std::string &name, int64_t rows,
                            int64_t columns, Storage local = Storage::F32);
  /// Returns the View of a window value in rank `rank`'s window, at the same
  /// offset as in this rank's window. The address of rank `rank`'s window is
  /// read from the table of window addresses in the argument block.
  Result<View> resultAt(int64_t rank, const std::string &name, int64_t rows,
                        int64_t columns);
  /// Return the extents of an operand. columnsOf() returns the innermost
  /// extent; rowsOf() returns the row count of a value within the kernel
  /// ("%name").
  Result<int64_t> columnsOf(const std::string &name) const;
  Result<int64_t> rowsOf(const std::string &name) const;

  /// Returns the value of the argument field `field`, which must be of kind
  /// Size or FirstExpert.
  Result<int64_t> size(const std::string &field) const;
  /// Returns the per-rank parameter that the stage's operand `operand` names,
  /// or `otherwise` if the stage does not have this operand.
  Result<int64_t> ofRank(const std::string &operand, int64_t otherwise) const;
  /// Returns an attribute of a stage, or `otherwise` if the stage does not have
  /// the attribute.
  static int64_t integer(const Stage &stage, const std::string &attribute,
                         int64_t otherwise = 0);
  int64_t integer(const std::string &attribute, int64_t otherwise = 0) const {
    return integer(*stage, attribute, otherwise);
  }
  bool flag(const std::string &attribute, bool otherwise = false) const;
  std::string word(const std::string &attribute,
                   const std::string &otherwise = "") const;
  std::optional<float> number(const std::string &attribute) const;
  bool hasAttribute(const std::string &attribute) const;

  /// Returns the number of CTAs of the grid.
  int64_t ctas() const;
  /// Returns the number of tokens per block if the stage splits `tokens` into
  /// blocks, or 0 if the stage does not split them.
  static int64_t blockTokens(const Stage &stage, int64_t tokens);
  /// Returns the number of tokens, at most `tokens`, that the grid covers if
  /// each CTA processes `blockTokens` tokens.
  int64_t coveredTokens(int64_t tokens, int64_t blockTokens) const;

  template <typename... Args>
  Error fail(fmt::format_string<Args...> text, Args &&...args) const {
    return invalidManifest("host device, kernel '{}', stage {}: {}",
                           kernel.name, stage->op,
                           fmt::format(text, std::forward<Args>(args)...));
  }

private:
  struct Local {
    std::vector<std::byte> bytes;
    View view;
  };
  std::map<std::string, Local> locals;

  Result<View> view(const std::string &name,
                    const std::map<std::string, std::string> &names,
                    int64_t rows, int64_t columns);
  const ArgumentField *findField(std::string_view name) const;
  const Value *valueOf(const ArgumentField &field) const;
  Result<int64_t> readField(const ArgumentField &field) const;

public:
  KernelRun(const Manifest &manifest, const Target &target,
            const Kernel &kernel)
      : manifest(manifest), target(target), kernel(kernel) {}
};

/// The id that replaces the id of a zero expert in topk_ids. A zero expert has
/// no weights; its pairs pass x through unchanged.
inline constexpr int32_t kIdentityPlace = -2;

/// The stage implementations, named as in runtime/package/Stages.h. Each
/// executes its stage for the whole launch.
namespace stages {
#define MOEC_STAGE(op) Result<void> op(KernelRun &run);
// NOLINTNEXTLINE(readability-identifier-naming): as manifests call them
MOEC_STAGES(MOEC_STAGE)
#undef MOEC_STAGE
} // namespace stages

/// The stages that can be inverted, named as in runtime/package/Stages.h.
#define MOEC_OPPOSITES(STAGE)                                                  \
  STAGE(pack_copy)                                                             \
  STAGE(pack_interleave)                                                       \
  STAGE(pack_stored)                                                           \
  STAGE(pack_order)

/// The inverse stages. Each function computes a packing stage's input from the
/// stage's output, and has the stage's name.
namespace opposites {
#define MOEC_STAGE(op) Result<void> op(KernelRun &run);
// NOLINTNEXTLINE(readability-identifier-naming): as manifests call them
MOEC_OPPOSITES(MOEC_STAGE)
#undef MOEC_STAGE
} // namespace opposites

/// Returns the error for packed memory that no stored weight can have produced.
inline Error changedSince() {
  return invalidArgument("the packed memory holds what no stored weight "
                         "becomes; it was changed after packing");
}

/// Splits the rows [first[e], first[e] + counts[e]) of each expert e into tiles
/// as moe.permute specifies. Writes the tiles, then the tile count, then zeros
/// to the counters of kernels that process tiles.
Result<void> writeTiles(KernelRun &run, std::span<const int64_t> first,
                        std::span<const int64_t> counts);

/// Returns the number of tokens that the grid covers. The number of tokens per
/// CTA comes from the kernel's stage that splits tokens into blocks.
Result<int64_t> tokensOfBlocks(const KernelRun &run);

/// Rows [begin, end) of one expert, which one CTA multiplies as a tile.
struct Tile {
  int64_t expert, begin, end;
};
/// Reads the tiles from the operand `tiles`. At most as many tiles as the grid
/// has CTAs are read.
Result<std::vector<Tile>> readTiles(KernelRun &run);

/// Reads the number of rows of each expert from `expert_num_tokens`, clamped to
/// [0, slots].
Result<std::vector<int64_t>> readExpertCounts(KernelRun &run, int64_t slots);

/// Returns the largest magnitude of the values, or 0 if there are none. NaN is
/// ignored unless `propagatesNan` is true.
float largestOf(const float *values, int64_t count, bool propagatesNan = false);

/// The rows that a stage processes. In batched format, only the first slots of
/// each expert hold rows; the expert's count specifies how many. If the stage
/// has tiles, only rows within a tile exist.
struct RowCount {
  /// `rows`: number of rows. `counted`: number of rows that are not padding;
  /// only these contribute to a scale that all values share.
  int64_t rows = 0, counted = 0;
  int64_t slots = 0;
  /// Row count of each expert; empty unless rows are batched.
  std::vector<int64_t> ofExperts;
  std::vector<bool> inTiles;

  /// Returns true if row index `row` holds a row.
  bool isRow(int64_t row) const;
};
Result<RowCount> countRows(KernelRun &run);

/// Returns the column orders of experts [first, first + count): for each packed
/// column, the index of the stored column. The View is empty if the stage has
/// no operand `order`.
Result<View> readOrder(KernelRun &run, int64_t first, int64_t count,
                       int64_t columns);

/// The order of gate and up rows in the stored and in the packed matrix. In the
/// packed matrix, `interleave` gate rows and `interleave` up rows alternate; 0
/// keeps the stored order. In the stored matrix, gate and up alternate after
/// `run` rows, or one part follows the other.
struct RowOrder {
  int64_t size = 0; ///< number of gate and up rows together
  /// The packed matrix alternates after this many rows; 0: stored order.
  int64_t interleave = 0;
  bool upFirst = false;
  int64_t run = 0; ///< stored rows after which gate and up alternate; 0: never

  struct Row {
    int64_t stored = 0;
    /// The part (0 or 1, in stored order), and the row's index within the part.
    int64_t part = 0, index = 0;
    int64_t packed = 0;
  };
  /// Returns the stored row, part and index that correspond to packed row
  /// `packed`.
  Row at(int64_t packed) const {
    int64_t half = std::max<int64_t>(size / 2, 1);
    if (interleave == 0)
      return {packed, packed / half, packed % half, packed};
    int64_t within = packed % (2 * interleave);
    bool up = within >= interleave;
    int64_t index =
        packed / (2 * interleave) * interleave + within % interleave;
    int64_t part = up != upFirst;
    const int64_t inTurn =
        run > 0 ? index / run * 2 * run + up * run + index % run : 0;
    return {run > 0 ? inTurn : part * half + index, part, index, packed};
  }

  /// Reads the stage's attributes `interleave` and `gate_up_order`.
  static Result<RowOrder> of(KernelRun &run, int64_t size);
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_KERNELRUN_H
