//===- TimeBars.cpp - bars: shares, launches, variants --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"
#include "compiler/html/Times.h"

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

using namespace moec::compiler;
using namespace moec::compiler::html;

/// Returns the number of letters that fit into `width` pixels. Values from a
/// report file are not validated, so `width` may be NaN.
static size_t lettersIn(double width) {
  return width > 0 && width < kFigureWidth ? size_t(width / kLetterWidth) : 0;
}

/// Returns true if the launch of kernel `name` may start before its predecessor
/// ends.
static bool startsEarly(const Variant &variant, const std::string &name) {
  for (const Kernel &kernel : variant.kernels)
    if (kernel.name == name)
      return kernel.early;
  return false;
}

static std::string drawShares(const Target &target, const Times &times,
                              double pictureWidth, double left) {
  constexpr double kRight = 76, kRow = 26;
  const double inside = pictureWidth - left - kRight;
  Svg svg(pictureWidth, kRow * double(times.predicted.size()) + 6,
          "Shares of kernels in the predicted time",
          "one bar for each number of tokens");
  double y = 3;
  for (const LayerPrediction &row : times.predicted) {
    double sum = 0;
    for (const KernelPrediction &kernel : row.prediction->kernels)
      sum += kernel.microseconds;
    svg.text(left - 8, y + 15, countText(row.prediction->tokens), "label faint",
             "end");
    double x = left;
    for (const KernelPrediction &kernel : row.prediction->kernels) {
      if (sum <= 0 || kernel.microseconds <= 0)
        continue;
      const double width = inside * kernel.microseconds / sum;
      const std::string name = shortName(kernel.kernel, target);
      svg.open(fmt::format("{}: {}{}{}", name, timeText(kernel.microseconds),
                           kernel.bound.empty() ? "" : ", bound by ",
                           kernel.bound),
               classOf(workOfKernel(*row.variant, kernel.kernel)));
      svg.rect(x, y, std::max(width - 1.5, 0.5), kRow - 5, "region", 3);
      if (const size_t letters = lettersIn(width - 14);
          letters >= std::min<size_t>(name.size(), 5))
        svg.text(x + 7, y + 14, shortened(name, std::max<size_t>(letters, 2)),
                 "mono");
      svg.close();
      x += width;
    }
    svg.text(pictureWidth - kRight + 8, y + 15,
             timeText(row.prediction->microseconds), "label");
    y += kRow;
  }
  return svg.finish();
}

std::string html::shareBars(const Target &target, const Times &times) {
  if (times.predicted.empty())
    return "";
  return figure(bothWidths([&](double width, double left) {
                  return drawShares(target, times, width, left);
                }),
                "Share of each kernel in the predicted time, by tokens",
                "bars");
}

static std::string drawTimeline(const Target &target,
                                std::span<const LayerPrediction *const> rows,
                                double pictureWidth, double left) {
  constexpr double kRight = 76, kRow = 26, kEarly = 14;
  size_t lines = 0;
  for (const LayerPrediction *row : rows)
    lines += row->prediction->kernels.size();
  Svg svg(pictureWidth, kRow * double(lines + rows.size()) + 8,
          "Launches over time", "a bar for each launch, in order");
  double y = 3;
  for (const LayerPrediction *row : rows) {
    double sum = 0;
    for (const KernelPrediction &kernel : row->prediction->kernels)
      sum += kernel.microseconds;
    svg.text(left, y + 17,
             countedText(row->prediction->tokens, "token", "tokens") + ", " +
                 timeText(row->prediction->microseconds),
             "label strong");
    y += kRow;
    double begin = 0;
    for (const KernelPrediction &kernel : row->prediction->kernels) {
      const double inside = pictureWidth - left - kRight;
      const double x = left + (sum > 0 ? inside * begin / sum : 0);
      const double width =
          sum > 0 ? std::max(inside * kernel.microseconds / sum, 1.0) : 1;
      const bool isEarly = startsEarly(*row->variant, kernel.kernel);
      const std::string name = shortName(kernel.kernel, target);
      svg.open(fmt::format("{}: {}{}", name, timeText(kernel.microseconds),
                           isEarly ? ", starts before the previous launch ends"
                                   : ""),
               classOf(workOfKernel(*row->variant, kernel.kernel)));
      if (isEarly && x - kEarly >= left)
        svg.rect(x - kEarly, y + 4, kEarly, kRow - 13, "region early", 2);
      svg.rect(x, y, width, kRow - 5, "region", 3);
      svg.close();
      // Draw the name on the side of the bar that has more space.
      if (x + width / 2 < left + inside / 2)
        svg.text(
            x + width + 6, y + 15,
            shortened(name, std::max<size_t>(
                                lettersIn(pictureWidth - x - width - 12), 2)),
            "mono");
      else
        svg.text(
            x - kEarly - 6, y + 15,
            shortened(name, std::max<size_t>(lettersIn(x - kEarly - 12), 2)),
            "mono", "end");
      begin += kernel.microseconds;
      y += kRow;
    }
  }
  return svg.finish();
}

std::string html::timeline(const Target &target, const Times &times) {
  std::vector<const LayerPrediction *> rows;
  for (const Variant &variant : target.variants)
    if (!variant.predictions.empty())
      for (const LayerPrediction &row : times.predicted)
        if (row.prediction == &variant.predictions.back())
          rows.push_back(&row);
  if (rows.empty())
    return "";
  return figure(bothWidths([&](double width, double left) {
                  return drawTimeline(target, rows, width, left);
                }),
                "Launches over time, at the most predicted tokens of each "
                "variant; dashed: begun while the previous launch runs",
                "timeline");
}

static std::string drawStrip(const Report &report, const Target &target,
                             double pictureWidth) {
  constexpr double kLeft = 8, kRight = 8, kTop = 22, kRow = 44;
  int64_t most = std::max<int64_t>(report.maxTokens, 1);
  for (const Variant &variant : target.variants)
    most = std::max(most, variant.lastTokens);
  const auto xOf = [&](double tokens) {
    return kLeft + (pictureWidth - kLeft - kRight) *
                       std::log2(std::max(tokens, 1.0)) /
                       std::log2(double(most) + 1);
  };
  // Variants that only run on some GPUs have the same token counts as other
  // variants, so they are drawn on additional lines.
  std::vector<int64_t> ends;
  std::vector<size_t> lines;
  for (const Variant &variant : target.variants) {
    size_t line = 0;
    while (line < ends.size() && ends[line] >= variant.firstTokens)
      ++line;
    if (line == ends.size())
      ends.push_back(0);
    ends[line] = variant.lastTokens;
    lines.push_back(line);
  }
  Svg svg(pictureWidth, kTop + kRow * double(ends.size()) + 2,
          "Variants by number of tokens",
          fmt::format("{} from 1 to {} tokens",
                      countedText(int64_t(target.variants.size()), "variant",
                                  "variants"),
                      countText(most)));
  // Width of a label such as "65,536 tokens" at the right end, in pixels.
  constexpr double kLastLabel = 110;
  double lastLabel = -100;
  for (size_t i = 0; i < target.variants.size(); ++i) {
    const Variant &variant = target.variants[i];
    const double x = xOf(double(variant.firstTokens)),
                 width = xOf(double(variant.lastTokens) + 1) - x - 3,
                 y = kTop + kRow * double(lines[i]);
    std::string engines;
    Work work = Work::Other;
    for (const Kernel &kernel : variant.kernels)
      if (kernel.work == Work::GateUp || kernel.work == Work::Down) {
        work = kernel.work;
        if (engines.find(kernel.engine) == std::string::npos)
          engines += (engines.empty() ? "" : " and ") + kernel.engine;
      }
    const std::string launches =
        countedText(int64_t(variant.kernels.size()), "launch", "launches");
    svg.open(fmt::format("{}: {} to {} tokens, {}{}{}", variant.name,
                         countText(variant.firstTokens),
                         countText(variant.lastTokens), launches,
                         engines.empty() ? "" : ", ", engines),
             classOf(work));
    svg.rect(x, y, std::max(width, 1.0), kRow - 4, "region", 4);
    const auto letters = size_t(std::max(width - 16, 0.0) / 6.7);
    if (letters >= 4) {
      svg.text(x + 8, y + 17, shortened(engines, letters), "mono strong");
      svg.text(x + 8, y + 32, shortened(launches, letters), "mono");
    }
    svg.close();
    if (lines[i] == 0 && x - lastLabel > 40 &&
        x < pictureWidth - kRight - kLastLabel) {
      svg.text(x, 14, countText(variant.firstTokens), "label faint");
      lastLabel = x;
    }
  }
  svg.text(pictureWidth - kRight, 14, countText(most) + " tokens",
           "label faint", "end");
  return svg.finish();
}

std::string html::tokenStrip(const Report &report, const Target &target) {
  return bothWidths(
      [&](double width, double) { return drawStrip(report, target, width); });
}
