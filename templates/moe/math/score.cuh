//===- score.cuh - scores of experts ----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Score policies, in f32. All increase with the logit, so selection compares
// logits unless a bias is added to the scores. A score may be infinite
// or NaN; normalization assigns such a score the weight 0.
//
// Optional members:
//
//   kDrawn    logits are not read; a pseudo-random number replaces each logit
//   kByRound  the score of the k-th selected expert depends on the experts
//             that were not selected before it
//   kBounded  the score of the logit -inf is finite and not 0, and thus
//             differs from the score of NaN
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/instructions.cuh"

namespace moe::routing {

__device__ __forceinline__ bool isFinite(float value) {
  return fabsf(value) <= 3.402823466e38f;
}

/// exp(x - max) / sum of exp. Maximum and sum are over the finite logits.
struct Softmax {
  static constexpr bool kNeedsSum = true;
  static __device__ __forceinline__ float score(float logit, float maximum,
                                                float sum) {
    return logit == __uint_as_float(0x7f800000u) ? logit - logit
                                                 : expf(logit - maximum) / sum;
  }
};

/// The logit itself.
struct Identity {
  static constexpr bool kNeedsSum = false;
  static __device__ __forceinline__ float score(float logit, float, float) {
    return logit;
  }
};

/// 1 / (1 + exp(-x)), with the same relative accuracy for small and large
/// results.
struct Sigmoid {
  static constexpr bool kNeedsSum = false;
  static __device__ __forceinline__ float score(float logit, float, float) {
    float power = expf(-fabsf(logit));
    return divide(logit < 0.0f ? power : 1.0f, 1.0f + power);
  }

private:
  /// Returns value / by for value <= 1 and by from 1 to 2. In this range, none
  /// of the cases occur for which the division operator branches. The result is
  /// rounded as by the operator, except that results below 2^-100 are off by at
  /// most 1 ulp.
  static __device__ __forceinline__ float divide(float value, float by) {
    float inverse = ptx::reciprocalApproximate(by);
    inverse = fmaf(fmaf(-by, inverse, 1.0f), inverse, inverse);
    float result = value * inverse;
    result = fmaf(fmaf(-by, result, value), inverse, result);
    return fmaf(fmaf(-by, result, value), inverse, result);
  }
};

/// sqrt(softplus(x)), softplus(x) = log(1 + exp(x)), or x if x > 20.
struct SqrtSoftplus {
  static constexpr bool kNeedsSum = false;
  static __device__ __forceinline__ float score(float logit, float, float) {
    return sqrtf(logit > 20.0f ? logit : log1pf(expf(logit)));
  }
};

/// Each round selects one expert. Its score is a softmax over the experts that
/// are not selected yet and whose logits s are near the largest such logit, m:
/// (m - s) / max(|s|, m) <= 0.02.
struct SparseMixer {
  static constexpr bool kNeedsSum = false;
  static constexpr bool kByRound = true;
  static __device__ __forceinline__ float score(float logit, float, float) {
    return logit;
  }
  static __device__ __forceinline__ bool isNear(float logit, float best) {
    float apart = best - logit, most = fmaxf(fabsf(logit), best);
    // Decides as the rounded quotient would, without a division. The rounded
    // quotient exceeds 0.02f only if the exact one does by more than half an
    // ulp.
    return !(fmaf(-0.02f, most, apart) > 0x1p-30f * most);
  }
};

/// A pseudo-random number between 0 and 1 for each token and expert,
/// independent of the logits.
struct Drawn {
  static constexpr bool kNeedsSum = false;
  static constexpr bool kDrawn = true;
  static __device__ __forceinline__ float score(float drawn, float, float) {
    return drawn;
  }
  static __device__ __forceinline__ float draw(int token, int expert, int) {
    unsigned bits = unsigned(token) * 0x9e3779b9u + unsigned(expert);
    bits = (bits ^ bits >> 16) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    bits ^= bits >> 16;
    return (float(bits >> 9) + 0.5f) * (1.0f / 8388608.0f);
  }
};

/// Pseudo-random scores by which experts are selected with unequal weights. An
/// expert has the largest score with a probability proportional to its weight;
/// the same holds among the experts that remain after each selection. Expert e
/// has the weight (4 p (1 - p))^1.5 at p = (e + 0.5) / experts, which is nearly
/// the density of sigmoid(z) for a normal variable z.
struct DrawnNormal : Drawn {
  static __device__ __forceinline__ float draw(int token, int expert,
                                               int experts) {
    // hill = 4 p (1 - p). The operations before this division are exact
    // integers.
    float hill = float((2 * expert + 1) * (2 * (experts - expert) - 1)) /
                 float(experts * experts);
    return hill * sqrtf(hill) / -logf(Drawn::draw(token, expert, experts));
  }
};

/// Returns the weight of a shared expert that has a gate.
__device__ __forceinline__ float weightOfGate(float gate) {
  return 1.0f / (1.0f + expf(-gate));
}

template <class Score>
inline constexpr bool kIsDrawn = requires { requires Score::kDrawn; };
template <class Score>
inline constexpr bool kIsByRound = requires { requires Score::kByRound; };
template <class Score>
inline constexpr bool kIsBounded = requires { requires Score::kBounded; };

} // namespace moe::routing
