//===- Regions.h - compact expressions of region offsets --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The offset of a region is computed from the regions below it, so its
// expression repeats theirs. The IR therefore writes `end(t)` for the end of
// t's region.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_REGIONS_H
#define MOEC_COMPILER_PLAN_REGIONS_H

#include "runtime/package/Expression.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>
#include <vector>

namespace moec::compiler {

struct PlacedRegion {
  std::string value;
  std::string offset; ///< an expression that may contain end(value)
  Expression bytes;
};

/// Parses the expression and replaces each end(value) by the end of that
/// value's region in `regions`.
Result<Expression> withoutEnds(llvm::StringRef text,
                               llvm::ArrayRef<PlacedRegion> regions);

/// Rewrites expressions with end(...) if the result is equivalent. The regions
/// must outlive this object.
class RegionEnds {
public:
  explicit RegionEnds(llvm::ArrayRef<PlacedRegion> placed);
  std::string shortened(const Expression &expression) const;

private:
  llvm::ArrayRef<PlacedRegion> regions;
  /// For each region, the full text of its end and the short form end(value).
  std::vector<std::pair<std::string, std::string>> ends;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_REGIONS_H
