//===- WeightRules.cpp - scales and codes of float weights ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selects a WeightScaling of the kernels
// (templates/moe/math/weight_scaling.cuh) for a weight format.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/WeightRules.h"

#include <cstring>

using namespace moec;
using namespace moec::host;
namespace quant = moe::quant;

template <class T> static T scaleAt(const std::byte *scale) {
  T value;
  std::memcpy(&value, scale, sizeof(T));
  return value;
}

template <class Code, class Scale, class Rule, quant::Shares kShares,
          bool kZeroPoints>
WeightRules::Rules WeightRules::rulesOf() {
  using Scaling = quant::WeightScaling<Code, Scale, Rule, kShares, kZeroPoints>;
  return {Scaling::second,
          [](WeightRange range, float second, std::byte *to) {
            const Scale scale = Scaling::scale(range, second);
            std::memcpy(to, &scale, sizeof(scale));
          },
          [](const std::byte *scale, float second) {
            return Scaling::factor(scaleAt<Scale>(scale), second);
          },
          Scaling::zeroPoint, Scaling::code};
}

template <class Code, class Scale>
WeightRules::Rules WeightRules::choose(const WeightFormat &format) {
  using enum quant::Shares;
  constexpr bool kInteger =
      moe::kSame<Code, moe::i8> || moe::kSame<Code, moe::i4>;
  constexpr bool kFourBits = moe::kBits<Code> == 4;
  if constexpr (moe::kSame<Scale, moe::ue8m0>) {
    const std::string rule = !format.scaleRule.empty() ? format.scaleRule
                             : kFourBits               ? "even"
                                                       : "ceil";
    return rule == "even" ? rulesOf<Code, Scale, quant::Even, Group, false>()
           : rule == "ceil"
               ? rulesOf<Code, Scale, quant::Ceil, Group, false>()
               : rulesOf<Code, Scale, quant::Floor, Group, false>();
  } else if constexpr (kInteger || moe::kSame<Scale, moe::e4m3>) {
    if constexpr (moe::kSame<Code, moe::i4>)
      if (format.zeroPoint)
        return rulesOf<Code, Scale, quant::Ceil, Group, true>();
    return rulesOf<Code, Scale, quant::Ceil, Group, false>();
  } else {
    if (format.groupRows == -1 && format.groupColumns == -1)
      return rulesOf<Code, Scale, quant::Ceil, Tensor, false>();
    if (format.groupRows == 1 && format.groupColumns == -1)
      return rulesOf<Code, Scale, quant::Ceil, Channel, false>();
    return rulesOf<Code, Scale, quant::Ceil, Group, false>();
  }
}

template <class Code>
WeightRules::Rules WeightRules::choose(const WeightFormat &format,
                                       Storage scale) {
  constexpr bool kInteger =
      moe::kSame<Code, moe::i8> || moe::kSame<Code, moe::i4>;
  if ((format.zeroPoint && !moe::kSame<Code, moe::i4>) ||
      format.second != (scale == Storage::E4M3))
    return {};
  switch (scale) {
  case Storage::F32:
    return choose<Code, float>(format);
  case Storage::F16:
    return choose<Code, moe::f16>(format);
  case Storage::BF16:
    return choose<Code, moe::bf16>(format);
  case Storage::E4M3:
    if constexpr (!kInteger)
      return choose<Code, moe::e4m3>(format);
    return {};
  case Storage::UE8M0:
    if constexpr (!kInteger)
      return choose<Code, moe::ue8m0>(format);
    return {};
  default:
    return {};
  }
}

Result<WeightRules> WeightRules::of(const WeightFormat &format) {
  WeightRules made;
  made.storage = storageOf(format.element);
  made.scaleStorage = storageOf(format.scale);
  const auto choose = [&]() -> Rules {
    switch (made.storage) {
    case Storage::E4M3:
      return WeightRules::choose<moe::e4m3>(format, made.scaleStorage);
    case Storage::E5M2:
      return WeightRules::choose<moe::e5m2>(format, made.scaleStorage);
    case Storage::E3M2:
      return WeightRules::choose<moe::e3m2>(format, made.scaleStorage);
    case Storage::E2M3:
      return WeightRules::choose<moe::e2m3>(format, made.scaleStorage);
    case Storage::E2M1:
      return WeightRules::choose<moe::e2m1>(format, made.scaleStorage);
    case Storage::I8:
      return WeightRules::choose<moe::i8>(format, made.scaleStorage);
    case Storage::I4:
      return WeightRules::choose<moe::i4>(format, made.scaleStorage);
    default:
      return {};
    }
  };
  made.rules = choose();
  if (!made.rules.code)
    return refused("no rule makes {} with scales of {}{}{}; accepted: f8, f6 "
                   "and f4 types, i8 and i4, with scales of f32, f16 or bf16, "
                   "floats also with those of f8E8M0FNU, or of f8E4M3FN below "
                   "one of f32, i4 also with zero points",
                   format.element, format.scale.empty() ? "none" : format.scale,
                   format.second ? " below one of f32" : "",
                   format.zeroPoint ? " and zero points" : "");
  return made;
}

float WeightRules::factor(Storage kept, const std::byte *scale,
                          float second) const {
  return keptAsFloat(kept) ? scaleAt<float>(scale) : factor(scale, second);
}
