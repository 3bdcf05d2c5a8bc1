//===- Markup.h - HTML and SVG as text --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every text that a user can choose goes through escaped(). Pictures have no
// style of their own: classes of page.css color them, so that both color
// schemes serve and the page needs no inline style.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_MARKUP_H
#define MOEC_COMPILER_HTML_MARKUP_H

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler::html {

/// The text as content or as a quoted attribute. Control characters, which
/// HTML cannot hold, become U+FFFD.
std::string escaped(std::string_view text);

/// At most `longest` bytes, with "…" where something was cut.
std::string shortened(std::string_view text, size_t longest);

/// A cell of a table: its text is escaped.
struct Cell {
  std::string text;
  std::string cls = "";    ///< "number", "code", …
  std::string swatch = ""; ///< a class that colors a square before the text
};

/// A table in a box that scrolls; "" where there are no rows. On a phone the
/// cells of a row that `stacks` stand below each other.
std::string table(const std::vector<std::string> &heads,
                  const std::vector<std::vector<Cell>> &rows,
                  std::string_view label, bool stacks = false);

/// Width of a figure, of one on a phone, and of a letter of its labels [px].
inline constexpr double kFigureWidth = 880, kNarrowWidth = 330,
                        kLetterWidth = 6.7;

/// An SVG of fixed size.
class Svg {
public:
  /// `title` and `description` are what a screen reader says.
  Svg(double width, double height, std::string_view title,
      std::string_view description);

  void rect(double x, double y, double width, double height,
            std::string_view cls, double radius = 0);
  void line(double x1, double y1, double x2, double y2, std::string_view cls);
  void circle(double x, double y, double radius, std::string_view cls);
  /// A path out of points, open.
  void polyline(const std::vector<std::pair<double, double>> &points,
                std::string_view cls);
  /// The same, closed.
  void polygon(const std::vector<std::pair<double, double>> &points,
               std::string_view cls);
  /// `anchor` is start, middle or end.
  void text(double x, double y, std::string_view content, std::string_view cls,
            std::string_view anchor = "start");
  /// A group with a text that pointing at it shows.
  void open(std::string_view tooltip, std::string_view cls = "");
  void close() { out += "</g>\n"; }

  /// The element; the picture is spent.
  std::string finish();

private:
  std::string out;
};

/// A picture for wide screens and one for a phone, of which page.css shows one.
/// `draw` gets the width, and the room at the left for labels [px].
std::string
bothWidths(const std::function<std::string(double width, double left)> &draw);

/// A picture with its caption, in a box of its own that scrolls.
std::string figure(std::string_view svg, std::string_view caption,
                   std::string_view cls);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_MARKUP_H
