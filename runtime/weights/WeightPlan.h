//===- WeightPlan.h - where the numbers of a value come from ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest alone says of a layer's checkpoint: the kinds of tensors that
// each stored weight is made of, this rank's rows and columns of them, and
// where these stand in the value.
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

/// The part of the manifest's `layer` that says where weights lie.
struct LayerShape {
  std::string name;
  int64_t experts = 0, shared = 0; ///< of the whole layer
  /// Shared experts that are the last experts of the layer to its router.
  int64_t sinks = 0;
  int64_t zeroExperts = 0; ///< ids after the experts'; they have no weights
  int64_t localBegin = 0, localCount = 0, localStride = 1;
  int64_t hidden = 0;
  int64_t intermediate = 0;             ///< of the whole layer
  int64_t columnBegin = 0, columns = 0; ///< this rank's part of that
  /// The same of shared experts that are one MLP with weights of its own; 0
  /// where they are behind the others in the weights.
  int64_t sharedIntermediate = 0, sharedBegin = 0, sharedColumns = 0;
  bool gated = true;
  GateUpOrder order;
  /// Rows and columns that share a scale, -1 being all; 0 without scales.
  struct Group {
    int64_t rows = 0, columns = 0;
    bool secondPerRow = false; ///< each row has a second scale, not each part
  };
  Group w1, w2;
  WeightFormat format1, format2; ///< what a float weight is quantized to
  int64_t codeBits = 8;          ///< of both weights
  bool groupIndex = false;       ///< columns say their groups
  bool sharedGate = false;       ///< shared experts are weighed
  bool storesFloats = false;     ///< which packing quantizes
  /// Scales of activations that the user's scheme has and the package leaves
  /// out: names of values.
  std::vector<std::string> leftOut;

  bool hasSharedMlp() const { return sharedIntermediate > 0; }
  /// The shape of a layer whose only expert is the MLP of shared experts. Its
  /// index follows those of the others.
  LayerShape ofSharedMlp() const;

  /// Errors are InvalidManifest, or Refused for a layer whose weights no
  /// checkpoint says (replicas of experts).
  static Result<LayerShape> read(const nlohmann::json &layer);
};

/// Layer.stored_layout of a manifest: how the values of a checkpoint lie.
struct StoredLayout {
  struct Unit {
    std::string packed; ///< what a word of 32 bits holds: rows or columns
    bool rowsLast = false;
    int64_t added = 0; ///< 1 if a code is stored as one less
    bool atoms = false;
  };
  std::string name;
  Unit weights, scales, zeroPoints;
};
Result<StoredLayout> readStoredLayout(const nlohmann::json &described);

/// How many groups there are; all of the extent is one where it is -1.
inline int64_t groupsIn(int64_t extent, int64_t group) {
  return group == -1 ? 1 : (extent + group - 1) / group;
}

/// Rows, or columns: begin, begin + step, ...
struct Lines {
  int64_t begin = 0, count = 0, step = 1;
};

/// A value to fill: what of the experts it holds, and how.
struct Wanted {
  std::string value;   ///< its name, for messages
  std::string element; ///< its type
  int64_t bits = 8;
  std::vector<Kind> kinds; ///< any of them
  bool first = true;       ///< of the first matmul
  bool packed = false;     ///< codes, of which elements may hold several
  LayerShape::Group group;
  /// Which dimension of an expert's matrix has rows, and how many rows and
  /// columns an element stands for.
  int64_t rowAxis = 1, rowsPerElement = 1, columnsPerElement = 1;
  bool rowsInOrder = false; ///< rows of gate and up are ordered one by one
  bool ofSharedMlp = false; ///< of shared experts with weights of their own
};

/// Rows and columns of a tensor that holds one part of one expert.
struct PartExtents {
  int64_t rows = 0, columns = 0; ///< of what has a number of its own
};

class WeightPlan {
public:
  static Result<WeightPlan> create(const Manifest &manifest);

  /// The numbers in the layer of the experts of a value: shared ones are behind
  /// the others.
  int64_t expertAt(const Wanted &wanted, int64_t local) const {
    const LayerShape &of = shapeOf(wanted);
    return of.localBegin + local * of.localStride;
  }
  /// The shape that says where the numbers of a value lie.
  const LayerShape &shapeOf(const Wanted &wanted) const {
    return wanted.ofSharedMlp ? mlp : shape;
  }

  /// The kind of a value of the layer itself, not of its experts.
  static std::optional<Kind> kindOfLayer(std::string_view value);
  /// Whether it is of shared experts with weights of their own, which are
  /// called as the others' behind "shared_".
  static bool isOfSharedMlp(std::string_view value);
  static bool isOfExperts(std::string_view value);
  /// A number for each expert of the layer, of this rank or not.
  static bool isInputScale(std::string_view value);
  static bool isGroupIndex(std::string_view value);

  /// For a value of the experts that is not a group index.
  Result<Wanted> wantedOf(const Value &value) const;
  static Wanted wantedIndex(std::string value, bool first);
  static Wanted wantedInputScale(const Value &value);
  /// The one of these three that fits; nothing for the layer's own values.
  Result<std::optional<Wanted>> wantedIfKnown(const Value &value) const;
  std::vector<Part> partsOf(bool first) const;
  /// Parts that may hold a part: gates and ups may be together.
  std::vector<Part> candidatesOf(Part part) const;

  /// `wide`: rows of gates, and columns of downs, that the tensor has.
  PartExtents extentsOf(const Wanted &wanted, int64_t wide) const;
  /// This rank's elements of such a tensor; `begin` of the wide dimension.
  Lines rowsOf(const Wanted &wanted, const PartExtents &extents,
               int64_t begin) const;
  Lines columnsOf(const Wanted &wanted, const PartExtents &extents,
                  int64_t begin) const;
  /// A part's elements in a tensor that holds gates and ups (`holder`) and has
  /// twice `rows`; nothing if one element or scale would belong to both.
  std::optional<Lines> linesTogether(const Wanted &wanted, Part holder,
                                     Part part, int64_t rows) const;
  /// The place of a part's `rows` rows in an expert's matrix of the value.
  Result<Lines> placeOf(const Wanted &wanted, Part part, int64_t rows) const;

  /// The whole plan, for a program that loads checkpoints itself.
  /// docs/reference/checkpoints.md explains it.
  Result<std::string> mapJson(const Manifest &manifest,
                              const Symbols &symbols) const;

protected:
  LayerShape shape, mlp;
  std::optional<StoredLayout> stored; ///< if the layer has one
};

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_WEIGHTPLAN_H
