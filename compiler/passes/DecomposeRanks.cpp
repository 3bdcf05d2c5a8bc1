//===- DecomposeRanks.cpp - stages between ranks --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/passes/Decomposer.h"

using namespace mlir;
using namespace moec;
using namespace moec::compiler;
using moe::kAny;

Value Decomposer::finalize(const Communication &moved, Value sums,
                           moe::RouteOp route, moe::RouteOp own, int64_t ranks,
                           int64_t reduce) {
  const IntegerAttr together = builder.getI64IntegerAttr(ranks);
  const IntegerAttr experts = spreadExperts(moved);
  Value ids;
  Value partials = sums;
  if (moved.oneSided) {
    ids = own.getTopkIds();
    const int64_t owners = moe::SendBackOp::mostOwners(
        moved.scatter, bool(experts), layer.getPairsOfToken());
    partials = moe::SendBackOp::create(
        builder, location,
        tensor({kAny, owners, layer.getWidth()}, layer.getOutDtype()), together,
        experts, sums, route.getGivenIds());
  }
  return moe::FinalizeOp::create(builder, location, sums.getType(), together,
                                 unlessOne(ranks > 1 ? moved.stride() : 1),
                                 unlessOne(reduce), oneSided(moved), experts,
                                 partials, ids)
      .getOut();
}

UnitAttr Decomposer::oneSided(const Communication &moved) {
  return moved.oneSided ? builder.getUnitAttr() : UnitAttr();
}

IntegerAttr Decomposer::spreadExperts(const Communication &moved) {
  return moved.oneSided && layer.getParallel().usesExpertParallelism()
             ? builder.getI64IntegerAttr(layer.getStoredExperts())
             : IntegerAttr();
}

Decomposer::Quantized Decomposer::sharedX(const GivenX &x, const Rows &rows) {
  const moe::DescriptorAttr a1 = layer.getQuant().getA1();
  const bool storesScale =
      !a1.isPlain() && (!a1.getDynamic() || a1.hasStoredSecondScale());
  if (quantizedOwn.data && (layer.getInputQuantized() || !storesScale))
    return quantizedOwn;
  return layer.getInputQuantized()
             ? quantizedX(x, Rows())
             : quantize(a1, x.data, Value(), "shared_a1", rows);
}

Value Decomposer::addSharedExperts(Value routed, const GivenX &x) {
  const Type i32 = builder.getI32Type();
  auto shared = moe::SharedRowsOp::create(
      builder, location, tensor({kAny, 4}, i32), tensor({3}, i32),
      tensor({2}, i32), tensor({kAny, 1}, i32),
      tensor({kAny, 1}, builder.getF32Type()), builder.getI64IntegerAttr(0),
      /*row_step=*/IntegerAttr(), input("valid_tokens"), input("shared_gate"));
  const Rows rows = {shared.getTiles(), shared.getTileCount(),
                     shared.getOffsets(), Value()};
  const Value h = matmul(IntegerAttr(), sharedX(x, rows), Value(), "shared_w13",
                         Value(), rows);
  const Value y = secondHalf(h, rows, Value(), "shared_");
  const Value none;
  return moe::CombineOp::create(builder, location, routed.getType(),
                                /*identity_of_rank=*/false, y,
                                shared.getPositions(), shared.getTopkWeights(),
                                routed, none, none, none)
      .getOut();
}

Decomposer::Quantized Decomposer::dispatch(const Communication &moved,
                                           moe::RouteOp &route) {
  const bool quantizesBefore =
      !layer.getInputQuantized() && !layer.getApplyRouterWeightOnInput();
  Quantized x = {input("x"), input("x_scale")};
  if (quantizesBefore)
    x = quantizedOwn =
        quantize(layer.getQuant().getA1(), x.data, Value(), "a1", Rows());
  const auto isOfTokens = [](Value scale) {
    return scale && cast<RankedTensorType>(scale.getType()).isDynamicDim(0);
  };
  SmallVector<Value> scales;
  for (const Value scale : {x.scale, input("x_second_scale")})
    if (isOfTokens(scale))
      scales.push_back(scale);
  const auto typeOf = [](Value value) { return value.getType(); };
  auto op = moe::DispatchOp::create(
      builder, location, typeOf(x.data), llvm::map_to_vector(scales, typeOf),
      typeOf(route.getTopkIds()), typeOf(route.getTopkWeights()),
      builder.getI64IntegerAttr(moved.gather), unlessOne(moved.stride()),
      oneSided(moved), spreadExperts(moved), x.data, scales, route.getTopkIds(),
      route.getTopkWeights());
  x.data = op.getReceivedX();
  if (isOfTokens(x.scale))
    x.scale = op.getReceivedScales().front();
  if (!quantizesBefore) {
    setInput("x", x.data);
    setInput("x_scale", x.scale);
    if (op.getReceivedScales().size() > 1)
      setInput("x_second_scale", op.getReceivedScales().back());
  }
  const Value none;
  const IntegerAttr noNumber;
  route = moe::RouteOp::create(
      builder, location, route.getTopkIds().getType(),
      route.getTopkWeights().getType(),
      moe::RoutingAttr::get(builder.getContext(), "custom"),
      builder.getI64IntegerAttr(layer.getTopK()),
      builder.getI64IntegerAttr(layer.getStoredExperts()), FloatAttr(), none,
      op.getReceivedIds(), op.getReceivedWeights(), none, none, none, none,
      none, none, none, none, noNumber, noNumber, noNumber, none);
  return quantizesBefore ? x : Quantized();
}

IntegerAttr Decomposer::unlessOne(int64_t number) {
  return number == 1 ? IntegerAttr() : builder.getI64IntegerAttr(number);
}

void Decomposer::setInput(StringRef name, Value value) {
  for (Input &input : inputs)
    if (input.name == name)
      input.value = value;
}
