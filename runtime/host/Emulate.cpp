//===- Emulate.cpp - quantization emulated in f32 -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selects a scaling of the kernels (templates/moe/math/emulated.cuh) according
// to the attributes of a stage.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Emulate.h"

#include "templates/moe/math/host.h"

#include <cmath>

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

/// Implements Emulation::encode(). If the code type cannot represent NaN, a
/// group that contains NaN gets a NaN scale.
template <class Scaling>
static float encodeValues(float *values, int64_t count, int64_t group,
                          float ofAll, float *scales) {
  constexpr bool kHasNan = quant::Format<typename Scaling::Element>::kHasNan;
  const float outer = Scaling::outer(
      Scaling::kOuter == quant::Outer::Row ? largestOf(values, count) : ofAll);
  for (int64_t first = 0; first < count; first += group) {
    const int64_t size = std::min(group, count - first);
    const float largest = largestOf(values + first, size, !kHasNan);
    const float scale =
        std::isnan(largest) ? largest : Scaling::scale(largest, outer);
    for (int64_t i = first; i < first + size; ++i)
      values[i] = Scaling::code(values[i], scale, outer);
    scales[first / group] = scale;
  }
  return 1.0f / outer;
}

template <class Scaling> void Emulation::take() {
  ofRow = Scaling::kOuter == quant::Outer::Row;
  emulate = emulateRow<Scaling>;
  if constexpr (requires { Scaling::code(0.0f, 0.0f, 0.0f); })
    encodeRow = encodeValues<Scaling>;
}

/// Selects the scaling for codes of type Element by the stage's attributes.
/// Returns false if no scaling implements them.
template <class Element> bool Emulation::choose(const KernelRun &run) {
  const std::string rule = run.word("scale_rule");
  const bool isDynamic = run.flag("dynamic");
  // Selects a power-of-two scaling. The kernels implement groups of 128 and of
  // 32 elements.
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

bool Emulation::choose(const KernelRun &run, Storage storage) {
  group = run.integer("group_columns");
  switch (storage) {
  case Storage::E4M3:
    return choose<moe::e4m3>(run);
  case Storage::E5M2:
    return choose<moe::e5m2>(run);
  case Storage::E3M2:
    return choose<moe::e3m2>(run);
  case Storage::E2M3:
    return choose<moe::e2m3>(run);
  case Storage::E2M1:
    return choose<moe::e2m1>(run);
  case Storage::I8:
    return choose<moe::i8>(run);
  default:
    return false;
  }
}

Result<Emulation> Emulation::read(const KernelRun &run) {
  Emulation made;
  const std::string name = run.word("emulates");
  if (!made.choose(run, storageOf(name)))
    return run.fail("expected the name of an element type and scale_rule even, "
                    "ceil or floor, got '{}' and '{}'",
                    name, run.word("scale_rule"));
  return made;
}

Result<Emulation> Emulation::readEncoding(const KernelRun &run,
                                          Storage storage) {
  Emulation made;
  if (!made.choose(run, storage) || !made.encodeRow || made.group < 1)
    return run.fail("expected codes with a scale for each group along a row, "
                    "got groups of {} and scale_rule '{}'",
                    made.group, run.word("scale_rule"));
  return made;
}
