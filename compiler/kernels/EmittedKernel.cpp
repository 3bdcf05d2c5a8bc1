//===- EmittedKernel.cpp - a printed kernel -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the Config members and fields that several template headers list.
//
//===----------------------------------------------------------------------===//

#include "compiler/kernels/EmittedKernel.h"

#include "compiler/matmul/Engine.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Schemes.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using mlir::StringRef;
using namespace moec;
using namespace moec::compiler;

std::string KernelText::source(std::string_view entry) const {
  std::string text;
  for (const std::string &include : includes)
    text += fmt::format("#include \"{}\"\n", include);
  return text + fmt::format(R"(
{}
{}
static_assert(moe::sharedBytes<Config>() {} {},
              "manifest and kernel disagree on shared memory");

extern "C" __global__ void __launch_bounds__({}, {})
{}(const __grid_constant__ Args args) {{
  {}<Config>(args);
}}
)",
                            arguments.text(), config.text(),
                            sharesMore ? "<=" : "==", sharedBytes, threads,
                            minCtasPerSm, entry, function);
}

std::string compiler::schemeName(moe::ProgramOp program) {
  return program.getScheme().value_or("custom").str();
}

std::string compiler::nativePolicy(moe::GroupedMatmulOp matmul) {
  const moe::DescriptorAttr lhs = matmul.getLhsDescriptorAttr();
  const moe::DescriptorAttr rhs = matmul.getRhsDescriptorAttr();
  const catalog::NativeScales *row =
      lhs && rhs ? moe::nativeScales(lhs, rhs) : nullptr;
  return std::string(row ? row->policy : "moe::quant::None");
}

void compiler::beginKernel(moe::ProgramOp program, StringRef kind,
                           int64_t threads, bool programmatic,
                           EmittedKernel &out) {
  const catalog::KernelKind &row = *catalog::find(catalog::kKernelKinds, kind);
  out.kind = row.name;
  out.scheme = schemeName(program);
  out.programmatic = programmatic;
  out.text.includes = {fmt::format("moe/kernel/{}", row.header)};
  out.text.function = fmt::format("moe::{}", row.function);
  out.text.threads = threads;
  ConfigPrinter &config = out.text.config;
  config.number("kThreads", threads);
  config.flag("kProgrammatic", programmatic);
  config.flag("kCpAsync", program.getTarget().getArchRow().has("cp_async"));
}

/// Returns the C++ policy for codes that are multiplied without conversion
/// (templates/moe/quant/code_groups.cuh).
static std::string codesPolicy(moe::GroupedMatmulOp matmul) {
  const int64_t group = matmul.getRhsDescriptorAttr().getGroup()[1];
  const bool ofIntegers = elementTypeOf(matmul.getLhs()) == "i8";
  if (group == -1)
    return fmt::format("moe::quant::CodeChannel<{}>", ofIntegers ? 0 : 128);
  return fmt::format("moe::quant::CodeGroups<{}{}>", group,
                     matmul.getLhsDescriptorAttr().isOfTensor()
                         ? ", moe::quant::LhsScale::Tensor"
                     : matmul.scalesByGroup()
                         ? ", moe::quant::LhsScale::Group128"
                         : "");
}

void compiler::addWeightConfig(moe::GroupedMatmulOp matmul,
                               ConfigPrinter &config) {
  const moe::Realization realization = matmul.getRealization();
  if (realization == moe::Realization::Native) {
    config.type("Quant", nativePolicy(matmul));
    return;
  }
  if (realization == moe::Realization::Blocks) {
    config.type("Quant", "moe::quant::Blocks");
    config.flag("kSecondScale", bool(matmul.getRhsSecondScale()));
    if (const mlir::Value second = matmul.getLhsSecondScale())
      config.number(
          "kLhsSecondScales",
          matmul.getLhsDescriptorAttr().getSecondPerRow()
              ? 0
              : cast<mlir::RankedTensorType>(second.getType()).getDimSize(0));
    return;
  }
  const moe::DescriptorAttr weight = matmul.getRhsDescriptorAttr();
  config.type("Quant", realization == moe::Realization::Codes
                           ? codesPolicy(matmul)
                           : std::string(catalog::kWeightOnly));
  config.type("Scale", cppType(matmul.getRhsScale()));
  config.number("kScaleRows", weight.getGroup()[0]);
  config.number("kScaleColumns", weight.getGroup()[1]);
  config.flag("kZeroPoint", bool(matmul.getRhsZeroPoint()));
  config.flag("kSecondScale", bool(matmul.getRhsSecondScale()));
  config.flag("kSecondPerRow", weight.getSecondPerRow());
}

void compiler::addEngineHeader(std::string_view engine, EmittedKernel &out) {
  out.text.includes.push_back(fmt::format("moe/matmul/atom/{}.cuh", engine));
}

std::string compiler::cppType(mlir::Value value) {
  return std::string(cppElementType(elementTypeOf(value)));
}

void compiler::addActivation(moe::ActivationAttr activation, KernelText &text) {
  ConfigPrinter &config = text.config;
  if (!activation) {
    config.type("Activation", "moe::activation::None");
    return;
  }
  const catalog::Activation &row = activation.getRow();
  const catalog::ActivationFunction &function =
      *catalog::find(catalog::kActivationFunctions, row.function);
  const catalog::ActivationNumbers numbers = activation.getNumbers();
  if (!function.header.empty())
    text.includes.emplace_back(function.header);
  const bool hasNumbers = activation.getPerExpert() || numbers.limit != 0 ||
                          row.parameters.contains("alpha");
  if (!hasNumbers && !function.policy.empty()) {
    config.type("Activation",
                fmt::format("moe::activation::{}<{}>",
                            row.gated ? "Gated" : "Ungated", function.policy));
    return;
  }
  config.open("Numbers");
  config.real("kAlpha", numbers.alpha);
  config.real("kBeta", numbers.beta);
  config.real("kLinearBeta", std::max(numbers.linearBeta, 0.0));
  config.real("kLimit", std::max(numbers.limit, 0.0));
  config.close();
  config.type("Activation",
              fmt::format("{}<moe::activation::{}<Numbers>>",
                          row.gated ? function.numbersPolicy
                                    : function.plainNumbersPolicy,
                          activation.getPerExpert() ? "OfExpert" : "OfLayer"));
}

void compiler::addNumbers(
    moe::ActivateOp activate,
    llvm::function_ref<void(StringRef, StringRef)> pointer) {
  if (activate)
    for (StringRef name : activate.getActivation().getNumbersOfExperts())
      pointer(name, "float");
}

void compiler::addGateUpOrder(StringRef order, ConfigPrinter &config) {
  if (order != "gate_first")
    config.type("GateUpOrder",
                std::string(catalog::find(catalog::kGateUpOrders,
                                          std::string_view(order))
                                ->policy));
}

/// Adds a tensor map of `value`, and the field `field` of the argument block
/// that holds it. `extents` and `box` list the innermost dimension first. Rows
/// are contiguous, so the strides follow from `extents`.
static void addMap(StringRef field, std::string value, std::string elementType,
                   std::vector<Expression> extents, std::vector<int64_t> box,
                   EmittedKernel &out) {
  TensorMap map;
  map.value = std::move(value);
  map.name = fmt::format("{}_{}x{}", map.value, box[1], box[0]);
  map.elementType = std::move(elementType);
  Expression bytes(elementBytes(map.elementType));
  for (size_t i = 0; i + 1 < extents.size(); ++i) {
    bytes = bytes * extents[i];
    map.strides.push_back(bytes);
  }
  map.elementStrides.assign(box.size(), 1);
  map.extents = std::move(extents);
  map.box = std::move(box);
  map.interleave = "none";
  map.swizzle = "128b";
  map.l2Promotion = "256b";
  map.outOfBoundsFill = "zeros";
  out.text.arguments.tensorMap(field, map.name);
  out.tensorMaps.push_back(std::move(map));
}

void compiler::addWeightMap(moe::GroupedMatmulOp matmul,
                            moe::ScheduleAttr schedule, std::string weight,
                            EmittedKernel &out) {
  const std::string type = elementTypeOf(matmul.getRhs());
  // 4-bit codes are described as bytes: each element of the tensor map holds
  // two codes.
  const bool areBytes = matmul.getRealization() == moe::Realization::Blocks &&
                        elementBits(type) == 4;
  addMap("rhs", std::move(weight), areBytes ? "i8" : type,
         {Expression(int64_t(matmul.getK()) / (areBytes ? 2 : 1)),
          Expression(int64_t(matmul.getN())),
          Expression(int64_t(matmul.getNumExperts()))},
         {schedule.getMatmul()->tileK, schedule.getMatmul()->tileN, 1}, out);
}

void compiler::addRowMap(moe::GroupedMatmulOp matmul,
                         moe::ScheduleAttr schedule, std::string rows,
                         EmittedKernel &out) {
  addMap("lhs", std::move(rows), elementTypeOf(matmul.getLhs()),
         {Expression(int64_t(matmul.getK())), Expression::symbol("rows")},
         {schedule.getMatmul()->tileK, Engine::kBoxRows}, out);
}

void compiler::addRowOrder(Stage &stage, int64_t interleave,
                           llvm::StringRef gateUpOrder) {
  stage.attributes["interleave"] = interleave;
  if (gateUpOrder != "gate_first")
    stage.attributes["gate_up_order"] = gateUpOrder.str();
}
