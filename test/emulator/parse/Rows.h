//===- Rows.h - the table of instructions -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row has the pattern of a name, the operands, and what executes it. Each
// part of a name must be one that a row lists: nothing of a name is ignored.
//
// A pattern is parts with points between them. `a|b` is one of several, `?`
// before a part says that it may be absent:
//
//   add.?rn|rz.?ftz.f32
//
// Operands, with blanks between them; a number is the bytes of a lane, 0 a
// predicate, * any register:
//
//   d4       a destination            d4|p    with a predicate after it
//   s4       a source                 m       an address in brackets
//   L4, K4   braces of destinations, of sources
//   t        an address and braces of coordinates, both in brackets
//   i        an integer               #1      that very word
//   [s4]     may be absent
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_PARSE_ROWS_H
#define MOEC_TEST_EMULATOR_PARSE_ROWS_H

#include "test/emulator/core/Program.h"

#include <string_view>

namespace moec::emulator {

/// The parts of a name, one for each part of the pattern; "" if absent.
struct NameParts {
  std::vector<std::string_view> parts;

  std::string_view last() const { return parts.back(); }
  bool has(std::string_view word) const;
};

/// The parts by which `name` matches `pattern`; empty if it does not.
NameParts matchName(std::string_view pattern, std::string_view name);

struct Row {
  std::string pattern, operands;
  Inst::Execute execute = nullptr;
  /// Sets what is neither an operand nor a function. Throws a sentence if a
  /// combination is not covered.
  void (*build)(Inst &, const NameParts &) = nullptr;
};
using Rows = std::vector<Row>;

// Each file of instructions adds its rows.
void addIntegerRows(Rows &rows);
void addFloatRows(Rows &rows);
void addRoundingRows(Rows &rows);
void addBitRows(Rows &rows);
void addComparisonRows(Rows &rows);
void addMoveRows(Rows &rows);
void addConversionRows(Rows &rows);
void addMemoryRows(Rows &rows);
void addAtomicRows(Rows &rows);
void addLaneRows(Rows &rows);
void addControlRows(Rows &rows);
void addBarrierRows(Rows &rows);
void addMbarrierRows(Rows &rows);
void addAsyncCopyRows(Rows &rows);
void addBulkCopyRows(Rows &rows);
void addMatrixRows(Rows &rows);
void addMmaRows(Rows &rows);
void addWgmmaRows(Rows &rows);
void addTensorAllocateRows(Rows &rows);
void addTensorLoadRows(Rows &rows);
void addTensorCopyRows(Rows &rows);
void addTensorMmaRows(Rows &rows);
void addTensorWorkRows(Rows &rows);

/// All rows, by the first part of their names.
const std::multimap<std::string, Row, std::less<>> &rowsByOpcode();

/// Bytes of a type's name: "u32" 4, "pred" 0, "bf16x2" 4.
unsigned bytesOfType(std::string_view type);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_PARSE_ROWS_H
