//===- MoeAttrs.cpp - attributes ------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the attributes, and the parsers and printers that MoeAttrs.td
// does not generate. A name that no table contains is an error that lists the
// names in the table.
//
//===----------------------------------------------------------------------===//

#include "dialect/FieldParser.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Realizations.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

#include "dialect/MoeEnums.cpp.inc"
#include "dialect/MoeSchedules.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/MoeAttrs.cpp.inc"

void MoeDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/MoeAttrs.cpp.inc"
      >();
}

/// The suffix of the mnemonic of a matmul schedule, which follows the engine's
/// name.
static constexpr llvm::StringLiteral kSchedule = "_schedule";

Attribute MoeDialect::parseAttribute(DialectAsmParser &parser,
                                     Type type) const {
  StringRef mnemonic;
  Attribute attribute;
  const SMLoc at = parser.getCurrentLocation();
  if (generatedAttributeParser(parser, &mnemonic, type, attribute).has_value())
    return attribute;
  StringRef name = mnemonic;
  if (!name.consume_back(kSchedule)) {
    parser.emitError(at) << "unknown attribute '" << mnemonic << "'";
    return {};
  }
  const catalog::Engine *engine = catalog::find(catalog::kEngines, name);
  if (!engine) {
    parser.emitError(at) << "unknown engine '" << name
                         << "'; known: " << catalog::names(catalog::kEngines);
    return {};
  }
  Schedule schedule;
  schedule.engine = engine;
  if (engine->warpSpecialized)
    schedule.warps = WarpRoles();
  return parseSchedule<MatmulScheduleAttr>(parser, schedule);
}

void MoeDialect::printAttribute(Attribute attribute,
                                DialectAsmPrinter &printer) const {
  if (succeeded(generatedAttributePrinter(attribute, printer)))
    return;
  auto schedule = cast<MatmulScheduleAttr>(attribute);
  printer << schedule.getEngine() << kSchedule;
  printSchedule(printer, schedule);
}

//===----------------------------------------------------------------------===//
// DescriptorAttr
//===----------------------------------------------------------------------===//

LogicalResult DescriptorAttr::verify(EmitError emitError, Type element,
                                     ArrayRef<int64_t> group, Type scale,
                                     bool dynamic, Type secondScale,
                                     Type zeroPoint, StringRef scaleRule,
                                     bool secondPerRow) {
  if (!element || !isa<FloatType, IntegerType>(element))
    return emitError() << "element must be a float or an integer type, got "
                       << element;
  if (!group.empty() && group.size() != 2)
    return emitError() << "'group' must be [rows, columns], got "
                       << group.size() << " numbers";
  for (int64_t size : group)
    if (size != -1 && size <= 0)
      return emitError()
             << "'group' sizes must be positive, or -1 for the whole extent, "
                "got "
             << size;
  if (group.empty() != !scale)
    return emitError() << "'group' and 'scale' must be given together";
  if (scale && !isa<FloatType>(scale))
    return emitError() << "'scale' must be a float type, got " << scale;
  if (!scale && (dynamic || secondScale || zeroPoint))
    return emitError() << "'dynamic', 'second_scale' and 'zero_point' need a "
                          "'scale'";
  if (secondScale && !isa<FloatType>(secondScale))
    return emitError() << "'second_scale' must be a float type, got "
                       << secondScale;
  if (zeroPoint && !isa<IntegerType>(element))
    return emitError() << "'zero_point' needs an integer element type, got "
                       << element;
  if (!scaleRule.empty() && verifyOneOf(emitError, {"even", "ceil", "floor"},
                                        scaleRule, "scale_rule"))
    return failure();
  if (!scaleRule.empty() &&
      (!dynamic || !isa_and_nonnull<Float8E8M0FNUType>(scale)))
    return emitError() << "'scale_rule' is of dynamic scales of f8E8M0FNU";
  if (secondPerRow && !secondScale)
    return emitError() << "'second_per_row' needs a 'second_scale'";
  return success();
}

StringRef DescriptorAttr::getRule() const {
  if (!getDynamic() || !isa<Float8E8M0FNUType>(getScale()))
    return {};
  if (!getScaleRule().empty())
    return getScaleRule();
  return getElement().getIntOrFloatBitWidth() == 8 ? "ceil" : "even";
}

bool DescriptorAttr::isOfBlocks() const {
  return !isPlain() && getGroup()[0] == 1 &&
         (getGroup()[1] == 16 || getGroup()[1] == 32) &&
         isa<Float8E8M0FNUType, Float8E4M3FNType>(getScale());
}

Type DescriptorAttr::getScaleAsRead() const {
  return isa_and_nonnull<Float8E8M0FNUType>(getScale())
             ? Type(Float32Type::get(getContext()))
             : getScale();
}

DescriptorAttr DescriptorAttr::withGroup(ArrayRef<int64_t> group) const {
  return get(getContext(), getElement(), group, getScale(), getDynamic(),
             getSecondScale(), getZeroPoint(), getScaleRule(),
             getSecondPerRow());
}

//===----------------------------------------------------------------------===//
// QuantAttr
//===----------------------------------------------------------------------===//

Type moec::moe::elementType(MLIRContext *context, std::string_view name) {
  return name.empty() ? Type() : parseType(name, context);
}

static DescriptorAttr descriptor(MLIRContext *context,
                                 const catalog::SchemeDescriptor &row) {
  SmallVector<int64_t, 2> group;
  if (row.group.rows != 0)
    group = {row.group.rows, row.group.columns};
  return DescriptorAttr::get(context, elementType(context, row.element), group,
                             elementType(context, row.scale), row.dynamic,
                             elementType(context, row.secondScale),
                             elementType(context, row.zeroPoint), row.scaleRule,
                             row.secondPerRow);
}

QuantAttr QuantAttr::getScheme(MLIRContext *context, StringRef name) {
  const catalog::Scheme *row = catalog::find(catalog::kSchemes, name);
  if (!row)
    return {};
  const DescriptorAttr activations = descriptor(context, row->activations);
  const DescriptorAttr weights = descriptor(context, row->weights);
  return get(context, name, activations, activations, weights, weights);
}

QuantAttr QuantAttr::getSpelled(MLIRContext *context, DescriptorAttr a1,
                                DescriptorAttr a2, DescriptorAttr w1,
                                DescriptorAttr w2) {
  for (const catalog::Scheme &row : catalog::kSchemes) {
    QuantAttr named = getScheme(context, row.name);
    if (named.getA1() == a1 && named.getA2() == a2 && named.getW1() == w1 &&
        named.getW2() == w2)
      return named;
  }
  return get(context, "", a1, a2, w1, w2);
}

/// Returns true if the weight has 4-bit codes (quantized values) whose scales
/// can multiply the accumulators instead of the codes. The weight must have one
/// scale per row, or per group of 64 or 128 elements along K. Second scales
/// must be per row; they multiply the final accumulators.
static bool scalesSums(DescriptorAttr weight) {
  if (!weight.getElement().isInteger(4) || weight.isPlain() ||
      weight.getDynamic() || weight.getZeroPoint() ||
      (weight.getSecondScale() && !weight.getSecondPerRow()))
    return false;
  const Type scale = weight.getScale();
  const int64_t columns = weight.getGroup()[1];
  return (scale.isF32() || scale.isF16() || scale.isBF16() ||
          isa<Float8E4M3FNType>(scale)) &&
         weight.getGroup()[0] == 1 &&
         (columns == -1 || columns == 64 || columns == 128);
}

bool QuantAttr::multipliesCodes() const {
  const DescriptorAttr a1 = getA1();
  const bool ofTokens = a1.getDynamic() && a1.getScale().isF32() &&
                        a1.getGroup() == ArrayRef<int64_t>{1, -1};
  return a1 == getA2() && ofTokens &&
         (a1.getElement().isInteger(8) ||
          isa<Float8E4M3FNType>(a1.getElement())) &&
         scalesSums(getW1()) && scalesSums(getW2());
}

bool QuantAttr::mayMultiplyCodes() const {
  const DescriptorAttr a1 = getA1();
  const ArrayRef<int64_t> group = a1.getGroup();
  const bool ofRows = a1.isOfTensor() || (a1.getDynamic() && group[0] == 1 &&
                                          (group[1] == -1 || group[1] == 128));
  const auto isScaled = [](DescriptorAttr weight) {
    return isa<Float4E2M1FNType>(weight.getElement()) &&
           isa_and_nonnull<Float8E8M0FNUType>(weight.getScale()) &&
           weight.getGroup() == ArrayRef<int64_t>{1, 32};
  };
  return dequantizesWeights() && a1 == getA2() && ofRows &&
         isa<Float8E4M3FNType>(a1.getElement()) && a1.getScale().isF32() &&
         isScaled(getW1()) && isScaled(getW2());
}

/// Returns the name of an element type as the catalog spells it.
static std::string nameOfType(Type type) {
  std::string name;
  if (type)
    llvm::raw_string_ostream(name) << type;
  return name;
}

const catalog::BlockPair *QuantAttr::getBlockPair() const {
  const auto pairOf = [](DescriptorAttr a,
                         DescriptorAttr w) -> const catalog::BlockPair * {
    if (!a.isOfBlocks() || !w.isOfBlocks() || !a.getDynamic() ||
        w.getDynamic() || a.getGroup() != w.getGroup() ||
        a.getScale() != w.getScale() || w.getSecondPerRow())
      return nullptr;
    // Scales of type e4m3 need a second-level scale.
    const bool hasSecond = isa<Float8E4M3FNType>(a.getScale());
    if (bool(a.getSecondScale()) != hasSecond ||
        bool(w.getSecondScale()) != hasSecond)
      return nullptr;
    return catalog::blockPair(
        nameOfType(a.getElement()), nameOfType(w.getElement()),
        nameOfType(w.getScale()), w.getGroup()[1], a.getSecondPerRow());
  };
  const catalog::BlockPair *first = pairOf(getA1(), getW1());
  return first && first == pairOf(getA2(), getW2()) && dequantizesWeights()
             ? first
             : nullptr;
}

const catalog::NativeScales *moec::moe::nativeScales(DescriptorAttr activation,
                                                     DescriptorAttr weight) {
  if (activation.isPlain() || weight.isPlain() ||
      activation.getElement() != weight.getElement() || weight.getDynamic())
    return nullptr;
  for (const DescriptorAttr operand : {activation, weight})
    if (operand.getSecondScale() || operand.getZeroPoint())
      return nullptr;
  const ArrayRef<int64_t> ofRows = activation.getGroup();
  // Kernels read power-of-two scales as the equal f32 values, and compute
  // dynamic power-of-two scales only for groups of 128.
  const auto isRead = [](DescriptorAttr operand) {
    return operand.getScaleAsRead().isF32();
  };
  const bool isPower = isa<Float8E8M0FNUType>(activation.getScale());
  const bool isStatic = !activation.getDynamic();
  if (!isRead(activation) || !isRead(weight) ||
      (isPower && (ofRows[1] != 128 || activation.getRule() != "ceil")) ||
      (isStatic && !activation.isOfTensor()))
    return nullptr;
  const auto groupOf = [](DescriptorAttr operand) {
    return catalog::ScaleGroup{int(operand.getGroup()[0]),
                               int(operand.getGroup()[1])};
  };
  return catalog::nativeScales(nameOfType(weight.getElement()),
                               groupOf(activation), groupOf(weight));
}

bool QuantAttr::multipliesBytes() const {
  return nativeScales(getA1(), getW1()) && nativeScales(getA2(), getW2());
}

bool moec::moe::havePowerGroups(DescriptorAttr activation,
                                DescriptorAttr weight) {
  return nativeScales(activation, weight) && activation.getGroup()[1] == 128 &&
         isa<Float8E8M0FNUType>(activation.getScale()) &&
         isa<Float8E8M0FNUType>(weight.getScale());
}

const catalog::BlockPair *QuantAttr::getPowerGroups() const {
  if (!havePowerGroups(getA1(), getW1()) || !havePowerGroups(getA2(), getW2()))
    return nullptr;
  return catalog::blockPair(nameOfType(getA1().getElement()),
                            nameOfType(getW1().getElement()), "f8E8M0FNU", 128);
}

bool QuantAttr::dequantizesWeights() const {
  if (getW1().isPlain() || getW2().isPlain())
    return false;
  const catalog::Scheme *row = catalog::find(catalog::kSchemes, getScheme());
  return row ? row->policy == catalog::kWeightOnly
             : !multipliesCodes() && !multipliesBytes();
}

WordList QuantAttr::getRealizations() const {
  if (const auto *row = catalog::find(catalog::kSchemes, getScheme()))
    return row->realizations;
  if (!dequantizesWeights())
    return catalog::kNativeOrConverted;
  return getA1().isPlain() && getA2().isPlain()
             ? catalog::kConvertedWeights
             : catalog::kQuantizedActivations;
}

QuantAttr QuantAttr::withPlainActivations(Type type) const {
  const DescriptorAttr plain = DescriptorAttr::get(getContext(), type);
  return getSpelled(getContext(), plain, plain, getW1(), getW2());
}

std::string QuantAttr::getBits() const {
  const auto bits = [](DescriptorAttr weight, DescriptorAttr activation) {
    return ("w" + Twine(weight.getElement().getIntOrFloatBitWidth()) + "a" +
            Twine(activation.getElement().getIntOrFloatBitWidth()))
        .str();
  };
  const std::string first = bits(getW1(), getA1());
  const std::string second = bits(getW2(), getA2());
  return first == second ? first : first + "_" + second;
}

Realization QuantAttr::getRealization(bool first) const {
  const DescriptorAttr activation = first ? getA1() : getA2();
  if (dequantizesWeights())
    return activation.isPlain() ? Realization::Dequantized
                                : Realization::Emulated;
  return multipliesCodes() ? Realization::Codes : Realization::Native;
}

Attribute QuantAttr::parse(AsmParser &parser, Type) {
  std::string name;
  if (parser.parseLess())
    return {};
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&name))
    return {};
  DescriptorAttr a1, a2, w1, w2;
  FieldParser fields(parser);
  fields.add(Field("a1").required(), a1);
  fields.add(Field("a2").required(), a2);
  fields.add(Field("w1").required(), w1);
  fields.add(Field("w2").required(), w2);
  if (name == "a1" || name == "a2" || name == "w1" || name == "w2") {
    if (fields.parseOne(at, name) || fields.parse(/*first=*/false) ||
        parser.parseGreater())
      return {};
    return getSpelled(parser.getContext(), a1, a2, w1, w2);
  }
  if (parser.parseGreater() || verifyWord([&] { return parser.emitError(at); },
                                          catalog::kSchemes, name, "scheme"))
    return {};
  return getScheme(parser.getContext(), name);
}

void QuantAttr::print(AsmPrinter &printer) const {
  printer << '<';
  FieldPrinter fields(printer);
  if (!getName().empty()) {
    fields.add(Field(""), getName());
  } else {
    fields.add(Field("a1"), getA1());
    fields.add(Field("a2"), getA2());
    fields.add(Field("w1"), getW1());
    fields.add(Field("w2"), getW2());
  }
  printer << '>';
}

LogicalResult QuantAttr::verify(EmitError emitError, StringRef name,
                                DescriptorAttr a1, DescriptorAttr a2,
                                DescriptorAttr w1, DescriptorAttr w2) {
  if (!name.empty() && verifyWord(emitError, catalog::kSchemes, name, "scheme"))
    return failure();
  // The parser already rejects a scheme without all four descriptors.
  assert(a1 && a2 && w1 && w2 && "a scheme needs four descriptors");
  return success();
}

//===----------------------------------------------------------------------===//
// RoutingAttr
//===----------------------------------------------------------------------===//

bool RoutingAttr::takesGivenIdsAlone() const {
  const catalog::RoutingMethod *row =
      catalog::find(catalog::kRoutingMethods, getMethod());
  return row && row->select == "given";
}

LogicalResult RoutingAttr::verify(EmitError emitError, StringRef method,
                                  StringRef scoring, bool renormalize,
                                  int64_t groups, int64_t topGroups, FloatAttr,
                                  bool, FloatAttr softcap, FloatAttr logitScale,
                                  FloatAttr epsilon, int64_t sinks) {
  const bool isAuto = std::string_view(method) == catalog::kAutoRouting;
  if (!isAuto && verifyWord(emitError, catalog::kRoutingMethods, method,
                            "routing method", ", auto"))
    return failure();
  if (isAuto && scoring != "softmax" && scoring != "sigmoid" &&
      scoring != "sqrtsoftplus")
    return emitError() << "routing 'auto' needs 'scoring' to be softmax, "
                          "sigmoid or sqrtsoftplus, got '"
                       << scoring << "'";
  if (!isAuto && (!scoring.empty() || renormalize))
    return emitError() << "'scoring' and 'renormalize' belong to routing "
                          "'auto'; method '"
                       << method << "' defines both";
  if (groups < 0 || topGroups < 0 || (groups == 0) != (topGroups == 0) ||
      topGroups > groups)
    return emitError() << "'top_groups' must be between 1 and 'groups', got "
                       << topGroups << " of " << groups;
  if (softcap && !(softcap.getValueAsDouble() > 0))
    return emitError() << "'softcap' must be positive, got "
                       << softcap.getValueAsDouble() << "; omit it for no cap";
  for (const auto &[name, number] :
       {std::pair("logit_scale", logitScale), {"epsilon", epsilon}})
    if (number && !catalog::isPositiveFloat(number.getValueAsDouble()))
      return emitError() << "'" << name
                         << "' must be a positive number of f32, got "
                         << number.getValueAsDouble();
  if (sinks < 0)
    return emitError() << "'sinks' must not be negative, got " << sinks;
  return success();
}

//===----------------------------------------------------------------------===//
// ActivationAttr
//===----------------------------------------------------------------------===//

LogicalResult ActivationAttr::verify(EmitError emitError, StringRef function,
                                     FloatAttr alpha, FloatAttr beta,
                                     FloatAttr linearBeta, FloatAttr limit,
                                     bool perExpert) {
  if (verifyWord(emitError, catalog::kActivations, function, "activation"))
    return failure();
  if (perExpert && (alpha || beta || linearBeta || limit))
    return emitError() << "'per_expert' means that all parameters are inputs "
                          "per expert, got one of the layer as well";
  if (limit && !(limit.getValueAsDouble() > 0))
    return emitError() << "'limit' must be positive, got "
                       << limit.getValueAsDouble() << "; omit it for no limit";
  return success();
}

const moec::catalog::Activation &ActivationAttr::getRow() const {
  return *catalog::find(catalog::kActivations, getFunction());
}

bool ActivationAttr::isGated() const { return getRow().gated; }
bool ActivationAttr::takesManyRegisters() const {
  static constexpr moec::WordList many = "gelu situ powlu clamped_relu2";
  return many.contains(getRow().function);
}

moec::catalog::ActivationNumbers ActivationAttr::getNumbers() const {
  const catalog::Activation &row = getRow();
  const auto number = [](FloatAttr said, double otherwise) {
    return said ? said.getValueAsDouble() : otherwise;
  };
  return {number(getAlpha(), row.alpha), number(getBeta(), row.beta),
          number(getLinearBeta(), row.linearBeta),
          number(getLimit(), row.limit)};
}

SmallVector<StringRef> ActivationAttr::getNumbersOfExperts() const {
  SmallVector<StringRef> weights;
  if (!getPerExpert())
    return weights;
  for (std::string_view parameter : getRow().parameters)
    weights.push_back(
        catalog::find(catalog::kActivationParameters, parameter)->weight);
  return weights;
}

//===----------------------------------------------------------------------===//
// ParallelAttr
//===----------------------------------------------------------------------===//

ParallelAttr ParallelAttr::get(MLIRContext *context, const Parallel &fields) {
  return get(context, fields.tp, fields.tpRank, fields.pcp, fields.pcpRank,
             fields.dp, fields.dpRank, fields.sp, fields.ep,
             StringRef(fields.placement), fields.rank);
}

Parallel ParallelAttr::getFields() const {
  Parallel fields;
  fields.tp = getTp(), fields.tpRank = getTpRank();
  fields.pcp = getPcp(), fields.pcpRank = getPcpRank();
  fields.dp = getDp(), fields.dpRank = getDpRank();
  fields.sp = getSp(), fields.ep = getEp();
  fields.placement = getPlacement().str(), fields.rank = getRank();
  return fields;
}

int64_t ParallelAttr::getFlatRank() const {
  if (getRank())
    return *getRank();
  return (getDpRank() * getPcp() + getPcpRank()) * getTp() + getTpRank();
}

LogicalResult ParallelAttr::verify(EmitError emitError, int64_t tp,
                                   int64_t tpRank, int64_t pcp, int64_t pcpRank,
                                   int64_t dp, int64_t dpRank, int64_t sp, bool,
                                   StringRef placement,
                                   std::optional<int64_t> rank) {
  struct Size {
    StringRef name;
    int64_t size, rank;
  };
  for (const Size &size : {Size{"tp", tp, tpRank}, Size{"pcp", pcp, pcpRank},
                           Size{"dp", dp, dpRank}, Size{"sp", sp, 0}}) {
    if (size.size < 1)
      return emitError() << "'" << size.name << "' must be at least 1, got "
                         << size.size;
    if (size.rank < 0 || size.rank >= size.size)
      return emitError() << "'" << size.name << "_rank' must be between 0 and "
                         << size.size - 1 << ", got " << size.rank;
  }
  if (rank && (*rank < 0 || *rank >= dp * pcp * tp))
    return emitError() << "'rank' must be between 0 and " << dp * pcp * tp - 1
                       << " (dp * pcp * tp ranks), got " << *rank;
  if (rank && (tpRank || pcpRank || dpRank) &&
      *rank != (dpRank * pcp + pcpRank) * tp + tpRank)
    return emitError() << "'rank' is " << *rank
                       << ", but the ranks of dp, "
                          "pcp and tp flatten to "
                       << (dpRank * pcp + pcpRank) * tp + tpRank;
  return verifyOneOf(emitError, {"linear", "round_robin"}, placement,
                     "placement");
}
