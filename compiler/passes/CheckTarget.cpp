//===- CheckTarget.cpp - rejects unsupported layers -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rejects options, parameters of catalog rows and sizes that no kernel
// supports. Reports all errors, not only the first.
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Passes.h"
#include "compiler/plan/Communication.h"
#include "compiler/plan/LayerLimits.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Shares.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"

#include "llvm/Support/FormatVariadic.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHECKTARGETPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

using compiler::Refuse;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// An option value that no backend supports. `isAsked` returns true if a layer
/// has that value.
struct OptionRule {
  StringRef name;
  bool (*isAsked)(moe::LayerOp layer);
  StringRef accepted;
};

bool isPositive(std::optional<int64_t> value) { return value.value_or(0) > 0; }

const OptionRule kOptionRules[] = {
    {"is_scale_swizzled", [](moe::LayerOp l) { return l.getIsScaleSwizzled(); },
     "scales of activations in their logical order; those of weights may be "
     "stored_layout scales_128x4"},
    {"placement",
     [](moe::LayerOp l) {
       return l.getParallel().getPlacement() != "linear" && !l.getExpertMap() &&
              !l.isBatched();
     },
     "linear, or any with expert_map"},
};

void checkOptions(moe::LayerOp layer, Refuse refuse) {
  for (const OptionRule &rule : kOptionRules)
    if (rule.isAsked(layer))
      refuse("option_not_supported", "no backend does option '" + rule.name +
                                         "'; accepted: " + rule.accepted);
}

/// Checks a batched layer, whose rows arrive grouped by expert. Its output rows
/// return to the sender in that order, so the sender must do all work per
/// token.
void checkBatched(moe::LayerOp layer, Refuse refuse) {
  if (!layer.isBatched())
    return;
  const std::pair<StringRef, bool> ofTokens[] = {
      {"n_shared_experts", isPositive(layer.getNSharedExperts())},
      {"num_zero_experts", isPositive(layer.getNumZeroExperts())},
      {"expert_map", layer.getExpertMap()},
      {"residual", layer.getResidual()},
      {"defer_moe_finalize", layer.getDeferMoeFinalize()},
      {"is_lora_enabled", layer.getIsLoraEnabled()}};
  for (const auto &[option, asked] : ofTokens)
    if (asked)
      refuse("option_not_supported",
             option + Twine(": with activation_format = batched rows come by "
                            "expert, and who sends them does what is done for "
                            "each token; accepted: one of the two"));
}

/// Checks a part of a layer. A part reads and writes tokens in the caller's
/// order.
void checkPart(moe::LayerOp layer, Refuse refuse) {
  if (!layer.getPart())
    return;
  const std::string part = "part " + layer.getPart()->str();
  if (layer.isBatched())
    refuse("option_not_supported",
           part + ": with activation_format = batched rows come by expert, and "
                  "parts are of tokens; accepted: the layer with "
                  "activation_format = standard");
  if (layer.isPart("quantize") && layer.getQuant().getA1().isPlain())
    refuse(
        "scheme_not_supported",
        part + ": the scheme does not quantize x, which is multiplied as " +
            compiler::elementTypeName(layer.getQuant().getA1().getElement()) +
            "; accepted: schemes that quantize activations");
  if ((layer.isPart("finalize") || layer.isPart("down")) &&
      layer.getDeferMoeFinalize())
    refuse("option_not_supported",
           part +
               ": with defer_moe_finalize the layer sums nothing over experts; "
               "accepted: one of the two");
}

/// Text for messages: for each kind of input, the way to specify that the
/// caller computes the shared experts.
constexpr StringLiteral kBesideLayer =
    "shared experts beside this layer (--no-shared-experts, option "
    "no_shared_experts of moec_compile_config, or a layer JSON without "
    "n_shared_experts)";

/// Checks shared experts with their own weights. Rejects options that apply to
/// the routed experts' weights or pairs, but not to shared experts.
void checkSharedMlp(moe::LayerOp layer, Refuse refuse) {
  const std::optional<compiler::Communication> moved =
      compiler::communicationOf(layer);
  const std::string exchange = moved ? moved->exchange : std::string();
  const std::pair<bool, std::string> others[] = {
      {layer.getHasBias(), "has_bias: biases are those of the others"},
      {layer.getGroupIndex(), "group_index: orders are those of the others"},
      {layer.padsWeights(),
       "stored_hidden_size and stored_intermediate_size_per_partition: what "
       "pads weights is known of "
       "the others"},
      {layer.getActivation().getPerExpert(),
       "an activation with numbers for each expert: these are of the others"},
      {layer.getIsLoraEnabled(),
       "is_lora_enabled: addends are of pairs, and they have none"},
      {layer.getDeferMoeFinalize(), "defer_moe_finalize: the caller sums over "
                                    "rows, and they have none there"},
      {!exchange.empty(), "all_to_all " + exchange +
                              ": a token comes to several ranks, and each "
                              "would add them"},
      {bool(layer.getPart()),
       "part: a part has nothing of their weights, and no other part would"}};
  for (const auto &[asked, reason] : others)
    if (asked)
      refuse("option_not_supported",
             "n_shared_experts have weights of their own, since " +
                 compiler::whySharedMlp(layer) + "; with " + reason +
                 "; accepted: one of the two, or " + kBesideLayer);
}

/// Checks the norm of each expert's output. The norm needs a whole output row,
/// so ranks may not split the experts' columns.
void checkPostExpertNorm(moe::LayerOp layer, Refuse refuse) {
  if (!layer.getPostExpertNormEps())
    return;
  const int64_t columns = layer.getIntermediateSizePerPartition().value_or(
      layer.getIntermediateSize());
  if (columns != int64_t(layer.getIntermediateSize()))
    refuse("option_not_supported",
           "post_expert_norm_eps: each of " +
               Twine(layer.getParallel().getShardSize()) +
               " shards (dp * pcp * tp) has a part of every sum, and the norm "
               "is of their sum; accepted: ranks that share out whole experts "
               "(use_ep)");
  const std::pair<bool, StringRef> others[] = {
      {layer.isBatched(),
       "activation_format = batched: rows go back to who sent them"},
      {layer.getDeferMoeFinalize(),
       "defer_moe_finalize: the caller sums over rows"},
      {layer.isPart("finalize"), "part finalize: it has no weights"},
      {layer.getIsLoraEnabled(), "is_lora_enabled: rows have no addends yet"},
      {layer.getApplyRouterWeightOnInput(),
       "apply_router_weight_on_input: the norm takes such a weight away"},
      {isPositive(layer.getNumZeroExperts()),
       "num_zero_experts: their rows are those of x"},
      {isPositive(layer.getNSharedExperts()),
       "n_shared_experts: the norm is of the others"}};
  for (const auto &[asked, reason] : others)
    if (asked)
      refuse("option_not_supported", "post_expert_norm_eps: not with " +
                                         reason + "; accepted: one of the two");
}

/// Checks constant experts, which have the last ids and no rows.
void checkConstantExperts(moe::LayerOp layer, Refuse refuse) {
  if (!isPositive(layer.getNumConstantExperts()))
    return;
  if (layer.getParallel().getFlatSize() > 1)
    refuse("option_not_supported",
           "num_constant_experts: each of " +
               Twine(layer.getParallel().getFlatSize()) +
               " ranks would add them; accepted: one rank");
  const std::pair<bool, StringRef> others[] = {
      {layer.isBatched(),
       "activation_format = batched: rows go back to who sent them"},
      {layer.getDeferMoeFinalize(),
       "defer_moe_finalize: the caller sums over rows"},
      {layer.isPart("finalize"), "part finalize: it has no weights"},
      {layer.getIsLoraEnabled(), "is_lora_enabled: they have no addends"},
      {layer.getApplyRouterWeightOnInput(),
       "apply_router_weight_on_input: their weights are of outputs"},
      {layer.getEnableEplb(), "enable_eplb: they have no replicas"},
      {layer.getExpertMap(), "expert_map: it has no entries for them"},
      {layer.getRouting().getGroups() > 0,
       "routing groups: they belong to none"},
      {layer.getRouting().getSinks() > 0,
       "routing sinks: both are the last experts"},
      {bool(layer.getPostExpertNormEps()),
       "post_expert_norm_eps: it is of computed outputs"},
      {isPositive(layer.getNumZeroExperts()),
       "num_zero_experts: both use the ids after the other experts"},
      {isPositive(layer.getNSharedExperts()),
       "n_shared_experts: both use the ids after the other experts"}};
  for (const auto &[asked, reason] : others)
    if (asked)
      refuse("option_not_supported", "num_constant_experts: not with " +
                                         reason + "; accepted: one of the two");
}

/// Checks combinations of options.
void checkTogether(moe::LayerOp layer, Refuse refuse) {
  const auto cannot = [&](const Twine &reason) {
    refuse("option_not_supported", reason);
  };
  const moe::QuantAttr quant = layer.getQuant();
  if (layer.getBatchInvariant() &&
      llvm::any_of(ArrayRef{quant.getA1(), quant.getA2()},
                   [](moe::DescriptorAttr operand) {
                     return operand.getDynamic() && operand.isOfTensor();
                   }))
    cannot("batch_invariant: scheme '" + quant.getScheme() +
           "' has one scale of all tokens, which depends on each of them; "
           "accepted: static scales, and scales per token or per column group");
  const StringRef method = layer.getRouting().getMethod();
  const catalog::RoutingMethod *row =
      catalog::find(catalog::kRoutingMethods, method);
  if (layer.getBatchInvariant() && !layer.isBatched() && row &&
      row->score.starts_with("drawn"))
    cannot("batch_invariant: routing '" + method +
           "' draws experts by a token's place among the others; accepted: "
           "another method");
  if (layer.getHashVocabulary() && layer.getRouting().getBias())
    cannot("hash_vocabulary: the experts of a token are found by its id, and "
           "a bias of the scores (e_score_correction_bias) would have no "
           "effect; accepted: one of the two");
  if (layer.getDeferMoeFinalize() && layer.getResidual())
    cannot(
        "residual: with defer_moe_finalize the caller sums over experts, and "
        "adds the residual then; accepted: one of the two");
  if (layer.getDeferMoeFinalize() && layer.getIsLoraEnabled())
    cannot("is_lora_enabled: with defer_moe_finalize the caller sums over "
           "experts, and adds "
           "what adapters give then; accepted: one of the two");
  if (isPositive(layer.getNumRedundantExperts()) && !layer.getEnableEplb())
    cannot("num_redundant_experts: only a layer with enable_eplb has an input "
           "that maps experts to replicas; accepted: both");
  // A batched layer is exempt: the sender has already multiplied its rows by
  // the top-k weights.
  const std::pair<bool, StringRef> withWeightOnInput[] = {
      {layer.getInputQuantized(),
       "input_quantized: x is multiplied before it is quantized"},
      {layer.getDeferMoeFinalize(),
       "defer_moe_finalize: the caller multiplies "
       "outputs, which have their weights already"},
      {layer.getApplyRoutedScaleToOutput() && layer.getRoutedScalingFactor(),
       "apply_routed_scale_to_output: it is a factor of weights that outputs "
       "have"},
      {layer.getSharedExpertGate(), "shared_expert_gate: it weighs outputs"},
      {isPositive(layer.getNumZeroExperts()),
       "num_zero_experts: their weights are of outputs"}};
  for (const auto &[asked, reason] : withWeightOnInput)
    if (asked && layer.getApplyRouterWeightOnInput() && !layer.isBatched())
      cannot(
          reason +
          ", not with apply_router_weight_on_input; accepted: one of the two");
  const std::pair<bool, StringRef> withZeroExperts[] = {
      {layer.getEnableEplb(), "enable_eplb: zero experts have no replicas"},
      {layer.getInputQuantized(),
       "input_quantized: zero experts return x before its quantization"},
      {layer.getDeferMoeFinalize(),
       "defer_moe_finalize: zero experts have no rows "
       "among those that the caller sums"},
      {layer.getRouting().getGroups() > 0,
       "routing groups: zero experts belong to none"},
      {bool(layer.getAllToAll()),
       "all_to_all: a token whose experts are zero experts goes to no rank"}};
  for (const auto &[asked, reason] : withZeroExperts)
    if (asked && isPositive(layer.getNumZeroExperts()))
      cannot(reason + "; accepted: one of the two");
  if (!isPositive(layer.getNSharedExperts())) {
    if (layer.getSharedExpertGate())
      cannot("shared_expert_gate: there are no shared experts; accepted: with "
             "n_shared_experts");
    if (isPositive(layer.getSharedIntermediateSize()))
      cannot("shared_intermediate_size: there are no shared experts; accepted: "
             "with "
             "n_shared_experts");
    return;
  }
  if (layer.getWidth() != layer.getHiddenSize())
    cannot("n_shared_experts: they read the layer's hidden of " +
           Twine(layer.getHiddenSize()) + ", the others a latent one of " +
           Twine(layer.getWidth()) + "; accepted: " + kBesideLayer);
  if (isPositive(layer.getNumZeroExperts()) && !layer.hasSharedMlp())
    cannot("n_shared_experts: zero experts use the ids after the other "
           "experts; accepted: " +
           kBesideLayer);
  if (layer.hasSharedMlp())
    checkSharedMlp(layer, refuse);
}

/// Returns true if an engine may leave accumulation to the tensor cores,
/// without promotion to f32. The operands must be 8-bit floats whose scales do
/// not change along K, because scales that change along K are applied in f32.
bool mayAccumulateFast(moe::QuantAttr quant) {
  if (quant.dequantizesWeights())
    return false;
  for (moe::DescriptorAttr operand : {quant.getA1(), quant.getA2()})
    if (!llvm::isa<FloatType>(operand.getElement()) ||
        operand.getElement().getIntOrFloatBitWidth() != 8 ||
        operand.isPlain() || operand.getGroup()[1] != -1)
      return false;
  return true;
}

void checkAccumulation(moe::LayerOp layer, Refuse refuse) {
  if (!layer.accumulatesFast() || mayAccumulateFast(layer.getQuant()))
    return;
  return refuse("option_not_supported",
                "accumulate 'fast' is for operands of 8-bit floats with a "
                "scale a tensor, channel or token (fp8_tensor, "
                "fp8_tensor_dynamic, fp8_channel); accepted: f32");
}

/// The maximum number of expert groups: the routing kernel assigns one group to
/// each lane of a warp.
constexpr int64_t kMaxGroups = 32;

/// Checks the division of experts into groups.
void checkGroups(moe::LayerOp layer, Refuse refuse,
                 const catalog::RoutingMethod &row) {
  const moe::RoutingAttr routing = layer.getRouting();
  const int64_t groups = routing.getGroups(), topK = layer.getTopK();
  const std::string method = "routing '" + routing.getMethod().str() + "' ";
  if (row.needs.contains("groups") && groups == 0)
    return refuse("option_not_supported",
                  method +
                      "needs groups of experts, got none; accepted: up to " +
                      Twine(kMaxGroups));
  if (groups > kMaxGroups)
    return refuse("size_not_supported",
                  "groups of experts are " + Twine(groups) +
                      "; accepted: at most " + Twine(kMaxGroups));
  if (row.select == "top_k_per_group" &&
      (topK % groups != 0 || routing.getTopGroups() != groups))
    return refuse("size_not_supported",
                  method +
                      "takes as many experts from each group, got top_k = " +
                      Twine(topK) + " of " + Twine(routing.getTopGroups()) +
                      " groups; accepted: a multiple of all " + Twine(groups));
}

/// Checks the sinks: the last experts, which every token selects.
void checkSinks(moe::LayerOp layer, Refuse refuse,
                const catalog::RoutingMethod &row) {
  const bool hasSinks = layer.getRouting().getSinks() > 0;
  const std::string method =
      "routing '" + layer.getRouting().getMethod().str() + "' ";
  if (row.needs.contains("sinks") && !hasSinks)
    return refuse("option_not_supported",
                  method + "needs 'sinks', experts that every token takes, got "
                           "none; accepted: 1 to top_k - 1");
  const std::pair<StringRef, bool> behindExperts[] = {
      {"n_shared_experts", isPositive(layer.getNSharedExperts())},
      {"num_zero_experts", isPositive(layer.getNumZeroExperts())}};
  for (const auto &[option, asked] : behindExperts)
    if (asked && hasSinks)
      refuse("option_not_supported",
             option + Twine(": sinks are the last experts, and no others "
                            "follow them; accepted: one of the two"));
}

/// Checks the parameters of catalog rows.
void checkParameters(moe::LayerOp layer, Refuse refuse) {
  const moe::RoutingAttr routing = layer.getRouting();
  const moe::ActivationAttr activation = layer.getActivation();
  if (std::string_view(routing.getMethod()) == catalog::kAutoRouting)
    return refuse("routing_not_supported",
                  "routing is still 'auto'; run moe-infer-routing first");
  const auto check = [&](StringRef what, StringRef name, StringRef parameter,
                         bool isGiven, WordList accepted) {
    if (!isGiven || accepted.contains(parameter))
      return;
    refuse(
        "option_not_supported",
        what + " '" + name + "' does not take '" + parameter + "'; accepted: " +
            (accepted.empty() ? "its name alone" : StringRef(accepted.text())));
  };
  const StringRef method = routing.getMethod();
  const catalog::RoutingMethod &row =
      *catalog::find(catalog::kRoutingMethods, method);
  const WordList options = row.options;
  check("routing", method, "groups", routing.getGroups() > 0, options);
  check("routing", method, "scale", bool(routing.getScale()), options);
  check("routing", method, "bias", routing.getBias(), options);
  check("routing", method, "softcap", bool(routing.getSoftcap()), options);
  check("routing", method, "logit_scale", bool(routing.getLogitScale()),
        options);
  check("routing", method, "epsilon", bool(routing.getEpsilon()), options);
  check("routing", method, "sinks", routing.getSinks() > 0, options);
  check("routing", method, "expert_scale", layer.getPerExpertScale(), options);
  check("routing", method, "table", isPositive(layer.getHashVocabulary()),
        options);
  checkGroups(layer, refuse, row);
  checkSinks(layer, refuse, row);
  const StringRef function = activation.getFunction();
  const WordList parameters = activation.getRow().parameters;
  if (activation.getRow().needs.contains("limit") && !activation.getLimit() &&
      !activation.getPerExpert())
    refuse("option_not_supported",
           "activation '" + function +
               "' needs a 'limit', got none; accepted: a number above 0");
  check("activation", function, "alpha", bool(activation.getAlpha()),
        parameters);
  check("activation", function, "beta", bool(activation.getBeta()), parameters);
  check("activation", function, "linear_beta", bool(activation.getLinearBeta()),
        parameters);
  check("activation", function, "limit", bool(activation.getLimit()),
        parameters);
  if (activation.getRow().function == "situ" &&
      !(activation.getNumbers().beta > 0))
    refuse("option_not_supported",
           "activation '" + function + "' divides by its 'beta', got " +
               llvm::formatv("{0}", activation.getNumbers().beta).str() +
               "; accepted: a number above 0");
  if (activation.getRow().function == "powlu" &&
      !(activation.getNumbers().alpha > 0))
    refuse("option_not_supported",
           "activation '" + function + "' is a power by its 'alpha', got " +
               llvm::formatv("{0}", activation.getNumbers().alpha).str() +
               "; accepted: a number above 0");
  if (activation.getPerExpert() && parameters.empty())
    refuse("option_not_supported", "activation '" + function +
                                       "' has no numbers that could be each "
                                       "expert's; accepted: no 'per_expert'");
  if (layer.getGateUpOrder() != "gate_first" && !layer.isGated())
    refuse("option_not_supported",
           "activation '" + function + "' has no gate, got gate_up_order '" +
               layer.getGateUpOrder() + "'; accepted: gate_first");
}

void checkSizes(moe::LayerOp layer, Refuse refuse) {
  const moe::DescriptorAttr a1 = layer.getQuant().getA1();
  const Type multiplied = layer.getQuant().dequantizesWeights()
                              ? layer.getComputeType()
                              : a1.getElement();
  int64_t bits = multiplied.getIntOrFloatBitWidth();
  // If x is only converted, its rows are loaded in the input type.
  if (a1.isPlain())
    bits = std::min<int64_t>(bits, layer.getInDtype().getIntOrFloatBitWidth());
  const int64_t elements = compiler::elementsPerPiece(bits);
  const int64_t intermediate = layer.getIntermediateSizePerPartition().value_or(
      layer.getIntermediateSize());
  struct SizeRule {
    StringRef name;
    int64_t size, multiple, most;
  };
  const SizeRule rules[] = {
      {"hidden_size", layer.getWidth(), elements, compiler::kMaxColumns},
      {"intermediate (of this rank)", intermediate,
       layer.isGated() ? std::max(elements, compiler::kGateUpRun) : elements,
       compiler::kMaxColumns},
      {"intermediate of shared experts (of this rank)",
       layer.getSharedIntermediateSizePerPartition().value_or(0),
       layer.isGated() ? std::max(elements, compiler::kGateUpRun) : elements,
       compiler::kMaxColumns},
      {"num_experts",
       std::max(layer.getRoutedExperts(), layer.getStoredExperts()), 1,
       compiler::kMaxExperts},
      {"number of pairs per token (top_k + n_shared_experts)",
       layer.getPairsOfToken(), 1, compiler::kMaxPairsPerToken},
  };
  for (const SizeRule &rule : rules) {
    if (rule.size % rule.multiple != 0)
      refuse("size_not_supported", rule.name + " is " + Twine(rule.size) +
                                       "; accepted: multiples of " +
                                       Twine(rule.multiple) + " (pieces of " +
                                       Twine(compiler::kRowPieceBytes) +
                                       " bytes; nothing is padded)");
    if (rule.size > rule.most)
      refuse("size_not_supported", rule.name + " is " + Twine(rule.size) +
                                       "; accepted: at most " +
                                       Twine(rule.most));
  }
}

struct CheckTargetPass : compiler::impl::CheckTargetPassBase<CheckTargetPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool failed =
        mlir::failed(compiler::targetsOf(module.getLoc(), *archs, gpu));
    for (auto layer : module.getOps<moe::LayerOp>()) {
      const auto refuse = [&](StringRef code, const Twine &reason) {
        failed = true;
        (void)compiler::refuse(layer, code, reason);
      };
      checkOptions(layer, refuse);
      checkBatched(layer, refuse);
      checkPart(layer, refuse);
      checkTogether(layer, refuse);
      checkPostExpertNorm(layer, refuse);
      checkConstantExperts(layer, refuse);
      checkAccumulation(layer, refuse);
      checkParameters(layer, refuse);
      failed |= mlir::failed(compiler::checkStoredWeights(layer));
      failed |= mlir::failed(compiler::checkCommunication(layer));
      compiler::checkTypes(layer, refuse);
      checkSizes(layer, refuse);
    }
    if (failed)
      signalPassFailure();
  }
};

} // namespace
