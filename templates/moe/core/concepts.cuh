//===- concepts.cuh - what each part of a Config must provide ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of the members of a Config. Each kernel checks its Config member by
// member, so that the message of a failing static_assert names the missing
// member and its purpose.
//
//===----------------------------------------------------------------------===//

#pragma once

/// Checks one member of a type parameter. `what` describes the member.
#define MOE_REQUIRE_VALUE(Type, member, what)                                  \
  static_assert(                                                               \
      requires { Type::member; }, #Type " lacks " #member " (" what ")")
#define MOE_REQUIRE_TYPE(Type, member, what)                                   \
  static_assert(                                                               \
      requires { typename Type::member; },                                     \
      #Type " lacks the type " #member " (" what ")")
/// Checks that a member function exists, by its name only.
#define MOE_REQUIRE_MEMBER(Type, member, what)                                 \
  static_assert(                                                               \
      requires { &Type::member; }, #Type " lacks " #member " (" what ")")
/// Checks that a call of a member function is valid.
#define MOE_REQUIRE_CALL(Type, call, what)                                     \
  static_assert(                                                               \
      requires(Type &self) { self.call; },                                     \
      #Type " lacks " #call " (" what ")")

namespace moe {

/// Checks the members that the Config of every kernel has.
template <class Config> constexpr bool checkCommonConfig() {
  MOE_REQUIRE_TYPE(Config, Args, "the argument block of the kernel");
  MOE_REQUIRE_VALUE(Config, kThreads, "threads per CTA");
  MOE_REQUIRE_VALUE(Config, kProgrammatic, "launched programmatically");
  MOE_REQUIRE_VALUE(Config, kCpAsync, "the arch has cp.async");
  static_assert(Config::kThreads % 32 == 0 && Config::kThreads <= 1024,
                "kThreads must be a multiple of 32, at most 1024");
  return true;
}

/// Checks a quantization policy: the granularity of the operands' scales, and
/// the number of elements along k after which accumulators are promoted to f32.
template <class Q> constexpr bool checkQuantPolicy() {
  MOE_REQUIRE_VALUE(Q, kLhsScale, "the granularity of the activations' scales");
  MOE_REQUIRE_VALUE(Q, kRhsScale, "the granularity of the weights' scales");
  MOE_REQUIRE_VALUE(Q, kPromoteK,
                    "elements of k after which accumulators are promoted");
  return true;
}

/// Checks an activation: kGated and apply(value) or apply(gate, up), all f32.
template <class A> constexpr bool checkActivation() {
  MOE_REQUIRE_VALUE(A, kGated, "true if it has a gate and an up value");
  MOE_REQUIRE_VALUE(A, kIdentity, "true if it is the identity");
  if constexpr (A::kGated)
    static_assert(
        requires(A a) { a.apply(0.0f, 0.0f); },
        "A lacks apply(float gate, float up)");
  else
    static_assert(
        requires(A a) { a.apply(0.0f); }, "A lacks apply(float value)");
  return true;
}

/// Checks a score policy. kNeedsSum is true if a score depends on a sum over
/// all of a token's logits.
template <class S> constexpr bool checkScorePolicy() {
  MOE_REQUIRE_VALUE(S, kNeedsSum, "true if scores need a sum over experts");
  static_assert(
      requires { S::score(0.0f, 0.0f, 0.0f); },
      "S lacks score(float logit, float maximum, float sum)");
  return true;
}

/// Checks a selection policy, by which a warp selects kTopK experts for one
/// token.
template <class S> constexpr bool checkSelectPolicy() {
  MOE_REQUIRE_VALUE(S, kGrouped, "true if experts are selected by group");
  return true;
}

/// Checks a normalization policy, which computes weights from the scores of one
/// token.
template <class N> constexpr bool checkNormalizePolicy() {
  MOE_REQUIRE_VALUE(N, kSums,
                    "true if weights are divided by the sum of all terms");
  static_assert(
      requires { N::term(0.0f, 0.0f); },
      "N lacks term(float score, float best)");
  if constexpr (N::kSums) {
    MOE_REQUIRE_VALUE(N, kNeedsBest, "true if terms need the highest score");
    static_assert(
        requires { N::weight(0.0f, 0.0f); },
        "N lacks weight(float term, float sum, float equal)");
  }
  return true;
}

/// True if an engine is warp-specialized, with producer and consumer warps.
template <class Mma>
inline constexpr bool isWarpSpecialized =
    requires { requires Mma::kWarpSpecialized; };

/// True if an engine reads weights in slabs: codes (quantized values) in MMA
/// fragment order (moe/math/slabs.cuh).
template <class Mma>
inline constexpr bool takesSlabs = requires { requires Mma::kSlabs; };

/// True if an engine accumulates in tensor memory.
template <class Mma>
inline constexpr bool sumsInTensorMemory =
    requires { requires Mma::kSumsInTensorMemory; };

/// True if an engine multiplies block-scaled operands.
template <class Mma>
inline constexpr bool scalesBlocks = requires { Mma::kStepScales; };

/// True if every 16 weight codes are padded to a 16-byte chunk in shared
/// memory.
template <class Mma>
inline constexpr bool spreadsCodes = requires { requires Mma::kSpreadsCodes; };

/// Checks a Fragment: the f32 accumulators of one thread. Epilogues access an
/// engine's results only through these members.
///   kSize              number of accumulators
///   kRun               this many accumulators, from an index that is a
///                      multiple of kRun, are adjacent in a row: columns
///                      col(i) .. col(i) + kRun - 1
///   kTokensAreColumns  true if the CTA tile's rows are weight rows and its
///                      columns are tokens
///   value(i), row(i), col(i): accumulator i, its row and its column in the
///     CTA tile
///   isGate(i)          true if accumulator i is a gate: col(i) % 16 < 8
///   partner(i)         index of the up value of gate i, 8 columns to its right
///   kRows              number of distinct rows of the thread
///   heldRow(s)         the distinct row with index s
///   rowSlot(i)         the index s for which heldRow(s) is row(i)
///   firstHeldCol()     the first column of the thread
///   kColumns, heldCol(s), colSlot(i): like kRows, heldRow and rowSlot, for
///     columns; present if groups of weights along k have scales
template <class F> constexpr bool checkFragment() {
  MOE_REQUIRE_VALUE(F, kSize, "number of accumulators per thread");
  MOE_REQUIRE_VALUE(F, kRun, "number of consecutive accumulators in a row");
  MOE_REQUIRE_VALUE(F, kTokensAreColumns,
                    "true if the rows of an accumulator are weight rows");
  MOE_REQUIRE_CALL(F, value(0), "accumulator i");
  MOE_REQUIRE_CALL(F, row(0), "row of accumulator i in the tile");
  MOE_REQUIRE_CALL(F, col(0), "column of accumulator i in the tile");
  MOE_REQUIRE_CALL(F, isGate(0), "true if accumulator i is of a gate");
  MOE_REQUIRE_CALL(F, partner(0), "the index of a gate's up value");
  return true;
}

} // namespace moe
