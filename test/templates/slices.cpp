//===- slices.cpp - second matmul and combine, two ways, on a GPU ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second matmul followed by combine, and both in one launch that makes the
// result in slices: the outputs must have the same bytes. Or times them:
//
//   templates-slices FOLDER [check|time|once] [NAME]
//
// once: each kernel a single time, for Nsight Compute.
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

struct Int4 {
  int x, y, z, w;
};

/// A buffer of `count` bytes that repeats up to 4 MB of `make`'s.
template <class Make> Buffer repeated(size_t count, Make make) {
  Buffer buffer(count);
  std::vector<unsigned char> some(std::min<size_t>(count, 1 << 22));
  for (size_t i = 0; i + 1 < some.size(); i += 2) {
    uint16_t two = make();
    std::memcpy(&some[i], &two, 2);
  }
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

struct Layer {
  Line line;
  std::map<std::string, Kernel> kernels;
  std::vector<Kernel> variants;
  int experts, topK, hidden, inter, tokens, tileM;
  std::string quant;

  Layer(const Line &line, const std::vector<Line> &plan,
        const std::string &folder)
      : line(line), experts(line.number("E")), topK(line.number("K")),
        hidden(line.number("H")), inter(line.number("I")),
        tokens(line.number("tokens")), quant(line.text("quant")) {
    std::vector<std::string> ids = line.list("variants");
    for (const Line &other : plan) {
      if (other.verb != "kernel")
        continue;
      for (const auto &[role, id] : line.words)
        if (id == other.text("id") && role != "variants")
          kernels.emplace(role, loadKernel(other, folder));
      if (std::find(ids.begin(), ids.end(), other.text("id")) != ids.end())
        variants.push_back(loadKernel(other, folder));
    }
    tileM = kernels.at("down").line.number("tilem");
  }
  int size() const { return quant == "None" ? 2 : 1; }
  int groups() const { return (inter + 127) / 128; }
};

/// Rows sorted by expert, of one routing.
struct Routing {
  std::vector<int> positions;
  std::vector<Int4> tiles;
};

Routing route(const Layer &layer, const std::string &pattern, Random &random) {
  int e = layer.experts, k = layer.topK;
  std::vector<int> ids(size_t(layer.tokens) * size_t(k));
  std::vector<int> order;
  for (int i = 0; i < e; ++i)
    order.push_back(i);
  for (int m = 0; m < layer.tokens; ++m)
    for (int j = 0; j < k; ++j) {
      int left = e - j, other = int(random.next() % unsigned(left));
      if (pattern == "skewed" && random.next() % 2)
        other = int(random.next() % unsigned(std::min(left, 3)));
      if (pattern == "one" || pattern == "edge")
        other = 0;
      std::swap(order[size_t(j)], order[size_t(j + other)]);
      int id = order[size_t(j)];
      if (pattern == "edge")
        id = e - 1 - id;
      // Those of other ranks, or of tokens that are not valid.
      if ((pattern == "local" && id % 3 == 0) || (pattern == "few" && m > 5))
        id = -1;
      ids[size_t(m * k + j)] = id;
    }
  Routing routing;
  routing.positions.assign(ids.size(), -1);
  int rows = 0;
  for (int expert = 0; expert < e; ++expert) {
    int begin = rows;
    for (size_t pair = 0; pair < ids.size(); ++pair)
      if (ids[pair] == expert)
        routing.positions[pair] = rows++;
    int tiles = (rows - begin + layer.tileM - 1) / layer.tileM;
    int share = tiles ? int(ceilDiv(ceilDiv(rows - begin, tiles), 16)) * 16 : 1;
    for (int at = begin; at < rows; at += share)
      routing.tiles.push_back({expert, at, std::min(rows, at + share), 0});
  }
  return routing;
}

/// The tensors of one layer.
struct Tensors {
  Buffer t, ts, w2, s2, bias, y, out, positions, weights, tiles, count;
  explicit Tensors(const Layer &layer, Random &random) {
    size_t m = size_t(layer.tokens), e = size_t(layer.experts),
           k = size_t(layer.topK), h = size_t(layer.hidden),
           i = size_t(layer.inter), size = size_t(layer.size());
    auto code = [&]() -> uint16_t {
      if (size == 2)
        return bitsOf(float(random.uniform() * 2 - 1), Type::BF16);
      auto one = [&] {
        return random.next() % 0x58 | (random.next() & 1) << 7;
      };
      return uint16_t(one() | one() << 8);
    };
    t = repeated(m * k * i * size, code);
    w2 = repeated(e * h * i * size, code);
    ts = randomFloats(m * k * size_t(layer.groups()), random);
    s2 = randomFloats(e * (layer.quant == "Fp8Channel"
                               ? h
                               : size_t(layer.groups()) * ((h + 127) / 128)),
                      random);
    bias = repeated(e * h * 2, [&] {
      return bitsOf(float(random.uniform() * 2 - 1), Type::BF16);
    });
    weights = randomFloats(m * k, random);
    y.make(m * k * h * 2);
    out.make(m * h * 2);
    positions.make(m * k * 4);
    tiles.make((m * k + e) * 16);
    count.make(36);
  }
  void route(const Routing &routing) {
    positions.write(routing.positions);
    tiles.write(routing.tiles);
    std::vector<int> words(9);
    words[0] = int(routing.tiles.size());
    count.write(words);
  }
  ~Tensors() {
    for (Buffer *b : {&t, &ts, &w2, &s2, &bias, &y, &out, &positions, &weights,
                      &tiles, &count})
      b->release();
  }
};

TensorMap weightTiles(const Layer &layer, int columns, CUdeviceptr weights) {
  cuuint64_t size = cuuint64_t(layer.size());
  cuuint64_t extents[] = {cuuint64_t(layer.inter), cuuint64_t(layer.hidden),
                          cuuint64_t(layer.experts)};
  cuuint64_t strides[] = {extents[0] * size, extents[0] * extents[1] * size};
  cuuint32_t box[] = {cuuint32_t(128 / size), cuuint32_t(columns), 1};
  cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  CHECK_CUDA(cuTensorMapEncodeTiled(
      &map,
      size == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                : CU_TENSOR_MAP_DATA_TYPE_UINT8,
      3, reinterpret_cast<void *>(weights), extents, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  TensorMap copy;
  std::memcpy(copy.bytes, &map, sizeof copy.bytes);
  return copy;
}

struct Runner {
  const Layer &layer;
  const Tensors &at;
  CUstream stream;
  int grid;

  void reset() const {
    Arguments a;
    a.add(at.count.at);
    launch(stream, layer.kernels.at("reset"), 1, a, true);
  }
  void down() const {
    Arguments a;
    a.add(at.t.at).add(static_cast<long long>(layer.inter));
    a.add(at.tiles.at).add(at.count.at).add(weightTiles(layer, 128, at.w2.at));
    if (layer.quant != "None")
      a.add(at.ts.at).add(at.s2.at);
    if (layer.line.number("bias"))
      a.add(at.bias.at);
    a.add(at.y.at);
    launch(stream, layer.kernels.at("down"), grid, a, true);
  }
  void combine() const {
    Arguments a;
    a.add(at.y.at).add(at.positions.at).add(at.weights.at).add(layer.tokens);
    a.add(at.out.at);
    const Kernel &kernel = layer.kernels.at("combine");
    launch(stream, kernel,
           static_cast<long long>(layer.tokens) * kernel.line.number("cblocks"),
           a, true);
  }
  void slices(const Kernel &kernel) const { slices(kernel, grid); }
  void slices(const Kernel &kernel, int ctas) const {
    Arguments a;
    a.add(at.t.at).add(at.tiles.at).add(at.count.at);
    a.add(weightTiles(layer, kernel.line.number("tilen"), at.w2.at));
    if (layer.quant != "None")
      a.add(at.ts.at).add(at.s2.at);
    if (layer.line.number("bias"))
      a.add(at.bias.at);
    a.add(at.y.at).add(at.positions.at).add(at.weights.at).add(layer.tokens);
    a.add(at.out.at);
    launch(stream, kernel, ctas, a, true);
  }
};

/// A launch with fewer CTAs than the kernel was made for makes no number, and
/// the context goes on.
bool refusesFewCtas(const Runner &run, Tensors &tensors, const Kernel &kernel) {
  tensors.out.poison();
  CHECK_CUDA(cuCtxSynchronize());
  run.reset();
  run.slices(kernel, 1);
  CHECK_CUDA(cuStreamSynchronize(run.stream));
  for (uint16_t bits : tensors.out.read<uint16_t>())
    if (bits != 0x7fff)
      return false;
  return tensors.out.guardIntact();
}

bool check(const Layer &layer, const std::string &pattern, CUstream stream,
           bool quick) {
  Random random;
  Tensors tensors(layer, random);
  tensors.route(route(layer, pattern, random));
  Runner run{layer, tensors, stream, layer.line.number("processors")};
  run.reset();
  run.down();
  run.combine();
  CHECK_CUDA(cuStreamSynchronize(stream));
  auto expected = tensors.out.read<uint16_t>();
  size_t bad = 0, zeros = 0;
  for (uint16_t bits : expected) {
    bad += (bits & 0x7f80) == 0x7f80;
    zeros += !(bits & 0x7fff);
  }
  bool right = bad == 0 && (zeros < expected.size() / 4 || pattern == "few" ||
                            pattern == "local");
  if (!right)
    std::printf("%s: %zu not finite, %zu zeros of %zu\n",
                layer.line.text("name").c_str(), bad, zeros, expected.size());
  for (const Kernel &kernel : layer.variants)
    for (int repeat = 0; repeat < (quick ? 1 : 3); ++repeat) {
      tensors.y.poison();
      tensors.out.poison();
      CHECK_CUDA(cuCtxSynchronize());
      run.reset();
      run.slices(kernel);
      CHECK_CUDA(cuStreamSynchronize(stream));
      auto found = tensors.out.read<uint16_t>();
      size_t differ = 0, first = 0;
      for (size_t i = 0; i < found.size(); ++i)
        if (found[i] != expected[i] && ++differ == 1)
          first = i;
      bool same =
          differ == 0 && tensors.out.guardIntact() && tensors.y.guardIntact();
      if (!same)
        std::printf("%s %s: %zu of %zu differ, first %zu: %04x for %04x\n",
                    kernel.line.text("id").c_str(), pattern.c_str(), differ,
                    found.size(), first, found[first], expected[first]);
      right = right && same;
    }
  if (!quick && !refusesFewCtas(run, tensors, layer.variants.front())) {
    std::printf("%s: one CTA alone made numbers\n",
                layer.line.text("name").c_str());
    right = false;
  }
  std::printf("%-28s %-8s %s\n", layer.line.text("name").c_str(),
              pattern.c_str(), right ? "right" : "FAILED");
  return right;
}

void time(const Layer &layer, CUstream stream, bool once) {
  Random random;
  Tensors tensors(layer, random);
  tensors.route(route(layer, "uniform", random));
  Runner run{layer, tensors, stream, layer.line.number("processors")};
  std::vector<std::pair<std::string, std::function<void()>>> ways = {
      {"reset", [&] { run.reset(); }},
      {"down",
       [&] {
         run.reset();
         run.down();
       }},
      {"down, combine", [&] {
         run.reset();
         run.down();
         run.combine();
       }}};
  for (const Kernel &kernel : layer.variants)
    ways.emplace_back(kernel.line.text("id"), [&run, &kernel] {
      run.reset();
      run.slices(kernel);
    });
  if (once) {
    for (const auto &way : ways)
      way.second();
    CHECK_CUDA(cuStreamSynchronize(stream));
    return;
  }
  constexpr int kRounds = 4;
  std::vector<std::function<void()>> rounds;
  for (const auto &way : ways)
    rounds.emplace_back([&way] {
      for (int round = 0; round < kRounds; ++round)
        way.second();
    });
  const std::vector<double> times = Timer(stream).mediansInTurns(rounds, 2, 7);
  for (size_t way = 0; way < ways.size(); ++way)
    std::printf("TIME %-24s %-52s %8.1f\n", layer.line.text("name").c_str(),
                ways[way].first.c_str(), times[way] / kRounds);
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [check|time|once] [NAME]\n",
                 argv[0]);
    return 2;
  }
  std::string folder = argv[1], what = argc > 2 ? argv[2] : "check";
  std::string name = argc > 3 ? argv[3] : "";
  openGpu();
  CUstream stream;
  CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::vector<Line> plan = readPlan(folder + "/plan.txt");
  int failures = 0, cells = 0;
  for (const Line &line : plan) {
    if (line.verb != "slices" ||
        line.text("name").find(name) == std::string::npos)
      continue;
    bool timing = line.number("timing");
    if (timing != (what != "check"))
      continue;
    Layer layer(line, plan, folder);
    if (what == "once") {
      time(layer, stream, true);
      continue;
    }
    for (const std::string &pattern : line.list("patterns")) {
      failures += !check(layer, pattern, stream, timing);
      ++cells;
      std::fflush(stdout);
    }
    if (timing)
      time(layer, stream, false);
    std::fflush(stdout);
  }
  std::printf("%d cells, %d failures\n", cells, failures);
  return failures != 0 || (what == "check" && cells == 0);
}
