//===- Moe.h - the moe dialect ----------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The public header of the dialect: attributes, operations, and plain structs
// from which attributes with many fields are built.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOE_H
#define MOEC_DIALECT_MOE_H

#include "dialect/Schedules.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/GateUpOrders.h"
#include "dialect/catalog/Gpus.h"
#include "dialect/catalog/Kernels.h"
#include "dialect/catalog/Schemes.h"
#include "dialect/catalog/StoredLayouts.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <concepts>
#include <optional>
#include <string>

namespace moec::catalog {
struct BlockPair;
} // namespace moec::catalog

namespace moec::moe {

/// The size of a dimension that is known only at run time.
inline constexpr int64_t kAny = mlir::ShapedType::kDynamic;

/// An attribute of moe.layer: a dictionary with the fields of the manifest's
/// layer.origin. It records what an importer read from a model's config and
/// what it assumed. It is absent if no model config was read. No pass reads it,
/// and no kernel depends on it.
inline constexpr llvm::StringLiteral kOrigin = "moe.origin";

inline mlir::StringRef text(mlir::Attribute string) {
  return mlir::cast<mlir::StringAttr>(string).getValue();
}

class DescriptorAttr;
class LayerOp;
class KernelOp;
class YieldOp;

/// Returns the MLIR type for the name of an element type, or null for "". The
/// caller must have checked that the name is a known element type.
mlir::Type elementType(mlir::MLIRContext *context, std::string_view name);

/// Returns the catalog row that allows engines to multiply these two operands
/// natively, with their scales applied to the accumulators, or null. Packing
/// may have to repeat the weight scales for the row's smaller groups.
const catalog::NativeScales *nativeScales(DescriptorAttr activation,
                                          DescriptorAttr weight);

/// Returns true if nativeScales() has a row for the operands, and both operands
/// have power-of-two scales (f8E8M0FNU) per 128 elements along K.
bool havePowerGroups(DescriptorAttr activation, DescriptorAttr weight);

/// Returns the shape of a weight's scales, or an empty shape if the descriptor
/// has no scale. The weight is [experts, parts * partRows, columns], and its
/// `parts` matrices (gate and up) are quantized separately.
llvm::SmallVector<int64_t, 3> scaleShape(DescriptorAttr descriptor,
                                         int64_t experts, int64_t parts,
                                         int64_t partRows, int64_t columns);

/// Returns the type of activation scales as kernels read them, for activations
/// with `columns` columns: [1] for one scale per tensor, otherwise [?, groups].
mlir::RankedTensorType scalesOfRows(DescriptorAttr descriptor, int64_t columns);

/// The direction of a tensor between a layer and its caller, and when it is
/// passed.
enum class TensorRole {
  Input,          ///< passed to every run
  OptionalInput,  ///< may be absent in a run
  StoredWeight,   ///< passed once per layer, as the checkpoint stores it
  Output,         ///< written by every run
  OptionalOutput, ///< written if a run requests it
};

/// A tensor that is passed between a layer and its caller. A leading `?` in its
/// type is the number of tokens or of rows.
struct LayerTensor {
  llvm::StringRef name;
  TensorRole role = TensorRole::Input;
  mlir::RankedTensorType type;
  /// Other element types that a run may pass instead of the type's own.
  llvm::SmallVector<llvm::StringRef, 2> otherTypes;
  int64_t alignment = 16; ///< required alignment of the pointer, in bytes
  bool rowStride = false; ///< the caller may pass a row stride
  bool ofRows = false;    ///< the leading `?` is the number of rows, not of
                          ///< tokens
};

/// Returns the tensor of the given name, or null.
const LayerTensor *findTensor(llvm::ArrayRef<LayerTensor> tensors,
                              llvm::StringRef name);

/// Copies the attributes of `op` that ODS declares to `to`, if they are
/// integers, floating-point values, strings or flags.
void addDeclaredAttributes(mlir::Operation *op, mlir::NamedAttrList &to);

/// The fields of #moe.parallel.
struct Parallel {
  int64_t tp = 1, tpRank = 0;
  int64_t pcp = 1, pcpRank = 0;
  int64_t dp = 1, dpRank = 0;
  int64_t sp = 1;
  bool ep = false;
  std::string placement = "linear";
  std::optional<int64_t> rank;
};

} // namespace moec::moe

namespace moec {
/// Hashes the members of a schedule, as MLIR's attribute storage requires.
template <typename S>
  requires std::derived_from<S, KernelSchedule>
llvm::hash_code hash_value(const S &schedule) {
  const auto hashOf = [](const auto &value) {
    if constexpr (std::is_same_v<decltype(value), const std::vector<int64_t> &>)
      return llvm::hash_combine_range(value.begin(), value.end());
    else
      return llvm::hash_code(llvm::hash_value(value));
  };
  llvm::hash_code code = 0;
  if constexpr (std::is_base_of_v<Schedule, S>)
    code = llvm::hash_value(schedule.engine);
  for (const Member &member : membersOf(schedule))
    code = llvm::hash_combine(code, std::visit(hashOf, member.value));
  return code;
}
} // namespace moec

// Generated code has unused parameters.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "dialect/MoeDialect.h.inc"
#include "dialect/MoeEnums.h.inc"
#include "dialect/MoeSchedules.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/MoeAttrs.h.inc"
#include "dialect/MoeInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/MoeOps.h.inc"
#pragma GCC diagnostic pop

#endif // MOEC_DIALECT_MOE_H
