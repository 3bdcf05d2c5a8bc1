//===- EmittedKernel.h - a printed kernel -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text and properties of a kernel, and helpers to print what several kinds
// of kernels have in common.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_EMITTEDKERNEL_H
#define MOEC_COMPILER_KERNELS_EMITTEDKERNEL_H

#include "compiler/kernels/ArgumentBlock.h"
#include "compiler/matmul/ConfigPrinter.h"
#include "dialect/Moe.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace moec::compiler {

/// The source of a kernel without the name of its entry. It depends only on the
/// kernel, and contains no paths, dates or versions, so that equal kernels have
/// equal cache keys.
struct KernelText {
  std::vector<std::string> includes; ///< such as "moe/kernel/route.cuh"
  std::string function;              ///< such as "moe::route"
  ArgumentLayout arguments;
  ConfigPrinter config;
  int64_t threads = 0;
  int64_t minCtasPerSm = 1;
  int64_t sharedBytes = 0;
  /// Requests more shared memory than used: see launchBytes.
  bool sharesMore = false;

  /// Returns the complete source, with an entry named `entry`.
  std::string source(std::string_view entry) const;
};

struct EmittedKernel {
  std::string kind;   ///< such as grouped_matmul or route
  std::string scheme; ///< for the entry's name
  std::string tile;   ///< for the entry's name: "16x64x64" or ""
  KernelText text;
  std::vector<Stage> stages;
  /// The tensor maps of the arguments. Kernels that need the same map describe
  /// it identically.
  std::vector<TensorMap> tensorMaps;
  Grid grid; ///< x dimension only
  bool programmatic = false;
  bool cooperative = false;
  std::array<int64_t, 3> cluster = {1, 1, 1};
};

/// Returns the stages of a kernel that `launch` runs. Operands and results have
/// the names of the argument block's fields.
std::vector<Stage> stagesOf(moe::KernelOp kernel, moe::LaunchOp launch,
                            const ArgumentLayout &arguments);

/// Sets the properties that all kernels of a kind have.
void beginKernel(moe::ProgramOp program, llvm::StringRef kind, int64_t threads,
                 bool programmatic, EmittedKernel &out);

/// Returns the name of the program's scheme for entry names, such as "bf16" or
/// "custom".
std::string schemeName(moe::ProgramOp program);
/// Returns the C++ policy for operands that are multiplied as stored.
std::string nativePolicy(moe::GroupedMatmulOp matmul);

/// Returns the C++ name of the element type of a value in the templates.
std::string cppType(mlir::Value value);

/// Includes the header of an engine, moe/matmul/atom/<name>.cuh.
void addEngineHeader(std::string_view engine, EmittedKernel &out);

/// Adds the type Quant and the properties of scales and zero points that the
/// kernel needs to convert codes (quantized values).
void addWeightConfig(moe::GroupedMatmulOp matmul, ConfigPrinter &config);

/// Adds the type Activation and its parameters. `activation` may be null.
void addActivation(moe::ActivationAttr activation, KernelText &text);
/// Adds a field, with pointer(name, type), for each activation parameter that
/// each expert has its own value of. `activate` may be null.
void addNumbers(
    moe::ActivateOp activate,
    llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> pointer);
/// Adds the attributes that describe the row order of a stage's weight.
void addRowOrder(Stage &stage, int64_t interleave, llvm::StringRef gateUpOrder);
/// Adds GateUpOrder to the Config unless the order is the default.
void addGateUpOrder(llvm::StringRef order, ConfigPrinter &config);

/// Adds the tensor map of the weights and its argument. A box has 128 bytes of
/// each weight row of a tile, in the tensor cores' swizzle. `weight` is the
/// program's name of the weights.
void addWeightMap(moe::GroupedMatmulOp matmul, moe::ScheduleAttr schedule,
                  std::string weight, EmittedKernel &out);
/// Adds the tensor map of the contiguous rows of lhs and its argument.
void addRowMap(moe::GroupedMatmulOp matmul, moe::ScheduleAttr schedule,
               std::string rows, EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_EMITTEDKERNEL_H
