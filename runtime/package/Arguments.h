//===- Arguments.h - binds values and packs argument blocks -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns a launch of the manifest into concrete data for the CUDA launcher and
// the host device: values become BoundValues, argument blocks become bytes, and
// grids become CTA counts. Names are resolved when a packer is created, so
// packing allocates nothing.
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

/// A value bound to an address for a run. Address 0 means that the value is
/// absent.
struct BoundValue {
  uint64_t address = 0;  ///< device address, or host address on the host device
  int64_t rowStride = 0; ///< outermost stride in elements
  int32_t elementCode = 0; ///< code of the element type given at this run
};

/// Returns the symbols of a manifest for a token count: tokens, rows,
/// max_tokens and, if given, sm_count. If the manifest has one rank, the
/// symbols of that rank are set, too.
Result<Symbols> symbolsFor(const Manifest &manifest, int64_t tokens,
                           std::optional<int64_t> smCount = std::nullopt);

/// Returns the total token count of the ranks of a run, each of which has `own`
/// tokens. This total is the symbol `tokens`. TooManyTokens if there are
/// several ranks and the total exceeds the manifest's max_tokens.
Result<int64_t> tokensOfRanks(const Manifest &manifest, int64_t own);

/// Returns the error of a run with more tokens than the manifest's max_tokens.
Error tooManyTokens(const Manifest &manifest, int64_t tokens);

/// Returns the number of elements of the logical shape.
Result<int64_t> elementCount(const Value &value, const Symbols &symbols);
/// Returns the outermost stride in elements according to the manifest: that of
/// `strides`, or the product of the inner extents (1 for a vector or scalar).
Result<int64_t> rowStride(const Value &value, const Symbols &symbols);
/// Returns the number of bytes from the first element to the end of the last
/// one; 0 if an extent is 0. `elementType` "" is the default type, and
/// `givenRowStride` 0 is the manifest's stride.
Result<int64_t> valueBytes(const Value &value, const Symbols &symbols,
                           std::string_view elementType = "",
                           int64_t givenRowStride = 0);

/// Checks what a caller passes for a value and binds it. The element type must
/// be one of the value's; "" is the default. The address must have the value's
/// alignment, or if the value has several types, at most the size of the given
/// type. The row stride (0: the manifest's) must be at least the contiguous one
/// and keep the alignment; it may differ from the contiguous one only if
/// callerRowStride is set. Address 0 is an error unless the value is optional.
Result<BoundValue> bindValue(const Value &value, const Symbols &symbols,
                             uint64_t address,
                             std::string_view elementType = "",
                             int64_t givenRowStride = 0);

/// Returns the index of a value: manifest.values come first, then
/// target.values. Returns -1 for an unknown name.
int64_t valueIndex(const Manifest &manifest, const Target &target,
                   std::string_view name);
size_t valueCount(const Manifest &manifest, const Target &target);
const Value &valueAt(const Manifest &manifest, const Target &target,
                     size_t index);

/// The sources of the fields of an argument block.
struct ArgumentSources {
  std::span<const BoundValue> values; ///< by valueIndex
  Symbols symbols;                    ///< `experts` is set in a pack step
  int64_t firstExpert = 0;            ///< first expert of a pack step
  /// Writes the 128 bytes of target.tensorMaps[index]. Only kernels with tensor
  /// maps need it.
  const std::function<Result<void>(size_t index, std::byte *destination)>
      *tensorMap = nullptr;
  /// Device addresses of the table of all windows' addresses and of the
  /// ExchangeBlock, if the context has a window.
  uint64_t peers = 0, status = 0;
};

/// Fills the argument block of one kernel.
class ArgumentPacker {
public:
  /// Resolves the names. An unknown name is an InvalidManifest error.
  static Result<ArgumentPacker>
  create(const Manifest &manifest, const Target &target, const Kernel &kernel);

  /// Returns the size of the block in bytes.
  int64_t bytes() const { return blockBytes; }
  int64_t alignment() const { return blockAlignment; }

  /// Writes `bytes()` bytes, with zeros in gaps. Allocates memory only if it
  /// fails. Errors name the kernel and the field: a value that is not optional
  /// and has no address, a size that does not fit its field, or a missing
  /// tensor-map callback.
  Result<void> pack(const ArgumentSources &sources, std::byte *block) const;

private:
  struct Field {
    ArgumentField::Kind kind;
    int64_t offset;
    int64_t index;    ///< index of the value or tensor map
    bool optional;    ///< the value may be absent
    char elementType; ///< 'i' i32, 'l' i64, 'f' f32
    Expression expression;
    std::string name;
  };
  std::string kernelName;
  int64_t blockBytes = 0, blockAlignment = 8;
  std::vector<Field> fields;
};

/// Returns the number of CTAs of a launch in x, y, z. A persistent grid has
/// min(tiles, SMs * ctasPerSm) CTAs, rounded down to a multiple of the cluster
/// size, and needs symbols.smCount. Extents outside 1..2^31-1 (x) or 1..65535
/// (y, z) are errors.
Result<std::array<int64_t, 3>>
gridOf(const Launch &launch, const Kernel &kernel, const Symbols &symbols);

/// Returns the variant that serves `tokens` (>= 1) tokens on a device with
/// `smCount` SMs. A TooManyTokens error names the limit and the max_tokens that
/// would suffice. `whyUnfit`: for each variant, the reason why it cannot run on
/// the device, or ""; if it is empty, all variants can.
Result<const Variant *>
selectVariant(const Manifest &manifest, const Target &target, int64_t tokens,
              int64_t smCount, std::span<const std::string> whyUnfit = {});

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_ARGUMENTS_H
