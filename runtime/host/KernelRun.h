//===- KernelRun.h - one launch on the host device ------------*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/host. What the stage kernels see of a launch: operands and
// results as Views, which are made from the packed argument bytes through the
// manifest's offsets and checked against the memory that the launch may touch;
// the grid; values that live inside the kernel ("%name").
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

/// Memory that a launch may touch.
struct Range {
  uint64_t begin = 0, end = 0;
  std::string_view value;
};

/// A matrix in memory: element (r, c) is number r * rowStride + c. `data` is
/// null for an absent optional operand. Rows begin whole bytes.
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

class KernelRun {
public:
  const Manifest &manifest;
  const Target &target;
  const Kernel &kernel;
  Symbols symbols;
  std::array<int64_t, 3> grid;
  std::span<const std::byte> arguments; ///< the packed block
  std::vector<Range> ranges;
  int64_t threads = 1;
  const comm::Window *window = nullptr; ///< of the run, or null
  const Stage *stage = nullptr;         ///< the one that is performed

  /// Whether the stage names the operand.
  bool has(const std::string &name) const {
    return stage->operands.contains(name);
  }
  /// An operand of rows x columns elements. An optional one that the stage or
  /// the run lacks gives an empty View.
  Result<View> operand(const std::string &name, int64_t rows, int64_t columns);
  /// One that must have memory, unless it has no elements; the other only where
  /// the stage names it.
  Result<View> needed(const std::string &name, int64_t rows, int64_t columns);
  Result<View> neededIfNamed(const std::string &name, int64_t rows,
                             int64_t columns);
  /// A result; `local` is the storage of a "%name", which is made here and
  /// filled with NaN or -1.
  Result<View> result(const std::string &name, int64_t rows, int64_t columns,
                      Storage local = Storage::F32);
  Result<View> neededResult(const std::string &name, int64_t rows,
                            int64_t columns, Storage local = Storage::F32);
  /// A result of the window, in that of another rank: by the packed table of
  /// windows, as far behind its begin as in the rank's own.
  Result<View> resultAt(int64_t rank, const std::string &name, int64_t rows,
                        int64_t columns);
  /// The extent of an operand's last dimension: of its value, or of a "%name".
  Result<int64_t> columnsOf(const std::string &name) const;
  Result<int64_t> rowsOf(const std::string &name) const;

  /// A Size or FirstExpert field, by its name.
  Result<int64_t> size(const std::string &field) const;
  /// A number of the rank that the stage names as an operand, or `otherwise`
  /// where it does not.
  Result<int64_t> ofRank(const std::string &operand, int64_t otherwise) const;
  /// Attributes of a stage, or `otherwise` without them.
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

  /// All CTAs of the grid.
  int64_t ctas() const;
  /// Tokens of a block of a stage that splits `tokens`, 0 where none does.
  static int64_t blockTokens(const Stage &stage, int64_t tokens);
  /// Tokens that the grid's blocks cover when each has `blockTokens`.
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

/// The place of a pair whose expert has no weights but hands x on.
inline constexpr int32_t kIdentityPlace = -2;

/// The stages, each called as its row of runtime/package/Stages.h. Each
/// performs the whole launch.
namespace stages {
#define MOEC_STAGE(op) Result<void> op(KernelRun &run);
// NOLINTNEXTLINE(readability-identifier-naming): as manifests call them
MOEC_STAGES(MOEC_STAGE)
#undef MOEC_STAGE
} // namespace stages

/// Stages that lose nothing, by their names in Stages.h.
#define MOEC_OPPOSITES(STAGE)                                                  \
  STAGE(pack_copy)                                                             \
  STAGE(pack_interleave)                                                       \
  STAGE(pack_stored)                                                           \
  STAGE(pack_order)

/// Each makes, of what the stage of its name writes, what that stage read.
namespace opposites {
#define MOEC_STAGE(op) Result<void> op(KernelRun &run);
// NOLINTNEXTLINE(readability-identifier-naming): as manifests call them
MOEC_OPPOSITES(MOEC_STAGE)
#undef MOEC_STAGE
} // namespace opposites

/// The error for packed memory that no stage has made.
inline Error changedSince() {
  return invalidArgument("the packed memory holds what no stored weight "
                         "becomes; it was changed after packing");
}

/// Cuts the `counts[e]` rows of each expert e, the first of which is
/// `first[e]`, into tiles as moe.permute says, and writes them with their count
/// and two zeros, for kernels that take tiles.
Result<void> writeTiles(KernelRun &run, std::span<const int64_t> first,
                        std::span<const int64_t> counts);

/// The tokens that the grid covers; the stage of the kernel that groups them in
/// blocks says how many a CTA takes.
Result<int64_t> tokensOfBlocks(const KernelRun &run);

/// Rows [begin, end) of one expert, which a CTA multiplies.
struct Tile {
  int64_t expert, begin, end;
};
/// The tiles that the grid has CTAs for, in the order of the operand `tiles`.
Result<std::vector<Tile>> readTiles(KernelRun &run);

/// The rows that each expert has of the `slots` that it could have.
Result<std::vector<int64_t>> readExpertCounts(KernelRun &run, int64_t slots);

/// The largest magnitude, of none 0; NaN does not count.
float largestOf(const float *values, int64_t count, bool propagatesNan = false);

/// How many rows there are, and how many count for a scale of all. Of batched
/// rows, an expert has the first so many of its slots as its count says; of
/// the rows of tiles, those in a tile are there.
struct RowCount {
  int64_t rows = 0, counted = 0;
  int64_t slots = 0;
  std::vector<int64_t> ofExperts;
  std::vector<bool> inTiles;

  bool isRow(int64_t row) const;
};
Result<RowCount> countRows(KernelRun &run);

/// For each column of a weight of experts [first, first + count) the stored one
/// that it is; an empty View where the stage has no operand `order`.
Result<View> readOrder(KernelRun &run, int64_t first, int64_t count,
                       int64_t columns);

/// The places of gate and up rows: `interleave` of each in turn as packed (0:
/// as stored), and as stored one behind the other or in turn.
struct RowOrder {
  int64_t size = 0; ///< gate and up together
  int64_t interleave = 0;
  bool upFirst = false;
  int64_t run = 0; ///< rows as stored after which both take turns; 0: never

  struct Row {
    int64_t stored = 0;
    /// The part, gates or ups, and the number in it.
    int64_t part = 0, index = 0;
    int64_t packed = 0;
  };
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

  /// By the stage's attributes interleave and gate_up_order.
  static Result<RowOrder> of(KernelRun &run, int64_t size);
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_KERNELRUN_H
