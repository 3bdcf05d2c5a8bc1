//===- fused.cpp - quantization inside of other kernels, on a GPU ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs fp8 layers of plan.py in two or four ways: x and the intermediate are
// quantized by launches of their own, or beside routing (x) and by gate_up (t,
// where there is such a kernel). All ways must give the same bytes. Or times
// them:
//
//   templates-fused FOLDER [check|time] [NAME]
//
//===----------------------------------------------------------------------===//

#include "test/templates/Timing.h"

#include <algorithm>

using namespace harness;

namespace {

struct Random {
  uint64_t state = 42;
  uint32_t next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(state >> 33);
  }
  double uniform() { return next() / 2147483648.0; }
};

struct alignas(64) TensorMap {
  char bytes[sizeof(CUtensorMap)];
};

/// A buffer of `count` bytes that repeats up to 4 MB of `make`'s.
template <class Make> Buffer repeated(size_t count, Make make) {
  Buffer buffer(count);
  std::vector<unsigned char> some(std::min<size_t>(count, 1 << 22));
  for (unsigned char &byte : some)
    byte = make();
  for (size_t at = 0; at < count; at += some.size())
    upload(buffer.at + at, some.data(), std::min(some.size(), count - at));
  return buffer;
}

Buffer randomFloats(size_t count, Random &random) {
  Buffer buffer(count * 4);
  std::vector<float> values(count);
  for (float &value : values)
    value = float((0.5 + random.uniform()) / 64);
  buffer.write(values);
  return buffer;
}

Buffer randomHalves(size_t count, Random &random) {
  Buffer buffer(count * 2);
  std::vector<uint16_t> bits(count);
  for (uint16_t &value : bits)
    value = bitsOf(float(random.uniform() * 4 - 2), Type::BF16);
  buffer.write(bits);
  return buffer;
}

struct Layer {
  Line line;
  std::map<std::string, Kernel> kernels;
  int experts, topK, hidden, inter, tileRows;
  std::string quant;

  Layer(const Line &line, const std::vector<Line> &plan,
        const std::string &folder)
      : line(line), experts(line.number("E")), topK(line.number("K")),
        hidden(line.number("H")), inter(line.number("I")),
        tileRows(line.number("tilerows")), quant(line.text("quant")) {
    for (const Line &other : plan)
      if (other.verb == "kernel")
        for (const auto &[role, id] : line.words)
          if (id == other.text("id"))
            kernels.emplace(role, loadKernel(other, folder));
  }
  /// Ways to run it: bit 0 x, bit 1 t inside of another kernel.
  int ways() const { return kernels.count("upt") ? 4 : 2; }
  const Kernel &kernel(const std::string &role) const {
    auto found = kernels.find(role);
    if (found == kernels.end()) {
      std::fprintf(stderr, "the layer has no kernel %s\n", role.c_str());
      std::exit(2);
    }
    return found->second;
  }
  int groups(int columns) const {
    return quant == "Fp8Block" ? (columns + 127) / 128 : 1;
  }
  size_t weightScales(int parts, int rows, int columns) const {
    return quant == "Fp8Block" ? size_t(parts) * ((rows / parts + 127) / 128) *
                                     ((columns + 127) / 128)
           : quant == "Fp8Channel" ? size_t(rows)
                                   : size_t(parts);
  }
};

/// The tensors of one layer for some tokens. kRounds sets of logits, so that
/// each round takes other experts.
struct Tensors {
  Buffer x, logits, w13, w2, s13, s2, given;
  Buffer xq, xs, t, tq, ts, y, ids, weights, rows, positions, offsets, tiles,
      count, blocks;

  Tensors(const Layer &layer, int tokens, int rounds, Random &random) {
    size_t m = size_t(tokens), e = size_t(layer.experts),
           k = size_t(layer.topK);
    size_t h = size_t(layer.hidden), i = size_t(layer.inter);
    x = randomHalves(m * h, random);
    logits = randomHalves(m * e * size_t(rounds), random);
    auto code = [&] {
      return (unsigned char)(random.next() % 0x58 | (random.next() & 1) << 7);
    };
    w13 = repeated(e * 2 * i * h, code);
    w2 = repeated(e * h * i, code);
    s13 = randomFloats(e * layer.weightScales(2, 2 * layer.inter, layer.hidden),
                       random);
    s2 = randomFloats(e * layer.weightScales(1, layer.hidden, layer.inter),
                      random);
    given = randomFloats(e, random);
    xq.make(m * h);
    bool one = layer.quant == "Fp8Tensor";
    xs.make((one ? 1 : m * size_t(layer.groups(layer.hidden))) * 4);
    t.make(m * k * i * 4);
    tq.make(m * k * i);
    ts.make((one ? 1 : m * k * size_t(layer.groups(layer.inter))) * 4);
    y.make(m * k * h * 2);
    ids.make(m * k * 4);
    weights.make(m * k * 4);
    rows.make(m * k * 4);
    positions.make(m * k * 4);
    offsets.make((e + 1) * 4);
    tiles.make((m * k + e) * 16);
    count.make(12);
    blocks.make((m / 64 + 1) * e * 4);
  }
  std::vector<Buffer *> results() { return {&xq, &xs, &tq, &ts, &y}; }
  ~Tensors() {
    for (Buffer *buffer :
         {&x,       &logits, &w13,       &w2,      &s13,   &s2,    &given,
          &xq,      &xs,     &t,         &tq,      &ts,    &y,     &ids,
          &weights, &rows,   &positions, &offsets, &tiles, &count, &blocks})
      buffer->release();
  }
};

TensorMap weightTiles(const Kernel &kernel, CUdeviceptr weights) {
  const Line &line = kernel.line;
  cuuint64_t extents[] = {cuuint64_t(line.number("k")),
                          cuuint64_t(line.number("n")),
                          cuuint64_t(line.number("experts"))};
  cuuint64_t strides[] = {extents[0], extents[0] * extents[1]};
  cuuint32_t box[] = {128, cuuint32_t(line.number("tilen")), 1};
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

/// Launches a layer. withX, withT: quantized inside of other kernels.
struct Runner {
  const Layer &layer;
  Tensors &at;
  int tokens, processors;
  bool withX, withT;
  CUstream stream;
  bool first = true;

  void go(const Kernel &kernel, long long grid, const Arguments &arguments) {
    launch(stream, kernel, grid, arguments, !first);
    first = false;
  }
  long long quantizeGrid(const Kernel &kernel, long long rows,
                         int columns) const {
    if (layer.quant == "Fp8Block")
      return ceilDiv(rows * layer.groups(columns),
                     kernel.line.number("threads") / 16);
    if (layer.quant == "Fp8Tensor")
      return ceilDiv(rows, 16);
    return ceilDiv(rows, std::max(1, kernel.line.number("threads") / 256));
  }
  void quantizedX(Arguments &a) const {
    a.add(at.x.at).add(static_cast<long long>(layer.hidden));
    if (layer.quant == "Fp8Tensor")
      a.add(at.given.at);
  }
  void matmul(const Kernel &kernel, bool up) {
    Arguments a;
    int columns = up ? layer.hidden : layer.inter;
    a.add(up ? at.xq.at : at.tq.at).add(static_cast<long long>(columns));
    if (up)
      a.add(at.rows.at);
    a.add(at.tiles.at).add(at.count.at);
    bool persistent = kernel.line.text("engine") == "Wgmma";
    CUdeviceptr weights = up ? at.w13.at : at.w2.at;
    if (persistent)
      a.add(weightTiles(kernel, weights));
    else
      a.add(weights);
    a.add(up ? at.xs.at : at.ts.at).add(up ? at.s13.at : at.s2.at);
    if (up && withT) {
      if (layer.quant == "Fp8Tensor")
        a.add(at.given.at);
      a.add(at.tq.at).add(at.ts.at);
    } else {
      a.add(up ? at.t.at : at.y.at);
    }
    long long pairs = static_cast<long long>(tokens) * layer.topK;
    long long capacity =
        std::min(pairs, ceilDiv(pairs, layer.tileRows) + layer.experts);
    long long tiles = capacity * ceilDiv(kernel.line.number("n"),
                                         kernel.line.number("tilen"));
    long long resident =
        static_cast<long long>(processors) * kernel.line.number("ctas");
    go(kernel, persistent ? std::min(tiles, resident) : tiles, a);
  }

  void run(int round) {
    first = true;
    CUdeviceptr none = 0;
    bool few = tokens <= 128;
    const Kernel &route =
        layer.kernel(std::string(few ? "few" : "route") + (withX ? "x" : ""));
    Arguments a;
    a.add(at.logits.at +
          size_t(round) * size_t(tokens) * size_t(layer.experts) * 2);
    a.add(codeOf(Type::BF16)).add(none).add(0).add(none).add(0).add(none);
    a.add(tokens);
    a.add(at.ids.at).add(at.weights.at).add(none).add(none);
    if (few)
      a.add(at.rows.at)
          .add(at.positions.at)
          .add(at.offsets.at)
          .add(at.tiles.at)
          .add(at.count.at)
          .add(none);
    else
      a.add(at.blocks.at);
    long long grid = few ? 1 : ceilDiv(tokens, 64);
    if (withX) {
      quantizedX(a);
      a.add(at.xq.at).add(at.xs.at);
      grid += quantizeGrid(route, tokens, layer.hidden);
    }
    go(route, grid, a);
    if (!few) {
      Arguments p;
      p.add(at.ids.at).add(at.blocks.at).add(tokens).add(at.rows.at);
      p.add(at.positions.at).add(at.offsets.at).add(at.tiles.at);
      p.add(at.count.at).add(none);
      go(layer.kernel("permute"), ceilDiv(tokens, 64), p);
    }
    if (!withX) {
      const Kernel &kernel = layer.kernel("quantizex");
      Arguments q;
      quantizedX(q);
      q.add(tokens).add(at.xq.at).add(at.xs.at);
      go(kernel, quantizeGrid(kernel, tokens, layer.hidden), q);
    }
    matmul(layer.kernel(std::string("up") + (withT ? "t" : "") +
                        (withX ? "x" : "")),
           true);
    if (!withT) {
      const Kernel &kernel = layer.kernel("quantizet");
      long long rows = static_cast<long long>(tokens) * layer.topK;
      Arguments q;
      q.add(at.t.at).add(static_cast<long long>(layer.inter));
      if (layer.quant == "Fp8Tensor")
        q.add(at.given.at);
      q.add(at.offsets.at).add(at.tq.at).add(at.ts.at);
      go(kernel, quantizeGrid(kernel, rows, layer.inter), q);
    }
    matmul(layer.kernel("down"), false);
  }
};

/// True where all ways give the same bytes.
bool check(const Layer &layer, int tokens, int processors, CUstream stream) {
  Random random;
  Tensors tensors(layer, tokens, 1, random);
  std::vector<std::vector<unsigned char>> expected;
  bool right = true;
  std::string found;
  for (int way = 0; way < layer.ways(); ++way) {
    for (Buffer *buffer : tensors.results())
      buffer->poison();
    Runner{layer,          tensors,        tokens, processors,
           (way & 1) != 0, (way & 2) != 0, stream}
        .run(0);
    CHECK_CUDA(cuStreamSynchronize(stream));
    size_t index = 0;
    for (Buffer *buffer : tensors.results()) {
      auto bytes = buffer->read<unsigned char>();
      bool same = true;
      if (way == 0) {
        // Not all poison, zeros or not-a-numbers.
        size_t ones = size_t(std::count(bytes.begin(), bytes.end(), 0xff));
        size_t zeros = size_t(std::count(bytes.begin(), bytes.end(), 0));
        same = ones + zeros < bytes.size() / 2;
        expected.push_back(bytes);
      } else {
        same = bytes == expected[index];
      }
      same = same && buffer->guardIntact();
      if (!same)
        found +=
            " way " + std::to_string(way) + " result " + std::to_string(index);
      right = right && same;
      ++index;
    }
  }
  std::printf("%-36s tokens %5d %s%s\n", layer.line.text("name").c_str(),
              tokens, right ? "right" : "FAILED", found.c_str());
  return right;
}

void time(const Layer &layer, int tokens, int processors, CUstream stream) {
  Random random;
  int rounds = tokens <= 128 ? 16 : 4;
  Tensors tensors(layer, tokens, rounds, random);
  std::vector<std::function<void()>> ways;
  for (int way = 0; way < layer.ways(); ++way)
    ways.emplace_back([&, way] {
      Runner runner{layer,          tensors,        tokens, processors,
                    (way & 1) != 0, (way & 2) != 0, stream};
      for (int round = 0; round < rounds; ++round)
        runner.run(round);
    });
  std::printf("%-32s M %5d |", layer.line.text("name").c_str(), tokens);
  for (double median : Timer(stream).mediansInTurns(ways, 2, 10))
    std::printf(" %8.1f", median / rounds);
  std::printf("\n");
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
  CUstream stream;
  CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (what == "time")
    std::printf("us of a layer without combine: apart, x beside routing (, t "
                "by gate_up, both)\n");
  std::vector<Line> plan = readPlan(folder + "/plan.txt");
  int failures = 0, cells = 0;
  for (const Line &line : plan) {
    if (line.verb != "fused" ||
        bool(line.number("timing")) != (what == "time") ||
        line.text("name").find(name) == std::string::npos)
      continue;
    Layer layer(line, plan, folder);
    for (const std::string &tokens : line.list("tokens")) {
      if (what == "time") {
        time(layer, numberIn(tokens), processors, stream);
      } else {
        failures += !check(layer, numberIn(tokens), processors, stream);
        ++cells;
      }
      std::fflush(stdout);
    }
  }
  if (what != "time")
    std::printf("%d cells, %d failures\n", cells, failures);
  return failures != 0 || (what != "time" && cells == 0);
}
