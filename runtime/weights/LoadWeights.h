//===- LoadWeights.h - loads weights from a checkpoint ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills the stored weights that a manifest names with this rank's part of one
// layer of a checkpoint: its experts, its columns of the intermediate, and gate
// and up rows in the layer's order. A float of another type is rounded once to
// the value's type.
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

/// Returns a JSON array of the checkpoint's layers that have experts, which it
/// finds by tensor names only. docs/reference/checkpoints.md describes the
/// array.
std::string layersJson(const Checkpoint &checkpoint);

/// The caller's spelling of options, for messages.
struct OptionNames {
  std::string_view quantize = "--quantize";
  std::string_view noSharedExperts = "--no-shared-experts";
  /// Followed by a word of tensor names.
  std::string_view ignored = "--ignore-tensor=";
};

/// Options of WeightLoader::create().
struct LoadOptions {
  int64_t layer = -1; ///< layer number in the model; -1: the first layer with
                      ///< experts
  /// Quantizes the checkpoint's float weights to the layer's scheme.
  bool quantize = false;
  /// Leaves out the shared experts, because the caller computes them.
  bool noSharedExperts = false;
  /// Makes noSharedExperts an error if it leaves no tensor out. A library does
  /// not set this, because its caller may pass noSharedExperts for every layer
  /// of a model.
  bool needsSharedExperts = false;
  /// Leaves out tensors that have one of these words in their names and that no
  /// value uses. Each word must match a tensor.
  std::vector<std::string> ignored;
  OptionNames names = {};
};

/// Local experts [first, first + count) of a value; count -1: all from `first`
/// on.
struct ExpertRange {
  int64_t first = 0, count = -1;
};

/// Loads the stored weights of one layer on one rank. load() is thread-safe.
class WeightLoader : private WeightPlan {
public:
  /// Finds the layer in the checkpoint. Returns Refused if a tensor of its
  /// experts, shared experts or router is neither used by a value nor known to
  /// be irrelevant.
  static Result<WeightLoader> create(Checkpoint &checkpoint,
                                     const Manifest &manifest,
                                     const LoadOptions &options = {});

  int64_t layer() const { return number; }

  /// Resolves `range` for `value`. Returns InvalidArgument if the layer has
  /// fewer experts, or if `range` is a proper part and the value has no part
  /// per expert.
  Result<ExpertRange> rangeOf(const Value &value,
                              const ExpertRange &range) const;

  /// Fills all bytes of a stored weight, or those of the experts of `range`. An
  /// error names the tensor, the expected and the actual contents.
  Result<void> load(const Value &value, std::span<std::byte> to,
                    const ExpertRange &range = {}) const;

private:
  /// A tensor of the checkpoint with its parsed name.
  struct Found {
    std::string name;
    TensorName parsed;
  };
  /// One copy: its source and its destination.
  struct Piece;
  /// This rank's rows and columns of an expert in a tensor.
  struct Source {
    SourceMatrix matrix;
    Conversion conversion = Conversion::Copy;
    bool inverse = false;
    NumberRule rule = NumberRule::Any;
    std::string tensor;
    std::string owner; ///< the owner's name for messages, such as "expert 3"
  };

  WeightLoader(WeightPlan plan, Checkpoint &checkpoint,
               const OptionNames &names)
      : WeightPlan(std::move(plan)), checkpoint(checkpoint), names(names) {}

  Result<void> findLayer(int64_t layer, bool hasRoutingBias);
  /// Functions of runtime/weights/CheckTensors.cpp.
  class TakenCheck;
  Result<void> checkTaken(const Manifest &manifest, const LoadOptions &options);
  Result<std::set<std::pair<Part, Kind>>> takenBy(const Manifest &manifest,
                                                  bool quantize) const;
  /// Returns true if the realization leaves out the activation scales of the
  /// matmul that uses these parts.
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
  /// Returns the condition for a tensor's values.
  NumberRule ruleFor(const Wanted &wanted, const Found &found) const;
  static std::string ownerOf(bool shared, int64_t expert);
  Error badNumbers(const Source &from, const Error &error,
                   const Wanted &wanted) const;
  /// Checks activation scales that no value uses.
  Result<void> checkLeftOutScale(const Found &found) const;
  /// Returns a tensor of the checkpoint, or a tensor that was quantized from
  /// it.
  Result<const StoredTensor *> tensorOf(const Found &found) const;
  Result<void> loadExperts(const Wanted &wanted, std::span<std::byte> to,
                           const ExpertRange &range) const;
  Result<void> loadInputScales(const Wanted &wanted,
                               std::span<std::byte> to) const;
  /// The group of each column of a part of an expert.
  struct Index {
    std::vector<int32_t> groups;
    std::string tensor;
  };
  Result<Index> readIndex(const Wanted &wanted, int64_t expert,
                          Part part) const;
  Result<void> loadGroupIndex(const Value &value, std::span<std::byte> to,
                              const ExpertRange &range) const;
  /// Checks that the columns of codes (quantized values) are in the order that
  /// the layer specifies.
  Result<void> checkOrder(const Wanted &codes, const ExpertRange &range) const;
  Result<void> loadRouting(const Value &value, Kind kind,
                           std::span<std::byte> to) const;
  const Found *look(const Wanted &wanted, bool shared, int64_t expert,
                    Part part) const;
  Result<Source> find(const Wanted &wanted, int64_t expert, Part part) const;
  /// Functions of runtime/weights/FindTensors.cpp.
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

/// Formats extents as "[2, 3]".
std::string shapeText(const std::vector<int64_t> &extents);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H
