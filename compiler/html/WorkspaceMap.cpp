//===- WorkspaceMap.cpp - the workspace over launches ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::compiler;
using namespace moec::compiler::html;

static constexpr double kLeft = 78, kTop = 26, kHeight = 230, kBottom = 14;
static constexpr double kLeastColumn = 140, kLeastRect = 2;

/// Returns the main work of the kernel that first writes the value.
static Work writerOf(const Variant &variant, const Buffer &buffer) {
  return buffer.first < static_cast<int64_t>(variant.kernels.size())
             ? variant.kernels[static_cast<size_t>(buffer.first)].work
             : Work::Other;
}

/// Returns the end offset of the workspace in bytes.
static int64_t endOf(const Variant &variant) {
  int64_t end = variant.workspaceBytes.value_or(0);
  for (const Buffer &buffer : variant.buffers)
    if (buffer.bytes <= INT64_MAX - buffer.offset)
      end = std::max(end, buffer.offset + buffer.bytes);
  return end;
}

static std::string launchesText(const Buffer &buffer) {
  return buffer.first == buffer.last
             ? fmt::format("{}", buffer.first + 1)
             : fmt::format("{} to {}", buffer.first + 1, buffer.last + 1);
}

std::string html::workspaceMap(const Target &target, const Variant &variant) {
  const int64_t end = endOf(variant);
  if (variant.buffers.empty() || end <= 0)
    return "";
  double column = kLeastColumn;
  for (const Kernel &kernel : variant.kernels)
    column = std::max(
        column,
        kLetterWidth * double(std::min<size_t>(
                                  shortName(kernel.name, target).size(), 40) +
                              2) +
            12);
  const double width = kLeft + column * double(variant.kernels.size()) + 8;
  Svg svg(
      width, kTop + kHeight + kBottom,
      fmt::format("Workspace of variant {}", variant.name),
      fmt::format(
          "{} in {} over {}", sizeText(end),
          countedText(int64_t(variant.buffers.size()), "value", "values"),
          countedText(int64_t(variant.kernels.size()), "launch", "launches")));
  const auto yOf = [&](int64_t bytes) {
    return kTop + kHeight * double(bytes) / double(end);
  };
  for (size_t i = 0; i <= variant.kernels.size(); ++i)
    svg.line(kLeft + column * double(i), kTop, kLeft + column * double(i),
             kTop + kHeight, "grid");
  for (size_t i = 0; i < variant.kernels.size(); ++i)
    svg.text(
        kLeft + column * (double(i) + 0.5), 16,
        fmt::format("{} {}", i + 1,
                    shortened(shortName(variant.kernels[i].name, target), 40)),
        "mono faint", "middle");
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const int64_t bytes = end / 4 * quarter + end % 4 * quarter / 4;
    svg.line(kLeft - 4, yOf(bytes), width - 8, yOf(bytes), "grid");
    svg.text(kLeft - 8, yOf(bytes) + 4, sizeText(bytes), "label faint", "end");
  }
  // Draw large regions first, so that small ones stay visible.
  std::vector<const Buffer *> order;
  for (const Buffer &buffer : variant.buffers)
    order.push_back(&buffer);
  std::stable_sort(
      order.begin(), order.end(),
      [](const Buffer *a, const Buffer *b) { return a->bytes > b->bytes; });
  for (const Buffer *buffer : order) {
    const double x = kLeft + column * double(buffer->first) + 2;
    const double spanned =
        column * double(buffer->last - buffer->first + 1) - 4;
    const double height =
        std::max(kHeight * double(buffer->bytes) / double(end), kLeastRect);
    const double y = std::min(yOf(buffer->offset), kTop + kHeight - height);
    svg.open(fmt::format("{}: {} at offset {}, launches {}", buffer->name,
                         sizeText(buffer->bytes), sizeText(buffer->offset),
                         launchesText(*buffer)),
             classOf(writerOf(variant, *buffer)));
    svg.rect(x, y, spanned, height, "region", height > 8 ? 3 : 0);
    const std::string name =
        shortened(buffer->name,
                  std::max<size_t>(size_t((spanned - 12) / kLetterWidth), 2));
    if (height >= 15) {
      svg.text(x + 8, y + 13, name, "mono strong");
      const std::string bytes = sizeText(buffer->bytes);
      if (kLetterWidth * double(name.size() + bytes.size() + 1) + 16 < spanned)
        svg.text(x + 8 + kLetterWidth * double(name.size() + 1), y + 13, bytes,
                 "mono");
    }
    svg.close();
  }
  return svg.finish();
}

std::string html::workspaceTable(const Variant &variant) {
  std::vector<std::vector<Cell>> rows;
  for (const Buffer &buffer : variant.buffers)
    rows.push_back(
        {{buffer.name, "code", std::string(classOf(writerOf(variant, buffer)))},
         {sizeText(buffer.bytes), "number"},
         {countText(buffer.offset), "number"},
         {launchesText(buffer), "number"}});
  return table({"value", "size", "offset in bytes", "launches"}, rows,
               "Values of the workspace of variant " + variant.name);
}
