//===- MoeDecisionAttrs.cpp - attributes of decisions ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parsers, printers and verifiers of what says where and how code runs, and
// why: target, layout, schedule, region, refusal, report.
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
// ScheduleAttr
//===----------------------------------------------------------------------===//

ScheduleAttr ScheduleAttr::get(MLIRContext *context, const Schedule &fields) {
  return get(context, StringRef(fields.engine), fields.tile, fields.stages,
             fields.warps, fields.group, fields.swap, fields.blockTokens,
             fields.blockRows, fields.buffers, fields.threads, fields.ctasPerSm,
             fields.cluster, fields.producerWarps, fields.consumerWarps,
             fields.registers, fields.programmatic, fields.cooperative,
             fields.persistent, StringRef(fields.source));
}

Schedule ScheduleAttr::getFields() const {
  Schedule fields;
  fields.engine = getEngine().str();
  fields.tile.assign(getTile().begin(), getTile().end());
  fields.stages = getStages();
  fields.warps.assign(getWarps().begin(), getWarps().end());
  fields.group = getGroup(), fields.swap = getSwap();
  fields.blockTokens = getBlockTokens(), fields.blockRows = getBlockRows();
  fields.buffers = getBuffers(), fields.threads = getThreads();
  fields.ctasPerSm = getCtasPerSm();
  fields.cluster.assign(getCluster().begin(), getCluster().end());
  fields.producerWarps = getProducerWarps();
  fields.consumerWarps = getConsumerWarps();
  fields.registers.assign(getRegisters().begin(), getRegisters().end());
  fields.programmatic = getProgrammatic();
  fields.cooperative = getCooperative(), fields.persistent = getPersistent();
  fields.source = getSource().str();
  return fields;
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  Schedule value;
  FieldParser fields(parser);
  fields.word("engine", value.engine);
  fields.integers("tile", value.tile);
  fields.integer("stages", value.stages);
  fields.integers("warps", value.warps);
  fields.integer("group", value.group);
  fields.flag("swap", value.swap);
  fields.integer("block_tokens", value.blockTokens);
  fields.integer("block_rows", value.blockRows);
  fields.integer("buffers", value.buffers);
  fields.integer("threads", value.threads);
  fields.integer("ctas_per_sm", value.ctasPerSm);
  fields.integers("cluster", value.cluster);
  fields.integer("producer_warps", value.producerWarps);
  fields.integer("consumer_warps", value.consumerWarps);
  fields.integers("registers", value.registers);
  fields.flag("programmatic", value.programmatic);
  fields.flag("cooperative", value.cooperative);
  fields.flag("persistent", value.persistent);
  fields.word("source", value.source);
  if (parser.parseLess() || fields.parse(/*first=*/true) ||
      fields.require({"engine"}) || parser.parseGreater())
    return {};
  return parser.getChecked<ScheduleAttr>(
      parser.getContext(), StringRef(value.engine),
      ArrayRef<int64_t>(value.tile), value.stages,
      ArrayRef<int64_t>(value.warps), value.group, value.swap,
      value.blockTokens, value.blockRows, value.buffers, value.threads,
      value.ctasPerSm, ArrayRef<int64_t>(value.cluster), value.producerWarps,
      value.consumerWarps, ArrayRef<int64_t>(value.registers),
      value.programmatic, value.cooperative, value.persistent,
      StringRef(value.source));
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << '<';
  FieldPrinter fields(printer);
  fields.word("engine", getEngine());
  fields.integers("tile", getTile());
  fields.integer("stages", getStages(), 0);
  fields.integers("warps", getWarps());
  fields.integer("group", getGroup(), 0);
  fields.flag("swap", getSwap());
  fields.integer("block_tokens", getBlockTokens(), 0);
  fields.integer("block_rows", getBlockRows(), 0);
  fields.integer("buffers", getBuffers(), 0);
  fields.integer("threads", getThreads(), 0);
  fields.integer("ctas_per_sm", getCtasPerSm(), 1);
  fields.integers("cluster", getCluster());
  fields.integer("producer_warps", getProducerWarps(), 0);
  fields.integer("consumer_warps", getConsumerWarps(), 0);
  fields.integers("registers", getRegisters());
  fields.flag("programmatic", getProgrammatic());
  fields.flag("cooperative", getCooperative());
  fields.flag("persistent", getPersistent());
  fields.word("source", getSource(), "default");
  printer << '>';
}

/// Roles go with an engine that is warp-specialized; it alone swaps operands.
static LogicalResult
verifyRoles(llvm::function_ref<InFlightDiagnostic()> emitError,
            StringRef engine, ArrayRef<int64_t> tile, bool hasWarps, bool swap,
            int64_t producerWarps, int64_t consumerWarps,
            ArrayRef<int64_t> registers, int64_t ctasPerSm) {
  const bool specialized =
      catalog::find(catalog::kEngines, std::string_view(engine))
          ->warpSpecialized;
  if ((producerWarps == 0) != (consumerWarps == 0))
    return emitError() << "'producer_warps' and 'consumer_warps' must be given "
                          "together";
  if (!specialized && (producerWarps != 0 || swap || !registers.empty()))
    return emitError() << "engine '" << engine
                       << "' has neither roles nor swapped operands: "
                          "'producer_warps', 'consumer_warps', 'registers' and "
                          "'swap' must be absent";
  if (!specialized || tile.empty())
    return success();
  if (hasWarps || producerWarps == 0 || registers.empty())
    return emitError() << "a tile of engine '" << engine
                       << "' needs 'producer_warps', 'consumer_warps' and "
                          "'registers', and no 'warps'";
  if (producerWarps % 4 != 0 || consumerWarps % 4 != 0)
    return emitError() << "roles must be whole warpgroups of 4 warps, got "
                       << producerWarps << " and " << consumerWarps;
  const int64_t rows = tile[swap ? 1 : 0];
  if (rows != 16 * consumerWarps && rows != 32 * consumerWarps)
    return emitError() << "'consumer_warps' must be a warpgroup for each 64 or "
                          "128 of "
                       << rows << (swap ? " weight rows" : " token rows")
                       << ", got " << consumerWarps << " warps";
  int64_t all = 0;
  const int64_t roles[] = {producerWarps, consumerWarps};
  for (auto [warps, each] : llvm::zip(roles, registers)) {
    if (each < 24 || each > 256 || each % 8 != 0)
      return emitError() << "'registers' must be multiples of 8 from 24 to "
                            "256, got "
                         << each;
    all += 32 * warps * each;
  }
  // A CTA begins with equal shares, in eights; who asks for more waits for
  // ever.
  const int64_t threads = 32 * (producerWarps + consumerWarps);
  const int64_t most =
      std::min<int64_t>(65536 / (threads * ctasPerSm) / 8 * 8, 248) * threads;
  if (all > most)
    return emitError() << "the roles take " << all << " registers, and one of "
                       << ctasPerSm << " CTAs of " << threads << " threads has "
                       << most;
  return success();
}

LogicalResult ScheduleAttr::verify(
    EmitError emitError, StringRef engine, ArrayRef<int64_t> tile,
    int64_t stages, ArrayRef<int64_t> warps, int64_t group, bool swap,
    int64_t blockTokens, int64_t blockRows, int64_t buffers, int64_t threads,
    int64_t ctasPerSm, ArrayRef<int64_t> cluster, int64_t producerWarps,
    int64_t consumerWarps, ArrayRef<int64_t> registers, bool, bool, bool,
    StringRef source) {
  if (verifyWord(emitError, catalog::kEngines, engine, "engine") ||
      verifyPositiveList(emitError, "tile", tile, 3) ||
      verifyPositiveList(emitError, "warps", warps, 2) ||
      verifyPositiveList(emitError, "cluster", cluster, 3) ||
      verifyPositiveList(emitError, "registers", registers, 2))
    return failure();
  struct Number {
    StringRef name;
    int64_t value, least, most;
  };
  // Products of what is accepted fit 64 bits.
  constexpr int64_t kMany = (int64_t(1) << 31) - 1, kWarps = 32,
                    kTile = 1 << 16;
  SmallVector<Number> numbers = {{"stages", stages, 0, kMany},
                                 {"group", group, 0, kMany},
                                 {"block_tokens", blockTokens, 0, kMany},
                                 {"block_rows", blockRows, 0, kMany},
                                 {"buffers", buffers, 0, kMany},
                                 {"threads", threads, 0, kMany},
                                 {"ctas_per_sm", ctasPerSm, 1, kWarps},
                                 {"producer_warps", producerWarps, 0, kWarps},
                                 {"consumer_warps", consumerWarps, 0, kWarps}};
  for (int64_t extent : tile)
    numbers.push_back({"tile", extent, 1, kTile});
  for (int64_t extent : warps)
    numbers.push_back({"warps", extent, 1, kWarps});
  for (const Number &number : numbers) {
    if (number.value < number.least)
      return emitError() << "'" << number.name << "' must be at least "
                         << number.least << ", got " << number.value;
    if (number.value > number.most)
      return emitError() << "'" << number.name << "' must be at most "
                         << number.most << ", got " << number.value;
  }
  if ((blockRows == 0) != (buffers == 0) || (buffers > 0 && blockTokens == 0))
    return emitError() << "a schedule of slices needs 'block_tokens', "
                          "'block_rows' and 'buffers', got "
                       << blockTokens << ", " << blockRows << " and "
                       << buffers;
  if (threads % 32 != 0 || threads > 1024)
    return emitError() << "'threads' must be a multiple of 32 up to 1024, got "
                       << threads;
  if (!warps.empty() && producerWarps == 0 && threads != 0 &&
      warps[0] * warps[1] * 32 != threads)
    return emitError() << "'threads' is " << threads << ", but 'warps' are "
                       << warps[0] << " x " << warps[1] << " of 32 threads";
  if (failed(verifyRoles(emitError, engine, tile, !warps.empty(), swap,
                         producerWarps, consumerWarps, registers, ctasPerSm)))
    return failure();
  if (producerWarps != 0 && threads != 0 &&
      (producerWarps + consumerWarps) * 32 != threads)
    return emitError() << "'threads' is " << threads << ", but the roles have "
                       << producerWarps + consumerWarps
                       << " warps of 32 threads";
  if (source != "tuned" && source != "modelled" && source != "default")
    return emitError() << "unknown source '" << source
                       << "'; known: tuned, modelled, default";
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
