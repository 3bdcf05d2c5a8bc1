//===- Operands.h - operands of one instruction -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names of registers, symbols and constants to places in a warp's image.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_PARSE_OPERANDS_H
#define MOEC_TEST_EMULATOR_PARSE_OPERANDS_H

#include "test/emulator/core/Program.h"

#include <string_view>

namespace moec::emulator {

/// The names of a kernel while it is parsed.
class Names {
public:
  Names(Kernel &kernel, Module &module) : kernel(kernel), module(module) {}

  void openScope();
  void closeScope();
  bool anyScope() const { return current != kNone; }
  uint32_t scope() const { return current; }

  void declareRegister(const std::string &name, unsigned bytes);
  void declareShared(const std::string &name, uint32_t at);
  void declareParam(const std::string &name, uint32_t at);
  void declareLabel(const std::string &name, uint32_t instruction);
  /// The instruction of a label that is seen from `scope`.
  uint32_t findLabel(const std::string &name, uint32_t scope) const;

  /// A register, special register, constant or address. `bytes` is the size
  /// that the instruction takes, kAnyBytes a register of any size.
  Reg find(std::string_view text, unsigned bytes);
  MemoryOperand findMemory(std::string_view text);

  static constexpr unsigned kAnyBytes = 99;

private:
  Reg allocate(unsigned bytes);
  Reg constant(uint64_t value, unsigned bytes);
  Reg findSymbol(const std::string &name, unsigned bytes);

  struct Scope {
    std::map<std::string, Reg, std::less<>> registers;
    std::map<std::string, uint32_t, std::less<>> labels;
    uint32_t parent;
  };
  Kernel &kernel;
  Module &module;
  std::vector<Scope> scopes;
  uint32_t current = kNone;
  std::map<std::string, Reg> constants;
  std::map<std::string, uint32_t> sharedSymbols, params;
};

/// Words with commas between them; braces and brackets hold words together.
std::vector<std::string_view> splitOperands(std::string_view text);
std::string_view trim(std::string_view text);

/// Fills the instruction's operands as `form` (see Rows.h) says. False if
/// their number or kind differs; throws PtxError for names that are unknown.
bool readOperands(std::string_view form,
                  const std::vector<std::string_view> &texts, Names &names,
                  Inst &inst);

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_PARSE_OPERANDS_H
