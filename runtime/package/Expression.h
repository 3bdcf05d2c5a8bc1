//===- Expression.h - sizes that depend on the run --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes, grids, offsets and tensor-map extents of a manifest are integer
// expressions, evaluated when the token count is known. Written as text:
//
//   expression := term (('+' | '-') term)*
//   term       := factor ('*' factor)*
//   factor     := integer | symbol | '(' expression ')'
//               | ('ceildiv' | 'min' | 'max') '(' expression ',' expression ')'
//   symbol     := tokens | rows | max_tokens | sm_count | experts
//               | local_begin | add_w2_bias | add_zero_experts | own_tokens
//               | rank
//
// `rows` is the manifest's own bound on permuted rows (Manifest::rows);
// `experts` is the number of experts of a pack step. The next three and
// `rank` are of the rank that runs (Manifest::ranks), and of arguments alone.
// `own_tokens` are those that a rank brings to `tokens` where a package gathers
// them (Manifest::tokenRanks). This one evaluator serves the planner of the
// compiler, the launcher and the host device.
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

/// Values of the symbols; an absent one may not be used by the expression.
struct Symbols {
  std::optional<int64_t> tokens, rows, maxTokens, smCount, experts;
  /// The rank's own.
  std::optional<int64_t> localBegin, addW2Bias, addZeroExperts, rank;
  /// There where a package gathers tokens (Manifest::tokenRanks).
  std::optional<int64_t> ownTokens;
};

/// "tokens = 7, rows = 56", for messages; not those of a rank.
std::string describe(const Symbols &symbols);

class Expression {
public:
  /// The constant 0.
  Expression();
  Expression(int64_t constant);

  /// Symbols, for building: Expression::symbol("tokens").
  static Expression symbol(std::string_view name);
  static Result<Expression> parse(std::string_view text);

  /// Evaluates in 64 bits. An overflow, an absent symbol or a division by a
  /// divisor < 1 is an error that shows the expression.
  Result<int64_t> evaluate(const Symbols &symbols) const;

  /// The value when no symbol occurs.
  std::optional<int64_t> constant() const;
  bool uses(std::string_view symbol) const;
  /// With another symbol in place of one.
  Expression renamed(std::string_view symbol, std::string_view other) const;

  /// Canonical text; parse(text()) gives an equal expression. Constants are
  /// folded and x + 0, x * 1, x * 0 simplified when built.
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

  /// In postfix order: operands before their operation.
  std::vector<Part> parts;
};

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_EXPRESSION_H
