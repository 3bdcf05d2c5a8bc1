//===- RunBatch.h - weights, workspace, one batch ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both examples do this once they hold a package: hand over the weights of a
// layer, make a context, run a batch. An engine does the first once for each
// layer of its model (the package, with its code, is shared), the second once
// for each stream, the third at every step.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_EXAMPLES_COMMON_RUNBATCH_H
#define MOEC_EXAMPLES_COMMON_RUNBATCH_H

#include "examples/common/Memory.h"

#include <moec/moec.hpp>

#include <cmath>
#include <cstdio>

namespace example {

/// Random numbers for a value, at the size and of the type that the package
/// says. A scale is positive; the default type stands first.
inline moec::api::Expected<moec::api::Tensor>
randomTensor(const moec::api::Package &package, Memory &memory,
             const moec_value &value, int64_t tokens, double scale) {
  auto bytes = package.valueBytes(value.name, tokens);
  auto shape = package.valueShape(value.name, tokens);
  if (!bytes || !shape)
    return bytes ? shape.error() : bytes.error();
  const std::string types = value.element_types;
  const std::string type = types.substr(0, types.find(' '));
  void *data = memory.random(type, *bytes, scale,
                             std::string_view(value.name).ends_with("_scale"));
  if (!data)
    return moec::api::Failure{MOEC_INVALID_ARGUMENT,
                              "no memory for " + std::string(value.name) +
                                  " of type " + type};
  return moec::api::Tensor{value.name, data, *shape};
}

/// Every weight that the package wants, filled at random. An engine names the
/// tensors of its checkpoint instead: w13 is [experts, 2 * intermediate,
/// hidden], gate rows before up rows, w2 is [experts, hidden, intermediate].
inline moec::api::Expected<moec::api::Layer>
makeLayer(const moec::api::Package &package, Memory &memory) {
  std::vector<moec::api::Tensor> weights;
  for (size_t i = 0; i < moec_package_num_values(package.get()); ++i) {
    moec_value value = {};
    value.struct_size = sizeof value;
    if (moec_package_value(package.get(), i, &value) != MOEC_OK ||
        value.role != MOEC_STORED_WEIGHT)
      continue;
    auto tensor = randomTensor(package, memory, value, 1, 0.05);
    if (!tensor)
      return tensor.error();
    weights.push_back(*tensor);
  }
  // Packs in place where the package allows it: no second copy of the weights.
  return moec::api::Layer::create(package, weights, /*stream=*/nullptr);
}

/// One batch through the layer; prints the first numbers of the result.
inline moec::api::Expected<void> runBatch(const moec::api::Package &package,
                                          const moec::api::Layer &layer,
                                          Memory &memory, int64_t tokens) {
  auto workspaceBytes = package.workspaceBytes(tokens);
  auto outputBytes = package.valueBytes("out", tokens);
  for (auto *bytes : {&workspaceBytes, &outputBytes})
    if (!*bytes)
      return bytes->error();
  // An engine has its tensors' shapes: x and out are [tokens, hidden], logits
  // [tokens, experts]. They are compared with what the package says.
  auto outputShape = package.valueShape("out", tokens);
  if (!outputShape)
    return outputShape.error();
  std::vector<moec::api::Tensor> tensors;
  for (size_t i = 0; i < moec_package_num_values(package.get()); ++i) {
    moec_value value = {};
    value.struct_size = sizeof value;
    if (moec_package_value(package.get(), i, &value) != MOEC_OK)
      continue;
    const std::string_view name = value.name;
    if (name != "x" && name != "logits")
      continue;
    auto tensor =
        randomTensor(package, memory, value, tokens, name == "x" ? 1 : 4);
    if (!tensor)
      return tensor.error();
    tensors.push_back(*tensor);
  }

  // One context a stream; it may serve any number of layers, one after another.
  void *workspace = memory.allocate(*workspaceBytes);
  auto context =
      moec::api::Context::create(package, workspace, *workspaceBytes);
  if (!context)
    return context.error();

  void *out = memory.allocate(*outputBytes);
  tensors.push_back({"out", out, *outputShape});
  auto done = context->run(layer, /*stream=*/nullptr, tensors, tokens);
  if (!done)
    return done;

  std::vector<uint16_t> result(*outputBytes / 2);
  if (!memory.download(result.data(), out, *outputBytes))
    return moec::api::Failure{MOEC_DRIVER_FAILED, "cannot read the output"};
  double largest = 0;
  for (uint16_t element : result)
    largest = std::fmax(largest, std::fabs(fromBf16(element)));
  std::printf("%lld tokens on %s: out[0][0..2] = %g %g %g, largest %g\n",
              static_cast<long long>(tokens), package.device().c_str(),
              fromBf16(result[0]), fromBf16(result[1]), fromBf16(result[2]),
              largest);
  if (!(largest > 0) || !std::isfinite(largest))
    return moec::api::Failure{MOEC_INTERNAL,
                              "expected finite numbers that are not all 0"};
  return {};
}

/// Prints a failure; the exit status for it.
inline int report(const moec::api::Failure &failure) {
  std::fprintf(stderr, "%s: %s\n", moec_status_name(failure.status),
               failure.message.c_str());
  return 1;
}

} // namespace example

#endif // MOEC_EXAMPLES_COMMON_RUNBATCH_H
