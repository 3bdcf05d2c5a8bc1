//===- TuneLog.h - measurements that were made ---------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The log has one JSON object per line. A line is flushed to disk before the
// next measurement begins. A process that is killed loses only the measurement
// in progress: an incomplete line is ignored.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TUNELOG_H
#define MOEC_COMPILER_TUNE_TUNELOG_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Json.h"
#include "runtime/support/Result.h"

#include <map>
#include <string>

namespace moec::compiler {

class TuneLog {
public:
  /// Reads an existing log and locks it. If another tuner has locked the file,
  /// returns an error. Creates parent folders.
  static Result<TuneLog> open(const std::string &path);

  /// Returns the newest line with a key, or null.
  const nlohmann::ordered_json *find(const std::string &key) const;
  /// Adds a line, which must have "key", and flushes it to disk.
  Result<void> add(const nlohmann::ordered_json &line);

  const std::string &path() const { return where; }
  /// Returns the number of lines that are not measurements, such as the last
  /// line of a killed process.
  int64_t damagedLines() const { return damaged; }

private:
  std::string where;
  Descriptor file;
  int64_t damaged = 0;
  std::map<std::string, BoxedOrderedJson> lines;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNELOG_H
