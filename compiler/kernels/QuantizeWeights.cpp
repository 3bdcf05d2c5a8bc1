//===- QuantizeWeights.cpp - kernels that quantize weights at load --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits one pack per result of moe.quantize_weights. Second scales, scales and
// zero points are computed first, while the float weights still exist. Codes
// are computed last, because they may overwrite the floats.
// templates/moe/kernel/quantize_weights.cuh lists the fields and Config
// members.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/Pack.h"

#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/StoredWeights.h"

#include <nlohmann/json.hpp>

using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::RankedTensorType;
using namespace moec;
using namespace moec::compiler;

static void addGroup(Stage &stage, const std::string &prefix,
                     moe::DescriptorAttr descriptor) {
  const llvm::ArrayRef<int64_t> group = descriptor.getGroup();
  stage.attributes[prefix + "group_rows"] = group[0];
  stage.attributes[prefix + "group_columns"] = group[1];
}

namespace {

constexpr int64_t kThreads = 256, kWarp = 32;
/// Number of code chunks that a CTA computes. A chunk has at most 8 codes.
constexpr int64_t kChunksPerCta = 4096;
/// If a group has more vectors of 128 bits than this, a whole CTA processes it.
constexpr int64_t kVectorsOfCta = 1024;

class Emitter {
public:
  explicit Emitter(moe::QuantizeWeightsOp op)
      : op(op), program(op->getParentOfType<moe::ProgramOp>()),
        descriptor(op.getDescriptor()),
        source(cast<RankedTensorType>(op.getSource().getType())),
        rows(source.getDimSize(1)), columns(source.getDimSize(2)),
        parts(op.getParts()) {
    groupRows = descriptor.getGroup()[0] == -1 ? rows / parts
                                               : descriptor.getGroup()[0];
    groupColumns =
        descriptor.getGroup()[1] == -1 ? columns : descriptor.getGroup()[1];
  }

  EmittedKernel copy(const std::string &scratch);
  EmittedKernel numbers(mlir::OpResult result);
  EmittedKernel codes(const std::string &scratch);

private:
  EmittedKernel begin(const char *kind);
  void finish(EmittedKernel &out);
  std::string floats() { return elementTypeName(source.getElementType()); }
  bool alternate() {
    auto layout = mlir::dyn_cast_or_null<moe::LayoutAttr>(
        cast<RankedTensorType>(op.getCodes().getType()).getEncoding());
    return parts > 1 && layout &&
           catalog::find(catalog::kGateUpOrders, layout.getGateUpOrder())->run >
               0;
  }
  void pointer(EmittedKernel &out, const char *name, mlir::Value value,
               const std::string &type);

  moe::QuantizeWeightsOp op;
  moe::ProgramOp program;
  moe::DescriptorAttr descriptor;
  RankedTensorType source;
  int64_t rows, columns, parts, groupRows, groupColumns;
};

EmittedKernel Emitter::begin(const char *kind) {
  EmittedKernel out;
  beginKernel(program, kind, kThreads, /*programmatic=*/false, out);
  const std::string code = elementTypeName(descriptor.getElement());
  const std::string scale = elementTypeName(descriptor.getScale());
  const bool isFloat = mlir::isa<mlir::FloatType>(descriptor.getElement());
  const bool isHalf = code == "f4E2M1FN";
  const bool ofTensor = descriptor.isOfTensor();
  const bool ofChannel =
      descriptor.getGroup()[0] == 1 && descriptor.getGroup()[1] == -1;
  const bool hasZeros = bool(descriptor.getZeroPoint());
  ConfigPrinter &config = out.text.config;
  config.type("Element", cppElementType(floats()));
  config.type("Code", cppElementType(code));
  config.type("Scale", cppElementType(scale));
  config.type("Rule", isHalf ? "moe::quant::Even" : "moe::quant::Ceil");
  config.choice("kShares", "moe::quant::Shares",
                ofTensor    ? "Tensor"
                : ofChannel ? "Channel"
                            : "Group");
  config.flag("kZeroPoints", hasZeros);
  config.number("kRows", rows);
  config.number("kColumns", columns);
  config.number("kParts", parts);
  config.flag("kAlternate", alternate());
  Stage stage;
  stage.op = kind;
  *stage.attributes = {{"rows", rows},           {"columns", columns},
                       {"parts", parts},         {"alternate", alternate()},
                       {"element", code},        {"scale_type", scale},
                       {"zero_points", hasZeros}};
  if (isFloat && scale == "f8E8M0FNU")
    stage.attributes["scale_rule"] = isHalf ? "even" : "ceil";
  out.stages.push_back(std::move(stage));
  return out;
}

void Emitter::pointer(EmittedKernel &out, const char *name, mlir::Value value,
                      const std::string &type) {
  if (!value)
    return;
  out.text.arguments.pointer(name, type, valueName(value));
  out.stages.back().operands[name] = name;
}

void Emitter::finish(EmittedKernel &out) {
  out.text.arguments.firstExpert("first_expert");
  out.text.arguments.size("experts", Expression::symbol("experts"));
  out.stages.back().operands["source"] = "source";
  out.stages.back().results["destination"] = "destination";
}

/// Emits the kernel that copies experts from the stored weight to scratch.
EmittedKernel Emitter::copy(const std::string &scratch) {
  return emitPackCopy(op->getParentOfType<moe::ProgramOp>(), floats(), rows,
                      columns, valueName(op.getSource()), scratch);
}

/// Emits the kernel that computes scales, second scales or zero points.
EmittedKernel Emitter::numbers(mlir::OpResult result) {
  const std::string number =
      op.getSuffix(result.getResultNumber()).drop_front().str();
  const bool isSecond = number == "second_scale";
  const bool isZero = number == "zero_point";
  EmittedKernel out = begin("pack_scales");
  const int64_t tall = isSecond ? rows / parts : groupRows;
  const int64_t wide = isSecond ? columns : groupColumns;
  ConfigPrinter &config = out.text.config;
  config.choice("kNumber", "moe::WeightNumber",
                isSecond ? "SecondScale"
                : isZero ? "ZeroPoint"
                         : "Scale");
  config.number("kGroupRows", tall);
  config.number("kGroupColumns", wide);
  constexpr int64_t kVectorBits = 128;
  const int64_t perVector =
      kVectorBits / source.getElementType().getIntOrFloatBitWidth();
  const int64_t vectors = tall * llvm::divideCeil(wide, perVector);
  int64_t lanes = 1;
  while (lanes < kWarp && lanes < vectors)
    lanes *= 2;
  if (vectors > kVectorsOfCta)
    lanes = kThreads;
  config.number("kGroupThreads", lanes);
  const std::string type =
      isZero ? "unsigned char"
             : std::string(cppElementType(elementTypeName(
                   cast<RankedTensorType>(result.getType()).getElementType())));
  Stage &stage = out.stages.back();
  out.text.arguments.pointer("source", cppElementType(floats()),
                             valueName(op.getSource()));
  out.text.arguments.pointer("destination", type, valueName(result), true);
  if (isZero)
    pointer(out, "scale", op.getScale(),
            std::string(cppElementType(elementTypeOf(op.getScale()))));
  if (!isSecond)
    pointer(out, "second_scale", op.getSecondScale(), "float");
  finish(out);
  stage.attributes["number"] = number;
  addGroup(stage, "", descriptor);
  if (isSecond)
    stage.attributes["group_rows"] = stage.attributes["group_columns"] = -1;
  const int64_t groups = parts * llvm::divideCeil(rows / parts, tall) *
                         llvm::divideCeil(columns, wide);
  out.grid.ctas[0] = ceilDiv(Expression::symbol("experts") * Expression(groups),
                             Expression(kThreads / lanes));
  return out;
}

EmittedKernel Emitter::codes(const std::string &scratch) {
  EmittedKernel out = begin("pack_codes");
  auto layout = dyn_cast_or_null<moe::LayoutAttr>(
      cast<RankedTensorType>(op.getCodes().getType()).getEncoding());
  const int64_t interleave = layout ? layout.getInterleave() : 0;
  const std::string order =
      layout ? layout.getGateUpOrder().str() : "gate_first";
  int64_t elements = 8;
  while (columns % elements != 0)
    elements /= 2;
  ConfigPrinter &config = out.text.config;
  config.number("kGroupRows", groupRows);
  config.number("kGroupColumns", groupColumns);
  config.number("kInterleave", interleave);
  addGateUpOrder(order, config);
  config.number("kElements", elements);
  config.number("kChunksPerCta", kChunksPerCta);
  out.text.arguments.pointer("source", cppElementType(floats()), scratch);
  out.text.arguments.pointer("destination", "unsigned char",
                             valueName(op.getCodes()), true);
  pointer(out, "scale", op.getScale(),
          std::string(cppElementType(elementTypeOf(op.getScale()))));
  pointer(out, "second_scale", op.getSecondScale(), "float");
  pointer(out, "zero_point", op.getZeroPoint(), "unsigned char");
  finish(out);
  Stage &stage = out.stages.back();
  addGroup(stage, "", descriptor);
  addRowOrder(stage, interleave, order);
  stage.attributes["stored"] = floats();
  out.grid.ctas[0] = ceilDiv(Expression::symbol("experts") *
                                 Expression(rows * (columns / elements)),
                             Expression(kChunksPerCta));
  return out;
}

} // namespace

std::vector<EmittedPack>
compiler::emitQuantizeWeights(moe::QuantizeWeightsOp op,
                              const std::string &scratch) {
  Emitter emitter(op);
  std::vector<EmittedPack> packs;
  std::vector<mlir::Value> made;
  const auto add = [&](mlir::Value result) {
    if (!result)
      return;
    EmittedPack pack;
    pack.result = valueName(result);
    pack.name = pack.result;
    pack.from = {valueName(op.getSource())};
    for (mlir::Value earlier : made)
      pack.from.push_back(valueName(earlier));
    pack.kernels = {emitter.numbers(cast<mlir::OpResult>(result))};
    packs.push_back(std::move(pack));
    made.push_back(result);
  };
  add(op.getSecondScale());
  add(op.getScale());
  add(op.getZeroPoint());
  EmittedPack codes;
  codes.result = valueName(op.getCodes());
  codes.name = valueName(op.getSource());
  codes.from = {codes.name};
  for (mlir::Value earlier : made)
    codes.from.push_back(valueName(earlier));
  codes.inPlace = true;
  codes.scratchBytes =
      packedBytes(cast<RankedTensorType>(op.getSource().getType()));
  codes.kernels = {emitter.copy(scratch), emitter.codes(scratch)};
  packs.push_back(std::move(codes));
  return packs;
}
