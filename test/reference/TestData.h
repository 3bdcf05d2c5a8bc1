//===- TestData.h - random inputs and weights of a layer --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every element is a function of (seed, stream, index): threads fill parts of
// a tensor in any order, and the reference recomputes the rows that it needs of
// weights too large to keep. The data is made to show faults: gate, up and
// experts differ in size, token norms span 2^8, biases are not zero, and
// routing comes in patterns that are hard for kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_TESTDATA_H
#define MOEC_TEST_REFERENCE_TESTDATA_H

#include "runtime/support/Result.h"
#include "test/reference/Reference.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace moec::reference {

/// Streams: one per tensor, so that tensors of one seed are independent.
enum class Stream : uint64_t {
  X = 1,
  TokenScale,
  Logits,
  LogitsRow,
  GivenIds,
  GivenWeights,
  W13,
  W2,
  B13,
  B2,
  ExpertScale,
  Other,
  W13Scale,
  W2Scale,
  A1Scale,
  A2Scale,
  Residual,
  GateUpAddend,
  DownAddend,
  Replicas,
  ExpertMap,
  SharedGate,
  RoutingBias,
  RoutingScale,
  HashTable,
  TokenIds,
  ActivationNumbers,
  W13ZeroPoint,
  W2ZeroPoint,
  ExpertCounts,
  W13GroupIndex,
  W2GroupIndex,
  Partials,
  PostExpertNorm,
  ConstantExperts,
  Intermediate,
};

/// 64 well mixed bits.
uint64_t randomBits(uint64_t seed, Stream stream, uint64_t index);
/// In [0, 1).
double randomUniform(uint64_t seed, Stream stream, uint64_t index);
/// About normal with mean 0 and deviation 1, within +-3.47 (a sum of four
/// uniform numbers).
double randomNormal(uint64_t seed, Stream stream, uint64_t index);

/// Names of the routing patterns:
///   uniform       independent logits
///   skewed        a few experts get most of the tokens
///   one_expert    every token selects expert E / 3 first
///   empty_expert  expert E / 2 is never selected (unless K = E)
///   ties          logits of four values: many ties
///   negative      all logits below zero
///   nan_inf       NaN, inf and -inf here and there, in whole rows too
const std::vector<std::string_view> &routingPatterns();

/// Fills rows [row, row + rows) of x, contiguous rows at `rowStride` elements;
/// `destination` is row 0's address.
void fillX(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
           void *destination, int64_t rowStride);
/// Fills rows of logits [tokens, E], contiguous. An unknown pattern is
/// InvalidArgument with the known ones.
Result<void> fillLogits(const Layer &layer, uint64_t seed,
                        std::string_view pattern, int64_t row, int64_t rows,
                        const Element &element, void *destination);
/// Fills rows of given ids [tokens, K] (i32 or i64, distinct in a row, one in
/// sixteen of no expert: negative, behind the last one, or of those that only
/// 64 bits hold one whose lower 32 bits are an expert's) and weights.
void fillGiven(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
               const Element &idElement, void *ids,
               const Element &weightElement, void *weights);
/// Fills what routing reads of the layer: the bias and the factors of experts
/// [row, row + rows), and rows of the table of ids [tableRows, K], distinct in
/// a row (`expert` is 0).
void fillRoutingBias(const Layer &layer, uint64_t seed, int64_t expert,
                     int64_t row, int64_t rows, void *destination);
void fillPerExpertScale(const Layer &layer, uint64_t seed, int64_t expert,
                        int64_t row, int64_t rows, void *destination);
/// Fills columns [row, row + rows) of the weight of the norm after experts.
void fillPostExpertNorm(const Layer &layer, uint64_t seed, int64_t expert,
                        int64_t row, int64_t rows, void *destination);
/// Fills vectors [row, row + rows) of constant experts.
void fillConstantExperts(const Layer &layer, uint64_t seed, int64_t expert,
                         int64_t row, int64_t rows, void *destination);
void fillHashTable(const Layer &layer, uint64_t seed, int64_t expert,
                   int64_t row, int64_t rows, void *destination);
/// A number of a local expert's activation, of kActivationNumbers.
float numberOfExpert(uint64_t seed, int64_t expert, size_t number);
/// Fills token ids [tokens], i32 or i64; a few are none of the table's.
void fillTokenIds(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
                  const Element &element, void *destination);
/// The deviation of row n of a local expert's w13 (`first`) or w2, times the
/// root of its columns: gates, ups and experts differ.
double deviationOfRow(const Layer &layer, bool first, uint64_t seed,
                      int64_t expert, int64_t n);
/// Fills rows [row, row + rows) of a local expert's w13 [E_local, 2I, H] or
/// w2 [E_local, H, I]; `destination` is the address of the first filled row.
void fillW13(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
             int64_t rows, void *destination);
void fillW2(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
            int64_t rows, void *destination);
/// Fills floats of Layer::storedWeightType, w13 or w2: 16 neighbours are up to
/// 64 times as large as others.
void fillFloats(const Layer &layer, bool first, uint64_t seed, int64_t expert,
                int64_t row, int64_t rows, void *destination);
/// Fills elements [row, row + rows) of a local expert's b13 or b2.
void fillB13(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
             int64_t rows, void *destination);
void fillB2(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
            int64_t rows, void *destination);

/// Fills rows [row, row + rows) of a local expert's scales of w13 or w2 (see
/// Layer::w13ScaleRows). Neighbours, experts' too, differ by 2 to 64 times.
void fillW13Scale(const Layer &layer, uint64_t seed, int64_t expert,
                  int64_t row, int64_t rows, void *destination);
void fillW2Scale(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
                 int64_t rows, void *destination);
/// The scale of those scales (f32, row 0 is gate's, row 1 up's), and the zero
/// points (i8) that stand beside them: 3 to 13, none of them 8.
void fillW13SecondScale(const Layer &layer, uint64_t seed, int64_t expert,
                        int64_t row, int64_t rows, void *destination);
void fillW2SecondScale(const Layer &layer, uint64_t seed, int64_t expert,
                       int64_t row, int64_t rows, void *destination);
void fillW13ZeroPoint(const Layer &layer, uint64_t seed, int64_t expert,
                      int64_t row, int64_t rows, void *destination);
void fillW2ZeroPoint(const Layer &layer, uint64_t seed, int64_t expert,
                     int64_t row, int64_t rows, void *destination);
/// The group (i32) of each column of a local expert's w13 or w2, another one
/// for each expert: as many columns in each as in groups that stand in order.
void fillGroupIndex(const Layer &layer, bool first, uint64_t seed,
                    int64_t expert, void *destination);
/// Fills the static scales [E] of activations (`expert` is 0); the largest one
/// is of expert E / 2.
void fillA1Scale(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
                 int64_t rows, void *destination);
void fillA2Scale(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
                 int64_t rows, void *destination);

/// Rows of the residual, contiguous, of the layer's output type: somewhat
/// smaller than what experts make of that token, so that both are seen.
void fillResidual(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
                  void *destination);

/// Inputs::intermediate of pairs, contiguous: about as large as that of a
/// layer.
void fillIntermediate(const Layer &layer, uint64_t seed, int64_t pair,
                      int64_t pairs, void *destination);

/// Inputs::partials of pairs, contiguous: about as large as an expert's
/// outputs.
void fillPartials(const Layer &layer, uint64_t seed, int64_t pair,
                  int64_t pairs, void *destination);

/// Addends of pairs, Inputs::gateUpAddend and downAddend, of the input's type:
/// somewhat smaller than what they are added to.
void fillAddends(const Layer &layer, uint64_t seed, int64_t pair, int64_t pairs,
                 void *gateUp, void *down);

/// How large a token is: a power of two from 2^-2 to 2^6.
double tokenScale(uint64_t seed, int64_t token);

/// Rows of a quantized x, `rowStride` elements apart, of the element type of
/// its descriptor, and their scales, as in Inputs::xScale and xSecondScale
/// (null where there are none).
void fillQuantizedX(const Layer &layer, uint64_t seed, int64_t row,
                    int64_t rows, void *destination, int64_t rowStride,
                    void *scales, float *secondScales);

/// Inputs::expertCounts for so many slots an expert. Of the patterns,
/// one_expert, empty_expert and skewed are as of logits; with ties every slot
/// is taken, with negative at most 31 are, and with nan_inf some counts are
/// below 0 or beyond the slots.
std::vector<int32_t> makeExpertCounts(const Layer &layer, uint64_t seed,
                                      std::string_view pattern, int64_t slots);

/// Inputs::logicalToPhysical, replicaCount and expertMap, as far as the layer
/// has them: replicas of random experts, local experts in a random order.
void fillMaps(const Layer &layer, uint64_t seed, Inputs &inputs);

/// Weights that are made when read: for Inputs, without any memory.
Weight makeW13(const Layer &layer, uint64_t seed);
Weight makeW2(const Layer &layer, uint64_t seed);
Weight makeB13(const Layer &layer, uint64_t seed);
Weight makeB2(const Layer &layer, uint64_t seed);
Weight makeW13Scale(const Layer &layer, uint64_t seed);
Weight makeW2Scale(const Layer &layer, uint64_t seed);
Weight makeA1Scale(const Layer &layer, uint64_t seed);
Weight makeA2Scale(const Layer &layer, uint64_t seed);

/// Multiplications that take as long as drawing a random number.
inline constexpr int64_t kStepsOfDraw = 32;

/// Calls body(first, last) over [0, count), on at most `threads` threads (0:
/// all cores) and as many as the work is worth: each item takes about `steps`
/// multiplications or as long.
void parallelFor(int64_t count, int64_t steps, unsigned threads,
                 const std::function<void(int64_t, int64_t)> &body);
/// Does the same as a step of the program, which shows how many of the `what`
/// are done.
void parallelFor(std::string_view what, int64_t count, int64_t steps,
                 unsigned threads,
                 const std::function<void(int64_t, int64_t)> &body);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_TESTDATA_H
