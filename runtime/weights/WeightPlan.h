//===- WeightPlan.h - maps checkpoint tensors to values ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derived from a manifest without a checkpoint: the kinds of tensors that each
// stored weight consists of, this rank's rows and columns of the tensors, and
// their places in the value.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_WEIGHTPLAN_H
#define MOEC_RUNTIME_WEIGHTS_WEIGHTPLAN_H

#include "runtime/host/GateUpOrders.h"
#include "runtime/package/Manifest.h"
#include "runtime/weights/QuantizeWeights.h"
#include "runtime/weights/TensorNames.h"

#include <optional>
#include <string>
#include <vector>

namespace moec::weights {

/// The fields of the manifest's `layer` that define the places of weights.
struct LayerShape {
  std::string name;
  int64_t experts = 0, shared = 0; ///< of the whole layer
  /// Number of shared experts that the router treats as the last experts.
  int64_t sinks = 0;
  int64_t zeroExperts = 0; ///< number of ids after those of the experts,
                           ///< without weights
  int64_t localBegin = 0, localCount = 0, localStride = 1;
  int64_t hidden = 0;
  int64_t intermediate = 0;             ///< of the whole layer
  int64_t columnBegin = 0, columns = 0; ///< this rank's columns of it
  /// The same for shared experts that form one MLP with its own weights; 0 if
  /// they follow the routed experts in the same weights.
  int64_t sharedIntermediate = 0, sharedBegin = 0, sharedColumns = 0;
  bool gated = true;
  GateUpOrder order;
  /// Rows and columns that share a scale; -1: all; 0: no scales.
  struct Group {
    int64_t rows = 0, columns = 0;
    bool secondPerRow = false; ///< each row has a second scale, else each part
  };
  Group w1, w2;
  WeightFormat format1, format2; ///< quantized format of float weights
  int64_t codeBits = 8;      ///< bits of a quantized value, for both weights
  bool groupIndex = false;   ///< the checkpoint specifies the group of each
                             ///< column
  bool sharedGate = false;   ///< a gate weighs the shared experts
  bool storesFloats = false; ///< stored weights are floats that packing
                             ///< quantizes
  /// Names of the activation scales that the user's scheme has and the package
  /// leaves out.
  std::vector<std::string> leftOut;

  bool hasSharedMlp() const { return sharedIntermediate > 0; }
  /// Returns the shape of a layer whose only expert is the MLP of shared
  /// experts. The expert's index follows those of the routed experts.
  LayerShape ofSharedMlp() const;

  /// Reads the shape. Returns InvalidManifest, or Refused for a layer with
  /// replicas of experts, which no checkpoint describes.
  static Result<LayerShape> read(const nlohmann::json &layer);
};

/// The layer.stored_layout of a manifest: the layout of a checkpoint's values.
struct StoredLayout {
  struct Unit {
    std::string packed; ///< contents of a 32-bit word: "rows" or "columns"
    bool rowsLast = false;
    int64_t added = 0; ///< 1 if a code is stored minus one, else 0
    bool atoms = false;
  };
  std::string name;
  Unit weights, scales, zeroPoints;
};
Result<StoredLayout> readStoredLayout(const nlohmann::json &described);

/// Returns the number of groups in `extent`. A group of -1 is the whole extent.
inline int64_t groupsIn(int64_t extent, int64_t group) {
  return group == -1 ? 1 : (extent + group - 1) / group;
}

/// Rows or columns begin, begin + step, ..., `count` of them.
struct Lines {
  int64_t begin = 0, count = 0, step = 1;
};

/// A value to fill: the contents that its experts need, and their layout.
struct Wanted {
  std::string value;   ///< name of the value, for messages
  std::string element; ///< element type of the value
  int64_t bits = 8;
  std::vector<Kind> kinds; ///< any of these kinds may provide it
  bool first = true;       ///< belongs to the first matmul
  bool packed = false;     ///< codes; one element may hold several
  LayerShape::Group group;
  /// The dimension of the expert's matrix that has rows (1 or 2), and the
  /// number of rows and of columns that one element holds.
  int64_t rowAxis = 1, rowsPerElement = 1, columnsPerElement = 1;
  bool rowsInOrder = false; ///< gate and up rows are ordered row by row
  bool ofSharedMlp = false; ///< belongs to shared experts with their own
                            ///< weights
};

/// Extents of a tensor that holds one part of one expert.
struct PartExtents {
  int64_t rows = 0, columns = 0; ///< in groups that share one value
};

/// The places of a layer's stored weights in a checkpoint.
class WeightPlan {
public:
  static Result<WeightPlan> create(const Manifest &manifest);

  /// Returns the index in the layer of the value's expert `local`. Shared
  /// experts follow the routed experts.
  int64_t expertAt(const Wanted &wanted, int64_t local) const {
    const LayerShape &of = shapeOf(wanted);
    return of.localBegin + local * of.localStride;
  }
  /// Returns the shape that defines the places of the value.
  const LayerShape &shapeOf(const Wanted &wanted) const {
    return wanted.ofSharedMlp ? mlp : shape;
  }

  /// Returns the kind of a value of the layer itself, or nullopt for a value of
  /// its experts.
  static std::optional<Kind> kindOfLayer(std::string_view value);
  /// Returns true if the value belongs to shared experts with their own
  /// weights. Its name is that of the routed experts' value with the prefix
  /// "shared_".
  static bool isOfSharedMlp(std::string_view value);
  static bool isOfExperts(std::string_view value);
  /// Returns true for an activation scale, which has one value for each expert
  /// of the whole layer, whatever the rank.
  static bool isInputScale(std::string_view value);
  static bool isGroupIndex(std::string_view value);

  /// Returns the contents of a value of the experts other than a group index.
  Result<Wanted> wantedOf(const Value &value) const;
  static Wanted wantedIndex(std::string value, bool first);
  static Wanted wantedInputScale(const Value &value);
  /// Returns the contents by whichever of these three functions applies;
  /// nullopt for values of the layer itself.
  Result<std::optional<Wanted>> wantedIfKnown(const Value &value) const;
  std::vector<Part> partsOf(bool first) const;
  /// Returns the parts whose tensors may hold `part`: gate and up may share a
  /// tensor.
  std::vector<Part> candidatesOf(Part part) const;

  /// Returns the extents of a tensor that holds one part. `wide`: the extent
  /// along the intermediate: rows of gate and up, columns of down.
  PartExtents extentsOf(const Wanted &wanted, int64_t wide) const;
  /// Returns this rank's rows and columns of such a tensor. `begin`: start of
  /// this rank's share along the intermediate.
  Lines rowsOf(const Wanted &wanted, const PartExtents &extents,
               int64_t begin) const;
  Lines columnsOf(const Wanted &wanted, const PartExtents &extents,
                  int64_t begin) const;
  /// Returns a part's rows in a tensor (`holder`) that holds 2 * `rows` rows of
  /// gate and up. Returns nullopt if an element or a scale would belong to
  /// both.
  std::optional<Lines> linesTogether(const Wanted &wanted, Part holder,
                                     Part part, int64_t rows) const;
  /// Returns the place of a part's `rows` rows in an expert's matrix of the
  /// value.
  Result<Lines> placeOf(const Wanted &wanted, Part part, int64_t rows) const;

  /// Returns the whole plan as JSON, for a program that loads checkpoints
  /// itself. docs/reference/checkpoints.md describes it.
  Result<std::string> mapJson(const Manifest &manifest,
                              const Symbols &symbols) const;

protected:
  LayerShape shape, mlp;
  std::optional<StoredLayout> stored; ///< empty if the layer has none
};

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_WEIGHTPLAN_H
