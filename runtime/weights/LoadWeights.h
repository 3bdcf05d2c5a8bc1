//===- LoadWeights.h - loads weights from a checkpoint ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads the stored weights that a manifest names from one layer of a
// checkpoint. Only this rank's share is loaded: its experts, and its columns of
// the intermediate dimension. Gate and up rows are stored in the layer's order.
// A float of another type is rounded once to the value's type.
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

/// Returns a JSON array of the checkpoint's layers that have experts. The
/// layers are found only by tensor names. docs/reference/checkpoints.md
/// describes the array.
std::string layersJson(const Checkpoint &checkpoint);

/// The names of options in the caller's interface, for error messages.
struct OptionNames {
  std::string_view quantize = "--quantize";
  std::string_view noSharedExperts = "--no-shared-experts";
  /// The option name, to which a message appends a word of a tensor name.
  std::string_view ignored = "--ignore-tensor=";
};

/// Options of WeightLoader::create().
struct LoadOptions {
  int64_t layer = -1; ///< index of the layer in the model; -1: the first layer
                      ///< that has experts
  /// True: quantizes the checkpoint's float weights to the layer's scheme.
  bool quantize = false;
  /// True: leaves out the shared experts, because the caller computes them.
  bool noSharedExperts = false;
  /// True: it is an error if noSharedExperts leaves no tensor out. The C
  /// interface does not set this, because its callers may pass noSharedExperts
  /// for every layer of a model.
  bool needsSharedExperts = false;
  /// Substrings of tensor names. A tensor that no value uses is left out if its
  /// name contains one of them. Each substring must match a tensor.
  std::vector<std::string> ignored;
  OptionNames names = {};
};

/// Local experts [first, first + count) of a value. If `count` is -1, all local
/// experts starting at `first`.
struct ExpertRange {
  int64_t first = 0, count = -1;
};

/// Loads the stored weights for one layer and one rank. load() is thread-safe.
class WeightLoader : private WeightPlan {
public:
  /// Finds the layer's tensors in the checkpoint. Returns Refused if a tensor
  /// of the layer's experts, shared experts or router is neither used by a
  /// value nor known to be irrelevant.
  static Result<WeightLoader> create(Checkpoint &checkpoint,
                                     const Manifest &manifest,
                                     const LoadOptions &options = {});

  int64_t layer() const { return number; }

  /// Resolves a `count` of -1 in `range`. Returns InvalidArgument if the layer
  /// has fewer experts, or if `range` does not contain all experts although the
  /// value has no expert dimension.
  Result<ExpertRange> rangeOf(const Value &value,
                              const ExpertRange &range) const;

  /// Fills all bytes of a stored weight, or only the bytes of the experts in
  /// `range`. An error contains the tensor's name, the expected content and the
  /// actual content.
  Result<void> load(const Value &value, std::span<std::byte> to,
                    const ExpertRange &range = {}) const;

private:
  /// A tensor of the checkpoint and its parsed name.
  struct Found {
    std::string name;
    TensorName parsed;
  };
  /// The source and destination of one copy.
  struct Piece;
  /// A tensor, and the rows and columns that this rank reads from it for one
  /// part (gate, up or down) of one expert.
  struct Source {
    SourceMatrix matrix;
    Conversion conversion = Conversion::Copy;
    bool inverse = false;
    NumberRule rule = NumberRule::Any;
    std::string tensor;
    std::string owner; ///< the expert's name for messages, such as "expert 3"
  };

  WeightLoader(WeightPlan plan, Checkpoint &checkpoint,
               const OptionNames &names)
      : WeightPlan(std::move(plan)), checkpoint(checkpoint), names(names) {}

  Result<void> findLayer(int64_t layer, bool hasRoutingBias);
  /// The following members are defined in runtime/weights/CheckTensors.cpp.
  class TakenCheck;
  Result<void> checkTaken(const Manifest &manifest, const LoadOptions &options);
  Result<std::set<std::pair<Part, Kind>>> takenBy(const Manifest &manifest,
                                                  bool quantize) const;
  /// Returns true if the layer's realization does not use the activation scales
  /// of the matmul that `taker` represents.
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
  /// Returns the condition that the tensor's elements must meet.
  NumberRule ruleFor(const Wanted &wanted, const Found &found) const;
  static std::string ownerOf(bool shared, int64_t expert);
  Error badNumbers(const Source &from, const Error &error,
                   const Wanted &wanted) const;
  /// Checks an activation scale that no value uses.
  Result<void> checkLeftOutScale(const Found &found) const;
  /// Returns the checkpoint's tensor, or the tensor that was quantized from the
  /// checkpoint's tensor.
  Result<const StoredTensor *> tensorOf(const Found &found) const;
  Result<void> loadExperts(const Wanted &wanted, std::span<std::byte> to,
                           const ExpertRange &range) const;
  Result<void> loadInputScales(const Wanted &wanted,
                               std::span<std::byte> to) const;
  /// The group index of one expert's part: the group of each column.
  struct Index {
    std::vector<int32_t> groups;
    std::string tensor;
  };
  Result<Index> readIndex(const Wanted &wanted, int64_t expert,
                          Part part) const;
  Result<void> loadGroupIndex(const Value &value, std::span<std::byte> to,
                              const ExpertRange &range) const;
  /// Checks that the columns of codes (quantized values) have the order that
  /// the layer specifies.
  Result<void> checkOrder(const Wanted &codes, const ExpertRange &range) const;
  Result<void> loadRouting(const Value &value, Kind kind,
                           std::span<std::byte> to) const;
  const Found *look(const Wanted &wanted, bool shared, int64_t expert,
                    Part part) const;
  Result<Source> find(const Wanted &wanted, int64_t expert, Part part) const;
  /// The following members are defined in runtime/weights/FindTensors.cpp.
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

/// Returns the extents as a text such as "[2, 3]".
std::string shapeText(const std::vector<int64_t> &extents);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H
