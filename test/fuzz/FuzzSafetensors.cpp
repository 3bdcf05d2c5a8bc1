//===- FuzzSafetensors.cpp - headers of safetensors files -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is a header; the length before it and the bytes behind it fit,
// unless the input has no brace at its begin: then it is a whole file.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/Safetensors.h"
#include "test/fuzz/Fuzz.h"

using namespace moec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string file(fuzz::textOf(data, size));
  if (file.starts_with('{')) {
    std::string length;
    for (size_t i = 0; i < 8; ++i)
      length += static_cast<char>(file.size() >> (8 * i) & 0xFF);
    constexpr size_t kTensorBytes = 24;
    file = length + file + std::string(kTensorBytes, 'x');
  }
  // As large as the text, so that the sanitizer sees a byte too far.
  const std::vector<char> exact(file.begin(), file.end());
  const auto bytes = std::as_bytes(std::span(exact));
  auto tensors = weights::parseSafetensors(bytes, "in");
  if (!tensors) {
    fuzz::requireRefusal(tensors.error());
    fuzz::require(tensors.error().message.starts_with("in: "),
                  "a refusal names the file");
    return 0;
  }
  unsigned sum = 0;
  for (const auto &[name, tensor] : *tensors) {
    for (std::byte byte : tensor.bytes)
      sum += std::to_integer<unsigned>(byte);
    fuzz::require(weights::bitsOf(tensor.type) > 0, "a tensor has a type");
  }
  fuzz::require(sum <= 255 * exact.size(), "each byte is one tensor's");
  return 0;
}
