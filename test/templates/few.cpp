//===- few.cpp - layers of a few tokens in two launches ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs pairs of route_gate_up and down_combine that plan.py wrote against plain
// double loops, or times them, many layers in a CUDA graph with programmatic
// launches and weights from memory; what is timed is checked too.
//
//   templates-few FOLDER check|time [NAME]
//
//===----------------------------------------------------------------------===//

#include "test/templates/FewLayer.h"
#include "test/templates/Timing.h"

#include <random>
#include <set>

using namespace few;

namespace {

std::mt19937 generator(7);
int failures = 0;

std::vector<float> normal(size_t count, double scale, Type type) {
  std::normal_distribution<double> draw(0, scale);
  std::vector<float> values(count);
  for (float &value : values)
    value = rounded(float(draw(generator)), type);
  return values;
}

void writeWeights(const Few &f, Buffer &to, size_t count, double scale) {
  to.make(count * f.weightSize());
  if (!f.scaled())
    return writeFloats(to, normal(count, scale, f.type), f.type);
  std::vector<float> values = normal(count, 40.0, Type::F32);
  std::vector<uint8_t> codes(count);
  for (size_t i = 0; i < count; ++i)
    codes[i] = codeE4m3(roundE4m3(values[i]));
  to.write(codes);
}

void writeScales(Buffer &to, size_t count, double scale) {
  std::vector<float> values(count);
  for (float &value : values)
    value = float(scale * std::ldexp(1.0, int(generator() % 4)) *
                  (1 + generator() % 7 / 8.0));
  to.make(count * 4);
  to.write(values);
}

struct Kernels {
  const Kernel *up, *down;
};

void checkLayer(const Few &f, const Kernels &kernels, int tokens,
                std::string pattern) {
  const bool isGiven = pattern.starts_with("given");
  const Type chosen = takeType(pattern, isGiven ? Type::F32 : f.logitType);
  const Type logitsType = isGiven ? f.logitType : chosen,
             weightsType = isGiven ? chosen : Type::F32;
  Tensors d;
  size_t e = size_t(f.local), h = size_t(f.hidden), i = size_t(f.inter),
         up = size_t(f.up()), m = size_t(tokens), k = size_t(f.topK),
         pairs = m * k;
  writeWeights(f, d.w13, e * up * h, 1 / std::sqrt(double(h)));
  writeWeights(f, d.w2, e * h * i, 1 / std::sqrt(double(i)));
  writeScales(d.s13, e * size_t(f.upScales()),
              1 / (100 * std::sqrt(double(h))));
  writeScales(d.s2, e * size_t(f.downScales()),
              1 / (100 * std::sqrt(double(i))));
  d.b13.make(e * up * sizeOf(f.type));
  d.b2.make(e * h * sizeOf(f.type));
  writeFloats(d.b13, normal(e * up, 0.5, f.type), f.type);
  writeFloats(d.b2, normal(e * h, 0.5, f.type), f.type);
  d.static1.resize(e);
  d.static2.resize(e);
  for (size_t j = 0; j < e; ++j) {
    d.static1[j] = 0.004f + 0.001f * float(j % 5);
    d.static2[j] = 0.003f + 0.001f * float(j % 3);
  }
  d.a1.make(e * 4);
  d.a2.make(e * 4);
  d.a1.write(d.static1);
  d.a2.write(d.static2);
  d.x.make(m * h * sizeOf(f.type));
  std::vector<float> x = normal(m * h, 1.0, f.type);
  writeFloats(d.x, x, f.type);
  d.t.make(pairs * i * (f.scaled() ? 4 : sizeOf(f.type)));
  d.out.make(m * h * sizeOf(f.type));
  d.ids.make(pairs * 4);
  d.weights.make(pairs * 4);
  d.counts.make(e * 4);

  std::vector<float> logits = normal(m * size_t(f.experts), 2.0, logitsType);
  for (size_t j = 0; j < logits.size(); ++j) {
    int expert = int(j) % f.experts;
    static const float kEdges[] = {NAN,   INFINITY, -INFINITY, 0.0f,
                                   -0.0f, 1.0f,     1.0f};
    if (pattern == "one")
      logits[j] = expert < f.topK ? 2.0f - float(expert) : -20.0f;
    if (pattern == "edge")
      logits[j] = kEdges[generator() % 7];
  }
  Buffer devLogits(logits.size() * sizeOf(logitsType)), devIds(pairs * 8),
      devWeights(pairs * 4), devValid(4);
  writeFloats(devLogits, logits, logitsType);
  std::vector<int> ids(pairs, -1);
  std::vector<double> weights(pairs, 0.0);
  Source source;
  int valid = tokens;
  if (isGiven) {
    std::vector<float> own = normal(pairs, 1.0, weightsType);
    std::vector<long long> wide(pairs);
    for (size_t p = 0; p < pairs; ++p) {
      wide[p] = ids[p] = int(generator() % unsigned(f.experts + 1)) - 1;
      weights[p] = own[p];
    }
    if (pattern == "given64")
      devIds.write(wide);
    else
      devIds.write(ids);
    writeFloats(devWeights, own, weightsType);
    source.ids = devIds.at, source.weights = devWeights.at;
    source.weightsType = weightsType;
    if (pattern == "given64")
      source.idCode = kCodeI64;
  } else {
    source.logits = devLogits.at, source.logitsType = logitsType;
    if (pattern == "valid") {
      valid = tokens / 2;
      devValid.write(std::vector<int>{valid});
      source.valid = devValid.at;
    }
    for (int t = 0; t < valid; ++t)
      routeToken(&logits[size_t(t) * size_t(f.experts)], f, &ids[size_t(t) * k],
                 &weights[size_t(t) * k]);
  }
  int grid = f.line.number("grid");
  launchUp(nullptr, f, *kernels.up, d, source, tokens, grid, true);
  launchDown(nullptr, f, *kernels.down, d, source, tokens, grid);
  CHECK_CUDA(cuCtxSynchronize());
  std::vector<int> which(m);
  std::iota(which.begin(), which.end(), 0);
  double error =
      errorOf(f, d, expect(f, d, ids, weights, tokens, valid, which, 1));
  bool right = error <= boundOf(f);
  std::vector<int> counts(e), gotIds = d.ids.read<int>(),
                              gotCounts = d.counts.read<int>();
  std::vector<float> gotWeights = d.weights.read<float>();
  for (size_t p = 0; p < pairs; ++p) {
    right &= gotIds[p] == ids[p] && std::fabs(gotWeights[p] - weights[p]) <=
                                        2e-6 * std::fabs(weights[p]) + 1e-30;
    if (ids[p] >= f.begin && ids[p] < f.begin + f.local)
      ++counts[size_t(ids[p] - f.begin)];
  }
  right &= counts == gotCounts;
  for (const Buffer *b : {&d.t, &d.out, &d.ids, &d.weights, &d.counts})
    right &= b->guardIntact();
  failures += !right;
  if (!right)
    std::printf("%-28s tokens %d %-8s error %.2e FAILED\n",
                f.line.text("name").c_str(), tokens, pattern.c_str(), error);
  d.release();
  for (Buffer *b : {&devLogits, &devIds, &devWeights, &devValid})
    b->release();
}

struct Bench {
  std::map<std::string, Kernel> kernels;
  Timer timer;
  int processors = 0;
  std::string weightsOf;
  Tensors d;
  std::vector<std::string> summary;

  void fill(CUdeviceptr at, size_t count, int type, float scale,
            unsigned seed) {
    Arguments a;
    a.add(at).add((long long)count).add(seed).add(scale).add(type);
    launch(nullptr, kernels.at("fill_fill"), 4096, a, false);
    CHECK_CUDA(cuCtxSynchronize());
  }

  /// All variants of one layer and scheme.
  void time(const std::vector<Few> &variants, int tokens) {
    const Few &f = variants[0];
    size_t e = size_t(f.local), h = size_t(f.hidden), i = size_t(f.inter),
           up = size_t(f.up()), m = size_t(tokens), k = size_t(f.topK),
           pairs = m * k;
    std::string key = f.line.text("model") + f.scheme;
    if (weightsOf != key) {
      d.release();
      weightsOf = key;
      d.w13.make(e * up * h * f.weightSize());
      d.w2.make(e * h * i * f.weightSize());
      int type = f.scaled() ? 3 : 2;
      fill(d.w13.at, e * up * h, type,
           f.scaled() ? 40.0f : 1 / std::sqrt(float(h)), 1);
      fill(d.w2.at, e * h * i, type,
           f.scaled() ? 40.0f : 1 / std::sqrt(float(i)), 2);
      writeScales(d.s13, e * size_t(f.upScales()),
                  1 / (100 * std::sqrt(double(h))));
      writeScales(d.s2, e * size_t(f.downScales()),
                  1 / (100 * std::sqrt(double(i))));
    }
    double expertBytes = double(up * h + h * i) * double(f.weightSize());
    constexpr int kMaxSets = 48;
    double touched = f.local * (1 - std::pow(1 - double(k) / f.experts, m));
    int sets = std::clamp(int(6e8 / (touched * expertBytes)) + 1, 2, kMaxSets);
    std::vector<Buffer> logits(static_cast<size_t>(sets));
    std::vector<std::vector<int>> ids(static_cast<size_t>(sets),
                                      std::vector<int>(pairs));
    std::vector<std::vector<double>> weights(static_cast<size_t>(sets),
                                             std::vector<double>(pairs));
    double used = 0;
    for (size_t s = 0; s < size_t(sets); ++s) {
      std::vector<float> own = normal(m * size_t(f.experts), 1.0, f.logitType);
      logits[s].make(own.size() * sizeOf(f.logitType));
      writeFloats(logits[s], own, f.logitType);
      std::set<int> experts;
      for (size_t t = 0; t < m; ++t) {
        routeToken(&own[t * size_t(f.experts)], f, &ids[s][t * k],
                   &weights[s][t * k]);
        for (size_t j = t * k; j < t * k + k; ++j)
          if (ids[s][j] >= f.begin && ids[s][j] < f.begin + f.local)
            experts.insert(ids[s][j]);
      }
      used += double(experts.size()) / sets;
    }
    d.x.make(m * h * 2);
    fill(d.x.at, m * h, 2, 1.0f, 3);
    d.t.make(pairs * i * 4);
    d.out.make(m * h * 2);
    auto source = [&](int s) {
      Source from;
      from.logits = logits[size_t(s)].at, from.logitsType = f.logitType;
      return from;
    };
    Expected expected =
        expect(f, d, ids[size_t(sets) - 1], weights[size_t(sets) - 1], tokens,
               tokens, {tokens - 1}, std::max(1, f.hidden / 128));
    double floor =
        (used * expertBytes + double(m) * (4.0 * h + 2.0 * f.experts)) /
        3150e9 * 1e6;
    double best = 1e30;
    std::string bestName;
    for (const Few &v : variants) {
      const Kernel &a = kernels.at(v.line.text("up"));
      const Kernel &b = kernels.at(v.line.text("down"));
      int gridA = processors * a.line.number("ctas");
      int gridB = processors * b.line.number("ctas");
      CHECK_CUDA(cuMemsetD8(d.out.at, 0xFF, d.out.bytes));
      constexpr int kWarmups = 4, kRepeats = 20;
      double both = timer.median(
          [&] {
            for (int s = 0; s < sets; ++s) {
              launchUp(timer.stream, v, a, d, source(s), tokens, gridA, false);
              launchDown(timer.stream, v, b, d, source(s), tokens, gridB);
            }
          },
          kWarmups, kRepeats);
      double error = errorOf(v, d, expected);
      bool right = error <= boundOf(v);
      failures += !right;
      double first = timer.median(
          [&] {
            for (int s = 0; s < sets; ++s)
              launchUp(timer.stream, v, a, d, source(s), tokens, gridA, false);
          },
          kWarmups, kRepeats);
      double second = timer.median(
          [&] {
            for (int s = 0; s < sets; ++s)
              launchDown(timer.stream, v, b, d, source(s), tokens, gridB);
          },
          kWarmups, kRepeats);
      both /= sets;
      std::printf("%-14s %-11s M %d %-26s %7.1f us x%.2f | gate_up %6.1f down "
                  "%6.1f error %.1e%s\n",
                  v.line.text("model").c_str(), v.scheme.c_str(), tokens,
                  v.line.text("variant").c_str(), both, both / floor,
                  first / sets, second / sets, error, right ? "" : " FAILED");
      std::fflush(stdout);
      if (both < best) {
        best = both;
        bestName = v.line.text("variant");
      }
    }
    char text[200];
    std::snprintf(text, sizeof text, "%s %s %d floor %.1f best %.1f x%.2f %s",
                  f.line.text("model").c_str(), f.scheme.c_str(), tokens, floor,
                  best, best / floor, bestName.c_str());
    summary.push_back(text);
    for (Buffer &b : logits)
      b.release();
    for (Buffer *b : {&d.x, &d.t, &d.out})
      b->release();
  }
};

} // namespace

int main(int count, char **arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s FOLDER check|time [NAME]\n", arguments[0]);
    return 2;
  }
  std::string folder = arguments[1], what = arguments[2];
  std::string part = count > 3 ? arguments[3] : "";
  Bench bench;
  bench.processors = openGpu();
  std::vector<std::vector<Few>> timed;
  int cells = 0;
  for (const Line &line : readPlan(folder + "/plan.txt")) {
    if (line.verb == "kernel" &&
        (line.text("kind") == "fill" ||
         (line.text("kind") == "few" &&
          (what != "check" ||
           line.text("id").find(part) != std::string::npos))))
      bench.kernels[line.text("id")] = loadKernel(line, folder);
    if (line.verb != "few" || (what == "check") != line.number("check") ||
        line.text("name").find(part) == std::string::npos)
      continue;
    Few f(line);
    if (what == "check") {
      for (const std::string &tokens : line.list("tokens"))
        for (const std::string &pattern : line.list("patterns")) {
          checkLayer(f,
                     {&bench.kernels.at(line.text("up")),
                      &bench.kernels.at(line.text("down"))},
                     numberIn(tokens), pattern);
          ++cells;
        }
      continue;
    }
    if (timed.empty() || timed.back()[0].line.text("name") != line.text("name"))
      timed.emplace_back();
    timed.back().push_back(f);
  }
  for (const std::vector<Few> &variants : timed)
    for (const std::string &tokens : variants[0].line.list("tokens"))
      bench.time(variants, numberIn(tokens));
  for (const std::string &text : bench.summary)
    std::printf("%s\n", text.c_str());
  if (what == "check")
    std::printf("%d cells, %d failures\n", cells, failures);
  return failures != 0;
}
