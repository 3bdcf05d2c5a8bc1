//===- LayerLimits.h - sizes of a layer that moec takes ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Importers take larger layers than kernels do: a layer can be described,
// printed and divided over ranks although no kernel runs it whole. No IR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LAYERLIMITS_H
#define MOEC_COMPILER_PLAN_LAYERLIMITS_H

#include "runtime/package/Limits.h"

#include <algorithm>
#include <cstdint>

namespace moec::compiler {

// Limits of a description: those of a manifest, or sizes that no known layer
// comes near, whose products fit 64 bits.
inline constexpr int64_t kMaxDescribedExperts = kMostExperts;
inline constexpr int64_t kMaxDescribedHidden = 1 << 20;
inline constexpr int64_t kMaxDescribedIntermediate = 1 << 24;
inline constexpr int64_t kMaxDescribedRanks = 1 << 16;
inline constexpr int64_t kMaxDescribedVocabulary = 1 << 24;

// Limits of the kernels.
/// Routed or stored experts: one CTA sorts the logits of a token, and permute
/// counts in tables of experts.
inline constexpr int64_t kMaxExperts = 1024;
/// Experts per token, shared ones included.
inline constexpr int64_t kMaxPairsPerToken = 32;
/// Hidden and intermediate size of a rank: tensor maps have strides below 2^40
/// bytes, which are those between experts' w13 in f32.
inline constexpr int64_t kMaxColumns = int64_t(1) << 18;
/// Kernels load rows of x and of the weights in pieces of this size [bytes].
inline constexpr int64_t kRowPieceBytes = 16;
/// Number of elements of `bits` bits in such a piece. 6-bit elements become
/// bytes: a piece has 16 of them, from 12 stored bytes.
constexpr int64_t elementsPerPiece(int64_t bits) {
  return std::max<int64_t>(kRowPieceBytes * 8 / (bits == 6 ? 8 : bits), 1);
}
/// Gate and up rows of packed weights alternate in runs of this length [rows].
inline constexpr int64_t kGateUpRun = 8;

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERLIMITS_H
