//===- Program.h - decoded PTX ----------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser makes kernels of decoded instructions of a module's text.
// A register is a place in the image of a warp.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_CORE_PROGRAM_H
#define MOEC_TEST_EMULATOR_CORE_PROGRAM_H

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace moec::emulator {

class Warp;
struct Inst;

inline constexpr uint32_t kNone = ~0u;
inline constexpr uint32_t kAllLanes = ~0u;
inline constexpr unsigned kLanes = 32;

/// A text that the emulator does not take; names kernel and line.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A register: 32 lanes side by side at `at` [bytes] of the warp's image. A
/// predicate has 0 bytes a lane and is one word with a bit a lane.
struct Reg {
  uint32_t at = kNone;
  uint32_t index = 0; ///< of its mask of defined lanes
  uint8_t bytes = 0;  ///< of a lane
  bool negated = false;
  bool constant = false; ///< an immediate, or what is set before the start

  explicit operator bool() const { return at != kNone; }
};

/// [base + offset]
struct MemoryOperand {
  Reg base;
  int64_t offset = 0;
};

/// The way of a warp after an instruction.
enum class Step : uint8_t {
  Next,   ///< goes on
  Branch, ///< its lanes go to the target
  Wait,   ///< tries the same instruction again later
  Exit,   ///< its lanes end
  Yield,  ///< goes on after other warps
};

enum class Space : uint8_t { Generic, Global, Shared, Param };
/// Memory order; Weak accesses take part in races.
enum class Order : uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease };

/// How an instruction passes undefined values on.
enum class Taint : uint8_t {
  Elementwise, ///< a result is defined where all sources are
  Own,         ///< the instruction sets the masks of its results
};

/// One decoded instruction. Which members it uses is up to its row.
struct Inst {
  using Execute = Step (*)(Warp &, const Inst &, uint32_t lanes);

  Execute execute = nullptr;
  Reg guard;
  Reg dst[2], src[6];
  MemoryOperand memory[4];
  std::vector<Reg> dstList, srcList[7];
  uint32_t target = kNone; ///< of a branch: an index of instructions
  uint32_t bytes = 0;      ///< of an element in memory, or of a copy
  Space space = Space::Generic;
  Order order = Order::Weak;
  Taint taint = Taint::Elementwise;
  uint8_t kind = 0; ///< which of several operations
  bool isSigned = false, flag = false;
  bool isSystem = false; ///< scope of its memory order: other GPUs, too
  /// True if lanes whose guard is false must not wait with the others.
  bool mayWait = false;
  uint32_t shape[3] = {}; ///< m, n, k of a multiply, or what the row says
  uint32_t option[2] = {};
  int64_t immediate = 0;
  std::vector<uint32_t> reads, writes; ///< indices of registers
  uint32_t id = 0;                     ///< its index in the kernel
  uint32_t line = 0;                   ///< of the PTX text, from 1
  uint32_t file = 0, fileLine = 0;     ///< of the source, by -lineinfo
  std::string text;
};

/// A register that is set before the first instruction.
struct SpecialRegister {
  Reg reg;
  std::string name; ///< "%tid.x"
};

struct Kernel {
  std::string name;
  std::vector<Inst> code;
  uint32_t paramBytes = 0;
  uint32_t registers = 0;     ///< number of masks of defined lanes
  std::vector<uint8_t> image; ///< of a warp, with the immediates
  std::vector<SpecialRegister> specials;
  std::vector<Reg> sharedAddresses; ///< get the rank in the cluster
  struct ParamAddress {
    Reg reg;
    uint32_t offset;
  };
  std::vector<ParamAddress> paramAddresses;
  uint32_t staticSharedBytes = 0;
  uint32_t dynamicSharedAlign = 0; ///< 0: there is no extern array
  uint32_t maxThreads = 1024;      ///< .maxntid
  uint32_t requiredCluster = 0;    ///< .reqnctapercluster, 0: none
  bool usesAsyncProxy = false;

  /// The offset of dynamic shared memory: no better aligned than declared, so
  /// that a missing alignment is seen.
  uint32_t dynamicSharedBegin() const;
  std::vector<std::string> files; ///< by number, of .file
  std::string placeOf(const Inst &inst) const;
};

struct Module {
  std::string target; ///< "sm_90a"
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  std::map<std::string, std::vector<uint8_t>> globals;
};

/// Decodes a text; throws PtxError for anything that is not covered.
std::unique_ptr<Module> parsePtx(const std::string &text);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_CORE_PROGRAM_H
