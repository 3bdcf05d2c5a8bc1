//===- FieldParser.h - fields of attributes --------------------*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every attribute of the dialect is written `<word, field = value, flag>`. The
// parser here reads the fields in any order, and names the field and the known
// ones in its errors; the printer leaves away what has its default.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_FIELDPARSER_H
#define MOEC_DIALECT_FIELDPARSER_H

#include "dialect/catalog/Catalog.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <functional>
#include <string>

namespace moec::moe {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// Fails, as all the checks here do, by a result that is true on failure:
/// unless `name` is a row of `table`; `what` is what the table lists.
template <typename Row, size_t N>
mlir::ParseResult verifyWord(EmitError emitError, const Row (&table)[N],
                             llvm::StringRef name, llvm::StringRef what,
                             llvm::StringRef others = "") {
  if (catalog::find(table, std::string_view(name)))
    return mlir::success();
  return emitError() << "unknown " << what << " '" << name
                     << "'; known: " << catalog::names(table) << others;
}

/// Fails unless `values` is empty or holds `count` positive numbers.
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

using ParseCallback = std::function<mlir::ParseResult()>;

/// Reads `field = value, flag, ...` up to, not including, the closing `>`.
class FieldParser {
public:
  explicit FieldParser(mlir::AsmParser &parser) : parser(parser) {}

  /// The default is the printer's.
  void word(llvm::StringRef name, std::string &value,
            llvm::StringRef /*absent*/ = "") {
    field(name, [this, &value] { return parser.parseKeywordOrString(&value); });
  }
  void text(llvm::StringRef name, std::string &value) {
    field(name, [this, &value] { return parser.parseString(&value); });
  }
  void integer(llvm::StringRef name, int64_t &value, int64_t /*absent*/ = 0) {
    field(name, [this, &value] { return parser.parseInteger(value); });
  }
  void integer(llvm::StringRef name, std::optional<int64_t> &value) {
    field(name, [this, &value]() -> mlir::ParseResult {
      return parser.parseInteger(value.emplace());
    });
  }
  void number(llvm::StringRef name, mlir::FloatAttr &value) {
    field(name, [this, &value]() -> mlir::ParseResult {
      double number = 0;
      if (parser.parseFloat(number))
        return mlir::failure();
      value = parser.getBuilder().getF64FloatAttr(number);
      return mlir::success();
    });
  }
  void type(llvm::StringRef name, mlir::Type &value) {
    field(name, [this, &value] { return parser.parseType(value); });
  }
  void integers(llvm::StringRef name, llvm::SmallVectorImpl<int64_t> &values) {
    field(name, [this, &values] {
      return parser.parseCommaSeparatedList(
          mlir::AsmParser::Delimiter::Square,
          [&] { return parser.parseInteger(values.emplace_back()); });
    });
  }
  void field(llvm::StringRef name, ParseCallback callback) {
    fields.push_back({name, /*flag=*/false, false, std::move(callback)});
  }
  void flag(llvm::StringRef name, bool &value) {
    fields.push_back({name, /*flag=*/true, false, [&value] {
                        value = true;
                        return mlir::success();
                      }});
  }

  /// Fields separated by commas; `first` if nothing stands before them.
  mlir::ParseResult parse(bool first) {
    if (first) {
      std::string ignored;
      const llvm::SMLoc at = parser.getCurrentLocation();
      if (mlir::succeeded(parser.parseOptionalKeywordOrString(&ignored))) {
        if (parseOne(at, ignored))
          return mlir::failure();
      } else {
        return mlir::success();
      }
    }
    while (mlir::succeeded(parser.parseOptionalComma())) {
      std::string name;
      const llvm::SMLoc at = parser.getCurrentLocation();
      if (parser.parseKeywordOrString(&name) || parseOne(at, name))
        return mlir::failure();
    }
    return mlir::success();
  }

  /// The field `name`, whose word has been read already.
  mlir::ParseResult parseOne(llvm::SMLoc at, llvm::StringRef name) {
    for (Field &field : fields) {
      if (field.name != name)
        continue;
      if (field.seen)
        return parser.emitError(at) << "field '" << name << "' is given twice";
      field.seen = true;
      if (!field.flag && parser.parseEqual())
        return mlir::failure();
      return field.callback();
    }
    auto error = parser.emitError(at)
                 << "unknown field '" << name << "'; known fields: ";
    llvm::interleaveComma(fields, error,
                          [&](const Field &field) { error << field.name; });
    return error;
  }

  bool seen(llvm::StringRef name) const {
    return llvm::any_of(fields, [&](const Field &field) {
      return field.name == name && field.seen;
    });
  }
  /// Fails where a field without a default is absent.
  mlir::ParseResult require(llvm::ArrayRef<llvm::StringRef> names) {
    for (llvm::StringRef name : names)
      if (!seen(name))
        return parser.emitError(parser.getNameLoc())
               << "field '" << name << "' is missing";
    return mlir::success();
  }

private:
  struct Field {
    llvm::StringRef name;
    bool flag, seen;
    ParseCallback callback;
  };
  mlir::AsmParser &parser;
  llvm::SmallVector<Field> fields;
};

/// Prints fields with commas between them, and none that has its default.
class FieldPrinter {
public:
  explicit FieldPrinter(mlir::AsmPrinter &printer) : printer(printer) {}

  void word(llvm::StringRef value) {
    separate();
    printer.printKeywordOrString(value);
  }
  void word(llvm::StringRef name, llvm::StringRef value,
            llvm::StringRef absent = "") {
    if (value != absent) {
      begin(name);
      printer.printKeywordOrString(value);
    }
  }
  void text(llvm::StringRef name, llvm::StringRef value) {
    if (!value.empty()) {
      begin(name);
      printer.printString(value);
    }
  }
  void integer(llvm::StringRef name, int64_t value, int64_t absent) {
    if (value != absent)
      begin(name) << value;
  }
  void number(llvm::StringRef name, mlir::FloatAttr value) {
    if (value)
      begin(name).printFloat(value.getValue());
  }
  void type(llvm::StringRef name, mlir::Type value) {
    if (value)
      begin(name) << value;
  }
  void integers(llvm::StringRef name, llvm::ArrayRef<int64_t> values) {
    if (!values.empty()) {
      begin(name) << '[';
      llvm::interleaveComma(values, printer.getStream());
      printer << ']';
    }
  }
  void flag(llvm::StringRef name, bool value) {
    if (value) {
      separate();
      printer << name;
    }
  }
  mlir::AsmPrinter &begin(llvm::StringRef name) {
    separate();
    printer << name << " = ";
    return printer;
  }
  void separate() {
    if (!first)
      printer << ", ";
    first = false;
  }

private:
  mlir::AsmPrinter &printer;
  bool first = true;
};

} // namespace moec::moe

#endif // MOEC_DIALECT_FIELDPARSER_H
