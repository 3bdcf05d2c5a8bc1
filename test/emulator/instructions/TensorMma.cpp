//===- TensorMma.cpp - multiplies with sums in tensor memory --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tcgen05.mma: D = A B + D. One thread issues; A is in shared or in tensor
// memory, B in shared memory. In the lanes of a CTA:
//
//   128 rows of a CTA         row r in lane r
//   64 rows, one CTA          row r in lane 32 (r / 16) + r % 16
//   64 rows, CTA of a pair    row r in lane r; columns of the second half of N
//                             in lane 64 + r
//
// The scales of row r are in lane r, column r / 32: all quarters of lanes have
// the same ones in their lanes r % 32. Those of column n are in lanes n % 32 of
// all quarters, column n / 32. A byte each.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/TensorDescriptor.h"
#include "test/emulator/instructions/TensorWork.h"
#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

static constexpr unsigned kLanesOfMemory = TensorMemory::kLanes, kMaxRows = 256,
                          kMaxDepth = 64, kMaxScales = 4;

namespace {
/// An instruction with its operands.
struct Multiply {
  TensorInstruction what;
  TensorOperand a, b;
  bool isInTensorMemory = false; ///< A
  unsigned lane = 0, column = 0; ///< of D
  unsigned columnA = 0;
  unsigned columnScaleA = 0, columnScaleB = 0;
  unsigned scales = 0; ///< of a row
  bool accumulates = false;
  int shift = 0;                         ///< D is divided by 2^shift
  std::array<uint32_t, 8> disabled = {}; ///< lanes that are not written
  std::array<Cta *, 2> ctas = {};
  unsigned group = 1;
  Warp *warp = nullptr; ///< that issued it, for reports
  const Inst *inst = nullptr;

  unsigned rowsOfCta() const { return what.m / group; }
  /// M 128 of a pair: two halves of the columns are above each other.
  bool isFolded() const { return group == 2 && what.m == 128; }
  /// 64 rows in one half of the lanes of each quarter.
  bool isHalf() const { return rowsOfCta() == 64 && !isFolded(); }
  unsigned columnsOfD() const { return isFolded() ? what.n / 2 : what.n; }
  unsigned laneOf(unsigned row, unsigned n) const {
    if (isFolded())
      return row + (n >= what.n / 2 ? 64 : 0);
    return isHalf() ? lane + row / 16 * 32 + row % 16 : row;
  }
};

/// Rows of an operand as values, and which of them are defined.
struct OperandRows {
  float values[kMaxRows][kMaxDepth];
  bool defined[kMaxRows];
};

struct Scales {
  float values[kMaxRows][kMaxScales];
  bool defined[kMaxRows];
};
} // namespace

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// True if a word that the multiply reads is defined; reports one that nothing
/// wrote.
static bool isDefined(const Multiply &multiply, TensorMemory &memory,
                      unsigned lane, unsigned column) {
  const Content content = memory.content(lane, column);
  Device &device = multiply.warp->cta.device;
  if (content == Content::Nothing && device.settings.checkUndefined)
    device.report("undefined", multiply.warp, multiply.inst, {},
                  fmt::format("nothing wrote lane {}, column {} of tensor "
                              "memory, which the multiply reads",
                              lane, column));
  return content == Content::Defined;
}

/// Elements in 16 bytes of shared memory: those of 4 and 6 bits of kinds that
/// mix them with 8 bits leave the end of the 16 bytes unused.
static unsigned elementsOfChunk(TensorKind kind, Element element) {
  return kind >= TensorKind::MXF4 ? 32 : std::min(16u, 128 / bitsOf(element));
}

/// Codes of a chunk, dense from its first byte on, to values.
static void decodeChunk(const uint8_t *chunk, unsigned count, Element element,
                        float *values) {
  if (bitsOf(element) != 6)
    return decodeRow(chunk, count, element, /*inBytes=*/false, values);
  uint8_t bytes[16];
  unpackSixBits(chunk, bytes);
  decodeRow(bytes, count, element, /*inBytes=*/true, values);
}

/// Calls `function` with the chunks of an operand of `rows` rows: the chunk's
/// place, its first row and its first k.
template <typename F>
static void forChunks(const TensorOperand &operand, bool isTransposed,
                      unsigned rows, unsigned depth, unsigned perChunk,
                      F function) {
  if (!isTransposed) {
    for (unsigned row = 0; row < rows; ++row)
      for (unsigned k = 0; k < depth; k += perChunk)
        function(operand.place(true, k / perChunk, row), row, k);
    return;
  }
  for (unsigned row = 0; row < rows; row += perChunk)
    for (unsigned k = 0; k < depth; ++k)
      function(operand.place(false, row / perChunk, k), row, k);
}

static void gatherShared(const Cta &cta, const TensorOperand &operand,
                         bool isTransposed, unsigned rows, TensorKind kind,
                         Element element, unsigned first, OperandRows &to) {
  const unsigned perChunk = elementsOfChunk(kind, element);
  const unsigned bytes = perChunk * bitsOf(element) / 8;
  std::fill_n(to.defined + first, rows, true);
  forChunks(operand, isTransposed, rows, depthOf(kind), perChunk,
            [&](uint32_t at, unsigned row, unsigned k) {
              float values[32];
              decodeChunk(&cta.shared[at], perChunk, element, values);
              const bool isDefined = std::all_of(
                  &cta.sharedDefined[at], &cta.sharedDefined[at] + bytes,
                  [](uint8_t byte) { return byte != 0; });
              for (unsigned i = 0; i < perChunk; ++i) {
                const unsigned r = isTransposed ? row + i : row;
                if (r >= rows)
                  break;
                to.values[first + r][isTransposed ? k : k + i] = values[i];
                to.defined[first + r] &= isDefined;
              }
            });
}

/// Rows of A from tensor memory, by lane: 8 columns of 4 bytes. Elements of 4
/// and 6 bits have a byte each, except for the kinds of 4 bits alone.
static void gatherTensor(Cta &cta, const Multiply &multiply, OperandRows &to) {
  const TensorKind kind = multiply.what.kind;
  const Element element = multiply.what.a;
  const bool inBytes = bitsOf(element) < 8 && kind < TensorKind::MXF4;
  TensorMemory &memory = *cta.tensor.memory;
  for (unsigned row = 0; row < multiply.rowsOfCta(); ++row) {
    const unsigned lane = multiply.laneOf(row, 0);
    uint8_t bytes[32];
    to.defined[lane] = true;
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned column = multiply.columnA + i;
      std::memcpy(bytes + 4 * i, &memory.word(lane, column), 4);
      to.defined[lane] &= isDefined(multiply, memory, lane, column);
    }
    decodeRow(bytes, depthOf(kind), element, inBytes, to.values[lane]);
  }
}

/// The scales of `count` rows or columns as the lanes of a quarter have them.
static void gatherScales(Cta &cta, const Multiply &multiply, unsigned column,
                         unsigned byte, unsigned count, unsigned quarter,
                         Scales &to) {
  TensorMemory &memory = *cta.tensor.memory;
  for (unsigned row = 0; row < count; ++row) {
    const unsigned lane = 32 * quarter + row % 32, at = column + row / 32;
    const uint32_t word = memory.word(lane, at);
    to.defined[row] = isDefined(multiply, memory, lane, at);
    for (unsigned part = 0; part < multiply.scales; ++part) {
      const auto code = uint8_t(word >> (8 * ((byte + part) % 4)));
      to.values[row][part] =
          multiply.what.isE8M0 ? decodeE8M0(code) : valuesOf(kE4M3)[code & 127];
    }
  }
}

static void negate(OperandRows &rows, unsigned count, unsigned depth) {
  for (unsigned row = 0; row < count; ++row)
    for (unsigned k = 0; k < depth; ++k)
      rows.values[row][k] = -rows.values[row][k];
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

static double valueOf(uint32_t word, Accumulator type) {
  switch (type) {
  case Accumulator::F16:
    return decodeHalf(uint16_t(word));
  case Accumulator::F32:
    return std::bit_cast<float>(word);
  default:
    return int32_t(word);
  }
}

static uint32_t wordOf(double sum, Accumulator type, bool saturates) {
  switch (type) {
  case Accumulator::F16:
    return encodeHalf(float(sum));
  case Accumulator::F32:
    return std::bit_cast<uint32_t>(float(sum));
  default:
    if (saturates)
      sum = std::clamp(sum, double(INT32_MIN), double(INT32_MAX));
    return uint32_t(int64_t(sum));
  }
}

/// The sums of one CTA. B is that of the whole group.
static void computeCta(const Multiply &multiply, unsigned member,
                       OperandRows &a, const OperandRows &b) {
  static thread_local Scales scalesA, scalesB[4];
  Cta &cta = *multiply.ctas[member];
  TensorMemory &memory = *cta.tensor.memory;
  const TensorInstruction &what = multiply.what;
  const unsigned depth = depthOf(what.kind), rows = multiply.rowsOfCta();
  if (multiply.isInTensorMemory)
    gatherTensor(cta, multiply, a);
  else
    gatherShared(cta, multiply.a, what.isTransposedA, rows, what.kind, what.a,
                 0, a);
  if (what.negatesA)
    negate(a, multiply.isInTensorMemory ? kLanesOfMemory : rows, depth);
  for (unsigned quarter = 0; multiply.scales && quarter < 4; ++quarter)
    gatherScales(cta, multiply, multiply.columnScaleB, what.scaleB, what.n,
                 quarter, scalesB[quarter]);
  const double factor = std::ldexp(1.0, -multiply.shift);
  for (unsigned row = 0; row < rows; ++row) {
    if (multiply.scales && row % 32 == 0)
      gatherScales(cta, multiply, multiply.columnScaleA, what.scaleA, rows,
                   row / 32, scalesA);
    for (unsigned n = 0; n < what.n; ++n) {
      const unsigned lane = multiply.laneOf(row, n);
      if (multiply.disabled[member * 4 + lane / 32] >> lane % 32 & 1)
        continue;
      const unsigned column = multiply.column + n % multiply.columnsOfD();
      const unsigned rowOfA = multiply.isInTensorMemory ? lane : row;
      uint32_t &word = memory.word(lane, column);
      double sum = multiply.accumulates ? valueOf(word, what.d) * factor : 0.0;
      bool hasValue =
          a.defined[rowOfA] && b.defined[n] &&
          (!multiply.accumulates || isDefined(multiply, memory, lane, column));
      if (!multiply.scales) {
        sum += dotProduct(a.values[rowOfA], b.values[n], depth);
      } else {
        const Scales &ofColumns = scalesB[row / 32];
        const unsigned size = depth / multiply.scales;
        for (unsigned part = 0; part < multiply.scales; ++part)
          sum += dotProduct(a.values[rowOfA] + part * size,
                            b.values[n] + part * size, size) *
                 scalesA.values[row][part] * ofColumns.values[n][part];
        hasValue &= scalesA.defined[row] && ofColumns.defined[n];
      }
      word = wordOf(sum, what.d, what.saturates);
      memory.content(lane, column) =
          hasValue ? Content::Defined : Content::Undefined;
    }
  }
}

static void compute(const Multiply &multiply) {
  static thread_local OperandRows a, b;
  const TensorInstruction &what = multiply.what;
  const unsigned part = what.n / multiply.group;
  for (unsigned member = 0; member < multiply.group; ++member)
    gatherShared(*multiply.ctas[member], multiply.b, what.isTransposedB, part,
                 what.kind, what.b, member * part, b);
  if (what.negatesB)
    negate(b, what.n, depthOf(what.kind));
  for (unsigned member = 0; member < multiply.group; ++member)
    computeCta(multiply, member, a, b);
}

//===----------------------------------------------------------------------===//
// Issue
//===----------------------------------------------------------------------===//

/// Reports an operand beyond shared memory, and its reads to the checkers.
static bool checkOperand(Warp &warp, const Inst &inst, unsigned lane, Cta &cta,
                         const TensorOperand &operand, bool isTransposed,
                         unsigned rows, TensorKind kind, Element element) {
  const TensorThread &thread = issuerOf(warp, lane);
  bool isInside = true;
  forChunks(operand, isTransposed, rows, depthOf(kind),
            elementsOfChunk(kind, element),
            [&](uint32_t at, unsigned row, unsigned) {
              if (!isInside)
                return;
              if (at + 16 > cta.shared.size()) {
                isInside = false;
                cta.device.report(
                    "bounds", &warp, &inst, lane,
                    fmt::format("row {} of an operand is at shared address "
                                "{:#x}, of {} bytes",
                                row, at, cta.shared.size()));
                return;
              }
              if (cta.shadow)
                cta.shadow->readTensor({warp, inst, lane}, at, 16, thread.agent,
                                       thread.commit);
            });
  return isInside;
}

/// Checks the tensor memory of one CTA.
static bool checkTensorMemory(Warp &warp, const Inst &inst, unsigned lane,
                              const Multiply &multiply, Cta &cta) {
  const TensorInstruction &what = multiply.what;
  const unsigned columns = multiply.columnsOfD(),
                 columnsA = multiply.rowsOfCta() / 32,
                 columnsB = (what.n + 31) / 32;
  auto owns = [&](unsigned column, unsigned count) {
    return ownsColumns(warp, inst, cta, column, count);
  };
  if (!owns(multiply.column, columns) ||
      (multiply.isInTensorMemory && !owns(multiply.columnA, 8)) ||
      (multiply.scales && (!owns(multiply.columnScaleA, columnsA) ||
                           !owns(multiply.columnScaleB, columnsB))))
    return false;
  auto note = [&](const TensorAccess &access, unsigned column, unsigned count,
                  bool isWrite) {
    for (unsigned quarter = 0; quarter < 4; ++quarter)
      noteAccess(warp, inst, lane, cta, access,
                 {32 * quarter + multiply.lane, multiply.isHalf() ? 16u : 32u,
                  column, count},
                 isWrite);
  };
  const TensorAccess operand =
      issuedAccess(warp, inst, lane, TensorRole::Operand);
  if (multiply.isInTensorMemory)
    note(operand, multiply.columnA, 8, /*isWrite=*/false);
  if (multiply.scales) {
    note(operand, multiply.columnScaleA, columnsA, /*isWrite=*/false);
    note(operand, multiply.columnScaleB, columnsB, /*isWrite=*/false);
  }
  TensorAccess access = issuedAccess(warp, inst, lane, TensorRole::Accumulator);
  access.shape =
      unsigned(what.kind) << 24 | what.m << 12 | what.n << 2 | multiply.group;
  note(access, multiply.column, columns, /*isWrite=*/true);
  return true;
}

/// Reads an instruction: shape[0] has the kind, shape[1] the scales of a row,
/// flag says that A is in tensor memory, immediate is the shift of D.
static bool readOperands(Warp &warp, const Inst &inst, unsigned lane,
                         Multiply &multiply) {
  Device &device = warp.cta.device;
  const auto kind = TensorKind(inst.shape[0]);
  auto refuse = [&](const char *what, const std::string &fault) {
    device.report("tcgen05", &warp, &inst, lane, what + (": " + fault));
    return false;
  };
  for (const Reg &reg : inst.src)
    requireDefined(warp, inst, reg, 1u << lane, "an operand");
  for (const MemoryOperand &memory : inst.memory)
    requireDefined(warp, inst, memory.base, 1u << lane, "an address");
  unsigned next = 0;
  const Reg *regA = inst.flag ? nullptr : &inst.src[next++];
  const Reg &regB = inst.src[next++], &regWhat = inst.src[next++],
            &accumulates = inst.src[next++];
  multiply.isInTensorMemory = inst.flag;
  multiply.scales = inst.shape[1];
  multiply.group = inst.option[0];
  if (std::string fault =
          multiply.what.read(uint32_t(warp.value(regWhat, lane)), kind,
                             multiply.scales, multiply.group, inst.flag);
      !fault.empty())
    return refuse("the instruction descriptor", fault);
  if (regA)
    if (std::string fault = multiply.a.read(warp.value(*regA, lane));
        !fault.empty())
      return refuse("the descriptor of A", fault);
  if (std::string fault = multiply.b.read(warp.value(regB, lane));
      !fault.empty())
    return refuse("the descriptor of B", fault);
  multiply.accumulates = warp.value(accumulates, lane);
  multiply.shift = int(inst.immediate);
  unsigned memory = 0;
  const auto address = uint32_t(warp.addressOf(inst.memory[memory++], lane));
  multiply.lane = address >> 16;
  multiply.column = address & 0xFFFF;
  if (multiply.lane != 0 && !(multiply.isHalf() && multiply.lane == 16))
    return refuse("D", fmt::format("lane {} of tensor memory, expected 0{}",
                                   multiply.lane,
                                   multiply.isHalf() ? " or 16" : ""));
  // A is in the lanes of D; scales are in all lanes, and so is D then.
  auto columnOf = [&](const char *what, unsigned &column) {
    const auto at = uint32_t(warp.addressOf(inst.memory[memory++], lane));
    column = at & 0xFFFF;
    return at >> 16 == multiply.lane ||
           refuse(what, fmt::format("lane {} of tensor memory, expected {}",
                                    at >> 16, multiply.lane));
  };
  if (inst.flag && !columnOf("A", multiply.columnA))
    return false;
  if (multiply.scales && (!columnOf("scales of A", multiply.columnScaleA) ||
                          !columnOf("scales of B", multiply.columnScaleB)))
    return false;
  const auto &lanes = inst.srcList[0];
  for (size_t i = 0; i < lanes.size(); ++i) {
    requireDefined(warp, inst, lanes[i], 1u << lane, "a mask of lanes");
    multiply.disabled[i] = uint32_t(warp.value(lanes[i], lane));
  }
  return true;
}

static Step multiplyTiles(Warp &warp, const Inst &inst, uint32_t lanes) {
  Cta *peer = checkGroup(warp, inst);
  if (inst.option[0] == 2 && !peer)
    return Step::Next;
  forIssuer(warp, inst, lanes, [&](unsigned lane) {
    auto multiply = std::make_shared<Multiply>();
    if (!readOperands(warp, inst, lane, *multiply))
      return;
    Cta &cta = warp.cta;
    if (peer && cta.rank % 2) {
      cta.device.report("tcgen05", &warp, &inst, lane,
                        "the CTA with the even rank of a pair issues this");
      return;
    }
    multiply->ctas = {&cta, peer};
    multiply->warp = &warp;
    multiply->inst = &inst;
    const TensorInstruction &what = multiply->what;
    for (Cta *one : multiply->ctas)
      if (one && (!checkTensorMemory(warp, inst, lane, *multiply, *one) ||
                  (!multiply->isInTensorMemory &&
                   !checkOperand(warp, inst, lane, *one, multiply->a,
                                 what.isTransposedA, multiply->rowsOfCta(),
                                 what.kind, what.a)) ||
                  !checkOperand(warp, inst, lane, *one, multiply->b,
                                what.isTransposedB, what.n / multiply->group,
                                what.kind, what.b)))
        return;
    issueWork(warp, inst, lane, [multiply] { compute(*multiply); });
  });
  return Step::Next;
}

static void noteMultiply(Inst &inst, const NameParts &name) {
  noteGroup(inst, name);
  inst.taint = Taint::Own;
  inst.shape[0] = unsigned(tensorKindOf(name.parts[3]));
  const auto kind = TensorKind(inst.shape[0]);
  if (isBlockScaled(kind)) {
    inst.shape[1] = name.has("scale_vec::4X") || name.has("block16")  ? 4
                    : name.has("scale_vec::2X")                       ? 2
                    : name.has("scale_vec::1X")                       ? 1
                    : kind == TensorKind::MXF8F6F4                    ? 1
                    : kind == TensorKind::MXF4 || name.has("block32") ? 2
                                                                      : 0;
    if (!inst.shape[1])
      throw PtxError("kind::mxf4nvf4 needs a scale vector");
  }
  const size_t lanes = inst.srcList[0].size();
  if (lanes && lanes != 4 * inst.option[0])
    throw PtxError(fmt::format("{} masks of lanes, expected {}", lanes,
                               4 * inst.option[0]));
  if (inst.immediate < 0 || inst.immediate > 15)
    throw PtxError("the scale of D is 0 to 15");
}

static void noteMultiplyOfTensorMemory(Inst &inst, const NameParts &name) {
  inst.flag = true;
  noteMultiply(inst, name);
}

void moec::emulator::addTensorMmaRows(Rows &rows) {
  const std::string mma = "tcgen05.mma." + kCtaGroups + ".",
                    // A is read again, whatever its buffer keeps.
      keeps = ".?collector::a::discard|collector::a::fill";
  auto add = [&](const std::string &name, const std::string &end) {
    rows.push_back(
        {mma + name + keeps, "m s8 s8 s4 " + end, multiplyTiles, noteMultiply});
    rows.push_back({mma + name + keeps, "m m s8 s4 " + end, multiplyTiles,
                    noteMultiplyOfTensorMemory});
  };
  add("kind::f16|kind::tf32|kind::f8f6f4|kind::i8", "s0");
  add("kind::f16|kind::tf32|kind::f8f6f4|kind::i8", "K4 s0");
  add("kind::f16|kind::tf32", "s0 i");
  add("kind::f16|kind::tf32", "K4 s0 i");
  add("kind::mxf8f6f4.block_scale.?scale_vec::1X|block32", "m m s0");
  add("kind::mxf4.block_scale.?scale_vec::2X|block32", "m m s0");
  add("kind::mxf4nvf4.block_scale.scale_vec::2X|scale_vec::4X|block16|block32",
      "m m s0");
}
