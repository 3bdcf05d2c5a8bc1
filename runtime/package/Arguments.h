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

/// A value that is bound to an address for a run. Address 0 means that the run
/// does not have the value.
struct BoundValue {
  uint64_t address = 0;  ///< device address, or host address on the host device
  int64_t rowStride = 0; ///< outermost stride in elements
  /// Code of the element type that the caller passed for this run.
  int32_t elementCode = 0;
};

/// Returns the symbols of a manifest for a token count: tokens, rows,
/// max_tokens and, if given, sm_count. If the manifest has one rank, the
/// symbols of that rank are set, too.
Result<Symbols> symbolsFor(const Manifest &manifest, int64_t tokens,
                           std::optional<int64_t> smCount = std::nullopt);

/// Returns the total token count of a run over all ranks, if each rank has
/// `own` tokens. This total is the symbol `tokens`. Returns TooManyTokens if
/// there are several ranks and the total exceeds the manifest's max_tokens.
Result<int64_t> tokensOfRanks(const Manifest &manifest, int64_t own);

/// Returns the error for a run whose token count exceeds the manifest's
/// max_tokens.
Error tooManyTokens(const Manifest &manifest, int64_t tokens);

/// Returns the number of elements, the product of all extents.
Result<int64_t> elementCount(const Value &value, const Symbols &symbols);
/// Returns the outermost stride in elements according to the manifest: the
/// first of `strides` if they are set, otherwise the product of the inner
/// extents (1 for a vector or scalar).
Result<int64_t> rowStride(const Value &value, const Symbols &symbols);
/// Returns the number of bytes from the first element to the end of the last
/// element, or 0 if an extent is 0. If `elementType` is "", the default element
/// type is used; if `givenRowStride` is 0, the manifest's row stride is used.
Result<int64_t> valueBytes(const Value &value, const Symbols &symbols,
                           std::string_view elementType = "",
                           int64_t givenRowStride = 0);

/// Checks the address, element type and row stride that a caller passes for a
/// value, and binds the value. The element type must be one of the value's
/// types; "" selects the default. The address must have the value's alignment;
/// if the value has several types, the alignment of one element is sufficient.
/// `givenRowStride` 0 selects the manifest's row stride. Another row stride is
/// only accepted if callerRowStride is set; it must be at least the
/// manifest's and keep the alignment. Address 0 is an error unless the value is
/// optional.
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

/// The data from which the fields of an argument block are filled.
struct ArgumentSources {
  std::span<const BoundValue> values; ///< indexed by valueIndex
  Symbols symbols;                    ///< `experts` is set only in a pack step
  int64_t firstExpert = 0;            ///< first expert of a pack step
  /// Writes the 128 bytes of target.tensorMaps[index]. Only kernels with tensor
  /// maps need it.
  const std::function<Result<void>(size_t index, std::byte *destination)>
      *tensorMap = nullptr;
  /// Device addresses for a context with a window. `peers`: the table of all
  /// ranks' window addresses. `status`: the ExchangeBlock.
  uint64_t peers = 0, status = 0;
};

/// Fills the argument block of one kernel.
class ArgumentPacker {
public:
  /// Resolves the names of values and tensor maps to indices. An unknown name
  /// is an InvalidManifest error.
  static Result<ArgumentPacker>
  create(const Manifest &manifest, const Target &target, const Kernel &kernel);

  /// Returns the size of the block in bytes.
  int64_t bytes() const { return blockBytes; }
  int64_t alignment() const { return blockAlignment; }

  /// Writes `bytes()` bytes; gaps between fields become zero. Allocates memory
  /// only if it fails. Errors name the kernel and the field. It is an error if
  /// a value that is not optional has no address, if a size does not fit its
  /// field, or if the tensor-map callback is missing.
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

/// Returns the number of CTAs of a launch in x, y and z. A persistent grid has
/// min(tiles, SMs * ctasPerSm) CTAs, rounded down to a multiple of the cluster
/// size; it requires symbols.smCount. Extents outside 1..2^31-1 (x) or 1..65535
/// (y, z) are errors.
Result<std::array<int64_t, 3>>
gridOf(const Launch &launch, const Kernel &kernel, const Symbols &symbols);

/// Returns the variant that a run of `tokens` (>= 1) tokens uses on a device
/// with `smCount` SMs. A TooManyTokens error names the limit and the max_tokens
/// that would suffice. `whyUnfit`: for each variant, the reason why the device
/// cannot run it, or ""; if the span is empty, the device can run all variants.
Result<const Variant *>
selectVariant(const Manifest &manifest, const Target &target, int64_t tokens,
              int64_t smCount, std::span<const std::string> whyUnfit = {});

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_ARGUMENTS_H
