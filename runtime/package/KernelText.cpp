//===- KernelText.cpp - restrictions on texts for NVRTC -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC has no option that prevents #include and __has_include from accessing
// the file system (--no-source-include still allows absolute paths). Therefore
// this file checks the source text itself.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/KernelText.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;

std::vector<std::string> moec::kernelOptions(std::string_view arch) {
  return {"-std=c++20", fmt::format("-arch={}", arch), "-default-device"};
}

namespace {

Error refuse(std::string_view expected, std::string_view found) {
  // A line of untrusted text may have any length.
  return invalidManifest("expected {}, got '{}'", expected,
                         found.substr(0, 80));
}

bool isBlank(char c) { return c == ' ' || c == '\t'; }

bool isWordPart(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

/// Character sequences that access a file, or that can be used to form such a
/// directive without a `#`.
constexpr std::string_view kForbidden[] = {
    "__has_", // __has_include and __has_embed open the file in their argument
    "_Pragma", "__pragma", // directives without #
    "%:",      "?\?=",     // other spellings of #
    "?\?/",                // another spelling of the backslash
    "\\u",     "\\U",      // escapes for any character
};

class TextCheck {
public:
  Result<std::set<std::string>> run(std::string_view given) {
    TRY(splice(given));
    for (std::string_view word : kForbidden)
      if (size_t at = text.find(word); at != std::string::npos)
        return refuse(fmt::format("no '{}' in a kernel's text", word),
                      lineFrom(at));
    for (size_t at = text.find("import"); at != std::string::npos;
         at = text.find("import", at + 1))
      if (wordAt(at) == "import" && (at == 0 || !isWordPart(text[at - 1])))
        return refuse("no 'import' in a kernel's text", lineFrom(at));
    for (size_t at = text.find('#'); at != std::string::npos;) {
      bool pastes = at + 1 < text.size() && text[at + 1] == '#';
      TRY(pastes ? checkPaste(at) : checkDirective(at));
      at = text.find('#', at + (pastes ? 2 : 1));
    }
    return std::move(names);
  }

private:
  std::string text; ///< without line continuations
  std::set<std::string> names;
  /// The range of the most recent #define line.
  size_t defineBegin = 0, defineEnd = 0;

  /// Joins continued lines. Returns an error for characters that compilers
  /// interpret differently.
  Result<void> splice(std::string_view given) {
    text.reserve(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      unsigned char c = static_cast<unsigned char>(given[i]);
      if (c == 0x7f || (c < ' ' && c != '\n' && c != '\t'))
        return invalidManifest("expected text with no control character but "
                               "newline and tab, got byte {:#04x} at {}",
                               c, i);
      if (c == '\\') {
        size_t next = given.find_first_not_of(" \t", i + 1);
        if (next != std::string_view::npos && given[next] == '\n') {
          if (next != i + 1)
            return refuse("no blank between a backslash and the line's end",
                          given.substr(i, next - i));
          i = next;
          continue;
        }
      }
      text += given[i];
    }
    return {};
  }

  std::string_view lineFrom(size_t at) const {
    return std::string_view(text).substr(at, lineEnd(at) - at);
  }
  size_t lineEnd(size_t at) const {
    return std::min(text.find('\n', at), text.size());
  }
  size_t skipBlanks(size_t at) const {
    while (at < text.size() && isBlank(text[at]))
      ++at;
    return at;
  }
  std::string_view wordAt(size_t at) const {
    size_t end = at;
    while (end < text.size() && isWordPart(text[end]))
      ++end;
    return std::string_view(text).substr(at, end - at);
  }

  /// Checks the text after a `#`. The `#` starts a directive or, in a #define,
  /// stringizes a macro parameter.
  Result<void> checkDirective(size_t at) {
    size_t begin = skipBlanks(at + 1);
    std::string_view word = wordAt(begin);
    size_t behind = skipBlanks(begin + word.size());
    if (begin < text.size() && text[begin] == '/')
      return refuse("no comment after '#'", lineFrom(at));
    if (word == "include")
      return checkInclude(at, behind);
    if (word == "pragma") {
      std::string_view what = wordAt(behind);
      if (what != "once" && what != "unroll")
        return refuse("#pragma once or unroll", lineFrom(at));
      return {};
    }
    // #embed, #import and #include_next open files. #line and `# 1 "file"`
    // rename a file. #using and #ident are extensions of other compilers.
    for (std::string_view other :
         {"include_next", "import", "embed", "line", "using", "ident"})
      if (word == other)
        return refuse(fmt::format("no #{} in a kernel's text", other),
                      lineFrom(at));
    if (!word.empty() && word[0] >= '0' && word[0] <= '9')
      return refuse("no line marker in a kernel's text", lineFrom(at));
    if (word == "define" && at >= defineEnd && beginsLine(at)) {
      defineBegin = at;
      defineEnd = lineEnd(at);
    }
    return {};
  }

  bool beginsLine(size_t at) const {
    while (at > 0 && isBlank(text[at - 1]))
      --at;
    return at == 0 || text[at - 1] == '\n';
  }

  Result<void> checkInclude(size_t at, size_t behind) {
    constexpr std::string_view kForm =
        "#include \"NAME\" and nothing else on the line";
    if (behind >= text.size() || text[behind] != '"')
      return refuse(kForm, lineFrom(at));
    size_t end = text.find_first_of("\"\n", behind + 1);
    if (end == std::string::npos || text[end] != '"')
      return refuse(kForm, lineFrom(at));
    size_t rest = skipBlanks(end + 1);
    if (rest < text.size() && text[rest] != '\n' &&
        text.compare(rest, 2, "//") != 0)
      return refuse(kForm, lineFrom(at));
    names.insert(text.substr(behind + 1, end - behind - 1));
    return {};
  }

  /// Checks a `##`, which pastes two tokens. It may only form names that begin
  /// with MOE_, because otherwise it could form one of the forbidden words.
  Result<void> checkPaste(size_t at) const {
    constexpr std::string_view kRule =
        "'##' only in a #define, after a word that begins with MOE_ and is no "
        "parameter";
    if (at < defineBegin || at >= defineEnd)
      return refuse(kRule, lineFrom(at));
    std::string_view line(text);
    line = line.substr(defineBegin, defineEnd - defineBegin);
    if (line.find("//") != line.npos || line.find("/*") != line.npos ||
        line.find("*/") != line.npos)
      return refuse("no comment on the line of a '##'", line);
    size_t end = at;
    while (end > defineBegin && isBlank(text[end - 1]))
      --end;
    size_t begin = end;
    while (begin > defineBegin && isWordPart(text[begin - 1]))
      --begin;
    std::string_view left = std::string_view(text).substr(begin, end - begin);
    // In `#define NAME(a, b)` the parameter list follows the name without a
    // blank.
    size_t name = skipBlanks(skipBlanks(defineBegin + 1) + 6);
    size_t open = name + wordAt(name).size();
    std::string_view parameters;
    if (open < text.size() && text[open] == '(')
      parameters = std::string_view(text).substr(
          open, std::min(text.find(')', open), defineEnd) - open);
    if (left.substr(0, 4) != "MOE_" ||
        parameters.find(left) != std::string_view::npos)
      return refuse(kRule, line);
    return {};
  }
};

} // namespace

Result<std::set<std::string>> moec::includedNames(std::string_view text) {
  return TextCheck().run(text);
}
