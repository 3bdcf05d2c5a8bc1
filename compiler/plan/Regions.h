//===- Regions.h - compact expressions of region offsets --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The offset of a region is an expression over the sizes of the regions below
// it, so its full text repeats theirs. To stay short, the IR writes `end(t)`
// for the end offset of the region of value t.
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
  std::string offset; ///< expression that may contain end(value)
  Expression bytes;
};

/// Parses the expression, in which end(value) means the end offset of that
/// value's region in `regions`. The result has no end(...).
Result<Expression> withoutEnds(llvm::StringRef text,
                               llvm::ArrayRef<PlacedRegion> regions);

/// Rewrites expressions to the short form with end(...), if the short form is
/// equivalent. The array of regions must outlive this object.
class RegionEnds {
public:
  explicit RegionEnds(llvm::ArrayRef<PlacedRegion> placed);
  std::string shortened(const Expression &expression) const;

private:
  llvm::ArrayRef<PlacedRegion> regions;
  /// For each region, the full text of its end offset and the short form
  /// end(value).
  std::vector<std::pair<std::string, std::string>> ends;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_REGIONS_H
