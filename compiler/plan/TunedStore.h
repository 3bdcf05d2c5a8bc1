//===- TunedStore.h - a user's own measured schedules -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder beside the cache of kernels with files as Tuned.h reads them. A
// compilation finds them without being told. Several tuners may write at a
// time: each holds a lock while it puts its rows in.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_TUNEDSTORE_H
#define MOEC_COMPILER_PLAN_TUNEDSTORE_H

#include "compiler/plan/Tuned.h"

namespace moec::compiler {

/// The store's folder beside the cache in `cacheFolder` ("": the default
/// cache), or what MOEC_TUNED_STORE names; "" where there is none.
std::string tunedStoreFolder(const std::string &cacheFolder);

/// The store's files that can be read, sorted. One that cannot is passed over
/// with a warning that names it.
std::vector<std::string> readableStore(const std::string &cacheFolder);

/// Whether a file of this path could be written by now; parents are made.
Result<void> checkWritable(const std::string &path);
/// Whether addToTuned() could add rows by now.
Result<void> checkTakesRows(const std::string &path);

/// Puts rows into a file. Rows of the same matmul and scheme there lose the
/// token counts that new ones have, and those go that were measured with one of
/// them. A row of the second matmul stays where another layer's first matmul
/// has it for its own. The file appears at once. A damaged one is an error, and
/// stays.
Result<void> addToTuned(const std::string &path,
                        std::span<const TunedRow> rows);

/// Takes these token counts from rows that are in the file, but from none that
/// another layer's first matmul has for its own.
Result<void> takeFromTuned(const std::string &path,
                           std::span<const TunedRow> rows, int64_t first,
                           int64_t last);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_TUNEDSTORE_H
