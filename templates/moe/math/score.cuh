//===- score.cuh - what an expert's logit is worth --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Score policies, f32. All grow with the logit, so selection compares logits
// unless a bias is added to the scores. A score that is not finite is handed
// on; the normalization gives it weight 0.
//
// kDrawn: the logits are not read, a number is drawn in place of each.
// kByRound: the score of the k-th selected depends on what is left by then.
// kBounded: the score of -inf is finite and not 0, and so differs from NaN's.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/instructions.cuh"

namespace moe::routing {

__device__ __forceinline__ bool isFinite(float value) {
  return fabsf(value) <= 3.402823466e38f;
}

/// exp(x - max) / sum of exp, maximum and sum over the finite logits only.
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

/// 1 / (1 + exp(-x)), of small ones as exact as of large ones.
struct Sigmoid {
  static constexpr bool kNeedsSum = false;
  static __device__ __forceinline__ float score(float logit, float, float) {
    float power = expf(-fabsf(logit));
    return divide(logit < 0.0f ? power : 1.0f, 1.0f + power);
  }

private:
  /// value / by for values up to 1 and divisors from 1 to 2, where none of the
  /// cases occur for which the operator branches: rounded as by it but for
  /// values under 2^-100, which are 1 ulp off at most.
  static __device__ __forceinline__ float divide(float value, float by) {
    float inverse = ptx::reciprocalApproximate(by);
    inverse = fmaf(fmaf(-by, inverse, 1.0f), inverse, inverse);
    float result = value * inverse;
    result = fmaf(fmaf(-by, result, value), inverse, result);
    return fmaf(fmaf(-by, result, value), inverse, result);
  }
};

/// sqrt(softplus(x)), softplus(x) = log(1 + exp(x)), and x for x > 20.
struct SqrtSoftplus {
  static constexpr bool kNeedsSum = false;
  static __device__ __forceinline__ float score(float logit, float, float) {
    return sqrtf(logit > 20.0f ? logit : log1pf(expf(logit)));
  }
};

/// Each round takes the softmax over the experts that are left and whose logits
/// s lie near the best one's, m: (m - s) / max(|s|, m) <= 0.02.
struct SparseMixer {
  static constexpr bool kNeedsSum = false;
  static constexpr bool kByRound = true;
  static __device__ __forceinline__ float score(float logit, float, float) {
    return logit;
  }
  static __device__ __forceinline__ bool isNear(float logit, float best) {
    float apart = best - logit, most = fmaxf(fabsf(logit), best);
    // As the rounded quotient decides, without the division: it is larger than
    // 0.02f if it is more than half a place above.
    return !(fmaf(-0.02f, most, apart) > 0x1p-30f * most);
  }
};

/// A number between 0 and 1 for each token and expert, whatever the logits.
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

/// Such a number that an expert is the best with a probability in proportion to
/// its weight, and so on among those that are left: in the middle of its share
/// of [0, 1] nearly the density of the sigmoid of a normal number, by steps
/// that lose no digits.
struct DrawnNormal : Drawn {
  static __device__ __forceinline__ float draw(int token, int expert,
                                               int experts) {
    // 4 at (1 - at), at the middle of the share: whole numbers up to here.
    float hill = float((2 * expert + 1) * (2 * (experts - expert) - 1)) /
                 float(experts * experts);
    return hill * sqrtf(hill) / -logf(Drawn::draw(token, expert, experts));
  }
};

/// The weight of a shared expert with a gate.
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
