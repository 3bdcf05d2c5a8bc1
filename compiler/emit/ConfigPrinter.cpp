//===- ConfigPrinter.cpp - prints a generated kernel ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text is a function of the kernel alone: no paths, dates or versions, so
// that equal kernels have equal cache keys.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/ConfigPrinter.h"

#include <fmt/format.h>

using namespace moec;
using namespace moec::compiler;

std::string KernelText::source(std::string_view entry) const {
  return fmt::format(R"(#include "{}"

{}
{}
static_assert(moe::sharedBytes<Config>() == {},
              "manifest and kernel disagree on shared memory");

extern "C" __global__ void __launch_bounds__({}, {})
{}(const __grid_constant__ Args args) {{
  {}<Config>(args);
}}
)",
                     include, arguments.text(), config.text(), sharedBytes,
                     threads, minCtasPerSm, entry, function);
}
