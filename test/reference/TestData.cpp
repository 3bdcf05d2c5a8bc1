//===- TestData.cpp - random inputs and weights of a layer ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes are chosen so that f16 neither overflows nor loses small tokens: with
// gate and up of deviation 1/4 and 1/2 of |x| and |x| from 1/4 to 64, the
// intermediate stays below 3e4 and its typical value above 1e-3.
//
//===----------------------------------------------------------------------===//

#include "test/reference/TestData.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moec::reference {

/// The finalizer of splitmix64: a bijection in which every input bit reaches
/// every output bit.
static uint64_t mix(uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9ULL;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

uint64_t randomBits(uint64_t seed, Stream stream, uint64_t index) {
  const uint64_t key = mix(seed * 0x9e3779b97f4a7c15ULL +
                           uint64_t(stream) * 0xd1342543de82ef95ULL);
  return mix(key + (index + 1) * 0x9e3779b97f4a7c15ULL);
}

double randomUniform(uint64_t seed, Stream stream, uint64_t index) {
  return double(randomBits(seed, stream, index) >> 11) * 0x1p-53;
}

double randomNormal(uint64_t seed, Stream stream, uint64_t index) {
  const uint64_t bits = randomBits(seed, stream, index);
  const int64_t sum = int64_t(bits & 0xffff) + int64_t(bits >> 16 & 0xffff) +
                      int64_t(bits >> 32 & 0xffff) + int64_t(bits >> 48);
  // Four uniform numbers on [0, 1) have mean 2 and variance 1/3.
  return (double(sum) * 0x1p-16 - 2.0 + 2 * 0x1p-16) * 1.7320508075688772;
}

const std::vector<std::string_view> &routingPatterns() {
  static const std::vector<std::string_view> patterns = {
      "uniform", "skewed",   "one_expert", "empty_expert",
      "ties",    "negative", "nan_inf"};
  return patterns;
}

/// 0.5 to 1.5: experts differ in size.
static double expertScale(uint64_t seed, int64_t expert) {
  return 0.5 + randomUniform(seed, Stream::ExpertScale, uint64_t(expert));
}

double tokenScale(uint64_t seed, int64_t token) {
  return std::ldexp(
      1.0, int(randomBits(seed, Stream::TokenScale, uint64_t(token)) % 9) - 2);
}

void fillX(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
           void *destination, int64_t rowStride) {
  for (int64_t m = row; m < row + rows; ++m) {
    const double scale = tokenScale(seed, m);
    for (int64_t c = 0; c < layer.hidden; ++c)
      store(*layer.inputType, destination, m * rowStride + c,
            scale *
                randomNormal(seed, Stream::X, uint64_t(m) * layer.hidden + c));
  }
}

void fillResidual(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
                  void *destination) {
  for (int64_t m = row; m < row + rows; ++m) {
    // Gate and up grow with the token.
    const double scale = std::ldexp(tokenScale(seed, m), -4);
    for (int64_t i = m * layer.hidden; i < (m + 1) * layer.hidden; ++i)
      store(*layer.outputType, destination, i,
            scale * tokenScale(seed, m) *
                randomNormal(seed, Stream::Residual, uint64_t(i)));
  }
}

void fillAddends(const Layer &layer, uint64_t seed, int64_t pair, int64_t pairs,
                 void *gateUp, void *down) {
  const int64_t rows = layer.gateUpRows(), hidden = layer.hidden;
  for (int64_t p = pair; p < pair + pairs; ++p) {
    const double scale = tokenScale(seed, p / layer.pairsOfToken());
    for (int64_t i = p * rows; i < (p + 1) * rows; ++i)
      store(*layer.inputType, gateUp, i,
            0.1 * scale *
                randomNormal(seed, Stream::GateUpAddend, uint64_t(i)));
    for (int64_t i = p * hidden; i < (p + 1) * hidden; ++i)
      store(*layer.inputType, down, i,
            0.05 * scale * scale *
                randomNormal(seed, Stream::DownAddend, uint64_t(i)));
  }
}

static bool isInteger(const Element *element) {
  return element && !element->isFloat;
}

/// With which the largest tokens of x, about 220, nearly fill the range.
static float scaleOfX(const Layer &layer) {
  return isInteger(layer.a1) ? 1.75f : 0.5f;
}

/// 0 to count - 1 in a random order.
static std::vector<int32_t> shuffled(uint64_t seed, Stream stream,
                                     int64_t count) {
  std::vector<int32_t> order(count);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t other =
        randomBits(seed, stream, uint64_t(i)) % uint64_t(i + 1);
    order[i] = order[other];
    order[other] = int32_t(i);
  }
  return order;
}

void fillMaps(const Layer &layer, uint64_t seed, Inputs &inputs) {
  const int64_t experts = layer.experts, physical = layer.physicalExperts();
  if (layer.eplb) {
    const int64_t slots = layer.redundantExperts + 1;
    const std::vector<int32_t> order =
        shuffled(seed, Stream::Replicas, physical);
    inputs.logicalToPhysical.assign(experts * slots, -1);
    inputs.replicaCount.assign(experts, 0);
    for (int64_t i = 0; i < physical; ++i) {
      const int64_t logical = i < experts
                                  ? i
                                  : int64_t(randomBits(seed, Stream::Replicas,
                                                       uint64_t(physical + i)) %
                                            experts);
      inputs
          .logicalToPhysical[logical * slots + inputs.replicaCount[logical]++] =
          order[i];
    }
  }
  if (layer.expertMap) {
    inputs.expertMap = shuffled(seed, Stream::ExpertMap, physical);
    // An id of no local expert is another rank's.
    const int64_t local = layer.localExperts - layer.sharedRows();
    for (int32_t &place : inputs.expertMap)
      if (place >= local)
        place = -1;
  }
}

std::vector<int32_t> makeExpertCounts(const Layer &layer, uint64_t seed,
                                      std::string_view pattern, int64_t slots) {
  std::vector<int32_t> counts(layer.localExperts);
  for (int64_t e = 0; e < layer.localExperts; ++e) {
    const uint64_t bits = randomBits(seed, Stream::ExpertCounts, uint64_t(e));
    int64_t count = int64_t((bits >> 8) % uint64_t(slots + 1));
    if (pattern == "one_expert")
      count = e == layer.localExperts / 3 ? slots : 0;
    else if (pattern == "empty_expert" && e == layer.localExperts / 2)
      count = 0;
    else if (pattern == "skewed")
      count = slots >> std::min<int64_t>(e, 32);
    else if (pattern == "ties")
      count = slots;
    else if (pattern == "negative")
      count = std::min<int64_t>(slots, int64_t(bits % 32));
    else if (pattern == "nan_inf" && bits % 3 == 0)
      count = bits & 64 ? slots + 1 + count : -1 - count;
    counts[e] = int32_t(count);
  }
  return counts;
}

static double logit(const Layer &layer, uint64_t seed, std::string_view pattern,
                    int64_t m, int64_t e) {
  const uint64_t index = uint64_t(m) * layer.routedExperts() + e;
  const double normal = randomNormal(seed, Stream::Logits, index);
  const double infinity = std::numeric_limits<double>::infinity();
  if (pattern == "skewed") {
    // Experts in a random order; each has half the odds of the one before.
    const uint64_t start = randomBits(seed, Stream::LogitsRow, 0);
    const int64_t rank = (e * 7 + int64_t(start % layer.routedExperts())) %
                         layer.routedExperts();
    return normal - std::min<double>(double(rank) * 0.7, 12.0);
  }
  if (pattern == "one_expert")
    return e == layer.routedExperts() / 3 ? 20 + normal : normal;
  if (pattern == "empty_expert")
    return e == layer.routedExperts() / 2 ? -1000 : normal;
  if (pattern == "ties")
    return double(randomBits(seed, Stream::Logits, index) % 4) * 0.5 - 0.5;
  if (pattern == "negative")
    return -5 - std::fabs(normal);
  if (pattern == "nan_inf") {
    const uint64_t rowKind = randomBits(seed, Stream::LogitsRow, m) % 16;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (rowKind < 3) // a whole row of one kind
      return rowKind == 0 ? nan : rowKind == 1 ? infinity : -infinity;
    const uint64_t kind = randomBits(seed, Stream::Other, index) % 24;
    if (kind < 3)
      return kind == 0 ? nan : kind == 1 ? infinity : -infinity;
  }
  return normal;
}

Result<void> fillLogits(const Layer &layer, uint64_t seed,
                        std::string_view pattern, int64_t row, int64_t rows,
                        const Element &element, void *destination) {
  const std::vector<std::string_view> &known = routingPatterns();
  if (std::find(known.begin(), known.end(), pattern) == known.end()) {
    std::string list;
    for (std::string_view name : known)
      list += (list.empty() ? "" : ", ") + std::string(name);
    return Error{ErrorCode::InvalidArgument, "unknown routing pattern '" +
                                                 std::string(pattern) +
                                                 "'; known are " + list};
  }
  for (int64_t m = row; m < row + rows; ++m)
    for (int64_t e = 0; e < layer.routedExperts(); ++e)
      store(element, destination, m * layer.routedExperts() + e,
            logit(layer, seed, pattern, m, e));
  return {};
}

/// The first count of a random permutation of [0, order.size()).
static void shuffle(std::vector<int64_t> &order, int64_t count, uint64_t seed,
                    Stream stream, uint64_t index) {
  std::iota(order.begin(), order.end(), 0);
  for (int64_t k = 0; k < count; ++k) {
    const uint64_t bits = randomBits(seed, stream, index + uint64_t(k));
    const int64_t left = std::max<int64_t>(1, int64_t(order.size()) - k);
    std::swap(order[k], order[k + int64_t((bits >> 8) % left)]);
  }
}

/// One of the ids that name no expert.
static double idOutside(const Layer &layer, const Element &element,
                        uint64_t bits) {
  const double experts = double(layer.routedExperts());
  switch (bits % 4) {
  case 0:
    return -1;
  case 1:
    return -experts;
  case 2:
    return experts;
  default:
    return element.bytes == 8 ? 0x1p32 + experts - 1 : 0x1p31 - 1;
  }
}

void fillGiven(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
               const Element &idElement, void *ids,
               const Element &weightElement, void *weights) {
  std::vector<int64_t> order(layer.routedExperts());
  for (int64_t m = row; m < row + rows; ++m) {
    const uint64_t first = uint64_t(m) * layer.topK;
    shuffle(order, layer.topK, seed, Stream::GivenIds, first);
    for (int64_t k = 0; k < layer.topK; ++k) {
      const uint64_t bits = randomBits(seed, Stream::GivenIds, first + k);
      store(idElement, ids, int64_t(first + k),
            bits % 16 == 0 ? idOutside(layer, idElement, bits / 16)
                           : double(order[k]));
      store(weightElement, weights, int64_t(first + k),
            0.05 + randomUniform(seed, Stream::GivenWeights, first + k));
    }
  }
}

void fillRoutingBias(const Layer &layer, uint64_t seed, int64_t, int64_t row,
                     int64_t rows, void *destination) {
  // As large as scores differ by: else every token selects the same experts.
  const double spread =
      layer.score == "softmax" ? 1.0 / double(layer.routedExperts()) : 0.3;
  for (int64_t e = row; e < row + rows; ++e)
    store(*findElement("f32"), destination, e - row,
          spread * randomNormal(seed, Stream::RoutingBias, uint64_t(e)));
}

void fillPerExpertScale(const Layer &, uint64_t seed, int64_t, int64_t row,
                        int64_t rows, void *destination) {
  for (int64_t e = row; e < row + rows; ++e)
    store(*findElement("f32"), destination, e - row,
          0.5 + randomUniform(seed, Stream::RoutingScale, uint64_t(e)));
}

void fillPostExpertNorm(const Layer &, uint64_t seed, int64_t, int64_t row,
                        int64_t rows, void *destination) {
  for (int64_t n = row; n < row + rows; ++n)
    store(*findElement("f32"), destination, n - row,
          randomUniform(seed, Stream::PostExpertNorm, uint64_t(n)) - 0.5);
}

void fillConstantExperts(const Layer &layer, uint64_t seed, int64_t,
                         int64_t row, int64_t rows, void *destination) {
  for (int64_t i = 0; i < rows * layer.hidden; ++i)
    store(*findElement("f32"), destination, i,
          0.5 * randomNormal(seed, Stream::ConstantExperts,
                             uint64_t(row * layer.hidden + i)));
}

float numberOfExpert(uint64_t seed, int64_t expert, size_t number) {
  // As models have, and much less: limits cut, no number is a neighbour's.
  static constexpr double kUsual[] = {1.702, 1, 6, 7};
  const double share = randomUniform(seed, Stream::ActivationNumbers,
                                     uint64_t(expert) * 4 + number);
  return float(kUsual[number] * (0.25 + share));
}

void fillHashTable(const Layer &layer, uint64_t seed, int64_t, int64_t row,
                   int64_t rows, void *destination) {
  std::vector<int64_t> order(layer.routedExperts());
  for (int64_t r = row; r < row + rows; ++r) {
    shuffle(order, layer.topK, seed, Stream::HashTable,
            uint64_t(r) * layer.topK);
    for (int64_t k = 0; k < layer.topK; ++k)
      store(*findElement("i32"), destination, (r - row) * layer.topK + k,
            double(order[k]));
  }
}

void fillTokenIds(const Layer &layer, uint64_t seed, int64_t row, int64_t rows,
                  const Element &element, void *destination) {
  for (int64_t m = row; m < row + rows; ++m) {
    const uint64_t bits = randomBits(seed, Stream::TokenIds, uint64_t(m));
    int64_t id = int64_t((bits >> 8) % uint64_t(layer.tableRows));
    if (bits % 16 == 0)
      id = bits & 16 ? -1 : layer.tableRows;
    const bool wide = element.bytes == 8 && bits % 16 == 1;
    store(element, destination, m, double(id) + (wide ? 0x1p32 : 0));
  }
}

/// Deviation of the codes of a quantized weight: far from where they saturate,
/// and with few of them among the subnormals.
static double codeDeviation(const Element &element) {
  if (element.bits() == 8)
    return element.isFloat ? 64 : 32;
  return element.name == "f6E3M2FN" ? 6 : 2;
}

/// The size of gates or ups, as a part of |x|: smaller where gates are squared.
static double sizeOfPart(const Layer &layer, bool isGate) {
  const bool squared = layer.gated && layer.function == "relu2";
  return isGate ? squared ? 0.03125 : 0.25 : 0.5;
}

double deviationOfRow(const Layer &layer, bool first, uint64_t seed,
                      int64_t expert, int64_t n) {
  return expertScale(seed, expert) *
         (first ? sizeOfPart(layer, layer.isGate(n)) : 1);
}

/// The size of what stands in row n.
using SizeOfRow = std::function<double(int64_t n)>;

/// Rows of a weight: deviation `sizeOf` / sqrt(columns), or of codes that
/// scales bring there.
static void fillRows(const Element &element, bool scaled, uint64_t seed,
                     Stream stream, int64_t expert, int64_t rowsPerExpert,
                     int64_t columns, int64_t row, int64_t rows,
                     const SizeOfRow &sizeOf, void *destination) {
  // Rows begin whole bytes.
  const int64_t rowBytes = element.bytesOf(columns);
  const double middle = element.name == "i4" ? 8 : 0;
  for (int64_t n = row; n < row + rows; ++n) {
    const double scale = scaled ? codeDeviation(element)
                                : sizeOf(n) / std::sqrt(double(columns));
    const uint64_t base = (uint64_t(expert) * rowsPerExpert + n) * columns;
    char *to = static_cast<char *>(destination) + (n - row) * rowBytes;
    for (int64_t c = 0; c < columns; ++c)
      store(element, to, c,
            middle + scale * randomNormal(seed, stream, base + c));
  }
}

/// 1 to 1.5 where `parity` is even, 1/42 to 1/2 where it is odd: neighbours
/// differ by 2 to 64 times.
static double unevenFactor(uint64_t seed, Stream stream, int64_t parity,
                           uint64_t index) {
  const double draw = randomUniform(seed, stream, index);
  return parity % 2 == 0 ? 1 + 0.5 * draw : std::exp2(-1 - 4.39 * draw);
}

/// 1, but 2^-7 to 2^-12 for few powers of two in every other block of 64 rows:
/// kernels may treat groups apart whose scales differ much.
static double farFactor(const Element &scaleType, int64_t block,
                        uint64_t index) {
  constexpr uint64_t kOneOf = 32, kLeast = 7, kMost = 12;
  if (!scaleType.isPower || block % 2 == 0 || index % kOneOf != 0)
    return 1;
  return std::ldexp(1.0, -int(kLeast + index / kOneOf % (kMost - kLeast + 1)));
}

/// The factor of a code that makes deviations `scale` / sqrt(columns).
static double perCode(const Layer &layer, uint64_t seed, int64_t expert,
                      int64_t columns, double scale) {
  return scale * expertScale(seed, expert) /
         (codeDeviation(*layer.weightType) * std::sqrt(double(columns)));
}

/// Scales that are scaled themselves keep a size that e4m3 can say: 64 times an
/// uneven factor is 1.5 to 96.
constexpr double kScaledScale = 64;

/// Scales that bring codes to deviations of `sizeOf` / sqrt(columns), times an
/// uneven factor.
static void fillScales(const Layer &layer, const Scaling &scaling,
                       uint64_t seed, Stream stream, int64_t expert,
                       int64_t rowsPerExpert, int64_t scaleColumns,
                       int64_t columns, int64_t row, int64_t rows,
                       const SizeOfRow &sizeOf, void *destination) {
  for (int64_t n = row; n < row + rows; ++n)
    for (int64_t c = 0; c < scaleColumns; ++c) {
      const uint64_t index =
          (uint64_t(expert) * rowsPerExpert + n) * scaleColumns + c;
      const double scale =
          scaling.second ? kScaledScale
                         : perCode(layer, seed, expert, columns, sizeOf(n));
      store(*scaling.scaleType, destination, (n - row) * scaleColumns + c,
            scale * unevenFactor(seed, stream, expert + n + c, index) *
                farFactor(*scaling.scaleType, expert + n / 64, index));
    }
}

void fillW13Scale(const Layer &layer, uint64_t seed, int64_t expert,
                  int64_t row, int64_t rows, void *destination) {
  const int64_t all = layer.w13ScaleRows();
  fillScales(
      layer, layer.w1Scaling, seed, Stream::W13Scale, expert, all,
      layer.w13ScaleColumns(), layer.hidden, row, rows,
      [&](int64_t n) {
        // Gates are every other row, or parts that follow each other.
        bool isGate = layer.isGate(n);
        if (layer.gated && all != layer.gateUpRows())
          isGate = (n < all / 2) != (layer.gateUpOrder == "up_first");
        return sizeOfPart(layer, isGate);
      },
      destination);
}

void fillW2Scale(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
                 int64_t rows, void *destination) {
  fillScales(
      layer, layer.w2Scaling, seed, Stream::W2Scale, expert,
      layer.w2ScaleRows(), layer.w2ScaleColumns(), layer.intermediate, row,
      rows, [](int64_t) { return 1.0; }, destination);
}

/// From 0.75 to 1.5, so that a number of another row is seen.
static double unlikeNeighbours(int64_t row) { return 0.75 + row % 7 / 8.0; }

void fillW13SecondScale(const Layer &layer, uint64_t seed, int64_t expert,
                        int64_t row, int64_t rows, void *destination) {
  const bool perRow = layer.w1Scaling.secondPerRow;
  for (int64_t i = row; i < row + rows; ++i) {
    const bool isGate = perRow ? layer.isGate(i)
                               : (i == 0) != (layer.gateUpOrder == "up_first");
    store(
        *findElement("f32"), destination, i - row,
        perCode(layer, seed, expert, layer.hidden, sizeOfPart(layer, isGate)) /
            kScaledScale * (perRow ? unlikeNeighbours(i) : 1));
  }
}

void fillW2SecondScale(const Layer &layer, uint64_t seed, int64_t expert,
                       int64_t row, int64_t rows, void *destination) {
  const bool perRow = layer.w2Scaling.secondPerRow;
  for (int64_t i = row; i < row + rows; ++i)
    store(*findElement("f32"), destination, i - row,
          perCode(layer, seed, expert, layer.intermediate, 1) / kScaledScale *
              (perRow ? unlikeNeighbours(i) : 1));
}

/// Near the middle of codes of 4 bits; with 8 bits of either sign.
static void fillZeroPoints(const Element &code, uint64_t seed, Stream stream,
                           int64_t expert, int64_t rowsPerExpert,
                           int64_t columns, int64_t row, int64_t rows,
                           void *destination) {
  for (int64_t i = row * columns; i < (row + rows) * columns; ++i) {
    const uint64_t bits = randomBits(
        seed, stream, uint64_t(expert) * rowsPerExpert * columns + i);
    const auto below = int64_t(3 + (bits >> 8) % 5); // 3 to 7
    const int64_t other = code.bits() == 8 ? -9 * below : below + 6;
    store(*findElement("i8"), destination, i - row * columns,
          double(bits & 1 ? below : other)); // or 9 to 13, or -27 to -63
  }
}

void fillW13ZeroPoint(const Layer &layer, uint64_t seed, int64_t expert,
                      int64_t row, int64_t rows, void *destination) {
  fillZeroPoints(*layer.weightType, seed, Stream::W13ZeroPoint, expert,
                 layer.w13ScaleRows(), layer.w13ScaleColumns(), row, rows,
                 destination);
}

void fillW2ZeroPoint(const Layer &layer, uint64_t seed, int64_t expert,
                     int64_t row, int64_t rows, void *destination) {
  fillZeroPoints(*layer.weightType, seed, Stream::W2ZeroPoint, expert,
                 layer.w2ScaleRows(), layer.w2ScaleColumns(), row, rows,
                 destination);
}

static void fillStaticScale(const Layer &layer, uint64_t seed, Stream stream,
                            double largest, int64_t row, int64_t rows,
                            void *destination) {
  for (int64_t e = row; e < row + rows; ++e) {
    const bool isLargest = e == layer.experts / 2;
    // Odd parities are below 1/2 in any case.
    const double factor =
        isLargest ? 1 : unevenFactor(seed, stream, 1, uint64_t(e));
    store(*findElement("f32"), destination, e - row, largest * factor);
  }
}

void fillA1Scale(const Layer &layer, uint64_t seed, int64_t, int64_t row,
                 int64_t rows, void *destination) {
  // The largest tokens of x nearly fill the range: of 448, or of 448 times that
  // of the codes.
  fillStaticScale(layer, seed, Stream::A1Scale,
                  layer.a1Scaling.second ? 0.08 : scaleOfX(layer), row, rows,
                  destination);
}

void fillA2Scale(const Layer &layer, uint64_t seed, int64_t, int64_t row,
                 int64_t rows, void *destination) {
  // Large tokens saturate, so that small ones keep some bits.
  const double scale = layer.a2Scaling.second ? 0.04
                       : isInteger(layer.a2)  ? 0.5
                                              : 0.25;
  fillStaticScale(layer, seed, Stream::A2Scale, scale, row, rows, destination);
}

void fillW13(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
             int64_t rows, void *destination) {
  fillRows(
      *layer.weightType, layer.w1Scaling.given, seed, Stream::W13, expert,
      layer.gateUpRows(), layer.hidden, row, rows,
      [&](int64_t n) { return deviationOfRow(layer, true, seed, expert, n); },
      destination);
}

void fillW2(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
            int64_t rows, void *destination) {
  fillRows(
      *layer.weightType, layer.w2Scaling.given, seed, Stream::W2, expert,
      layer.hidden, layer.intermediate, row, rows,
      [&](int64_t n) { return deviationOfRow(layer, false, seed, expert, n); },
      destination);
}

/// Biases lie between 0.125 and 0.375 in size, of either sign, never zero.
static void fillBias(const Layer &layer, uint64_t seed, Stream stream,
                     int64_t expert, int64_t rowsPerExpert, int64_t row,
                     int64_t rows, void *destination) {
  for (int64_t n = row; n < row + rows; ++n) {
    const uint64_t index = uint64_t(expert) * rowsPerExpert + n;
    const double size = 0.125 + 0.25 * randomUniform(seed, stream, index);
    const bool negative = randomBits(seed, stream, index) & 1;
    store(*layer.inputType, destination, n - row, negative ? -size : size);
  }
}

void fillB13(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
             int64_t rows, void *destination) {
  fillBias(layer, seed, Stream::B13, expert, layer.gateUpRows(), row, rows,
           destination);
}

void fillB2(const Layer &layer, uint64_t seed, int64_t expert, int64_t row,
            int64_t rows, void *destination) {
  fillBias(layer, seed, Stream::B2, expert, layer.hidden, row, rows,
           destination);
}

using FillFunction = void (*)(const Layer &, uint64_t, int64_t, int64_t,
                              int64_t, void *);

static Weight make(const Layer &layer, uint64_t seed, const Element *element,
                   FillFunction fill) {
  Weight weight;
  weight.element = element;
  weight.read = [layer, seed, fill](int64_t expert, int64_t row, int64_t rows,
                                    void *destination) {
    fill(layer, seed, expert, row, rows, destination);
  };
  return weight;
}

Weight makeW13(const Layer &layer, uint64_t seed) {
  return make(layer, seed, layer.weightType, fillW13);
}
Weight makeW2(const Layer &layer, uint64_t seed) {
  return make(layer, seed, layer.weightType, fillW2);
}
Weight makeB13(const Layer &layer, uint64_t seed) {
  return make(layer, seed, layer.inputType, fillB13);
}
Weight makeB2(const Layer &layer, uint64_t seed) {
  return make(layer, seed, layer.inputType, fillB2);
}
Weight makeW13Scale(const Layer &layer, uint64_t seed) {
  return make(layer, seed, layer.w1Scaling.scaleType, fillW13Scale);
}
Weight makeW2Scale(const Layer &layer, uint64_t seed) {
  return make(layer, seed, layer.w2Scaling.scaleType, fillW2Scale);
}
Weight makeA1Scale(const Layer &layer, uint64_t seed) {
  return make(layer, seed, findElement("f32"), fillA1Scale);
}
Weight makeA2Scale(const Layer &layer, uint64_t seed) {
  return make(layer, seed, findElement("f32"), fillA2Scale);
}

} // namespace moec::reference
