//===- Pack.cpp - the stages that pack weights on the host --------------- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// pack_copy takes stored experts first_expert.. to scratch; pack_interleave
// takes scratch to the same experts of the packed weight, its gate and up rows
// alternating; pack_stored does so out of scratch in which elements lie as a
// checkpoint has them. Through scratch, source and destination may be one
// memory.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Fragments.h"
#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"

#include <bit>
#include <cstring>
#include <sstream>

using namespace moec;
using namespace moec::host;

namespace {

struct PackStep {
  int64_t rows = 0, columns = 0, firstExpert = 0, experts = 0;
  int64_t lastExpert() const { return firstExpert + experts; }
};

Result<PackStep> stepOf(KernelRun &run) {
  PackStep step;
  step.rows = run.integer("rows");
  step.columns = run.integer("columns");
  step.firstExpert = TRY(run.size("first_expert"));
  step.experts = TRY(run.size("experts"));
  if (step.rows < 1 || step.columns < 1 || step.firstExpert < 0 ||
      step.experts < 1)
    return run.fail("expected rows, columns and experts of at least 1, got {}, "
                    "{}, {} from expert {}",
                    step.rows, step.columns, step.experts, step.firstExpert);
  return step;
}

/// Copies rows; `rowOf` gives the source of each row. Scratch may be declared
/// as bytes (i8), so both sides are contiguous memory of the weight's type.
template <typename RowOf>
Result<void> copyRows(KernelRun &run, const PackStep &step,
                      const std::byte *source, std::byte *destination,
                      Storage storage, RowOf rowOf) {
  int64_t bytes = storageBytes(storage, step.columns);
  parallelFor(run.threads, step.experts * step.rows, 256,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  int64_t first = i / step.rows * step.rows;
                  std::memcpy(destination + i * bytes,
                              source + (first + rowOf(i % step.rows)) * bytes,
                              static_cast<size_t>(bytes));
                }
              });
  return {};
}

/// Scratch of one step, of the weight's element type or of bytes.
Result<View> scratchOf(KernelRun &run, const PackStep &step, const View &weight,
                       bool isResult) {
  auto view = [&](int64_t rows, int64_t columns) {
    return isResult ? run.result("destination", rows, columns)
                    : run.operand("source", rows, columns);
  };
  // Nothing is read of 0 rows; this tells the element type.
  View scratch = TRY(view(0, step.columns));
  int64_t rows = step.experts * step.rows;
  bool isBytes = scratch.storage == Storage::I8;
  scratch =
      TRY(isBytes ? view(1, rows * storageBytes(weight.storage, step.columns))
                  : view(rows, step.columns));
  if (!scratch || !weight || (!isBytes && scratch.storage != weight.storage))
    return run.fail("expected memory for source and destination, of one "
                    "element type or scratch of i8");
  return scratch;
}

} // namespace

Result<void> stages::pack_copy(KernelRun &run) {
  PackStep step = TRY(stepOf(run));
  View weight = TRY(run.operand(
      "source", (step.firstExpert + step.experts) * step.rows, step.columns));
  View scratch = TRY(scratchOf(run, step, weight, /*isResult=*/true));
  return copyRows(run, step, weight.at(step.firstExpert * step.rows),
                  scratch.data, weight.storage,
                  [](int64_t row) { return row; });
}

Result<void> stages::pack_interleave(KernelRun &run) {
  PackStep step = TRY(stepOf(run));
  RowOrder order = TRY(RowOrder::of(run, step.rows));
  if (order.interleave < 1)
    return run.fail("expected rows that are interleaved, got 0");
  View weight = TRY(run.result("destination",
                               (step.firstExpert + step.experts) * step.rows,
                               step.columns));
  View scratch = TRY(scratchOf(run, step, weight, /*isResult=*/false));
  return copyRows(run, step, scratch.data,
                  weight.at(step.firstExpert * step.rows), weight.storage,
                  [&](int64_t row) { return order.at(row).stored; });
}

namespace {

/// Numbers that are those of several rows and columns of the packed matrix.
struct Repeat {
  int64_t partRows = 0, parts = 1, rows = 1, columns = 1;
  bool alternate = false;

  int64_t rowsOfPart() const { return (partRows + rows - 1) / rows; }
  int64_t row(int64_t packed) const {
    const int64_t part = alternate ? packed % parts : packed / partRows;
    const int64_t index = alternate ? packed / parts : packed % partRows;
    return part * rowsOfPart() + index / rows;
  }
};

/// A matrix as a checkpoint stores it.
struct StoredMatrix {
  int64_t rows = 0, columns = 0; ///< of elements
  int64_t bits = 0;
  bool rowsLast = false;
  int64_t rowsPerWord = 1, columnsPerWord = 1;
  std::vector<int64_t> slots;
  uint32_t added = 0, flipped = 0;
  bool powers = false; ///< exponents of 8 bits, which become f32
  Repeat repeat;

  bool isPacked() const { return rowsPerWord * columnsPerWord > 1; }
  int64_t bytes() const { return rows * columns * bits / 8; }

  /// The bits of one element of the packed matrix, as they are there.
  uint32_t load(const std::byte *matrix, int64_t row, int64_t column) const {
    row = repeat.row(row);
    column /= repeat.columns;
    const int64_t inWord = row % rowsPerWord + column % columnsPerWord;
    const int64_t r = row / rowsPerWord, c = column / columnsPerWord;
    const int64_t word = rowsLast ? c * (rows / rowsPerWord) + r
                                  : r * (columns / columnsPerWord) + c;
    const int64_t wordBytes = isPacked() ? 4 : bits / 8;
    uint32_t value = 0;
    std::memcpy(&value, matrix + word * wordBytes,
                static_cast<size_t>(wordBytes));
    if (powers) {
      float number = 0;
      loadFloats(Storage::UE8M0, matrix + word, 1, &number);
      return std::bit_cast<uint32_t>(number);
    }
    if (!isPacked())
      return value;
    value = value >> (bits * slots[static_cast<size_t>(inWord)]) &
            ((1U << bits) - 1);
    return (value + added) ^ flipped;
  }
};

Result<StoredMatrix> storedMatrix(KernelRun &run, const PackStep &step) {
  StoredMatrix made;
  const nlohmann::json &attributes = run.stage->attributes;
  Repeat &repeat = made.repeat;
  repeat.parts = attributes.value("parts", int64_t(1));
  repeat.rows = attributes.value("repeat_rows", int64_t(1));
  repeat.columns = attributes.value("repeat_columns", int64_t(1));
  repeat.alternate = attributes.value("alternate", false);
  if (repeat.parts < 1 || repeat.rows < 1 || repeat.columns < 1 ||
      step.rows % repeat.parts)
    return run.fail("expected numbers that are repeated over parts of equal "
                    "rows, got {} parts of {} rows, repeated {} x {}",
                    repeat.parts, step.rows, repeat.rows, repeat.columns);
  repeat.partRows = step.rows / repeat.parts;
  made.rows = repeat.parts * repeat.rowsOfPart();
  made.columns = (step.columns + repeat.columns - 1) / repeat.columns;
  made.bits = run.integer("bits");
  made.rowsLast = run.stage->attributes.at("rows_last").get<bool>();
  made.rowsPerWord = run.integer("rows_per_word");
  made.columnsPerWord = run.integer("columns_per_word");
  made.added = static_cast<uint32_t>(run.integer("added"));
  made.flipped = static_cast<uint32_t>(run.integer("flipped"));
  made.powers = run.stage->attributes.value("powers", false);
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
    right &= made.bits % 8 == 0 && made.bits <= kWordBits;
  }
  if (!right)
    return run.fail("expected rows and columns of whole words of 32 bits with "
                    "a slot for each element, got {} x {} elements of {} bits, "
                    "{} x {} in a word, in slots '{}'",
                    made.rows, made.columns, made.bits, made.rowsPerWord,
                    made.columnsPerWord, run.word("slots"));
  return made;
}

/// Into the order of fragments. elementAt: the bits of an expert's element.
template <typename ElementAt>
Result<void> packFragments(KernelRun &run, const PackStep &step,
                           Storage storage, std::byte *destination,
                           ElementAt elementAt) {
  const int64_t block = run.integer("fragment_columns");
  const int64_t bits = storageBits(storage);
  std::optional<FragmentKind> found;
  for (const FragmentKind kind :
       {FragmentKind::Codes, FragmentKind::CodesOfBytes, FragmentKind::Numbers})
    if (fragmentColumns(kind) == block)
      found = kind;
  const bool rightBits = found == FragmentKind::Numbers || bits == 4 ||
                         (bits == 8 && found == FragmentKind::Codes);
  if (!found || step.rows % kFragmentRows || step.columns % block || !rightBits)
    return run.fail("expected whole blocks of {} rows and {} columns, got {} x "
                    "{} elements of {} bits",
                    kFragmentRows, block, step.rows, step.columns, bits);
  const FragmentKind kind = *found;
  const int64_t bytes = storageBytes(storage, step.rows * step.columns);
  // Rows of a block share bytes.
  const int64_t blocks = step.rows / kFragmentRows;
  parallelFor(run.threads, step.experts * blocks, 1,
              [&](int64_t item, int64_t) {
                const int64_t expert = item / blocks;
                std::byte *to = destination + expert * bytes;
                const int64_t first = item % blocks * kFragmentRows;
                std::memset(to + bytes / blocks * (item % blocks), 0,
                            static_cast<size_t>(bytes / blocks));
                for (int64_t row = first; row < first + kFragmentRows; ++row)
                  for (int64_t c = 0; c < step.columns; ++c) {
                    const uint32_t element = elementAt(expert, row, c);
                    const int64_t bit =
                        fragmentBit(kind, storage, row, c, step.columns);
                    if (bits == 4)
                      to[bit / 8] |= static_cast<std::byte>(element << bit % 8);
                    else
                      std::memcpy(to + bit / 8, &element,
                                  static_cast<size_t>(bits / 8));
                  }
              });
  return {};
}

} // namespace

Result<void> stages::pack_stored(KernelRun &run) {
  PackStep step = TRY(stepOf(run));
  StoredMatrix matrix = TRY(storedMatrix(run, step));
  RowOrder order = TRY(RowOrder::of(run, step.rows));
  // Of one expert all elements stand behind each other, whatever their shape.
  View weight = TRY(run.result("destination", step.firstExpert + step.experts,
                               step.rows * step.columns));
  View scratch = TRY(run.operand("source", 1, step.experts * matrix.bytes()));
  if (!scratch || !weight || scratch.storage != Storage::I8)
    return run.fail(
        "expected memory for source and destination, and a source of i8");
  View columns =
      TRY(readOrder(run, step.firstExpert, step.experts, step.columns));
  if (matrix.powers && (matrix.bits != 8 || weight.storage != Storage::F32))
    return run.fail(
        "expected powers of two of 8 bits that become f32, got {} bits",
        matrix.bits);
  const int64_t bits = storageBits(weight.storage);
  const int64_t rowBytes = storageBytes(weight.storage, step.columns);
  std::byte *destination = weight.at(step.firstExpert);
  const auto elementAt = [&](int64_t expert, int64_t row, int64_t c) {
    return matrix.load(
        scratch.data + expert * matrix.bytes(), order.at(row).stored,
        columns ? columns.integer(step.firstExpert + expert, c) : c);
  };
  if (run.stage->attributes.contains("fragment_columns"))
    return packFragments(run, step, weight.storage, destination, elementAt);
  parallelFor(run.threads, step.experts * step.rows, 16,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  std::byte *row = destination + i * rowBytes;
                  for (int64_t c = 0; c < step.columns; ++c) {
                    const uint32_t element =
                        elementAt(i / step.rows, i % step.rows, c);
                    if (bits == 4) {
                      const auto nibble =
                          static_cast<uint8_t>(element << c % 2 * 4);
                      row[c / 2] = (c % 2 ? row[c / 2] : std::byte{0}) |
                                   static_cast<std::byte>(nibble);
                    } else {
                      std::memcpy(row + c * bits / 8, &element,
                                  static_cast<size_t>(bits / 8));
                    }
                  }
                }
              });
  return {};
}
