//===- Json.cpp - the only parser of JSON ---------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// nlohmann's lexer and grammar call the Builder below. nlohmann's own builder
// is not used, because it silently keeps the last of two equal keys and does
// not limit the depth.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

using namespace moec;
using nlohmann::json;

namespace {

/// An iterator that records how far the parser has read, because nlohmann's
/// parser events contain no position.
class Cursor {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  Cursor(const char *at, const char **farthest) : at(at), farthest(farthest) {}
  reference operator*() const { return *at; }
  Cursor &operator++() {
    *farthest = ++at;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor &other) const { return at == other.at; }
  bool operator!=(const Cursor &other) const { return at != other.at; }

private:
  const char *at;
  const char **farthest;
};

/// Returns a byte offset as a text such as "line 3, column 7".
std::string placeOf(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, std::min(offset, text.size()));
  size_t newline = before.rfind('\n');
  size_t column = newline == std::string_view::npos ? before.size() + 1
                                                    : before.size() - newline;
  return fmt::format("line {}, column {}", 1 + std::ranges::count(before, '\n'),
                     column);
}

/// Returns nlohmann's error reason without its prefix and position, and with
/// long tokens shortened.
std::string reasonOf(std::string_view message) {
  for (std::string_view prefix : {"] ", "parse error at ", ": "})
    if (size_t at = message.find(prefix); at != std::string_view::npos)
      message.remove_prefix(at + prefix.size());
  constexpr std::string_view kRead = "; last read: '", kNext = "; expected ";
  std::string reason(message);
  if (size_t at = message.find(kRead); at != std::string_view::npos) {
    std::string_view token = message.substr(at + kRead.size());
    size_t next = token.rfind(kNext);
    std::string_view rest =
        next == std::string_view::npos ? "" : token.substr(next);
    token = token.substr(0, next);
    token.remove_suffix(token.ends_with('\'') ? 1 : 0);
    // Only the end of the token is kept, because the error is at its end.
    constexpr size_t kTail = 24;
    bool cut = token.size() > kTail;
    if (cut)
      token.remove_prefix(token.size() - kTail);
    reason = fmt::format("{}; last read: '{}{}'{}", message.substr(0, at),
                         cut ? "..." : "", token, rest);
  }
  std::string shown;
  for (char c : reason) {
    bool plain = c >= 0x20 && c < 0x7F; // the token may not be valid UTF-8
    shown += plain ? std::string(1, c) : fmt::format("\\x{:02x}", uint8_t(c));
  }
  return shown;
}

/// Builds a JSON value from parser events. Setting `problem` ends the parsing.
class Builder : public nlohmann::json_sax<json> {
public:
  Builder(std::string_view text, int maxDepth)
      : text(text), maxDepth(maxDepth), farthest(text.data()) {}

  Cursor begin() { return {std::to_address(text.begin()), &farthest}; }
  Cursor end() { return {std::to_address(text.end()), &farthest}; }

  json root;
  std::string problem; ///< the error with its position, or ""

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string &token) override {
    // An integer that does not fit into 64 bits is passed as a rounded double.
    if (token.find_first_of(".eE") == std::string::npos)
      return fail(startOf(token),
                  fmt::format("expected an integer of 64 bits, got {}",
                              shortText(token)));
    // A nonzero number that is too small for a double is passed as 0.
    std::string_view digits(token);
    digits = digits.substr(0, digits.find_first_of("eE"));
    if (value == 0 &&
        digits.find_first_of("123456789") != std::string_view::npos)
      return failRange(token);
    return add(value);
  }
  bool string(std::string &value) override { return add(std::move(value)); }
  // JSON text contains no binary values.
  bool binary(json::binary_t &) override { return false; }

  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string &name) override {
    auto &object = around.back()->get_ref<json::object_t &>();
    auto [entry, isNew] = object.emplace(std::move(name), json());
    if (!isNew)
      return fail(startOfKey(),
                  fmt::format("expected each key once in an object, got \"{}\" "
                              "twice",
                              shortText(entry->first)));
    field = &entry->second;
    return true;
  }

  bool parse_error(size_t position, const std::string &token,
                   const nlohmann::detail::exception &error) override {
    // There are two kinds of errors: invalid syntax, and a number that exceeds
    // the range of double.
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange)
      return failRange(token);
    return fail(position ? position - 1 : 0,
                fmt::format("expected JSON, got a text that is not: {}{}",
                            reasonOf(error.what()),
                            habitAt(position ? position - 1 : 0)));
  }

private:
  /// Returns a hint if the syntax at `at` is valid in other formats but not in
  /// JSON.
  std::string_view habitAt(size_t at) const {
    const char here = at < text.size() ? text[at] : ' ';
    if (here == '\'')
      return "; JSON has strings in double quotes only";
    if (here == '/' || here == '#')
      return "; JSON has no comments";
    if (at == 0 || (here != '}' && here != ']'))
      return "";
    const size_t before = text.find_last_not_of(" \t\r\n", at - 1);
    return before != text.npos && text[before] == ','
               ? "; JSON has no comma after the last element"
               : "";
  }
  size_t offset() const { return size_t(farthest - text.data()); }
  /// Returns the start offset of a token. If the token is a number, the parser
  /// has already read one more byte, if there is one.
  size_t startOf(std::string_view token) const {
    size_t end = offset();
    if (end < token.size() ||
        text.substr(end - token.size(), token.size()) != token)
      --end;
    return end - token.size();
  }
  /// Returns the start offset of a key. The search goes backwards to the
  /// opening quote; quotes inside the key have a preceding backslash.
  size_t startOfKey() const {
    size_t at = offset() - 1;
    do
      at = text.rfind('"', at - 1);
    while (text[at - 1] == '\\');
    return at;
  }
  bool fail(size_t where, std::string_view what) {
    problem = fmt::format("{}: {}", placeOf(text, where), what);
    return false;
  }
  bool failRange(const std::string &token) {
    return fail(startOf(token),
                fmt::format("expected a number that a double holds, got {}",
                            shortText(token)));
  }
  /// Returns the location of the next value: the outermost value, the member of
  /// the last key, or a new array element.
  json *slot() {
    if (around.empty())
      return &root;
    if (around.back()->is_object())
      return field;
    return &around.back()->get_ref<json::array_t &>().emplace_back();
  }
  template <typename T> bool add(T &&item) {
    *slot() = std::forward<T>(item);
    return true;
  }
  bool open(json &&container) {
    if (around.size() >= size_t(maxDepth))
      return fail(offset() - 1,
                  fmt::format("expected at most {} levels of nesting, got more",
                              maxDepth));
    json *place = slot();
    *place = std::move(container);
    around.push_back(place);
    return true;
  }
  bool close() {
    around.pop_back();
    return true;
  }

  std::string_view text;
  int maxDepth;
  const char *farthest;
  std::vector<json *> around; ///< the containers that are still open
  json *field = nullptr;      ///< the member of the last key
};

/// Appends the JSON text of a value until `to` has more than `longest` bytes.
/// Deep nesting cannot exhaust the stack, because each level appends at least
/// one bracket.
void appendJson(const json &value, size_t longest, std::string &to) {
  if (to.size() > longest)
    return;
  if (value.is_string()) {
    to += '"' + shortText(value.get_ref<const std::string &>(), longest) + '"';
  } else if (value.is_object()) {
    to += '{';
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (it != value.begin())
        to += ',';
      to += '"' + shortText(it.key(), longest) + "\":";
      appendJson(it.value(), longest, to);
      if (to.size() > longest)
        return;
    }
    to += '}';
  } else if (value.is_array()) {
    to += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i)
        to += ',';
      appendJson(value[i], longest, to);
      if (to.size() > longest)
        return;
    }
    to += ']';
  } else {
    to += value.dump();
  }
}

} // namespace

template <typename Json>
Boxed<Json>::Boxed() : value(std::make_unique<Json>(Json::object())) {}
template <typename Json>
Boxed<Json>::Boxed(Json value)
    : value(std::make_unique<Json>(std::move(value))) {}
template <typename Json>
Boxed<Json>::Boxed(const Boxed &other)
    : value(other.value ? std::make_unique<Json>(*other.value) : nullptr) {}
template <typename Json> Boxed<Json>::Boxed(Boxed &&other) noexcept = default;
template <typename Json>
Boxed<Json> &Boxed<Json>::operator=(const Boxed &other) {
  return *this = Boxed(other);
}
template <typename Json>
Boxed<Json> &Boxed<Json>::operator=(Boxed &&other) noexcept = default;
template <typename Json> Boxed<Json>::~Boxed() = default;
template <typename Json> Json &Boxed<Json>::operator[](const std::string &key) {
  return (*value)[key];
}

template class moec::Boxed<json>;
template class moec::Boxed<nlohmann::ordered_json>;

Result<json> moec::parseJsonObject(std::string_view text, std::string_view name,
                                   ErrorCode code, JsonBounds bounds) {
  auto failure = [&](std::string_view what) {
    return Error(code, "{}: {}", name, what);
  };
  if (text.size() > bounds.bytes)
    return failure(fmt::format("expected at most {} bytes of JSON, got {}",
                               bounds.bytes, text.size()));
  // nlohmann's parser would treat a zero byte as the end of the text.
  if (size_t zero = text.find('\0'); zero != std::string_view::npos)
    return failure(
        fmt::format("{}: expected JSON, got a byte 0", placeOf(text, zero)));
  Builder builder(text, bounds.depth);
  bool parsed = json::sax_parse(builder.begin(), builder.end(), &builder);
  if (!parsed)
    return failure(builder.problem);
  if (!builder.root.is_object())
    return failure(fmt::format("expected a JSON object, got {}",
                               describeJson(builder.root)));
  return std::move(builder.root);
}

std::string moec::shortText(std::string_view text, size_t longest) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    if (shown.size() >= longest)
      return shown + "...";
    at = appendPrintable(shown, text, at, /*keepsLines=*/false);
  }
  return shown;
}

std::string moec::describeJson(const json &value) {
  switch (value.type()) {
  case json::value_t::null:
    return "null";
  case json::value_t::object:
    return "an object";
  case json::value_t::array:
    return "an array";
  case json::value_t::string:
    return fmt::format("the string \"{}\"",
                       shortText(value.get_ref<const std::string &>()));
  case json::value_t::boolean:
    return value.get<bool>() ? "true" : "false";
  default:
    return fmt::format("the number {}", value.dump());
  }
}

std::string moec::shortJson(const json &value, size_t longest) {
  std::string text;
  appendJson(value, longest, text);
  if (text.size() > longest) {
    // The text must not be cut within a UTF-8 sequence.
    while (longest > 0 && (text[longest] & 0xC0) == 0x80)
      --longest;
    text.resize(longest);
    text += "...";
  }
  return text;
}
