//===- InputText.cpp - limits of IR text ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scans the tokens of MLIR's grammar without interpreting them, and counts
// lines and nesting. For malformed text the counts may be too high, but never
// too low.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/InputText.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

using namespace moec;
using namespace moec::compiler;

/// Returns true if a path has the form of a model's name on the Hugging Face
/// Hub, "owner/model".
static bool isNameOfHub(std::string_view path) {
  const size_t slash = path.find('/');
  return slash != std::string_view::npos && slash > 0 &&
         slash + 1 < path.size() && path.front() != '.' &&
         path.find('/', slash + 1) == std::string_view::npos &&
         !path.ends_with(".json") && !path.ends_with(".mlir");
}

Result<std::string> compiler::readInput(const std::string &path) {
  const auto fail = [&](int number) {
    return Error{ErrorCode::FileSystem, "{}: cannot be read: {}{}", path,
                 std::strerror(number),
                 number == ENOENT && isNameOfHub(path)
                     ? fmt::format("; moec downloads no model: get its config "
                                   "with hf download {} config.json and give "
                                   "its path",
                                   path)
                     : ""};
  };
  const bool isStandard = path == "-";
  // O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
  const int file =
      isStandard ? STDIN_FILENO
                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return fail(errno);
  struct stat info;
  if (!isStandard && ::fstat(file, &info) == 0 && !S_ISREG(info.st_mode) &&
      !S_ISDIR(info.st_mode)) {
    ::close(file);
    return Error{ErrorCode::FileSystem,
                 "{}: expected a regular file, or '-' for standard "
                 "input",
                 path};
  }
  std::string text;
  std::array<char, 1 << 16> piece;
  ssize_t count = 0;
  int problem = 0;
  while (static_cast<int64_t>(text.size()) <= kMostInputBytes) {
    count = ::read(file, piece.data(), piece.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      break;
    text.append(piece.data(), static_cast<size_t>(count));
  }
  if (count < 0)
    problem = errno;
  if (!isStandard)
    ::close(file);
  if (problem)
    return fail(problem);
  if (static_cast<int64_t>(text.size()) > kMostInputBytes)
    return refused("{}: expected at most {} bytes, got more", path,
                   kMostInputBytes);
  return text;
}

namespace {
bool isDigit(char c) { return c >= '0' && c <= '9'; }

bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool isOfWord(char c) {
  return isDigit(c) || isLetter(c) || c == '$' || c == '.';
}

class Scanner {
public:
  Scanner(std::string_view text, std::string_view name, bool ownForm)
      : text(text), name(name), ownForm(ownForm) {}
  Result<void> scan();

private:
  struct Bracket {
    char closer;
    bool hasBlock; ///< it contains a block label
  };

  char at(size_t offset = 0) const {
    return next + offset < text.size() ? text[next + offset] : '\0';
  }
  Error refuse(size_t where, std::string_view sentence) const {
    return refused("{}:{}:{}: {}", name, line, where - begin + 1, sentence);
  }
  std::optional<Error> newLine();
  std::optional<Error> open(char closer);
  std::optional<Error> word(char first);
  std::optional<Error> label();
  void skipString();
  /// Skips and returns a word. If `dashes` is true, the word may contain '-',
  /// like a name after '#'.
  std::string_view skipWord(bool dashes);
  /// Returns true if '(' follows the string that was just skipped, as in an
  /// operation's generic form.
  bool isCalled() const;

  const std::string_view text, name;
  const bool ownForm;
  size_t next = 0, begin = 0;
  int64_t line = 1;
  std::vector<Bracket> brackets;
};
} // namespace

std::optional<Error> Scanner::newLine() {
  begin = next;
  if (++line > kMostIrLines)
    return refuse(
        next, fmt::format("expected at most {} lines, got more", kMostIrLines));
  return std::nullopt;
}

std::optional<Error> Scanner::open(char closer) {
  if (static_cast<int64_t>(brackets.size()) == kMostIrDepth)
    return refuse(
        next, fmt::format("expected brackets at most {} deep, got a deeper one",
                          kMostIrDepth));
  brackets.push_back({closer, false});
  ++next;
  return std::nullopt;
}

void Scanner::skipString() {
  for (++next; next < text.size(); ++next) {
    if (text[next] == '\n')
      return;
    if (text[next] == '"') {
      ++next;
      return;
    }
    if (text[next] == '\\' && at(1) != '\n')
      ++next;
  }
}

std::string_view Scanner::skipWord(bool dashes) {
  const size_t first = next;
  // If a name begins with digits, it consists only of digits.
  if (isDigit(at()))
    while (isDigit(at()))
      ++next;
  else
    while (isOfWord(at()) || (dashes && at() == '-' && at(1) != '>'))
      ++next;
  return text.substr(first, next - first);
}

bool Scanner::isCalled() const {
  const size_t behind = text.find_first_not_of(" \t\r\n", next);
  return behind != std::string_view::npos && text[behind] == '(';
}

std::optional<Error> Scanner::label() {
  if (ownForm && !brackets.empty() && brackets.back().hasBlock)
    return refuse(next, "expected one block in a region, got another");
  if (!brackets.empty())
    brackets.back().hasBlock = true;
  ++next;
  return std::nullopt;
}

std::optional<Error> Scanner::word(char first) {
  const size_t from = next;
  const bool isBare = isLetter(first);
  if (!isBare)
    ++next;
  if (first == '@' && at() == '"') {
    skipString();
    return std::nullopt;
  }
  const std::string_view said = skipWord(/*dashes=*/!isBare);
  if (first == '%' && at() == '#') // %name#1 is the second result
    for (++next; isDigit(at());)
      ++next;
  const bool isAlias = (first == '#' || first == '!') && !said.empty() &&
                       at() != '<' && said.find('.') == std::string_view::npos;
  if (ownForm && isAlias)
    return refuse(from, fmt::format("expected attributes and types in full, "
                                    "got the alias '{}{}'",
                                    first, said));
  if (isBare && (said == "affine_map" || said == "affine_set"))
    return refuse(from, fmt::format("expected no '{}'; no operation of moec "
                                    "has one",
                                    said));
  return std::nullopt;
}

Result<void> Scanner::scan() {
  if (static_cast<int64_t>(text.size()) > kMostIrBytes)
    return refused("{}: expected at most {} bytes of IR, got {}", name,
                   kMostIrBytes, text.size());
  if (text.starts_with("ML\xefR"))
    return refused("{}: expected text, got MLIR's bytecode", name);
  while (next < text.size()) {
    const char c = text[next];
    std::optional<Error> error;
    if (c == '\n') {
      ++next;
      error = newLine();
    } else if (c == '/' && at(1) == '/') {
      next = std::min(text.find('\n', next), text.size());
    } else if (c == '"') {
      const size_t from = next;
      skipString();
      if (ownForm && isCalled())
        error = refuse(from, "expected operations as moec prints them, got one "
                             "in generic form");
    } else if (c == '-' && at(1) == '>') {
      next += 2;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      error = open(c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>');
    } else if (!brackets.empty() && c == brackets.back().closer) {
      brackets.pop_back();
      ++next;
    } else if (c == '^') {
      error = label();
    } else if (c == '#' || c == '!' || c == '%' || c == '@' || isLetter(c)) {
      error = word(c);
    } else {
      ++next;
    }
    if (error)
      return *std::move(error);
  }
  return {};
}

bool compiler::looksLikeIr(std::string_view text) {
  while (true) {
    text.remove_prefix(
        std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with("//"))
      break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  if (text.starts_with("ML\xefR")) // bytecode, which checkIrText() rejects
    return true;
  for (const std::string_view word :
       {"builtin.module", "moe.", "\"builtin.", "\"moe.", "{-#"})
    if (text.starts_with(word))
      return true;
  if (text.starts_with("module"))
    return text.size() == 6 || text.find_first_of(" \t\r\n@{") == 6;
  // IR that begins with a sigil continues with a name and '='. A Markdown
  // heading or the first line of a script has no '='.
  const std::string_view sigils = "#!%";
  if (text.empty() || sigils.find(text.front()) == std::string_view::npos)
    return false;
  const bool isValue = text.front() == '%';
  const auto end = std::find_if_not(text.begin() + 1, text.end(), [&](char c) {
    return isOfWord(c) || c == '-' || (isValue && c == ':');
  });
  const size_t length = static_cast<size_t>(end - text.begin());
  const size_t next = text.find_first_not_of(" \t", length);
  return length > 1 && next != std::string_view::npos &&
         (text[next] == '=' || (isValue && text[next] == ','));
}

Result<void> compiler::checkIrText(std::string_view text,
                                   std::string_view name) {
  return Scanner(text, name, /*ownForm=*/true).scan();
}

Result<void> compiler::checkIrBounds(std::string_view text,
                                     std::string_view name) {
  return Scanner(text, name, /*ownForm=*/false).scan();
}
