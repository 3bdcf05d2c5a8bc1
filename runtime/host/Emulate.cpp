//===- Emulate.cpp - values as a quantization leaves them -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scalings of the kernels (templates/moe/math/emulated.cuh), by what a
// stage says of them.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Emulate.h"

#include "templates/moe/math/host.h"

using namespace moec;
using namespace moec::host;
namespace quant = moe::quant;

template <class Scaling>
static void emulateRow(float *values, int64_t count, int64_t group,
                       float ofAll) {
  const float outer = Scaling::outer(
      Scaling::kOuter == quant::Outer::Row ? largestOf(values, count) : ofAll);
  for (int64_t first = 0; first < count; first += group) {
    const int64_t size = std::min(group, count - first);
    const float scale = Scaling::scale(largestOf(values + first, size), outer);
    for (int64_t i = first; i < first + size; ++i)
      values[i] = Scaling::value(values[i], scale, outer);
  }
}

template <class Scaling> void Emulation::take() {
  ofRow = Scaling::kOuter == quant::Outer::Row;
  emulate = emulateRow<Scaling>;
}

/// False where no scaling has these codes with the stage's rule.
template <class Element> bool Emulation::choose(const KernelRun &run) {
  const std::string rule = run.word("scale_rule");
  const bool isDynamic = run.flag("dynamic");
  // A group of 128 has a rule of its own.
  const auto powers = [&]<class Rule>(Rule) {
    if constexpr (!moe::kSame<Element, moe::i8>) {
      if (group == 128)
        take<quant::PowerGroups<Element, Rule, 128>>();
      else
        take<quant::PowerGroups<Element, Rule, 32>>();
    }
  };
  if (!rule.empty() && rule != "even" && rule != "ceil" && rule != "floor")
    return false;
  if (run.hasAttribute("second_per_row")) {
    if (run.flag("second_per_row"))
      take<quant::TwoLevels<Element, 16, true>>();
    else
      take<quant::TwoLevels<Element, 16, false>>();
  } else if (group == -1 && run.integer("group_rows") == -1) {
    if (isDynamic)
      take<quant::FloatTensor<Element, true>>();
    else
      take<quant::FloatTensor<Element, false>>();
  } else if (group == -1) {
    take<quant::FloatRows<Element>>();
  } else if (rule.empty()) {
    take<quant::FloatGroups<Element, 32>>();
  } else if (rule == "even") {
    powers(quant::Even());
  } else if (rule == "ceil") {
    powers(quant::Ceil());
  } else {
    powers(quant::Floor());
  }
  return emulate != nullptr;
}

Result<Emulation> Emulation::read(const KernelRun &run) {
  Emulation made;
  made.group = run.integer("group_columns");
  const std::string name = run.word("emulates");
  const auto choose = [&] {
    switch (storageOf(name)) {
    case Storage::E4M3:
      return made.choose<moe::e4m3>(run);
    case Storage::E5M2:
      return made.choose<moe::e5m2>(run);
    case Storage::E3M2:
      return made.choose<moe::e3m2>(run);
    case Storage::E2M3:
      return made.choose<moe::e2m3>(run);
    case Storage::E2M1:
      return made.choose<moe::e2m1>(run);
    case Storage::I8:
      return made.choose<moe::i8>(run);
    default:
      return false;
    }
  };
  if (!choose())
    return run.fail("expected the name of an element type and scale_rule even, "
                    "ceil or floor, got '{}' and '{}'",
                    name, run.word("scale_rule"));
  return made;
}
