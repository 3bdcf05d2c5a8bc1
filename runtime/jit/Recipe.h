//===- Recipe.h - the inputs of one compilation -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A recipe consists of all inputs of a compilation: the source, the headers by
// name and content, the options, the arch and the compiler's identity. It
// contains no path, date or host name. Equal recipes yield equal cubins, so the
// SHA-256 of a recipe is the key in the kernel cache.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_RECIPE_H
#define MOEC_RUNTIME_JIT_RECIPE_H

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace moec::runtime {

/// A text and its hash. It is shared, because the kernels of a package include
/// the same headers.
struct HashedText {
  explicit HashedText(std::string text);
  /// `hash`: the precomputed hash of the text.
  HashedText(std::string text, std::string hash);
  std::string text;
  std::string hash; ///< SHA-256, lowercase hex
};
using SharedText = std::shared_ptr<const HashedText>;

/// The recipe version. It is incremented if the meaning of a recipe changes, so
/// that older cache entries are not found.
inline constexpr int kRecipeVersion = 1;

struct Recipe {
  std::string entry; ///< the extern "C" name of the kernel
  std::string arch;  ///< such as sm_90a
  std::vector<std::string> options;
  SharedText source;
  std::map<std::string, SharedText> headers; ///< by name as in #include
  /// Identity of NVRTC (NvrtcLocation::identity), or "" if no NVRTC was found.
  std::string compiler;

  /// Returns one line of canonical JSON, with hashes instead of texts.
  std::string json() const;
  /// Returns the SHA-256 of json().
  std::string key() const;
};

/// The result of a compilation.
struct Cubin {
  std::string bytes;
  std::string log; ///< NVRTC's log, may be ""
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_RECIPE_H
