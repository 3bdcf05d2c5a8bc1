//===- StoredWeights.cpp - layouts of checkpoint weights ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/StoredWeights.h"

#include "compiler/plan/ProgramValues.h"

#include <nlohmann/json.hpp>

#include <utility>

using mlir::RankedTensorType;
using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

static constexpr int64_t kWordBits = 32;
static constexpr int64_t kAtomRows = 128, kAtomColumns = 4;

static const catalog::StoredLayout &rowOf(llvm::StringRef layout) {
  return *catalog::find(catalog::kStoredLayouts, layout);
}

int64_t StoredWeight::bytesOfExpert() const {
  const int64_t elements = llvm::product_of(llvm::drop_begin(shape));
  return elements * elementBits(elementType) / 8;
}

/// Returns the number of matrices (gate, up) that are concatenated along the
/// tensor's rows. If gate and up rows alternate, the tensor counts as one
/// matrix, except for scales that are shared by several rows: such a scale
/// belongs to either gate or up.
static int64_t partsOf(moe::LayerOp layer, llvm::StringRef input) {
  input = catalog::withoutShared(input);
  if (!layer.isGated() || !(input.starts_with("w13") || input == "b13"))
    return 1;
  const bool ofGroups = input == "w13_scale" || input == "w13_zero_point";
  const bool ofRows = !ofGroups || layer.getQuant().getW1().getGroup()[0] == 1;
  const catalog::GateUpOrder &order =
      *catalog::find(catalog::kGateUpOrders, layer.getGateUpOrder());
  return ofRows && order.run > 0 ? 1 : 2;
}

StoredWeight compiler::storedWeight(moe::LayerOp layer, llvm::StringRef input,
                                    RankedTensorType type) {
  auto layout = mlir::dyn_cast_or_null<moe::LayoutAttr>(type.getEncoding());
  const catalog::StoredTensor tensor = catalog::storedTensor(
      rowOf(layout ? layout.getStored() : llvm::StringRef("rows")),
      std::string_view(input));
  StoredWeight made;
  made.elementType = elementTypeName(type.getElementType());
  made.bits = elementBits(made.elementType);
  made.rowsLast = tensor.rowsLast;
  made.added = tensor.added;
  made.isPadded = layout && !layout.getPadded().empty();
  made.parts = partsOf(layer, input);
  made.atoms = tensor.atoms;
  const mlir::ArrayRef<int64_t> extents =
      made.isPadded ? layout.getPadded() : type.getShape().drop_front();
  // A tensor without columns has one value per row.
  made.rows = extents[0], made.columns = extents.size() > 1 ? extents[1] : 1;
  if (!tensor.packed.empty()) {
    // Zero points have as many bits as the codes that they are subtracted from.
    const moe::QuantAttr quant = layer.getQuant();
    const moe::DescriptorAttr weight =
        catalog::withoutShared(input).starts_with("w13") ? quant.getW1()
                                                         : quant.getW2();
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
        made.slots += tensor.slots[i];
    }
    made.flipped = made.bits == 8 ? 128 : 0;
    made.elementType = "i32";
  }
  int64_t rows = made.rows / made.rowsPerWord;
  int64_t columns = made.columns / made.columnsPerWord;
  if (made.atoms) {
    rows = llvm::alignTo(rows, kAtomRows);
    columns = llvm::alignTo(columns, kAtomColumns);
  }
  made.shape = {type.getDimSize(0), rows, columns};
  if (made.rowsLast)
    std::swap(made.shape[1], made.shape[2]);
  else if (type.getRank() == 2)
    made.shape.pop_back();
  return made;
}

StoredWeight compiler::sourceValue(moe::PackOp pack) {
  return storedWeight(pack->getParentOfType<moe::ProgramOp>().getLayerOp(),
                      valueName(pack.getSource()),
                      mlir::cast<RankedTensorType>(pack.getSource().getType()));
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
  StoredWeight made = sourceValue(pack);
  made.powers = changes;
  // 4-bit codes in row order are read as 32-bit words, since kernels do not
  // read parts of a byte.
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
  // Weights that are quantized when the layer is loaded have separate memory.
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
                  {"slots", tensor->slots.text()},
                  {"added", tensor->added}};
  // The field is written only if it is true, so that manifests of older
  // packages do not change.
  if (row.scales.atoms)
    made["scales"]["atoms"] = true;
  return made;
}
