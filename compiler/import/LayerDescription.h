//===- LayerDescription.h - a layer as importers read it --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The description of a layer that every importer fills in and that
// BuildLayer.cpp converts to one moe.layer. It is plain data independent of
// MLIR, so that the readers of untrusted bytes are tested and fuzzed without
// MLIR. Members have the names of the IR. Catalog names are strings; "" means
// absent.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_LAYERDESCRIPTION_H
#define MOEC_COMPILER_IMPORT_LAYERDESCRIPTION_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moec::compiler {

/// The element type and scales of one operand, an activation or a weight.
struct DescriptorDescription {
  std::string element;        ///< an MLIR element type, "bf16", "f8E4M3FN"
  std::vector<int64_t> group; ///< {rows, columns} of one scale; -1 is all
  std::string scale;          ///< element type of the scales; "" for none
  bool dynamic = false;       ///< scales are computed at run time
  std::string secondScale;
  std::string scaleRule; ///< rule for dynamic f8E8M0FNU; "": default
  bool secondPerRow = false;
  std::string zeroPoint;

  bool operator==(const DescriptorDescription &) const = default;
};

struct QuantDescription {
  std::string scheme; ///< a name of the scheme table; "" if spelled out
  /// The number of weights along K that share a scale, -1 for all of K; 0: as
  /// the scheme specifies.
  int64_t groupSize = 0;
  DescriptorDescription a1, a2, w1, w2; ///< used if `scheme` is ""
  bool scalesSwizzled = false;

  bool operator==(const QuantDescription &) const = default;
};

struct RoutingDescription {
  /// A name of the routing table, or "auto": inferred from the members below as
  /// vLLM's get_routing_method_type does.
  std::string method = "auto";
  std::string scoring; ///< for auto: softmax, sigmoid or sqrtsoftplus
  std::optional<bool> renormalize; ///< for auto: normalize the weights
  int64_t groups = 0;
  int64_t topGroups = 0;
  std::optional<double> scale;
  bool bias = false;
  std::optional<double> softcap; ///< softcap of the router's logits
  /// logitScale: the factor of the router's logits. epsilon: the value added to
  /// the sum of the selected scores before the division. nullopt: the method's
  /// default.
  std::optional<double> logitScale, epsilon;
  int64_t sinks = 0; ///< number of last experts that all tokens select

  bool operator==(const RoutingDescription &) const = default;
};

struct ActivationDescription {
  std::string function = "silu";
  std::optional<double> alpha, beta, linearBeta, limit; ///< nullopt is not zero
  bool perExpert = false; ///< each expert has its own parameters

  bool operator==(const ActivationDescription &) const = default;
};

struct ParallelDescription {
  int64_t tp = 1, tpRank = 0;
  int64_t pcp = 1, pcpRank = 0;
  int64_t dp = 1, dpRank = 0;
  bool ep = false;
  int64_t sp = 1;
  std::string placement = "linear"; ///< expert placement: linear or round_robin
  bool eplb = false;                ///< expert replicas are rebalanced (EPLB)
  std::string allToAll;             ///< transport between ranks; "" for none
  bool allRanks = false;            ///< the package contains all ranks

  /// Returns the number of ranks that share the layer.
  int64_t ranks() const { return dp * pcp * tp; }
  /// Returns this process's flattened rank in vLLM's order: dp varies slowest,
  /// tp fastest.
  int64_t rank() const { return (dpRank * pcp + pcpRank) * tp + tpRank; }
  void setRank(int64_t rank) {
    tpRank = rank % tp;
    pcpRank = rank / tp % pcp;
    dpRank = rank / (tp * pcp);
  }

  bool operator==(const ParallelDescription &) const = default;
};

/// A map from moec's names to the corresponding names in the input.
using Words = std::map<std::string, std::string, std::less<>>;

/// The origin of a layer: what an importer read from a model's config, and what
/// it assumed because the config does not specify it. The origin has no effect
/// on the layer.
struct LayerOrigin {
  /// A key as in the input, and its value for this layer as JSON text.
  using Said = std::pair<std::string, std::string>;
  std::string model;    ///< architecture or model type; "": no model
  int64_t layer = 0;    ///< index in the model
  int64_t layers = 0;   ///< number of layers of the model
  bool isAsked = false; ///< --layer specified it
  std::vector<Said> read, assumed;
  Words words; ///< names of the input, for messages

  bool operator==(const LayerOrigin &) const = default;
};

struct LayerDescription {
  std::string name; ///< any text; BuildLayer.cpp derives a symbol
  int64_t experts = 0;
  int64_t topK = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0; ///< size before tensor parallelism
  std::string inputType;
  std::string outputType; ///< "": as inputType
  std::string logitsType; ///< "": as inputType
  RoutingDescription routing;
  ActivationDescription activation;
  QuantDescription quant;
  ParallelDescription parallel;
  bool hasBias = false;
  std::string gateUpOrder = "gate_first";
  std::string storedLayout = "rows";
  bool groupIndex = false; ///< g_idx maps each column of K to a scale group
  /// Element type of floating-point weights to quantize; "": already quantized.
  std::string weightsType;
  std::string accumulate = "f32";            ///< f32 or fast
  std::string activationFormat = "standard"; ///< standard or batched
  bool applyRouterWeightOnInput = false;
  bool routedScaleOnOutput = false;
  bool perExpertScale = false;
  /// Number of token ids in the table that provides expert ids; 0: no table.
  int64_t hashVocabulary = 0;
  int64_t zeroExperts = 0; ///< identity experts; ids follow the real experts
  /// Experts whose output is a constant vector; their ids are the last ones.
  int64_t constantExperts = 0;
  int64_t numSharedExperts = 0;
  /// Intermediate size of each shared expert; 0: as the routed experts.
  int64_t sharedIntermediate = 0;
  bool sharedExpertGate = false;
  int64_t redundantExperts = 0;
  bool deferFinalize = false;
  bool skipFinalAllReduce = false;
  bool lora = false;
  bool expertMap = false;
  bool inputQuantized = false;
  bool residual = false;
  bool batchInvariant = false;
  /// The epsilon of the RMS norm of each expert's output; nullopt: no norm.
  std::optional<double> postExpertNorm;
  std::string part;         ///< the part of the layer to compile; "": all of it
  int64_t latentHidden = 0; ///< width of x and output; 0: hidden
  /// The sizes of a rank's weights in memory including padding; 0: no padding.
  int64_t storedHidden = 0, storedIntermediate = 0;
  LayerOrigin origin;

  bool operator==(const LayerDescription &) const = default;
};

/// Returns the message with moec's names replaced by the names that the input
/// uses.
std::string inWords(std::string_view message, const Words &words);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_LAYERDESCRIPTION_H
