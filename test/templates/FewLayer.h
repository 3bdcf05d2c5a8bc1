//===- FewLayer.h - a layer of a few tokens and its truth -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to templates-few: a layer of the plan with its tensors on the device,
// the launches of its two kernels, and the same layer in plain double loops.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_FEWLAYER_H
#define MOEC_TEST_TEMPLATES_FEWLAYER_H

#include "test/templates/Harness.h"

#include <algorithm>
#include <numeric>

namespace few {

using namespace harness;

inline double fromE4m3(uint8_t code) {
  int exponent = code >> 3 & 15, mantissa = code & 7;
  double size = exponent ? std::ldexp(8 + mantissa, exponent - 10)
                         : std::ldexp(mantissa, -9);
  return code & 0x80 ? -size : size;
}

/// Rounded to nearest even, saturated.
inline double roundE4m3(double value) {
  double size = std::min(std::fabs(value), 448.0);
  int exponent = std::max(size > 0 ? std::ilogb(size) : -9, -6);
  double rounded =
      std::ldexp(std::nearbyint(std::ldexp(size, 3 - exponent)), exponent - 3);
  return std::copysign(std::min(rounded, 448.0), value);
}

inline uint8_t codeE4m3(double value) {
  double size = std::fabs(value);
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (size < std::ldexp(1.0, -6))
    return sign | uint8_t(std::lrint(std::ldexp(size, 9)));
  int exponent = std::ilogb(size);
  return sign | uint8_t((exponent + 7) << 3 |
                        (int(std::lrint(std::ldexp(size, 3 - exponent))) - 8));
}

/// A layer of the plan with its two kernels.
struct Few {
  Line line;
  int experts, topK, hidden, inter, begin, local, capacity;
  Type type, logitType;
  bool gated, bias;
  std::string scheme;
  explicit Few(const Line &line)
      : line(line), experts(line.number("E")), topK(line.number("K")),
        hidden(line.number("H")), inter(line.number("I")),
        begin(line.number("begin")), local(line.number("local")),
        capacity(line.number("capacity")), type(typeOf(line.text("dtype"))),
        logitType(typeOf(line.text("logits"))), gated(line.number("gated")),
        bias(line.number("bias")), scheme(line.text("scheme")) {}
  bool scaled() const { return scheme != "none"; }
  bool block() const { return scheme == "fp8_block"; }
  int up() const { return gated ? 2 * inter : inter; }
  size_t weightSize() const { return scaled() ? 1 : sizeOf(type); }
  /// Scales of an expert's weight of n rows in parts.
  int scales(int n, int k, int parts) const {
    if (block())
      return int(parts * ceilDiv(n / parts, 128) * ceilDiv(k, 128));
    return scheme == "fp8_channel" ? n : parts;
  }
  size_t scaleAt(int n, int k, int parts, int row, int column) const {
    int part = row / (n / parts), in = row % (n / parts);
    if (block())
      return size_t((part * ceilDiv(n / parts, 128) + in / 128) *
                        ceilDiv(k, 128) +
                    column / 128);
    return scheme == "fp8_channel" ? size_t(row) : size_t(part);
  }
  int upScales() const { return scales(up(), hidden, gated ? 2 : 1); }
  int downScales() const { return scales(hidden, inter, 1); }
  int storedRow(int row) const {
    if (!gated)
      return row;
    return row % 16 < 8 ? row / 16 * 8 + row % 16
                        : inter + row / 16 * 8 + row % 16 - 8;
  }
};

struct Tensors {
  Buffer w13, w2, s13, s2, b13, b2, a1, a2, x, t, out, ids, weights, counts;
  std::vector<float> static1, static2;
  void release() {
    for (Buffer *b : {&w13, &w2, &s13, &s2, &b13, &b2, &a1, &a2, &x, &t, &out,
                      &ids, &weights, &counts})
      b->release();
  }
};

/// What routing takes.
struct Source {
  CUdeviceptr logits = 0, ids = 0, weights = 0, valid = 0;
  Type logitsType = Type::F32, weightsType = Type::F32;
  int idCode = kCodeI32;

  void addTo(Arguments &a) const {
    a.add(logits).add(codeOf(logitsType)).add(ids).add(idCode);
    a.add(weights).add(codeOf(weightsType)).add(valid);
  }
};

inline void launchUp(CUstream stream, const Few &f, const Kernel &k,
                     const Tensors &d, const Source &s, int tokens, int grid,
                     bool show) {
  Arguments a;
  s.addTo(a);
  a.add(tokens);
  for (const Buffer *b : {&d.ids, &d.weights, &d.counts})
    a.add(show ? b->at : CUdeviceptr(0));
  a.add(d.x.at).add((long long)f.hidden);
  if (f.scheme == "fp8_tensor")
    a.add(d.a1.at);
  a.add(d.w13.at);
  if (f.scaled())
    a.add(d.s13.at);
  if (f.bias)
    a.add(d.b13.at);
  a.add(d.t.at);
  launch(stream, k, grid, a, true);
}

inline void launchDown(CUstream stream, const Few &f, const Kernel &k,
                       const Tensors &d, const Source &s, int tokens,
                       int grid) {
  Arguments a;
  s.addTo(a);
  a.add(tokens).add(d.t.at);
  if (f.scheme == "fp8_tensor")
    a.add(d.a2.at);
  a.add(d.w2.at);
  if (f.scaled())
    a.add(d.s2.at);
  if (f.bias)
    a.add(d.b2.at);
  a.add(d.out.at);
  launch(stream, k, grid, a, true);
}

inline double activationOf(const std::string &name, double x) {
  if (name == "silu")
    return x / (1 + std::exp(-x));
  if (name == "gelu")
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// Ids and weights of a token: softmax or the logits themselves, top k.
inline void routeToken(const float *logits, const Few &f, int *ids,
                       double *weights) {
  std::vector<int> order(size_t(f.experts));
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int e) {
    return std::isnan(logits[e]) ? -INFINITY : logits[e];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return key(a) > key(b); });
  double best = -INFINITY, total = 0;
  for (int e = 0; e < f.experts; ++e)
    if (std::isfinite(logits[e]))
      best = std::max(best, double(logits[e]));
  for (int k = 0; k < f.topK; ++k) {
    ids[k] = order[size_t(k)];
    double logit = logits[ids[k]];
    weights[k] = std::isfinite(logit) ? std::exp(logit - best) : 0;
    total += weights[k];
  }
  for (int k = 0; k < f.topK; ++k)
    weights[k] = total != 0 ? weights[k] / total : 1.0 / f.topK;
}

/// The scheme's rounding of rows of `columns` values.
inline void quantize(const Few &f, std::vector<double> &values, int columns,
                     const std::vector<bool> &counts,
                     const std::vector<float> &statics) {
  if (!f.scaled())
    return;
  size_t rows = values.size() / size_t(columns);
  auto largestOf = [&](size_t first, size_t count) {
    float largest = 0;
    for (size_t i = first; i < first + count; ++i)
      largest = std::max(largest, float(std::fabs(values[i])));
    return largest;
  };
  auto apply = [&](size_t first, size_t count, float scale, bool inverse) {
    for (size_t i = first; i < first + count; ++i)
      values[i] = scale * roundE4m3(inverse ? float(values[i]) * (1.0f / scale)
                                            : float(values[i]) / scale);
  };
  if (f.scheme == "fp8_tensor") {
    float scale = *std::max_element(statics.begin(), statics.end());
    apply(0, values.size(), scale, true);
  } else if (f.scheme == "fp8_tensor_dynamic") {
    float largest = 0;
    for (size_t r = 0; r < rows; ++r)
      if (counts[r])
        largest =
            std::max(largest, largestOf(r * size_t(columns), size_t(columns)));
    apply(0, values.size(), largest == 0 ? 1.0f : largest / 448.0f, true);
  } else {
    size_t group = f.block() ? 128 : size_t(columns);
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < size_t(columns); c += group) {
        size_t at = r * size_t(columns) + c;
        size_t count = std::min(group, size_t(columns) - c);
        float largest = largestOf(at, count);
        float scale =
            f.block() ? std::max(largest, 1e-10f) / 448.0f
                      : std::max(largest / 448.0f, 1.0f / (448.0f * 512.0f));
        apply(at, count, scale, false);
      }
  }
}

/// One weight row, dequantized.
inline void weightRow(const Few &f, const Buffer &weights, const Buffer &scales,
                      int expert, int n, int k, int parts, int packed,
                      int stored, std::vector<float> &row) {
  static double table[256];
  static bool ready = false;
  if (!ready)
    for (int code = 0; code < 256; ++code)
      table[code] = fromE4m3(uint8_t(code));
  ready = true;
  size_t at = (size_t(expert) * size_t(n) + size_t(packed)) * size_t(k);
  if (!f.scaled()) {
    row = readFloats(weights.at + at * sizeOf(f.type), size_t(k), f.type);
    return;
  }
  std::vector<uint8_t> codes((size_t(k)));
  CHECK_CUDA(cuMemcpyDtoH(codes.data(), weights.at + at, size_t(k)));
  size_t each = size_t(f.scales(n, k, parts));
  std::vector<float> own =
      readFloats(scales.at + size_t(expert) * each * 4, each, Type::F32);
  row.resize(size_t(k));
  for (int c = 0; c < k; ++c)
    row[size_t(c)] =
        float(table[codes[size_t(c)]] * own[f.scaleAt(n, k, parts, stored, c)]);
}

struct Expected {
  std::vector<int> tokens, columns;
  std::vector<double> values; ///< [tokens, columns]
};

/// The layer's output for some tokens and columns, from what lies on the
/// device. Ids are of the layer.
inline Expected expect(const Few &f, const Tensors &d,
                       const std::vector<int> &ids,
                       const std::vector<double> &weights, int tokens,
                       int valid, std::vector<int> which, int columnStep) {
  Expected result;
  result.tokens = which;
  for (int n = 0; n < f.hidden; n += columnStep)
    result.columns.push_back(n);
  size_t h = size_t(f.hidden);
  std::vector<float> loaded = readFloats(d.x.at, size_t(tokens) * h, f.type);
  std::vector<double> x(loaded.begin(), loaded.end());
  std::vector<bool> counts(size_t(tokens), false);
  std::fill_n(counts.begin(), valid, true);
  quantize(f, x, f.hidden, counts, d.static1);
  // A dynamic scale of all rows needs all rows.
  bool all = f.scheme == "fp8_tensor_dynamic";
  std::vector<double> middle, own(static_cast<size_t>(f.inter));
  std::vector<int> pairs;
  std::vector<float> row;
  std::vector<double> sums(static_cast<size_t>(f.up()));
  for (int m = 0; m < tokens; ++m)
    for (int k = 0; k < f.topK; ++k) {
      int pair = m * f.topK + k, e = ids[size_t(pair)] - f.begin;
      if (ids[size_t(pair)] < 0 || e < 0 || e >= f.local)
        continue;
      if (!all && std::find(which.begin(), which.end(), m) == which.end())
        continue;
      for (int r = 0; r < f.up(); ++r) {
        int stored = f.storedRow(r);
        weightRow(f, d.w13, d.s13, e, f.up(), f.hidden, f.gated ? 2 : 1, r,
                  stored, row);
        double sum = 0;
        for (size_t c = 0; c < h; ++c)
          sum += x[size_t(m) * h + c] * row[c];
        if (f.bias)
          sum += readFloats(d.b13.at +
                                (size_t(e) * size_t(f.up()) + size_t(stored)) *
                                    sizeOf(f.type),
                            1, f.type)[0];
        sums[size_t(stored)] = sum;
      }
      const std::string &name = f.line.text("act");
      for (int i = 0; i < f.inter; ++i) {
        double value = activationOf(name, sums[size_t(i)]);
        if (f.gated)
          value *= sums[size_t(f.inter + i)];
        own[size_t(i)] =
            f.scaled() ? float(value) : rounded(float(value), f.type);
      }
      middle.insert(middle.end(), own.begin(), own.end());
      pairs.push_back(pair);
    }
  quantize(f, middle, f.inter, std::vector<bool>(pairs.size(), true),
           d.static2);
  result.values.assign(which.size() * result.columns.size(), 0.0);
  for (size_t p = 0; p < pairs.size(); ++p) {
    int m = pairs[p] / f.topK, e = ids[size_t(pairs[p])] - f.begin;
    auto token = std::find(which.begin(), which.end(), m);
    if (token == which.end())
      continue;
    double *to =
        &result.values[size_t(token - which.begin()) * result.columns.size()];
    for (size_t c = 0; c < result.columns.size(); ++c) {
      int n = result.columns[c];
      weightRow(f, d.w2, d.s2, e, f.hidden, f.inter, 1, n, n, row);
      double sum = 0;
      for (size_t i = 0; i < size_t(f.inter); ++i)
        sum += middle[p * size_t(f.inter) + i] * row[i];
      if (f.bias)
        sum +=
            readFloats(d.b2.at + (size_t(e) * h + size_t(n)) * sizeOf(f.type),
                       1, f.type)[0];
      to[c] += weights[size_t(pairs[p])] * sum;
    }
  }
  return result;
}

/// The larger of the error of the whole and of a row over 2.5, relative.
inline double errorOf(const Few &f, const Tensors &d,
                      const Expected &expected) {
  double errors = 0, norms = 0, worst = 0;
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    std::vector<float> got =
        readFloats(d.out.at + size_t(expected.tokens[i]) * size_t(f.hidden) *
                                  sizeOf(f.type),
                   size_t(f.hidden), f.type);
    double error = 0, norm = 0;
    for (size_t c = 0; c < expected.columns.size(); ++c) {
      double value = expected.values[i * expected.columns.size() + c];
      double difference = got[size_t(expected.columns[c])] - value;
      error += difference * difference;
      norm += value * value;
    }
    errors += error;
    norms += norm;
    if (error != 0)
      worst = std::max(worst, std::sqrt(error / norm) / 2.5);
    if (std::isnan(error))
      return NAN;
  }
  return std::max(worst, errors == 0 ? 0 : std::sqrt(errors / norms));
}

inline double boundOf(const Few &f) {
  return f.scaled()            ? 6e-3
         : f.type == Type::F32 ? 1e-5
         : f.type == Type::F16 ? 4e-4
                               : 2.5e-3;
}

} // namespace few

#endif // MOEC_TEST_TEMPLATES_FEWLAYER_H
