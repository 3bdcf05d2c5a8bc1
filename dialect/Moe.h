//===- Moe.h - the moe dialect ----------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one header of the dialect: attributes, operations, and the plain structs
// with which attributes of many fields are built by name.
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

/// Size of a dimension that is known only when a package runs.
inline constexpr int64_t kAny = mlir::ShapedType::kDynamic;

/// An attribute of moe.layer, a dictionary with the fields of the manifest's
/// layer.origin: what an importer read of a model's config and what it assumed.
/// Absent if no model's config was read. No pass reads it, and no kernel
/// depends on it.
inline constexpr llvm::StringLiteral kOrigin = "moe.origin";

inline mlir::StringRef text(mlir::Attribute string) {
  return mlir::cast<mlir::StringAttr>(string).getValue();
}

class DescriptorAttr;
class LayerOp;
class KernelOp;
class YieldOp;

/// The MLIR type of an element type, by its name in a table; null for "". A
/// user's word is looked up in the table before.
mlir::Type elementType(mlir::MLIRContext *context, std::string_view name);

/// The row of operands that engines multiply as they are, with scales that
/// packing may repeat; null where there is none.
const catalog::NativeScales *nativeScales(DescriptorAttr activation,
                                          DescriptorAttr weight);

/// Returns true if both have such scales, and they are powers of two of 128
/// elements along k.
bool havePowerGroups(DescriptorAttr activation, DescriptorAttr weight);

/// The shape of a weight's scales, of [experts, parts * partRows, columns],
/// each part quantized by itself; empty without scales.
llvm::SmallVector<int64_t, 3> scaleShape(DescriptorAttr descriptor,
                                         int64_t experts, int64_t parts,
                                         int64_t partRows, int64_t columns);

/// The scales of activations of so many columns, as kernels read them: [1], or
/// [?, groups].
mlir::RankedTensorType scalesOfRows(DescriptorAttr descriptor, int64_t columns);

/// Who gives a tensor of a layer, or takes it, and when.
enum class TensorRole {
  Input,          ///< at every run
  OptionalInput,  ///< may be absent at a run
  StoredWeight,   ///< once per layer, as the checkpoint holds it
  Output,         ///< written by every run
  OptionalOutput, ///< written where a run asks for it
};

/// A tensor between a layer and its caller. Its leading `?` is tokens or rows.
struct LayerTensor {
  llvm::StringRef name;
  TensorRole role = TensorRole::Input;
  mlir::RankedTensorType type;
  /// Element types that a run may give besides the type's own.
  llvm::SmallVector<llvm::StringRef, 2> otherTypes;
  int64_t alignment = 16; ///< of the pointer, in bytes
  bool rowStride = false; ///< the caller may give another stride of rows
  bool ofRows = false;    ///< the leading `?` is rows
};

/// The tensor of that name, or null.
const LayerTensor *findTensor(llvm::ArrayRef<LayerTensor> tensors,
                              llvm::StringRef name);

/// Adds the integers, numbers, words and flags that ODS declares and `op` has.
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
/// Hashes the members of a schedule, for MLIR's storage.
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

// Generated code names parameters that it does not use.
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
