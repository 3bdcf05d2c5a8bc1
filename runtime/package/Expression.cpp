//===- Expression.cpp - sizes that depend on a run ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An expression is stored as a list of operands and operations in postfix
// order. Each entry has only 16 bytes, so even an untrusted text needs little
// memory. The grammar has no negative constants, so -n is written as `0 - n`.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Expression.h"

#include "runtime/support/Json.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>

using namespace moec;

namespace {

struct SymbolRow {
  std::string_view name;
  std::optional<int64_t> Symbols::*value;
  bool ofRank = false;
};

constexpr SymbolRow kSymbols[] = {
    {"tokens", &Symbols::tokens},
    {"rows", &Symbols::rows},
    {"max_tokens", &Symbols::maxTokens},
    {"sm_count", &Symbols::smCount},
    {"experts", &Symbols::experts},
    {"local_begin", &Symbols::localBegin, true},
    {"add_w2_bias", &Symbols::addW2Bias, true},
    {"add_zero_experts", &Symbols::addZeroExperts, true},
    {"own_tokens", &Symbols::ownTokens},
    {"rank", &Symbols::rank, true}};
constexpr std::string_view kSymbolNames =
    "tokens, rows, max_tokens, sm_count, experts, local_begin, add_w2_bias, "
    "add_zero_experts, own_tokens, rank";

/// Limits for expressions in an untrusted manifest, which bound the depth and
/// cost of the recursions below. If a text is within the limits for nesting and
/// operands, its canonical form is within the limit for the length.
constexpr size_t kMaxTextLength = 65536;
constexpr int kMaxNesting = 64;
constexpr size_t kMaxOperands = 1024;
/// Maximum number of characters of an expression that an error message shows.
constexpr size_t kShownText = 200;

std::string constantText(int64_t value) {
  if (value >= 0)
    return fmt::to_string(value);
  if (value == std::numeric_limits<int64_t>::min())
    return fmt::format("0 - {} - 1", std::numeric_limits<int64_t>::max());
  return fmt::format("0 - {}", -value);
}

} // namespace

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

Expression::Failure Expression::apply(Kind kind, int64_t lhs, int64_t rhs,
                                      int64_t &result) {
  switch (kind) {
  case Kind::Add:
    return __builtin_add_overflow(lhs, rhs, &result) ? Failure::Overflow
                                                     : Failure::None;
  case Kind::Sub:
    return __builtin_sub_overflow(lhs, rhs, &result) ? Failure::Overflow
                                                     : Failure::None;
  case Kind::Mul:
    return __builtin_mul_overflow(lhs, rhs, &result) ? Failure::Overflow
                                                     : Failure::None;
  case Kind::CeilDiv:
    if (rhs < 1)
      return Failure::Divisor;
    // Division truncates toward zero, which already rounds up if the dividend
    // is negative.
    result = lhs / rhs + (lhs % rhs > 0);
    return Failure::None;
  case Kind::Min:
    result = std::min(lhs, rhs);
    return Failure::None;
  case Kind::Max:
    result = std::max(lhs, rhs);
    return Failure::None;
  case Kind::Constant:
  case Kind::Symbol:
    break;
  }
  return Failure::Overflow;
}

Expression Expression::ofSymbol(size_t index) {
  Expression made;
  made.parts = {{Kind::Symbol, static_cast<int64_t>(index)}};
  return made;
}

Expression Expression::make(Kind kind, Expression lhs, Expression rhs) {
  const std::optional<int64_t> left = lhs.constant(), right = rhs.constant();
  int64_t folded = 0;
  if (left && right && apply(kind, *left, *right, folded) == Failure::None)
    return Expression(folded);
  if ((kind == Kind::Add || kind == Kind::Sub) && rhs.is(0))
    return lhs;
  if (kind == Kind::Add && lhs.is(0))
    return rhs;
  if (kind == Kind::Mul) {
    if (lhs.is(0) || rhs.is(0))
      return Expression(0);
    if (rhs.is(1))
      return lhs;
    if (lhs.is(1))
      return rhs;
  }
  lhs.parts.insert(lhs.parts.end(), rhs.parts.begin(), rhs.parts.end());
  lhs.parts.push_back({kind, 0});
  return lhs;
}

//===----------------------------------------------------------------------===//
// Conversion to and from text
//===----------------------------------------------------------------------===//

/// The text of a subexpression and its precedence: 1 for + and -, 2 for *, 3
/// for everything else.
struct Expression::Printed {
  std::string text;
  int precedence = 3;
  std::string within(int least) && {
    return precedence < least ? "(" + text + ")" : std::move(text);
  }
};

Expression::Printed Expression::print(size_t &end) const {
  const Part &part = parts[--end];
  if (part.kind == Kind::Constant)
    return {constantText(part.value), part.value < 0 ? 1 : 3};
  if (part.kind == Kind::Symbol)
    return {std::string(kSymbols[part.value].name)};
  Printed rhs = print(end), lhs = print(end);
  switch (part.kind) {
  case Kind::Add:
    return {std::move(lhs).within(1) + " + " + std::move(rhs).within(2), 1};
  case Kind::Sub:
    return {std::move(lhs).within(1) + " - " + std::move(rhs).within(2), 1};
  case Kind::Mul:
    return {std::move(lhs).within(2) + " * " + std::move(rhs).within(3), 2};
  default:
    break;
  }
  const std::string_view name = part.kind == Kind::CeilDiv ? "ceildiv"
                                : part.kind == Kind::Min   ? "min"
                                                           : "max";
  return {fmt::format("{}({}, {})", name, lhs.text, rhs.text)};
}

std::string Expression::text() const {
  size_t end = parts.size();
  return print(end).text;
}

/// A recursive descent parser for the grammar in runtime/package/Expression.h.
struct Expression::Parser {
  std::string_view text;
  size_t position = 0;
  int nesting = 0;
  size_t operands = 0;
  std::string problem = {};

  using Tree = std::optional<Expression>;

  Tree fail(std::string_view expected) {
    if (problem.empty())
      problem = fmt::format(
          "expected {} at character {}, got {}", expected, position + 1,
          position < text.size()
              ? fmt::format("'{}'", shortText(text.substr(position, 16)))
              : "the end");
    return std::nullopt;
  }

  Tree join(Kind kind, Tree lhs, Tree rhs) {
    if (!lhs || !rhs)
      return std::nullopt;
    return make(kind, *std::move(lhs), *std::move(rhs));
  }

  void skipSpace() {
    while (position < text.size() && text[position] == ' ')
      ++position;
  }

  bool take(char character) {
    skipSpace();
    if (position >= text.size() || text[position] != character)
      return false;
    ++position;
    return true;
  }

  Tree sum() {
    if (nesting >= kMaxNesting)
      return fail(fmt::format("at most {} nested parts", kMaxNesting));
    ++nesting;
    Tree tree = product();
    while (tree) {
      Kind kind;
      if (take('+'))
        kind = Kind::Add;
      else if (take('-'))
        kind = Kind::Sub;
      else
        break;
      tree = join(kind, std::move(tree), product());
    }
    --nesting;
    return tree;
  }

  Tree product() {
    Tree tree = factor();
    while (tree && take('*'))
      tree = join(Kind::Mul, std::move(tree), factor());
    return tree;
  }

  Tree factor() {
    if (take('(')) {
      Tree tree = sum();
      if (tree && !take(')'))
        return fail("')'");
      return tree;
    }
    skipSpace();
    if (++operands > kMaxOperands)
      return fail(fmt::format("at most {} operands", kMaxOperands));
    size_t begin = position;
    while (position < text.size() &&
           (text[position] == '_' ||
            (text[position] >= '0' && text[position] <= '9') ||
            (text[position] >= 'a' && text[position] <= 'z')))
      ++position;
    std::string_view word = text.substr(begin, position - begin);
    if (word.empty())
      return fail("an integer, a symbol or '('");
    if (word[0] >= '0' && word[0] <= '9') {
      int64_t number = 0;
      auto [end, code] =
          std::from_chars(word.data(), word.data() + word.size(), number);
      if (code == std::errc() && end == word.data() + word.size())
        return Expression(number);
      position = begin;
      return fail("an integer below 2^63");
    }
    for (size_t index = 0; index < std::size(kSymbols); ++index)
      if (word == kSymbols[index].name)
        return ofSymbol(index);
    if (word == "ceildiv")
      return call(Kind::CeilDiv);
    if (word == "min")
      return call(Kind::Min);
    if (word == "max")
      return call(Kind::Max);
    position = begin;
    return fail(fmt::format("one of {}, ceildiv, min, max", kSymbolNames));
  }

  Tree call(Kind kind) {
    if (!take('('))
      return fail("'('");
    Tree lhs = sum();
    if (!lhs)
      return std::nullopt;
    if (!take(','))
      return fail("','");
    Tree rhs = sum();
    if (!rhs)
      return std::nullopt;
    if (!take(')'))
      return fail("')'");
    return join(kind, std::move(lhs), std::move(rhs));
  }
};

Expression::Expression() : Expression(0) {}
Expression::Expression(int64_t constant)
    : parts({{Kind::Constant, constant}}) {}

Expression Expression::symbol(std::string_view name) {
  Result<Expression> parsed = parse(name);
  assert(parsed && "not a symbol");
  return *parsed;
}

Result<Expression> Expression::parse(std::string_view text) {
  if (text.size() > kMaxTextLength)
    return invalidManifest(
        "expected an expression of at most {} characters, got {}",
        kMaxTextLength, text.size());
  Parser parser{text};
  std::optional<Expression> tree = parser.sum();
  parser.skipSpace();
  if (tree && parser.position < text.size())
    tree = parser.fail("'+', '-', '*' or the end");
  if (!tree)
    return invalidManifest("expression '{}': {}", shortText(text, kShownText),
                           parser.problem);
  return *std::move(tree);
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

Expression::Failure Expression::evaluate(const Symbols &symbols, size_t &end,
                                         int64_t &result) const {
  const Part &part = parts[--end];
  if (part.kind == Kind::Constant) {
    result = part.value;
    return Failure::None;
  }
  if (part.kind == Kind::Symbol) {
    const std::optional<int64_t> &given = symbols.*kSymbols[part.value].value;
    if (!given)
      return Failure::AbsentSymbol;
    result = *given;
    return Failure::None;
  }
  int64_t left = 0, right = 0;
  if (Failure failure = evaluate(symbols, end, right); failure != Failure::None)
    return failure;
  if (Failure failure = evaluate(symbols, end, left); failure != Failure::None)
    return failure;
  return apply(part.kind, left, right, result);
}

Result<int64_t> Expression::evaluate(const Symbols &symbols) const {
  int64_t result = 0;
  size_t end = parts.size();
  const Failure failure = evaluate(symbols, end, result);
  if (failure == Failure::None)
    return result;
  const std::string shown = shortText(text(), kShownText);
  if (failure == Failure::Overflow)
    return invalidManifest("expression '{}' overflows 64 bits with {}", shown,
                           describe(symbols));
  if (failure == Failure::Divisor)
    return invalidManifest("expression '{}' divides by less than 1 with {}",
                           shown, describe(symbols));
  return invalidManifest(
      "expression '{}' uses a symbol that has no value here; there is {}",
      shown, describe(symbols));
}

std::optional<int64_t> Expression::constant() const {
  if (parts.size() == 1 && parts[0].kind == Kind::Constant)
    return parts[0].value;
  return std::nullopt;
}

bool Expression::uses(std::string_view symbol) const {
  return std::ranges::any_of(parts, [&](const Part &part) {
    return part.kind == Kind::Symbol && kSymbols[part.value].name == symbol;
  });
}

Expression Expression::renamed(std::string_view symbol,
                               std::string_view other) const {
  const Part from = Expression::symbol(symbol).parts[0];
  Expression result = *this;
  std::ranges::replace(result.parts, from, Expression::symbol(other).parts[0]);
  return result;
}

std::string moec::describe(const Symbols &symbols) {
  std::string text;
  for (const SymbolRow &row : kSymbols)
    if (const std::optional<int64_t> &value = symbols.*row.value;
        value && !row.ofRank)
      text +=
          fmt::format("{}{} = {}", text.empty() ? "" : ", ", row.name, *value);
  return text.empty() ? "no symbol" : text;
}

namespace moec {

#define MOEC_BINARY(function, kind)                                            \
  Expression function(const Expression &lhs, const Expression &rhs) {          \
    return Expression::make(Expression::Kind::kind, lhs, rhs);                 \
  }
MOEC_BINARY(operator+, Add)
MOEC_BINARY(operator-, Sub)
MOEC_BINARY(operator*, Mul)
MOEC_BINARY(ceilDiv, CeilDiv)
MOEC_BINARY(min, Min)
MOEC_BINARY(max, Max)
#undef MOEC_BINARY

} // namespace moec
