//===- MoeVerifiers.cpp - verifiers of stages -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the stages: ranks, element types and extents that must match.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"

using namespace mlir;
using namespace moec::moe;
using namespace moec::moe::detail;

/// Returns the extent of the second dimension: the number of columns, or for
/// ids [tokens, pairs] the number of pairs. Callers must have checked that
/// `value` has at least two dimensions.
static int64_t columns(Value value) { return tensor(value).getDimSize(1); }

/// Checks the operands of `op` whose shape depends on the number of experts,
/// which is the number of columns of the logits.
static ParseResult verifyLogits(RouteOp op) {
  const Value logits = op.getLogits();
  if (expect(op, "logits", logits, {kAny, columns(logits)}))
    return failure();
  const int64_t experts = columns(logits), topK = op.getTopK();
  if (topK < 1 || topK > experts)
    return op.emitOpError() << "'top_k' must be between 1 and the " << experts
                            << " experts, got " << topK;
  if (expect(op, "routing_bias", op.getRoutingBias(), {experts}) ||
      expect(op, "expert_scale", op.getExpertScale(), {experts}))
    return failure();
  if (!op.getTokenIds())
    return success();
  if (expect(op, "token_ids", op.getTokenIds(), {kAny}))
    return failure();
  return expect(op, "hash_table", op.getHashTable(),
                {tensor(op.getHashTable()).getDimSize(0), topK});
}

LogicalResult RouteOp::verify() {
  const int64_t topK = getTopK();
  if (!getLogits() && !getGivenIds())
    return emitOpError() << "needs logits, or ids and weights that are given";
  if (!getLogits() && (getRoutingBias() || getExpertScale() || getTokenIds()))
    return emitOpError() << "'bias', 'expert_scale' and 'table' need logits";
  if (bool(getLogits()) == bool(getExperts()))
    return emitOpError()
           << "'experts' must be given without logits, and only then";
  if (getExperts() && expectPositive(*this, "experts", *getExperts()))
    return failure();
  if (getRouting().getBias() != bool(getRoutingBias()) && getLogits())
    return emitOpError()
           << "a bias must be an operand if and only if 'routing' has a bias";
  if (getLogits() && verifyLogits(*this))
    return failure();
  if (expect(*this, "given_ids", getGivenIds(), {kAny, topK}))
    return failure();
  if (bool(getGivenIds()) != bool(getGivenWeights()))
    return emitOpError() << "'given_ids' and 'given_weights' must be given "
                            "together";
  if (expect(*this, "given_weights", getGivenWeights(), {kAny, topK}) ||
      expect(*this, "valid_tokens", getValidTokens(), {1}))
    return failure();
  if (bool(getLogicalToPhysical()) != bool(getReplicaCount()))
    return emitOpError()
           << "the two parts of 'replicas' must be given together";
  if (getLogicalToPhysical() &&
      (expect(*this, "replicas", getLogicalToPhysical(),
              {getNumExperts(), columns(getLogicalToPhysical())}) ||
       expect(*this, "replicas", getReplicaCount(), {getNumExperts()})))
    return failure();
  if (getPhysicalExperts() &&
      expectPositive(*this, "physical", *getPhysicalExperts()))
    return failure();
  const int64_t zero = getZero().value_or(0);
  if (zero < 0 || (getLogits() && zero >= columns(getLogits())) ||
      (zero > 0 && getLogicalToPhysical()))
    return emitOpError() << "'zero' must leave experts that have weights, and "
                            "these no 'replicas', got "
                         << zero;
  const int64_t shared = getShared().value_or(0);
  if (shared < 0 || (getSharedGate() && shared == 0))
    return emitOpError() << "'shared' must be positive, and with a 'gate' "
                            "given, got "
                         << shared;
  if (expect(*this, "gate", getSharedGate(), {kAny, 1}) ||
      expect(*this, "topk_ids", getTopkIds(), {kAny, topK + shared}))
    return failure();
  return expect(*this, "topk_weights", getTopkWeights(), {kAny, topK + shared});
}

/// Checks that the number of local experts is at most the stage's number of
/// experts.
template <typename Op> static ParseResult verifyLocal(Op op) {
  const int64_t local = op.getNumLocal();
  if (local >= 0 && local <= op.getExperts())
    return success();
  return op.emitOpError() << "'local' must be between 0 and the "
                          << op.getExperts() << " experts, got " << local;
}

LogicalResult CountOp::verify() {
  if (expectPositive(*this, "experts", getExperts()) ||
      (getMostBlocks() &&
       expectPositive(*this, "most_blocks", *getMostBlocks())))
    return failure();
  if (getBlockTokens() < 0)
    return emitOpError() << "'block_tokens' must not be negative, got "
                         << getBlockTokens();
  if (verifyLocal(*this) ||
      expect(*this, "topk_ids", getTopkIds(), {kAny, columns(getTopkIds())}))
    return failure();
  return expect(*this, "block_counts", getBlockCounts(), {kAny, getExperts()});
}

static ParseResult verifyRowStep(Operation *op, int64_t tileRows,
                                 std::optional<int64_t> rowStep) {
  if (!rowStep || (*rowStep >= 1 && tileRows % *rowStep == 0))
    return success();
  return op->emitOpError() << "'row_step' must divide the 'tile_rows' of "
                           << tileRows << ", got " << *rowStep;
}

LogicalResult PermuteOp::verify() {
  if (expectPositive(*this, "experts", getExperts()) ||
      (getMostBlocks() &&
       expectPositive(*this, "most_blocks", *getMostBlocks())))
    return failure();
  if (getTileRows() < 0 || getBlockTokens() < 0)
    return emitOpError() << "'tile_rows' and 'block_tokens' must not be "
                            "negative, got "
                         << getTileRows() << " and " << getBlockTokens();
  if (verifyRowStep(*this, getTileRows(), getRowStep()))
    return failure();
  const int64_t local = getNumLocal();
  if (verifyLocal(*this))
    return failure();
  const int64_t pairs = columns(getTopkIds());
  if (expect(*this, "topk_ids", getTopkIds(), {kAny, pairs}) ||
      expect(*this, "block_counts", getBlockCounts(), {kAny, getExperts()}) ||
      expect(*this, "rows", getRows(), {kAny}) ||
      expect(*this, "positions", getPositions(), {kAny, pairs}) ||
      expect(*this, "offsets", getOffsets(), {local + 1}) ||
      expect(*this, "tiles", getTiles(), {kAny, 4}) ||
      verifyTileCount(*this, getTileCount()))
    return failure();
  return expect(*this, "counts", getCounts(), {local});
}

LogicalResult PairRowsOp::verify() {
  if (expectPositive(*this, "experts", getExperts()) || verifyLocal(*this))
    return failure();
  const int64_t pairs = columns(getTopkIds());
  if (expect(*this, "topk_ids", getTopkIds(), {kAny, pairs}))
    return failure();
  return expect(*this, "positions", getPositions(), {kAny, pairs});
}

LogicalResult BatchOp::verify() {
  if (getTileRows() < 0)
    return emitOpError() << "'tile_rows' must not be negative, got "
                         << getTileRows();
  if (verifyRowStep(*this, getTileRows(), getRowStep()) ||
      expect(*this, "counts", getExpertNumTokens(), {getNumLocal()}) ||
      expect(*this, "tiles", getTiles(), {kAny, 4}))
    return failure();
  return expect(*this, "tile_count", getTileCount(), {3});
}

LogicalResult SharedRowsOp::verify() {
  if (getTileRows() < 0)
    return emitOpError() << "'tile_rows' must not be negative, got "
                         << getTileRows();
  if (verifyRowStep(*this, getTileRows(), getRowStep()) ||
      expect(*this, "valid", getValidTokens(), {1}) ||
      expect(*this, "gate", getSharedGate(), {kAny, 1}) ||
      expect(*this, "tiles", getTiles(), {kAny, 4}) ||
      expect(*this, "tile_count", getTileCount(), {3}) ||
      expect(*this, "offsets", getOffsets(), {2}) ||
      expect(*this, "positions", getPositions(), {kAny, 1}))
    return failure();
  return expect(*this, "weights", getTopkWeights(), {kAny, 1});
}

/// Checks the tile operands of a stage that is in the kernel of a matmul.
static ParseResult verifyTiles(Operation *op, Value tiles, Value tileCount,
                               bool isCounted) {
  if (bool(tiles) != bool(tileCount) || (tiles && isCounted))
    return op->emitOpError()
           << "the two parts of 'tiles' must be given "
              "together, and without 'offsets', 'counts' or 'valid'";
  return failure(tiles && (expect(op, "tiles", tiles, {kAny, 4}) ||
                           verifyTileCount(op, tileCount)));
}

/// Checks that at most one of the row counts is present. `offsets` and `counts`
/// are one-dimensional i32; `valid_tokens` is one i32.
static ParseResult verifyRowCount(Operation *op, Value validTokens,
                                  Value offsets, Value counts) {
  if (bool(validTokens) + bool(offsets) + bool(counts) > 1)
    return op->emitOpError() << "'valid' is of tokens, 'offsets' of sorted and "
                                "'counts' of batched rows, got more than one";
  return expect(op, "valid", validTokens, {1});
}

/// Checks the pair weights [tokens, pairs] that multiply the token rows.
static ParseResult verifyWeights(Operation *op, Value weights, Value offsets) {
  if (!weights)
    return success();
  if (offsets)
    return op->emitOpError() << "'weights' are of tokens and 'offsets' of "
                                "sorted rows, got both";
  return expect(op, "weights", weights, {kAny, columns(weights)});
}

LogicalResult AmaxOp::verify() {
  if (expectPositive(*this, "block_rows", getBlockRows()) ||
      verifyWeights(*this, getRowWeights(), getOffsets()) ||
      verifyRowCount(*this, getValidTokens(), getOffsets(),
                     getExpertNumTokens()))
    return failure();
  return expect(*this, "block_amax", getBlockAmax(), {kAny});
}

bool QuantizeOp::isEmulated() {
  const Type element = tensor(getData()).getElementType();
  return !getDescriptor().isPlain() && (element.isF16() || element.isBF16());
}

LogicalResult QuantizeOp::verify() {
  const DescriptorAttr descriptor = getDescriptor();
  const bool emulated = isEmulated();
  if (verifyTiles(*this, getTiles(), getTileCount(),
                  getOffsets() || getExpertNumTokens() || getValidTokens()))
    return failure();
  if (descriptor.isPlain() && !getRowWeights() &&
      tensor(getInput()).getElementType() == descriptor.getElement())
    return emitOpError() << "a descriptor without a scale quantizes nothing "
                            "that is of its type";
  if (expect(*this, "data", getData(), tensor(getInput()).getShape(),
             emulated ? tensor(getData()).getElementType()
                      : descriptor.getElement()) ||
      verifyWeights(*this, getRowWeights(), getOffsets()))
    return failure();
  if (bool(getStaticSecondScale()) !=
      ((emulated || scalesBlocks()) && descriptor.hasStoredSecondScale()))
    return emitOpError() << "'second_scale' belongs to emulated data, or to "
                            "codes in blocks, whose descriptor has one that is "
                            "stored";
  if (getScales().size() > 2 ||
      bool(getSecondScale()) !=
          (scalesBlocks() && descriptor.getSecondPerRow()))
    return emitOpError() << "a second scale as a result belongs to codes in "
                            "blocks whose descriptor has one of each row";
  if (getSecondScale() &&
      expect(*this, "second_scale", getSecondScale(), {kAny, 1}, f32(*this)))
    return failure();
  if (descriptor.isPlain()) {
    if (getScale() || getStaticScale() || getBlockAmax())
      return emitOpError() << "a descriptor without a scale has none, neither "
                              "as an operand nor as a result";
    return verifyRowCount(*this, getValidTokens(), getOffsets(),
                          getExpertNumTokens());
  }
  if (descriptor.getDynamic() == bool(getStaticScale()))
    return emitOpError() << (descriptor.getDynamic()
                                 ? "a dynamic scale is a result, not an operand"
                                 : "a static scale must be an operand");
  const bool ofTensor = llvm::equal(descriptor.getGroup(), ArrayRef{-1L, -1L});
  const bool isDynamic = descriptor.getDynamic();
  if (bool(getBlockAmax()) != (isDynamic && ofTensor))
    return emitOpError() << "'amax' belongs to a dynamic scale of the whole "
                            "tensor, and only to it";
  if (getBlockAmax() && !getBlockRows())
    return emitOpError() << "'amax' needs 'block_rows', of each of its numbers";
  if (verifyRowCount(*this, getValidTokens(), getOffsets(),
                     getExpertNumTokens()))
    return failure();
  const bool mayHave = !emulated && (isDynamic || ofTensor);
  const bool mustHave = !emulated && isDynamic;
  if (getScale() ? !mayHave : mustHave)
    return emitOpError() << "must have " << (mustHave ? "a" : "no")
                         << " scale as a result";
  if (emulated && isDynamic)
    return success();
  const Value scale = isDynamic ? getScale() : getStaticScale();
  const Type read =
      scalesBlocks() ? descriptor.getScale() : descriptor.getScaleAsRead();
  if (tensor(scale).getElementType() != read)
    return emitOpError() << "'scale' must be of " << read << ", got "
                         << tensor(scale);
  return success();
}

LogicalResult DequantizeOp::verify() {
  const DescriptorAttr descriptor = getDescriptor();
  if (descriptor.isPlain())
    return emitOpError() << "a descriptor without a scale has no codes";
  const Type element = tensor(getData()).getElementType();
  const int64_t width = columns(getInput());
  if (expect(*this, "input", getInput(), {kAny, width},
             descriptor.getElement()) ||
      expect(*this, "data", getData(), {kAny, width}, element))
    return failure();
  const int64_t group = descriptor.getGroup()[1];
  const SmallVector<int64_t, 2> shape =
      descriptor.isOfTensor()
          ? SmallVector<int64_t, 2>{1}
          : SmallVector<int64_t, 2>{
                kAny,
                group == -1 ? 1 : int64_t(llvm::divideCeil(width, group))};
  if (expect(*this, "scale", getScale(), shape, descriptor.getScale()))
    return failure();
  const Type second = descriptor.getSecondScale();
  if (bool(second) != bool(getSecondScale()))
    return emitOpError() << "'second_scale' belongs to a descriptor that has "
                            "one";
  const SmallVector<int64_t, 2> secondShape =
      descriptor.getSecondPerRow() ? SmallVector<int64_t, 2>{kAny, 1}
                                   : SmallVector<int64_t, 2>{1};
  if (expect(*this, "second_scale", getSecondScale(), secondShape, second))
    return failure();
  return verifyRowCount(*this, Value(), Value(), getExpertNumTokens());
}

/// Checks that a `per_expert` activation has one operand of per-expert values
/// for each of its parameters, and that other activations have none.
static ParseResult verifyNumbers(ActivateOp op) {
  const ActivationAttr activation = op.getActivation();
  const size_t expected =
      activation.getPerExpert() ? activation.getRow().parameters.size() : 0;
  if (op.getNumbers().size() != expected)
    return op.emitOpError()
           << "expected " << expected << " operands 'numbers' for "
           << activation << ", got " << op.getNumbers().size();
  for (Value numbers : op.getNumbers())
    if (expect(op, "numbers", numbers,
               tensor(op.getNumbers().front()).getShape()))
      return failure();
  return success();
}

LogicalResult ActivateOp::verify() {
  const int64_t width = columns(getInput()), interleave = getInterleave();
  const bool gated = getActivation().isGated();
  if (interleave < 0 || (interleave > 0 && !gated))
    return emitOpError() << "'interleave' is of gated activations and not "
                            "negative, got "
                         << interleave << " with "
                         << getActivation().getFunction();
  if (gated && width % (interleave > 0 ? 2 * interleave : 2) != 0)
    return emitOpError() << "'input' must have columns in multiples of "
                         << (interleave > 0 ? 2 * interleave : 2) << ", got "
                         << tensor(getInput());
  if (verifyTiles(*this, getTiles(), getTileCount(), bool(getOffsets())))
    return failure();
  if (bool(getAddend()) != bool(getRows()))
    return emitOpError() << "'addend' and 'rows' must be given together";
  if (expect(*this, "addend", getAddend(), {kAny, width}) ||
      expect(*this, "rows", getRows(), {kAny}) || verifyNumbers(*this))
    return failure();
  return expect(*this, "result", getResult(),
                {tensor(getInput()).getDimSize(0), gated ? width / 2 : width});
}

LogicalResult CombineOp::verify() {
  const bool byPair = tensor(getPartials()).getRank() == 3;
  const int64_t hidden = getWidth();
  const int64_t pairs = columns(getPositions());
  const SmallVector<int64_t> rows = {kAny, hidden},
                             ofPairs = {kAny, pairs, hidden};
  if (expect(*this, "partials", getPartials(), byPair ? ofPairs : rows) ||
      expect(*this, "positions", getPositions(), {kAny, pairs}) ||
      expect(*this, "topk_weights", getTopkWeights(), {kAny, pairs}))
    return failure();
  if (getIdentityOfRank() && !getIdentity())
    return emitOpError() << "'identity_of_rank' is of an 'identity', which is "
                            "not given";
  if (getIdentity() && !getTopkWeights())
    return emitOpError() << "'identity' needs weights";
  if (bool(getIdentity()) != bool(getTopkIds()))
    return emitOpError() << "the two parts of 'identity' must be given "
                            "together";
  if (expect(*this, "identity", getIdentity(), {kAny, hidden}) ||
      expect(*this, "topk_ids", getTopkIds(), {kAny, pairs}) ||
      expect(*this, "residual", getResidual(), {kAny, hidden},
             tensor(getOut()).getElementType()) ||
      expect(*this, "addend", getAddend(), {kAny, hidden}))
    return failure();
  return expect(*this, "out", getOut(), {kAny, hidden});
}

LogicalResult CombineNormedOp::verify() {
  const int64_t hidden = getWidth();
  const int64_t pairs = columns(getPositions());
  if (!catalog::isPositiveFloat(getEpsilon().convertToDouble()))
    return emitOpError() << "'epsilon' must be a positive number of f32, got "
                         << getEpsilon().convertToDouble();
  if (expect(*this, "partials", getPartials(), {kAny, hidden}) ||
      expect(*this, "positions", getPositions(), {kAny, pairs}) ||
      expect(*this, "topk_weights", getTopkWeights(), {kAny, pairs}) ||
      expect(*this, "norm_weight", getNormWeight(), {hidden}) ||
      expect(*this, "residual", getResidual(), {kAny, hidden},
             tensor(getOut()).getElementType()))
    return failure();
  return expect(*this, "out", getOut(), {kAny, hidden});
}

LogicalResult CombineConstantsOp::verify() {
  const int64_t hidden = getWidth();
  const int64_t pairs = columns(getPositions());
  if (int64_t(getExperts()) < 1)
    return emitOpError() << "'experts' must be positive, got "
                         << int64_t(getExperts());
  if (expect(*this, "partials", getPartials(), {kAny, hidden}) ||
      expect(*this, "positions", getPositions(), {kAny, pairs}) ||
      expect(*this, "topk_weights", getTopkWeights(), {kAny, pairs}) ||
      expect(*this, "topk_ids", getTopkIds(), {kAny, pairs}) ||
      expect(*this, "constants", getConstants(),
             {tensor(getConstants()).getDimSize(0), hidden}) ||
      expect(*this, "residual", getResidual(), {kAny, hidden},
             tensor(getOut()).getElementType()))
    return failure();
  return expect(*this, "out", getOut(), {kAny, hidden});
}

/// Checks that each source value covers `repeat` rows and columns of the
/// result.
static LogicalResult verifyRepeat(PackOp op, Type element) {
  const ArrayRef<int64_t> repeat = *op.getRepeat();
  if (repeat.size() != 3 ||
      llvm::any_of(repeat, [](int64_t number) { return number < 1; }))
    return op.emitOpError() << "'repeat' must be parts, rows and columns, each "
                               "at least 1, got ["
                            << repeat << "]";
  if (op.getAlternate() && int64_t(*op.getAlternate()) < 1)
    return op.emitOpError() << "'alternate' must be positive, got "
                            << int64_t(*op.getAlternate());
  if (op.getOrder())
    return op.emitOpError() << "'order' is of columns that are not repeated";
  const RankedTensorType result = tensor(op.getResult());
  if ((result.getRank() != 2 && result.getRank() != 3) ||
      !result.hasStaticShape() || result.getElementType() != element ||
      result.getDimSize(1) % repeat[0] != 0)
    return op.emitOpError()
           << "'result' must be [experts, rows, columns] of " << element
           << " with " << repeat[0] << " equal parts of rows, got " << result;
  const int64_t rows = result.getDimSize(1) / repeat[0];
  const int64_t columns = result.getRank() == 3 ? result.getDimSize(2) : 1;
  SmallVector<int64_t> shape = {result.getDimSize(0),
                                repeat[0] *
                                    int64_t(llvm::divideCeil(rows, repeat[1]))};
  const int64_t groups = llvm::divideCeil(columns, repeat[2]);
  if (tensor(op.getSource()).getRank() != 2 || groups != 1)
    shape.push_back(groups);
  return expect(op, "source", op.getSource(), shape,
                tensor(op.getSource()).getElementType());
}

LogicalResult PackOp::verify() {
  const auto layoutOf = [](Value value) {
    return dyn_cast_or_null<LayoutAttr>(tensor(value).getEncoding());
  };
  const LayoutAttr from = layoutOf(getSource()), to = layoutOf(getResult());
  if (tensor(getSource()).getEncoding() && !(from && !from.getStored().empty()))
    return emitOpError() << "'source' must be as stored, got "
                         << tensor(getSource());
  if (!to || !to.getStored().empty())
    return emitOpError() << "'result' must have the #moe.layout that kernels "
                            "read, got "
                         << tensor(getResult());
  if (getOrder()) {
    if (expectRank(*this, "source", getSource(), 3) ||
        expect(*this, "order", getOrder(),
               {tensor(getSource()).getDimSize(0),
                tensor(getSource()).getDimSize(2)}))
      return failure();
  }
  Type element = tensor(getSource()).getElementType();
  // Power-of-two scales may become the equal f32 values.
  if (isa<Float8E8M0FNUType>(element) &&
      tensor(getResult()).getElementType().isF32())
    element = f32(*this);
  if (getRepeat())
    return verifyRepeat(*this, element);
  if (getAlternate())
    return emitOpError() << "'alternate' is of numbers that are repeated";
  return expect(*this, "result", getResult(), tensor(getSource()).getShape(),
                element);
}

LogicalResult QuantizeWeightsOp::verify() {
  const DescriptorAttr descriptor = getDescriptor();
  const RankedTensorType source = tensor(getSource());
  if (descriptor.isPlain() || descriptor.getDynamic())
    return emitOpError() << "'descriptor' must be one of weights, with scales "
                            "that are stored, got "
                         << descriptor;
  if (!source.hasStaticShape() || source.getEncoding())
    return emitOpError() << "'source' must be floats as stored, got " << source;
  if (expectPositive(*this, "parts", getParts()))
    return failure();
  if (source.getDimSize(1) % int64_t(getParts()) != 0)
    return emitOpError() << "'parts' must divide the " << source.getDimSize(1)
                         << " rows, got " << int64_t(getParts());
  if (expect(*this, "codes", getCodes(), source.getShape(),
             descriptor.getElement()))
    return failure();
  const SmallVector<Type> types = scaleTypes(descriptor, getParts(), source);
  if (getScales().size() != types.size())
    return emitOpError() << "must have " << types.size()
                         << " results after the codes, got "
                         << getScales().size();
  // Power-of-two scales may become the equal f32 values.
  for (auto [scale, type] : llvm::zip(getScales(), types))
    if (scale.getType() != type &&
        (scale != getScale() ||
         descriptor.getScaleAsRead() == descriptor.getScale() ||
         scale.getType() !=
             cast<RankedTensorType>(type).clone(descriptor.getScaleAsRead())))
      return emitOpError() << "scales must be " << type << ", got "
                           << scale.getType();
  return success();
}
