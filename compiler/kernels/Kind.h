//===- Kind.h - what a kind of kernel decides and prints --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row of dialect/catalog/Kernels.h names a kind's template and stages and,
// where words can say them, its arguments, Config and grid. What they cannot
// say is in the file of the kind: compiler/kernels/<kind>.cpp defines
// moec::compiler::kernels::<kind>, which may serve several rows. The build
// finds the files.
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

/// The names of rows of Kernels.h; another name does not compile.
struct KindNames {
  WordList words;
  consteval KindNames(const char *names) : words(names) {
    for (const std::string_view name : words)
      if (!catalog::find(catalog::kKernelKinds, name))
        throw "no row of Kernels.h has the name";
  }
};

/// The members of #moe.plan that a kind decides.
struct LaunchPlan {
  Expression grid;
  std::string label; ///< sizes in the name of the entry
  int64_t sharedBytes = 0;
  int64_t cursor = 0;
  int64_t awaits = 0;
  int64_t splitTiles = 0;
  int64_t columnBlocks = 0;
  bool counts = false;
};

/// The rules of one kind, or of several that are alike.
struct Kind {
  KindNames names;

  /// The kernel's schedule, or an error at the kernel. Null: blocks of 256
  /// threads.
  llvm::FailureOr<moe::ScheduleAttr> (*schedule)(moe::KernelOp,
                                                 MeasuredSchedules &) = nullptr;

  /// The form that a schedule that stands must have, where the kernel may have
  /// it; else an error at the kernel. Null: what `schedule` makes.
  llvm::FailureOr<moe::ScheduleAttr> (*accepts)(moe::KernelOp) = nullptr;

  /// Null: the grid of the row.
  void (*plan)(moe::KernelOp, LaunchPlan &) = nullptr;

  /// Adds the fields and members that the row lacks. Null: it lacks none.
  void (*emit)(Emission &) = nullptr;
};

namespace kernels {
#define MOEC_KERNEL(name) extern const Kind name;
#include "compiler/kernels/Kinds.inc"
#undef MOEC_KERNEL
} // namespace kernels

/// The rules of the files of compiler/kernels.
llvm::ArrayRef<const Kind *> allKinds();
/// The rules of a kernel's kind; an empty record for a row that says all.
const Kind &kindOf(moe::KernelOp kernel);

/// The attribute of a schedule; programmatic launch follows from the target.
template <typename Attr>
moe::ScheduleAttr scheduleAttr(moe::ProgramOp program,
                               typename Attr::Fields fields) {
  fields.programmatic =
      program.getTarget().getArchRow().has("programmatic_launch");
  return Attr::get(program.getContext(), fields);
}

/// The schedule of a kernel whose CTAs have so many threads, and no more to
/// say.
moe::ScheduleAttr blockSchedule(moe::KernelOp kernel, int64_t threads);

/// The hardware of the program's target; and an error at the kernel where it is
/// unknown.
std::optional<Hardware> findHardware(moe::KernelOp kernel);
llvm::FailureOr<Hardware> hardwareOf(moe::KernelOp kernel);

/// "16x64x64": the tile of a matmul, for the entry's name.
std::string tileLabel(moe::ScheduleAttr schedule);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_KIND_H
