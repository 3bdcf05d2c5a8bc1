//===- StoredWeights.cpp - weights as a checkpoint has them ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/StoredWeights.h"

#include "compiler/plan/ProgramValues.h"

#include <utility>

using mlir::RankedTensorType;
using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

static constexpr int64_t kWordBits = 32;

static const catalog::StoredLayout &rowOf(llvm::StringRef layout) {
  return *catalog::find(catalog::kStoredLayouts, layout);
}

int64_t StoredWeight::bytesOfExpert() const {
  return shape[1] * shape[2] * elementBits(elementType) / 8;
}

StoredWeight compiler::storedWeight(moe::LayerOp layer, llvm::StringRef input,
                                    RankedTensorType type,
                                    llvm::StringRef layout) {
  const catalog::StoredTensor tensor =
      catalog::storedTensor(rowOf(layout), std::string_view(input));
  StoredWeight made;
  made.elementType = elementTypeName(type.getElementType());
  made.bits = elementBits(made.elementType);
  made.rowsLast = tensor.rowsLast;
  made.added = tensor.added;
  // Numbers of whole rows are those of one group.
  int64_t rows = type.getDimSize(1);
  int64_t columns = type.getRank() > 2 ? type.getDimSize(2) : 1;
  if (!tensor.packed.empty()) {
    // As wide as the codes that they are subtracted from.
    const moe::QuantAttr quant = layer.getQuant();
    const moe::DescriptorAttr weight =
        input.starts_with("w13") ? quant.getW1() : quant.getW2();
    if (input.ends_with("_zero_point"))
      made.bits = weight.getElement().getIntOrFloatBitWidth();
    const int64_t count = kWordBits / made.bits;
    (tensor.packed == "rows" ? made.rowsPerWord : made.columnsPerWord) = count;
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0)
        made.slots += ' ';
      if (tensor.slots.empty())
        made.slots += std::to_string(i);
      else
        made.slots += catalog::wordAt(tensor.slots, i);
    }
    made.flipped = made.bits == 8 ? 128 : 0;
    made.elementType = "i32";
  }
  rows /= made.rowsPerWord, columns /= made.columnsPerWord;
  made.shape = {type.getDimSize(0), rows, columns};
  if (made.rowsLast)
    std::swap(made.shape[1], made.shape[2]);
  return made;
}

std::optional<StoredWeight> compiler::storedWeight(moe::PackOp pack) {
  auto type = mlir::cast<RankedTensorType>(pack.getSource().getType());
  auto layout = mlir::dyn_cast_or_null<moe::LayoutAttr>(type.getEncoding());
  const auto resultLayout = mlir::cast<moe::LayoutAttr>(
      mlir::cast<RankedTensorType>(pack.getResult().getType()).getEncoding());
  const bool changes =
      elementTypeOf(pack.getResult()) != elementTypeOf(pack.getSource());
  if (!layout && !changes && !pack.getOrder() && !pack.getRepeat() &&
      resultLayout.getOrder() != "fragment")
    return std::nullopt;
  StoredWeight made =
      storedWeight(pack->getParentOfType<moe::ProgramOp>().getLayerOp(),
                   valueName(pack.getSource()), type,
                   layout ? layout.getStored() : llvm::StringRef("rows"));
  made.powers = changes;
  // Codes of rows, as words of them: those of a byte are not read apart.
  if (made.bits == 4 && made.rowsPerWord * made.columnsPerWord == 1) {
    made.columnsPerWord = kWordBits / made.bits;
    made.slots = "0 1 2 3 4 5 6 7";
    made.elementType = "i32";
    made.shape[2] /= made.columnsPerWord;
  }
  return made;
}

int64_t compiler::packedBytes(RankedTensorType weight) {
  return weight.getNumElements() / weight.getDimSize(0) *
         elementBits(elementTypeName(weight.getElementType())) / 8;
}

int64_t compiler::packedBytesOfExpert(moe::PackOp pack) {
  return packedBytes(mlir::cast<RankedTensorType>(pack.getResult().getType()));
}

bool compiler::packsInPlace(moe::PackOp pack) {
  // Numbers that are made of floats have memory of their own.
  if (!mlir::isa<mlir::BlockArgument>(pack.getSource()))
    return false;
  const std::optional<StoredWeight> stored = storedWeight(pack);
  return !stored || stored->bytesOfExpert() >= packedBytesOfExpert(pack);
}

json compiler::storedLayoutJson(moe::LayerOp layer) {
  const catalog::StoredLayout &row = rowOf(layer.getStoredLayout());
  json made = {{"name", row.name}};
  for (auto [name, tensor] :
       {std::pair("weights", &row.weights), std::pair("scales", &row.scales),
        std::pair("zero_points", &row.zeroPoints)})
    made[name] = {{"rows_last", tensor->rowsLast},
                  {"packed", tensor->packed},
                  {"slots", tensor->slots},
                  {"added", tensor->added}};
  return made;
}
