//===- Buffers.cpp - buffers of a report ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/explain/Parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using nlohmann::ordered_json;

/// Returns the name of the value that is bound to the stage argument, or "" if
/// the argument is not in memory.
static std::string valueOf(const std::string &argument, const Kernel &kernel,
                           const Target &target) {
  for (const ArgumentField &field : kernel.arguments.fields) {
    if (field.name != argument)
      continue;
    if (field.kind == ArgumentField::Kind::Pointer)
      return field.value;
    for (const TensorMap &map : target.tensorMaps)
      if (field.kind == ArgumentField::Kind::TensorMap &&
          map.name == field.tensorMap)
        return map.value;
  }
  return "";
}

void compiler::addBuffers(ordered_json &json, const Kernel &kernel,
                          const Target &target) {
  ordered_json reads = ordered_json::array(), writes = ordered_json::array();
  auto add = [&](ordered_json &names, const std::string &argument) {
    const std::string value = valueOf(argument, kernel, target);
    if (!value.empty() &&
        std::find(names.begin(), names.end(), value) == names.end())
      names.push_back(value);
  };
  for (const Stage &stage : kernel.stages) {
    for (const auto &[operand, argument] : stage.operands)
      add(reads, argument);
    for (const auto &[result, argument] : stage.results)
      add(writes, argument);
  }
  // A kernel with several stages may also read values that an earlier stage of
  // the kernel wrote.
  json["reads"] = std::move(reads);
  json["writes"] = std::move(writes);
}

ordered_json compiler::buffersJson(const Variant &variant,
                                   const Symbols &symbols) {
  ordered_json buffers = ordered_json::array();
  for (const Region &region : variant.regions) {
    Result<int64_t> offset = region.offset.evaluate(symbols);
    Result<int64_t> bytes = region.bytes.evaluate(symbols);
    if (offset && bytes)
      buffers.push_back(
          {{"name", region.value},
           {"offset", *offset},
           {"bytes", *bytes},
           {"launches", {region.firstLaunch, region.lastLaunch}}});
  }
  return buffers;
}
