//===- Expression.h - sizes that depend on a run ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes, grids, offsets and tensor-map extents of a manifest are integer
// expressions, which are evaluated when the token count is known. The grammar
// is:
//
//   expression := term (('+' | '-') term)*
//   term       := factor ('*' factor)*
//   factor     := integer | symbol | '(' expression ')'
//               | ('ceildiv' | 'min' | 'max') '(' expression ',' expression ')'
//   symbol     := tokens | rows | max_tokens | sm_count | experts
//               | local_begin | add_w2_bias | add_zero_experts | own_tokens
//               | rank
//
// `rows` is the manifest's upper bound for the number of permuted rows
// (Manifest::rows). `experts` is the number of experts of a pack step.
// `local_begin`, `add_w2_bias`, `add_zero_experts` and `rank` are properties of
// the rank that runs (Manifest::ranks); only kernel arguments may use them.
// `own_tokens` is the number of tokens of one rank if a package gathers tokens
// (Manifest::tokenRanks). The compiler's planner, the launcher and the host
// device all use this evaluator.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_EXPRESSION_H
#define MOEC_RUNTIME_PACKAGE_EXPRESSION_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Values of the symbols. It is an error to evaluate an expression that uses an
/// absent symbol.
struct Symbols {
  std::optional<int64_t> tokens, rows, maxTokens, smCount, experts;
  /// Values that depend on the rank that runs.
  std::optional<int64_t> localBegin, addW2Bias, addZeroExperts, rank;
  /// Present if the package gathers tokens (Manifest::tokenRanks).
  std::optional<int64_t> ownTokens;
};

/// Returns a text for messages, such as "tokens = 7, rows = 56". Rank
/// properties are omitted.
std::string describe(const Symbols &symbols);

class Expression {
public:
  /// Creates the constant 0.
  Expression();
  Expression(int64_t constant);

  /// Creates a symbol: Expression::symbol("tokens").
  static Expression symbol(std::string_view name);
  static Result<Expression> parse(std::string_view text);

  /// Evaluates the expression in 64 bits. An overflow, an absent symbol or a
  /// divisor < 1 is an error; the message shows the expression.
  Result<int64_t> evaluate(const Symbols &symbols) const;

  /// Returns the value if the expression is a constant.
  std::optional<int64_t> constant() const;
  bool uses(std::string_view symbol) const;
  /// Returns a copy of the expression in which `symbol` is replaced by `other`.
  Expression renamed(std::string_view symbol, std::string_view other) const;

  /// Returns the canonical text; parse(text()) yields an equal expression. The
  /// operators fold constants and simplify x + 0, x * 1 and x * 0.
  std::string text() const;
  bool operator==(const Expression &other) const = default;

  friend Expression operator+(const Expression &, const Expression &);
  friend Expression operator-(const Expression &, const Expression &);
  friend Expression operator*(const Expression &, const Expression &);
  friend Expression ceilDiv(const Expression &, const Expression &);
  friend Expression min(const Expression &, const Expression &);
  friend Expression max(const Expression &, const Expression &);

private:
  enum class Kind : int32_t {
    Constant,
    Symbol,
    Add,
    Sub,
    Mul,
    CeilDiv,
    Min,
    Max
  };
  struct Part {
    Kind kind = Kind::Constant;
    int64_t value = 0; ///< the constant, or the index of the symbol
    bool operator==(const Part &other) const = default;
  };
  enum class Failure { None, Overflow, Divisor, AbsentSymbol };
  struct Parser;
  struct Printed;

  static Failure apply(Kind kind, int64_t lhs, int64_t rhs, int64_t &result);
  static Expression make(Kind kind, Expression lhs, Expression rhs);
  static Expression ofSymbol(size_t index);
  Failure evaluate(const Symbols &symbols, size_t &end, int64_t &result) const;
  Printed print(size_t &end) const;
  bool is(int64_t number) const { return constant() == number; }

  /// Parts in postfix order: operands precede their operation.
  std::vector<Part> parts;
};

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_EXPRESSION_H
