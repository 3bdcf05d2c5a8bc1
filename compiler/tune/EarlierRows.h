//===- EarlierRows.h - schedules that a file of rows has ------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tuner measures them, too: the rows stay, or they go.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_EARLIERROWS_H
#define MOEC_COMPILER_TUNE_EARLIERROWS_H

#include "compiler/tune/Trial.h"
#include "compiler/tune/TunedInput.h"

namespace moec::compiler {

struct EarlierRows {
  std::vector<Trial> trials;
  std::vector<TunedRow> rows; ///< of all trials, that name the layer's scheme
  int64_t anyScheme = 0;      ///< rows of them that name none
};

/// Returns the pairs of rows of a file that serve the range's token count; none
/// if there is no such file.
Result<EarlierRows> earlierRows(const std::string &path,
                                const TunedInput &input,
                                const TokenRange &range);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_EARLIERROWS_H
