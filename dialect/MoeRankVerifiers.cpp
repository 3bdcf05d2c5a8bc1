//===- MoeRankVerifiers.cpp - verifiers of communication ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the stages that communicate between ranks. They check groups of
// ranks, and that types do not change.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"

using namespace mlir;
using namespace moec::moe;
using namespace moec::moe::detail;

/// Checks the numbers of ranks and experts of a stage that writes into the
/// windows of other ranks (`one_sided`).
static ParseResult verifyOwners(Operation *op, int64_t ranks,
                                std::optional<uint64_t> experts) {
  if (ranks < 2)
    return op->emitOpError() << "'ranks' must be at least 2, got " << ranks;
  if (experts && int64_t(*experts) < ranks)
    return op->emitOpError() << "'experts' must give each of " << ranks
                             << " ranks one, got " << int64_t(*experts);
  return success();
}

/// Checks that `experts` is absent. Only `one_sided` communication needs the
/// number of experts, to compute which ranks own a token.
static ParseResult verifyNoOwners(Operation *op,
                                  std::optional<uint64_t> experts) {
  if (!experts)
    return success();
  return op->emitOpError() << "'experts' must be given only with 'one_sided'";
}

LogicalResult DispatchOp::verify() {
  const bool oneSided = getOneSided();
  if (oneSided ? verifyOwners(*this, getRanks(), getExperts())
               : verifyNoOwners(*this, getExperts()))
    return failure();
  if (int64_t(getRanks()) < 2)
    return emitOpError() << "'ranks' must be at least 2, got "
                         << int64_t(getRanks());
  if (expectPositive(*this, "stride", getStride()))
    return failure();
  if (oneSided && int64_t(getStride()) != 1)
    return emitOpError() << "'stride' must be 1 with 'one_sided', got "
                         << int64_t(getStride());
  constexpr size_t kMostScales = 2;
  if (oneSided && getScales().size() > kMostScales)
    return emitOpError() << "sends at most " << kMostScales << " scales, got "
                         << getScales().size();
  if (getScales().getTypes() != getReceivedScales().getTypes())
    return emitOpError() << "must receive scales as they are sent";
  for (auto [name, sent, received] :
       {std::tuple<StringRef, Value, Value>("received_x", getX(),
                                            getReceivedX()),
        {"received_ids", getTopkIds(), getReceivedIds()},
        {"received_weights", getTopkWeights(), getReceivedWeights()}})
    if (expect(*this, name, received, tensor(sent).getShape(),
               tensor(sent).getElementType()))
      return failure();
  return success();
}

/// Returns the shape of the partial sums that ranks send back: [tokens, owners,
/// width], with the maximum number of owner ranks of a token.
static SmallVector<int64_t> shapeOfSums(int64_t ranks, bool spreadsExperts,
                                        Value ids, int64_t width) {
  return {
      kAny,
      SendBackOp::mostOwners(ranks, spreadsExperts, tensor(ids).getDimSize(1)),
      width};
}

LogicalResult SendBackOp::verify() {
  if (verifyOwners(*this, getRanks(), getExperts()))
    return failure();
  return expect(*this, "back", getBack(),
                shapeOfSums(getRanks(), getExperts().has_value(), getTopkIds(),
                            tensor(getPartials()).getDimSize(1)),
                tensor(getPartials()).getElementType());
}

LogicalResult FinalizeOp::verify() {
  if (expectPositive(*this, "ranks", getRanks()) ||
      expectPositive(*this, "stride", getStride()) ||
      expectPositive(*this, "reduce", getReduce()))
    return failure();
  if (int64_t(getRanks()) * int64_t(getReduce()) < 2)
    return emitOpError() << "needs several ranks to sum over";
  if (bool(getTopkIds()) != getOneSided())
    return emitOpError() << "needs ids with 'one_sided', and only then";
  if (!getOneSided())
    return failure(verifyNoOwners(*this, getExperts()) ||
                   expect(*this, "out", getOut(),
                          tensor(getPartials()).getShape(),
                          tensor(getPartials()).getElementType()));
  if (int64_t(getStride()) != 1 || int64_t(getReduce()) != 1)
    return emitOpError() << "'stride' and 'reduce' must be 1 with "
                            "'one_sided', got "
                         << int64_t(getStride()) << " and "
                         << int64_t(getReduce());
  if (verifyOwners(*this, getRanks(), getExperts()) ||
      expectRank(*this, "out", getOut(), 2))
    return failure();
  return expect(*this, "partials", getPartials(),
                shapeOfSums(getRanks(), getExperts().has_value(), getTopkIds(),
                            tensor(getOut()).getDimSize(1)),
                tensor(getOut()).getElementType());
}
