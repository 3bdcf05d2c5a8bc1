//===- MoeLayerTensors.cpp - the tensors of a layer -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only list of a layer's inputs and outputs. The arguments of programs, the
// verifier of programs and the values in manifests are derived from this list.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"
#include "dialect/catalog/RoutingMethods.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

static constexpr StringRef kFloats = "f32 f16 bf16";

namespace {
/// The properties of a tensor other than its name, role and type.
struct Traits {
  int64_t alignment = 16;
  StringRef otherTypes = "";
  bool rowStride = false;
  bool ofRows = false;
};

class TensorList {
public:
  explicit TensorList(LayerOp layer)
      : layer(layer), quant(layer.getQuant()), context(layer.getContext()),
        i32(IntegerType::get(context, 32)), f32(Float32Type::get(context)),
        experts(*layer.getLocalExperts()), width(layer.getWidth()) {
    weights = {"", experts, layer.getStoredExperts(),
               *layer.getIntermediateSizePerPartition(),
               layer.getStoredInner()};
  }

  SmallVector<LayerTensor> build() {
    if (layer.getPart()) {
      addPart();
      return std::move(tensors);
    }
    addX();
    if (layer.isBatched())
      add("expert_num_tokens", TensorRole::Input, {experts}, i32, {4});
    else
      addTokens();
    addWeights();
    if (!layer.isBatched())
      addWeightsOfRouting();
    addWeightsOfExperts();
    if (const auto columns = layer.getSharedIntermediateSizePerPartition()) {
      const auto inner = int64_t(*columns);
      weights = {catalog::kSharedPrefix, 1, 1, inner, inner};
      addWeights();
    }
    addOutputs();
    return std::move(tensors);
  }

private:
  /// A group of experts whose weights are stored in one tensor.
  struct Weights {
    StringRef prefix;        ///< prefix of the weights' names
    int64_t experts = 0;     ///< number of experts on this rank
    int64_t ofAll = 0;       ///< number of experts on all ranks
    int64_t inner = 0;       ///< intermediate size on this rank
    int64_t storedInner = 0; ///< intermediate size including padding
  };

  /// Adds a tensor. `stored` is its shape including padding.
  void add(StringRef name, TensorRole role, ArrayRef<int64_t> shape, Type type,
           Traits traits = {}, ArrayRef<int64_t> stored = {}) {
    LayerTensor &tensor = tensors.emplace_back();
    tensor.name = name;
    tensor.role = role;
    tensor.type = RankedTensorType::get(
        shape, type,
        storedLayoutOf(name, stored.empty() || stored == shape
                                 ? stored.take_front(0)
                                 : stored.drop_front()));
    tensor.alignment = traits.alignment;
    tensor.rowStride = traits.rowStride;
    // All rows of a batched layer are grouped by expert.
    tensor.ofRows = traits.ofRows || layer.isBatched();
    const std::string own = toString(type);
    SmallVector<StringRef> others;
    traits.otherTypes.split(others, ' ', -1, /*KeepEmpty=*/false);
    for (const StringRef other : others)
      if (other != own)
        tensor.otherTypes.push_back(other);
  }

  void addWeight(StringRef name, ArrayRef<int64_t> shape, Type type,
                 int64_t alignment = 16) {
    add(nameOfWeight(name), TensorRole::StoredWeight, shape, type, {alignment});
  }

  /// Returns the name of a weight as a string that lives as long as the
  /// context.
  StringRef nameOfWeight(StringRef name) {
    return weights.prefix.empty()
               ? name
               : StringAttr::get(context, weights.prefix + name).getValue();
  }

  using Shape = SmallVector<int64_t, 3>;

  /// Adds a weight whose shape depends on the hidden and intermediate size of
  /// this rank, both of which may be padded in memory.
  void addSized(StringRef name, Type type,
                llvm::function_ref<Shape(int64_t width, int64_t inner)> shape) {
    add(nameOfWeight(name), TensorRole::StoredWeight,
        shape(width, weights.inner), type, {},
        shape(layer.getStoredWidth(), weights.storedInner));
  }

  static std::string toString(Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  }

  /// Returns the stored layout of a weight, or null if kernels can read it
  /// directly. `padded` is empty without padding.
  LayoutAttr storedLayoutOf(StringRef name, ArrayRef<int64_t> padded) {
    const StringRef row = layer.getStoredLayout();
    const catalog::StoredLayout &layout =
        *catalog::find(catalog::kStoredLayouts, row);
    return catalog::storedTensor(layout, name).isAsRead() && padded.empty()
               ? LayoutAttr()
               : LayoutAttr::getStored(context, row, padded);
  }

  void addX() {
    const DescriptorAttr a1 = quant.getA1();
    const Traits traits = {16, "", /*rowStride=*/true};
    if (!layer.getInputQuantized()) {
      add("x", TensorRole::Input, {kAny, width}, layer.getInDtype(), traits);
      return;
    }
    add("x", TensorRole::Input, {kAny, width}, a1.getElement(), traits);
    // An emulated matmul reads the result of moe.dequantize, so x keeps the
    // scheme's types. Other matmuls read the types that kernels use.
    const bool emulated = quant.getRealization(true) == Realization::Emulated;
    const RankedTensorType scale = scalesOfRows(a1, width);
    add("x_scale", TensorRole::Input, scale.getShape(),
        emulated ? a1.getScale() : scale.getElementType());
    const Type second = emulated ? a1.getSecondScale() : Type();
    if (second && a1.getSecondPerRow())
      add("x_second_scale", TensorRole::Input, {kAny, 1}, second, {4});
    else if (second)
      add("x_second_scale", TensorRole::Input, {1}, second, {4});
  }

  /// Adds the tensors of a part, which have the same names as in the whole
  /// layer.
  void addPart() {
    const DescriptorAttr a1 = quant.getA1();
    const Traits ofX = {16, "", /*rowStride=*/true};
    const int64_t pairs = layer.getPairsOfToken();
    if (layer.hasMatmul()) {
      addPartOfExperts();
      return;
    }
    if (layer.isPart("finalize")) {
      if (layer.getNumZeroExperts().value_or(0) > 0)
        add("x", TensorRole::Input, {kAny, width}, layer.getInDtype(), ofX);
      add("partials", TensorRole::Input, {kAny, pairs, width},
          layer.getOutDtype());
      addGiven(TensorRole::Input);
      addPlaces();
      if (layer.getIsLoraEnabled())
        addDownAddend();
      addResidual();
      add("out", TensorRole::Output, {kAny, width}, layer.getOutDtype());
      return;
    }
    const bool quantizes = layer.isPart("quantize");
    if (quantizes)
      add("x", TensorRole::Input, {kAny, width}, layer.getInDtype(), ofX);
    if (!quantizes || layer.weighsX()) {
      addRouting();
      addWeightsOfRouting();
    } else if (a1.getDynamic() && a1.isOfTensor()) {
      add("valid_tokens", TensorRole::OptionalInput, {1}, i32, {4});
    }
    if (quantizes && a1.isPlain())
      return; // a later check reports this error: there are no codes
    if (quantizes) {
      addScale("a1_scale", a1);
      const RankedTensorType scale = scalesOfRows(a1, width);
      const Traits ofRows = {16, "", false, layer.weighsX()};
      add("x_q", TensorRole::Output, {kAny, width}, a1.getElement(), ofRows);
      add("x_scale", TensorRole::Output, scale.getShape(),
          scale.getElementType(), ofRows);
      return;
    }
    add("ids", TensorRole::Output, {kAny, pairs}, i32, {4});
    add("weights", TensorRole::Output, {kAny, pairs}, f32, {4});
    if (layer.hasPlaces())
      add("places", TensorRole::Output, {kAny, pairs}, i32, {4});
  }

  /// Adds the tensors of a part with one of the two matmuls. The intermediate
  /// has a row per pair, and the type of x.
  void addPartOfExperts() {
    const bool first = layer.hasGateUp();
    const Traits ofPairs = {16, "", false, /*ofRows=*/true};
    const auto addIntermediate = [&](TensorRole role) {
      add("intermediate", role, {kAny, weights.inner}, layer.getInDtype(),
          ofPairs);
    };
    if (first)
      addX();
    else
      addIntermediate(TensorRole::Input);
    if (!first && layer.getNumZeroExperts().value_or(0) > 0)
      add("x", TensorRole::Input, {kAny, width}, layer.getInDtype(),
          {16, "", /*rowStride=*/true});
    addGiven(TensorRole::Input);
    addPlaces();
    if (layer.getIsLoraEnabled() && first)
      addGateUpAddend();
    else if (layer.getIsLoraEnabled())
      addDownAddend();
    if (!first)
      addResidual();
    addWeights();
    addWeightsOfExperts();
    if (first)
      addIntermediate(TensorRole::Output);
    else
      add("out", TensorRole::Output, {kAny, width}, layer.getOutDtype());
  }

  /// Adds the caller's tensors with a row per token.
  void addTokens() {
    addRouting();
    if (layer.getIsLoraEnabled()) {
      addGateUpAddend();
      addDownAddend();
    }
    addResidual();
  }

  void addGateUpAddend() {
    add("gate_up_addend", TensorRole::OptionalInput, {kAny, layer.getW13Rows()},
        layer.getInDtype(), {16, "", false, /*ofRows=*/true});
  }

  void addDownAddend() {
    add("down_addend", TensorRole::OptionalInput, {kAny, width},
        layer.getInDtype(), {16, "", false, /*ofRows=*/true});
  }

  void addResidual() {
    if (layer.getResidual())
      add("residual", TensorRole::OptionalInput, {kAny, width},
          layer.getOutDtype());
  }

  /// Adds the tensors that determine the routing of tokens.
  void addRouting() {
    if (!layer.getRouting().takesGivenIdsAlone())
      add("logits", TensorRole::OptionalInput, {kAny, layer.getRoutedExperts()},
          layer.getRouterLogitsDtype(), {4, kFloats});
    addGiven(TensorRole::OptionalInput);
    if (vocabulary() > 0)
      add("token_ids", TensorRole::OptionalInput, {kAny}, i32, {8, "i64"});
    addPlaces();
  }

  void addGiven(TensorRole role) {
    add("given_ids", role, {kAny, layer.getTopK()}, i32, {8, "i64"});
    add("given_weights", role, {kAny, layer.getTopK()}, f32, {4, kFloats});
    add("valid_tokens", TensorRole::OptionalInput, {1}, i32, {4});
  }

  /// Adds the maps from expert ids to weights, and the gate of shared experts.
  void addPlaces() {
    constexpr TensorRole input = TensorRole::Input;
    if (layer.getEnableEplb()) {
      add("logical_to_physical", input,
          {layer.getNumExperts(),
           layer.getNumRedundantExperts().value_or(0) + 1},
          i32, {4});
      add("replica_count", input, {layer.getNumExperts()}, i32, {4});
    }
    if (layer.getExpertMap())
      add("expert_map", input, {layer.getPhysicalExperts()}, i32, {4});
    if (layer.getSharedExpertGate())
      add("shared_gate", input, {kAny, 1}, layer.getRouterLogitsDtype(),
          {4, kFloats});
  }

  void addWeights() {
    const DescriptorAttr a1 = quant.getA1(), a2 = quant.getA2();
    const bool areFloats = layer.quantizesWeights();
    const bool first = layer.hasGateUp(), second = layer.hasDown();
    if (first)
      addSized("w13",
               areFloats ? *layer.getWeightsDtype()
                         : quant.getW1().getElement(),
               [&](int64_t width, int64_t inner) {
                 return Shape{weights.experts, parts() * inner, width};
               });
    if (second)
      addSized("w2",
               areFloats ? *layer.getWeightsDtype()
                         : quant.getW2().getElement(),
               [&](int64_t width, int64_t inner) {
                 return Shape{weights.experts, width, inner};
               });
    if (!areFloats)
      addWeightScales();
    if (layer.getGroupIndex() && first)
      addWeight("w13_group_index", {experts, width}, i32);
    if (layer.getGroupIndex() && second)
      addWeight("w2_group_index",
                {experts, *layer.getIntermediateSizePerPartition()}, i32);
    const bool quantizesX = first && !layer.getInputQuantized();
    if (quantizesX)
      addScale("a1_scale", a1);
    if (second)
      addScale("a2_scale", a2);
    if (quantizesX)
      addSecondScale("a1_second_scale", a1);
    if (second)
      addSecondScale("a2_second_scale", a2);
  }

  /// Adds a static scale of activations, with one value per expert of all
  /// ranks, so that all ranks quantize identically.
  void addScale(StringRef name, DescriptorAttr descriptor) {
    if (!descriptor.isPlain() && !descriptor.getDynamic())
      addWeight(name, {weights.ofAll}, descriptor.getScale());
  }

  /// Adds the second scale of activations with dynamic scales, if the layer's
  /// weights include one.
  void addSecondScale(StringRef name, DescriptorAttr descriptor) {
    if (descriptor.hasStoredSecondScale())
      addWeight(name, {weights.ofAll}, descriptor.getSecondScale());
  }

  void addWeightScales() {
    const DescriptorAttr w1 = quant.getW1(), w2 = quant.getW2();
    const auto ofGroups1 = [&](int64_t width, int64_t inner) {
      return scaleShape(w1, weights.experts, parts(), inner, width);
    };
    const auto ofGroups2 = [&](int64_t width, int64_t inner) {
      return scaleShape(w2, weights.experts, 1, width, inner);
    };
    const bool first = layer.hasGateUp(), second = layer.hasDown();
    if (first && !w1.isPlain() && !w1.getDynamic())
      addSized("w13_scale", w1.getScale(), ofGroups1);
    if (second && !w2.isPlain() && !w2.getDynamic())
      addSized("w2_scale", w2.getScale(), ofGroups2);
    // Gate and up have one second scale each, or each row has one.
    if (const Type type = w1.getSecondScale(); type && first)
      addSized("w13_second_scale", type, [&](int64_t, int64_t inner) {
        return Shape{weights.experts,
                     parts() * (w1.getSecondPerRow() ? inner : 1)};
      });
    if (const Type type = w2.getSecondScale(); type && second)
      addSized("w2_second_scale", type, [&](int64_t width, int64_t) {
        return Shape{weights.experts, w2.getSecondPerRow() ? width : 1};
      });
    if (const Type zeroPoint = w1.getZeroPoint(); zeroPoint && first)
      addSized("w13_zero_point", zeroPoint, ofGroups1);
    if (const Type zeroPoint = w2.getZeroPoint(); zeroPoint && second)
      addSized("w2_zero_point", zeroPoint, ofGroups2);
  }

  /// Adds the weights of the router. They have values for the experts of all
  /// ranks, so that all ranks route identically.
  void addWeightsOfRouting() {
    const int64_t routed = layer.getRoutedExperts();
    if (layer.getRouting().getBias())
      addWeight("routing_bias", {routed}, f32, 4);
    if (layer.getPerExpertScale())
      addWeight("per_expert_scale", {routed}, f32, 4);
    if (vocabulary() > 0)
      addWeight("hash_table", {vocabulary(), layer.getTopK()}, i32, 4);
  }

  void addWeightsOfExperts() {
    const bool first = layer.hasGateUp(), second = layer.hasDown();
    if (first)
      for (StringRef name : layer.getActivation().getNumbersOfExperts())
        addWeight(name, {experts}, f32, 4);
    if (const int64_t constants = layer.getNumConstantExperts().value_or(0);
        constants && second)
      addWeight("constant_experts", {constants, width}, f32);
    if (layer.getPostExpertNormEps() && second)
      addWeight("post_expert_norm", {width}, f32);
    if (!layer.getHasBias())
      return;
    if (first)
      addSized("b13", layer.getInDtype(), [&](int64_t, int64_t inner) {
        return Shape{experts, parts() * inner};
      });
    if (second)
      addSized("b2", layer.getInDtype(),
               [&](int64_t width, int64_t) { return Shape{experts, width}; });
  }

  void addOutputs() {
    const Type type = layer.getOutDtype();
    const int64_t pairs = layer.getPairsOfToken();
    if (layer.getDeferMoeFinalize()) {
      add("partials", TensorRole::Output, {kAny, width}, type,
          {16, "", false, /*ofRows=*/true});
      add("positions", TensorRole::Output, {kAny, pairs}, i32, {4});
    } else {
      add("out", TensorRole::Output, {kAny, width}, type);
    }
    if (layer.isBatched())
      return;
    add("ids", TensorRole::OptionalOutput, {kAny, pairs}, i32, {4});
    add("weights", TensorRole::OptionalOutput, {kAny, pairs}, f32, {4});
    add("counts", TensorRole::OptionalOutput, {experts}, i32, {4});
  }

  /// Returns the number of matrices in w13 whose rows are quantized separately.
  int64_t parts() { return layer.isGated() ? 2 : 1; }
  int64_t vocabulary() { return layer.getHashVocabulary().value_or(0); }

  LayerOp layer;
  QuantAttr quant;
  MLIRContext *context;
  Type i32, f32;
  int64_t experts, width;
  Weights weights; ///< the expert group whose tensors are being added
  SmallVector<LayerTensor> tensors;
};
} // namespace

RankedTensorType moec::moe::scalesOfRows(DescriptorAttr descriptor,
                                         int64_t columns) {
  const Type scale = descriptor.isOfBlocks() ? descriptor.getScale()
                                             : descriptor.getScaleAsRead();
  if (descriptor.getGroup()[0] == -1)
    return RankedTensorType::get({1}, scale);
  const int64_t group = descriptor.getGroup()[1];
  const int64_t groups =
      group == -1 ? 1 : int64_t(llvm::divideCeil(columns, group));
  return RankedTensorType::get({kAny, groups}, scale);
}

const LayerTensor *moec::moe::findTensor(ArrayRef<LayerTensor> tensors,
                                         StringRef name) {
  const auto *found = llvm::find_if(
      tensors, [&](const LayerTensor &tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : found;
}

SmallVector<LayerTensor> LayerOp::getTensors() {
  assert(isResolved() && "what this rank holds is not known yet");
  return TensorList(*this).build();
}
