//===- MoeDecisionAttrs.cpp - attributes of decisions ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parsers, printers and verifiers of what says where and how code runs, and
// why: target, layout, region, refusal, report.
//
//===----------------------------------------------------------------------===//

#include "dialect/FieldParser.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

//===----------------------------------------------------------------------===//
// TargetAttr
//===----------------------------------------------------------------------===//

const catalog::Architecture &TargetAttr::getArchRow() const {
  return *catalog::find(catalog::kArchitectures, std::string_view(getArch()));
}

const catalog::Gpu *TargetAttr::getGpuRow() const {
  const StringRef gpu = getGpu();
  return catalog::find(catalog::kGpus,
                       gpu.empty() ? getArchRow().gpu : std::string_view(gpu));
}

Attribute TargetAttr::parse(AsmParser &parser, Type) {
  std::string arch, gpu;
  if (parser.parseLess() || parser.parseKeywordOrString(&arch))
    return {};
  FieldParser fields(parser);
  fields.word("gpu", gpu);
  if (fields.parse(/*first=*/false) || parser.parseGreater())
    return {};
  return parser.getChecked<TargetAttr>(parser.getContext(), StringRef(arch),
                                       StringRef(gpu));
}

void TargetAttr::print(AsmPrinter &printer) const {
  printer << '<';
  FieldPrinter fields(printer);
  fields.word(getArch());
  fields.word("gpu", getGpu());
  printer << '>';
}

LogicalResult TargetAttr::verify(EmitError emitError, StringRef arch,
                                 StringRef gpu) {
  if (verifyWord(emitError, catalog::kArchitectures, arch, "arch"))
    return failure();
  if (gpu.empty())
    return success();
  if (verifyWord(emitError, catalog::kGpus, gpu, "GPU"))
    return failure();
  const catalog::Architecture &code =
      *catalog::find(catalog::kArchitectures, std::string_view(arch));
  const catalog::Architecture &device = *catalog::find(
      catalog::kArchitectures,
      catalog::find(catalog::kGpus, std::string_view(gpu))->arch);
  if (!catalog::runsOn(code, device.major, device.minor))
    return emitError() << "code for " << arch << " does not run on GPU '" << gpu
                       << "', which is " << device.name;
  return success();
}

//===----------------------------------------------------------------------===//
// LayoutAttr
//===----------------------------------------------------------------------===//

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  int64_t interleave = 0;
  std::string gateUpOrder = "gate_first", order = "rows";
  std::string stored;
  SmallVector<int64_t> tile;
  FieldParser fields(parser);
  fields.integer("interleave", interleave);
  fields.word("gate_up_order", gateUpOrder);
  fields.word("order", order);
  fields.integers("tile", tile);
  fields.word("stored", stored);
  if (parser.parseLess() || fields.parse(/*first=*/true) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<LayoutAttr>(
      parser.getContext(), interleave, StringRef(gateUpOrder), StringRef(order),
      ArrayRef<int64_t>(tile), StringRef(stored));
}

LayoutAttr LayoutAttr::getStored(MLIRContext *context, StringRef row) {
  return get(context, 0, StringRef("gate_first"), StringRef("rows"),
             ArrayRef<int64_t>(), row);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << '<';
  FieldPrinter fields(printer);
  fields.integer("interleave", getInterleave(), 0);
  fields.word("gate_up_order", getGateUpOrder(), "gate_first");
  fields.word("order", getOrder(), "rows");
  fields.integers("tile", getTile());
  fields.word("stored", getStored(), "");
  printer << '>';
}

LogicalResult LayoutAttr::verify(EmitError emitError, int64_t interleave,
                                 StringRef gateUpOrder, StringRef order,
                                 ArrayRef<int64_t> tile, StringRef stored) {
  if (interleave < 0)
    return emitError() << "'interleave' must not be negative, got "
                       << interleave;
  if (verifyWord(emitError, catalog::kGateUpOrders, gateUpOrder,
                 "gate_up_order"))
    return failure();
  if (interleave == 0 && gateUpOrder != "gate_first")
    return emitError() << "'gate_up_order' is of weights with 'interleave'";
  if (order != "rows" && order != "fragment")
    return emitError() << "unknown order '" << order
                       << "'; known: rows, fragment";
  if ((order == "fragment") == tile.empty())
    return emitError() << "'tile' must be given with order fragment, and with "
                          "it alone";
  if (verifyPositiveList(emitError, "tile", tile, 2))
    return failure();
  if (stored.empty())
    return success();
  if (verifyWord(emitError, catalog::kStoredLayouts, stored, "stored"))
    return failure();
  if (interleave != 0 || order != "rows")
    return emitError() << "'stored' is of weights that are not packed, which "
                          "have no other field";
  return success();
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         EmitError emitError) const {
  // Numbers of whole rows have one dimension less.
  const bool ofRows = shape.size() == 2 && getInterleave() == 0;
  if (shape.size() != 3 && !(ofRows && getTile().empty()))
    return emitError() << "a packed weight must be [experts, rows, columns], "
                          "got "
                       << shape.size() << " dimensions";
  if (getInterleave() > 0 && shape[1] % (2 * getInterleave()) != 0)
    return emitError() << "interleave = " << getInterleave()
                       << " needs rows in multiples of " << 2 * getInterleave()
                       << ", got " << shape[1];
  for (auto [extent, tile] : llvm::zip(shape.drop_front(), getTile()))
    if (extent % tile != 0)
      return emitError() << "rows and columns must be multiples of tile, got "
                         << extent << " for " << tile;
  return success();
}

//===----------------------------------------------------------------------===//
// RegionAttr
//===----------------------------------------------------------------------===//

Attribute RegionAttr::parse(AsmParser &parser, Type) {
  std::string value, offset, bytes;
  int64_t first = 0, last = 0;
  if (parser.parseLess() || parser.parseString(&value))
    return {};
  FieldParser fields(parser);
  fields.text("offset", offset);
  fields.text("bytes", bytes);
  fields.integer("first", first);
  fields.integer("last", last);
  if (fields.parse(/*first=*/false) ||
      fields.require({"offset", "bytes", "first", "last"}) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<RegionAttr>(parser.getContext(), StringRef(value),
                                       StringRef(offset), StringRef(bytes),
                                       first, last);
}

void RegionAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getValue());
  FieldPrinter fields(printer);
  fields.separate();
  fields.text("offset", getOffset());
  fields.text("bytes", getBytes());
  fields.begin("first") << getFirst();
  fields.begin("last") << getLast();
  printer << '>';
}

LogicalResult RegionAttr::verify(EmitError emitError, StringRef value,
                                 StringRef offset, StringRef bytes,
                                 int64_t first, int64_t last) {
  if (value.empty() || offset.empty() || bytes.empty())
    return emitError() << "a region needs a value's name, 'offset' and "
                          "'bytes'";
  if (first < 0 || last < first)
    return emitError() << "region of '" << value
                       << "' must have 0 <= first <= last, got " << first
                       << " and " << last;
  return success();
}

//===----------------------------------------------------------------------===//
// RefusalAttr and ReportAttr
//===----------------------------------------------------------------------===//

Attribute RefusalAttr::parse(AsmParser &parser, Type) {
  std::string backend, engine, code, reason;
  FieldParser fields(parser);
  fields.word("backend", backend);
  fields.word("engine", engine);
  fields.text("code", code);
  fields.text("reason", reason);
  if (parser.parseLess() || fields.parse(/*first=*/true) ||
      fields.require({"backend", "code", "reason"}) || parser.parseGreater())
    return {};
  return parser.getChecked<RefusalAttr>(parser.getContext(), StringRef(backend),
                                        StringRef(engine), StringRef(code),
                                        StringRef(reason));
}

void RefusalAttr::print(AsmPrinter &printer) const {
  printer << '<';
  FieldPrinter fields(printer);
  fields.word("backend", getBackend());
  fields.word("engine", getEngine());
  fields.text("code", getCode());
  fields.text("reason", getReason());
  printer << '>';
}

LogicalResult RefusalAttr::verify(EmitError emitError, StringRef, StringRef,
                                  StringRef code, StringRef reason) {
  const bool wellFormed = !code.empty() && llvm::all_of(code, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!wellFormed)
    return emitError() << "'code' must be lower-case words joined by '_', got '"
                       << code << "'";
  if (reason.empty())
    return emitError() << "refusal '" << code << "' must give a reason";
  return success();
}

Attribute ReportAttr::parse(AsmParser &parser, Type) {
  std::string backend, engine, degraded, realization = "native";
  SmallVector<RefusalAttr> refused;
  FieldParser fields(parser);
  fields.word("backend", backend);
  fields.word("engine", engine);
  fields.field("refused", [&] {
    return parser.parseCommaSeparatedList(
        AsmParser::Delimiter::Square, [&]() -> ParseResult {
          return parser.parseCustomAttributeWithFallback(
              refused.emplace_back());
        });
  });
  fields.text("degraded", degraded);
  fields.word("realization", realization);
  if (parser.parseLess() || fields.parse(/*first=*/true) ||
      fields.require({"backend", "engine"}) || parser.parseGreater())
    return {};
  return parser.getChecked<ReportAttr>(
      parser.getContext(), StringRef(backend), StringRef(engine),
      ArrayRef<RefusalAttr>(refused), StringRef(degraded),
      StringRef(realization));
}

void ReportAttr::print(AsmPrinter &printer) const {
  printer << '<';
  FieldPrinter fields(printer);
  fields.word("backend", getBackend());
  fields.word("engine", getEngine());
  if (!getRefused().empty()) {
    fields.begin("refused") << '[';
    llvm::interleaveComma(getRefused(), printer, [&](RefusalAttr refusal) {
      printer.printStrippedAttrOrType(refusal);
    });
    printer << ']';
  }
  fields.text("degraded", getDegraded());
  if (getRealization() != "native")
    fields.word("realization", getRealization());
  printer << '>';
}

LogicalResult ReportAttr::verify(EmitError emitError, StringRef backend,
                                 StringRef engine, ArrayRef<RefusalAttr>,
                                 StringRef, StringRef realization) {
  if (realization != "native" && realization != "dequantized" &&
      realization != "emulated")
    return emitError() << "unknown realization '" << realization
                       << "'; known: native, dequantized, emulated";
  if (verifyWord(emitError, catalog::kBackends, backend, "backend") ||
      verifyWord(emitError, catalog::kEngines, engine, "engine"))
    return failure();
  const catalog::Backend &row =
      *catalog::find(catalog::kBackends, std::string_view(backend));
  if (!catalog::hasWord(row.engines, std::string_view(engine)))
    return emitError() << "backend '" << backend << "' does not use engine '"
                       << engine << "'; it uses: " << row.engines;
  return success();
}
