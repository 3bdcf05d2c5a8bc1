//===- Communication.cpp - what a rank expects of the others --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Communication.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace moec;

static constexpr StringLiteral kCommunication = "moe.communication";
static constexpr StringLiteral kFirstColumn = "moe.first_column";
static constexpr StringLiteral kShareOf = "moe.share_of";

void compiler::setCommunication(moe::LayerOp layer,
                                const Communication &expected) {
  Builder builder(layer.getContext());
  SmallVector<NamedAttribute> fields;
  for (auto [name, ranks] :
       {std::pair<StringRef, int64_t>("gather", expected.gather),
        {"scatter", expected.scatter},
        {"reduce", expected.reduce}})
    if (ranks != 1)
      fields.push_back(
          builder.getNamedAttr(name, builder.getI64IntegerAttr(ranks)));
  if (expected.deferred)
    fields.push_back(builder.getNamedAttr("deferred", builder.getUnitAttr()));
  if (expected.byPackage)
    fields.push_back(builder.getNamedAttr("by_package", builder.getUnitAttr()));
  if (expected.oneSided)
    fields.push_back(builder.getNamedAttr("one_sided", builder.getUnitAttr()));
  if (!expected.exchange.empty())
    fields.push_back(builder.getNamedAttr(
        "exchange", builder.getStringAttr(expected.exchange)));
  layer->setAttr(kCommunication, builder.getDictionaryAttr(fields));
}

std::optional<compiler::Communication>
compiler::communicationOf(moe::LayerOp layer) {
  const auto fields = layer->getAttrOfType<DictionaryAttr>(kCommunication);
  if (!fields)
    return std::nullopt;
  const auto ranks = [&](StringRef name) {
    const auto value = fields.getAs<IntegerAttr>(name);
    return value ? value.getInt() : 1;
  };
  Communication expected;
  expected.gather = ranks("gather");
  expected.scatter = ranks("scatter");
  expected.reduce = ranks("reduce");
  expected.deferred = fields.contains("deferred");
  expected.byPackage = fields.contains("by_package");
  expected.oneSided = fields.contains("one_sided");
  if (const auto name = fields.getAs<StringAttr>("exchange"))
    expected.exchange = name.str();
  return expected;
}

std::optional<compiler::Communication>
compiler::movedByPackage(moe::LayerOp layer) {
  std::optional<Communication> expected = communicationOf(layer);
  return expected && expected->byPackage ? expected : std::nullopt;
}

void compiler::setWholeLayer(moe::LayerOp layer, StringRef name) {
  layer->setAttr(kShareOf, StringAttr::get(layer.getContext(), name));
}

std::string compiler::wholeLayerOf(moe::LayerOp layer) {
  const auto name = layer->getAttrOfType<StringAttr>(kShareOf);
  return name ? name.str() : layer.getSymName().str();
}

void compiler::setFirstColumn(moe::LayerOp layer, int64_t column) {
  Builder builder(layer.getContext());
  if (column == 0)
    layer->removeAttr(kFirstColumn);
  else
    layer->setAttr(kFirstColumn, builder.getI64IntegerAttr(column));
}

int64_t compiler::firstColumnOf(moe::LayerOp layer) {
  const auto column = layer->getAttrOfType<IntegerAttr>(kFirstColumn);
  return column ? column.getInt() : 0;
}
