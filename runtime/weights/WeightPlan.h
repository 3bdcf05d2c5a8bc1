//===- WeightPlan.h - maps checkpoint tensors to values ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plan for loading weights, which is derived from a manifest without a
// checkpoint. For each stored weight it contains the kinds of tensors that hold
// it, this rank's rows and columns of these tensors, and the position of these
// rows and columns in the weight.
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

/// The fields of the manifest's `layer` that define the location of weights in
/// a checkpoint.
struct LayerShape {
  std::string name;
  int64_t experts = 0, shared = 0; ///< expert counts of the whole layer
  /// Number of shared experts that the router treats as its last experts and
  /// always selects.
  int64_t sinks = 0;
  int64_t zeroExperts = 0; ///< number of expert ids without weights, which
                           ///< follow the ids of experts
  int64_t localBegin = 0, localCount = 0, localStride = 1;
  int64_t hidden = 0;
  int64_t intermediate = 0; ///< intermediate size of the whole layer
  /// This rank's columns of the intermediate size.
  int64_t columnBegin = 0, columns = 0;
  /// Like intermediate, columnBegin and columns, for shared experts that form
  /// one MLP with its own weights. 0 if shared experts follow the routed
  /// experts in the same weights.
  int64_t sharedIntermediate = 0, sharedBegin = 0, sharedColumns = 0;
  bool gated = true;
  GateUpOrder order;
  /// Extents of a group that shares a scale; -1: whole extent; 0: no scales.
  struct Group {
    int64_t rows = 0, columns = 0;
    /// True: each row has a second scale; false: each part has one.
    bool secondPerRow = false;
  };
  Group w1, w2;
  /// The formats to which packing quantizes floating-point weights w13 and w2.
  WeightFormat format1, format2;
  int64_t codeBits = 8;    ///< bits per quantized value in w13 and w2
  bool groupIndex = false; ///< the checkpoint contains the group of each column
  bool sharedGate = false; ///< a gate computes the weight of the shared experts
  /// The stored weights are floats, and packing quantizes them.
  bool storesFloats = false;
  /// Names of activation scales that the user's scheme has but the package does
  /// not use.
  std::vector<std::string> leftOut;

  bool hasSharedMlp() const { return sharedIntermediate > 0; }
  /// Returns the shape of a layer whose only expert is the shared experts' MLP.
  /// This expert's index follows the indices of the routed experts.
  LayerShape ofSharedMlp() const;

  /// Reads the shape from a manifest. Returns InvalidManifest for an invalid
  /// layer, or Refused for a layer with expert replicas, which no checkpoint
  /// describes.
  static Result<LayerShape> read(const nlohmann::json &layer);
};

/// The manifest's layer.stored_layout: the layout of quantized tensors in a
/// checkpoint.
struct StoredLayout {
  struct Unit {
    std::string packed; ///< direction in which a 32-bit word holds several
                        ///< codes: "rows" or "columns"
    bool rowsLast = false;
    int64_t added = 0; ///< 1 if each code is stored minus one, else 0
    bool atoms = false;
  };
  std::string name;
  Unit weights, scales, zeroPoints;
};
Result<StoredLayout> readStoredLayout(const nlohmann::json &described);

/// Returns the number of groups in `extent`. If `group` is -1, the whole extent
/// is one group.
inline int64_t groupsIn(int64_t extent, int64_t group) {
  return group == -1 ? 1 : (extent + group - 1) / group;
}

/// `count` rows or columns: begin, begin + step, begin + 2 * step, ...
struct Lines {
  int64_t begin = 0, count = 0, step = 1;
};

/// Describes how a value is filled: the kinds of tensors that its experts need,
/// and their layout.
struct Wanted {
  std::string value;   ///< name of the value, for messages
  std::string element; ///< element type of the value
  int64_t bits = 8;
  std::vector<Kind> kinds; ///< kinds of tensors that may hold the value
  bool first = true;       ///< belongs to the first matmul
  /// The elements are codes; one stored element may hold several.
  bool packed = false;
  LayerShape::Group group;
  /// rowAxis: the dimension of the value that contains an expert's rows (1 or
  /// 2; dimension 0 is the expert). The other members are the numbers of rows
  /// and columns per stored element.
  int64_t rowAxis = 1, rowsPerElement = 1, columnsPerElement = 1;
  /// The value has one row per weight row, so its gate and up rows alternate if
  /// the layer's order alternates.
  bool rowsInOrder = false;
  bool ofSharedMlp = false; ///< belongs to shared experts with their own
                            ///< weights
};

/// Extents of a tensor that holds one part of one expert.
struct PartExtents {
  int64_t rows = 0, columns = 0; ///< in groups that share one value
};

/// Maps the stored weights of a layer to the tensors of a checkpoint.
class WeightPlan {
public:
  static Result<WeightPlan> create(const Manifest &manifest);

  /// Returns the layer-wide index of the value's local expert `local`. Shared
  /// experts follow the routed experts.
  int64_t expertAt(const Wanted &wanted, int64_t local) const {
    const LayerShape &of = shapeOf(wanted);
    return of.localBegin + local * of.localStride;
  }
  /// Returns the layer shape that applies to the value.
  const LayerShape &shapeOf(const Wanted &wanted) const {
    return wanted.ofSharedMlp ? mlp : shape;
  }

  /// Returns the tensor kind for a value that belongs to the layer itself, or
  /// nullopt for a value that belongs to its experts.
  static std::optional<Kind> kindOfLayer(std::string_view value);
  /// Returns true if the value belongs to shared experts with their own
  /// weights. Such a value has the name of the routed experts' value with the
  /// prefix "shared_".
  static bool isOfSharedMlp(std::string_view value);
  static bool isOfExperts(std::string_view value);
  /// Returns true for an activation scale. It has one element per expert of the
  /// whole layer, independent of the rank.
  static bool isInputScale(std::string_view value);
  static bool isGroupIndex(std::string_view value);

  /// Returns how a value of the experts is filled. The value must not be a
  /// group index.
  Result<Wanted> wantedOf(const Value &value) const;
  static Wanted wantedIndex(std::string value, bool first);
  static Wanted wantedInputScale(const Value &value);
  /// Calls wantedOf(), wantedIndex() or wantedInputScale(), depending on the
  /// value. Returns nullopt for values of the layer itself.
  Result<std::optional<Wanted>> wantedIfKnown(const Value &value) const;
  std::vector<Part> partsOf(bool first) const;
  /// Returns the Parts that the name of a tensor with `part` may have. Gate and
  /// up may share a tensor, and without gates the first weight may be called
  /// gate or up.
  std::vector<Part> candidatesOf(Part part) const;

  /// Returns the extents of a tensor that holds one part. `wide`: the extent
  /// along the intermediate dimension (rows of gate and up, columns of down).
  PartExtents extentsOf(const Wanted &wanted, int64_t wide) const;
  /// Return this rank's rows and columns of a tensor with the extents
  /// `extents`. `begin`: start of this rank's share along the intermediate
  /// dimension.
  Lines rowsOf(const Wanted &wanted, const PartExtents &extents,
               int64_t begin) const;
  Lines columnsOf(const Wanted &wanted, const PartExtents &extents,
                  int64_t begin) const;
  /// Returns the rows of `part` in a tensor of part `holder`, which holds 2 *
  /// `rows` rows of gate and up. Returns nullopt if one element or scale would
  /// belong to both gate and up.
  std::optional<Lines> linesTogether(const Wanted &wanted, Part holder,
                                     Part part, int64_t rows) const;
  /// Returns the rows at which a part's `rows` rows are stored in an expert's
  /// matrix of the value.
  Result<Lines> placeOf(const Wanted &wanted, Part part, int64_t rows) const;

  /// Returns the whole plan as JSON, for programs that load checkpoints
  /// themselves. docs/reference/checkpoints.md describes the JSON.
  Result<std::string> mapJson(const Manifest &manifest,
                              const Symbols &symbols) const;

protected:
  LayerShape shape, mlp;
  /// Empty if the layer has no stored_layout.
  std::optional<StoredLayout> stored;
};

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_WEIGHTPLAN_H
