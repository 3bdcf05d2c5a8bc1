//===- QuantizeExperts.cpp - quantizes float checkpoints ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes each part of each expert as a whole matrix, even if this rank only
// needs a share of the matrix. The codes (quantized values) therefore do not
// depend on the number of ranks. The results are stored next to the
// checkpoint's tensors and are loaded in the same way.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Parallel.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/support/Env.h"
#include "runtime/support/Progress.h"
#include "runtime/weights/LoadWeights.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <span>

using namespace moec;
using namespace moec::weights;

namespace {

/// Returns the safetensors type name of an element type. For a type of fewer
/// than 8 bits, returns U8.
std::string_view typeOf(std::string_view element) {
  const ElementType *row = findElementType(element);
  return row && row->bits >= 8 ? row->stored : "U8";
}

std::vector<float> floatsOf(const SourceMatrix &matrix) {
  std::vector<float> made(size_t(matrix.rows * matrix.columns));
  const int64_t bytes = matrix.bits / 8;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    float *to = made.data() + row * matrix.columns;
    const std::byte *from = matrix.data + row * matrix.rowStride * bytes;
    if (matrix.columnStride == 1)
      host::loadFloats(matrix.storage, from, matrix.columns, to);
    else
      for (int64_t column = 0; column < matrix.columns; ++column)
        host::loadFloats(matrix.storage,
                         from + column * matrix.columnStride * bytes, 1,
                         to + column);
  }
  return made;
}

/// Checks that all elements are finite, because the code type may have no
/// encoding for NaN.
Result<void> allFinite(std::span<const float> data) {
  for (float number : data)
    if (!std::isfinite(number))
      return refused("holds {}, expected a finite number", number);
  return {};
}

template <typename T> std::vector<std::byte> bytesOf(const T *data, size_t n) {
  std::vector<std::byte> made(n * sizeof(T));
  if (n > 0)
    std::memcpy(made.data(), data, made.size());
  return made;
}

} // namespace

void WeightLoader::keep(const TensorRole &role, std::string_view type,
                        std::vector<int64_t> extents,
                        std::vector<std::byte> bytes) {
  const std::string name = fmt::format(
      "what {}expert {}'s {} became: {}", role.shared ? "shared " : "",
      role.expert, partName(role.part), textOf(role.kind).name);
  Made &made = quantized[name];
  made.bytes = std::move(bytes);
  made.tensor = {std::string(type), std::move(extents), made.bytes};
  TensorName parsed;
  parsed.layer = number;
  parsed.role = role;
  tensors.insert_or_assign(role, Found{name, parsed});
}

Result<void> WeightLoader::quantizeExperts() {
  if (stored)
    return refused("layer '{}' has weights in the layout of another program, "
                   "which quantized ones do not have; accepted: a layer whose "
                   "stored_layout is rows",
                   shape.name);
  struct Work {
    Source source;
    TensorRole role;
    const WeightFormat *format;
    Result<QuantizedMatrix> made = QuantizedMatrix();
  };
  std::vector<Work> list;
  // While quantizing, the shapes cover whole matrices instead of this rank's
  // share.
  const LayerShape share = shape, shareOfMlp = mlp;
  for (LayerShape *whole : {&shape, &mlp}) {
    whole->columnBegin = 0;
    whole->columns = whole->intermediate;
  }
  Result<void> found;
  const int64_t count = shape.localCount + (shape.hasSharedMlp() ? 1 : 0);
  for (int64_t i = 0; found && i < count; ++i) {
    Wanted wanted;
    wanted.ofSharedMlp = i == shape.localCount;
    const int64_t expert = expertAt(wanted, wanted.ofSharedMlp ? 0 : i);
    const bool shared = expert >= shape.experts;
    for (Part part : {Part::Gate, Part::Up, Part::Down}) {
      const bool first = part != Part::Down;
      const WeightFormat &format = first ? shape.format1 : shape.format2;
      if ((part == Part::Gate && !shape.gated) || format.scale.empty())
        continue;
      wanted.value = first ? "w13" : "w2";
      wanted.element = "f32";
      wanted.bits = 32;
      wanted.kinds = {Kind::Weight};
      wanted.first = first;
      wanted.group = {1, 1};
      Result<Source> source = find(wanted, expert, part);
      if (!source) {
        found = source.takeError();
        break;
      }
      list.push_back({std::move(*source),
                      {shared, shared ? expert - shape.experts : expert, part,
                       Kind::Weight},
                      &format});
    }
  }
  shape = share;
  mlp = shareOfMlp;
  if (!found)
    return found;
  Progress progress("parts of experts quantized", int64_t(list.size()));
  host::parallelFor(usableThreads(), int64_t(list.size()), 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        Work &work = list[size_t(i)];
                        const SourceMatrix &matrix = work.source.matrix;
                        const std::vector<float> data = floatsOf(matrix);
                        Result<void> ok = allFinite(data);
                        if (ok)
                          work.made = quantizeMatrix(
                              data, matrix.rows, matrix.columns, *work.format);
                        else
                          work.made = ok.takeError();
                        progress.advance();
                      }
                    });
  for (Work &work : list) {
    if (!work.made)
      return Error(work.made.error().code, "{}: tensor '{}' of {} {}",
                   checkpoint.path(), work.source.tensor, work.source.owner,
                   work.made.error().message);
    QuantizedMatrix &made = *work.made;
    const SourceMatrix &matrix = work.source.matrix;
    TensorRole role = work.role;
    const std::string_view type = typeOf(work.format->element);
    const int64_t perRow =
        int64_t(made.codes.size()) * 8 / bitsOf(type) / matrix.rows;
    keep(role, type, {matrix.rows, perRow}, std::move(made.codes));
    const std::vector<int64_t> extents = {made.scaleRows, made.scaleColumns};
    role.kind = Kind::Scale;
    keep(role, typeOf(work.format->scale), extents, std::move(made.scales));
    role.kind = Kind::ZeroPoint;
    if (work.format->zeroPoint)
      keep(role, "I8", extents,
           bytesOf(made.zeroPoints.data(), made.zeroPoints.size()));
    role.kind = Kind::SecondScale;
    if (work.format->second)
      keep(role, "F32", {}, bytesOf(&made.second, 1));
  }
  return {};
}
