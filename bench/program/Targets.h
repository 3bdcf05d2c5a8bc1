//===- Targets.h - what each cell is measured against -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads targets.json: the shapes of the bench, and for each GPU and cell
// the best of today's systems and the ratio to the floor that is to be reached.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_PROGRAM_TARGETS_H
#define MOEC_BENCH_PROGRAM_TARGETS_H

#include "runtime/support/Result.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace moec::bench {

/// The fastest of today's systems in a cell.
struct Peer {
  std::string name, version;
  double us = 0;    ///< its microseconds
  double ratio = 0; ///< over its own floor
};

/// One cell of GPU x shape x scheme x tokens.
struct Target {
  int64_t tokens = 0;
  std::string gpu, shape, scheme;
  std::optional<Peer> best; ///< none: no other system was measured
  double target = 0;        ///< ratio to the floor
  double limit = 0;         ///< up to which the target counts as reached
};

/// A shape is known by its numbers, not by a name.
struct Shape {
  std::string name;
  int64_t experts = 0, topK = 0, hidden = 0, intermediate = 0, local = 0;
  std::vector<int64_t> tokens;
};

class Targets {
public:
  /// `text` is the file's content, `name` what errors call it. Errors: what is
  /// no JSON, another version, fields that lack or have another type.
  static Result<Targets> parse(const std::string &text,
                               const std::string &name);

  /// The shape with the numbers of the manifest's layer; null if none.
  const Shape *shapeOf(const nlohmann::json &layer) const;
  /// Null for cells without a target.
  const Target *find(const std::string &gpu, const std::string &shape,
                     const std::string &scheme, int64_t tokens) const;
  /// The catalog's rows of the GPUs that cells have targets on.
  const std::vector<std::string> &gpus() const { return gpuNames; }
  bool has(const std::string &gpu) const;

private:
  std::vector<std::string> gpuNames;
  std::vector<Shape> shapes;
  std::vector<Target> cells;
};

/// Returns what a cell says about its target. `ratio` is the cell's time over
/// its floor.
nlohmann::ordered_json comparisonOf(const Target &target, double ratio);

/// Whether `word` of --cells names a package: "*", its shape, its scheme or
/// "shape/scheme".
bool selects(const std::string &word, const std::string &shape,
             const std::string &scheme);

} // namespace moec::bench

#endif // MOEC_BENCH_PROGRAM_TARGETS_H
