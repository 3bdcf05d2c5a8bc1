//===- FieldParser.h - fields of attributes -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every attribute of the dialect is written `<word, field = value, flag>`. The
// parser reads the fields in any order; its errors name the field and list the
// known fields. The printer omits fields that have their default value.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_FIELDPARSER_H
#define MOEC_DIALECT_FIELDPARSER_H

#include "dialect/Schedules.h"
#include "dialect/catalog/Catalog.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace moec::moe {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// Checks that `name` is the name of a row in `table`. `what` describes the
/// table's rows for the error message. Like all checks here, it returns true on
/// failure.
template <typename Row, size_t N>
mlir::ParseResult verifyWord(EmitError emitError, const Row (&table)[N],
                             llvm::StringRef name, llvm::StringRef what,
                             llvm::StringRef others = "") {
  if (catalog::find(table, name))
    return mlir::success();
  return emitError() << "unknown " << what << " '" << name
                     << "'; known: " << catalog::names(table) << others;
}

/// Checks that `word` is one of `words`.
inline mlir::ParseResult verifyOneOf(EmitError emitError,
                                     llvm::ArrayRef<llvm::StringRef> words,
                                     llvm::StringRef word,
                                     llvm::StringRef what) {
  if (llvm::is_contained(words, word))
    return mlir::success();
  return emitError() << "unknown " << what << " '" << word
                     << "'; known: " << llvm::join(words, ", ");
}

/// Checks that `values` is empty or holds `count` positive integers.
inline mlir::ParseResult verifyPositiveList(EmitError emitError,
                                            llvm::StringRef name,
                                            llvm::ArrayRef<int64_t> values,
                                            size_t count) {
  if (values.empty())
    return mlir::success();
  if (values.size() != count)
    return emitError() << "'" << name << "' must have " << count
                       << " numbers, got " << values.size();
  for (int64_t value : values)
    if (value <= 0)
      return emitError() << "'" << name << "' must be positive, got " << value;
  return mlir::success();
}

/// One field of an attribute. The printer omits a field that has its default
/// value, unless the field is required.
struct Field {
  llvm::StringRef name; ///< field name; empty: the first field, printed without
                        ///< a name
  llvm::StringRef word; ///< default value of a word or text field
  int64_t number = 0;   ///< default value of an integer field
  bool isRequired = false;
  bool isText = false; ///< printed in double quotes

  constexpr Field(const char *name) : name(name) {}
  constexpr Field(const char *name, llvm::StringRef word)
      : name(name), word(word) {}
  constexpr Field(const char *name, int64_t number)
      : name(name), number(number) {}
  constexpr Field required() const {
    Field field = *this;
    field.isRequired = true;
    return field;
  }
  constexpr Field text() const {
    Field field = *this;
    field.isText = true;
    return field;
  }
};

/// Reads `field = value, flag, ...` up to the closing `>`, which is not
/// consumed.
class FieldParser {
public:
  explicit FieldParser(mlir::AsmParser &parser) : parser(parser) {}

  /// The following functions are the visitor interface that a schedule's
  /// members() calls (dialect/Schedules.h). A field that is missing in the text
  /// keeps the value `absent`.
  void word(const char *name, std::string &value, llvm::StringRef absent) {
    value = absent;
    add(name, value);
  }
  void integer(const char *name, int64_t &value, int64_t absent) {
    value = absent;
    add(name, value);
  }
  /// Reads a required list of exactly values.size() integers.
  void integers(const char *name, std::initializer_list<int64_t *> values) {
    rows.push_back({Field(name).required(), false, false,
                    [this, name, values = std::vector<int64_t *>(values)] {
                      return read(name, values);
                    }});
  }
  void list(const char *name, std::vector<int64_t> &values) {
    rows.push_back({name, false, false, [this, &values] {
                      return parser.parseCommaSeparatedList(
                          mlir::AsmParser::Delimiter::Square, [&] {
                            return parser.parseInteger(values.emplace_back());
                          });
                    }});
  }
  void flag(const char *name, bool &value) {
    value = false;
    add(name, value);
  }

  template <typename T> void add(const Field &field, T &value) {
    rows.push_back({field, std::is_same_v<T, bool>, false,
                    [this, field, &value] { return read(field, value); }});
  }

  /// Parses fields separated by commas. `first` is true if no field precedes
  /// them.
  mlir::ParseResult parse(bool first = true) {
    if (!rows.empty() && rows.front().field.name.empty()) {
      if (rows.front().callback())
        return mlir::failure();
      first = false;
    }
    if (first) {
      std::string name;
      const llvm::SMLoc at = parser.getCurrentLocation();
      if (mlir::failed(parser.parseOptionalKeywordOrString(&name)))
        return require();
      if (parseOne(at, name))
        return mlir::failure();
    }
    while (mlir::succeeded(parser.parseOptionalComma())) {
      std::string name;
      const llvm::SMLoc at = parser.getCurrentLocation();
      if (parser.parseKeywordOrString(&name) || parseOne(at, name))
        return mlir::failure();
    }
    return require();
  }

  /// Parses the field `name`, whose name token has already been consumed.
  mlir::ParseResult parseOne(llvm::SMLoc at, llvm::StringRef name) {
    for (Row &row : rows) {
      if (row.field.name.empty() || row.field.name != name)
        continue;
      if (row.seen)
        return parser.emitError(at) << "field '" << name << "' is given twice";
      row.seen = true;
      if (!row.isFlag && parser.parseEqual())
        return mlir::failure();
      return row.callback();
    }
    std::string known;
    for (const Row &row : rows)
      if (!row.field.name.empty())
        known.append(known.empty() ? "" : ", ").append(row.field.name);
    return parser.emitError(at)
           << "unknown field '" << name << "'; known fields: " << known;
  }

private:
  struct Row {
    Field field;
    bool isFlag, seen;
    std::function<mlir::ParseResult()> callback;
  };

  mlir::ParseResult require() {
    for (const Row &row : rows)
      if (row.field.isRequired && !row.seen)
        return parser.emitError(parser.getNameLoc())
               << "field '" << row.field.name << "' is missing";
    return mlir::success();
  }

  mlir::ParseResult read(const Field &field, std::string &value) {
    return field.isText ? parser.parseString(&value)
                        : parser.parseKeywordOrString(&value);
  }
  mlir::ParseResult read(const Field &, int64_t &value) {
    return parser.parseInteger(value);
  }
  mlir::ParseResult read(const Field &, std::optional<int64_t> &value) {
    return parser.parseInteger(value.emplace());
  }
  mlir::ParseResult read(const Field &, bool &value) {
    value = true;
    return mlir::success();
  }
  mlir::ParseResult read(const Field &, mlir::FloatAttr &value) {
    double number = 0;
    if (parser.parseFloat(number))
      return mlir::failure();
    value = parser.getBuilder().getF64FloatAttr(number);
    return mlir::success();
  }
  mlir::ParseResult read(const Field &, mlir::Type &value) {
    return parser.parseType(value);
  }
  template <typename T>
  mlir::ParseResult read(const Field &field, llvm::SmallVectorImpl<T> &values) {
    return parser.parseCommaSeparatedList(
        mlir::AsmParser::Delimiter::Square,
        [&] { return read(field, values.emplace_back()); });
  }
  mlir::ParseResult read(const char *name,
                         const std::vector<int64_t *> &values) {
    llvm::SmallVector<int64_t> numbers;
    if (read(Field(name), numbers))
      return mlir::failure();
    if (numbers.size() != values.size())
      return parser.emitError(parser.getNameLoc())
             << "'" << name << "' must have " << values.size()
             << " numbers, got " << numbers.size();
    for (auto [to, number] : llvm::zip(values, numbers))
      *to = number;
    return mlir::success();
  }
  /// Parses an attribute of type T without its mnemonic.
  template <std::derived_from<mlir::Attribute> T>
  mlir::ParseResult read(const Field &, T &value) {
    return parser.parseCustomAttributeWithFallback(value);
  }

  mlir::AsmParser &parser;
  llvm::SmallVector<Row> rows;
};

/// Prints fields separated by commas and omits fields that have their default
/// value.
class FieldPrinter {
public:
  explicit FieldPrinter(mlir::AsmPrinter &printer) : printer(printer) {}

  template <typename T> void add(const Field &field, const T &value) {
    if (!field.name.empty() && !field.isRequired && isDefault(field, value))
      return;
    if (!first)
      printer << ", ";
    first = false;
    printer << field.name;
    if (!field.name.empty() && !std::is_same_v<T, bool>)
      printer << " = ";
    print(field, value);
  }

private:
  bool isDefault(const Field &field, llvm::StringRef value) {
    return value == field.word;
  }
  bool isDefault(const Field &field, int64_t value) {
    return value == field.number;
  }
  template <typename T>
  bool isDefault(const Field &, llvm::ArrayRef<T> values) {
    return values.empty();
  }
  template <typename T> bool isDefault(const Field &, const T &value) {
    return !value;
  }

  void print(const Field &field, llvm::StringRef value) {
    if (field.isText)
      printer.printString(value);
    else
      printer.printKeywordOrString(value);
  }
  void print(const Field &, int64_t value) { printer << value; }
  void print(const Field &, std::optional<int64_t> value) { printer << *value; }
  void print(const Field &, bool) {}
  void print(const Field &, mlir::FloatAttr value) {
    printer.printFloat(value.getValue());
  }
  void print(const Field &, mlir::Type value) { printer << value; }
  template <typename T>
  void print(const Field &field, llvm::ArrayRef<T> values) {
    printer << '[';
    llvm::interleaveComma(values, printer.getStream(),
                          [&](const T &value) { print(field, value); });
    printer << ']';
  }
  template <std::derived_from<mlir::Attribute> T>
  void print(const Field &, T value) {
    printer.printStrippedAttrOrType(value);
  }

  mlir::AsmPrinter &printer;
  bool first = true;
};

/// The type that owns a parameter's value while it is parsed.
template <typename T> struct Owned {
  using Type = T;
  static T initial(const Field &) { return T(); }
};
template <> struct Owned<int64_t> {
  using Type = int64_t;
  static int64_t initial(const Field &field) { return field.number; }
};
template <> struct Owned<llvm::StringRef> {
  using Type = std::string;
  static std::string initial(const Field &field) { return field.word.str(); }
};
template <typename T> struct Owned<llvm::ArrayRef<T>> {
  using Type = llvm::SmallVector<T>;
  static Type initial(const Field &) { return {}; }
};

/// Parses an attribute whose parameters are the given fields.
template <typename A, typename... Parameters>
mlir::Attribute parseFields(mlir::AsmParser &parser, const Field *field,
                            std::type_identity<std::tuple<Parameters...>>) {
  std::tuple<typename Owned<Parameters>::Type...> values;
  FieldParser fields(parser);
  const auto add = [&]<typename T>(std::type_identity<T>, auto &value) {
    value = Owned<T>::initial(*field);
    fields.add(*field++, value);
  };
  return std::apply(
      [&](auto &...value) -> mlir::Attribute {
        (add(std::type_identity<Parameters>(), value), ...);
        if (parser.parseLess() || fields.parse() || parser.parseGreater())
          return {};
        return parser.getChecked<A>(parser.getContext(), Parameters(value)...);
      },
      values);
}

template <typename... Parameters>
void printFields(mlir::AsmPrinter &printer, const Field *field,
                 const std::tuple<Parameters...> &values) {
  printer << '<';
  FieldPrinter fields(printer);
  std::apply([&](auto &...value) { (fields.add(*field++, value), ...); },
             values);
  printer << '>';
}

/// Parses a schedule attribute, whose fields are listed by members().
template <typename A>
mlir::Attribute parseSchedule(mlir::AsmParser &parser,
                              typename A::Fields values) {
  FieldParser fields(parser);
  members(fields, values);
  if (parser.parseLess() || fields.parse() || parser.parseGreater())
    return {};
  return parser.getChecked<A>(parser.getContext(), values);
}

template <typename A>
void printSchedule(mlir::AsmPrinter &printer, A schedule) {
  printer << '<';
  FieldPrinter fields(printer);
  for (const Member &member : schedule.getMembers()) {
    const auto print = [&](const auto &value) {
      using T = std::remove_cvref_t<decltype(value)>;
      const Field field = Field(member.name.data()).required();
      if constexpr (std::is_same_v<T, std::string>)
        fields.add(field, llvm::StringRef(value));
      else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
        fields.add(field, llvm::ArrayRef<int64_t>(value));
      else
        fields.add(field, value);
    };
    if (!member.isAbsent)
      std::visit(print, member.value);
  }
  printer << '>';
}

} // namespace moec::moe

#endif // MOEC_DIALECT_FIELDPARSER_H
