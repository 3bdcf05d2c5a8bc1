//===- MoeLayer.cpp - the layer op ----------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parser, printer and verifier of moe.layer.
//
//===----------------------------------------------------------------------===//

#include "dialect/Expect.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Parts.h"
#include "dialect/catalog/Realizations.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

/// The attributes that every layer has, in printing order. The options are
/// printed after them, in the order in which ODS declares them.
static constexpr StringRef kLeading[] = {
    "num_experts",         "top_k",    "hidden_size",
    "intermediate_size",   "in_dtype", "out_dtype",
    "router_logits_dtype", "quant",    "routing",
    "activation",          "parallel"};

static SmallVector<StringRef> optionNames() {
  SmallVector<StringRef> names(std::begin(kLeading), std::end(kLeading));
  for (StringRef name : LayerOp::getAttributeNames())
    if (name != "sym_name" && !llvm::is_contained(names, name))
      names.push_back(name);
  return names;
}

ParseResult LayerOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, "sym_name", result.attributes))
    return failure();
  const SMLoc at = parser.getCurrentLocation();
  NamedAttrList options;
  if (parser.parseOptionalAttrDict(options))
    return failure();
  for (NamedAttribute option : options) {
    const StringRef word = option.getName().getValue();
    if (!word.contains('.') && !llvm::is_contained(optionNames(), word)) {
      auto error = parser.emitError(at)
                   << "unknown layer option '" << word << "'; known: ";
      llvm::interleaveComma(optionNames(), error);
      return error;
    }
  }
  result.attributes.append(options);
  // Checks the kind of each attribute. Without this check, an option whose
  // attribute has the wrong kind would count as absent.
  return result.name.getRegisteredInfo()->verifyInherentAttrs(
      result.attributes, [&] { return parser.emitError(at); });
}

void LayerOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " {";
  printer.increaseIndent();
  bool first = true;
  auto print = [&](StringRef name, Attribute value) {
    if (!first)
      printer << ',';
    first = false;
    printer.printNewline();
    printer << name;
    if (isa<UnitAttr>(value))
      return;
    printer << " = ";
    printer.printAttributeWithoutType(value);
  };
  const DictionaryAttr defaults = getDefaults();
  for (StringRef name : optionNames()) {
    Attribute value = (*this)->getAttr(name);
    // Options with a default are always set.
    if (value && value != defaults.get(name))
      print(name, value);
  }
  for (NamedAttribute attr : (*this)->getDiscardableAttrs())
    print(attr.getName(), attr.getValue());
  printer.decreaseIndent();
  printer.printNewline();
  printer << '}';
}

DictionaryAttr LayerOp::getDefaults() {
  Properties options;
  populateDefaultProperties((*this)->getName(), options);
  return cast<DictionaryAttr>(getPropertiesAsAttr(getContext(), options));
}

/// Checks the element types of inputs and outputs: they must be floating-point
/// types, and the scheme must accept the input type.
static LogicalResult verifyTypes(LayerOp op) {
  for (auto [name, type] :
       {std::pair<StringRef, Type>("in_dtype", op.getInDtype()),
        {"out_dtype", op.getOutDtype()},
        {"router_logits_dtype", op.getRouterLogitsDtype()}})
    if (!isa<FloatType>(type))
      return op.emitOpError()
             << "'" << name << "' must be a float type, got " << type;
  const DescriptorAttr a1 = op.getQuant().getA1();
  const Type element = a1.getElement();
  // x is converted between these types; quantized types need a scale.
  if (a1.isPlain() && element != op.getInDtype() &&
      !(element.isF32() || element.isF16() || element.isBF16()))
    return op.emitOpError()
           << "'in_dtype' is " << op.getInDtype() << ", but the scheme reads "
           << element << " without a scale";
  if (op.getInputQuantized() && a1.isPlain())
    return op.emitOpError()
           << "'input_quantized' needs a scheme that quantizes "
              "x, got "
           << op.getQuant();
  return success();
}

/// Verifies the attributes that moe-choose-realization writes.
static LogicalResult verifyRealization(LayerOp op) {
  const std::optional<StringRef> realization = op.getRealization();
  const auto emitError = [&] { return op.emitOpError(); };
  if (realization && verifyWord(emitError, catalog::kRealizations, *realization,
                                "realization"))
    return failure();
  const std::optional<QuantAttr> stored = op.getStoredQuant();
  if (bool(stored) != (realization == "weight_only"))
    return op.emitOpError() << "'stored_quant' is of realization 'weight_only'";
  // `native` and `dequantized` differ only in the engine, so their program is
  // the same.
  const WordList ways = op.getUsersQuant().getRealizations();
  const bool isOne = ways.size() < 2 || ways.contains("dequantized");
  if (realization && isOne)
    return op.emitOpError() << op.getUsersQuant()
                            << " has one program; expected no 'realization', "
                               "got '"
                            << *realization << "'";
  if (realization && !ways.contains(*realization))
    return op.emitOpError()
           << "'realization' of " << op.getUsersQuant() << " must be one of "
           << llvm::join(ways, ", ") << ", got '" << *realization << "'";
  if (!stored)
    return success();
  const Type plain = op.getComputeType();
  if (stored->withPlainActivations(plain) != op.getQuant())
    return op.emitOpError()
           << "'quant' must be " << *stored << " with activations of " << plain
           << ", got " << op.getQuant();
  return success();
}

static LogicalResult verifySizes(LayerOp op) {
  for (auto [name, size] :
       {std::pair<StringRef, int64_t>("num_experts", op.getNumExperts()),
        {"top_k", op.getTopK()},
        {"hidden_size", op.getHiddenSize()},
        {"intermediate_size", op.getIntermediateSize()}})
    if (size <= 0)
      return op.emitOpError()
             << "'" << name << "' must be positive, got " << size;
  if (op.getTopK() > op.getNumExperts())
    return op.emitOpError()
           << "'top_k' must be at most the " << op.getNumExperts()
           << " experts, got " << op.getTopK();
  for (auto [name, size] :
       {std::pair<StringRef, std::optional<int64_t>>("num_zero_experts",
                                                     op.getNumZeroExperts()),
        {"num_constant_experts", op.getNumConstantExperts()},
        {"n_shared_experts", op.getNSharedExperts()},
        {"shared_intermediate_size", op.getSharedIntermediateSize()},
        {"num_redundant_experts", op.getNumRedundantExperts()},
        {"latent_hidden_size", op.getLatentHiddenSize()}})
    if (size && *size < 0)
      return op.emitOpError()
             << "'" << name << "' must not be negative, got " << *size;
  for (auto [name, size, least] :
       {std::tuple<StringRef, std::optional<int64_t>, int64_t>(
            "stored_hidden_size", op.getStoredHiddenSize(), op.getWidth()),
        {"stored_intermediate_size_per_partition",
         op.getStoredIntermediateSizePerPartition(),
         op.getIntermediateSizePerPartition().value_or(1)}})
    if (size && *size < least)
      return op.emitOpError()
             << "'" << name << "' counts what pads the " << least
             << " that there are, and must be at least as many, got " << *size;
  return success();
}

static LogicalResult verifyRouting(LayerOp op) {
  const RoutingAttr routing = op.getRouting();
  if (routing.getGroups() > 0) {
    if (op.getNumExperts() % routing.getGroups() != 0)
      return op.emitOpError()
             << routing.getGroups() << " routing groups do not divide "
             << op.getNumExperts() << " experts";
    const int64_t eligible =
        op.getNumExperts() / routing.getGroups() * routing.getTopGroups();
    if (op.getTopK() > eligible)
      return op.emitOpError() << "'top_k' must be at most " << eligible
                              << ", the experts of " << routing.getTopGroups()
                              << " routing groups, got " << op.getTopK();
  }
  if (routing.getSinks() >= op.getTopK())
    return op.emitOpError() << "'sinks' in 'routing' must be fewer than top_k, "
                               "which counts them, got "
                            << routing.getSinks() << " of " << op.getTopK();
  if (op.getRoutedScalingFactor() && routing.getScale())
    return op.emitOpError() << "the routed scale is given twice, by "
                               "'routed_scaling_factor' and in 'routing'";
  if (op.getApplyRouterWeightOnInput() && op.getTopK() != 1)
    return op.emitOpError()
           << "'apply_router_weight_on_input' needs top_k = 1, got "
           << op.getTopK();
  return success();
}

SmallVector<int64_t> LayerOp::getRanksOfPackage() {
  if (const auto ranks = getRanks())
    return SmallVector<int64_t>(*ranks);
  return {getParallel().getFlatRank()};
}

static LogicalResult verifyRanks(LayerOp op) {
  if (!op.getRanks())
    return success();
  const ArrayRef<int64_t> ranks = *op.getRanks();
  const int64_t size = op.getParallel().getFlatSize();
  if (ranks.empty() || ranks.front() < 0 || ranks.back() >= size ||
      !llvm::is_sorted(ranks, std::less_equal<>()))
    return op.emitOpError() << "'ranks' must be some of 0 to " << size - 1
                            << " (dp * pcp * tp ranks), ascending";
  if (op.getParallel().getFlatRank() != ranks.front())
    return op.emitOpError()
           << "the rank in 'parallel' must be the first of "
              "'ranks', "
           << ranks.front() << ", got " << op.getParallel().getFlatRank();
  return success();
}

/// Checks that the attributes that moe-resolve-parallel writes are consistent
/// with `parallel`.
static LogicalResult verifyLocal(LayerOp op) {
  const int given = bool(op.getIntermediateSizePerPartition()) +
                    bool(op.getLocalBegin()) + bool(op.getLocalExperts()) +
                    bool(op.getW2Bias());
  if (given == 0 && !op.hasSharedMlp())
    return success();
  if (given != 4)
    return op.emitOpError()
           << "'intermediate_size_per_partition', 'local_begin', "
              "'local_experts' and 'w2_bias' must be given "
              "together";
  if (*op.getIntermediateSizePerPartition() < 1 ||
      *op.getIntermediateSizePerPartition() > op.getIntermediateSize())
    return op.emitOpError()
           << "'intermediate_size_per_partition' must be between 1 and the "
           << op.getIntermediateSize() << " of the layer, got "
           << *op.getIntermediateSizePerPartition();
  if (const auto shared = op.getSharedIntermediateSizePerPartition();
      shared &&
      (int64_t(*shared) < 1 || int64_t(*shared) > op.getSharedWidth()))
    return op.emitOpError()
           << "'shared_intermediate_size_per_partition' must be between 1 and "
              "the "
           << op.getSharedWidth() << " of the shared experts together, got "
           << int64_t(*shared);
  const int64_t stride = op.getLocalStride().value_or(1);
  const int64_t count = *op.getLocalExperts();
  if (*op.getLocalBegin() < 0 || count < 0 || stride < 1 ||
      (count > 0 &&
       *op.getLocalBegin() + (count - 1) * stride >= op.getStoredExperts()))
    return op.emitOpError()
           << "local experts " << *op.getLocalBegin() << " + i * " << stride
           << ", " << count << " of them, do not lie in the "
           << op.getStoredExperts() << " experts";
  return success();
}

SmallVector<int64_t, 3> moec::moe::scaleShape(DescriptorAttr descriptor,
                                              int64_t experts, int64_t parts,
                                              int64_t partRows,
                                              int64_t columns) {
  if (descriptor.isPlain())
    return {};
  const int64_t groupRows = descriptor.getGroup()[0];
  const int64_t groupColumns = descriptor.getGroup()[1];
  const int64_t rows =
      parts * (groupRows == -1 ? 1 : llvm::divideCeil(partRows, groupRows));
  if (groupColumns == -1)
    return {experts, rows};
  return {experts, rows, int64_t(llvm::divideCeil(columns, groupColumns))};
}

SmallVector<int64_t, 3> LayerOp::getW13ScaleShape() {
  return scaleShape(getQuant().getW1(), *getLocalExperts(), isGated() ? 2 : 1,
                    *getIntermediateSizePerPartition(), getWidth());
}

SmallVector<int64_t, 3> LayerOp::getW2ScaleShape() {
  return scaleShape(getQuant().getW2(), *getLocalExperts(), 1, getWidth(),
                    *getIntermediateSizePerPartition());
}

Type LayerOp::getComputeType() {
  const DescriptorAttr a1 = getQuant().getA1(), a2 = getQuant().getA2();
  if (a1.isPlain())
    return a1.getElement();
  if (a2.isPlain())
    return a2.getElement();
  return getInDtype().isF16() ? getInDtype()
                              : Type(BFloat16Type::get(getContext()));
}

LogicalResult LayerOp::verify() {
  if (failed(detail::expectSymbol(*this, getSymName())))
    return failure();
  if (const FloatAttr epsilon = getPostExpertNormEpsAttr();
      epsilon && !catalog::isPositiveFloat(epsilon.getValueAsDouble()))
    return emitOpError()
           << "'post_expert_norm_eps' must be a positive number of "
              "f32, got "
           << epsilon.getValueAsDouble() << "; omit it for no norm";
  for (NamedAttribute attr : (*this)->getDiscardableAttrs())
    if (!attr.getName().getValue().contains('.'))
      return emitOpError() << "unknown layer option '"
                           << attr.getName().getValue() << "'";
  const auto emitError = [&] { return emitOpError(); };
  const StringRef stored = getStoredLayout();
  if (verifyWord(emitError, catalog::kGateUpOrders, getGateUpOrder(),
                 "gate_up_order") ||
      verifyWord(emitError, catalog::kStoredLayouts, stored, "stored_layout"))
    return failure();
  if (const std::optional<Type> type = getWeightsDtype()) {
    if (!type->isF32() && !type->isF16() && !type->isBF16())
      return emitOpError() << "'weights_dtype' must be f32, f16 or bf16, got "
                           << *type;
    if (getQuant().getW1().isPlain() || getQuant().getW2().isPlain())
      return emitOpError() << "'weights_dtype' needs a scheme that quantizes "
                              "both weights, got "
                           << getQuant();
    if (stored != "rows")
      return emitOpError()
             << "'weights_dtype' is of weights that are stored as "
                "rows, got stored_layout '"
             << stored << "'";
  }
  if (verifyOneOf(emitError, {"f32", "fast"}, getAccumulate(), "accumulate") ||
      verifyOneOf(emitError, {"standard", "batched"}, getActivationFormat(),
                  "activation_format") ||
      (getPart() &&
       verifyWord(emitError, catalog::kLayerParts, *getPart(), "part")) ||
      failed(verifySizes(*this)) || failed(verifyTypes(*this)) ||
      failed(verifyRouting(*this)) || failed(verifyRealization(*this)))
    return failure();
  return failure(failed(verifyRanks(*this)) || failed(verifyLocal(*this)));
}
