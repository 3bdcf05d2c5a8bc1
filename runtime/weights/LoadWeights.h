//===- LoadWeights.h - a layer's weights out of a checkpoint ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills the stored weights that a manifest names with this rank's part of one
// layer of a checkpoint: its experts, its columns of the intermediate, gates
// and ups in the layer's order. Numbers stay what they are: a type is changed
// only where every value is one of the other type too.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H
#define MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H

#include "runtime/package/Manifest.h"
#include "runtime/weights/CopyMatrix.h"
#include "runtime/weights/QuantizeWeights.h"
#include "runtime/weights/Safetensors.h"
#include "runtime/weights/TensorNames.h"

#include <set>

namespace moec::weights {

/// What of the manifest's `layer` says where weights lie in a checkpoint.
struct LayerShape {
  std::string name;
  int64_t experts = 0, shared = 0; ///< of the whole layer
  int64_t zeroExperts = 0;         ///< behind the experts; they have no weights
  int64_t localBegin = 0, localCount = 0, localStride = 1;
  int64_t hidden = 0;
  int64_t intermediate = 0;             ///< of the whole layer
  int64_t columnBegin = 0, columns = 0; ///< this rank's part of that
  bool gated = true;
  std::string gateUpOrder;
  /// Rows and columns that share a scale, -1 being all; 0 without scales.
  struct Group {
    int64_t rows = 0, columns = 0;
  };
  Group w1, w2;
  WeightFormat format1, format2; ///< what a float weight is quantized to
  int64_t codeBits = 8;          ///< of both weights
  bool groupIndex = false;       ///< columns say their groups
  bool sharedGate = false;       ///< shared experts are weighed
  bool storesFloats = false;     ///< which packing quantizes

  /// Errors are InvalidManifest, or Refused for a layer whose weights no
  /// checkpoint says (replicas of experts).
  static Result<LayerShape> read(const nlohmann::json &layer);
};

/// What a manifest's layer says of how stored values lie: its fields, with the
/// types that they must have.
Result<nlohmann::json> readStoredLayout(const nlohmann::json &described);

struct LoadOptions {
  int64_t layer = -1; ///< the model's; -1: the first that has experts
  /// The checkpoint's weights are floats, which become what the layer has.
  bool quantize = false;
  /// The caller computes the checkpoint's shared experts.
  bool noSharedExperts = false;
  /// Tensors that have one of these words, and that no value takes, are left
  /// out. Each word must name one.
  std::vector<std::string> ignored;
};

class WeightLoader {
public:
  /// Refuses a checkpoint of which a tensor of the layer's experts, shared
  /// experts or router is neither taken by a value nor known to be irrelevant.
  static Result<WeightLoader> create(Checkpoint &checkpoint,
                                     const Manifest &manifest,
                                     const LoadOptions &options = {});

  int64_t layer() const { return number; }

  /// Fills all bytes of a stored weight. Errors name the tensor, what was
  /// expected and what came.
  Result<void> load(const Value &value, std::span<std::byte> to);

private:
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
  };
  /// A tensor of the layer.
  struct Found {
    std::string name;
    TensorName parsed;
  };
  /// What is copied to where.
  struct Piece;
  /// An expert's rows and columns in a tensor.
  struct Source {
    SourceMatrix matrix;
    Conversion conversion = Conversion::Copy;
    bool inverse = false;
    std::string tensor;
  };

  explicit WeightLoader(Checkpoint &checkpoint) : checkpoint(checkpoint) {}

  Result<void> findLayer(int64_t layer);
  /// CheckTensors.cpp.
  Result<void> checkTaken(const Manifest &manifest, const LoadOptions &options);
  Result<std::set<std::pair<Part, Kind>>> takenBy(const Manifest &manifest,
                                                  bool quantize) const;
  bool isOfThisRank(const TensorRole &role) const;
  Result<void> checkSymmetric(const Found &found);
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
  /// Of the checkpoint, or made of it.
  Result<const StoredTensor *> tensorOf(const Found &found);
  Result<Wanted> wantedOf(const Value &value) const;
  Result<void> loadExperts(const Wanted &wanted, std::span<std::byte> to);
  Result<void> loadInputScales(const Wanted &wanted, std::span<std::byte> to);
  /// The groups of columns of a part of an expert.
  struct Index {
    std::vector<int32_t> groups;
    std::string tensor;
  };
  static Wanted wantedIndex(std::string value, bool first);
  std::vector<Part> partsOf(bool first) const;
  /// Parts that may hold a part: gates and ups may be together.
  std::vector<Part> candidatesOf(Part part) const;
  /// What holds a value of the layer itself, not of its experts.
  static std::optional<Kind> kindOfLayer(std::string_view value);
  static bool isOfExperts(std::string_view value);
  Result<Index> readIndex(const Wanted &wanted, int64_t expert, Part part);
  Result<void> loadGroupIndex(const Value &value, std::span<std::byte> to);
  /// That columns of codes are in the order that the layer says.
  Result<void> checkOrder(const Wanted &codes);
  Result<void> loadRouting(const Value &value, Kind kind,
                           std::span<std::byte> to);
  const Found *look(const Wanted &wanted, bool shared, int64_t expert,
                    Part part) const;
  Result<Source> find(const Wanted &wanted, int64_t expert, Part part);
  Result<Source> view(const Wanted &wanted, const Found &found, int64_t expert,
                      Part part);
  Result<bool> bareAreTransposed();
  Error missing(const Wanted &wanted, int64_t expert, Part part) const;

  Checkpoint &checkpoint;
  LayerShape shape;
  nlohmann::json stored; ///< the layer's stored layout, if it has another one
  int64_t number = -1;
  std::map<TensorRole, Found> tensors;
  struct Made {
    std::vector<std::byte> bytes;
    StoredTensor tensor;
  };
  std::map<std::string, Made> quantized;
};

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_LOADWEIGHTS_H
