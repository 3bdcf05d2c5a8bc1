//===- Operands.cpp - operands of one instruction -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names of registers, symbols and constants to places in a warp's image.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/parse/Operands.h"

#include <fmt/core.h>

#include <bit>
#include <charconv>
#include <cstring>

using namespace moec::emulator;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

void Names::openScope() {
  scopes.push_back({{}, {}, current});
  current = uint32_t(scopes.size()) - 1;
}

void Names::closeScope() { current = scopes[current].parent; }

Reg Names::allocate(unsigned bytes) {
  // Lanes of a register begin on a vector of the host.
  Reg reg;
  reg.at = uint32_t((kernel.image.size() + 31) / 32 * 32);
  reg.bytes = uint8_t(bytes);
  reg.index = kernel.registers++;
  kernel.image.resize(reg.at + (bytes ? bytes * kLanes : 4));
  return reg;
}

void Names::declareRegister(const std::string &name, unsigned bytes) {
  scopes[current].registers[name] = allocate(bytes);
}

void Names::declareShared(const std::string &name, uint32_t at) {
  sharedSymbols[name] = at;
}

void Names::declareParam(const std::string &name, uint32_t at) {
  params[name] = at;
}

void Names::declareLabel(const std::string &name, uint32_t instruction) {
  scopes[current].labels[name] = instruction;
}

uint32_t Names::findLabel(const std::string &name, uint32_t scope) const {
  for (; scope != kNone; scope = scopes[scope].parent)
    if (auto it = scopes[scope].labels.find(name);
        it != scopes[scope].labels.end())
      return it->second;
  throw PtxError("no label " + name);
}

Reg Names::constant(uint64_t value, unsigned bytes) {
  auto [it, isNew] = constants.try_emplace(fmt::format("{}/{}", value, bytes));
  if (!isNew)
    return it->second;
  Reg reg = allocate(bytes);
  reg.constant = true;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    std::memcpy(&kernel.image[reg.at + lane * bytes], &value, bytes);
  return it->second = reg;
}

Reg Names::findSymbol(const std::string &name, unsigned bytes) {
  const unsigned size = bytes == 4 ? 4 : 8;
  if (auto shared = sharedSymbols.find(name); shared != sharedSymbols.end()) {
    auto [it, isNew] = constants.try_emplace(fmt::format("&{}/{}", name, size));
    if (isNew) {
      it->second = allocate(size);
      it->second.constant = true;
      for (unsigned lane = 0; lane < kLanes; ++lane)
        std::memcpy(&kernel.image[it->second.at + lane * size], &shared->second,
                    4);
      kernel.sharedAddresses.push_back(it->second);
    }
    return it->second;
  }
  if (auto param = params.find(name); param != params.end()) {
    auto [it, isNew] = constants.try_emplace("&" + name);
    if (isNew) {
      it->second = allocate(8);
      it->second.constant = true;
      kernel.paramAddresses.push_back({it->second, param->second});
    }
    return it->second;
  }
  if (auto global = module.globals.find(name); global != module.globals.end())
    return constant(std::bit_cast<uint64_t>(global->second.data()), 8);
  throw PtxError("unknown operand '" + name + "'");
}

/// The value of a literal: 0f3F800000, 0d..., an integer of any base.
static bool parseLiteral(std::string_view text, uint64_t &value) {
  const bool minus = text.starts_with('-');
  std::string_view digits = text.substr(minus);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = char(digits[1] | 0x20);
    if (mark == 'x' || (!minus && (mark == 'f' || mark == 'd')))
      base = 16;
    if (base == 16)
      digits.remove_prefix(2);
  }
  const bool isUnsigned = digits.ends_with('U');
  if (isUnsigned)
    digits.remove_suffix(1);
  auto [end, error] = std::from_chars(
      digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size())
    return false;
  if (minus)
    value = ~value + 1;
  return true;
}

Reg Names::find(std::string_view text, unsigned bytes) {
  text = trim(text);
  const bool negated = text.starts_with('!');
  if (negated)
    text = trim(text.substr(1));
  if (text.empty())
    throw PtxError("empty operand");
  auto checked = [&](Reg reg) {
    if (negated && reg.bytes != 0)
      throw PtxError(fmt::format("'!' before '{}', no predicate", text));
    if (bytes != kAnyBytes && reg.bytes != bytes)
      throw PtxError(
          fmt::format("{} has {} bytes, {} are taken", text, reg.bytes, bytes));
    reg.negated = negated;
    return reg;
  };
  for (uint32_t scope = current; scope != kNone; scope = scopes[scope].parent)
    if (auto it = scopes[scope].registers.find(text);
        it != scopes[scope].registers.end())
      return checked(it->second);
  const std::string name(text);
  if (text[0] == '%') {
    auto [it, isNew] = constants.try_emplace(name);
    if (isNew) {
      it->second =
          allocate(name == "%clock64" || name == "%globaltimer" ? 8 : 4);
      it->second.constant = true;
      kernel.specials.push_back({it->second, name});
    }
    return checked(it->second);
  }
  uint64_t value = 0;
  if (parseLiteral(text, value)) {
    if (bytes == 0)
      throw PtxError("a constant where a predicate is expected: " + name);
    // The lowest bytes of a constant of any size count.
    if (bytes == kAnyBytes || bytes == 8)
      return constant(value, 8);
    return constant(value & ((uint64_t(1) << bytes * 8) - 1), bytes);
  }
  return checked(findSymbol(name, bytes));
}

MemoryOperand Names::findMemory(std::string_view text) {
  text = trim(text);
  if (!text.starts_with('[') || !text.ends_with(']'))
    throw PtxError(fmt::format("'{}' is no address in brackets", text));
  text = trim(text.substr(1, text.size() - 2));
  MemoryOperand operand;
  if (size_t plus = text.find('+'); plus != std::string_view::npos) {
    uint64_t offset = 0;
    if (!parseLiteral(trim(text.substr(plus + 1)), offset))
      throw PtxError(fmt::format("'{}' has no offset", text));
    operand.offset = int64_t(offset);
    text = trim(text.substr(0, plus));
  }
  operand.base = find(text, kAnyBytes);
  if (operand.base.bytes != 4 && operand.base.bytes != 8)
    throw PtxError(fmt::format("'{}' is no address", text));
  return operand;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

std::string_view moec::emulator::trim(std::string_view text) {
  const char *blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string_view>
moec::emulator::splitOperands(std::string_view text) {
  std::vector<std::string_view> words;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '[' || text[i] == '(')
      ++depth;
    if (text[i] == '}' || text[i] == ']' || text[i] == ')')
      --depth;
    if (text[i] == ',' && depth == 0) {
      words.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (std::string_view last = trim(text.substr(begin));
      !last.empty() || !words.empty())
    words.push_back(last);
  return words;
}

static unsigned bytesOf(std::string_view form) {
  if (form == "*")
    return Names::kAnyBytes;
  unsigned bytes = 0;
  std::from_chars(form.data(), form.data() + form.size(), bytes);
  return bytes;
}

namespace {
/// Puts one operand after the other into an instruction.
struct Filler {
  Names &names;
  Inst &inst;
  unsigned dst = 0, src = 0, memory = 0, list = 0, immediates = 0;

  Reg result(std::string_view text, unsigned bytes) {
    Reg reg = names.find(text, bytes);
    if (reg.constant)
      throw PtxError(fmt::format("'{}' cannot be written", text));
    return reg;
  }

  std::vector<Reg> registers(std::string_view text, unsigned bytes,
                             bool results) {
    std::vector<Reg> found;
    if (text.starts_with('{'))
      text = text.substr(1, text.size() - 2);
    for (std::string_view word : splitOperands(text)) {
      if (results && word == "_")
        found.emplace_back();
      else
        found.push_back(results ? result(word, bytes)
                                : names.find(word, bytes));
    }
    return found;
  }

  bool fill(std::string_view form, std::string_view text) {
    switch (form[0]) {
    case 'd': {
      const size_t bar = form.find('|');
      const unsigned bytes = bytesOf(form.substr(1, bar - 1));
      const size_t pair = text.find('|');
      if (pair != std::string_view::npos) {
        if (bar == std::string_view::npos)
          return false;
        inst.dst[1] = result(text.substr(pair + 1), 0);
        text = trim(text.substr(0, pair));
      }
      if (text != "_" || bar == std::string_view::npos)
        inst.dst[dst] = result(text, bytes);
      ++dst;
      return true;
    }
    case 's':
      if (text.starts_with('{') || text.starts_with('['))
        return false;
      inst.src[src++] = names.find(text, bytesOf(form.substr(1)));
      return true;
    case 'm':
      if (!text.starts_with('[') || text.find('{') != std::string_view::npos)
        return false;
      inst.memory[memory++] = names.findMemory(text);
      return true;
    case 't': {
      const size_t comma = text.find(','), brace = text.find('{');
      if (!text.starts_with('[') || comma == std::string_view::npos ||
          brace == std::string_view::npos)
        return false;
      const std::string base(text.substr(0, comma));
      inst.memory[memory++] = names.findMemory(base + "]");
      inst.srcList[list++] =
          registers(text.substr(brace, text.find('}') - brace + 1), 4, false);
      return true;
    }
    case 'L':
      if (!text.starts_with('{'))
        return false;
      inst.dstList = registers(text, bytesOf(form.substr(1)), true);
      return true;
    case 'K':
      if (!text.starts_with('{'))
        return false;
      inst.srcList[list++] = registers(text, bytesOf(form.substr(1)), false);
      return true;
    case 'i': {
      uint64_t value = 0;
      if (!parseLiteral(text, value))
        return false;
      if (immediates == 0)
        inst.immediate = int64_t(value);
      else
        inst.option[immediates - 1] = uint32_t(value);
      ++immediates;
      return true;
    }
    default: // '#': the word itself
      return text == form.substr(1);
    }
  }
};
} // namespace

static void noteRegisters(Inst &inst) {
  auto read = [&](const Reg &reg) {
    if (reg && !reg.constant)
      inst.reads.push_back(reg.index);
  };
  for (const Reg &reg : inst.src)
    read(reg);
  for (const auto &list : inst.srcList)
    for (const Reg &reg : list)
      read(reg);
  for (const Reg &reg : inst.dst)
    if (reg)
      inst.writes.push_back(reg.index);
  for (const Reg &reg : inst.dstList)
    if (reg)
      inst.writes.push_back(reg.index);
}

bool moec::emulator::readOperands(std::string_view form,
                                  const std::vector<std::string_view> &texts,
                                  Names &names, Inst &inst) {
  Filler filler{names, inst};
  size_t text = 0;
  for (form = trim(form); !form.empty(); form = trim(form)) {
    const size_t end = std::min(form.find(' '), form.size());
    std::string_view word = form.substr(0, end);
    form.remove_prefix(end);
    if (word.starts_with('[')) {
      if (text == texts.size())
        continue;
      word = word.substr(1, word.size() - 2);
    }
    if (text == texts.size() || !filler.fill(word, texts[text]))
      return false;
    ++text;
  }
  if (text != texts.size())
    return false;
  noteRegisters(inst);
  return true;
}
