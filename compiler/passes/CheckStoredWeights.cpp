//===- CheckStoredWeights.cpp - checks the stored form of weights ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"

#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;

namespace {

/// Returns true if the scales can be stored in cuBLAS's block-scale layout of
/// 128 x 4 scale blocks: 8-bit scales of groups of columns. The group's number
/// of columns does not matter.
bool hasBlockScales(moe::DescriptorAttr weight) {
  return !weight.isPlain() && weight.getGroup()[0] == 1 &&
         weight.getGroup()[1] > 0 &&
         weight.getScale().getIntOrFloatBitWidth() == 8;
}

std::string describeScales(moe::DescriptorAttr weight) {
  if (weight.isPlain())
    return "weights of " + compiler::elementTypeName(weight.getElement()) +
           " without scales";
  return ("scales of " + compiler::elementTypeName(weight.getScale()) +
          " of groups [" + Twine(weight.getGroup()[0]) + ", " +
          Twine(weight.getGroup()[1]) + "]")
      .str();
}

LogicalResult checkStoredLayout(moe::LayerOp layer) {
  const StringRef name = layer.getStoredLayout();
  const catalog::StoredLayout &stored =
      *catalog::find(catalog::kStoredLayouts, name);
  const bool ofWords = !stored.weights.packed.empty();
  const auto refuse = [&](StringRef code, const Twine &reason) {
    return compiler::refuse(layer, code,
                            "stored_layout '" + name + "' " + reason);
  };
  for (moe::DescriptorAttr weight :
       {layer.getQuant().getW1(), layer.getQuant().getW2()}) {
    const Type element = weight.getElement();
    const int64_t bits = element.getIntOrFloatBitWidth();
    const std::string got = ", got " + compiler::elementTypeName(element) +
                            "; accepted: another layout";
    if (!ofWords && stored.weights.rowsLast && bits % 8 != 0)
      return refuse("option_not_supported",
                    "holds elements of whole bytes" + got);
    if (stored.scales.atoms && !hasBlockScales(weight))
      return refuse("option_not_supported",
                    "holds scales of 8 bits (f8E4M3FN or f8E8M0FNU) of groups "
                    "of columns, [1, g], got " +
                        describeScales(weight) + "; accepted: another layout");
    const bool bytes = stored.weights.slots.empty();
    if (ofWords && (!element.isInteger() || (bits != 4 && !bytes)))
      return refuse("option_not_supported", Twine("holds integers of 4 ") +
                                                (bytes ? "or 8 " : "") +
                                                "bits" + got);
  }
  // Each size is the row count of one weight (w13 or w2) and the column count
  // of the other weight.
  constexpr int64_t kPerWord = 8;
  for (auto [size, extent] :
       {std::pair<StringRef, int64_t>("hidden_size", layer.getWidth()),
        {"intermediate (of this rank)",
         layer.getIntermediateSizePerPartition().value_or(
             layer.getIntermediateSize())}})
    if (ofWords && extent % kPerWord != 0)
      return refuse("size_not_supported",
                    "holds up to 8 elements in 32 bits, and " + size + " is " +
                        Twine(extent) + "; accepted: multiples of 8");
  return success();
}

/// Checks weights that are stored as floats and quantized at load time. The
/// rules are in templates/moe/math/weight_scaling.cuh.
LogicalResult checkQuantizedWeights(moe::LayerOp layer) {
  bool failed = false;
  if (layer.quantizesWeights() &&
      catalog::find(catalog::kGateUpOrders, layer.getGateUpOrder())->run > 1)
    failed |= mlir::failed(compiler::refuse(
        layer, "option_not_supported",
        "weights_dtype makes codes of gates and ups that follow each other or "
        "take turns row by row, got gate_up_order '" +
            layer.getGateUpOrder() + "'; accepted: another gate_up_order"));
  for (moe::DescriptorAttr weight :
       {layer.getQuant().getW1(), layer.getQuant().getW2()}) {
    if (!layer.quantizesWeights())
      break;
    const std::string code = compiler::elementTypeName(weight.getElement());
    const std::string scale = compiler::elementTypeName(weight.getScale());
    const bool twoLevels = scale == "f8E4M3FN";
    if ((code[0] == 'i' && (twoLevels || scale == "f8E8M0FNU")) ||
        twoLevels != bool(weight.getSecondScale()) ||
        weight.getSecondPerRow() || (weight.getZeroPoint() && code != "i4"))
      failed |= mlir::failed(compiler::refuse(
          layer, "scheme_not_supported",
          "weights_dtype: no rule makes " + code + " with scales of " + scale +
              (weight.getZeroPoint() ? " and zero points" : "") +
              (weight.getSecondPerRow() ? " and second scales of rows" : "") +
              " of floats; accepted: scales of f32, f16 or bf16, of floats "
              "f8E8M0FNU, too, or f8E4M3FN below f32, i4 with zero points"));
  }
  return failure(failed);
}

/// Checks a group index, which assigns each column of K to a scale group.
/// Packing sorts the weight's columns by group, and each run permutes the
/// columns of the activations in the same way.
LogicalResult checkGroupIndex(moe::LayerOp layer) {
  if (!layer.getGroupIndex())
    return success();
  bool failed = false;
  const auto refuse = [&](const Twine &reason) {
    failed = true;
    (void)compiler::refuse(layer, "option_not_supported",
                           "group_index: " + reason);
  };
  const moe::QuantAttr quant = layer.getQuant();
  if (!quant.dequantizesWeights() || !quant.getA1().isPlain() ||
      !quant.getA2().isPlain())
    refuse("activations are of " +
           compiler::elementTypeName(quant.getA1().getElement()) + " and " +
           compiler::elementTypeName(quant.getA2().getElement()) +
           ", weights of " +
           compiler::elementTypeName(quant.getW1().getElement()) + " and " +
           compiler::elementTypeName(quant.getW2().getElement()) +
           "; accepted: a scheme that quantizes only weights");
  for (auto [name, weight] :
       {std::pair<StringRef, moe::DescriptorAttr>("w1", quant.getW1()),
        {"w2", quant.getW2()}}) {
    if (weight.isPlain())
      continue; // reported above
    if (weight.getGroup()[0] != 1 || weight.getGroup()[1] == -1)
      refuse(name + " has groups of [" + Twine(weight.getGroup()[0]) + ", " +
             Twine(weight.getGroup()[1]) +
             "]; accepted: [1, columns], of some columns along K");
    if (weight.getElement().getIntOrFloatBitWidth() == 6)
      refuse(name + " is of " + compiler::elementTypeName(weight.getElement()) +
             ", whose codes are not brought into another order; accepted: "
             "codes of 4 or 8 bits");
  }
  if (layer.quantizesWeights())
    refuse("weights_dtype makes codes of floats, whose groups are in order; "
           "accepted: one of the two");
  if (layer.isBatched())
    refuse("rows come by expert (activation_format = batched), and are not "
           "brought into the order of its columns; accepted: standard");
  const int64_t all = layer.getIntermediateSize();
  if (const int64_t local =
          layer.getIntermediateSizePerPartition().value_or(all);
      local != all)
    refuse("this rank has " + Twine(local) + " of " + Twine(all) +
           " columns of the intermediate, and so parts of groups; accepted: "
           "experts spread over ranks (ep), or tp = 1");
  return failure(failed);
}

/// Checks the padding of a rank's weights, which packing removes.
LogicalResult checkPadding(moe::LayerOp layer) {
  if (!layer.padsWeights())
    return success();
  bool failed = false;
  const auto refuse = [&](StringRef code, const Twine &reason) {
    failed = true;
    (void)compiler::refuse(layer, code, reason);
  };
  // Words hold 8 elements, and runs of gate and up rows have 8 rows.
  constexpr int64_t kMultiple = 8;
  for (auto [name, size] :
       {std::pair<StringRef, std::optional<int64_t>>(
            "stored_hidden_size", layer.getStoredHiddenSize()),
        {"stored_intermediate_size_per_partition",
         layer.getStoredIntermediateSizePerPartition()}}) {
    if (!size)
      continue;
    if (*size % kMultiple != 0)
      refuse("size_not_supported", name + " is " + Twine(*size) +
                                       "; accepted: multiples of " +
                                       Twine(kMultiple));
    if (layer.getGroupIndex())
      refuse("option_not_supported",
             name + ": with group_index the groups of padding would have an "
                    "order, too; accepted: one of the two");
    if (layer.quantizesWeights())
      refuse("option_not_supported",
             name + ": weights_dtype makes codes of floats as they are stored; "
                    "accepted: one of the two");
  }
  return failure(failed);
}

} // namespace

LogicalResult compiler::checkStoredWeights(moe::LayerOp layer) {
  bool failed = mlir::failed(checkStoredLayout(layer));
  failed |= mlir::failed(checkQuantizedWeights(layer));
  failed |= mlir::failed(checkGroupIndex(layer));
  failed |= mlir::failed(checkPadding(layer));
  return failure(failed);
}
