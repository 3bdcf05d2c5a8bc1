//===- Regions.h - offsets of regions in few words --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A region rests on others, so its offset repeats theirs. The IR says `end(t)`
// for where the region of t ends.
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
  std::string offset; ///< an expression that may say end(value)
  Expression bytes;
};

/// The expression without end(...), which are those of `regions`.
Result<Expression> withoutEnds(llvm::StringRef text,
                               llvm::ArrayRef<PlacedRegion> regions);

/// Writes expressions with end(...) where that is the same. The regions must
/// outlive it.
class RegionEnds {
public:
  explicit RegionEnds(llvm::ArrayRef<PlacedRegion> placed);
  std::string shortened(const Expression &expression) const;

private:
  llvm::ArrayRef<PlacedRegion> regions;
  /// The end of a region as a whole text, and its short one.
  std::vector<std::pair<std::string, std::string>> ends;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_REGIONS_H
