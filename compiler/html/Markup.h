//===- Markup.h - HTML and SVG as text --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Texts that a user can control must pass through escaped(). Figures have no
// inline style: classes in page.css set their colors, so that figures work in
// light and dark mode.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_MARKUP_H
#define MOEC_COMPILER_HTML_MARKUP_H

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler::html {

/// Returns the text escaped for element content or a quoted attribute. Replaces
/// control characters, which HTML does not allow, with U+FFFD.
std::string escaped(std::string_view text);

/// Returns at most `longest` bytes of the text, followed by U+2026 (an
/// ellipsis) if it was truncated.
std::string shortened(std::string_view text, size_t longest);

/// A table cell. Its text is escaped when the table is written.
struct Cell {
  std::string text;
  std::string cls = ""; ///< class in page.css, such as "number" or "code"
  /// Class of a colored square before the text; "": none.
  std::string swatch = "";
};

/// Returns a table in a scrollable box, or "" if there are no rows. If
/// `stacks`, narrow screens show the cells of a row below each other.
std::string table(const std::vector<std::string> &heads,
                  const std::vector<std::vector<Cell>> &rows,
                  std::string_view label, bool stacks = false);

/// Width in pixels of a figure on wide screens, of a figure on narrow screens,
/// and of a letter in labels.
inline constexpr double kFigureWidth = 880, kNarrowWidth = 330,
                        kLetterWidth = 6.7;

/// An SVG element of fixed size.
class Svg {
public:
  /// Starts the element. `title` and `description` are for screen readers.
  Svg(double width, double height, std::string_view title,
      std::string_view description);

  void rect(double x, double y, double width, double height,
            std::string_view cls, double radius = 0);
  void line(double x1, double y1, double x2, double y2, std::string_view cls);
  void circle(double x, double y, double radius, std::string_view cls);
  /// Adds an open path through the points.
  void polyline(const std::vector<std::pair<double, double>> &points,
                std::string_view cls);
  /// Adds a closed path through the points.
  void polygon(const std::vector<std::pair<double, double>> &points,
               std::string_view cls);
  /// Adds a text. `anchor` is start, middle or end.
  void text(double x, double y, std::string_view content, std::string_view cls,
            std::string_view anchor = "start");
  /// Opens a group of shapes that share a tooltip. close() ends the group.
  void open(std::string_view tooltip, std::string_view cls = "");
  void close() { out += "</g>\n"; }

  /// Returns the element. The object must not be used afterwards.
  std::string finish();

private:
  std::string out;
};

/// Returns a figure for wide screens and one for narrow screens, of which
/// page.css shows one. `draw` returns the figure for a given width. It receives
/// the width and the space for labels on the left, in pixels.
std::string
bothWidths(const std::function<std::string(double width, double left)> &draw);

/// Returns a figure with its caption in a scrollable box.
std::string figure(std::string_view svg, std::string_view caption,
                   std::string_view cls);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_MARKUP_H
