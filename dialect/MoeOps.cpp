//===- MoeOps.cpp - regions, result names, shapes -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parsers and printers for the regions of programs, variants and kernels;
// result names of the ops that are not stages of a kernel; and shapes.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"

using namespace mlir;
using namespace moec::moe;

//===----------------------------------------------------------------------===//
// Regions of programs, variants and kernels
//===----------------------------------------------------------------------===//

/// Parses a region. If parsing fails, the region is destroyed. Operations
/// outside the region may already use values that the region defines, so these
/// uses are dropped first.
static ParseResult parseBody(OpAsmParser &parser, Region &body,
                             bool isolated = false) {
  if (parser.parseRegion(body, /*arguments=*/{},
                         /*enableNameShadowing=*/isolated)) {
    for (Block &block : body)
      block.dropAllDefinedValueUses();
    return failure();
  }
  if (body.empty())
    body.emplaceBlock();
  return success();
}

/// Parses the body of an operation that is isolated from above. Names in it are
/// local and never refer to values outside.
static ParseResult parseIsolatedBody(OpAsmParser &parser, Region &body) {
  return parseBody(parser, body, /*isolated=*/true);
}

static void printBody(OpAsmPrinter &printer, Operation *, Region &body) {
  printer.printRegion(body);
}

static void printIsolatedBody(OpAsmPrinter &printer, Operation *op,
                              Region &body) {
  printBody(printer, op, body);
}

/// Parses the name of a catalog row.
static ParseResult parseWord(OpAsmParser &parser, StringAttr &word) {
  std::string text;
  if (parser.parseKeywordOrString(&text))
    return failure();
  word = parser.getBuilder().getStringAttr(text);
  return success();
}

static void printWord(OpAsmPrinter &printer, Operation *, StringAttr word) {
  printer.printKeywordOrString(word.getValue());
}

/// Parses the schedule, plan and fields of a kernel. They are printed on
/// separate lines, with the fields last.
static ParseResult parseFields(OpAsmParser &parser, ScheduleAttr &schedule,
                               PlanAttr &plan, ArrayAttr &fields) {
  if (succeeded(parser.parseOptionalKeyword("schedule")) &&
      parser.parseAttribute(schedule))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("plan")) &&
      parser.parseAttribute(plan))
    return failure();
  return failure(parser.parseKeyword("fields") ||
                 parser.parseAttribute(fields));
}

static void printFields(OpAsmPrinter &printer, Operation *,
                        ScheduleAttr schedule, PlanAttr plan,
                        ArrayAttr fields) {
  const auto decision = [&](StringRef name, Attribute attribute) {
    if (!attribute)
      return;
    printer << name << ' ' << attribute;
    printer.printNewline();
    printer << "    ";
  };
  decision("schedule", schedule);
  decision("plan", plan);
  printer << "fields " << fields;
}

#include "dialect/MoeInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/MoeOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Printed result names of ops that are not stages of a kernel
//===----------------------------------------------------------------------===//

void PackOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "packed");
}
void PackOrderOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOrder(), "order");
}
void QuantizeWeightsOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getCodes(), "codes");
  for (Value scale : getScales())
    setName(scale, "scales");
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static RankedTensorType tensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

StringRef QuantizeWeightsOp::getSuffix(unsigned result) {
  if (result == 0)
    return "";
  if (result == 1)
    return "_scale";
  return result == 2 && getDescriptor().getSecondScale() ? "_second_scale"
                                                         : "_zero_point";
}

SmallVector<Type> QuantizeWeightsOp::scaleTypes(DescriptorAttr descriptor,
                                                int64_t parts,
                                                RankedTensorType source) {
  const int64_t experts = source.getDimSize(0);
  const SmallVector<int64_t, 3> shape =
      scaleShape(descriptor, experts, parts, source.getDimSize(1) / parts,
                 source.getDimSize(2));
  SmallVector<Type> types = {
      RankedTensorType::get(shape, descriptor.getScale())};
  if (const Type second = descriptor.getSecondScale())
    types.push_back(RankedTensorType::get({experts, parts}, second));
  if (const Type zeroPoint = descriptor.getZeroPoint())
    types.push_back(RankedTensorType::get(shape, zeroPoint));
  return types;
}

bool GroupedMatmulOp::isFirst() {
  return getRows() || llvm::any_of(getResult().getUsers(), [](Operation *user) {
           return isa<ActivateOp>(user);
         });
}
int64_t GroupedMatmulOp::getNumExperts() {
  return tensor(getRhs()).getDimSize(0);
}
int64_t GroupedMatmulOp::getN() { return tensor(getRhs()).getDimSize(1); }
int64_t GroupedMatmulOp::getK() { return tensor(getRhs()).getDimSize(2); }
int64_t GroupedMatmulOp::getInterleave() {
  auto layout = dyn_cast_or_null<LayoutAttr>(tensor(getRhs()).getEncoding());
  return layout ? layout.getInterleave() : 0;
}
bool GroupedMatmulOp::readsFragments() {
  auto layout = dyn_cast_or_null<LayoutAttr>(tensor(getRhs()).getEncoding());
  return layout && layout.getOrder() == "fragment";
}
