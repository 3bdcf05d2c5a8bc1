//===- Pack.cpp - kernels that prepare weights ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the fields and Config members that templates/moe/kernel/pack.cuh lists.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Pack.h"

#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/StoredWeights.h"

#include <nlohmann/json.hpp>

#include <utility>

using mlir::cast;
using mlir::RankedTensorType;
using namespace moec;
using namespace moec::compiler;

/// Bytes that each CTA of a packing kernel moves. The value is a multiple of
/// the vector size, and of the size of a word group that holds whole 6-bit
/// codes.
static constexpr int64_t kPackBytesPerCta = 24576;

/// Returns a packing kernel with the properties that all packing kernels have.
static EmittedKernel begin(moe::ProgramOp program, const char *kind) {
  EmittedKernel out;
  beginKernel(program, kind, /*threads=*/256, /*programmatic=*/false, out);
  return out;
}

/// Adds the kernel's arguments, and its stage. The caller adds the stage
/// attributes.
static Stage &addStage(EmittedKernel &out, const std::string &element,
                       const std::string &source,
                       const std::string &destination,
                       const std::string &order = {}) {
  ArgumentLayout &args = out.text.arguments;
  args.pointer("source", element, source);
  args.pointer("destination", element, destination, true);
  if (!order.empty())
    args.pointer("order", "int", order);
  args.firstExpert("first_expert");
  // The grid of pack_order is the number of experts, because one CTA processes
  // a whole expert. The other kernels need the number as an argument.
  if (out.kind != "pack_order")
    args.size("experts", Expression::symbol("experts"));
  Stage stage;
  stage.op = out.kind;
  stage.operands = {{"source", "source"}};
  stage.results = {{"destination", "destination"}};
  if (!order.empty())
    stage.operands["order"] = "order";
  out.stages.push_back(std::move(stage));
  return out.stages.back();
}

static void finish(EmittedKernel &out, const std::string &element,
                   const std::string &source, const std::string &destination,
                   int64_t rows, int64_t columns, int64_t bytes,
                   const std::string &order = {}) {
  out.text.config.number("kBytesPerCta", kPackBytesPerCta);
  *addStage(out, element, source, destination, order).attributes = {
      {"rows", rows}, {"columns", columns}};
  out.grid.ctas[0] = ceilDiv(Expression::symbol("experts") * Expression(bytes),
                             Expression(kPackBytesPerCta));
}

/// Emits the kernel that copies experts from the stored weight to scratch.
/// `rows` and `columns` are the extents of the stored tensor.
static EmittedKernel emitCopy(moe::ProgramOp program,
                              const std::string &element, int64_t rows,
                              int64_t columns, int64_t configColumns,
                              int64_t bytes, const std::string &source,
                              const std::string &scratch) {
  EmittedKernel out = begin(program, "pack_copy");
  ConfigPrinter &config = out.text.config;
  config.type("Element", element);
  config.number("kRows", rows);
  config.number("kColumns", configColumns);
  config.number("kInterleave", 0);
  finish(out, element, source, scratch, rows, columns, bytes);
  return out;
}

EmittedKernel compiler::emitPackCopy(moe::ProgramOp program,
                                     const std::string &elementType,
                                     int64_t rows, int64_t columns,
                                     const std::string &source,
                                     const std::string &scratch) {
  return emitCopy(program, std::string(cppElementType(elementType)), rows,
                  columns, columns, rows * columns * elementBytes(elementType),
                  source, scratch);
}

/// Emits the kernel that reads elements in the checkpoint's format from scratch
/// and writes packed experts.
static EmittedKernel emitStored(moe::PackOp pack, const StoredWeight &stored,
                                const std::string &scratch) {
  auto type = cast<RankedTensorType>(pack.getResult().getType());
  auto layout = cast<moe::LayoutAttr>(type.getEncoding());
  const int64_t rows = type.getDimSize(1);
  const int64_t columns = type.getRank() > 2 ? type.getDimSize(2) : 1;
  const int64_t bits = elementBits(elementTypeOf(pack.getResult()));
  EmittedKernel out =
      begin(pack->getParentOfType<moe::ProgramOp>(), "pack_stored");
  ConfigPrinter &config = out.text.config;
  config.number("kRows", rows);
  config.number("kColumns", columns);
  config.number("kBits", bits);
  config.number("kStoredBits", stored.bits);
  config.flag("kRowsLast", stored.rowsLast);
  config.number("kRowsPerWord", stored.rowsPerWord);
  config.number("kColumnsPerWord", stored.columnsPerWord);
  int64_t slots = 0;
  for (int shift = 0; const std::string_view slot : WordList(stored.slots)) {
    slots |= int64_t(slot[0] - '0') << shift;
    shift += 4;
  }
  config.number("kSlots", slots);
  config.number("kAdded", stored.added);
  config.number("kFlipped", stored.flipped);
  if (stored.powers)
    config.flag("kPowers", true);
  const mlir::ArrayRef<int64_t> repeat =
      pack.getRepeat().value_or(mlir::ArrayRef<int64_t>());
  // Replication and padding apply to the gate rows and the up rows separately.
  const int64_t parts = !repeat.empty()   ? repeat[0]
                        : stored.isPadded ? stored.parts
                                          : 1;
  if (parts > 1 || !repeat.empty())
    config.number("kParts", parts);
  if (stored.isPadded) {
    config.number("kStoredRows", stored.rows);
    config.number("kStoredColumns", stored.columns);
  }
  if (stored.atoms)
    config.flag("kAtoms", true);
  if (!repeat.empty()) {
    config.number("kRepeatRows", repeat[1]);
    config.number("kRepeatColumns", repeat[2]);
    config.number("kAlternate", pack.getAlternate().value_or(0));
  }
  config.number("kInterleave", layout.getInterleave());
  addGateUpOrder(layout.getGateUpOrder(), config);
  const bool isFragment = layout.getOrder() == "fragment";
  if (isFragment)
    config.number("kFragmentColumns", layout.getTile()[1]);
  finish(out, "unsigned char", scratch, valueName(pack.getResult()), rows,
         columns, rows * columns * bits / 8,
         pack.getOrder() ? valueName(pack.getOrder()) : std::string());
  Stage &stage = out.stages.back();
  addRowOrder(stage, layout.getInterleave(), layout.getGateUpOrder());
  stage.attributes["bits"] = stored.bits;
  stage.attributes["rows_last"] = stored.rowsLast;
  stage.attributes["rows_per_word"] = stored.rowsPerWord;
  stage.attributes["columns_per_word"] = stored.columnsPerWord;
  stage.attributes["slots"] = stored.slots;
  stage.attributes["added"] = stored.added;
  stage.attributes["flipped"] = stored.flipped;
  if (stored.powers)
    stage.attributes["powers"] = true;
  if (isFragment)
    stage.attributes["fragment_columns"] = layout.getTile()[1];
  if (parts > 1 || !repeat.empty())
    stage.attributes["parts"] = parts;
  if (stored.isPadded) {
    stage.attributes["stored_rows"] = stored.rows;
    stage.attributes["stored_columns"] = stored.columns;
  }
  if (stored.atoms)
    stage.attributes["atoms"] = true;
  if (!repeat.empty()) {
    stage.attributes["repeat_rows"] = repeat[1];
    stage.attributes["repeat_columns"] = repeat[2];
    stage.attributes["alternate"] = bool(pack.getAlternate());
    // The field is written only if it is not the default, so that manifests of
    // older packages do not change.
    if (const int64_t run = pack.getAlternate().value_or(1); run != 1)
      stage.attributes["run"] = run;
  }
  return out;
}

/// Returns the kernels of a packing step.
static std::vector<EmittedKernel> kernelsOf(moe::PackOp pack,
                                            const std::string &scratch) {
  auto program = pack->getParentOfType<moe::ProgramOp>();
  const std::string source = valueName(pack.getSource());
  if (const std::optional<StoredWeight> stored = storedWeight(pack)) {
    // Extents of the stored tensor, in words.
    const StoredWeight value = sourceValue(pack);
    // A tensor with one value per row is copied as one row per expert.
    const bool isOneRow = value.shape.size() == 2 || value.shape[1] == 1;
    const int64_t rows = isOneRow ? 1 : value.shape[1];
    return {emitCopy(program, "unsigned char", rows, value.shape.back(),
                     stored->bytesOfExpert() / rows, stored->bytesOfExpert(),
                     source, scratch),
            emitStored(pack, *stored, scratch)};
  }
  auto type = cast<RankedTensorType>(pack.getResult().getType());
  auto layout = cast<moe::LayoutAttr>(type.getEncoding());
  const int64_t rows = type.getDimSize(1), columns = type.getDimSize(2);
  const std::string elementType = elementTypeOf(pack.getResult());
  const int64_t bits = elementBits(elementType);
  // Codes are copied as bytes, independent of their element type.
  auto matmul = findIn<moe::GroupedMatmulOp>(program);
  const bool asBytes =
      matmul && matmul.getRealization() != moe::Realization::Native;
  const std::string element(asBytes ? "unsigned char"
                                    : cppElementType(elementType));
  const int64_t bytes = rows * columns * bits / 8;
  const int64_t configColumns = asBytes ? columns * bits / 8 : columns;
  EmittedKernel second = begin(program, "pack_interleave");
  ConfigPrinter &config = second.text.config;
  config.type("Element", element);
  config.number("kRows", rows);
  config.number("kColumns", configColumns);
  config.number("kInterleave", layout.getInterleave());
  addGateUpOrder(layout.getGateUpOrder(), config);
  finish(second, element, scratch, valueName(pack.getResult()), rows, columns,
         bytes);
  addRowOrder(second.stages.back(), layout.getInterleave(),
              layout.getGateUpOrder());
  return {emitCopy(program, element, rows, columns, configColumns, bytes,
                   source, scratch),
          second};
}

EmittedPack compiler::emitPackOrder(moe::PackOrderOp order) {
  auto type = cast<RankedTensorType>(order.getOrder().getType());
  const int64_t columns = type.getDimSize(1), group = order.getGroup();
  EmittedKernel out =
      begin(order->getParentOfType<moe::ProgramOp>(), "pack_order");
  out.text.config.number("kColumns", columns);
  out.text.config.number("kGroup", group);
  *addStage(out, "int", valueName(order.getIndex()),
            valueName(order.getOrder()))
       .attributes = {{"columns", columns}, {"group", group}};
  out.grid.ctas[0] = Expression::symbol("experts");
  EmittedPack made;
  made.result = valueName(order.getOrder());
  made.name = valueName(order.getIndex());
  made.from = {made.name};
  made.kernels = {std::move(out)};
  return made;
}

EmittedPack compiler::emitPack(moe::PackOp pack, const std::string &scratch) {
  // Scratch holds the experts in their stored format, if that differs from the
  // packed element type.
  const std::optional<StoredWeight> stored = storedWeight(pack);
  EmittedPack made;
  made.result = valueName(pack.getResult());
  made.name = valueName(pack.getSource());
  made.from = {made.name};
  // The stored weight must be the first entry of `from`.
  if (auto quantize = pack.getSource().getDefiningOp<moe::QuantizeWeightsOp>())
    made.from.insert(made.from.begin(), valueName(quantize.getSource()));
  if (pack.getOrder())
    made.from.push_back(valueName(pack.getOrder()));
  made.inPlace = packsInPlace(pack);
  made.scratchBytes =
      stored ? stored->bytesOfExpert() : packedBytesOfExpert(pack);
  made.kernels = kernelsOf(pack, scratch);
  return made;
}
