//===- EmittedKernel.h - a printed kernel -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text and the properties of a printed kernel, and helpers that several
// kinds of kernels use to print fields and Config members.
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

/// The source of a kernel, without its entry name. The text depends only on the
/// kernel and contains no paths, dates or versions. Equal kernels therefore
/// have equal cache keys.
struct KernelText {
  std::vector<std::string> includes; ///< such as "moe/kernel/route.cuh"
  std::string function;              ///< such as "moe::route"
  ArgumentLayout arguments;
  ConfigPrinter config;
  int64_t threads = 0;
  int64_t minCtasPerSm = 1;
  int64_t sharedBytes = 0;
  /// True if the launch requests more shared memory than the kernel uses; see
  /// launchBytes() in compiler/matmul/Gemv.h.
  bool sharesMore = false;

  /// Returns the complete source, whose entry function is named `entry`.
  std::string source(std::string_view entry) const;
};

struct EmittedKernel {
  std::string kind;   ///< such as grouped_matmul or route
  std::string scheme; ///< for the entry's name
  std::string tile;   ///< for the entry's name: "16x64x64" or ""
  KernelText text;
  std::vector<Stage> stages;
  /// The tensor maps that the arguments contain. Kernels that need the same map
  /// describe it identically.
  std::vector<TensorMap> tensorMaps;
  Grid grid; ///< x dimension only
  bool programmatic = false;
  bool cooperative = false;
  std::array<int64_t, 3> cluster = {1, 1, 1};
};

/// Returns the stages of `kernel`, as the manifest lists them. Operands and
/// results are named after the argument block's fields.
std::vector<Stage> stagesOf(moe::KernelOp kernel, moe::LaunchOp launch,
                            const ArgumentLayout &arguments);

/// Sets the properties that all kernels have: name, header, entry function,
/// thread count and the Config members for them.
void beginKernel(moe::ProgramOp program, llvm::StringRef kind, int64_t threads,
                 bool programmatic, EmittedKernel &out);

/// Returns the name of the program's scheme for entry names, such as "bf16" or
/// "custom".
std::string schemeName(moe::ProgramOp program);
/// Returns the C++ policy for a matmul that multiplies its operands without
/// converting them, such as "moe::quant::None".
std::string nativePolicy(moe::GroupedMatmulOp matmul);

/// Returns the C++ name that the templates use for the element type of `value`.
std::string cppType(mlir::Value value);

/// Adds the #include of an engine's header, moe/matmul/atom/<engine>.cuh.
void addEngineHeader(std::string_view engine, EmittedKernel &out);

/// Adds the Config type Quant and the properties of scales and zero points. A
/// kernel needs them to convert codes (quantized values).
void addWeightConfig(moe::GroupedMatmulOp matmul, ConfigPrinter &config);

/// Adds the Config type Activation and its parameters. `activation` may be null
/// for a matmul without an activation.
void addActivation(moe::ActivationAttr activation, KernelText &text);
/// Calls pointer(name, type) for each activation parameter that differs per
/// expert. `pointer` adds the parameter's field to the argument block.
/// `activate` may be null.
void addNumbers(
    moe::ActivateOp activate,
    llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> pointer);
/// Adds the attributes that describe how the weight rows of gate and up are
/// ordered.
void addRowOrder(Stage &stage, int64_t interleave, llvm::StringRef gateUpOrder);
/// Adds the Config type GateUpOrder unless the order is the default
/// "gate_first".
void addGateUpOrder(llvm::StringRef order, ConfigPrinter &config);

/// Adds a tensor map of the weights, and the field `rhs` of the argument block
/// that holds it. A box holds 128 bytes of each weight row in a tile, with the
/// 128-byte swizzle. `weight` is the name of the weights in the program.
void addWeightMap(moe::GroupedMatmulOp matmul, moe::ScheduleAttr schedule,
                  std::string weight, EmittedKernel &out);
/// Adds a tensor map of the lhs rows, which are contiguous, and the field `lhs`
/// of the argument block that holds it.
void addRowMap(moe::GroupedMatmulOp matmul, moe::ScheduleAttr schedule,
               std::string rows, EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_EMITTEDKERNEL_H
