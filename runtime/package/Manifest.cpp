//===- Manifest.cpp - lookups in a manifest -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lookups by name, and the sizes and alignments of argument fields. The tables
// are short, so linear search suffices.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Manifest.h"

using namespace moec;

int64_t ArgumentField::bytes() const {
  switch (kind) {
  case Kind::Pointer:
  case Kind::RowStride:
  case Kind::Peers:
  case Kind::Status:
    return 8;
  case Kind::TensorMap:
    return 128;
  case Kind::ElementType:
  case Kind::FirstExpert:
    return 4;
  case Kind::Size:
    return elementType == "i64" ? 8 : 4;
  }
  return 0;
}

const Value *moec::findValue(const Manifest &manifest, const Target &target,
                             std::string_view name) {
  for (const std::vector<Value> *values : {&manifest.values, &target.values})
    for (const Value &value : *values)
      if (value.name == name)
        return &value;
  return nullptr;
}

const Kernel *moec::findKernel(const Target &target, std::string_view name) {
  for (const Kernel &kernel : target.kernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}
