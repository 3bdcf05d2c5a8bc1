//===- VllmTuned.h - tile rows out of vLLM's files ------------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// vLLM keeps measured blocks of its Triton kernel in files that are called
// E=..,N=..,device_name=..[,dtype=..][,block_shape=[..]].json, an object by
// token count. BLOCK_SIZE_M is the rows of a tile here, too. All else is of a
// kernel that moec does not have.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_VLLMTUNED_H
#define MOEC_COMPILER_PLAN_VLLMTUNED_H

#include "runtime/support/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler {

struct VllmTuned {
  int64_t experts = 0;      ///< of a rank
  int64_t intermediate = 0; ///< of a rank
  std::string deviceName;   ///< with blanks
  std::string dtype;        ///< "": that of the model
  /// Rows of a tile, and the token counts for which vLLM takes them: those
  /// that are nearest to one of the file's.
  struct Blocks {
    int64_t tokens = 0, first = 0, last = 0, rows = 0;
  };
  std::vector<Blocks> blocks; ///< ascending; equal neighbours are one
};

/// Reads a file's name and text.
Result<VllmTuned> parseVllmTuned(const std::string &path,
                                 std::string_view text);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_VLLMTUNED_H
