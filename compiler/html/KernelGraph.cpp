//===- KernelGraph.cpp - the kernels of a variant as a figure -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the layout, then draws it. Names of kernels and values use a
// monospaced font, so that their width follows from the number of letters.
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Page.h"

#include "compiler/html/Markup.h"
#include "compiler/html/Numbers.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::compiler;
using namespace moec::compiler::html;

namespace {

constexpr double kBoldLetter = 7.3;
constexpr double kPort = 18, kLine = 17, kChip = 20, kGap = 30, kTopMargin = 30;
constexpr double kLeastCard = 350, kPadding = 12, kLane = 14;
constexpr size_t kLongestName = 40;

/// A value that is connected to the left or right side of a card.
struct Port {
  std::string name, more; ///< `more`: size of the value
  bool isRead = false, isWritten = false;
  bool isWeight = false;
  double y = 0;
};

struct Chip {
  std::string stage;
  double x = 0, y = 0, width = 0; ///< position relative to the card
};

struct Card {
  const Kernel *kernel = nullptr;
  double y = 0, height = 0;
  std::vector<Chip> chips;
  std::vector<std::string> lines;
  double linesY = 0;
  std::string time; ///< predicted time
  std::vector<Port> left, right;
};

/// A vertical line that connects the port that writes a workspace value with
/// the ports that read it.
struct Lane {
  std::string name;
  std::string cls;
  int column = 0;
  double from = 0, to = 0;
  std::vector<double> ends; ///< y of the connected ports, writer first
};

struct Layout {
  std::vector<Card> cards;
  std::vector<Lane> lanes;
  double left = 0, card = 0, right = 0; ///< widths of the columns in pixels
  int columns = 0;
  double height = 0;
  double cardX() const { return left; }
  double rightX() const { return left + card; }
  double laneX(int column) const {
    return rightX() + right + kLane * (column + 0.5);
  }
  double width() const { return laneX(columns) + kPadding; }
};

bool contains(const std::vector<std::string> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Buffer *findBuffer(const Variant &variant, std::string_view name) {
  for (const Buffer &buffer : variant.buffers)
    if (buffer.name == name)
      return &buffer;
  return nullptr;
}

const Weight *findWeight(const Target &target, std::string_view name) {
  for (const Weight &weight : target.weights)
    if (weight.name == name)
      return &weight;
  return nullptr;
}

double portWidth(const Port &port) {
  const size_t letters = std::min(port.name.size(), kLongestName) +
                         (port.more.empty() ? 0 : port.more.size() + 1);
  return kLetterWidth * double(letters) + 26;
}

/// Adds the ports of the card for launch `index`.
void addPorts(Card &card, size_t index, const Target &target,
              const Variant &variant) {
  const Kernel &kernel = *card.kernel;
  std::vector<std::string> names = kernel.reads;
  for (const std::string &name : kernel.writes)
    if (!contains(names, name))
      names.push_back(name);
  for (const std::string &name : names) {
    Port port;
    port.name = name;
    port.isWritten = contains(kernel.writes, name);
    port.isRead = contains(kernel.reads, name);
    if (const Buffer *buffer = findBuffer(variant, name)) {
      // If the launch is the first to write the value, only a later stage of
      // the same kernel can read it.
      if (port.isWritten && buffer->first == static_cast<int64_t>(index))
        port.isRead = false;
      port.more = port.isWritten ? sizeText(buffer->bytes) : "";
      card.right.push_back(std::move(port));
      continue;
    }
    if (const Weight *weight = findWeight(target, name)) {
      port.isWeight = true;
      port.more = weight->bytes ? sizeText(*weight->bytes) : "";
    }
    card.left.push_back(std::move(port));
  }
  // Place ports with incoming arrows above ports with outgoing arrows.
  for (std::vector<Port> *side : {&card.left, &card.right})
    std::stable_sort(
        side->begin(), side->end(),
        [](const Port &a, const Port &b) { return a.isRead && !b.isRead; });
}

void placeChips(Card &card, double width) {
  double x = kPadding + 4, y = 32;
  for (const std::string &stage : card.kernel->stages) {
    Chip chip;
    chip.stage = shortened(stage, kLongestName);
    chip.width = kLetterWidth * double(chip.stage.size()) + 14;
    if (x > kPadding + 4 && x + chip.width > width - kPadding) {
      x = kPadding + 4;
      y += kChip + 4;
    }
    chip.x = x, chip.y = y;
    x += chip.width + 16;
    card.chips.push_back(std::move(chip));
  }
  card.linesY = y + (card.chips.empty() ? 0 : kChip) + 15;
}

/// Returns the words joined to lines that fit into the width of a card.
std::vector<std::string> wrapped(const std::vector<std::string> &words,
                                 double width) {
  std::vector<std::string> lines;
  for (const std::string &word : words) {
    const bool fits =
        !lines.empty() &&
        kLetterWidth * double(lines.back().size() + word.size() + 2) < width;
    if (fits)
      lines.back() += ", " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

/// Returns the kernel's predicted time for the variant's largest token count,
/// or "" if there is no prediction.
std::string predictedTime(const Variant &variant, const Kernel &kernel) {
  if (variant.predictions.empty())
    return "";
  for (const KernelPrediction &row : variant.predictions.back().kernels)
    if (row.kernel == kernel.name)
      return timeText(row.microseconds);
  return "";
}

void placeLanes(Layout &layout) {
  for (size_t i = 0; i < layout.cards.size(); ++i)
    for (const Port &port : layout.cards[i].right) {
      if (!port.isRead && port.isWritten) {
        Lane lane;
        lane.name = port.name;
        lane.cls = classOf(layout.cards[i].kernel->work);
        lane.ends.push_back(port.y);
        layout.lanes.push_back(std::move(lane));
        continue;
      }
      // Connect the port to the latest writer above it.
      for (auto lane = layout.lanes.rbegin(); lane != layout.lanes.rend();
           ++lane)
        if (lane->name == port.name) {
          lane->ends.push_back(port.y);
          break;
        }
    }
  std::erase_if(layout.lanes,
                [](const Lane &lane) { return lane.ends.size() < 2; });
  std::vector<double> ends; // end of the last lane in each lane column
  for (Lane &lane : layout.lanes) {
    lane.from = lane.ends.front();
    lane.to = lane.ends.back();
    size_t column = 0;
    while (column < ends.size() && ends[column] >= lane.from)
      ++column;
    if (column == ends.size())
      ends.push_back(0);
    ends[column] = lane.to;
    lane.column = static_cast<int>(column);
  }
  layout.columns = static_cast<int>(ends.size());
}

Layout layOut(const Target &target, const Variant &variant) {
  Layout layout;
  layout.card = kLeastCard;
  layout.left = 172, layout.right = 130;
  for (size_t i = 0; i < variant.kernels.size(); ++i) {
    Card card;
    card.kernel = &variant.kernels[i];
    card.time = predictedTime(variant, *card.kernel);
    addPorts(card, i, target, variant);
    for (const Port &port : card.left)
      layout.left = std::max(layout.left, portWidth(port));
    for (const Port &port : card.right)
      layout.right = std::max(layout.right, portWidth(port));
    const double title =
        kBoldLetter * double(std::min(card.kernel->name.size(), kLongestName) +
                             3 + card.time.size());
    layout.card = std::max(layout.card, title + 3 * kPadding);
    layout.cards.push_back(std::move(card));
  }
  double y = kTopMargin;
  for (Card &card : layout.cards) {
    placeChips(card, layout.card);
    card.lines =
        wrapped(scheduleWords(*card.kernel), layout.card - 3 * kPadding);
    const auto ports = std::max(card.left.size(), card.right.size());
    card.y = y;
    card.height = std::max(card.linesY + kLine * double(card.lines.size()) - 5,
                           kPort * double(ports) + 16);
    for (std::vector<Port> *side : {&card.left, &card.right})
      for (size_t i = 0; i < side->size(); ++i)
        (*side)[i].y = y + 16 + kPort * double(i);
    y += card.height + kGap;
  }
  layout.height = y - kGap + kPadding;
  placeLanes(layout);
  return layout;
}

/// Draws a triangle with its tip at (x, y), which points to the right if
/// `right`, otherwise to the left.
void drawArrow(Svg &svg, double x, double y, bool right, std::string_view cls) {
  const double back = right ? -7 : 7;
  svg.polygon({{x, y}, {x + back, y - 4}, {x + back, y + 4}}, cls);
}

void drawLeft(Svg &svg, const Layout &layout, const Card &card) {
  const double edge = layout.cardX();
  for (const Port &port : card.left) {
    const std::string_view what = port.isWeight    ? "weight"
                                  : !port.isRead   ? "output"
                                  : port.isWritten ? "state"
                                                   : "input";
    svg.open(fmt::format("{} {}{}{}", what, port.name,
                         port.more.empty() ? "" : ", ", port.more));
    svg.line(edge - 16, port.y, edge, port.y, "wire");
    drawArrow(svg, port.isRead ? edge : edge - 16, port.y, port.isRead,
              "wire-end");
    const double text = edge - 22;
    svg.text(text, port.y + 4, shortened(port.name, kLongestName),
             port.isWeight ? "mono strong" : "mono", "end");
    if (!port.more.empty())
      svg.text(text - kLetterWidth *
                          double(std::min(port.name.size(), kLongestName) + 1),
               port.y + 4, port.more, "mono faint", "end");
    svg.close();
  }
}

void drawRight(Svg &svg, const Layout &layout, const Card &card) {
  const double edge = layout.rightX();
  for (const Port &port : card.right) {
    const bool leaves = !port.isRead;
    svg.open(fmt::format("workspace value {}, {}{}{}", port.name,
                         leaves ? "written" : "read",
                         port.more.empty() ? "" : ", ", port.more));
    drawArrow(svg, leaves ? edge + 9 : edge + 2, port.y, leaves, "wire-end");
    svg.text(edge + 14, port.y + 4, shortened(port.name, kLongestName), "mono");
    if (!port.more.empty())
      svg.text(edge + 14 +
                   kLetterWidth *
                       double(std::min(port.name.size(), kLongestName) + 1),
               port.y + 4, port.more, "mono faint");
    svg.close();
  }
}

void drawLanes(Svg &svg, const Layout &layout) {
  for (const Lane &lane : layout.lanes) {
    const double x = layout.laneX(lane.column);
    svg.open(fmt::format("{} from its writer to {} reader{}", lane.name,
                         lane.ends.size() - 1,
                         lane.ends.size() == 2 ? "" : "s"),
             lane.cls);
    svg.line(x, lane.from, x, lane.to, "lane");
    for (const double y : lane.ends) {
      // The horizontal line starts where the value's name ends.
      double begin = layout.rightX();
      for (const Card &card : layout.cards)
        for (const Port &port : card.right)
          if (port.y == y && port.name == lane.name)
            begin = layout.rightX() + portWidth(port) - 6;
      svg.line(begin, y, x, y, "lane");
      svg.circle(x, y, 2.5, "lane-end");
    }
    svg.close();
  }
}

void drawCard(Svg &svg, const Layout &layout, const Card &card, size_t number) {
  const Kernel &kernel = *card.kernel;
  const double x = layout.cardX();
  svg.open(kernel.entry.empty()
               ? kernel.name
               : fmt::format("{}, entry {}", kernel.name, kernel.entry),
           classOf(kernel.work));
  svg.rect(x, card.y, layout.card, card.height, "card", 6);
  svg.rect(x, card.y + 3, 4, card.height - 6, "stripe", 2);
  svg.text(x + kPadding + 4, card.y + 21,
           fmt::format("{} {}", number, shortened(kernel.name, kLongestName)),
           "mono title");
  if (!card.time.empty())
    svg.text(x + layout.card - kPadding, card.y + 21, card.time, "label strong",
             "end");
  for (size_t i = 0; i < card.chips.size(); ++i) {
    const Chip &chip = card.chips[i];
    svg.rect(x + chip.x, card.y + chip.y, chip.width, kChip, "chip", 10);
    svg.text(x + chip.x + chip.width / 2, card.y + chip.y + 14, chip.stage,
             "mono", "middle");
    if (i + 1 < card.chips.size())
      svg.text(x + chip.x + chip.width + 8, card.y + chip.y + 14, "→",
               "label faint", "middle");
  }
  for (size_t i = 0; i < card.lines.size(); ++i)
    svg.text(x + kPadding + 4, card.y + card.linesY + kLine * double(i),
             card.lines[i], "mono faint");
  svg.close();
}

/// Draws the arrow between two launches. The arrow is dashed if the later
/// launch may start before the earlier one ends.
void drawOrder(Svg &svg, const Layout &layout, const Card &above,
               const Card &below) {
  const double x = layout.cardX() + layout.card / 2;
  const double from = above.y + above.height, to = below.y;
  svg.line(x, from + 3, x, to - 8,
           below.kernel->early ? "order early" : "order");
  svg.polygon({{x, to - 2}, {x - 5, to - 10}, {x + 5, to - 10}}, "order-end");
  if (below.kernel->early)
    svg.text(x + 12, from + kGap / 2 + 4, "starts before the launch above ends",
             "label faint");
}

} // namespace

std::vector<std::string> html::scheduleWords(const Kernel &kernel) {
  std::vector<std::string> words;
  const auto add = [&](bool applies, std::string word) {
    if (applies)
      words.push_back(std::move(word));
  };
  add(!kernel.engine.empty(), kernel.engine);
  if (kernel.tile.size() == 3)
    words.push_back(fmt::format("tile {}x{}x{}", kernel.tile[0], kernel.tile[1],
                                kernel.tile[2]));
  add(kernel.columns > 0, fmt::format("{} columns", kernel.columns));
  add(kernel.pipelineStages > 0,
      fmt::format("{} pipeline stages", kernel.pipelineStages));
  add(!kernel.warps.empty(), fmt::format("warps {}", kernel.warps));
  add(kernel.swap, "swapped");
  add(kernel.persistent, "persistent");
  add(kernel.blockTokens > 0,
      countedText(kernel.blockTokens, "token", "tokens") + " a CTA");
  add(!kernel.cluster.empty(),
      fmt::format("clusters of {} CTAs",
                  kernel.cluster.empty() ? 0 : kernel.cluster.front()));
  add(kernel.splitTiles > 0,
      fmt::format("splits k of {} tiles", kernel.splitTiles));
  add(kernel.awaits > 0,
      fmt::format("awaits {} column tiles of a row tile", kernel.awaits));
  add(kernel.counts, "counts its column tiles");
  add(kernel.threads > 0, fmt::format("{} threads", kernel.threads));
  add(kernel.sharedBytes > 0,
      fmt::format("{} shared", sizeText(kernel.sharedBytes)));
  add(!kernel.source.empty(), fmt::format("schedule {}", kernel.source));
  return words;
}

std::string html::kernelGraph(const Target &target, const Variant &variant) {
  const Layout layout = layOut(target, variant);
  std::string description = "Launches in order:";
  for (const Kernel &kernel : variant.kernels) {
    std::string stages;
    for (const std::string &stage : kernel.stages)
      stages += (stages.empty() ? "" : ", ") + stage;
    description += fmt::format(" {} ({});", kernel.name, stages);
  }
  Svg svg(layout.width(), layout.height,
          fmt::format("Kernels of variant {}", variant.name), description);
  svg.text(layout.cardX() - 22, 16, "inputs, weights, outputs", "label faint",
           "end");
  svg.text(layout.cardX() + kPadding + 4, 16, "launches in order",
           "label faint");
  svg.text(layout.rightX() + 14, 16, "workspace", "label faint");
  drawLanes(svg, layout);
  for (size_t i = 0; i < layout.cards.size(); ++i) {
    if (i > 0)
      drawOrder(svg, layout, layout.cards[i - 1], layout.cards[i]);
    drawCard(svg, layout, layout.cards[i], i + 1);
    drawLeft(svg, layout, layout.cards[i]);
    drawRight(svg, layout, layout.cards[i]);
  }
  return svg.finish();
}
