//===- ConfigReader.h - reads a layer from config.json ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts the keys of a model's family to a LayerDescription. ConfigReader.cpp
// finds keys and reads their values, ConfigRouting.cpp reads the router, and
// HuggingFace.cpp reads the rest.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_CONFIGREADER_H
#define MOEC_COMPILER_IMPORT_CONFIGREADER_H

#include "compiler/import/FindFamily.h"
#include "compiler/import/Formats.h"
#include "compiler/import/QuantizationReaders.h"
#include "compiler/import/SparseLayers.h"

#include <nlohmann/json_fwd.hpp>

namespace moec::compiler {

/// Returns a config value as JSON text for the layer's origin. Long values are
/// shortened.
std::string shownInOrigin(const nlohmann::json &value);

/// Reads one layer of a config whose family is known. Errors are added to the
/// reader's JsonErrors.
class ConfigReader {
public:
  ConfigReader(JsonReader config, const FoundFamily &found,
               const ImportOptions &options, LayerOrigin &origin)
      : outer(std::move(config)), family(*found.row), model(found.model),
        options(options), origin(origin) {
    part = objectAt(outer, family.part);
    sizes = readClassSizes();
  }

  void read(LayerDescription &layer);

private:
  /// A key, the object that contains it, and its value.
  struct Place {
    /// The object that contains the key, or in which the key is expected.
    JsonReader *reader = nullptr;
    std::string_view name;
    /// The value for this layer; null if the key is absent.
    const nlohmann::json *value = nullptr;
    std::string path; ///< path of the value in the config
  };

  ClassSizes readClassSizes();
  Place find(WordList names);
  Place findIn(JsonReader &reader, WordList names);
  const nlohmann::json *ofThisLayer(JsonReader &reader, std::string_view name,
                                    std::string &path);
  JsonReader &of(std::string_view key) {
    return !part || (!part->has(key) && outer.has(key)) ? outer : *part;
  }

  /// Returns the default of a key that is absent or null. Returns nullopt if
  /// the key has a value. If there is no default, adds an error and returns
  /// T().
  template <typename T>
  std::optional<T> withoutValue(const Key<T> &key, const Place &place,
                                std::string_view what);
  void expected(const Place &place, std::string_view what);
  void noteRead(const Place &place);

  // The only functions that read the value of a key. They record it in
  // `origin`.
  template <typename T, typename Parse>
  T getAs(const Key<T> &key, std::string_view what, Parse parse);
  int64_t get(const Key<int64_t> &key, int64_t min, int64_t max);
  /// Reads a size. `ofClass` is the default of the model's configuration class.
  int64_t getSize(Key<int64_t> key, int64_t ofClass, int64_t max);
  bool get(const Key<bool> &key);
  Number get(const Key<Number> &key);
  Number getPositive(const Key<Number> &key);
  std::string get(const Key<std::string_view> &key,
                  std::span<const std::string_view> names);

  void findQuantization();
  void readLayers();
  void readType(LayerDescription &layer);
  void readScheme(LayerDescription &layer);
  void readStoredWords(LayerDescription &layer);
  LayerModules modules();
  void readRouting(LayerDescription &layer);
  void readSinks(LayerDescription &layer);
  Key<int64_t> intermediateKey();
  void readGroups(RoutingDescription &routing, int64_t experts);
  void readHash(LayerDescription &layer);
  void readActivation(ActivationDescription &activation);
  Number readLimit(std::string_view key);
  void readShared(LayerDescription &layer);
  void refuseOtherValues(const FixedKey &fixed);
  void refuseReadFields();
  void refuseConstantExperts();

  JsonReader outer;
  std::optional<JsonReader> part;
  ClassSizes sizes;
  const ModelFamily &family;
  std::string model;
  const ImportOptions &options;
  LayerOrigin &origin;
  ExpertQuantization quantization;
  std::string_view quantKey = "quantization_config";
  int64_t numLayers = 0; ///< 0: not read yet
  SparseLayer chosen;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_CONFIGREADER_H
