//===- ExpertRows.cpp - rows of experts and of their tiles ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Times.h"

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

/// Returns the predictions that the figure and the table show: for few tokens
/// (8), for a typical decoding batch (512), and for the largest token count.
std::vector<const Prediction *> shownPredictions(const Times &times) {
  std::vector<const Prediction *> shown;
  for (const LayerPrediction &row : times.predicted) {
    const Prediction &made = *row.prediction;
    const bool isLast = &row == &times.predicted.back();
    if (!made.experts.empty() &&
        (made.tokens == 8 || made.tokens == 512 || isLast))
      shown.push_back(&made);
  }
  return shown;
}

/// Returns an integer with all digits, or any other value with three
/// significant digits.
std::string amount(double value) {
  return value == std::round(value) ? countText(std::llround(value))
                                    : numberText(value);
}

double expertsOf(const Prediction &made) {
  double sum = 0;
  for (const ExpertGroup &group : made.experts)
    sum += group.experts;
  return sum;
}

/// Returns the mean rows of the experts in positions `first` to `last`, with
/// experts sorted by descending frequency. The most frequent expert covers
/// positions 0 to 1. Positions may be fractions.
ExpertGroup meansOf(const Prediction &made, double first, double last) {
  ExpertGroup means;
  double begin = 0;
  for (const ExpertGroup &group : made.experts) {
    const double part =
        std::min(begin + group.experts, last) - std::max(begin, first);
    if (part > 0) {
      means.experts += part;
      means.rows += part * group.rows;
      means.tileRows += part * group.tileRows;
    }
    begin += group.experts;
  }
  if (means.experts > 0) {
    means.rows /= means.experts;
    means.tileRows /= means.experts;
  }
  return means;
}

double paddingOf(const ExpertGroup &group) {
  return group.tileRows > group.rows ? 1 - group.rows / group.tileRows : 0;
}

std::string drawBars(const std::vector<const Prediction *> &shown,
                     double pictureWidth, double left) {
  constexpr double kRight = 18, kTitle = 24, kBars = 96, kGap = 22;
  constexpr double kRow = kTitle + kBars + kGap, kLeastGap = 3;
  const double inside = pictureWidth - left - kRight;
  Svg svg(pictureWidth, kRow * double(shown.size()) + 4, "Rows of experts",
          "a bar for experts that are chosen equally often, the most chosen "
          "first: rows, and above them rows of tiles without a token");
  double y = 0;
  for (const Prediction *made : shown) {
    const double experts = expertsOf(*made);
    double most = 0;
    for (const ExpertGroup &group : made->experts)
      most = std::max({most, group.rows, group.tileRows});
    svg.text(left, y + 16,
             fmt::format("{}: padding {}",
                         countedText(made->tokens, "token", "tokens"),
                         percentText(made->padding)),
             "label strong");
    const double top = y + kTitle, bottom = top + kBars;
    if (most > 0 && experts > 0) {
      svg.text(left - 8, top + 8, tokensText(most), "label faint", "end");
      double x = left;
      svg.open("", "w-gate-up");
      for (const ExpertGroup &group : made->experts) {
        const double width = inside * group.experts / experts;
        const double gap = width > kLeastGap ? 1 : 0;
        const auto bar = [&](double rows, const char *cls) {
          const double height = kBars * rows / most;
          svg.rect(x, bottom - height, std::max(width - gap, 0.3), height, cls);
        };
        svg.open(fmt::format("{} experts: {} rows each, {} with padding",
                             amount(group.experts), amount(group.rows),
                             amount(group.tileRows)));
        bar(std::max(group.tileRows, group.rows), "padding");
        bar(group.rows, "solid");
        svg.close();
        x += width;
      }
      svg.close();
    }
    svg.line(left, bottom, pictureWidth - kRight, bottom, "axis");
    svg.text(left - 8, bottom + 4, "0", "label faint", "end");
    svg.text(left, bottom + 15,
             amount(experts) + " experts, the most chosen at the left",
             "label faint");
    y += kRow;
  }
  return svg.finish();
}

std::string barsOf(const std::vector<const Prediction *> &shown) {
  return figure(bothWidths([&](double width, double left) {
                  return drawBars(shown, width, left);
                }),
                "Rows of each expert in tiles: dark with a token, pale padding",
                "rows");
}

/// Returns the table of experts. The first experts have a line each. Each
/// following line covers as many experts as all lines before it.
std::string tableOfExperts(const std::vector<const Prediction *> &shown) {
  std::vector<std::vector<Cell>> cells;
  for (const Prediction *made : shown) {
    const double experts = expertsOf(*made);
    const bool areEqual = made->experts.size() == 1;
    for (double first = 0; first < experts;) {
      const double last =
          areEqual ? experts
                   : std::min(first < 4 ? first + 1 : 2 * first, experts);
      const ExpertGroup means = meansOf(*made, first, last);
      const std::string name =
          last - first <= 1
              ? amount(last)
              : fmt::format("{} to {}", amount(first + 1), amount(last));
      cells.push_back({{countText(made->tokens), "number"},
                       {name, "number"},
                       {amount(means.rows), "number"},
                       {amount(means.tileRows), "number"},
                       {percentText(paddingOf(means)), "number"}});
      first = last;
    }
  }
  return table(
      {"tokens", "experts", "rows of one", "rows of its tiles", "padding"},
      cells, "Rows of each expert");
}

std::string tableByTokens(const Times &times) {
  std::vector<std::vector<Cell>> cells;
  for (const LayerPrediction &row : times.predicted) {
    const Prediction &made = *row.prediction;
    if (made.touchedExperts > 0)
      cells.push_back({{countText(made.tokens), "number"},
                       {amount(made.touchedExperts), "number"},
                       {amount(made.mostRows), "number"},
                       {percentText(made.padding), "number"}});
  }
  return table(
      {"tokens", "experts used", "most rows of one", "padding of tiles"}, cells,
      "Rows of experts by tokens");
}

} // namespace

std::string html::expertRows(const Times &times) {
  const std::vector<const Prediction *> shown = shownPredictions(times);
  const std::string byTokens = tableByTokens(times);
  if (shown.empty())
    return byTokens;
  return barsOf(shown) + byTokens +
         "<details><summary>Each expert</summary>\n" + tableOfExperts(shown) +
         "</details>\n";
}
