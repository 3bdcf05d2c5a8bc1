//===- Reference.h - the layer in double precision --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layer's outputs, computed from the manifest's `layer` alone: routing with
// scores in f32, everything after it in double, rounded only where the scheme
// rounds (the operand of the second matmul). It shares no code with the host
// device or the kernels, so that the three check each other. Slow by design,
// hence computed for a chosen list of tokens; see sampleTokens.
//
// Use: parseLayer, route (all tokens), compute (some tokens), then Check.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_REFERENCE_H
#define MOEC_TEST_REFERENCE_REFERENCE_H

#include "runtime/support/Result.h"
#include "test/reference/Element.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moec::reference {

/// How an operand is scaled: what shares a scale, -1 being the whole extent.
struct Scaling {
  bool given = false; ///< whether there are scales
  int64_t rows = 0, columns = 0;
  bool dynamic = false; ///< computed from the values
  /// The type of the scales, whether these are scaled by one of all (of gate,
  /// up or the second weight), and whether there are zero points.
  const Element *scaleType = findElement("f32");
  bool second = false, zeroPoint = false;
  /// For emulated activations: even, ceil or floor if scales are powers of
  /// two.
  std::string rule = {};
  /// Each row has a second scale: of activations one that is computed, of
  /// weights one that is stored.
  bool secondPerRow = false;
  /// Second scales of a weight of so many parts and rows.
  int64_t seconds(int64_t parts, int64_t rows) const {
    return secondPerRow ? rows : parts;
  }
  bool ofTensor() const { return rows == -1 && columns == -1; }
  /// Whether there is a number among the weights: the static scale, or the
  /// scale of dynamic ones.
  bool storesNumber() const {
    return given && (!dynamic || (second && !secondPerRow));
  }
};

/// The places of the elements of a weight, of its scales or of its zero points
/// in a checkpoint; else they are rows.
struct StoredTensor {
  bool rowsLast = false;      ///< in memory it is [columns, rows]
  std::string packed;         ///< rows or columns: 32 bits hold several of them
  std::vector<int64_t> slots; ///< where the i-th of those is; empty: at i
  int64_t added = 0;          ///< to what stands there
  bool atoms = false;         ///< in atoms of 128 x 4
  bool isRows() const { return !rowsLast && packed.empty() && !atoms; }
};

/// The parameters of an activation.
struct ActivationNumbers {
  double alpha = 1, beta = 0, linearBeta = 0;
  double limit = 0; ///< 0: none
  double &at(size_t i) {
    return *std::array{&alpha, &beta, &linearBeta, &limit}[i];
  }
};
inline constexpr std::array<const char *, 4> kActivationNumbers = {
    "alpha", "beta", "linear_beta", "limit"};

/// The layer's structure. Nothing is derived from the names of methods or
/// schemes; a structure that the reference cannot compute is an error.
struct Layer {
  std::string name;
  /// route, quantize or finalize, if the package is such a part of the layer.
  std::string part;
  int64_t experts = 0; ///< global
  int64_t topK = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0; ///< of this rank
  int64_t localBegin = 0, localExperts = 0;
  const Element *inputType = nullptr, *outputType = nullptr,
                *logitsType = nullptr;
  /// identity, softmax, sigmoid, sqrtsoftplus, sparsemixer, drawn,
  /// drawn_normal, none
  std::string score;
  std::string select;    ///< top_k, top_k_per_group, table, given
  std::string normalize; ///< none, softmax, sigmoid, sum, sum_epsilon
  int64_t groups = 0, topGroups = 0; ///< 0: none
  bool routingBias = false, expertScale = false;
  int64_t tableRows = 0;       ///< token ids that a table knows
  int64_t zeroExperts = 0;     ///< behind the experts; they hand x on
  bool addZeroExperts = false; ///< this rank does so
  int64_t constantExperts = 0; ///< ids after the experts'; each is a vector
  bool weightOnInput = false;  ///< weights multiply x, not what becomes of it
  double routingScale = 1;
  double softcap = 0; ///< of logits before their score; 0: none
  double logitScale = 1;
  double sumEpsilon = 1e-20; ///< of the sum that divides scores
  int64_t sinks = 0;         ///< the last experts, which every token takes
  double outputScale = 1;
  std::string function; ///< one of activationFunctions(), FirstHalf.h
  ActivationNumbers numbers;
  /// Which of kActivationNumbers each expert has its own of.
  std::array<bool, 4> ofExperts = {};
  bool gated = true;
  /// Or up_first, interleaved, interleaved_8.
  std::string gateUpOrder = "gate_first";
  StoredTensor storedWeights, storedScales, storedZeroPoints;
  /// Sizes of stored weights with what pads them; 0: nothing does.
  int64_t storedHidden = 0, storedIntermediate = 0;
  bool groupIndex = false;     ///< each column of k says its group
  const Element *a1 = nullptr; ///< what the first matmul multiplies
  const Element *a2 = nullptr; ///< what the second one does: rounded to it
  const Element *weightType = nullptr;
  /// Floats that weights are stored as and quantized from; null where they are
  /// stored as codes.
  const Element *storedWeightType = nullptr;
  /// The type that codes of activations and weights become before they are
  /// multiplied, if activations are emulated; else null.
  const Element *computeType = nullptr;
  Scaling a1Scaling, a2Scaling, w1Scaling, w2Scaling;
  bool accumulatesFast = false; ///< sums are left to the tensor cores
  bool hasBias = false;
  bool addW2Bias = true;
  bool residual = false;       ///< the caller may give one
  bool deferFinalize = false;  ///< the caller sums over experts
  bool batchInvariant = false; ///< no bit depends on the other tokens
  bool lora = false;           ///< the caller may give addends
  double postExpertNorm = 0;   ///< epsilon of each expert's norm; 0: none
  bool inputQuantized = false; ///< x comes quantized, with its scales
  bool eplb = false;           ///< the caller says who is whose replica
  int64_t redundantExperts = 0;
  bool expertMap = false; ///< the caller says which local expert is which
  int64_t sharedExperts = 0;
  bool sharedGate = false;
  /// The width on this rank of shared experts that are an MLP with weights of
  /// its own; 0: they are behind the others in the weights.
  int64_t sharedIntermediate = 0;
  /// Rows come by expert and go back unweighted. The reference's tokens are
  /// those rows then, [E_local, slots], each with one expert, of weight 1.
  bool batched = false;

  /// Experts that ids may end at, and those whose weights there are, shared
  /// ones behind the others.
  int64_t physicalExperts() const { return experts + redundantExperts; }
  int64_t storedExperts() const { return physicalExperts() + sharedRows(); }
  int64_t pairsOfToken() const { return topK + sharedRows(); }
  int64_t sharedRows() const {
    return sharedIntermediate > 0 ? 0 : sharedExperts;
  }
  /// The MLP as a layer of one expert that every token takes.
  Layer sharedMlp() const;
  /// Values of the intermediate behind a row of the output.
  double valuesPerRow() const {
    return double(pairsOfToken() * intermediate + sharedIntermediate);
  }
  /// Rows of x and of the output in a run of so many tokens, or slots.
  int64_t rowsOf(int64_t tokens) const {
    return batched ? tokens * localExperts : tokens;
  }

  /// Rows of w13: 2 * intermediate when gated.
  int64_t gateUpRows() const { return gated ? 2 * intermediate : intermediate; }
  /// After so many of them gates and ups take turns; 0: they do not.
  int64_t rowsInTurn() const {
    return gateUpOrder == "interleaved"     ? 1
           : gateUpOrder == "interleaved_8" ? 8
                                            : 0;
  }
  /// Which of them is gate, or up, number i.
  int64_t storedRow(bool up, int64_t i) const {
    if (const int64_t run = rowsInTurn())
      return (2 * (i / run) + up) * run + i % run;
    return up == (gateUpOrder == "gate_first") ? intermediate + i : i;
  }
  bool isGate(int64_t row) const {
    if (const int64_t run = rowsInTurn())
      return row / run % 2 == 0;
    return !gated || (row < intermediate) == (gateUpOrder == "gate_first");
  }
  /// Scales of one expert's w13 and w2: rows and columns of them. Gate and up
  /// rows are quantized apart.
  int64_t w13ScaleRows() const;
  int64_t w13ScaleColumns() const;
  int64_t w2ScaleRows() const;
  int64_t w2ScaleColumns() const;
  /// The experts that the router chooses from.
  int64_t routedExperts() const {
    return experts + zeroExperts + constantExperts;
  }
  /// Such weights are rounded to the type of the activations, which are as
  /// they came.
  bool quantizesWeightsAlone() const {
    return w1Scaling.given && !a1Scaling.given && !a2Scaling.given;
  }
  /// The type that dequantized weights are rounded to; null: codes are
  /// multiplied.
  const Element *weightsRoundTo() const {
    return quantizesWeightsAlone() ? a1 : computeType;
  }
  /// Ids are exact, ties included, where the selection's keys are logits, or
  /// numbers that are drawn as if they were.
  bool keysAreLogits() const {
    return !routingBias &&
           (score == "identity" || score == "sparsemixer" || score == "drawn");
  }
};

/// Reads the manifest's `layer`. A missing or mistyped field, or a structure
/// that is not supported, is InvalidManifest with the field's name.
Result<Layer> parseLayer(const nlohmann::json &layer);

/// A matrix in the caller's memory.
struct Matrix {
  const void *data = nullptr;
  const Element *element = nullptr;
  int64_t rowStride = 0; ///< in elements; 0 means contiguous
};

/// A stored weight [E_local, rows, columns] (a bias: columns = 1), either in
/// memory or made when needed.
struct Weight {
  const void *data = nullptr; ///< contiguous, or null when `read` is set
  const Element *element = nullptr;
  /// Writes rows [row, row + rows) of local `expert`, contiguous, as
  /// `element`. Called from several threads at once.
  std::function<void(int64_t expert, int64_t row, int64_t rows,
                     void *destination)>
      read;
};

struct Inputs {
  int64_t tokens = 0;
  Matrix x;        ///< [tokens, H]
  Matrix residual; ///< [tokens, H], data null: none
  Matrix partials; ///< [tokens * K, H], of the output's type; to finalize alone
  Matrix intermediate; ///< [tokens * K, I], of the input's type; for part down
  /// Addends of pairs [tokens * K, w13's rows] and [tokens * K, H], data null:
  /// none.
  Matrix gateUpAddend, downAddend;
  /// The scales of a quantized x: Scaling::scaleType [tokens, groups] or [1];
  /// and if Scaling::second says so, f32 [tokens, 1] or [1].
  Matrix xScale, xSecondScale;
  Matrix sharedGate; ///< [tokens, 1], only with Layer::sharedGate
  /// [E, Layer::redundantExperts + 1] and [E], only with Layer::eplb; [physical
  /// experts], only with Layer::expertMap.
  std::vector<int32_t> logicalToPhysical, replicaCount, expertMap;
  /// [E_local], only with Layer::batched: how many of its slots each expert
  /// has.
  std::vector<int32_t> expertCounts;
  Matrix logits;       ///< [tokens, E], f32, f16, bf16, or null: given ids
  Matrix givenIds;     ///< [tokens, K], i32 or i64; of no expert: nowhere
  Matrix givenWeights; ///< [tokens, K], of any type of the logits
  Matrix tokenIds;     ///< [tokens, 1], i32 or i64; with Layer::tableRows
  Matrix hashTable;    ///< [tableRows, K], i32
  Matrix routingBias;  ///< [1, routedExperts], f32; with Layer::routingBias
  Matrix expertScale;  ///< the same; with Layer::expertScale
  Matrix normWeight;   ///< [1, H], f32; with Layer::postExpertNorm
  Matrix constants;    ///< [Layer::constantExperts, H], f32
  /// [1, E_local], f32, of kActivationNumbers; with Layer::ofExperts.
  std::array<Matrix, 4> numbers;
  std::optional<int64_t> validTokens; ///< tokens from here on route nowhere
  Weight w13, w2;                     ///< as stored
  Weight b13, b2;                     ///< only with Layer::hasBias
  Weight w13Scale, w2Scale;           ///< only with Layer::w1Scaling.given
  /// f32 [E_local, 2 for gate and up, else 1], and i8 beside the scales; only
  /// where Layer::w1Scaling says so.
  Weight w13SecondScale, w2SecondScale, w13ZeroPoint, w2ZeroPoint;
  /// i32 [E_local, 1, H] and [E_local, 1, I]: the group of each column; only
  /// with Layer::groupIndex.
  Weight w13GroupIndex, w2GroupIndex;
  /// f32, one per global expert; only where Scaling::storesNumber.
  Weight a1Scale, a2Scale;
  /// The weights of Layer::sharedMlp, only with Layer::sharedIntermediate.
  std::shared_ptr<const Inputs> shared;
};

/// Whether there is such a row: of batched ones an expert has its first slots.
bool isRow(const Layer &layer, const Inputs &inputs, int64_t row);

/// Routing of all tokens.
struct Routing {
  int64_t tokens = 0, pairs = 0; ///< pairs: of a token
  std::vector<int32_t> ids;      ///< [tokens, pairs], global, -1 where none
  std::vector<int32_t>
      locals; ///< [tokens, pairs]: local experts, -1 where none
  /// [tokens, pairs]: the weights among those of all ranks; -1 where none, -2
  /// of a zero expert.
  std::vector<int32_t> places;
  std::vector<float> weights;  ///< [tokens, pairs], 0 where the id is -1
  std::vector<int64_t> counts; ///< [E_local] pairs
  /// Tokens whose observed ids are no right resolution of their keys.
  int64_t mistakes = 0;
  std::string firstMistake; ///< a sentence about the first of them
};

/// Routes every token. `observedIds` ([tokens, pairs], may be null) are what a
/// device selected: where keys, or groups, tie within 1e-6 * max(1, |score|,
/// |bias|) (not where keys are logits: there ids are exact) any resolution is
/// right and is adopted, weights following; else the reference's own ids stand
/// and the token counts as a mistake.
Result<Routing> route(const Layer &layer, const Inputs &inputs,
                      const int32_t *observedIds = nullptr);

/// The same of rows that come by expert; route() calls it.
Result<Routing> routeBatched(const Layer &layer, const Inputs &inputs);

/// Rows [list.size(), H] of the output for the tokens in `list`, not rounded
/// to the output type. `threads` 0 takes all cores.
Result<std::vector<double>> compute(const Layer &layer, const Inputs &inputs,
                                    const Routing &routing,
                                    const std::vector<int64_t> &list,
                                    unsigned threads = 0);

/// The part of these that shared experts with weights of their own add.
Result<std::vector<double>> computeShared(const Layer &layer,
                                          const Inputs &inputs,
                                          const std::vector<int64_t> &list,
                                          unsigned threads = 0);

/// The rows of the intermediate [list.size() * K, I] of a part gate_up; zeros
/// for pairs of other ranks' experts.
Result<std::vector<double>> intermediate(const Layer &layer,
                                         const Inputs &inputs,
                                         const Routing &routing,
                                         const std::vector<int64_t> &list);
/// The same of a part that finalizes: the sums of Inputs::partials.
Result<std::vector<double>> finalize(const Layer &layer, const Inputs &inputs,
                                     const Routing &routing,
                                     const std::vector<int64_t> &list);

/// Codes and scales of x: of each token, or of each pair where weights multiply
/// x.
struct QuantizedX {
  std::vector<double> codes;  ///< [rows, H]
  std::vector<double> scales; ///< [rows, groups], or [1]
};
Result<QuantizedX> quantizeX(const Layer &layer, const Inputs &inputs,
                             const Routing &routing);

/// Rows of the output rounded to the layer's output type.
std::vector<double> roundOutput(const Layer &layer, std::vector<double> rows);

/// Tokens worth checking when all are too many: the first and last tokens,
/// those whose pairs are the first and last row of every local expert and of
/// row tiles of each size in `tileRows` (rows of an expert are ordered by
/// token), then others at random, at most `limit`, ascending. With tokens <=
/// limit, all of them. Where the tile ends alone exceed `limit`, experts' ends
/// come first and tiles are thinned evenly.
std::vector<int64_t> sampleTokens(const Layer &layer, const Routing &routing,
                                  const std::vector<int64_t> &tileRows,
                                  int64_t limit, uint64_t seed);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_REFERENCE_H
