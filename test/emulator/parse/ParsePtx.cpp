//===- ParsePtx.cpp - from PTX text to a module ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pass over the text: module variables, then each entry. Nested scopes and
// labels of inline assembly are kept. There are no functions, no calls and no
// local memory; any of them is an error.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/parse/Operands.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

using namespace moec::emulator;

uint32_t Kernel::dynamicSharedBegin() const {
  if (dynamicSharedAlign == 0)
    return staticSharedBytes;
  const uint32_t align = dynamicSharedAlign;
  const uint32_t begin = (staticSharedBytes + align - 1) / align * align;
  // An odd multiple: what the declaration does not promise does not hold.
  return begin / align % 2 ? begin : begin + align;
}

std::string Kernel::placeOf(const Inst &inst) const {
  std::string file = inst.file < files.size() ? files[inst.file] : "";
  if (size_t root = file.rfind("/moe/"); root != std::string::npos)
    file = file.substr(root + 1);
  return fmt::format(
      "{}, PTX line {}{}", name, inst.line,
      file.empty() ? "" : fmt::format(" ({}:{})", file, inst.fileLine));
}

namespace {
/// A variable's declaration, without its state space: `.align 4 .b8 x[12]`.
struct Variable {
  std::string name, type;
  uint32_t align = 1;
  uint64_t count = 1;
  bool isArray = false;
  std::string_view initializer;

  uint64_t bytes() const { return bytesOfType(type) * count; }
};

class ModuleParser {
public:
  explicit ModuleParser(const std::string &raw);
  std::unique_ptr<Module> run();

private:
  std::string_view rest() const { return std::string_view(text).substr(at); }
  void skipBlanks();
  bool take(std::string_view word);
  std::string_view until(std::string_view stops);
  [[noreturn]] void fail(const std::string &what) const;

  void parseEntry();
  void parseHeader(Kernel &kernel);
  void parseParams(Kernel &kernel, Names &names, std::string_view list);
  void parseBody(Kernel &kernel, Names &names);
  bool parseLabel(Kernel &kernel, Names &names);
  void parseStatement(Kernel &kernel, Names &names);
  void parseRegisters(Names &names, std::string_view statement);
  void parseInstruction(Kernel &kernel, Names &names,
                        std::string_view statement, uint32_t line);
  void parseFile(std::string_view statement);
  void parseGlobal(std::string_view declaration);
  void placeShared(Names &names, Kernel &kernel, const Variable &variable);
  void placeBodyVariables(Names &names, Kernel &kernel);

  std::string text; ///< without comments
  std::vector<uint32_t> lines;
  size_t at = 0;
  std::unique_ptr<Module> module = std::make_unique<Module>();
  std::vector<Variable> sharedVariables, externVariables;
  std::vector<std::string> files;
  uint32_t file = 0, fileLine = 0; ///< of the last .loc
  std::string entry;               ///< that is being parsed
  /// Labels are known once the whole body was read.
  struct Jump {
    uint32_t instruction, scope;
    std::string label;
  };
  std::vector<Jump> jumps;
};
} // namespace

static uint64_t toNumber(std::string_view text) {
  text = trim(text);
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

ModuleParser::ModuleParser(const std::string &raw) {
  uint32_t line = 1;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw.compare(i, 2, "//") == 0)
      i = std::min(raw.find('\n', i), raw.size());
    else if (raw.compare(i, 2, "/*") == 0)
      for (size_t end = std::min(raw.find("*/", i), raw.size()) + 1; i < end;
           ++i)
        line += raw[i] == '\n';
    if (i >= raw.size())
      break;
    text += raw[i];
    lines.push_back(line);
    line += raw[i] == '\n';
  }
  lines.push_back(line);
}

void ModuleParser::fail(const std::string &what) const {
  throw PtxError(fmt::format("{}line {}: {}",
                             entry.empty() ? "" : "kernel " + entry + ", ",
                             lines[std::min(at, lines.size() - 1)], what));
}

void ModuleParser::skipBlanks() {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
    ++at;
}

bool ModuleParser::take(std::string_view word) {
  if (!rest().starts_with(word))
    return false;
  at += word.size();
  return true;
}

std::string_view ModuleParser::until(std::string_view stops) {
  const size_t begin = at;
  at = std::min(text.find_first_of(stops, at), text.size());
  return std::string_view(text).substr(begin, at - begin);
}

static Variable parseVariable(std::string_view declaration) {
  Variable variable;
  if (size_t equals = declaration.find('='); equals != std::string_view::npos) {
    variable.initializer = trim(declaration.substr(equals + 1));
    declaration = declaration.substr(0, equals);
  }
  if (size_t bracket = declaration.find('[');
      bracket != std::string_view::npos) {
    variable.isArray = true;
    variable.count = toNumber(declaration.substr(bracket + 1));
    declaration = declaration.substr(0, bracket);
  }
  bool isAlignment = false;
  while (!(declaration = trim(declaration)).empty()) {
    const size_t end =
        std::min(declaration.find_first_of(" \t\n"), declaration.size());
    std::string_view word = declaration.substr(0, end);
    declaration.remove_prefix(end);
    if (isAlignment)
      variable.align = uint32_t(toNumber(word));
    else if (word != ".align" && word[0] == '.')
      variable.type = word.substr(1);
    else if (word[0] != '.')
      variable.name = word;
    isAlignment = word == ".align";
  }
  variable.align = std::max(variable.align, bytesOfType(variable.type));
  return variable;
}

void ModuleParser::parseGlobal(std::string_view declaration) {
  Variable variable = parseVariable(declaration);
  std::vector<uint8_t> &bytes = module->globals[variable.name];
  bytes.resize(std::max<uint64_t>(variable.bytes(), 16));
  std::string_view values = variable.initializer;
  if (values.starts_with('{'))
    values = values.substr(1, values.rfind('}') - 1);
  size_t place = 0;
  const unsigned size = bytesOfType(variable.type);
  for (std::string_view word : splitOperands(values)) {
    uint64_t value = 0;
    const bool isHex = word.starts_with("0f") || word.starts_with("0F") ||
                       word.starts_with("0d") || word.starts_with("0D") ||
                       word.starts_with("0x") || word.starts_with("0X");
    const bool minus = word.starts_with('-');
    std::string_view digits = word.substr(isHex ? 2 : minus);
    auto [end, error] = std::from_chars(
        digits.data(), digits.data() + digits.size(), value, isHex ? 16 : 10);
    if (error != std::errc() || end != digits.data() + digits.size() ||
        place + size > bytes.size())
      fail(fmt::format("initializer '{}' of {} is not covered", word,
                       variable.name));
    value = minus ? ~value + 1 : value;
    std::memcpy(&bytes[place], &value, size);
    place += size;
  }
}

void ModuleParser::parseFile(std::string_view statement) {
  const uint64_t number = toNumber(statement.substr(5));
  const size_t begin = statement.find('"'), end = statement.rfind('"');
  if (begin == end || number > 100000)
    fail("a .file without number and name");
  files.resize(std::max<size_t>(files.size(), number + 1));
  files[number] = statement.substr(begin + 1, end - begin - 1);
}

std::unique_ptr<Module> ModuleParser::run() {
  for (skipBlanks(); at < text.size(); skipBlanks()) {
    if (rest().starts_with(".version") || rest().starts_with(".address_size")) {
      until("\n");
    } else if (take(".target")) {
      module->target = trim(until("\n"));
      module->target = module->target.substr(0, module->target.find(','));
    } else if (rest().starts_with(".file")) {
      parseFile(until("\n"));
    } else if (take(".section")) {
      until("}");
      ++at;
    } else if (take(".extern")) {
      skipBlanks();
      if (!take(".shared"))
        fail(".extern of anything but .shared is not covered");
      externVariables.push_back(parseVariable(until(";")));
      ++at;
    } else if (take(".shared")) {
      sharedVariables.push_back(parseVariable(until(";")));
      ++at;
    } else if (take(".global") || take(".const")) {
      parseGlobal(until(";"));
      ++at;
    } else if (take(".visible")) {
      skipBlanks();
    } else if (take(".entry")) {
      parseEntry();
    } else {
      fail(fmt::format("'{}' is not covered", rest().substr(0, 40)));
    }
  }
  for (auto &[name, kernel] : module->kernels)
    kernel->files = files;
  return std::move(module);
}

void ModuleParser::placeShared(Names &names, Kernel &kernel,
                               const Variable &variable) {
  uint32_t &end = kernel.staticSharedBytes;
  end = (end + variable.align - 1) / variable.align * variable.align;
  names.declareShared(variable.name, end);
  end += uint32_t(variable.bytes());
}

/// Shared variables of the body that follows: dynamic memory begins behind
/// them, so they are placed before anything is addressed.
void ModuleParser::placeBodyVariables(Names &names, Kernel &kernel) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    depth += text[i] == '{';
    if (text[i] == '}' && --depth == 0)
      return;
    constexpr std::string_view kWord = ".shared";
    if (text.compare(i, kWord.size(), kWord) != 0 || i == 0 ||
        !std::isspace(static_cast<unsigned char>(text[i - 1])) ||
        !std::isspace(static_cast<unsigned char>(text[i + kWord.size()])))
      continue;
    const size_t begin = i + kWord.size(), end = text.find(';', begin);
    placeShared(
        names, kernel,
        parseVariable(std::string_view(text).substr(begin, end - begin)));
    i = end;
  }
}

void ModuleParser::parseEntry() {
  auto kernel = std::make_shared<Kernel>();
  Names names(*kernel, *module);
  skipBlanks();
  kernel->name = trim(until("({"));
  entry = kernel->name;
  if (take("(")) {
    parseParams(*kernel, names, until(")"));
    ++at;
  }
  parseHeader(*kernel);
  for (const Variable &variable : sharedVariables)
    placeShared(names, *kernel, variable);
  placeBodyVariables(names, *kernel);
  for (const Variable &variable : externVariables)
    kernel->dynamicSharedAlign =
        std::max(kernel->dynamicSharedAlign, variable.align);
  for (const Variable &variable : externVariables)
    names.declareShared(variable.name, kernel->dynamicSharedBegin());
  jumps.clear();
  parseBody(*kernel, names);
  for (const Jump &jump : jumps)
    kernel->code[jump.instruction].target =
        names.findLabel(jump.label, jump.scope);
  module->kernels[kernel->name] = std::move(kernel);
  entry.clear();
}

void ModuleParser::parseParams(Kernel &kernel, Names &names,
                               std::string_view list) {
  for (std::string_view one : splitOperands(list)) {
    if (!one.starts_with(".param"))
      fail(fmt::format("parameter '{}'", one));
    std::string_view declaration = one.substr(6);
    // `.ptr .global .align 16` says what a pointer points to.
    std::string plain(declaration);
    if (size_t pointer = plain.find(".ptr"); pointer != std::string::npos)
      plain = plain.substr(0, pointer) +
              plain.substr(plain.find_last_of(" \t") + 0);
    Variable variable = parseVariable(plain);
    uint32_t &end = kernel.paramBytes;
    end = (end + variable.align - 1) / variable.align * variable.align;
    names.declareParam(variable.name, end);
    end += uint32_t(variable.bytes());
  }
}

void ModuleParser::parseHeader(Kernel &kernel) {
  for (skipBlanks(); !rest().starts_with('{'); skipBlanks()) {
    std::string_view line = trim(until("\n{"));
    if (line.starts_with(".maxntid") || line.starts_with(".reqntid"))
      kernel.maxThreads = uint32_t(toNumber(line.substr(8)));
    else if (line.starts_with(".reqnctapercluster"))
      kernel.requiredCluster = uint32_t(toNumber(line.substr(18)));
    else if (!line.starts_with(".minnctapersm") &&
             !line.starts_with(".explicitcluster") &&
             !line.starts_with(".maxclusterrank"))
      fail(fmt::format("'{}' is not covered", line));
  }
}

void ModuleParser::parseBody(Kernel &kernel, Names &names) {
  do {
    skipBlanks();
    if (at >= text.size())
      fail("the body has no end");
    if (take("{")) {
      names.openScope();
      continue;
    }
    if (take("}")) {
      names.closeScope();
      continue;
    }
    if (!parseLabel(kernel, names))
      parseStatement(kernel, names);
  } while (names.anyScope());
  // Falling off the end is a return.
  Inst end;
  const Row &row = rowsByOpcode().find("ret")->second;
  end.execute = row.execute;
  end.text = "}";
  end.id = uint32_t(kernel.code.size());
  end.line = lines[at - 1];
  kernel.code.push_back(std::move(end));
}

bool ModuleParser::parseLabel(Kernel &kernel, Names &names) {
  size_t end = at;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) ||
          text[end] == '_' || text[end] == '$'))
    ++end;
  size_t colon = end;
  while (colon < text.size() && text[colon] == ' ')
    ++colon;
  if (end == at || text.compare(colon, 1, ":") != 0 ||
      text.compare(colon, 2, "::") == 0)
    return false;
  names.declareLabel(text.substr(at, end - at), uint32_t(kernel.code.size()));
  at = colon + 1;
  return true;
}

void ModuleParser::parseStatement(Kernel &kernel, Names &names) {
  const uint32_t line = lines[at];
  if (rest().starts_with(".loc")) {
    std::string_view numbers = trim(until("\n").substr(4));
    file = uint32_t(toNumber(numbers));
    numbers = trim(numbers.substr(numbers.find_first_of(" \t")));
    fileLine = uint32_t(toNumber(numbers));
    return;
  }
  std::string_view statement = trim(until(";"));
  const size_t end = at + 1;
  if (statement.starts_with(".reg")) {
    parseRegisters(names, trim(statement.substr(4)));
  } else if (statement.starts_with(".shared")) {
    // placeBodyVariables() has placed it.
  } else if (!statement.starts_with(".pragma")) {
    if (statement.starts_with('.'))
      fail(fmt::format("'{}' is not covered", statement));
    if (!statement.empty())
      parseInstruction(kernel, names, statement, line);
  }
  at = end;
}

void ModuleParser::parseRegisters(Names &names, std::string_view statement) {
  const size_t blank = statement.find_first_of(" \t");
  const unsigned bytes = bytesOfType(statement.substr(1, blank - 1));
  for (std::string_view word : splitOperands(statement.substr(blank))) {
    const size_t angle = word.find('<');
    if (angle == std::string_view::npos) {
      names.declareRegister(std::string(word), bytes);
      continue;
    }
    const uint64_t count = toNumber(word.substr(angle + 1));
    for (uint64_t i = 0; i < count; ++i)
      names.declareRegister(fmt::format("{}{}", word.substr(0, angle), i),
                            bytes);
  }
}

/// Finds the row of a name and fills the instruction; the sentence says why
/// there is none.
static std::string decode(std::string_view name, std::string_view operands,
                          Names &names, Inst &inst) {
  const auto &table = rowsByOpcode();
  auto [row, end] = table.equal_range(name.substr(0, name.find('.')));
  const auto texts = splitOperands(operands);
  std::string why = fmt::format("instruction '{}' is not covered", name);
  for (; row != end; ++row) {
    const NameParts parts = matchName(row->second.pattern, name);
    if (parts.parts.empty())
      continue;
    Inst attempt = inst;
    try {
      if (!readOperands(row->second.operands, texts, names, attempt)) {
        why =
            fmt::format("operands '{}' of {} are not covered", operands, name);
        continue;
      }
      attempt.execute = row->second.execute;
      if (row->second.build)
        row->second.build(attempt, parts);
    } catch (const PtxError &error) {
      why = fmt::format("{} {}: {}", name, operands, error.what());
      continue;
    }
    inst = std::move(attempt);
    return "";
  }
  return why;
}

void ModuleParser::parseInstruction(Kernel &kernel, Names &names,
                                    std::string_view statement, uint32_t line) {
  Inst inst;
  inst.id = uint32_t(kernel.code.size());
  inst.line = line;
  inst.file = file;
  inst.fileLine = fileLine;
  for (char c : statement)
    if (!std::isspace(static_cast<unsigned char>(c)))
      inst.text += c;
    else if (!inst.text.empty() && inst.text.back() != ' ')
      inst.text += ' ';
  if (statement.starts_with('@')) {
    const size_t end = statement.find_first_of(" \t");
    inst.guard = names.find(statement.substr(1, end - 1), 0);
    statement = trim(statement.substr(end));
  }
  const size_t end =
      std::min(statement.find_first_of(" \t\n{["), statement.size());
  const std::string_view name = statement.substr(0, end);
  std::string_view operands = trim(statement.substr(end));
  if (name == "bra" || name == "bra.uni") {
    jumps.push_back({inst.id, names.scope(), std::string(operands)});
    operands = "";
  }
  if (std::string why = decode(name, operands, names, inst); !why.empty())
    fail(why);
  if (name.starts_with("wgmma") || name.starts_with("tcgen05") ||
      name.starts_with("cp.async.bulk") || name.starts_with("cp.reduce"))
    kernel.usesAsyncProxy = true;
  kernel.code.push_back(std::move(inst));
}

std::unique_ptr<Module> moec::emulator::parsePtx(const std::string &text) {
  return ModuleParser(text).run();
}
