//===- EmittedKernel.h - one kernel as text ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel before it has a name, and the parts that several kinds print alike.
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

/// The source of a kernel before its name is known: a function of the kernel
/// alone, without paths, dates and versions. Equal kernels have equal cache
/// keys.
struct KernelText {
  std::vector<std::string> includes; ///< "moe/kernel/route.cuh"
  std::string function;              ///< "moe::route"
  ArgumentLayout arguments;
  ConfigPrinter config;
  int64_t threads = 0;
  int64_t minCtasPerSm = 1;
  int64_t sharedBytes = 0;
  bool sharesMore = false; ///< than the kernel uses: see launchBytes

  /// The whole source with the entry called `entry`.
  std::string source(std::string_view entry) const;
};

struct EmittedKernel {
  std::string kind;   ///< grouped_matmul, route, ...
  std::string scheme; ///< for the entry's name
  std::string tile;   ///< for the entry's name, "16x64x64" or ""
  KernelText text;
  std::vector<Stage> stages;
  /// The tensor maps of its arguments. Kernels that need the same map describe
  /// it in the same words.
  std::vector<TensorMap> tensorMaps;
  Grid grid; ///< in x alone
  bool programmatic = false;
  bool cooperative = false;
  std::array<int64_t, 3> cluster = {1, 1, 1};
};

/// The stages in a kernel that `launch` runs, as its argument block calls what
/// they read and write.
std::vector<Stage> stagesOf(moe::KernelOp kernel, moe::LaunchOp launch,
                            const ArgumentLayout &arguments);

/// Fills what all kernels of a kind have.
void beginKernel(moe::ProgramOp program, llvm::StringRef kind, int64_t threads,
                 bool programmatic, EmittedKernel &out);

/// Name of the program's scheme for entries: "bf16", or "custom".
std::string schemeName(moe::ProgramOp program);
/// The policy of operands that are multiplied as they are.
std::string nativePolicy(moe::GroupedMatmulOp matmul);

/// The kernel's name of the element type of a value.
std::string cppType(mlir::Value value);

/// Includes the header of an engine, moe/matmul/atom/<name>.cuh.
void addEngineHeader(std::string_view engine, EmittedKernel &out);

/// Adds Quant, and what a kernel knows of the numbers of codes that it reads.
void addWeightConfig(moe::GroupedMatmulOp matmul, ConfigPrinter &config);

/// Adds Activation, and the numbers that it has; null is none.
void addActivation(moe::ActivationAttr activation, KernelText &text);
/// Adds a field, by pointer(name, type), for each number of which every expert
/// has its own. `activate` may be null.
void addNumbers(
    moe::ActivateOp activate,
    llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> pointer);
/// Adds the attributes of the rows of a stage's weight.
void addRowOrder(Stage &stage, int64_t interleave, llvm::StringRef gateUpOrder);
/// Adds GateUpOrder where it is not the usual one.
void addGateUpOrder(llvm::StringRef order, ConfigPrinter &config);

/// The tensor map of the weights: 128 bytes of each weight row of
/// a tile at a time, swizzled as the tensor cores read them.
/// `weight`: the program's name for them. Adds the map and its argument.
void addWeightMap(moe::GroupedMatmulOp matmul, moe::ScheduleAttr schedule,
                  std::string weight, EmittedKernel &out);
/// Adds the tensor map of the rows of lhs, which are contiguous.
void addRowMap(moe::GroupedMatmulOp matmul, moe::ScheduleAttr schedule,
               std::string rows, EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_EMITTEDKERNEL_H
