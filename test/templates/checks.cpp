//===- checks.cpp - every kernel against plain loops ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs whole small layers of a plan through their cubins and compares each step
// with double loops on the host: ids, weights, the sorted order, the output.
//
//   templates-checks FOLDER [TOKENS [NAME]]   FOLDER/plan.txt and its cubins;
//                          TOKENS limits the token counts, NAME is part of the
//                          checks' names (for the sanitizers)
//
//===----------------------------------------------------------------------===//

#include "test/templates/Routing.h"

using namespace harness;

namespace {

std::mt19937 generator(12345);
int failures = 0;

void fail(const std::string &where, const char *what, double got,
          double limit) {
  std::printf("FAILED %s: %s %g, limit %g\n", where.c_str(), what, got, limit);
  ++failures;
}

std::vector<float> normal(size_t count, double scale, Type type) {
  std::normal_distribution<float> distribution(0.0f, float(scale));
  std::vector<float> values(count);
  for (float &value : values)
    value = rounded(distribution(generator), type);
  return values;
}

double activationOf(const std::string &name, double x) {
  if (name == "silu")
    return x / (1 + std::exp(-x));
  if (name == "gelu")
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Weights {
  std::vector<float> w13, w2, b13, b2;
  Buffer dev13, dev2, devB13, devB2;
  Weights(const Shape &s)
      : w13(normal(size_t(s.local) * s.up() * s.hidden, 1 / std::sqrt(s.hidden),
                   s.type)),
        w2(normal(size_t(s.local) * s.hidden * s.inter, 1 / std::sqrt(s.inter),
                  s.type)),
        b13(normal(size_t(s.local) * s.up(), 0.5, s.type)),
        b2(normal(size_t(s.local) * s.hidden, 0.5, s.type)) {
    size_t size = sizeOf(s.type);
    dev13.make(w13.size() * size);
    dev2.make(w2.size() * size);
    devB13.make(b13.size() * size);
    devB2.make(b2.size() * size);
    // Gate and up rows interleaved by 8, as packed.
    std::vector<float> packed(w13);
    if (s.gated)
      for (int e = 0; e < s.local; ++e)
        for (int r = 0; r < s.up(); ++r) {
          int stored = r % 16 < 8 ? r / 16 * 8 + r % 16
                                  : s.inter + r / 16 * 8 + r % 16 - 8;
          std::copy_n(&w13[(size_t(e) * s.up() + stored) * s.hidden], s.hidden,
                      &packed[(size_t(e) * s.up() + r) * s.hidden]);
        }
    writeFloats(dev13, packed, s.type);
    writeFloats(dev2, w2, s.type);
    writeFloats(devB13, b13, s.type);
    writeFloats(devB2, b2, s.type);
  }
  void release() {
    for (Buffer *b : {&dev13, &dev2, &devB13, &devB2})
      b->release();
  }
};

/// Compares the whole sorted order.
void checkOrder(const std::string &where, const Shape &s, const Workspace &w,
                const std::vector<int> &ids, int tileRows, int rowStep) {
  std::string wrong = wrongOrder(s, w, ids, tileRows, rowStep);
  if (!wrong.empty()) {
    std::printf("%s\n", wrong.c_str());
    fail(where, "order", 0, 0);
  }
}

void runLayer(const Line &line, const Roles &roles, const Weights &weights,
              int tokens, std::string pattern) {
  Shape s(line);
  std::string where =
      line.text("name") + " tokens " + std::to_string(tokens) + " " + pattern;
  const bool isGiven = pattern.starts_with("given");
  const Type chosen = takeType(pattern, isGiven ? Type::F32 : s.logits);
  const Type weightsType = isGiven ? chosen : Type::F32;
  if (!isGiven)
    s.logits = chosen;
  int blockTokens = roles.route->line.number("block");
  int tileRows = line.number("tilerows");
  int rowStep = line.number("rowstep", tileRows);
  Workspace w(s, tokens, blockTokens, tileRows);
  size_t pairs = size_t(tokens) * s.topK, size = sizeOf(s.type);
  int stride = s.hidden + 8;
  std::vector<float> x = normal(size_t(tokens) * stride, 1.0, s.type);
  Buffer devX(x.size() * size);
  writeFloats(devX, x, s.type);

  std::vector<float> logits = normal(size_t(tokens) * s.experts, 2.0, s.logits);
  for (int m = 0; m < tokens; ++m)
    for (int e = 0; e < s.experts; ++e) {
      float &logit = logits[size_t(m) * s.experts + e];
      if (pattern == "one")
        logit = e < s.topK ? 20.0f - e : -20.0f;
      if (pattern == "edge") {
        static const float kEdges[] = {NAN,   INFINITY, -INFINITY, 0.0f,
                                       -0.0f, 1.0f,     1.0f};
        if (m % 3 == 0 || generator() % 3)
          logit = kEdges[generator() % (m % 5 == 0 ? 3 : 7)];
      }
    }
  Buffer devLogits(logits.size() * sizeOf(s.logits));
  writeFloats(devLogits, logits, s.logits);
  std::vector<int> ids(pairs, -1);
  std::vector<double> routed(pairs, 0.0);
  Given given;
  Buffer devIds(pairs * 8), devWeights(pairs * 4), devValid(4);
  int valid = tokens;
  if (isGiven) {
    std::vector<float> own = normal(pairs, 1.0, weightsType);
    std::vector<long long> wide(pairs);
    std::vector<int> narrow(pairs);
    for (size_t p = 0; p < pairs; ++p) {
      narrow[p] = int(generator() % (s.experts + 1)) - 1;
      wide[p] = ids[p] = narrow[p];
      routed[p] = own[p];
    }
    if (pattern == "given64")
      devIds.write(wide);
    else
      devIds.write(narrow);
    writeFloats(devWeights, own, weightsType);
    given.ids = devIds.at, given.weights = devWeights.at;
    given.weightsType = weightsType;
    if (pattern == "given64")
      given.idCode = kCodeI64;
  } else {
    given.logits = devLogits.at, given.logitsType = s.logits;
    if (pattern == "valid") {
      valid = tokens / 2;
      devValid.write(std::vector<int>{valid});
      given.valid = devValid.at;
    }
    for (int m = 0; m < valid; ++m)
      routeToken(&logits[size_t(m) * s.experts], s, roles.route->line,
                 &ids[size_t(m) * s.topK], &routed[size_t(m) * s.topK]);
  }

  Buffer t(pairs * s.inter * size), y(pairs * s.hidden * sizeOf(s.partial)),
      h(roles.activate ? pairs * s.up() * 4 : 4),
      out(size_t(tokens) * s.hidden * size);
  launchRouting(nullptr, roles, w, given, true, true);
  launchMatmul(nullptr, *roles.gateUp, w, devX.at, stride, weights.dev13.at,
               weights.devB13.at, roles.activate ? h.at : t.at, true);
  if (roles.activate) {
    Arguments a;
    a.add(h.at).add(w.offsets.at).add(t.at);
    launch(nullptr, *roles.activate, (long long)pairs, a, true);
  }
  launchMatmul(nullptr, *roles.down, w, t.at, s.inter, weights.dev2.at,
               weights.devB2.at, y.at, true);
  launchCombine(nullptr, *roles.combine, w, y.at, out.at, true);
  CHECK_CUDA(cuCtxSynchronize());

  std::vector<int> gotIds = w.ids.read<int>(), shown = w.shownIds.read<int>();
  std::vector<float> gotWeights = w.weights.read<float>(),
                     shownWeights = w.shownWeights.read<float>();
  for (size_t p = 0; p < pairs; ++p) {
    if (gotIds[p] != ids[p] || shown[p] != ids[p])
      return fail(where, "ids", gotIds[p], ids[p]);
    double error = std::fabs(gotWeights[p] - routed[p]);
    if (!(error <= 2e-6 * std::fabs(routed[p]) + 1e-30) ||
        gotWeights[p] != shownWeights[p])
      return fail(where, "weights", gotWeights[p], routed[p]);
  }
  checkOrder(where, s, w, ids, tileRows, rowStep);
  if (!w.guards() || !t.guardIntact() || !y.guardIntact() || !h.guardIntact() ||
      !out.guardIntact())
    fail(where, "guards", 0, 0);

  double bound = s.type == Type::F32   ? 1e-5
                 : s.type == Type::F16 ? 4e-4
                                       : 2.5e-3;
  if (s.partial != Type::F32 && s.type != Type::F32)
    bound *= 1.2;
  std::vector<float> got =
      readFloats(out.at, size_t(tokens) * s.hidden, s.type);
  const std::string &function = line.text("act");
  double errors = 0, norms = 0, worstRow = 0, worstElement = 0;
  std::vector<double> sum(s.hidden), hidden(s.up()), middle(s.inter);
  for (int m = 0; m < tokens; ++m) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int k = 0; k < s.topK; ++k) {
      int e = ids[size_t(m) * s.topK + k] - s.begin;
      if (ids[size_t(m) * s.topK + k] < 0 || e < 0 || e >= s.local)
        continue;
      for (int n = 0; n < s.up(); ++n) {
        const float *row = &weights.w13[(size_t(e) * s.up() + n) * s.hidden];
        double value = s.bias ? weights.b13[size_t(e) * s.up() + n] : 0;
        for (int i = 0; i < s.hidden; ++i)
          value += double(x[size_t(m) * stride + i]) * row[i];
        hidden[n] = value;
      }
      for (int i = 0; i < s.inter; ++i)
        middle[i] = rounded(float(s.gated ? activationOf(function, hidden[i]) *
                                                hidden[s.inter + i]
                                          : activationOf(function, hidden[i])),
                            s.type);
      for (int n = 0; n < s.hidden; ++n) {
        const float *row = &weights.w2[(size_t(e) * s.hidden + n) * s.inter];
        double value = s.bias ? weights.b2[size_t(e) * s.hidden + n] : 0;
        for (int i = 0; i < s.inter; ++i)
          value += middle[i] * row[i];
        sum[n] += routed[size_t(m) * s.topK + k] * value;
      }
    }
    double error = 0, norm = 0;
    for (int n = 0; n < s.hidden; ++n) {
      double difference = got[size_t(m) * s.hidden + n] - sum[n];
      error += difference * difference;
      norm += sum[n] * sum[n];
    }
    double rms = std::sqrt(norm / s.hidden);
    for (int n = 0; n < s.hidden; ++n) {
      double difference = std::fabs(got[size_t(m) * s.hidden + n] - sum[n]);
      double ratio = difference / std::max(std::fabs(sum[n]), rms);
      if (difference != 0)
        worstElement =
            ratio > worstElement || std::isnan(ratio) ? ratio : worstElement;
    }
    errors += error;
    norms += norm;
    if (error != 0)
      worstRow = std::sqrt(error / norm) > worstRow || std::isnan(error)
                     ? std::sqrt(error / norm)
                     : worstRow;
  }
  double whole = errors == 0 ? 0 : std::sqrt(errors / norms);
  if (!(whole <= bound))
    fail(where, "whole error", whole, bound);
  if (!(worstRow <= 2.5 * bound))
    fail(where, "row error", worstRow, 2.5 * bound);
  if (!(worstElement <= 16 * bound))
    fail(where, "element error", worstElement, 16 * bound);
  std::printf("%-44s whole %.2e row %.2e element %.2e\n", where.c_str(), whole,
              worstRow, worstElement);
  w.release();
  for (Buffer *b :
       {&devX, &devLogits, &devIds, &devWeights, &devValid, &t, &y, &h, &out})
    b->release();
}

/// Packs experts 1..2 of 4 through the scratch buffer.
void runPack(const Kernel &copy, const Kernel &interleave) {
  int rows = copy.line.number("rows"), columns = copy.line.number("columns");
  size_t each = size_t(rows) * columns;
  std::vector<uint16_t> stored(4 * each);
  for (uint16_t &bits : stored)
    bits = uint16_t(generator());
  Buffer source(stored.size() * 2), scratch(2 * each * 2), packed(4 * each * 2);
  source.write(stored);
  int perCta = copy.line.number("chunk");
  long long grid = ceilDiv((long long)each * 4, perCta);
  Arguments a, b;
  a.add(source.at).add(scratch.at).add(1).add(2);
  b.add(scratch.at).add(packed.at).add(1).add(2);
  launch(nullptr, copy, grid, a, false);
  launch(nullptr, interleave, grid, b, false);
  CHECK_CUDA(cuCtxSynchronize());
  std::vector<uint16_t> got = packed.read<uint16_t>();
  size_t wrong = 0;
  for (int e = 0; e < 4; ++e)
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        int from = r % 16 < 8 ? r / 16 * 8 + r % 16
                              : rows / 2 + r / 16 * 8 + r % 16 - 8;
        uint16_t expected =
            e == 1 || e == 2 ? stored[(size_t(e) * rows + from) * columns + c]
                             : 0xFFFF;
        wrong += got[(size_t(e) * rows + r) * columns + c] != expected;
      }
  if (wrong || !scratch.guardIntact() || !packed.guardIntact())
    fail("pack", "wrong elements", double(wrong), 0);
  std::printf("pack %d x %d: %zu wrong\n", rows, columns, wrong);
}

} // namespace

int main(int count, char **arguments) {
  if (count < 2)
    return 2;
  std::string folder = arguments[1];
  int limit = count > 2 ? numberIn(arguments[2]) : 1 << 30;
  std::string part = count > 3 ? arguments[3] : "";
  openGpu();
  std::map<std::string, Kernel> kernels;
  auto find = [&](const Line &line, const char *role) -> const Kernel * {
    auto word = line.words.find(role);
    return word == line.words.end() ? nullptr : &kernels.at(word->second);
  };
  for (const Line &line : readPlan(folder + "/plan.txt")) {
    if (line.verb == "kernel" && !line.number("timing", 0))
      kernels[line.text("id")] = loadKernel(line, folder);
    if (line.verb == "pack")
      runPack(*find(line, "copy"), *find(line, "interleave"));
    if (line.verb != "check" ||
        line.text("name").find(part) == std::string::npos)
      continue;
    Shape shape(line);
    Weights weights(shape);
    for (const std::string &tokens : line.list("tokens"))
      for (const std::string &pattern : line.list("patterns")) {
        int m = numberIn(tokens);
        if (m > limit)
          continue;
        Roles roles{find(line, m <= 64 ? "fused" : "route"),
                    find(line, "permute"),
                    find(line, "gateup"),
                    find(line, "activate"),
                    find(line, "down"),
                    find(line, "combine")};
        runLayer(line, roles, weights, m, pattern);
      }
    weights.release();
  }
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
