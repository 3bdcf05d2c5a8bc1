//===- LayerDescription.h - a layer as importers read it --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The description of a layer that every importer fills in, and that
// BuildLayer.cpp turns into one moe.layer. Plain data without IR, so that the
// readers of foreign bytes are tested (and fuzzed) without MLIR. Members have
// the IR's names, whatever an input calls them. Catalog names are words; ""
// means absent.
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

/// How one operand (an activation or a weight) is represented.
struct DescriptorDescription {
  std::string element;        ///< an MLIR element type, "bf16", "f8E4M3FN"
  std::vector<int64_t> group; ///< {rows, columns} of one scale; -1 = all
  std::string scale;          ///< element type of the scales, "" for none
  bool dynamic = false;       ///< scales are computed at run time
  std::string secondScale;
  std::string scaleRule; ///< of dynamic f8E8M0FNU; "": the type's
  bool secondPerRow = false;
  std::string zeroPoint;

  bool operator==(const DescriptorDescription &) const = default;
};

struct QuantDescription {
  std::string scheme; ///< a name of the scheme table; "" if spelled out
  /// Weights along k that share a scale, -1 for all of k; 0: as the scheme
  /// says.
  int64_t groupSize = 0;
  DescriptorDescription a1, a2, w1, w2; ///< used when `scheme` is ""
  bool scalesSwizzled = false;

  bool operator==(const QuantDescription &) const = default;
};

struct RoutingDescription {
  /// A name of the routing table, or "auto": inferred from the fields below as
  /// vLLM's get_routing_method_type does.
  std::string method = "auto";
  std::string scoring;             ///< softmax, sigmoid, sqrtsoftplus; for auto
  std::optional<bool> renormalize; ///< for auto
  int64_t groups = 0;
  int64_t topGroups = 0;
  std::optional<double> scale;
  bool bias = false;
  std::optional<double> softcap; ///< cap of the router's logits
  /// A factor of the router's logits, and what the sum of the chosen scores
  /// gets before it divides them; absent is the method's.
  std::optional<double> logitScale, epsilon;
  int64_t sinks = 0; ///< the last experts, which all tokens take

  bool operator==(const RoutingDescription &) const = default;
};

struct ActivationDescription {
  std::string function = "silu";
  std::optional<double> alpha, beta, linearBeta, limit; ///< absent is not zero
  bool perExpert = false; ///< each expert has numbers of its own

  bool operator==(const ActivationDescription &) const = default;
};

struct ParallelDescription {
  int64_t tp = 1, tpRank = 0;
  int64_t pcp = 1, pcpRank = 0;
  int64_t dp = 1, dpRank = 0;
  bool ep = false;
  int64_t sp = 1;
  std::string placement = "linear"; ///< of experts; or round_robin
  bool eplb = false;                ///< replicas of experts are rebalanced
  std::string allToAll;  ///< the transport between ranks; "" for none
  bool allRanks = false; ///< the package is for all of them

  /// The ranks that share the layer.
  int64_t ranks() const { return dp * pcp * tp; }
  /// This one among them, as vLLM flattens: dp slowest, tp fastest.
  int64_t rank() const { return (dpRank * pcp + pcpRank) * tp + tpRank; }
  void setRank(int64_t rank) {
    tpRank = rank % tp;
    pcpRank = rank / tp % pcp;
    dpRank = rank / (tp * pcp);
  }

  bool operator==(const ParallelDescription &) const = default;
};

/// moec's words and what the input calls the same.
using Words = std::map<std::string, std::string, std::less<>>;

/// The origin of a layer: what an importer read of a model, and what it assumed
/// because the input does not say it. It changes nothing of the layer.
struct LayerOrigin {
  /// A key as the input has it, and its value for this layer as JSON text.
  using Said = std::pair<std::string, std::string>;
  std::string model;    ///< architecture or model type; "": no model
  int64_t layer = 0;    ///< of the model
  int64_t layers = 0;   ///< that the model has
  bool isAsked = false; ///< --layer said it; else the first with experts
  std::vector<Said> read, assumed;
  Words words; ///< of the input, for messages

  bool operator==(const LayerOrigin &) const = default;
};

struct LayerDescription {
  std::string name; ///< any text; BuildLayer makes a symbol of it
  int64_t experts = 0;
  int64_t topK = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0; ///< the whole layer's
  std::string inputType;
  std::string outputType; ///< "" = inputType
  std::string logitsType; ///< "" = inputType
  RoutingDescription routing;
  ActivationDescription activation;
  QuantDescription quant;
  ParallelDescription parallel;
  bool hasBias = false;
  std::string gateUpOrder = "gate_first";
  std::string storedLayout = "rows";
  bool groupIndex = false; ///< columns of k are in groups that an index says
  std::string weightsType; ///< of floats that become codes; "": the scheme's
  std::string accumulate = "f32";            ///< or fast
  std::string activationFormat = "standard"; ///< or batched
  bool applyRouterWeightOnInput = false;
  bool routedScaleOnOutput = false;
  bool perExpertScale = false;
  int64_t hashVocabulary = 0;  ///< ids come from a table by token id; 0: not
  int64_t zeroExperts = 0;     ///< identity experts behind the real ones
  int64_t constantExperts = 0; ///< behind the real ones; each is a vector
  int64_t numSharedExperts = 0;
  int64_t sharedIntermediate = 0; ///< of each; 0: as the routed experts'
  bool sharedExpertGate = false;
  int64_t redundantExperts = 0;
  bool deferFinalize = false;
  bool skipFinalAllReduce = false;
  bool lora = false;
  bool expertMap = false;
  bool inputQuantized = false;
  bool residual = false;
  bool batchInvariant = false;
  /// Each expert's output becomes its RMS norm with this epsilon; absent: not.
  std::optional<double> postExpertNorm;
  std::string part;         ///< what of the layer is compiled; "": all of it
  int64_t latentHidden = 0; ///< the experts' width; 0: the layer's
  /// Sizes of a rank's weights as stored, with padding; 0: there is none.
  int64_t storedHidden = 0, storedIntermediate = 0;
  LayerOrigin origin;

  bool operator==(const LayerDescription &) const = default;
};

/// A message with the input's words in place of moec's.
std::string inWords(std::string_view message, const Words &words);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_LAYERDESCRIPTION_H
