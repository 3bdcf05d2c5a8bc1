//===- TuneLog.h - measurements that were made ---------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One JSON object a line, on the disk before the next measurement begins. A
// process that is killed loses the measurement under way and nothing else: a
// line that is not whole is no line.
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
  /// Reads what there is, and holds a lock: a second tuner of the same file is
  /// refused. Parents of the path are made.
  static Result<TuneLog> open(const std::string &path);

  /// The newest line of a key; null: there is none.
  const nlohmann::ordered_json *find(const std::string &key) const;
  /// Adds a line, which has "key", and waits for the disk.
  Result<void> add(const nlohmann::ordered_json &line);

  const std::string &path() const { return where; }
  /// Lines that were no measurements, the last one of a killed process say.
  int64_t damagedLines() const { return damaged; }

private:
  std::string where;
  Descriptor file;
  int64_t damaged = 0;
  std::map<std::string, BoxedOrderedJson> lines;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNELOG_H
