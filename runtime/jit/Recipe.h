//===- Recipe.h - all that one compilation depends on -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Source, headers by name and content, options, arch and the compiler's
// identity; no path, no date, no host name. Equal recipes give equal cubins, so
// the SHA-256 of a recipe is the key of the kernel cache.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_RECIPE_H
#define MOEC_RUNTIME_JIT_RECIPE_H

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace moec::runtime {

/// A text and its hash; kernels of a package share their headers.
struct HashedText {
  explicit HashedText(std::string text);
  /// hash: of the text, computed before.
  HashedText(std::string text, std::string hash);
  std::string text;
  std::string hash; ///< SHA-256, lower-case hex
};
using SharedText = std::shared_ptr<const HashedText>;

/// Raised when the meaning of a recipe changes: no older entry is then found.
inline constexpr int kRecipeVersion = 1;

struct Recipe {
  std::string entry; ///< the kernel's extern "C" name
  std::string arch;  ///< sm_90a
  std::vector<std::string> options;
  SharedText source;
  std::map<std::string, SharedText> headers; ///< by name as #included
  /// Which NVRTC: NvrtcLocation::identity; "" where none was found.
  std::string compiler;

  /// One line of canonical JSON, with hashes for texts.
  std::string json() const;
  /// SHA-256 of json().
  std::string key() const;
};

/// The result of a compilation.
struct Cubin {
  std::string bytes;
  std::string log; ///< NVRTC's, "" when it had nothing to say
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_RECIPE_H
