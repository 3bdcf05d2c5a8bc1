//===- Tensor.cpp - tensors of the caller ---------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Tensor.h"

#include "runtime/package/ElementTypes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace moec;
using namespace moec::runtime;

namespace {

using Numbers = std::span<const int64_t>;

std::string textOf(Numbers numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// Shape and strides of a tensor, in elements or bytes.
struct Layout {
  size_t rank = 0;
  std::array<int64_t, kMaxRank> shape = {}, strides = {};

  Numbers extents() const { return {shape.data(), rank}; }
};

Result<Layout> layoutOf(const Value &value, const Symbols &symbols) {
  Layout made;
  made.rank = value.shape.size();
  if (made.rank > size_t(kMaxRank))
    return invalidManifest("value '{}': expected at most {} dimensions, got {}",
                           value.name, kMaxRank, made.rank);
  int64_t contiguous = 1;
  for (size_t i = made.rank; i-- > 0;) {
    int64_t extent = TRY(value.shape[i].evaluate(symbols));
    made.shape[i] = extent;
    made.strides[i] = contiguous;
    if (!value.strides.empty()) {
      made.strides[i] = TRY(value.strides[i].evaluate(symbols));
    }
    if (__builtin_mul_overflow(contiguous, extent, &contiguous))
      return invalidManifest(
          "value '{}': the number of elements overflows 64 bits", value.name);
  }
  return made;
}

/// Returns true if a caller may pass elements of this type as bytes. NumPy and
/// PyTorch have no such types, so they store such elements as uint8.
bool mayBeBytes(const ElementType &type) {
  return type.bits < 8 || type.name == "f8E8M0FNU";
}

/// Returns the unit of the extents for error messages, or "" for elements of at
/// least 8 bits.
std::string unitOf(const ElementType &type, bool areBytes) {
  if (areBytes)
    return " bytes";
  return type.bits < 8
             ? fmt::format(" elements of {} bits (or bytes, as element type "
                           "'u8')",
                           type.bits)
             : "";
}

/// Converts a shape and strides in elements of `bits` bits to bytes: the
/// innermost extent and all outer strides. Returns false if a row is not a
/// whole number of bytes.
bool countBytes(Layout &layout, int64_t bits) {
  if (layout.rank == 0)
    return false;
  const size_t last = layout.rank - 1;
  for (size_t i = 0; i < last; ++i) {
    if (layout.strides[i] * bits % 8 != 0)
      return false;
    layout.strides[i] = layout.strides[i] * bits / 8;
  }
  if (layout.strides[last] != 1 || layout.shape[last] * bits % 8 != 0)
    return false;
  layout.shape[last] = layout.shape[last] * bits / 8;
  return true;
}

} // namespace

Result<BoundValue> runtime::bindTensor(const Value &value,
                                       const Symbols &symbols,
                                       const Tensor &tensor) {
  const auto refuse = [&](std::string what) {
    return invalidArgument("value '{}': {}", value.name, std::move(what));
  };
  const auto address = reinterpret_cast<uint64_t>(tensor.data);
  Layout layout = TRY(layoutOf(value, symbols));
  const ElementType *type = findElementType(value.elementTypes.front());
  if (!type)
    return invalidManifest("value '{}': unknown element type '{}'", value.name,
                           value.elementTypes.front());
  const int64_t bits = type->bits;
  const bool areBytes = tensor.elementType == "u8" && mayBeBytes(*type);
  if (areBytes && !countBytes(layout, bits))
    return refuse(fmt::format("expected element type {}, got 'u8', of which "
                              "no row is whole bytes",
                              type->name));

  const Numbers extents = layout.extents();
  const Numbers given(tensor.shape.data(), size_t(tensor.rank));
  if (!std::equal(extents.begin(), extents.end(), given.begin(), given.end()))
    return refuse(fmt::format("expected {}{}, got {}", textOf(extents),
                              unitOf(*type, areBytes), textOf(given)));

  int64_t rowStride = 0; // 0: the stride in the manifest, as for bindValue()
  for (size_t i = 0; tensor.hasStrides && i < layout.rank; ++i) {
    const int64_t stride = tensor.strides[i];
    if (extents[i] <= 1 || stride == layout.strides[i])
      continue;
    const bool mayBeLarger = i == 0 && value.callerRowStride;
    if (mayBeLarger && stride > layout.strides[i]) {
      rowStride = stride;
      continue;
    }
    const Numbers own(layout.strides.data(), layout.rank);
    return refuse(fmt::format(
        "expected strides {}{}, got {}; accepted: a contiguous tensor{}",
        textOf(own),
        value.callerRowStride ? " or a larger outermost stride" : "",
        textOf({tensor.strides.data(), layout.rank}),
        value.callerRowStride ? " or rows of one" : ""));
  }
  if (rowStride && areBytes) {
    if (rowStride > INT64_MAX / 8 || rowStride * 8 % bits != 0)
      return refuse(fmt::format("expected a row stride of whole elements of "
                                "{} bits, got {} bytes",
                                bits, rowStride));
    rowStride = rowStride * 8 / bits;
  }
  const std::string_view elementType =
      areBytes ? std::string_view() : tensor.elementType;
  return bindValue(value, symbols, address, elementType, rowStride);
}
