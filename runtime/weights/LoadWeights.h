//===- LoadWeights.h - a layer's weights out of a checkpoint ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills the stored weights that a manifest names with this rank's part of one
// layer of a checkpoint: its experts, its columns of the intermediate, gates
// and ups in the layer's order. A float of another type is rounded once to the
// nearest number of the value's type.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H
#define MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H

#include "runtime/weights/CopyMatrix.h"
#include "runtime/weights/Safetensors.h"
#include "runtime/weights/WeightPlan.h"

#include <map>
#include <set>
#include <span>

namespace moec::weights {

/// The layers of a checkpoint that have experts, by their names alone: a JSON
/// array. docs/reference/checkpoints.md explains it.
std::string layersJson(const Checkpoint &checkpoint);

/// How the caller spells options, for messages.
struct OptionNames {
  std::string_view quantize = "--quantize";
  std::string_view noSharedExperts = "--no-shared-experts";
  std::string_view ignored = "--ignore-tensor="; ///< the word follows
};

struct LoadOptions {
  int64_t layer = -1; ///< the model's; -1: the first that has experts
  /// The checkpoint's weights are floats, which become what the layer has.
  bool quantize = false;
  /// The caller computes the checkpoint's shared experts.
  bool noSharedExperts = false;
  /// Refuses noSharedExperts if it leaves no tensor out. A library's caller may
  /// give it for each layer of a model.
  bool needsSharedExperts = false;
  /// Tensors that have one of these words, and that no value takes, are left
  /// out. Each word must name one.
  std::vector<std::string> ignored;
  OptionNames names = {};
};

/// Local experts [first, first + count) of a value; -1: all behind the first.
struct ExpertRange {
  int64_t first = 0, count = -1;
};

/// Any number of threads may load at once.
class WeightLoader : private WeightPlan {
public:
  /// Refuses a checkpoint of which a tensor of the layer's experts, shared
  /// experts or router is neither taken by a value nor known to be irrelevant.
  static Result<WeightLoader> create(Checkpoint &checkpoint,
                                     const Manifest &manifest,
                                     const LoadOptions &options = {});

  int64_t layer() const { return number; }

  /// Which local experts a range means. InvalidArgument where the layer has
  /// fewer, or where only a part of a value that is not split is asked for.
  Result<ExpertRange> rangeOf(const Value &value,
                              const ExpertRange &range) const;

  /// Fills all bytes of a stored weight, or of some experts of it. Errors name
  /// the tensor, what was expected and what came.
  Result<void> load(const Value &value, std::span<std::byte> to,
                    const ExpertRange &range = {}) const;

private:
  /// A tensor of the layer.
  struct Found {
    std::string name;
    TensorName parsed;
  };
  /// A copy: from where, and to where.
  struct Piece;
  /// An expert's rows and columns in a tensor.
  struct Source {
    SourceMatrix matrix;
    Conversion conversion = Conversion::Copy;
    bool inverse = false;
    NumberRule rule = NumberRule::Any;
    std::string tensor;
    std::string owner; ///< "expert 3"
  };

  WeightLoader(WeightPlan plan, Checkpoint &checkpoint,
               const OptionNames &names)
      : WeightPlan(std::move(plan)), checkpoint(checkpoint), names(names) {}

  Result<void> findLayer(int64_t layer, bool hasRoutingBias);
  /// CheckTensors.cpp.
  class TakenCheck;
  Result<void> checkTaken(const Manifest &manifest, const LoadOptions &options);
  Result<std::set<std::pair<Part, Kind>>> takenBy(const Manifest &manifest,
                                                  bool quantize) const;
  /// Whether the realization leaves out the scales of activations that the
  /// matmul of these parts would have.
  bool leavesScaleOf(Part taker) const;
  bool isOfThisRank(const TensorRole &role) const;
  Result<void> checkSymmetric(const Found &found);
  std::string otherFormat(const Found &found) const;
  std::string withZeroPoints() const;
  Result<bool> isZero(const Found &found);
  std::string schemeOfScales(const Found &found) const;
  std::string takerFor(const Found &found, bool quantize) const;
  Error untaken(std::string_view name, std::string_view what,
                std::string_view accepted, std::string_view word) const;
  Result<void> checkUntaken(const Found &found, bool quantize);
  Result<void> checkExpert(const Found &found) const;
  Result<void> checkOneEach() const;
  Result<void> quantizeExperts();
  void keep(const TensorRole &role, std::string_view type,
            std::vector<int64_t> extents, std::vector<std::byte> bytes);
  static Conversion conversionFor(Kind kind, std::string_view type,
                                  std::string_view element);
  /// The condition of a tensor's numbers, and their owner in messages.
  NumberRule ruleFor(const Wanted &wanted, const Found &found) const;
  static std::string ownerOf(bool shared, int64_t expert);
  Error badNumbers(const Source &from, const Error &error,
                   const Wanted &wanted) const;
  /// Verifies scales of activations that no value takes.
  Result<void> checkLeftOutScale(const Found &found) const;
  /// A tensor of the checkpoint, or one made of it.
  Result<const StoredTensor *> tensorOf(const Found &found) const;
  Result<void> loadExperts(const Wanted &wanted, std::span<std::byte> to,
                           const ExpertRange &range) const;
  Result<void> loadInputScales(const Wanted &wanted,
                               std::span<std::byte> to) const;
  /// The groups of columns of a part of an expert.
  struct Index {
    std::vector<int32_t> groups;
    std::string tensor;
  };
  Result<Index> readIndex(const Wanted &wanted, int64_t expert,
                          Part part) const;
  Result<void> loadGroupIndex(const Value &value, std::span<std::byte> to,
                              const ExpertRange &range) const;
  /// That columns of codes are in the order that the layer says.
  Result<void> checkOrder(const Wanted &codes, const ExpertRange &range) const;
  Result<void> loadRouting(const Value &value, Kind kind,
                           std::span<std::byte> to) const;
  const Found *look(const Wanted &wanted, bool shared, int64_t expert,
                    Part part) const;
  Result<Source> find(const Wanted &wanted, int64_t expert, Part part) const;
  /// FindTensors.cpp.
  class PartInTensor;
  Result<Source> view(const Wanted &wanted, const Found &found, int64_t expert,
                      Part part) const;
  Result<bool> bareAreTransposed() const;
  Error missing(const Wanted &wanted, int64_t expert, Part part) const;

  Checkpoint &checkpoint;
  OptionNames names = {};
  int64_t number = -1;
  std::map<TensorRole, Found> tensors;
  struct Made {
    std::vector<std::byte> bytes;
    StoredTensor tensor;
  };
  std::map<std::string, Made> quantized;
};

/// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &extents);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H
