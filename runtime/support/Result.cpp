//===- Result.cpp - error codes and printable text ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names of error codes for logs, JSON and programs, and the conversion of
// untrusted text to printable text.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Result.h"

#include <cstdint>
#include <fmt/format.h>

using namespace moec;

/// Names, indexed by error code.
static constexpr std::string_view kNames[] = {
    "ok",
    "invalid_argument",
    "invalid_manifest",
    "damaged_package",
    "no_matching_target",
    "device_limit",
    "too_many_tokens",
    "workspace_too_small",
    "misaligned",
    "context_in_use",
    "capturing",
    "strict_miss",
    "compile_failed",
    "no_compiler",
    "no_driver",
    "driver_failed",
    "file_system",
    "refused",
    "internal",
    "peer_lost",
    "peer_mismatch",
    "no_communication",
    "interrupted",
};
static_assert(std::size(kNames) == size_t(ErrorCode::Interrupted) + 1);

std::string_view moec::errorCodeName(ErrorCode code) {
  const auto number = static_cast<size_t>(code);
  if (number < std::size(kNames))
    return kNames[number];
  return "unknown";
}

/// Returns the length and the code point of the UTF-8 sequence at offset `at`.
/// Returns 1 and 0 if there is no valid multibyte sequence.
static std::pair<size_t, uint32_t> decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[at + i]);
  };
  const size_t size = byte(0) < 0xC2   ? 1
                      : byte(0) < 0xE0 ? 2
                      : byte(0) < 0xF0 ? 3
                      : byte(0) < 0xF5 ? 4
                                       : 1;
  if (size == 1 || at + size > text.size())
    return {1, 0};
  uint32_t point = byte(0) & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80)
      return {1, 0};
    point = point << 6 | (byte(i) & 0x3F);
  }
  return {size, point};
}

size_t moec::appendPrintable(std::string &to, std::string_view text, size_t at,
                             bool keepsLines) {
  const auto first = static_cast<unsigned char>(text[at]);
  const auto [size, point] = decode(text, at);
  const bool isLine = first == '\n' || first == '\t';
  const bool isControl =
      size == 1 && ((first < 0x20 && !(isLine && keepsLines)) ||
                    (first >= 0x7F && first < 0xA0));
  // These are 8-bit control characters, and characters that embed, override or
  // isolate a text direction.
  const bool isHidden = (point >= 0x80 && point < 0xA0) ||
                        (point >= 0x202A && point <= 0x202E) ||
                        (point >= 0x2066 && point <= 0x2069);
  if (isControl)
    to += fmt::format("\\x{:02x}", first);
  else if (isHidden)
    to += fmt::format("\\u{:04x}", point);
  else
    to += text.substr(at, size);
  return at + size;
}

std::string moec::printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size();)
    at = appendPrintable(shown, text, at, /*keepsLines=*/true);
  return shown;
}
