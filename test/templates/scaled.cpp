//===- scaled.cpp - matmuls of e4m3 operands on a GPU ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the grouped matmuls of engine wgmma with scales that plan.py wrote
// against plain double loops, or times them:
//
//   templates-scaled FOLDER [check|time] [NAME]
//
//===----------------------------------------------------------------------===//

#include "test/templates/Harness.h"

#include <algorithm>

using namespace harness;

namespace {

struct Random {
  uint64_t state;
  uint32_t next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(state >> 33);
  }
  double uniform() { return next() / 2147483648.0; }
};

double fromE4m3(uint8_t code) {
  int exponent = code >> 3 & 15, mantissa = code & 7;
  double size = exponent ? std::ldexp(8 + mantissa, exponent - 10)
                         : std::ldexp(mantissa, -9);
  return code & 0x80 ? -size : size;
}

/// Up to 15 in magnitude.
std::vector<uint8_t> randomCodes(size_t count, Random &random) {
  std::vector<uint8_t> codes(count);
  for (uint8_t &code : codes)
    code = uint8_t(random.next() % 0x58 | (random.next() & 1) << 7);
  return codes;
}

std::vector<float> randomScales(size_t count, Random &random) {
  std::vector<float> scales(count);
  for (float &scale : scales)
    scale =
        float(std::ldexp(0.5 + random.uniform(), int(random.next() % 4)) / 64);
  return scales;
}

template <class T> CUdeviceptr toDevice(const std::vector<T> &values) {
  CUdeviceptr at;
  CHECK_CUDA(cuMemAlloc(&at, std::max<size_t>(values.size() * sizeof(T), 16)));
  if (!values.empty())
    upload(at, values.data(), values.size() * sizeof(T));
  return at;
}

struct alignas(64) TensorMap {
  char bytes[sizeof(CUtensorMap)];
};

struct Int4 {
  int x, y, z, w;
};

/// One matmul of the plan.
struct Case {
  Kernel kernel;
  int experts, topK, n, k, tileM, groups, parts, partRows, partBlocks;
  bool gated, gather;
  std::string quant;

  Case(const Line &line, const std::string &folder)
      : kernel(loadKernel(line, folder)), experts(line.number("experts")),
        topK(line.number("topk")), n(line.number("n")), k(line.number("k")),
        tileM(line.number("tilem")), groups((k + 127) / 128),
        gated(line.number("gated")), gather(line.number("gather")),
        quant(line.text("quant")) {
    parts = gated ? 2 : 1;
    partRows = n / parts;
    partBlocks = (partRows + 127) / 128;
  }
  bool block() const { return quant == "Fp8Block"; }
  bool channel() const { return quant == "Fp8Channel"; }
  int columns() const { return n / parts; }
  int scalesPerExpert() const {
    return block() ? parts * partBlocks * groups : channel() ? n : parts;
  }
  /// Which stored row the packed row n is.
  int stored(int row) const {
    if (!gated)
      return row;
    int block = row / 16, in = row % 16;
    return in < 8 ? block * 8 + in : n / 2 + block * 8 + in - 8;
  }
  size_t weightScale(int expert, int row, int group) const {
    int part = row / partRows;
    size_t base = size_t(expert) * size_t(scalesPerExpert());
    if (channel())
      return base + size_t(row);
    if (!block())
      return base + size_t(part);
    int at = part * partBlocks + (row - part * partRows) / 128;
    return base + size_t(at * groups + group);
  }
  size_t tokenScale(int row, int group) const {
    return block()     ? size_t(row) * size_t(groups) + size_t(group)
           : channel() ? size_t(row)
                       : 0;
  }
};

/// Sorted rows of one routing.
struct Routing {
  std::vector<int> pairs, expertOf;
  std::vector<Int4> tiles;
};

Routing route(const Case &c, int tokens, bool uniform, Random &random) {
  std::vector<std::vector<int>> ofExpert(size_t(c.experts), std::vector<int>());
  for (int pair = 0; pair < tokens * c.topK; ++pair) {
    // Half of all pairs to expert 1, none to expert 0.
    int expert = int(random.next() % unsigned(c.experts));
    if (!uniform && (random.next() % 2 || expert == 0))
      expert = 1 % c.experts;
    ofExpert[size_t(expert)].push_back(pair);
  }
  Routing routing;
  for (int expert = 0; expert < c.experts; ++expert) {
    const std::vector<int> &own = ofExpert[size_t(expert)];
    int begin = int(routing.pairs.size()), end = begin + int(own.size());
    for (int at = begin; at < end; at += c.tileM)
      routing.tiles.push_back({expert, at, std::min(end, at + c.tileM), 0});
    routing.pairs.insert(routing.pairs.end(), own.begin(), own.end());
    routing.expertOf.insert(routing.expertOf.end(), own.size(), expert);
  }
  return routing;
}

TensorMap weightTiles(const Case &c, CUdeviceptr weights) {
  cuuint64_t extents[] = {cuuint64_t(c.k), cuuint64_t(c.n),
                          cuuint64_t(c.experts)};
  cuuint64_t strides[] = {extents[0], extents[0] * extents[1]};
  cuuint32_t box[] = {128, cuuint32_t(c.kernel.line.number("tilen")), 1};
  cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  CHECK_CUDA(cuTensorMapEncodeTiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, reinterpret_cast<void *>(weights),
      extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  TensorMap copy;
  std::memcpy(copy.bytes, &map, sizeof copy.bytes);
  return copy;
}

/// Operands on the device.
struct Operands {
  CUdeviceptr lhs, rows, tiles, tileCount, weights, lhsScale, rhsScale, bias,
      result;
};

void start(const Case &c, const Operands &o, int grid) {
  Arguments a;
  a.add(o.lhs).add((long long)c.k);
  if (c.gather)
    a.add(o.rows);
  a.add(o.tiles).add(o.tileCount).add(weightTiles(c, o.weights));
  a.add(o.lhsScale).add(o.rhsScale);
  if (c.kernel.line.number("bias", 0))
    a.add(o.bias);
  a.add(o.result);
  launch(nullptr, c.kernel, grid, a, false);
}

void release(const Operands &o) {
  for (CUdeviceptr at : {o.lhs, o.rows, o.tiles, o.tileCount, o.weights,
                         o.lhsScale, o.rhsScale, o.bias, o.result})
    CHECK_CUDA(cuMemFree(at));
}

float fromBfloat(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

/// True where the results are those of the loops.
bool check(const Case &c, int tokens, Random &random) {
  Routing routing = route(c, tokens, false, random);
  int sorted = int(routing.pairs.size());
  int lhsRows = c.gather ? tokens : sorted;
  auto lhs = randomCodes(size_t(lhsRows) * size_t(c.k), random);
  auto stored =
      randomCodes(size_t(c.experts) * size_t(c.n) * size_t(c.k), random);
  std::vector<uint8_t> packed(stored.size());
  for (int e = 0; e < c.experts; ++e)
    for (int row = 0; row < c.n; ++row)
      std::memcpy(
          &packed[(size_t(e) * size_t(c.n) + size_t(row)) * size_t(c.k)],
          &stored[(size_t(e) * size_t(c.n) + size_t(c.stored(row))) *
                  size_t(c.k)],
          size_t(c.k));
  auto lhsScale = randomScales(c.block() ? size_t(lhsRows) * size_t(c.groups)
                               : c.channel() ? size_t(lhsRows)
                                             : 1,
                               random);
  auto rhsScale =
      randomScales(size_t(c.experts) * size_t(c.scalesPerExpert()), random);
  std::vector<uint16_t> bias(size_t(c.experts) * size_t(c.n));
  for (uint16_t &value : bias)
    value = uint16_t(0x3f80 | (random.next() & 0x807f));
  bool hasBias = c.kernel.line.number("bias", 0),
       wide = c.kernel.line.text("result") == "f32";
  size_t resultBytes = size_t(sorted) * size_t(c.columns()) * (wide ? 4 : 2);
  std::vector<char> result(resultBytes + 64, char(0xff));
  std::vector<int> count = {int(routing.tiles.size()), 0, 0};
  Operands o{
      toDevice(lhs),      toDevice(routing.pairs), toDevice(routing.tiles),
      toDevice(count),    toDevice(packed),        toDevice(lhsScale),
      toDevice(rhsScale), toDevice(bias),          toDevice(result)};
  start(c, o, 3);
  CHECK_CUDA(cuCtxSynchronize());
  CHECK_CUDA(cuMemcpyDtoH(result.data(), o.result, result.size()));
  release(o);

  double table[256];
  for (int code = 0; code < 256; ++code)
    table[code] = fromE4m3(uint8_t(code));
  auto sum = [&](int row, int expert, int weightRow) {
    double total = 0;
    const uint8_t *a = &lhs[size_t(row) * size_t(c.k)];
    const uint8_t *b =
        &stored[(size_t(expert) * size_t(c.n) + size_t(weightRow)) *
                size_t(c.k)];
    for (int group = 0; group < c.groups; ++group) {
      double part = 0;
      for (int i = group * 128; i < std::min(c.k, group * 128 + 128); ++i)
        part += table[a[i]] * table[b[i]];
      total += part * lhsScale[c.tokenScale(row, group)] *
               rhsScale[c.weightScale(expert, weightRow, group)];
    }
    if (hasBias)
      total +=
          fromBfloat(bias[size_t(expert) * size_t(c.n) + size_t(weightRow)]);
    return total;
  };
  double worst = 0;
  int step = std::max(1, sorted / 160);
  for (int row = 0; row < sorted; row += step) {
    int expert = routing.expertOf[size_t(row)];
    int source = c.gather ? routing.pairs[size_t(row)] / c.topK : row;
    double square = 0, difference = 0;
    for (int column = 0; column < c.columns(); ++column) {
      double expected = sum(source, expert, column);
      if (c.gated)
        expected = expected / (1 + std::exp(-expected)) *
                   sum(source, expert, column + c.partRows);
      size_t at = size_t(row) * size_t(c.columns()) + size_t(column);
      float found;
      if (wide) {
        std::memcpy(&found, &result[at * 4], 4);
      } else {
        uint16_t bits;
        std::memcpy(&bits, &result[at * 2], 2);
        found = fromBfloat(bits);
      }
      square += expected * expected;
      difference += (found - expected) * (found - expected);
    }
    double error = std::sqrt(difference / std::max(square, 1e-30));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  bool behind = std::all_of(result.end() - 64, result.end(),
                            [](char byte) { return byte == char(0xff); });
  bool fast = c.kernel.line.number("fast", 0);
  bool right = worst <= (fast ? 2e-2 : wide ? 2e-3 : 4e-3) && behind;
  std::printf("%-34s tokens %4d worst row %.2e%s %s\n",
              c.kernel.line.text("id").c_str(), tokens, worst,
              behind ? "" : " WRITES BEHIND", right ? "right" : "FAILED");
  return right;
}

void time(const Case &c, int tokens, int processors, Random &random) {
  Routing routing = route(c, tokens, true, random);
  int sorted = int(routing.pairs.size());
  int lhsRows = c.gather ? tokens : sorted;
  bool wide = c.kernel.line.text("result") == "f32";
  size_t weights = size_t(c.experts) * size_t(c.n) * size_t(c.k);
  std::vector<uint8_t> some = randomCodes(1 << 22, random);
  std::vector<uint8_t> packed(weights), lhs(size_t(lhsRows) * size_t(c.k));
  for (size_t at = 0; at < weights; at += some.size())
    std::memcpy(&packed[at], some.data(), std::min(some.size(), weights - at));
  for (size_t at = 0; at < lhs.size(); ++at)
    lhs[at] = some[at % some.size()];
  std::vector<int> count = {int(routing.tiles.size()), 0, 0};
  Operands o{toDevice(lhs),
             toDevice(routing.pairs),
             toDevice(routing.tiles),
             toDevice(count),
             toDevice(packed),
             toDevice(randomScales(size_t(lhsRows) * size_t(c.groups), random)),
             toDevice(randomScales(
                 size_t(c.experts) * size_t(c.scalesPerExpert()), random)),
             toDevice(std::vector<uint16_t>(4)),
             toDevice(std::vector<char>(size_t(sorted) * size_t(c.columns()) *
                                        (wide ? 4 : 2)))};
  CUdeviceptr zero = toDevice(count);
  CUevent begin, end;
  CHECK_CUDA(cuEventCreate(&begin, 0));
  CHECK_CUDA(cuEventCreate(&end, 0));
  std::vector<float> times;
  for (int i = 0; i < 14; ++i) {
    CHECK_CUDA(cuMemcpyDtoDAsync(o.tileCount, zero, 12, nullptr));
    CHECK_CUDA(cuEventRecord(begin, nullptr));
    start(c, o, processors * c.kernel.line.number("ctas"));
    CHECK_CUDA(cuEventRecord(end, nullptr));
    CHECK_CUDA(cuEventSynchronize(end));
    float ms;
    CHECK_CUDA(cuEventElapsedTime(&ms, begin, end));
    if (i >= 4)
      times.push_back(ms * 1000);
  }
  std::sort(times.begin(), times.end());
  double us = times[times.size() / 2];
  std::printf("%-34s tokens %5d | %8.1f us median (least %.1f) %7.1f TFLOP/s "
              "%6.0f GB/s of weights\n",
              c.kernel.line.text("id").c_str(), tokens, us, times[0],
              2.0 * sorted * c.n * c.k / us * 1e-6,
              double(weights) / us * 1e-3);
  release(o);
  CHECK_CUDA(cuMemFree(zero));
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [check|time] [NAME]\n", argv[0]);
    return 2;
  }
  std::string folder = argv[1], what = argc > 2 ? argv[2] : "check";
  std::string name = argc > 3 ? argv[3] : "";
  const int processors = openGpu();
  int failures = 0, cells = 0;
  for (const Line &line : readPlan(folder + "/plan.txt")) {
    if (line.verb != "kernel" || line.text("kind") != "scaled" ||
        bool(line.number("timing")) != (what == "time") ||
        line.text("id").find(name) == std::string::npos)
      continue;
    Case c(line, folder);
    Random random{42};
    for (const std::string &tokens : line.list("tokens")) {
      if (what == "time") {
        time(c, numberIn(tokens), processors, random);
      } else {
        failures += !check(c, numberIn(tokens), random);
        ++cells;
      }
      std::fflush(stdout);
    }
  }
  if (what != "time")
    std::printf("%d cells, %d failures\n", cells, failures);
  return failures != 0 || (what != "time" && cells == 0);
}
