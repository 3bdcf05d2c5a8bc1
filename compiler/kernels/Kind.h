//===- Kind.h - rules of one kind of kernel ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row of dialect/catalog/Kernels.h names a kind's template and stages. It
// also lists the kind's arguments, Config members and grid if they can be
// described declaratively. All other rules are C++ code:
// compiler/kernels/<kind>.cpp defines moec::compiler::kernels::<kind>, which
// may implement several rows. The build collects these files.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_KIND_H
#define MOEC_COMPILER_KERNELS_KIND_H

#include "compiler/matmul/Problem.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Kernels.h"
#include "runtime/package/Expression.h"

#include <cstdint>
#include <optional>
#include <string>

namespace moec::compiler {

class Emission;
class MeasuredSchedules;

/// Names of rows of dialect/catalog/Kernels.h. An unknown name is a
/// compile-time error.
struct KindNames {
  WordList words;
  consteval KindNames(const char *names) : words(names) {
    for (const std::string_view name : words)
      if (!catalog::find(catalog::kKernelKinds, name))
        throw "no row of Kernels.h has the name";
  }
};

/// The members of #moe.plan that a kind's rules compute. dialect/MoeAttrs.td
/// describes them.
struct LaunchPlan {
  Expression grid;
  std::string label; ///< tile sizes for the entry's name, such as "16x64x64"
  int64_t sharedBytes = 0;
  int64_t cursor = 0;
  int64_t awaits = 0;
  int64_t splitTiles = 0;
  int64_t columnBlocks = 0;
  bool counts = false;
};

/// The rules of one kind, or of several similar kinds.
struct Kind {
  KindNames names;

  /// Makes the kernel's schedule, or emits an error at the kernel. If null, the
  /// schedule only specifies CTAs of 256 threads.
  llvm::FailureOr<moe::ScheduleAttr> (*schedule)(moe::KernelOp,
                                                 MeasuredSchedules &) = nullptr;

  /// Checks the kernel's existing schedule. Returns the schedule that it must
  /// equal, or emits an error at the kernel. If null, it must equal the result
  /// of `schedule`.
  llvm::FailureOr<moe::ScheduleAttr> (*accepts)(moe::KernelOp) = nullptr;

  /// Computes the plan. If null, the plan has the grid of the catalog row.
  void (*plan)(moe::KernelOp, LaunchPlan &) = nullptr;

  /// Adds fields and Config members that the catalog row does not list. If
  /// null, the catalog row is complete.
  void (*emit)(Emission &) = nullptr;
};

namespace kernels {
#define MOEC_KERNEL(name) extern const Kind name;
#include "compiler/kernels/Kinds.inc"
#undef MOEC_KERNEL
} // namespace kernels

/// Returns the rules that the files in compiler/kernels define.
llvm::ArrayRef<const Kind *> allKinds();
/// Returns the rules for the kernel's kind. They are empty if the catalog row
/// describes the kind completely.
const Kind &kindOf(moe::KernelOp kernel);

/// Makes a schedule attribute. Enables programmatic dependent launch if the
/// target supports it.
template <typename Attr>
moe::ScheduleAttr scheduleAttr(moe::ProgramOp program,
                               typename Attr::Fields fields) {
  fields.programmatic =
      program.getTarget().getArchRow().has("programmatic_launch");
  return Attr::get(program.getContext(), fields);
}

/// Returns a schedule that specifies only the number of threads per CTA.
moe::ScheduleAttr blockSchedule(moe::KernelOp kernel, int64_t threads);

/// findHardware() returns the hardware properties of the program's target, or
/// nullopt if the target is unknown. hardwareOf() emits an error at the kernel
/// in that case.
std::optional<Hardware> findHardware(moe::KernelOp kernel);
llvm::FailureOr<Hardware> hardwareOf(moe::KernelOp kernel);

/// Returns the tile M x N x K of a matmul for the entry's name, such as
/// "16x64x64".
std::string tileLabel(moe::ScheduleAttr schedule);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_KIND_H
