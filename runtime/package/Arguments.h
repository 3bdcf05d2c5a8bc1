//===- Arguments.h - from bound values to argument bytes -*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How a launch is made concrete, once for the CUDA launcher and the host
// device: values become BoundValues, argument blocks become bytes, grids become
// numbers. Names are resolved when a packer is made, so that packing allocates
// nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_ARGUMENTS_H
#define MOEC_RUNTIME_PACKAGE_ARGUMENTS_H

#include "runtime/package/Manifest.h"

#include <array>
#include <cstddef>
#include <functional>
#include <span>

namespace moec {

/// A value as it is at a run. Address 0 means absent.
struct BoundValue {
  uint64_t address = 0;    ///< on the device, or of the host device's memory
  int64_t rowStride = 0;   ///< outermost stride in elements
  int32_t elementCode = 0; ///< of the element type given at this run
};

/// The symbols of a manifest at a token count: tokens, rows, max_tokens and,
/// where given, sm_count. Of a manifest of one rank also those of the rank.
Result<Symbols> symbolsFor(const Manifest &manifest, int64_t tokens,
                           std::optional<int64_t> smCount = std::nullopt);

/// The tokens that the ranks of a run bring together, each `own` of them: what
/// `tokens` is. TooManyTokens beyond the manifest's max_tokens where there are
/// several ranks.
Result<int64_t> tokensOfRanks(const Manifest &manifest, int64_t own);

/// The error of a run with more tokens than the manifest's max_tokens.
Error tooManyTokens(const Manifest &manifest, int64_t tokens);

/// Number of elements of the logical shape.
Result<int64_t> elementCount(const Value &value, const Symbols &symbols);
/// Outermost stride in elements as the manifest has it: `strides`, or the
/// product of the inner extents (1 for a vector or scalar).
Result<int64_t> rowStride(const Value &value, const Symbols &symbols);
/// Bytes from the first to behind the last element; 0 when an extent is 0.
/// `elementType` "" means the default, `givenRowStride` 0 the manifest's.
Result<int64_t> valueBytes(const Value &value, const Symbols &symbols,
                           std::string_view elementType = "",
                           int64_t givenRowStride = 0);

/// Checks what a caller gives for a value and binds it: the element type is
/// one of the value's (""= the default), the address has its alignment (of a
/// value of several types at most the size of the one that comes), the
/// row stride (0 = the manifest's) is at least the contiguous one, keeps the
/// alignment and differs from it only where callerRowStride allows. Address 0
/// is an error unless the value is optional.
Result<BoundValue> bindValue(const Value &value, const Symbols &symbols,
                             uint64_t address,
                             std::string_view elementType = "",
                             int64_t givenRowStride = 0);

/// Values are numbered: manifest.values first, then target.values.
/// Returns -1 for an unknown name.
int64_t valueIndex(const Manifest &manifest, const Target &target,
                   std::string_view name);
size_t valueCount(const Manifest &manifest, const Target &target);
const Value &valueAt(const Manifest &manifest, const Target &target,
                     size_t index);

/// The sources of the fields of an argument block.
struct ArgumentSources {
  std::span<const BoundValue> values; ///< by valueIndex
  Symbols symbols;                    ///< with `experts` in a pack step
  int64_t firstExpert = 0;            ///< of a pack step
  /// Writes the 128 bytes of target.tensorMaps[index]; needed only by kernels
  /// with tensor maps.
  const std::function<Result<void>(size_t index, std::byte *destination)>
      *tensorMap = nullptr;
  /// Device addresses of the table of all windows' addresses and of the
  /// ExchangeBlock, where a context has a window.
  uint64_t peers = 0, status = 0;
};

/// Fills the argument block of one kernel.
class ArgumentPacker {
public:
  /// Resolves the names; an unknown one is an InvalidManifest error.
  static Result<ArgumentPacker>
  create(const Manifest &manifest, const Target &target, const Kernel &kernel);

  /// Size and alignment of the block in bytes.
  int64_t bytes() const { return blockBytes; }
  int64_t alignment() const { return blockAlignment; }

  /// Writes `bytes()` bytes; gaps are zero. Allocates nothing unless it fails.
  /// A value that is not optional and has no address, a size that does not fit
  /// its field and a missing tensor-map callback are errors that name kernel
  /// and field.
  Result<void> pack(const ArgumentSources &sources, std::byte *block) const;

private:
  struct Field {
    ArgumentField::Kind kind;
    int64_t offset;
    int64_t index;    ///< of the value or tensor map
    bool optional;    ///< the value may be absent
    char elementType; ///< 'i' i32, 'l' i64, 'f' f32
    Expression expression;
    std::string name;
  };
  std::string kernelName;
  int64_t blockBytes = 0, blockAlignment = 8;
  std::vector<Field> fields;
};

/// The CTAs of a launch in x, y, z. Persistent: min(tiles, SMs * ctasPerSm),
/// rounded down to a multiple of the cluster. Needs symbols.smCount for a
/// persistent grid. Extents outside 1..2^31-1 / 1..65535 are errors.
Result<std::array<int64_t, 3>>
gridOf(const Launch &launch, const Kernel &kernel, const Symbols &symbols);

/// The variant that serves this many tokens (>= 1) on a device of so many SMs;
/// TooManyTokens names the limit and `moec compile --max-tokens`. whyUnfit: of
/// each variant, why it cannot serve there, or ""; absent: all can.
Result<const Variant *>
selectVariant(const Manifest &manifest, const Target &target, int64_t tokens,
              int64_t smCount, std::span<const std::string> whyUnfit = {});

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_ARGUMENTS_H
