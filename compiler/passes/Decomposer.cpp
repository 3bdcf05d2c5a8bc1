//===- Decomposer.cpp - builds the stages of one layer --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Decomposer.h"

#include "compiler/plan/ProgramValues.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;
using moe::kAny;

/// Number of rows per block of moe.amax, which computes one maximum per block.
/// Blocks are small enough that a few rows form many blocks, and large enough
/// that computing the scale reads few maxima.
static constexpr int64_t kAmaxRows = 32;

moe::ProgramOp Decomposer::build() {
  builder.setInsertionPoint(layer->getBlock(), layer->getBlock()->end());
  addInputs();
  const std::string name = (layer.getSymName() + "_" + target.getArch()).str();
  SmallVector<StringRef> names;
  for (const Input &input : inputs)
    names.push_back(input.name);
  auto program = moe::ProgramOp::create(
      builder, location, StringRef(name), layer.getSymName(), target, maxTokens,
      scheme(), bool(layer.getBatchInvariant()), layer.getPartAttr(),
      builder.getStrArrayAttr(names), moe::ReportAttr());
  Block *body = builder.createBlock(&program.getBody());
  for (Input &input : inputs)
    input.value = body->addArgument(input.type, location);
  const bool isWhole = !layer.getPart();
  if (layer.hasGateUp() && layer.quantizesWeights())
    quantizeWeights("w13", layer.getQuant().getW1(), layer.isGated() ? 2 : 1);
  if (layer.hasDown() && layer.quantizesWeights())
    quantizeWeights("w2", layer.getQuant().getW2(), 1);
  if (layer.hasSharedMlp() && layer.quantizesWeights()) {
    quantizeWeights("shared_w13", layer.getQuant().getW1(),
                    layer.isGated() ? 2 : 1);
    quantizeWeights("shared_w2", layer.getQuant().getW2(), 1);
  }
  if (layer.hasGateUp() && layer.getGroupIndex())
    orderColumns("w13_group_index", layer.getQuant().getW1());
  if (layer.hasDown() && layer.getGroupIndex())
    orderColumns("w2_group_index", layer.getQuant().getW2());
  auto variant = moe::VariantOp::create(
      builder, location, "all", 1, maxTokens, StringAttr(), IntegerAttr(),
      /*tuned=*/false, ArrayAttr(), StringAttr());
  builder.createBlock(&variant.getBody());
  if (!layer.hasMatmul())
    addStagesOfPart();
  else if (!isWhole)
    addStagesOfExperts();
  else if (layer.isBatched())
    addBatchedStages();
  else
    addStages();
  return program;
}

RankedTensorType Decomposer::tensor(ArrayRef<int64_t> shape, Type element) {
  return RankedTensorType::get(shape, element);
}

void Decomposer::addInputs() {
  for (const moe::LayerTensor &tensor : layer.getTensors())
    if (tensor.role != moe::TensorRole::Output &&
        tensor.role != moe::TensorRole::OptionalOutput)
      inputs.push_back({tensor.name.str(), tensor.type, {}});
}

void Decomposer::quantizeWeights(StringRef name, moe::DescriptorAttr descriptor,
                                 int64_t parts) {
  const Value floats = input(name);
  const auto type = cast<RankedTensorType>(floats.getType());
  auto op = moe::QuantizeWeightsOp::create(
      builder, location, tensor(type.getShape(), descriptor.getElement()),
      moe::QuantizeWeightsOp::scaleTypes(descriptor, parts, type), descriptor,
      parts, floats);
  for (OpResult result : op->getResults()) {
    const std::string full =
        (name + op.getSuffix(result.getResultNumber())).str();
    Input *known = llvm::find_if(
        inputs, [&](const Input &input) { return input.name == full; });
    if (known == inputs.end())
      inputs.push_back(
          {full, cast<RankedTensorType>(result.getType()), result});
    else
      known->value = result;
  }
}

void Decomposer::orderColumns(StringRef name, moe::DescriptorAttr descriptor) {
  Input *known = llvm::find_if(
      inputs, [&](const Input &input) { return input.name == name; });
  known->value = moe::PackOrderOp::create(
      builder, location, known->type,
      builder.getI64IntegerAttr(descriptor.getGroup()[1]), known->value);
}

StringAttr Decomposer::scheme() {
  const StringRef name = layer.getQuant().getScheme();
  return name.empty() ? StringAttr() : builder.getStringAttr(name);
}

moe::Realization Decomposer::realization(bool first) {
  return ofCodes ? *ofCodes : layer.getQuant().getRealization(first);
}

moe::DescriptorAttr Decomposer::quantized(moe::DescriptorAttr descriptor) {
  return descriptor.isPlain() ? moe::DescriptorAttr() : descriptor;
}

Value Decomposer::input(StringRef name) {
  for (const Input &input : inputs)
    if (input.name == name)
      return input.value;
  return {};
}

Decomposer::Quantized Decomposer::quantize(moe::DescriptorAttr descriptor,
                                           Value input, Value weights,
                                           StringRef which, const Rows &rows) {
  auto type = cast<RankedTensorType>(input.getType());
  if (descriptor.isPlain() && !weights &&
      type.getElementType() == descriptor.getElement())
    return {input, Value()};
  // Products with top-k weights, and values of another element type, are
  // rounded by a quantize op without scales.
  if (descriptor.isPlain())
    return {moe::QuantizeOp::create(
                builder, location, type.clone(descriptor.getElement()),
                TypeRange(), descriptor, input, weights, Value(), Value(),
                IntegerAttr(), Value(), Value(), rows.offsets, rows.counts,
                /*tiles=*/Value(), /*tile_count=*/Value())
                .getData(),
            Value()};
  const bool ofTensor = descriptor.getGroup()[0] == -1;
  const Value valid =
      rows.offsets || rows.counts ? Value() : this->input("valid_tokens");
  const bool emulated = layer.getQuant().dequantizesWeights() && !ofCodes;
  Value amax;
  IntegerAttr blockRows;
  if (ofTensor && descriptor.getDynamic()) {
    blockRows = builder.getI64IntegerAttr(kAmaxRows);
    amax = moe::AmaxOp::create(
        builder, location, tensor({kAny}, builder.getF32Type()), kAmaxRows,
        !emulated && descriptor.getElement().isInteger(), input, weights, valid,
        rows.offsets, rows.counts);
  }
  SmallVector<Type> scales;
  if (!emulated)
    scales.push_back(moe::scalesOfRows(descriptor, type.getDimSize(1)));
  if (!emulated && descriptor.getSecondPerRow())
    scales.push_back(tensor({kAny, 1}, builder.getF32Type()));
  const auto stored = [&](StringRef suffix) {
    return this->input((which + suffix).str());
  };
  const Value secondScale = stored("_second_scale");
  auto op = moe::QuantizeOp::create(
      builder, location,
      tensor(type.getShape(),
             emulated ? layer.getComputeType() : descriptor.getElement()),
      scales, descriptor, input, weights,
      descriptor.getDynamic() ? Value() : stored("_scale"), secondScale,
      blockRows, amax, amax ? valid : Value(), rows.offsets, rows.counts,
      /*tiles=*/Value(), /*tile_count=*/Value());
  return {op.getData(), op.getScale(),
          emulated              ? Value()
          : op.getSecondScale() ? op.getSecondScale()
                                : secondScale};
}

Decomposer::GivenX Decomposer::givenX() {
  return {input("x"), input("x_scale"), input("x_second_scale")};
}

Decomposer::Quantized Decomposer::quantizedX(const GivenX &x,
                                             const Rows &rows) {
  const moe::DescriptorAttr a1 = layer.getQuant().getA1();
  if (realization(/*first=*/true) != moe::Realization::Emulated)
    return {x.data, x.scale, x.secondScale};
  const Type data = tensor(cast<RankedTensorType>(x.data.getType()).getShape(),
                           layer.getComputeType());
  return {moe::DequantizeOp::create(builder, location, data, a1, x.data,
                                    x.scale, x.secondScale, rows.counts)
              .getData(),
          Value()};
}

Value Decomposer::permuteColumns(Value input, StringRef weight,
                                 IntegerAttr pairs, Value gather,
                                 const Rows &rows) {
  const Value order = this->input((weight + "_group_index").str());
  if (!order)
    return input;
  return moe::PermuteColumnsOp::create(builder, location, input.getType(),
                                       pairs, input, gather, rows.offsets,
                                       order);
}

Value Decomposer::matmul(IntegerAttr pairs, Quantized lhs, Value gather,
                         StringRef weight, Value bias, const Rows &rows) {
  const Value rhs = input(weight);
  const moe::QuantAttr quant = layer.getQuant();
  const bool first = weight.ends_with("w13");
  const bool gateUp = first && layer.isGated();
  const auto with = [&](StringRef suffix) {
    return input((weight + suffix).str());
  };
  const int64_t n = cast<RankedTensorType>(rhs.getType()).getDimSize(1);
  return moe::GroupedMatmulOp::create(
             builder, location, tensor({kAny, n}, builder.getF32Type()),
             realization(first), pairs,
             gateUp ? layer.getGateUpOrderAttr() : StringAttr(),
             layer.accumulatesFast(),
             !first && bias && layer.addsW2BiasByRank(),
             quantized(first ? quant.getA1() : quant.getA2()),
             quantized(first ? quant.getW1() : quant.getW2()), lhs.data, gather,
             rows.tiles, rows.tileCount, rhs, lhs.scale, with("_scale"),
             with("_second_scale"), with("_zero_point"), bias, lhs.secondScale)
      .getResult();
}

Decomposer::Quantized Decomposer::quantizedOperand(moe::RouteOp route) {
  if (layer.getInputQuantized())
    return quantizedX(givenX(), Rows());
  return quantize(layer.getQuant().getA1(), input("x"),
                  layer.getApplyRouterWeightOnInput()
                      ? Value(route.getTopkWeights())
                      : Value(),
                  "a1", Rows());
}

Value Decomposer::firstMatmul(Quantized x, moe::PermuteOp permute,
                              const Rows &sorted) {
  // Rows multiplied by top-k weights belong to pairs, other rows to tokens.
  IntegerAttr pairsOfRow = builder.getI64IntegerAttr(
      layer.getApplyRouterWeightOnInput() ? 1 : layer.getPairsOfToken());
  if (layer.getGroupIndex()) {
    x.data =
        permuteColumns(x.data, "w13", pairsOfRow, permute.getRows(), sorted);
    pairsOfRow = builder.getI64IntegerAttr(1);
  }
  return matmul(pairsOfRow, x, permute.getRows(), "w13", input("b13"), sorted);
}

moe::RouteOp Decomposer::addRoute(moe::RoutingAttr routing) {
  const int64_t pairs = layer.getPairsOfToken();
  return moe::RouteOp::create(
      builder, location, tensor({kAny, pairs}, builder.getI32Type()),
      tensor({kAny, pairs}, builder.getF32Type()), routing,
      builder.getI64IntegerAttr(layer.getTopK()),
      input("logits") ? IntegerAttr()
                      : builder.getI64IntegerAttr(layer.getRoutedExperts()),
      layer.getApplyRoutedScaleToOutput() ? layer.getRoutedScalingFactorAttr()
                                          : FloatAttr(),
      input("logits"), input("given_ids"), input("given_weights"),
      input("valid_tokens"), input("routing_bias"), input("per_expert_scale"),
      input("token_ids"), input("hash_table"), input("logical_to_physical"),
      input("replica_count"), input("expert_map"),
      layer.getStoredExperts() != int64_t(layer.getNumExperts())
          ? builder.getI64IntegerAttr(layer.getPhysicalExperts())
          : IntegerAttr(),
      positive(layer.getNumZeroExpertsAttr()),
      layer.getSharedRows() > 0 ? layer.getNSharedExpertsAttr() : IntegerAttr(),
      layer.getSharedRows() > 0 ? input("shared_gate") : Value());
}

IntegerAttr Decomposer::localExperts() {
  const int64_t local = *layer.getLocalExperts();
  return local != layer.getPlaces() ? builder.getI64IntegerAttr(local)
                                    : IntegerAttr();
}

moe::CountOp Decomposer::addCount(moe::RouteOp route) {
  const int64_t experts = layer.getPlaces();
  return moe::CountOp::create(
      builder, location, tensor({kAny, experts}, builder.getI32Type()),
      builder.getI64IntegerAttr(experts), builder.getI64IntegerAttr(0),
      /*most_blocks=*/IntegerAttr(), localExperts(), route.getTopkIds());
}

moe::PermuteOp Decomposer::addPermute(moe::RouteOp route) {
  const int64_t experts = layer.getPlaces();
  const int64_t pairs = layer.getPairsOfToken();
  const int64_t local = *layer.getLocalExperts();
  const Type i32 = builder.getI32Type();
  const auto ids = tensor({kAny, pairs}, i32);
  auto count = addCount(route);
  return moe::PermuteOp::create(
      builder, location,
      TypeRange{tensor({kAny}, i32), ids, tensor({local + 1}, i32),
                tensor({kAny, 4}, i32), tensor({3}, i32), tensor({local}, i32)},
      builder.getI64IntegerAttr(experts), builder.getI64IntegerAttr(0),
      /*row_step=*/IntegerAttr(), builder.getI64IntegerAttr(0),
      /*most_blocks=*/IntegerAttr(), localExperts(),
      builder.getStringAttr("tokens * " + Twine(pairs)), route.getTopkIds(),
      count.getBlockCounts());
}

void Decomposer::addStages() {
  const moe::RouteOp own = addRoute(layer.getRouting());
  moe::RouteOp route = own;
  const GivenX ownX = givenX();
  Quantized x;
  const auto moved = movedByPackage(layer);
  if (moved && moved->gather > 1) {
    addCount(own);
    x = dispatch(*moved, route);
  }
  auto permute = addPermute(route);
  const Rows sorted = {permute.getTiles(), permute.getTileCount(),
                       permute.getOffsets(), Value()};
  if (!x.data) {
    x = quantizedOperand(route);
    if (!layer.getApplyRouterWeightOnInput() && input("x") == ownX.data)
      quantizedOwn = x;
  }
  const Value h = firstMatmul(x, permute, sorted);
  const Value y = secondHalf(
      h, sorted, layer.getIsLoraEnabled() ? permute.getRows() : Value());
  if (layer.getDeferMoeFinalize()) {
    roundToOutput(y);
    finish({"partials", "positions"}, {y, permute.getPositions()}, route,
           permute);
    return;
  }
  Value out = combine(y, permute.getPositions(), route);
  const bool sharesApart = layer.hasSharedMlp();
  if (moved && (!sharesApart || moved->scatter > 1))
    out = finalize(*moved, out, route, own, moved->scatter,
                   sharesApart ? 1 : moved->reduce);
  // The shared experts' MLP reads this rank's tokens. Ranks with the same
  // tokens divide its columns.
  if (sharesApart) {
    out = addSharedExperts(out, ownX);
    if (moved && moved->reduce > 1)
      out = finalize(*moved, out, route, own, /*ranks=*/1, moved->reduce);
  }
  finish({"out"}, out, own, permute);
}

Value Decomposer::combine(Value partials, Value positions, moe::RouteOp route) {
  const bool onInput = layer.getApplyRouterWeightOnInput();
  const bool hasZero = layer.getNumZeroExperts().value_or(0) > 0;
  if (const FloatAttr epsilon = layer.getPostExpertNormEpsAttr())
    return moe::CombineNormedOp::create(
               builder, location,
               tensor({kAny, layer.getWidth()}, layer.getOutDtype()), epsilon,
               partials, positions, route.getTopkWeights(),
               input("post_expert_norm"), input("residual"))
        .getOut();
  if (const Value constants = input("constant_experts"))
    return moe::CombineConstantsOp::create(
               builder, location,
               tensor({kAny, layer.getWidth()}, layer.getOutDtype()),
               builder.getI64IntegerAttr(layer.getNumExperts()), partials,
               positions, route.getTopkWeights(), route.getTopkIds(), constants,
               input("residual"))
        .getOut();
  return moe::CombineOp::create(
             builder, location,
             tensor({kAny, layer.getWidth()}, layer.getOutDtype()),
             hasZero && layer.addsZeroExpertsByRank(), partials, positions,
             onInput ? Value() : route.getTopkWeights(), input("residual"),
             input("down_addend"), hasZero ? input("x") : Value(),
             hasZero ? route.getTopkIds() : Value())
      .getOut();
}

void Decomposer::addStagesOfPart() {
  const auto end = [&](ArrayRef<StringRef> names, ValueRange outputs) {
    moe::ReturnOp::create(builder, location, builder.getStrArrayAttr(names),
                          ArrayAttr(), outputs, ValueRange());
  };
  if (layer.isPart("finalize")) {
    auto route =
        addRoute(moe::RoutingAttr::get(builder.getContext(), "custom"));
    addCount(route);
    const Value ids = route.getTopkIds();
    const Value positions = moe::PairRowsOp::create(
        builder, location, ids.getType(),
        builder.getI64IntegerAttr(layer.getStoredExperts()), localExperts(),
        ids);
    end({"out"}, combine(input("partials"), positions, route));
    return;
  }
  moe::RouteOp route;
  if (layer.isPart("route") || layer.weighsX()) {
    route = addRoute(layer.getRouting());
    addCount(route);
  }
  if (layer.isPart("quantize")) {
    const Quantized x =
        quantize(layer.getQuant().getA1(), input("x"),
                 route ? Value(route.getTopkWeights()) : Value(), "a1", Rows());
    end({"x_q", "x_scale"}, {x.data, x.scale});
    return;
  }
  const Value ids = route.getTopkIds(), weights = route.getTopkWeights();
  if (layer.hasPlaces())
    end({"ids", "weights", "places"}, {ids, weights, ids});
  else
    end({"ids", "weights"}, {ids, weights});
}

Value Decomposer::activate(Value h, const Rows &rows, Value pairs, Type type) {
  const int64_t columns = cast<RankedTensorType>(h.getType()).getDimSize(1);
  return moe::ActivateOp::create(
             builder, location,
             tensor({kAny, layer.isGated() ? columns / 2 : columns}, type),
             layer.getActivation(), /*interleave=*/nullptr, h, rows.offsets,
             pairs ? input("gate_up_addend") : Value(), pairs,
             /*tiles=*/Value(), /*tile_count=*/Value(),
             llvm::map_to_vector(layer.getActivation().getNumbersOfExperts(),
                                 [&](StringRef name) { return input(name); }))
      .getResult();
}

Value Decomposer::secondMatmul(Value intermediate, const Rows &rows,
                               const std::string &whose) {
  Quantized t = quantize(layer.getQuant().getA2(), intermediate, Value(),
                         whose + "a2", rows);
  t.data = permuteColumns(t.data, whose + "w2", IntegerAttr(), Value(), rows);
  return matmul(IntegerAttr(), t, Value(), whose + "w2", input(whose + "b2"),
                rows);
}

Value Decomposer::secondHalf(Value h, const Rows &rows, Value pairs,
                             const std::string &whose) {
  const moe::DescriptorAttr a2 = layer.getQuant().getA2();
  // Values that are quantized next stay f32, so that they are rounded only
  // once.
  return secondMatmul(
      activate(h, rows, pairs,
               a2.isPlain() ? a2.getElement() : Type(builder.getF32Type())),
      rows, whose);
}

void Decomposer::addStagesOfExperts() {
  auto route = addRoute(moe::RoutingAttr::get(builder.getContext(), "custom"));
  auto permute = addPermute(route);
  const Rows sorted = {permute.getTiles(), permute.getTileCount(),
                       permute.getOffsets(), Value()};
  Value output;
  if (layer.hasGateUp()) {
    const Value h = firstMatmul(quantizedOperand(route), permute, sorted);
    const Value t = activate(
        h, sorted, layer.getIsLoraEnabled() ? permute.getRows() : Value(),
        layer.getInDtype());
    output =
        moe::GatherRowsOp::create(builder, location, t.getType(), t, Value(),
                                  Value(), permute.getPositions());
  } else {
    const Value given = input("intermediate");
    const Value t = moe::GatherRowsOp::create(
        builder, location, given.getType(), given, permute.getRows(),
        permute.getOffsets(), Value());
    output = combine(secondMatmul(t, sorted), permute.getPositions(), route);
  }
  moe::ReturnOp::create(
      builder, location,
      builder.getStrArrayAttr({layer.hasGateUp() ? "intermediate" : "out"}),
      ArrayAttr(), ValueRange(output), ValueRange());
}

IntegerAttr Decomposer::positive(IntegerAttr count) {
  return count && count.getInt() > 0 ? count : IntegerAttr();
}

void Decomposer::roundToOutput(Value y) {
  y.setType(tensor({kAny, layer.getWidth()}, layer.getOutDtype()));
}

void Decomposer::addBatchedStages() {
  const Value counts = input("expert_num_tokens");
  const Type i32 = builder.getI32Type();
  auto batch = moe::BatchOp::create(
      builder, location, tensor({kAny, 4}, i32), tensor({3}, i32),
      builder.getI64IntegerAttr(0), /*row_step=*/IntegerAttr(), counts);
  const Rows rows = {batch.getTiles(), batch.getTileCount(), Value(), counts};
  const Quantized x =
      layer.getInputQuantized()
          ? quantizedX(givenX(), rows)
          : quantize(layer.getQuant().getA1(), input("x"), Value(), "a1", rows);
  const Value h = matmul(IntegerAttr(), x, Value(), "w13", input("b13"), rows);
  const Value out = secondHalf(h, rows, Value());
  roundToOutput(out);
  moe::ReturnOp::create(builder, location, builder.getStrArrayAttr({"out"}),
                        ArrayAttr(), ValueRange(out), ValueRange());
}

void Decomposer::finish(ArrayRef<StringRef> names, ValueRange outputs,
                        moe::RouteOp route, moe::PermuteOp permute) {
  moe::ReturnOp::create(builder, location, builder.getStrArrayAttr(names),
                        builder.getStrArrayAttr({"ids", "weights", "counts"}),
                        outputs,
                        ValueRange{route.getTopkIds(), route.getTopkWeights(),
                                   permute.getCounts()});
}
