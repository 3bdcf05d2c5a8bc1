//===- ExpressionTest.cpp - sizes that depend on the run ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values, text, folding and failure; random trees survive text and back.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Expression.h"

#include <gmock/gmock.h>
#include <limits>
#include <random>
#include <sys/resource.h>

using namespace moec;
using testing::HasSubstr;

static Symbols someSymbols() {
  Symbols symbols;
  symbols.tokens = 7;
  symbols.rows = 56;
  symbols.maxTokens = 65536;
  symbols.smCount = 132;
  symbols.experts = 3;
  return symbols;
}

static int64_t valueOf(const char *text) {
  Result<Expression> parsed = Expression::parse(text);
  EXPECT_TRUE(parsed) << text;
  Result<int64_t> value = parsed->evaluate(someSymbols());
  EXPECT_TRUE(value) << text;
  return *value;
}

static std::string problemOf(const std::string &text) {
  Result<Expression> parsed = Expression::parse(text);
  if (!parsed)
    return parsed.error().message;
  Result<int64_t> value = parsed->evaluate(someSymbols());
  return value ? "" : value.error().message;
}

TEST(Expression, evaluates) {
  EXPECT_EQ(valueOf("tokens * 8"), 56);
  EXPECT_EQ(valueOf("1 + 2 * 3 - 4"), 3);
  EXPECT_EQ(valueOf("(1+2)*3"), 9);
  EXPECT_EQ(valueOf("10 - 3 - 2"), 5);
  EXPECT_EQ(valueOf("10 - (3 - 2)"), 9);
  EXPECT_EQ(valueOf("ceildiv(rows, 16)"), 4);
  EXPECT_EQ(valueOf("ceildiv(0 - 5, 2)"), -2);
  EXPECT_EQ(valueOf("min(rows, ceildiv(rows, 16) + 4)"), 8);
  EXPECT_EQ(valueOf("max(max_tokens, sm_count) + experts"), 65539);
  EXPECT_EQ(valueOf("9223372036854775807"),
            std::numeric_limits<int64_t>::max());
}

TEST(Expression, simplifiesWhenBuilt) {
  Expression tokens = Expression::symbol("tokens");
  EXPECT_EQ((tokens + 0).text(), "tokens");
  EXPECT_EQ((Expression(0) + tokens).text(), "tokens");
  EXPECT_EQ((tokens * 1).text(), "tokens");
  EXPECT_EQ((tokens * 0).text(), "0");
  EXPECT_EQ((Expression(2) + 3).text(), "5");
  EXPECT_EQ((tokens * 2 + 1).text(), "tokens * 2 + 1");
  EXPECT_EQ(((tokens + 1) * 2).text(), "(tokens + 1) * 2");
  EXPECT_EQ((tokens - (tokens - 1)).text(), "tokens - (tokens - 1)");
  EXPECT_EQ((tokens - tokens * 2).text(), "tokens - tokens * 2");
  EXPECT_EQ(ceilDiv(tokens, 4).text(), "ceildiv(tokens, 4)");
  EXPECT_EQ((tokens * 2).constant(), std::nullopt);
  EXPECT_EQ(Expression(3).constant(), 3);
  EXPECT_TRUE((tokens * 2).uses("tokens"));
  EXPECT_FALSE((tokens * 2).uses("rows"));
}

TEST(Expression, negativeConstantsHaveText) {
  for (int64_t value : {int64_t(-1), std::numeric_limits<int64_t>::min()}) {
    Expression expression = Expression::symbol("tokens") * Expression(value);
    Result<Expression> parsed = Expression::parse(expression.text());
    ASSERT_TRUE(parsed) << expression.text();
    EXPECT_EQ(*parsed, expression);
  }
}

TEST(Expression, saysWhatIsWrong) {
  EXPECT_THAT(problemOf("tokens +"), HasSubstr("expected an integer, a symbol "
                                               "or '(' at character 9, got the "
                                               "end"));
  EXPECT_THAT(problemOf("token"), HasSubstr("expected one of tokens, rows"));
  EXPECT_THAT(problemOf("min(1)"), HasSubstr("expected ',' at character 6"));
  EXPECT_THAT(problemOf("(1"), HasSubstr("expected ')'"));
  EXPECT_THAT(problemOf("1 2"), HasSubstr("or the end at character 3"));
  EXPECT_THAT(problemOf("9223372036854775808"), HasSubstr("below 2^63"));
  EXPECT_THAT(problemOf(std::string(100, '(') + "1"),
              HasSubstr("at most 64 nested"));
  EXPECT_THAT(problemOf(std::string(70000, ' ')), HasSubstr("at most 65536"));
  std::string many = "tokens";
  for (int i = 1; i < 1024; ++i)
    many += "-rows";
  EXPECT_EQ(problemOf(many), "");
  EXPECT_THAT(problemOf(many + "-rows"), HasSubstr("at most 1024 operands"));
  EXPECT_THAT(problemOf(many + "-max(1, 2)"),
              HasSubstr("at most 1024 operands"));
  // A message shows the beginning.
  EXPECT_LT(problemOf(many + "*").size(), 400u);
  EXPECT_LT(problemOf(many + "-9223372036854775807").size(), 400u);
  EXPECT_EQ(problemOf("max_tokens * 9223372036854775807"),
            "expression 'max_tokens * 9223372036854775807' overflows 64 bits "
            "with tokens = 7, rows = 56, max_tokens = 65536, sm_count = 132, "
            "experts = 3");
  EXPECT_THAT(problemOf("9223372036854775807 + 1"), HasSubstr("overflows"));
  EXPECT_THAT(problemOf("ceildiv(1, tokens - 7)"),
              HasSubstr("divides by less than 1"));
  EXPECT_THAT(Expression::symbol("rows").evaluate({}).error().message,
              HasSubstr("has no value here; there is no symbol"));
}

/// The expressions of a manifest of 16 MB stay below a gigabyte, also with the
/// memory that a sanitizer keeps.
TEST(Expression, isSmall) {
  std::string many = "tokens";
  for (int i = 1; i < 1024; ++i)
    many += "-rows";
  const auto peak = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak();
  std::vector<Expression> all;
  for (int i = 0; i < 4000; ++i)
    all.push_back(*Expression::parse(many));
  constexpr long kKilobytes = 700 << 10;
  EXPECT_LT(peak() - before, kKilobytes);
}

/// A random tree of at most `depth` levels.
static Expression randomTree(std::mt19937 &random, int depth) {
  const char *names[] = {"tokens", "rows", "max_tokens", "sm_count", "experts"};
  if (depth == 0 || random() % 4 == 0) {
    if (random() % 2)
      return Expression::symbol(names[random() % 5]);
    return Expression(static_cast<int64_t>(random() % 2000) - 1000);
  }
  Expression lhs = randomTree(random, depth - 1);
  Expression rhs = randomTree(random, depth - 1);
  switch (random() % 6) {
  case 0:
    return lhs + rhs;
  case 1:
    return lhs - rhs;
  case 2:
    return lhs * rhs;
  case 3:
    return ceilDiv(lhs, rhs);
  case 4:
    return min(lhs, rhs);
  default:
    return max(lhs, rhs);
  }
}

TEST(Expression, randomTreesSurviveTextAndBack) {
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    Expression tree = randomTree(random, 5);
    Result<Expression> parsed = Expression::parse(tree.text());
    ASSERT_TRUE(parsed) << tree.text() << parsed.error().message;
    ASSERT_EQ(parsed->text(), tree.text());
    Result<int64_t> one = tree.evaluate(someSymbols());
    Result<int64_t> two = parsed->evaluate(someSymbols());
    ASSERT_EQ(static_cast<bool>(one), static_cast<bool>(two));
    if (one) {
      ASSERT_EQ(*one, *two) << tree.text();
    }
  }
}

TEST(Expression, randomTextNeverCrashes) {
  std::mt19937 random(11);
  const std::string pieces[] = {
      "tokens", "rows", "ceildiv", "min",  "(",
      ")",      ",",    " + ",     "-",    "*",
      "0",      "17",   "_",       "\x80", "99999999999999999999"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n)
      text += pieces[random() % std::size(pieces)];
    Result<Expression> parsed = Expression::parse(text);
    if (parsed)
      (void)static_cast<bool>(parsed->evaluate(someSymbols()));
  }
}
