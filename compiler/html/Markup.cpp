//===- Markup.cpp - HTML and SVG as text ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/html/Markup.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::compiler;

std::string html::escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char letter : text)
    switch (letter) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default: {
      const auto byte = static_cast<unsigned char>(letter);
      const bool isControl =
          (byte < 0x20 && letter != '\n' && letter != '\t') || byte == 0x7f;
      if (isControl)
        out += "\xef\xbf\xbd";
      else
        out += letter;
    }
    }
  return out;
}

std::string html::shortened(std::string_view text, size_t longest) {
  if (text.size() <= longest)
    return std::string(text);
  // If the cut is inside a multi-byte UTF-8 character, it moves to the start of
  // that character.
  size_t end = longest - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string html::table(const std::vector<std::string> &heads,
                        const std::vector<std::vector<Cell>> &rows,
                        std::string_view label, bool stacks) {
  if (rows.empty())
    return "";
  // Omit columns without any text.
  const auto isEmpty = [&](size_t column) {
    return std::ranges::all_of(rows, [&](const std::vector<Cell> &row) {
      return column >= row.size() || row[column].text.empty();
    });
  };
  std::string out =
      fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
                  "aria-label=\"{}\"><table{}><thead><tr>",
                  escaped(label), stacks ? " class=\"stack\"" : "");
  for (size_t i = 0; i < heads.size(); ++i) {
    if (isEmpty(i))
      continue;
    const bool isNumber =
        i < rows.front().size() && rows.front()[i].cls == "number";
    out += fmt::format("<th scope=\"col\"{}>{}</th>",
                       isNumber ? " class=\"number\"" : "", escaped(heads[i]));
  }
  out += "</tr></thead><tbody>\n";
  for (const std::vector<Cell> &row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const Cell &cell = row[i];
      if (isEmpty(i))
        continue;
      out += cell.cls.empty() ? "<td>"
                              : fmt::format("<td class=\"{}\">", cell.cls);
      if (!cell.swatch.empty())
        out += fmt::format("<span class=\"swatch {}\"></span>", cell.swatch);
      out += escaped(cell.text) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

/// Returns a coordinate as text with one decimal, which is finer than a pixel.
static std::string at(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0"))
    text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

html::Svg::Svg(double width, double height, std::string_view title,
               std::string_view description)
    : out(fmt::format("<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
                      "{1}\" role=\"img\"><title>{2}</title><desc>{3}</desc>\n",
                      at(width), at(height), escaped(title),
                      escaped(description))) {}

void html::Svg::rect(double x, double y, double width, double height,
                     std::string_view cls, double radius) {
  out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
                     at(x), at(y), at(width), at(height));
  if (radius > 0)
    out += fmt::format(" rx=\"{}\"", at(radius));
  out += fmt::format(" class=\"{}\"/>\n", cls);
}

void html::Svg::line(double x1, double y1, double x2, double y2,
                     std::string_view cls) {
  out += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" "
                     "class=\"{}\"/>\n",
                     at(x1), at(y1), at(x2), at(y2), cls);
}

void html::Svg::circle(double x, double y, double radius,
                       std::string_view cls) {
  out += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"/>\n",
                     at(x), at(y), at(radius), cls);
}

static std::string
pointsText(const std::vector<std::pair<double, double>> &points) {
  std::string text;
  for (auto [x, y] : points)
    text += fmt::format("{}{},{}", text.empty() ? "" : " ", at(x), at(y));
  return text;
}

void html::Svg::polyline(const std::vector<std::pair<double, double>> &points,
                         std::string_view cls) {
  out += fmt::format("<polyline points=\"{}\" class=\"{}\"/>\n",
                     pointsText(points), cls);
}

void html::Svg::polygon(const std::vector<std::pair<double, double>> &points,
                        std::string_view cls) {
  out += fmt::format("<polygon points=\"{}\" class=\"{}\"/>\n",
                     pointsText(points), cls);
}

void html::Svg::text(double x, double y, std::string_view content,
                     std::string_view cls, std::string_view anchor) {
  out += fmt::format("<text x=\"{}\" y=\"{}\"", at(x), at(y));
  if (anchor != "start")
    out += fmt::format(" text-anchor=\"{}\"", anchor);
  out += fmt::format(" class=\"{}\">{}</text>\n", cls, escaped(content));
}

void html::Svg::open(std::string_view tooltip, std::string_view cls) {
  out += cls.empty() ? "<g>" : fmt::format("<g class=\"{}\">", cls);
  out += fmt::format("<title>{}</title>\n", escaped(tooltip));
}

std::string html::Svg::finish() { return std::move(out) + "</svg>\n"; }

std::string html::figure(std::string_view svg, std::string_view caption,
                         std::string_view cls) {
  return fmt::format(
      "<figure class=\"{}\"><figcaption>{}</figcaption>\n<div class=\"scroll\" "
      "role=\"region\" tabindex=\"0\" aria-label=\"{}\">{}</div></figure>\n",
      cls, escaped(caption), escaped(caption), svg);
}

std::string html::bothWidths(
    const std::function<std::string(double width, double left)> &draw) {
  constexpr double kLeft = 74, kNarrowLeft = 58;
  return "<div class=\"wide\">" + draw(kFigureWidth, kLeft) +
         "</div><div class=\"narrow\">" + draw(kNarrowWidth, kNarrowLeft) +
         "</div>";
}
