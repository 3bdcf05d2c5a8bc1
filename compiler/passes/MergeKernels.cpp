//===- MergeKernels.cpp - merges equal kernels ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two kernels are merged if their stages, schedules and fields are equal and
// every launch binds the same values to the fields. Their argument blocks are
// then equal as well. The first symbol is kept.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/ProgramValues.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/MapVector.h"

namespace moec::compiler {
#define GEN_PASS_DEF_MERGEKERNELSPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

/// Returns the names of the values that a launch reads and writes, in order.
static std::string boundNames(moe::LaunchOp launch) {
  std::string names;
  for (Value argument : launch.getArguments())
    names += valueName(argument) + " ";
  names += "->";
  for (Value value : launch.getValues()) {
    names += ' ';
    names += valueName(value);
    if (isOutput(cast<OpResult>(value)))
      names += '!';
  }
  return names;
}

/// Returns the kernel's schedule without its source.
static Attribute withoutSource(moe::KernelOp kernel) {
  moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  return schedule ? schedule.withoutSource() : Attribute();
}

static bool areEqual(moe::KernelOp a, moe::KernelOp b) {
  return withoutSource(a) == withoutSource(b) &&
         a.getFieldsAttr() == b.getFieldsAttr() &&
         a.getResultNamesAttr() == b.getResultNamesAttr() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

/// Merges the reasons why a stage has its own launch. The reason may differ
/// between variants.
static void mergeApart(moe::KernelOp kept, moe::KernelOp merged) {
  auto known = kept->getAttrOfType<StringAttr>(kApart);
  auto more = merged->getAttrOfType<StringAttr>(kApart);
  if (known && more && !known.getValue().contains(more.getValue()))
    kept->setAttr(kApart,
                  StringAttr::get(kept.getContext(),
                                  known.getValue() + "; " + more.getValue()));
}

/// Merges the kernels' texts of kMeasuredBy. The measurement that provides the
/// schedule may differ between variants.
static void mergeRows(moe::KernelOp kept, moe::KernelOp merged) {
  auto known = kept->getAttrOfType<StringAttr>(kMeasuredBy);
  auto more = merged->getAttrOfType<StringAttr>(kMeasuredBy);
  if (more && (!known || !known.getValue().contains(more.getValue())))
    kept->setAttr(kMeasuredBy, known ? StringAttr::get(kept.getContext(),
                                                       known.getValue() + "; " +
                                                           more.getValue())
                                     : more);
}
/// A variant and the source of the schedule that was selected for it.
using Source = std::pair<StringAttr, DictionaryAttr>;

/// Returns the sources for the variants of these launches.
static SmallVector<Source> sourcesOf(moe::KernelOp kernel,
                                     ArrayRef<moe::LaunchOp> uses) {
  SmallVector<Source> sources;
  moe::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule || kernel->hasAttr(kSources))
    return sources;
  Builder builder(kernel);
  SmallVector<NamedAttribute> words = {builder.getNamedAttr(
      "source", builder.getStringAttr(schedule.getSource()))};
  for (StringRef name : {StringRef(kMeasuredBy), StringRef(kMeasuredBeside)})
    if (Attribute word = kernel->getAttr(name))
      words.push_back(builder.getNamedAttr(name, word));
  for (moe::LaunchOp launch : uses)
    if (auto variant = launch->getParentOfType<moe::VariantOp>())
      sources.emplace_back(variant.getSymNameAttr(),
                           builder.getDictionaryAttr(words));
  return sources;
}

/// Stores the sources in the kernel if they differ between variants.
static void noteSources(moe::KernelOp kernel, ArrayRef<Source> sources) {
  const auto isFirst = [&](const Source &one) {
    return one.second == sources.front().second;
  };
  if (llvm::all_of(sources, isFirst))
    return;
  SmallVector<NamedAttribute> all;
  for (const auto &[variant, words] : sources)
    all.emplace_back(variant, words);
  kernel->setAttr(kSources, DictionaryAttr::get(kernel.getContext(), all));
}

namespace {
struct MergeKernels : compiler::impl::MergeKernelsPassBase<MergeKernels> {
  using MergeKernelsPassBase::MergeKernelsPassBase;

  void runOnOperation() override { merge(getOperation()); }

  void merge(moe::ProgramOp program) {
    llvm::MapVector<StringAttr, SmallVector<moe::LaunchOp>> launches;
    program.walk([&](moe::LaunchOp launch) {
      launches[launch.getKernelAttr().getAttr()].push_back(launch);
    });
    SmallVector<std::pair<moe::KernelOp, std::string>> kept;
    llvm::MapVector<moe::KernelOp, SmallVector<Source>> sources;
    for (auto kernel :
         llvm::to_vector(program.getBody().getOps<moe::KernelOp>())) {
      auto &uses = launches[kernel.getSymNameAttr()];
      std::string names = uses.empty() ? "" : boundNames(uses.front());
      auto equal = llvm::find_if(kept, [&](auto &other) {
        return other.second == names && areEqual(other.first, kernel);
      });
      const SmallVector<Source> its = sourcesOf(kernel, uses);
      if (equal == kept.end()) {
        kept.push_back({kernel, names});
        sources[kernel] = its;
        continue;
      }
      sources[equal->first].append(its);
      for (moe::LaunchOp launch : uses)
        launch.setKernel(equal->first.getSymName());
      // A measured schedule has precedence over a schedule from another source.
      if (kernel.getScheduleAttr() &&
          kernel.getScheduleAttr().getSource() == "tuned") {
        equal->first.setScheduleAttr(kernel.getScheduleAttr());
        equal->first->removeAttr(kMeasuredBeside);
      }
      mergeRows(equal->first, kernel);
      mergeApart(equal->first, kernel);
      kernel.erase();
    }
    for (const auto &[kernel, its] : sources)
      noteSources(kernel, its);
  }
};
} // namespace
