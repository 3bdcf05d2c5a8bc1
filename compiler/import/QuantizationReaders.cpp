//===- QuantizationReaders.cpp - shared parts of the readers --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/QuantizationReaders.h"

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Schemes.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

std::string moec::compiler::orScheme() {
  return "another scheme of the expert weights is named with --scheme= (`moec "
         "list schemes` has all)";
}

std::string moec::compiler::knownScheme(JsonReader &reader,
                                        std::string_view key,
                                        std::string_view scheme) {
  if (catalog::find(catalog::kSchemes, scheme))
    return std::string(scheme);
  refuseScheme(reader, key,
               "means scheme {}, which has no row in dialect/catalog/Schemes.h",
               scheme);
  return "";
}

std::optional<std::pair<int64_t, int64_t>>
moec::compiler::readBlockShape(JsonReader &reader, std::string_view key) {
  const std::vector<int64_t> block = reader.integersOr(key, {}, 1, kMaxBlock);
  if (block.size() == 2)
    return std::pair(block[0], block[1]);
  if (!block.empty())
    reader.expected(key, "two integers, rows and columns that share a scale");
  return std::nullopt;
}

DescriptorDescription moec::compiler::scaledOperand(std::string_view element,
                                                    int64_t rows,
                                                    int64_t columns,
                                                    std::string_view scale,
                                                    bool isDynamic) {
  DescriptorDescription operand;
  operand.element = element;
  operand.group = {rows, columns};
  operand.scale = scale;
  operand.dynamic = isDynamic;
  return operand;
}

bool QuantizationContext::ignores(std::string_view key) const {
  return std::ranges::find(ignored, key) != ignored.end();
}

std::string moec::compiler::orIgnore(std::string_view key,
                                     const QuantizationContext &context) {
  return fmt::format("if it names no routed experts of layer {}, pass "
                     "--ignore-field={}",
                     context.layer.layer, key);
}

static bool isSame(const DescriptorDescription &spelled,
                   const catalog::SchemeDescriptor &row) {
  if (spelled.scale.empty())
    return row.scale.empty();
  return spelled.element == row.element && spelled.scale == row.scale &&
         spelled.group ==
             std::vector<int64_t>{row.group.rows, row.group.columns} &&
         spelled.dynamic == row.dynamic &&
         spelled.secondScale == row.secondScale &&
         spelled.zeroPoint == row.zeroPoint &&
         spelled.scaleRule == row.scaleRule &&
         spelled.secondPerRow == row.secondPerRow;
}

QuantDescription
moec::compiler::describeQuantization(DescriptorDescription activations,
                                     DescriptorDescription weights) {
  QuantDescription quant;
  for (const catalog::Scheme &row : catalog::kSchemes)
    if (quant.scheme.empty() && !row.weights.scale.empty() &&
        isSame(activations, row.activations) && isSame(weights, row.weights))
      quant.scheme = row.name;
  if (!quant.scheme.empty())
    return quant;
  quant.a1 = quant.a2 = std::move(activations);
  quant.w1 = quant.w2 = std::move(weights);
  return quant;
}

bool moec::compiler::saysNothing(const json &value) {
  return value.is_null() || value == false ||
         (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string &>().empty());
}

void moec::compiler::expectNothing(JsonReader &reader, std::string_view key,
                                   std::string_view otherwise) {
  const json *field = reader.find(key);
  if (field && !saysNothing(*field))
    refuseScheme(reader, key, "expected {}, got {}", otherwise,
                 describeJson(*field));
}
