//===- FuzzWeights.cpp - checkpoints into the values of a layer -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is {"layer": what a manifest says of its layer, "values": the
// manifest's values, "files": {name: header or index}, "quantize", "number"}.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Arguments.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/weights/LoadWeights.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sys/stat.h>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

/// A file whose header fits: the bytes behind it are as many as it says.
static std::string fileOf(const json &header) {
  const std::string text = header.dump();
  std::string file;
  for (size_t i = 0; i < 8; ++i)
    file += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  uint64_t end = 0;
  for (const auto &tensor : header)
    if (tensor.is_object())
      if (auto offsets = tensor.find("data_offsets");
          offsets != tensor.end() && offsets->is_array())
        for (const json &offset : *offsets)
          if (offset.is_number_unsigned())
            end = std::max(end, offset.get<uint64_t>());
  constexpr uint64_t kMostBytes = 1 << 20;
  file += text;
  // All values of a byte, made once.
  static const std::string bytes = [] {
    std::string made(kMostBytes, '\0');
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<char>(i * 37);
    return made;
  }();
  file.append(bytes, 0, std::min(end, kMostBytes));
  return file;
}

static void load(WeightLoader &loader, const Value &value) {
  constexpr int64_t kMostBytes = 1 << 20;
  Result<int64_t> bytes = valueBytes(value, Symbols());
  if (!bytes || *bytes > kMostBytes)
    return;
  // Exactly as many, so that the sanitizer sees a byte too far.
  std::vector<std::byte> to(static_cast<size_t>(*bytes));
  if (Result<void> done = loader.load(value, to); !done)
    fuzz::requireRefusal(done.error());
}

/// Whether a valid manifest may say it: known types, and no strides or one for
/// each extent.
static bool isValid(const Value &value) {
  return !value.elementTypes.empty() &&
         (value.strides.empty() ||
          value.strides.size() == value.shape.size()) &&
         std::all_of(value.elementTypes.begin(), value.elementTypes.end(),
                     [](const std::string &type) {
                       return findElementType(type) != nullptr;
                     });
}

/// Values as a manifest has them, after its checks of a value.
static std::vector<Value> valuesOf(const json &values) {
  json manifest = {{"moec_manifest", kManifestVersion},
                   {"name", "m"},
                   {"compiler", "c"},
                   {"max_tokens", 64},
                   {"rows", "tokens"},
                   {"ranks", json::array()},
                   {"layer", json::object()},
                   {"values", values},
                   {"one_of", json::array()},
                   {"targets", json::array()},
                   {"files", json::object()}};
  Result<Manifest> read = fromJson(manifest.dump());
  std::vector<Value> stored;
  if (read)
    for (Value &value : read->values)
      if (value.role == ValueRole::StoredWeight && isValid(value))
        stored.push_back(std::move(value));
  return stored;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json input = json::parse(fuzz::textOf(data, size), nullptr, false);
  constexpr size_t kMostFiles = 6;
  if (!input.is_object() || !input["files"].is_object() ||
      input["files"].size() > kMostFiles || !input["layer"].is_object())
    return 0;
  const std::string folder = fuzz::scratchFolder() + "/checkpoint";
  ::mkdir(folder.c_str(), 0700);
  for (const auto &[name, content] : input["files"].items())
    if (isContainedPath(name) && name.find('/') == std::string::npos)
      fuzz::writeFile(joinPath(folder, name), name.ends_with(".json")
                                                  ? content.dump()
                                                  : fileOf(content));
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint) {
    fuzz::requireRefusal(checkpoint.error());
  } else {
    const json &number = input["number"];
    LoadOptions options;
    options.layer = number.is_number_integer() ? number.get<int64_t>() : -1;
    options.quantize = input["quantize"] == true;
    options.noSharedExperts = input["no_shared_experts"] == true;
    Manifest manifest;
    *manifest.layer = input["layer"];
    manifest.values = valuesOf(input["values"]);
    Result<WeightLoader> loader =
        WeightLoader::create(*checkpoint, manifest, options);
    if (!loader)
      fuzz::requireRefusal(loader.error());
    else
      for (const Value &value : manifest.values)
        load(*loader, value);
  }
  (void)static_cast<bool>(removeAll(folder));
  return 0;
}
