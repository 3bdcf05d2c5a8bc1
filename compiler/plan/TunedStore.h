//===- TunedStore.h - the user's measured schedules -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The user's own measured schedules: a folder next to the kernel cache with
// files in the format of compiler/plan/Tuned.h. Compilations read the store by
// default. Several tuners may write at the same time, because each holds a lock
// while it updates a file.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_TUNEDSTORE_H
#define MOEC_COMPILER_PLAN_TUNEDSTORE_H

#include "compiler/plan/Tuned.h"

namespace moec::compiler {

/// Returns the store's folder: the value of MOEC_TUNED_STORE or, if it is
/// unset, a folder inside the kernel cache `cacheFolder` ("": the default
/// cache). Returns "" if there is no store.
std::string tunedStoreFolder(const std::string &cacheFolder);

/// Returns the paths of the store's readable files, sorted. A file that cannot
/// be read is skipped with a warning that names it.
std::vector<std::string> readableStore(const std::string &cacheFolder);

/// Checks that a file with this path can be written at this moment. Creates
/// missing parent folders.
Result<void> checkWritable(const std::string &path);
/// Checks that addToTuned() can add rows to this file at this moment.
Result<void> checkTakesRows(const std::string &path);

/// Adds rows to a file. Each existing row for the same matmul and scheme loses
/// the token counts that a new row covers. It is removed if its own measured
/// token count is among them. A row of the second matmul is kept if it still
/// forms a pair with another layer's first matmul. The file is replaced
/// atomically. A damaged file is an error and remains unchanged.
Result<void> addToTuned(const std::string &path,
                        std::span<const TunedRow> rows);

/// Removes the token counts `first` to `last` from those rows of the file that
/// equal one of `rows`. A row of the second matmul is kept if it still forms a
/// pair with another layer's first matmul.
Result<void> takeFromTuned(const std::string &path,
                           std::span<const TunedRow> rows, int64_t first,
                           int64_t last);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_TUNEDSTORE_H
