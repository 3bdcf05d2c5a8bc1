//===- finished.cuh - bias and activation of results ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last computation of every epilogue: it applies the activation to an
// accumulator, or to the accumulators of a gate and its up value. The epilogue
// passes a callable `sum`, which returns an accumulator after scales and bias.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// The callable that returns the activated result of accumulator i. With a
/// gated activation, accumulator i must be a gate. `sum(i)`: accumulator i
/// after scales and bias.
template <class Fragment, class Activation, class Sum> struct Finished {
  const Activation &activation;
  Sum sum;
  __device__ __forceinline__ float operator()(int i) const {
    if constexpr (Activation::kGated)
      return activation.apply(sum(i), sum(Fragment::partner(i)));
    else
      return activation.apply(sum(i));
  }
};

template <class Fragment, class Activation, class Sum>
__device__ __forceinline__ auto finishedOf(const Activation &activation,
                                           Sum sum) {
  return Finished<Fragment, Activation, Sum>{activation, sum};
}

} // namespace moe
