//===- Rounding.h - quantized values beside a boundary ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some tensor cores keep fewer bits of their sums than f32 has. Where the
// intermediate is quantized, a value that lies within that error of a rounding
// boundary is right on either side of it, as a tie of the router is right in
// any resolution. The side that an output took is found in the output itself:
// each such value moves its token's row along one column of w2, by one step.
// The reference then takes the same side, and the rules judge what is left. No
// bound is widened: an error along any other direction stays as it is. See
// docs/decisions.md, 013.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_ROUNDING_H
#define MOEC_TEST_REFERENCE_ROUNDING_H

#include "test/reference/Reference.h"

namespace moec::reference {

/// How far a sum of the tensor core of sm_90 over e4m3 may be off, promoted to
/// f32 every 128 of k, as a part of the root of the sum of the squares of its
/// products. It keeps 13 bits behind the leading one of the largest product of
/// 32, or of the sum so far where that is larger. That gives a deviation of
/// 1.2e-4 (1.3e-4 on an H100), and errors beyond 8 deviations in less than one
/// of 2,000 sums of 128 and none of 10,000 sums of 2,048.
inline constexpr double kNativeE4m3Error = 0x1p-10;
/// The same where sums are f32's: a root of some thousands of roundings of
/// 2^-24, eight times.
inline constexpr double kFloatError = 0x1p-18;

/// The result of adoptRoundings.
struct Adopted {
  int64_t candidates = 0; ///< values beside a boundary
  int64_t taken = 0;      ///< of them, on the other side than the reference's
};

/// Changes `rows` ([list.size(), H], the output of the tokens in `list` as
/// compute gives it) to what it would be with the roundings of the quantized
/// intermediate that `out` (rows as in compareRows) took, where the sums of
/// the first matmul may be off by `error`: see kNativeE4m3Error. Values are
/// left alone whose step is so small that the steps of all of a token's values,
/// were they as small, would stay within `bound` together. Layers whose
/// intermediate is not quantized have no candidates.
Result<Adopted> adoptRoundings(const Layer &layer, const Inputs &inputs,
                               const Routing &routing,
                               const std::vector<int64_t> &list, double error,
                               double bound, const void *out,
                               const Element &element, int64_t rowStride,
                               std::vector<double> &rows, unsigned threads = 0);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_ROUNDING_H
