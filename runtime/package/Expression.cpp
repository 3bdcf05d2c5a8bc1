//===- Expression.cpp - sizes that depend on the run -------------------------
//===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expressions are immutable trees that share their parts. Text is made once,
// when a node is built; a negative constant, for which the grammar has no
// spelling, is written as `0 - n`.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Expression.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>

using namespace moec;

namespace {

enum class Kind { Constant, Symbol, Add, Sub, Mul, CeilDiv, Min, Max };

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

struct FunctionRow {
  std::string_view name;
  Kind kind;
};

constexpr FunctionRow kFunctions[] = {
    {"ceildiv", Kind::CeilDiv}, {"min", Kind::Min}, {"max", Kind::Max}};

/// Bounds what a hostile manifest can make the recursions below cost.
constexpr size_t kMaxTextLength = 4096;
constexpr int kMaxNesting = 64;

enum class Failure { None, Overflow, Divisor, AbsentSymbol };

/// Applies an operation; false when the result does not exist.
Failure apply(Kind kind, int64_t lhs, int64_t rhs, int64_t &result) {
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
    // Division truncates towards zero, which is up for a negative dividend.
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

/// How tightly a text binds: sums 1, products 2, the rest 3.
int precedence(Kind kind, int64_t value) {
  switch (kind) {
  case Kind::Add:
  case Kind::Sub:
    return 1;
  case Kind::Mul:
    return 2;
  case Kind::Constant:
    return value < 0 ? 1 : 3;
  default:
    return 3;
  }
}

std::string constantText(int64_t value) {
  if (value >= 0)
    return fmt::to_string(value);
  if (value == std::numeric_limits<int64_t>::min())
    return fmt::format("0 - {} - 1", std::numeric_limits<int64_t>::max());
  return fmt::format("0 - {}", -value);
}

} // namespace

struct Expression::Node {
  Kind kind = Kind::Constant;
  int64_t value = 0; ///< of a constant; the index into kSymbols of a symbol
  std::shared_ptr<const Node> lhs, rhs;
  std::string text;

  static std::shared_ptr<const Node> constant(int64_t value) {
    return std::make_shared<const Node>(
        Node{Kind::Constant, value, nullptr, nullptr, constantText(value)});
  }

  bool is(int64_t number) const {
    return kind == Kind::Constant && value == number;
  }

  std::string parenthesized(int least) const {
    return precedence(kind, value) < least ? "(" + text + ")" : text;
  }

  static std::shared_ptr<const Node> make(Kind kind,
                                          std::shared_ptr<const Node> lhs,
                                          std::shared_ptr<const Node> rhs) {
    int64_t folded = 0;
    if (lhs->kind == Kind::Constant && rhs->kind == Kind::Constant &&
        apply(kind, lhs->value, rhs->value, folded) == Failure::None)
      return constant(folded);
    if ((kind == Kind::Add || kind == Kind::Sub) && rhs->is(0))
      return lhs;
    if (kind == Kind::Add && lhs->is(0))
      return rhs;
    if (kind == Kind::Mul) {
      if (lhs->is(0) || rhs->is(0))
        return constant(0);
      if (rhs->is(1))
        return lhs;
      if (lhs->is(1))
        return rhs;
    }
    std::string text;
    if (kind == Kind::Add || kind == Kind::Sub)
      text = fmt::format("{} {} {}", lhs->parenthesized(1),
                         kind == Kind::Add ? '+' : '-', rhs->parenthesized(2));
    else if (kind == Kind::Mul)
      text =
          fmt::format("{} * {}", lhs->parenthesized(2), rhs->parenthesized(3));
    else
      for (const FunctionRow &row : kFunctions)
        if (row.kind == kind)
          text = fmt::format("{}({}, {})", row.name, lhs->text, rhs->text);
    return std::make_shared<const Node>(
        Node{kind, 0, std::move(lhs), std::move(rhs), std::move(text)});
  }

  Failure evaluate(const Symbols &symbols, int64_t &result) const {
    if (kind == Kind::Constant) {
      result = value;
      return Failure::None;
    }
    if (kind == Kind::Symbol) {
      const std::optional<int64_t> &given = symbols.*kSymbols[value].value;
      if (!given)
        return Failure::AbsentSymbol;
      result = *given;
      return Failure::None;
    }
    int64_t left = 0, right = 0;
    if (Failure failure = lhs->evaluate(symbols, left);
        failure != Failure::None)
      return failure;
    if (Failure failure = rhs->evaluate(symbols, right);
        failure != Failure::None)
      return failure;
    return apply(kind, left, right, result);
  }

  bool uses(int64_t symbol) const {
    if (kind == Kind::Symbol)
      return value == symbol;
    return lhs && (lhs->uses(symbol) || rhs->uses(symbol));
  }

  /// The tree with another in place of a symbol.
  static std::shared_ptr<const Node>
  replaced(const std::shared_ptr<const Node> &tree, int64_t symbol,
           const std::shared_ptr<const Node> &other) {
    if (tree->kind == Kind::Symbol)
      return tree->value == symbol ? other : tree;
    if (!tree->lhs)
      return tree;
    return make(tree->kind, replaced(tree->lhs, symbol, other),
                replaced(tree->rhs, symbol, other));
  }

  /// Recursive descent over the grammar of Expression.h.
  struct Parser {
    std::string_view text;
    size_t position = 0;
    int nesting = 0;
    std::string problem;

    using Tree = std::shared_ptr<const Node>;

    Tree fail(std::string_view expected) {
      if (problem.empty())
        problem = fmt::format(
            "expected {} at character {}, got {}", expected, position + 1,
            position < text.size()
                ? fmt::format("'{}'", text.substr(position, 16))
                : "the end");
      return nullptr;
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
        Tree rhs = product();
        tree = rhs ? make(kind, tree, rhs) : nullptr;
      }
      --nesting;
      return tree;
    }

    Tree product() {
      Tree tree = factor();
      while (tree && take('*')) {
        Tree rhs = factor();
        tree = rhs ? make(Kind::Mul, tree, rhs) : nullptr;
      }
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
          return constant(number);
        position = begin;
        return fail("an integer below 2^63");
      }
      for (size_t index = 0; index < std::size(kSymbols); ++index)
        if (word == kSymbols[index].name)
          return std::make_shared<const Node>(
              Node{Kind::Symbol, static_cast<int64_t>(index), nullptr, nullptr,
                   std::string(word)});
      for (const FunctionRow &row : kFunctions)
        if (word == row.name)
          return call(row.kind);
      position = begin;
      return fail(fmt::format("one of {}, ceildiv, min, max", kSymbolNames));
    }

    Tree call(Kind kind) {
      if (!take('('))
        return fail("'('");
      Tree lhs = sum();
      if (!lhs)
        return nullptr;
      if (!take(','))
        return fail("','");
      Tree rhs = sum();
      if (!rhs)
        return nullptr;
      if (!take(')'))
        return fail("')'");
      return make(kind, lhs, rhs);
    }
  };
};

Expression::Expression() : Expression(0) {}
Expression::Expression(int64_t constant)
    : Expression(Node::constant(constant)) {}
Expression::Expression(std::shared_ptr<const Node> node)
    : root(std::move(node)), canonical(root->text) {}

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
  Node::Parser parser{text, 0, 0, {}};
  std::shared_ptr<const Node> tree = parser.sum();
  parser.skipSpace();
  if (tree && parser.position < text.size())
    tree = parser.fail("'+', '-', '*' or the end");
  if (!tree)
    return invalidManifest("expression '{}': {}", text, parser.problem);
  return Expression(std::move(tree));
}

Result<int64_t> Expression::evaluate(const Symbols &symbols) const {
  int64_t result = 0;
  switch (root->evaluate(symbols, result)) {
  case Failure::None:
    return result;
  case Failure::Overflow:
    return invalidManifest("expression '{}' overflows 64 bits with {}",
                           canonical, describe(symbols));
  case Failure::Divisor:
    return invalidManifest("expression '{}' divides by less than 1 with {}",
                           canonical, describe(symbols));
  case Failure::AbsentSymbol:
    break;
  }
  return invalidManifest(
      "expression '{}' uses a symbol that has no value here; there is {}",
      canonical, describe(symbols));
}

std::optional<int64_t> Expression::constant() const {
  if (root->kind == Kind::Constant)
    return root->value;
  return std::nullopt;
}

bool Expression::uses(std::string_view symbol) const {
  for (size_t index = 0; index < std::size(kSymbols); ++index)
    if (kSymbols[index].name == symbol)
      return root->uses(static_cast<int64_t>(index));
  return false;
}

Expression Expression::renamed(std::string_view symbol,
                               std::string_view other) const {
  const std::shared_ptr<const Node> from = Expression::symbol(symbol).root;
  const std::shared_ptr<const Node> to = Expression::symbol(other).root;
  return Expression(Node::replaced(root, from->value, to));
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
    return Expression(Expression::Node::make(Kind::kind, lhs.root, rhs.root)); \
  }
MOEC_BINARY(operator+, Add)
MOEC_BINARY(operator-, Sub)
MOEC_BINARY(operator*, Mul)
MOEC_BINARY(ceilDiv, CeilDiv)
MOEC_BINARY(min, Min)
MOEC_BINARY(max, Max)
#undef MOEC_BINARY

} // namespace moec
