//===- Check.h - when an output is right ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The three rules by which an output is compared with the reference (the whole
// tensor, each token's row, each element), the bounds of each scheme, the
// comparison of ids, weights and counts, and the poison and canaries that show
// an element never written or a write behind the end.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_CHECK_H
#define MOEC_TEST_REFERENCE_CHECK_H

#include "runtime/support/Result.h"
#include "test/reference/Element.h"
#include "test/reference/Reference.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moec::reference {

/// Rows may be this much worse than the whole, and elements this much worse
/// than the larger of their own size and their row's root mean square.
inline constexpr double kRowFactor = 2.5;
inline constexpr double kElementFactor = 16;
/// The whole is judged as a row is with fewer values of the intermediate behind
/// it than this. One rounding to bf16 moves a value by up to 2^-8, 1.6 times
/// the bound of bf16; only the mean over many is 2^-8 / sqrt(12). A row of
/// large norm counts for more: the number of even rows is (sum of squares)^2 /
/// (sum of fourth powers) of the norms.
inline constexpr double kFewValues = 1024;
/// The root mean square of n errors scatters by 0.45 / sqrt(n) of itself where
/// each is uniform, as an error of rounding is. The bound of the whole grows by
/// this over sqrt(n).
inline constexpr double kScatter = 2;
/// Routing weights agree within this, relative.
inline constexpr double kWeightTolerance = 2e-6;

/// The bound of a layer's scheme, and of its output's type where that has fewer
/// bits. `partialsRounded`: the second matmul's
/// results are rounded to the output type before they are summed.
Result<double> boundFor(const Layer &layer, bool partialsRounded);

/// A comparison's result. Errors are ||out - ref|| / ||ref|| over the whole
/// and per row; an element's is |out - ref| / max(|ref|, rms of its row). A
/// reference below the output type's smallest normal number, other than 0, has
/// that number's size here: below it rounding costs the same, not in
/// proportion, and f16 gets there (2^-14) where a share holds only pairs of
/// small weights.
struct Report {
  bool passed = true;
  double bound = 0;
  double whole = 0;
  double worstRow = 0;
  double worstElement = 0;
  int64_t worstRowToken = -1;
  int64_t worstElementToken = -1, worstElementColumn = -1;
  int64_t notFinite = 0; ///< elements of the output that are NaN or infinite
  /// If a rule failed: tokens beyond the row or the element rule, then the
  /// others by what they add to the error of the whole, most first.
  std::vector<int64_t> suspects;
  std::string text; ///< one line; names what failed, where, by how much
};

/// Compares rows: row i of `reference` ([list.size(), columns]) is token
/// list[i], which lies in `out` at list[i] * rowStride elements. NaN and
/// infinity in `out` never pass; a zero row of the reference must be zero.
/// `valuesPerRow` of the intermediate (experts per token x its size) stand
/// behind a row.
Report compareRows(const std::vector<double> &reference,
                   const std::vector<int64_t> &list, int64_t columns,
                   const void *out, const Element &element, int64_t rowStride,
                   double bound, double valuesPerRow = kFewValues);

/// Compares two device outputs by the same rules, every row of [tokens,
/// columns]; `trusted` takes the place of the reference.
Report compareDevices(const void *trusted, const void *out,
                      const Element &element, int64_t tokens, int64_t columns,
                      double bound, double valuesPerRow = kFewValues);

/// Compares ids (equal, after Routing adopted the observed resolution),
/// weights (2e-6 relative; null: not asked for), counts and places (null
/// likewise). An empty text is success.
std::string compareRouting(const Routing &routing, const int32_t *ids,
                           const float *weights, const int32_t *counts,
                           const int32_t *places = nullptr);

//===----------------------------------------------------------------------===//
// Poison and canaries
//===----------------------------------------------------------------------===//

/// Put behind (and where the allocation allows it before) outputs and
/// workspace.
inline constexpr int64_t kCanaryBytes = 4096;

/// 0xFF in every byte: a NaN in every float type, -1 in every integer.
void poison(void *data, int64_t bytes);
/// Bytes that follow from seed and position and that no kernel writes.
void writeCanary(void *data, int64_t bytes, uint64_t seed);
/// The first damaged byte's offset, or -1.
int64_t findDamage(const void *data, int64_t bytes, uint64_t seed);

/// Host memory of `bytes`, poisoned, aligned to 256, with canaries before and
/// behind.
class GuardedBuffer {
public:
  explicit GuardedBuffer(int64_t bytes, uint64_t seed = 1);
  GuardedBuffer(GuardedBuffer &&) = default;
  GuardedBuffer &operator=(GuardedBuffer &&) = default;

  void *data() { return storage.data() + begin; }
  const void *data() const { return storage.data() + begin; }
  int64_t bytes() const { return size; }
  /// Empty, or a sentence about the first damaged byte.
  std::string damage() const;

private:
  std::vector<std::byte> storage;
  int64_t begin = 0, size = 0;
  uint64_t seed = 0;
};

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_CHECK_H
