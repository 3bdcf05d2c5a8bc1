//===- Data.cpp - weights and inputs of a run -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Filled by all cores; what is filled depends on seed and position alone.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Data.h"

#include "runtime/support/Sha256.h"
#include "test/reference/Check.h"
#include "test/reference/TestData.h"

#include <fmt/format.h>

using namespace moec;
using namespace moec::run;
using reference::Element;
using reference::Layer;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static std::string weightOfNumber(size_t number) {
  return std::string("activation_") + reference::kActivationNumbers[number];
}

HostWeights HostWeights::make(const Layer &layer, uint64_t seed) {
  HostWeights result;
  using Fill =
      void (*)(const Layer &, uint64_t, int64_t, int64_t, int64_t, void *);
  auto makeFor = [&](int64_t experts, const char *name, int64_t rows,
                     int64_t columns, const Element &element, Fill fill) {
    int64_t rowBytes = element.bytesOf(columns);
    HostArray array(experts * rows * rowBytes);
    std::byte *data = array.data.get();
    reference::parallelFor(experts * rows, 0, [&](int64_t first, int64_t last) {
      // A thread's rows may span experts.
      for (int64_t row = first; row < last;) {
        int64_t expert = row / rows;
        int64_t end = std::min(last, (expert + 1) * rows);
        fill(layer, seed, expert, row % rows, end - row, data + row * rowBytes);
        row = end;
      }
    });
    result.arrays.emplace(name, std::move(array));
  };
  auto make = [&](const char *name, int64_t rows, int64_t columns,
                  const Element &element, Fill fill) {
    makeFor(layer.localExperts, name, rows, columns, element, fill);
  };
  make("w13", layer.gateUpRows(), layer.hidden, *layer.weightType,
       reference::fillW13);
  make("w2", layer.hidden, layer.intermediate, *layer.weightType,
       reference::fillW2);
  if (layer.hasBias) {
    make("b13", layer.gateUpRows(), 1, *layer.inputType, reference::fillB13);
    make("b2", layer.hidden, 1, *layer.inputType, reference::fillB2);
  }
  const Element &f32 = *reference::findElement("f32");
  if (layer.w1Scaling.given)
    make("w13_scale", layer.w13ScaleRows(), layer.w13ScaleColumns(),
         *layer.w1Scaling.scaleType, reference::fillW13Scale);
  if (layer.w2Scaling.given)
    make("w2_scale", layer.w2ScaleRows(), layer.w2ScaleColumns(),
         *layer.w2Scaling.scaleType, reference::fillW2Scale);
  if (layer.w1Scaling.second)
    make("w13_second_scale", layer.gated ? 2 : 1, 1, f32,
         reference::fillW13SecondScale);
  if (layer.w2Scaling.second)
    make("w2_second_scale", 1, 1, f32, reference::fillW2SecondScale);
  const Element &i8 = *reference::findElement("i8");
  if (layer.w1Scaling.zeroPoint)
    make("w13_zero_point", layer.w13ScaleRows(), layer.w13ScaleColumns(), i8,
         reference::fillW13ZeroPoint);
  if (layer.w2Scaling.zeroPoint)
    make("w2_zero_point", layer.w2ScaleRows(), layer.w2ScaleColumns(), i8,
         reference::fillW2ZeroPoint);
  if (layer.a1Scaling.storesNumber() && !layer.inputQuantized)
    makeFor(1, layer.a1Scaling.dynamic ? "a1_second_scale" : "a1_scale",
            layer.storedExperts(), 1, f32, reference::fillA1Scale);
  if (layer.a2Scaling.storesNumber())
    makeFor(1, layer.a2Scaling.dynamic ? "a2_second_scale" : "a2_scale",
            layer.storedExperts(), 1, f32, reference::fillA2Scale);
  if (layer.routingBias)
    makeFor(1, "routing_bias", layer.routedExperts(), 1, f32,
            reference::fillRoutingBias);
  if (layer.expertScale)
    makeFor(1, "per_expert_scale", layer.routedExperts(), 1, f32,
            reference::fillPerExpertScale);
  for (size_t i = 0; i < layer.ofExperts.size(); ++i) {
    if (!layer.ofExperts[i])
      continue;
    HostArray array(layer.localExperts * 4);
    reference::fillNumbers(layer, seed, i,
                           reinterpret_cast<float *>(array.data.get()));
    result.arrays.emplace(weightOfNumber(i), std::move(array));
  }
  if (layer.tableRows)
    makeFor(1, "hash_table", layer.tableRows, layer.topK,
            *reference::findElement("i32"), reference::fillHashTable);
  return result;
}

Result<HostWeights> HostWeights::load(const runtime::Package &package,
                                      weights::WeightLoader &loader) {
  HostWeights result;
  const Manifest &manifest = package.manifest();
  auto symbols = symbolsFor(manifest, 1, package.smCount());
  if (!symbols)
    return symbols.takeError();
  for (const Value &value : manifest.values) {
    if (value.role != ValueRole::StoredWeight)
      continue;
    auto bytes = valueBytes(value, *symbols);
    if (!bytes)
      return bytes.takeError();
    HostArray array(*bytes);
    if (auto ok = loader.load(
            value, {array.data.get(), static_cast<size_t>(array.bytes)});
        !ok)
      return ok.takeError();
    result.arrays.emplace(value.name, std::move(array));
  }
  return result;
}

std::map<std::string, std::string> HostWeights::digests() const {
  std::map<std::string, std::string> result;
  for (const auto &[name, array] : arrays)
    result[name] = sha256({reinterpret_cast<const char *>(array.data.get()),
                           static_cast<size_t>(array.bytes)});
  return result;
}

void HostWeights::describe(const Layer &layer,
                           reference::Inputs &inputs) const {
  auto point = [&](const char *name, const Element *element,
                   reference::Weight &weight) {
    if (auto it = arrays.find(name); it != arrays.end())
      weight = {it->second.data.get(), element, nullptr};
  };
  point("w13", layer.weightType, inputs.w13);
  point("w2", layer.weightType, inputs.w2);
  point("b13", layer.inputType, inputs.b13);
  point("b2", layer.inputType, inputs.b2);
  const Element *f32 = reference::findElement("f32");
  point("w13_scale", layer.w1Scaling.scaleType, inputs.w13Scale);
  point("w2_scale", layer.w2Scaling.scaleType, inputs.w2Scale);
  point("w13_second_scale", f32, inputs.w13SecondScale);
  point("w2_second_scale", f32, inputs.w2SecondScale);
  const Element *i8 = reference::findElement("i8");
  point("w13_zero_point", i8, inputs.w13ZeroPoint);
  point("w2_zero_point", i8, inputs.w2ZeroPoint);
  point("a1_scale", f32, inputs.a1Scale);
  point("a2_scale", f32, inputs.a2Scale);
  point("a1_second_scale", f32, inputs.a1Scale);
  point("a2_second_scale", f32, inputs.a2Scale);
  auto see = [&](const char *name, const char *element,
                 reference::Matrix &matrix) {
    if (auto it = arrays.find(name); it != arrays.end())
      matrix = {it->second.data.get(), reference::findElement(element), 0};
  };
  see("routing_bias", "f32", inputs.routingBias);
  see("per_expert_scale", "f32", inputs.expertScale);
  see("hash_table", "i32", inputs.hashTable);
  for (size_t i = 0; i < inputs.numbers.size(); ++i)
    see(weightOfNumber(i).c_str(), "f32", inputs.numbers[i]);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

Result<HostInputs> moec::run::makeInputs(const Layer &layer,
                                         const Options &options, int64_t slots,
                                         const std::string &pattern) {
  HostInputs inputs;
  reference::Inputs &described = inputs.described;
  const int64_t tokens = layer.rowsOf(slots);
  if (layer.batched)
    described.expertCounts =
        reference::makeExpertCounts(layer, options.seed, pattern, slots);
  described.tokens = tokens;
  int64_t stride = layer.hidden + options.rowStride;
  const Element *type = layer.inputQuantized ? layer.a1 : layer.inputType;
  inputs.x = HostArray(tokens * stride * type->bytes);
  // What lies between rows must not matter.
  reference::poison(inputs.x.data.get(), inputs.x.bytes);
  if (layer.inputQuantized) {
    const int64_t group = layer.a1Scaling.columns;
    const int64_t groups = group == -1 ? 1 : (layer.hidden + group - 1) / group;
    inputs.xScale = HostArray(std::max<int64_t>(tokens, 1) * groups * 4);
    described.xScale = {inputs.xScale.data.get(), reference::findElement("f32"),
                        0};
    reference::fillQuantizedX(
        layer, options.seed, 0, tokens, inputs.x.data.get(), stride,
        reinterpret_cast<float *>(inputs.xScale.data.get()));
  } else {
    reference::parallelFor(tokens, 0, [&](int64_t first, int64_t last) {
      reference::fillX(layer, options.seed, first, last - first,
                       inputs.x.data.get(), stride);
    });
  }
  reference::fillMaps(layer, options.seed, described);
  if (layer.sharedGate) {
    inputs.sharedGate = HostArray(tokens * layer.logitsType->bytes);
    described.sharedGate = {inputs.sharedGate.data.get(), layer.logitsType, 0};
    for (int64_t token = 0; token < tokens; ++token)
      reference::store(*layer.logitsType, inputs.sharedGate.data.get(), token,
                       reference::randomNormal(options.seed,
                                               reference::Stream::SharedGate,
                                               uint64_t(token)));
  }
  // Tokens that are not valid, and slots that are not taken, are larger than
  // all others: a scale that took them for its maximum would be another.
  constexpr double kInvalid = 10000;
  for (int64_t token = 0; token < tokens; ++token) {
    if (reference::isRow(layer, described, token) &&
        (options.validTokens < 0 || token < options.validTokens))
      continue;
    for (int64_t c = 0; c < layer.hidden; ++c)
      reference::store(*type, inputs.x.data.get(), token * stride + c,
                       kInvalid);
  }
  described.x = {inputs.x.data.get(), type, stride};
  if (layer.batched)
    return inputs;

  const bool given = layer.select == "given";
  if (options.inputs == RoutingInput::Logits && !given) {
    inputs.logits =
        HostArray(tokens * layer.routedExperts() * layer.logitsType->bytes);
    if (auto ok = reference::fillLogits(layer, options.seed, pattern, 0, tokens,
                                        inputs.logits.data.get());
        !ok)
      return ok.takeError();
    described.logits = {inputs.logits.data.get(), layer.logitsType, 0};
    if (layer.tableRows) {
      inputs.tokenIds = HostArray(tokens * int64_t(sizeof(int32_t)));
      reference::fillTokenIds(
          layer, options.seed, 0, tokens,
          reinterpret_cast<int32_t *>(inputs.tokenIds.data.get()));
      described.tokenIds = {inputs.tokenIds.data.get(),
                            reference::findElement("i32"), 0};
    }
  } else {
    const Element *element = reference::findElement(
        options.inputs == RoutingInput::Ids64 ? "i64" : "i32");
    inputs.ids = HostArray(tokens * layer.topK * element->bytes);
    inputs.weights = HostArray(tokens * layer.topK * 4);
    reference::fillGiven(layer, options.seed, 0, tokens, *element,
                         inputs.ids.data.get(),
                         reinterpret_cast<float *>(inputs.weights.data.get()));
    described.givenIds = {inputs.ids.data.get(), element, 0};
    described.givenWeights = {inputs.weights.data.get(),
                              reference::findElement("f32"), 0};
  }
  if (layer.lora) {
    const int64_t pairs = tokens * layer.pairsOfToken();
    const Element &element = *layer.inputType;
    inputs.gateUpAddend = HostArray(pairs * layer.gateUpRows() * element.bytes);
    inputs.downAddend = HostArray(pairs * layer.hidden * element.bytes);
    reference::parallelFor(pairs, 0, [&](int64_t first, int64_t last) {
      reference::fillAddends(layer, options.seed, first, last - first,
                             inputs.gateUpAddend.data.get(),
                             inputs.downAddend.data.get());
    });
    described.gateUpAddend = {inputs.gateUpAddend.data.get(), &element, 0};
    described.downAddend = {inputs.downAddend.data.get(), &element, 0};
  }
  if (layer.residual) {
    inputs.residual =
        HostArray(tokens * layer.hidden * layer.outputType->bytes);
    reference::fillResidual(layer, options.seed, 0, tokens,
                            inputs.residual.data.get());
    described.residual = {inputs.residual.data.get(), layer.outputType, 0};
  }
  if (options.validTokens >= 0) {
    inputs.validTokens = static_cast<int32_t>(options.validTokens);
    described.validTokens = options.validTokens;
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// Guarded memory
//===----------------------------------------------------------------------===//

Result<Guarded> Guarded::create(Machine &machine, int64_t bytes, uint64_t seed,
                                bool poison) {
  Guarded result;
  result.machine = &machine;
  result.size = bytes;
  result.seed = seed;
  auto memory = machine.allocate(bytes + 2 * reference::kCanaryBytes);
  if (!memory)
    return memory.takeError();
  result.memory = std::move(*memory);
  HostArray canary(reference::kCanaryBytes);
  reference::writeCanary(canary.data.get(), canary.bytes, seed);
  auto *base = static_cast<std::byte *>(result.memory.address());
  for (std::byte *at : {base, base + reference::kCanaryBytes + bytes})
    if (auto ok = machine.upload(at, canary.data.get(), canary.bytes); !ok)
      return ok.takeError();
  if (poison)
    if (auto ok = result.refill(); !ok)
      return ok.takeError();
  return result;
}

void *Guarded::address() const {
  return static_cast<std::byte *>(memory.address()) + reference::kCanaryBytes;
}

Result<void> Guarded::refill(int byte) {
  return machine->fill(address(), byte, size);
}

Result<std::string> Guarded::damage() const {
  auto *base = static_cast<std::byte *>(memory.address());
  HostArray canary(reference::kCanaryBytes);
  for (bool behind : {false, true}) {
    auto *at = behind ? base + reference::kCanaryBytes + size : base;
    if (auto ok = machine->download(canary.data.get(), at, canary.bytes); !ok)
      return ok.takeError();
    if (int64_t offset =
            reference::findDamage(canary.data.get(), canary.bytes, seed);
        offset >= 0)
      return fmt::format("a byte was written {} bytes {}",
                         behind ? offset : reference::kCanaryBytes - offset,
                         behind ? "behind its end" : "before its begin");
  }
  return std::string();
}

Result<HostArray> Guarded::download() const {
  HostArray result(size);
  if (auto ok = machine->download(result.data.get(), address(), size); !ok)
    return ok.takeError();
  return result;
}
