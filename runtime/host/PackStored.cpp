//===- PackStored.cpp - weights as checkpoints store them on the host -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pack_stored converts scratch memory, whose elements are in a checkpoint's
// layout, to packed experts. The stage moves elements, converts their
// bits, and duplicates some elements. The inverse restores each stored element,
// and checks that all of its packed copies agree.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Fragments.h"
#include "runtime/host/PackStep.h"
#include "runtime/host/Parallel.h"
#include "runtime/support/Progress.h"
#include "templates/moe/math/host.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

using namespace moec;
using namespace moec::host;

namespace {

/// The mapping from packed rows to stored rows of scales or zero points. One
/// stored scale may apply to several rows and columns of the packed matrix. A
/// part may also have more stored rows than the packed matrix uses.
struct Repeat {
  int64_t partRows = 0, parts = 1, rows = 1, columns = 1;
  int64_t storedPartRows = 0;
  int64_t run = 0; ///< packed rows after which the parts alternate

  int64_t leastPartRows() const { return (partRows + rows - 1) / rows; }
  int64_t row(int64_t packed) const {
    const int64_t part = packed / run % parts;
    const int64_t index = packed / (run * parts) * run + packed % run;
    return part * storedPartRows + index / rows;
  }
};

/// The layout of a matrix in a checkpoint.
struct StoredMatrix {
  int64_t rows = 0, columns = 0; ///< in elements
  int64_t bits = 0;
  bool rowsLast = false;
  int64_t rowsPerWord = 1, columnsPerWord = 1;
  std::vector<int64_t> slots;
  uint32_t added = 0, flipped = 0;
  bool powers = false; ///< 8-bit exponents, which are converted to f32
  /// True if the packed matrix has blocks of 128 rows x 4 columns (block-scaled
  /// MMA layout).
  bool atoms = false;
  bool padded = false; ///< some stored bytes belong to no element of the packed
                       ///< matrix
  Repeat repeat;

  bool isPacked() const { return rowsPerWord * columnsPerWord > 1; }
  /// Returns true if elements are stored without gaps and their size is not a
  /// whole number of bytes.
  bool isStream() const { return !isPacked() && bits % 8 != 0; }
  int64_t bytes() const {
    const int64_t elements =
        atoms ? moe::ScaleAtoms::count(int(rows), int(columns))
              : rows * columns;
    return elements * bits / 8;
  }

  /// The location of an element in the stored matrix: byte offset and bit
  /// shift.
  struct Place {
    int64_t byte = 0, shift = 0;
  };
  Place placeOf(int64_t row, int64_t column) const {
    row = repeat.row(row);
    column /= repeat.columns;
    if (isStream()) {
      const int64_t bit = (row * columns + column) * bits;
      return {bit / 8, bit % 8};
    }
    const int64_t inWord = row % rowsPerWord + column % columnsPerWord;
    const int64_t r = row / rowsPerWord, c = column / columnsPerWord;
    const int64_t word =
        atoms      ? moe::ScaleAtoms::place(int(r), int(c), int(columns))
        : rowsLast ? c * (rows / rowsPerWord) + r
                   : r * (columns / columnsPerWord) + c;
    return {word * wordBytes(),
            isPacked() ? bits * slots[static_cast<size_t>(inWord)] : 0};
  }
  int64_t wordBytes() const { return isPacked() ? 4 : bits / 8; }
  uint32_t mask() const { return (1U << bits) - 1; }
  uint32_t word(const std::byte *from) const {
    uint32_t value = 0;
    std::memcpy(&value, from, static_cast<size_t>(wordBytes()));
    return value;
  }

  /// Loads the stored element for packed element (row, column) and converts its
  /// bits.
  uint32_t load(const std::byte *matrix, int64_t row, int64_t column) const {
    const Place place = placeOf(row, column);
    if (isStream())
      return loadBits(matrix + place.byte, place.shift, bits);
    if (powers) {
      float number = 0;
      loadFloats(Storage::UE8M0, matrix + place.byte, 1, &number);
      return std::bit_cast<uint32_t>(number);
    }
    const uint32_t value = word(matrix + place.byte);
    if (!isPacked())
      return value;
    return (((value >> place.shift) & mask()) + added) ^ flipped;
  }

  /// Stores the element for packed element (row, column); inverse of load().
  void store(std::byte *matrix, int64_t row, int64_t column,
             uint32_t element) const {
    const Place place = placeOf(row, column);
    if (isStream())
      return storeBits(matrix + place.byte, place.shift, bits, element);
    uint32_t value = element;
    if (powers) {
      constexpr int kMantissaBits = 23;
      value = element >> kMantissaBits & 0xFF;
    } else if (isPacked()) {
      value = word(matrix + place.byte) & ~(mask() << place.shift);
      value |= (((element ^ flipped) - added) & mask()) << place.shift;
    }
    std::memcpy(matrix + place.byte, &value, static_cast<size_t>(wordBytes()));
  }
};

Result<StoredMatrix> storedMatrix(KernelRun &run, const PackStep &step) {
  StoredMatrix made;
  Repeat &repeat = made.repeat;
  repeat.parts = run.integer("parts", 1);
  repeat.rows = run.integer("repeat_rows", 1);
  repeat.columns = run.integer("repeat_columns", 1);
  const bool alternate = run.flag("alternate");
  if (repeat.parts < 1 || repeat.rows < 1 || repeat.columns < 1 ||
      step.rows % repeat.parts)
    return run.fail("expected numbers that are repeated over parts of equal "
                    "rows, got {} parts of {} rows, repeated {} x {}",
                    repeat.parts, step.rows, repeat.rows, repeat.columns);
  repeat.partRows = step.rows / repeat.parts;
  repeat.run =
      alternate ? run.integer("run", 1) : std::max<int64_t>(repeat.partRows, 1);
  if (repeat.run < 1 || repeat.partRows % repeat.run)
    return run.fail("expected parts of {} rows to take turns after a divisor "
                    "of that, got {}",
                    repeat.partRows, repeat.run);
  const int64_t leastColumns =
      (step.columns + repeat.columns - 1) / repeat.columns;
  made.rows = run.integer("stored_rows", repeat.parts * repeat.leastPartRows());
  made.columns = run.integer("stored_columns", leastColumns);
  repeat.storedPartRows = made.rows / repeat.parts;
  // These limits keep bit offsets within 64 bits.
  constexpr int64_t kMostExtent = 1 << 30, kMostElements = int64_t(1) << 40;
  if (made.rows % repeat.parts ||
      repeat.storedPartRows < repeat.leastPartRows() ||
      made.columns < leastColumns || made.rows > kMostExtent ||
      made.columns > kMostExtent || made.rows * made.columns > kMostElements)
    return run.fail("expected {} parts of at least {} rows, and at least {} "
                    "columns, got {} stored rows and {} stored columns",
                    repeat.parts, repeat.leastPartRows(), leastColumns,
                    made.rows, made.columns);
  made.atoms = run.flag("atoms");
  made.bits = run.integer("bits");
  made.rowsLast = run.flag("rows_last");
  made.rowsPerWord = run.integer("rows_per_word");
  made.columnsPerWord = run.integer("columns_per_word");
  made.added = static_cast<uint32_t>(run.integer("added"));
  made.flipped = static_cast<uint32_t>(run.integer("flipped"));
  made.powers = run.flag("powers");
  std::istringstream words(run.word("slots"));
  for (int64_t slot = 0; words >> slot;)
    made.slots.push_back(slot);
  constexpr int64_t kWordBits = 32;
  const int64_t perWord = made.rowsPerWord * made.columnsPerWord;
  bool right = made.bits >= 1 && made.rowsPerWord >= 1 &&
               made.columnsPerWord >= 1 && made.rows % made.rowsPerWord == 0 &&
               made.columns % made.columnsPerWord == 0;
  if (right && made.isPacked()) {
    right = made.bits * perWord == kWordBits &&
            static_cast<int64_t>(made.slots.size()) == perWord;
    for (int64_t slot : made.slots)
      right &= slot >= 0 && slot < perWord;
  } else {
    right &= (made.bits % 8 == 0 || (made.bits == 6 && !made.rowsLast &&
                                     made.columns * made.bits % 8 == 0)) &&
             made.bits <= kWordBits;
  }
  if (made.atoms && (made.bits != 8 || made.rowsLast || made.isPacked()))
    return run.fail("expected atoms of elements of 8 bits, each by itself and "
                    "in rows, got {} bits, {} in a word",
                    made.bits, perWord);
  made.padded = made.atoms || made.columns > leastColumns ||
                repeat.storedPartRows > repeat.leastPartRows();
  if (!right)
    return run.fail("expected rows and columns of whole words of 32 bits with "
                    "a slot for each element, got {} x {} elements of {} bits, "
                    "{} x {} in a word, in slots '{}'",
                    made.rows, made.columns, made.bits, made.rowsPerWord,
                    made.columnsPerWord, run.word("slots"));
  return made;
}

/// The operands of one execution of pack_stored or of its inverse.
struct Packing {
  PackStep step;
  StoredMatrix matrix;
  RowOrder order;
  View columns; ///< the stored column of each packed column; empty if the
                ///< column order does not change
  Storage storage = Storage::None; ///< type of packed elements
  int64_t bits = 0;                ///< bits of a packed element
  /// The packed and the stored memory of the step's first expert.
  std::byte *packed = nullptr, *stored = nullptr;
  /// The packed matrix is in fragment order.
  bool areFragments = false;
  FragmentKind kind = FragmentKind::Numbers;

  static Result<Packing> of(KernelRun &run);

  int64_t rowBytes() const { return storageBytes(storage, step.columns); }
  int64_t packedBytes() const {
    return areFragments ? storageBytes(storage, step.rows * step.columns)
                        : step.rows * rowBytes();
  }
  int64_t storedRow(int64_t row) const { return order.at(row).stored; }
  int64_t storedColumn(int64_t expert, int64_t column) const {
    return columns ? columns.integer(step.firstExpert + expert, column)
                   : column;
  }
  /// Returns the bits of a packed element, computed from the stored matrix.
  uint32_t elementAt(int64_t expert, int64_t row, int64_t column) const {
    return matrix.load(stored + expert * matrix.bytes(), storedRow(row),
                       storedColumn(expert, column));
  }
  /// Returns the bit offset of an element within an expert's packed matrix.
  int64_t bitOf(int64_t row, int64_t column) const {
    return areFragments ? fragmentBit(kind, storage, row, column, step.columns)
                        : row * rowBytes() * 8 + column * bits;
  }
  void write(int64_t expert, int64_t row, int64_t column) const {
    const uint32_t element = elementAt(expert, row, column);
    const int64_t bit = bitOf(row, column);
    std::byte *to = packed + expert * packedBytes();
    // The first 4-bit element of a byte also clears the bits of the byte that
    // belong to no element.
    if (bits == 4 && !areFragments && bit % 8 == 0)
      to[bit / 8] = std::byte{};
    storeBits(to, bit, bits, element);
  }
  uint32_t read(int64_t expert, int64_t row, int64_t column) const {
    return loadBits(packed + expert * packedBytes(), bitOf(row, column), bits);
  }
};

Result<Packing> Packing::of(KernelRun &run) {
  Packing made;
  made.step = TRY(PackStep::of(run));
  const PackStep &step = made.step;
  made.matrix = TRY(storedMatrix(run, step));
  made.order = TRY(RowOrder::of(run, step.rows));
  // The elements of an expert are contiguous, so the View may treat them as one
  // row.
  View weight = TRY(
      run.result("destination", step.lastExpert(), step.rows * step.columns));
  View scratch =
      TRY(run.operand("source", 1, step.experts * made.matrix.bytes()));
  if (!scratch || !weight || scratch.storage != Storage::I8)
    return run.fail(
        "expected memory for source and destination, and a source of i8");
  made.columns =
      TRY(readOrder(run, step.firstExpert, step.experts, step.columns));
  if (made.matrix.powers &&
      (made.matrix.bits != 8 || weight.storage != Storage::F32))
    return run.fail(
        "expected powers of two of 8 bits that become f32, got {} bits",
        made.matrix.bits);
  made.storage = weight.storage;
  made.bits = storageBits(weight.storage);
  made.packed = weight.at(step.firstExpert);
  made.stored = scratch.data;
  if (!run.hasAttribute("fragment_columns"))
    return made;
  const int64_t block = run.integer("fragment_columns");
  std::optional<FragmentKind> kind;
  for (const FragmentKind one :
       {FragmentKind::Codes, FragmentKind::CodesOfBytes, FragmentKind::Numbers,
        FragmentKind::ScaleAtoms})
    if (fragmentColumns(one) == block)
      kind = one;
  const bool rightBits =
      kind == FragmentKind::Numbers ||
      (made.bits == 4 && kind != FragmentKind::ScaleAtoms) ||
      ((made.bits == 6 || made.bits == 8) && kind == FragmentKind::Codes) ||
      (made.bits == 8 && kind == FragmentKind::ScaleAtoms);
  const int64_t blockRows = fragmentRows(kind.value_or(FragmentKind::Numbers));
  if (!kind || step.rows % blockRows || step.columns % block || !rightBits)
    return run.fail("expected whole blocks of {} rows and {} columns, got {} x "
                    "{} elements of {} bits",
                    blockRows, block, step.rows, step.columns, made.bits);
  made.areFragments = true;
  made.kind = *kind;
  return made;
}

/// Calls body(expert, row) for all rows of all experts. One thread processes
/// `together` consecutive rows, because different rows of a fragment block or
/// of a 32-bit word modify the same bytes.
template <typename Body>
void forEachRow(const KernelRun &run, int64_t experts, int64_t rows,
                int64_t together, Body body) {
  const int64_t blocks = (rows + together - 1) / together;
  Progress progress("host device: blocks of a packed weight", experts * blocks);
  parallelFor(run.threads, experts * blocks, 1, [&](int64_t item, int64_t) {
    const int64_t first = item % blocks * together;
    for (int64_t row = first; row < std::min(first + together, rows); ++row)
      body(item / blocks, row);
    progress.advance();
  });
}

} // namespace

Result<void> stages::pack_stored(KernelRun &run) {
  const Packing packing = TRY(Packing::of(run));
  const PackStep &step = packing.step;
  forEachRow(run, step.experts, step.rows,
             packing.areFragments ? fragmentRows(packing.kind) : 1,
             [&](int64_t expert, int64_t row) {
               for (int64_t column = 0; column < step.columns; ++column)
                 packing.write(expert, row, column);
             });
  return {};
}

//===----------------------------------------------------------------------===//
// The inverse
//===----------------------------------------------------------------------===//

/// Checks that each bit of the stored words belongs to some packed element, so
/// that the inverse can restore it.
static Result<void> checkCovers(KernelRun &run, const Packing &packing) {
  std::vector<int64_t> slots = packing.matrix.slots;
  std::ranges::sort(slots);
  if (std::ranges::adjacent_find(slots) != slots.end())
    return run.fail("expected each slot once, got '{}'", run.word("slots"));
  const PackStep &step = packing.step;
  for (int64_t expert = 0; packing.columns && expert < step.experts; ++expert) {
    std::vector<bool> seen(static_cast<size_t>(step.columns));
    for (int64_t c = 0; c < step.columns; ++c) {
      const auto column = static_cast<size_t>(packing.storedColumn(expert, c));
      if (seen[column])
        return changedSince();
      seen[column] = true;
    }
  }
  return {};
}

Result<void> opposites::pack_stored(KernelRun &run) {
  const Packing packing = TRY(Packing::of(run));
  TRY(checkCovers(run, packing));
  const PackStep &step = packing.step;
  const StoredMatrix &matrix = packing.matrix;
  // Padding bytes become zero.
  if (matrix.padded)
    std::memset(packing.stored, 0,
                static_cast<size_t>(step.experts * matrix.bytes()));
  // The packed rows that each stored row was copied to.
  std::vector<std::vector<int64_t>> became(static_cast<size_t>(matrix.rows));
  for (int64_t row = 0; row < step.rows; ++row)
    became[static_cast<size_t>(matrix.repeat.row(packing.storedRow(row)))]
        .push_back(row);
  forEachRow(run, step.experts, matrix.rows, matrix.rowsPerWord,
             [&](int64_t expert, int64_t storedRow) {
               std::byte *to = packing.stored + expert * matrix.bytes();
               for (int64_t row : became[static_cast<size_t>(storedRow)])
                 for (int64_t c = 0; c < step.columns; ++c)
                   matrix.store(to, packing.storedRow(row),
                                packing.storedColumn(expert, c),
                                packing.read(expert, row, c));
             });
  // All packed copies of a stored element must agree. A packed scale that came
  // from an 8-bit exponent must be an exact power of two.
  const uint32_t mask =
      packing.bits < 32 ? (1U << packing.bits) - 1 : UINT32_MAX;
  std::atomic<bool> wrong = false;
  forEachRow(run, step.experts, step.rows, 1, [&](int64_t expert, int64_t row) {
    for (int64_t c = 0; c < step.columns; ++c) {
      const uint32_t is = packing.read(expert, row, c);
      const uint32_t expected = packing.elementAt(expert, row, c) & mask;
      const bool areNaN = matrix.powers &&
                          std::isnan(std::bit_cast<float>(is)) &&
                          std::isnan(std::bit_cast<float>(expected));
      if (is != expected && !areNaN)
        wrong = true;
    }
  });
  if (wrong)
    return changedSince();
  return {};
}
