//===- ManifestJson.cpp - a manifest as JSON ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each struct of runtime/package/Manifest.h lists its JSON fields once, in
// `fields`. The Writer and the Reader below both traverse this list, so they
// always agree. The Reader is strict: an unknown, missing, repeated or mistyped
// field is an error that names its JSON path. It reports the first error; after
// an error it continues with default values.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Manifest.h"

#include "runtime/package/Limits.h"
#include "runtime/support/Files.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

using namespace moec;
using nlohmann::json;
using nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Fields of the format
//===----------------------------------------------------------------------===//

namespace {

constexpr std::pair<ValueRole, std::string_view> kRoles[] = {
    {ValueRole::Input, "input"},
    {ValueRole::OptionalInput, "optional_input"},
    {ValueRole::Output, "output"},
    {ValueRole::OptionalOutput, "optional_output"},
    {ValueRole::StoredWeight, "stored_weight"},
    {ValueRole::PackedWeight, "packed_weight"},
    {ValueRole::Workspace, "workspace"},
    {ValueRole::State, "state"},
    {ValueRole::Window, "window"},
};

constexpr std::pair<ArgumentField::Kind, std::string_view> kFieldKinds[] = {
    {ArgumentField::Kind::Pointer, "pointer"},
    {ArgumentField::Kind::TensorMap, "tensor_map"},
    {ArgumentField::Kind::Size, "size"},
    {ArgumentField::Kind::RowStride, "row_stride"},
    {ArgumentField::Kind::ElementType, "element_type"},
    {ArgumentField::Kind::FirstExpert, "first_expert"},
    {ArgumentField::Kind::Peers, "peers"},
    {ArgumentField::Kind::Status, "status"},
};

constexpr std::pair<Collective::Kind, std::string_view> kCollectives[] = {
    {Collective::Kind::AllGather, "all_gather"},
    {Collective::Kind::ReduceScatter, "reduce_scatter"},
    {Collective::Kind::AllReduce, "all_reduce"},
};

constexpr const auto &enumTable(ValueRole) { return kRoles; }
constexpr const auto &enumTable(Collective::Kind) { return kCollectives; }
constexpr const auto &enumTable(ArgumentField::Kind) { return kFieldKinds; }

template <typename Archive> void fields(Archive &archive, Value &value) {
  archive("name", value.name);
  archive("role", value.role);
  archive("element_types", value.elementTypes, kMostElementTypes);
  archive("shape", value.shape, kMostDimensions);
  archive("strides", value.strides, kMostDimensions);
  archive("caller_row_stride", value.callerRowStride);
  archive("alignment", value.alignment);
  archive("may_alias", value.mayAlias);
}

template <typename Archive>
void fields(Archive &archive, ArgumentField &field) {
  archive("name", field.name);
  archive("offset", field.offset);
  archive("kind", field.kind);
  switch (field.kind) {
  case ArgumentField::Kind::Pointer:
  case ArgumentField::Kind::RowStride:
  case ArgumentField::Kind::ElementType:
    return archive("value", field.value);
  case ArgumentField::Kind::TensorMap:
    return archive("tensor_map", field.tensorMap);
  case ArgumentField::Kind::Size:
    archive("expression", field.expression);
    return archive("element_type", field.elementType);
  case ArgumentField::Kind::FirstExpert:
  case ArgumentField::Kind::Peers:
  case ArgumentField::Kind::Status:
    return;
  }
}

template <typename Archive>
void fields(Archive &archive, ArgumentBlock &block) {
  archive("bytes", block.bytes);
  archive("alignment", block.alignment);
  archive("fields", block.fields);
}

template <typename Archive> void fields(Archive &archive, Stage &stage) {
  archive("op", stage.op);
  archive("operands", stage.operands);
  archive("results", stage.results);
  archive("attributes", stage.attributes);
}

template <typename Archive> void fields(Archive &archive, Kernel &kernel) {
  archive("name", kernel.name);
  archive("source", kernel.source);
  archive("entry", kernel.entry);
  archive("headers", kernel.headers);
  archive("options", kernel.options);
  archive("cubin", kernel.cubin);
  archive("threads", kernel.threads);
  archive("shared_bytes", kernel.sharedBytes);
  archive("cluster", kernel.cluster);
  archive("min_ctas_per_sm", kernel.minCtasPerSm);
  archive("cooperative", kernel.cooperative);
  archive("programmatic", kernel.programmatic);
  archive("arguments", kernel.arguments);
  archive("stages", kernel.stages);
}

template <typename Archive> void fields(Archive &archive, TensorMap &map) {
  archive("name", map.name);
  archive("value", map.value);
  archive("element_type", map.elementType);
  archive("extents", map.extents, kMostMapDimensions);
  archive("strides", map.strides, kMostMapDimensions);
  archive("box", map.box, kMostMapDimensions);
  archive("element_strides", map.elementStrides, kMostMapDimensions);
  archive("interleave", map.interleave);
  archive("swizzle", map.swizzle);
  archive("l2_promotion", map.l2Promotion);
  archive("out_of_bounds_fill", map.outOfBoundsFill);
}

template <typename Archive> void fields(Archive &archive, Grid &grid) {
  archive("persistent", grid.persistent);
  if (!grid.persistent)
    return archive("ctas", grid.ctas);
  archive("tiles", grid.tiles);
  archive("ctas_per_sm", grid.ctasPerSm);
}

template <typename Archive>
void fields(Archive &archive, Collective &collective) {
  archive("kind", collective.kind);
  archive("ranks", collective.ranks);
  archive("stride", collective.stride);
  archive("operands", collective.operands);
  archive("results", collective.results);
}

template <typename Archive> void fields(Archive &archive, Launch &launch) {
  if (archive.has("collective", launch.collective.has_value())) {
    if (!launch.collective)
      launch.collective.emplace();
    return archive("collective", *launch.collective);
  }
  archive("kernel", launch.kernel);
  archive("grid", launch.grid);
}

template <typename Archive> void fields(Archive &archive, Region &region) {
  archive("value", region.value);
  archive("offset", region.offset);
  archive("bytes", region.bytes);
  archive("first_launch", region.firstLaunch);
  archive("last_launch", region.lastLaunch);
}

template <typename Archive> void fields(Archive &archive, Variant &variant) {
  archive("name", variant.name);
  archive("min_tokens", variant.minTokens);
  archive("max_tokens", variant.maxTokens);
  archive("min_sms", variant.minSms);
  archive("launches", variant.launches);
  archive("regions", variant.regions, kMostRegions);
  archive("workspace_bytes", variant.workspaceBytes);
}

template <typename Archive> void fields(Archive &archive, Pack &pack) {
  archive("result", pack.result);
  archive("from", pack.from);
  archive("in_place", pack.inPlace);
  archive("experts_per_step", pack.expertsPerStep);
  archive("total_experts", pack.totalExperts);
  archive("scratch", pack.scratch);
  archive("scratch_bytes", pack.scratchBytes);
  archive("launches", pack.launches);
}

template <typename Archive> void fields(Archive &archive, StateRegion &region) {
  archive("value", region.value);
  archive("offset", region.offset);
}

template <typename Archive>
void fields(Archive &archive, WindowRegion &region) {
  archive("value", region.value);
  archive("offset", region.offset);
}

template <typename Archive> void fields(Archive &archive, Target &target) {
  archive("arch", target.arch);
  archive("gpu", target.gpu);
  archive("compatibility", target.compatibility);
  archive("compute_major", target.computeMajor);
  archive("compute_minor", target.computeMinor);
  archive("values", target.values);
  archive("kernels", target.kernels);
  archive("tensor_maps", target.tensorMaps);
  archive("variants", target.variants);
  archive("pack", target.pack);
  archive("state_bytes", target.stateBytes);
  archive("state_regions", target.stateRegions, kMostRegions);
  if (archive.has("window_ranks", target.windowRanks != 1)) {
    archive("window_ranks", target.windowRanks);
    archive("window_bytes", target.windowBytes);
    archive("window_regions", target.windowRegions, kMostRegions);
  }
  archive("report", target.report);
}

template <typename Archive> void fields(Archive &archive, RankFacts &facts) {
  archive("rank", facts.rank);
  archive("local_begin", facts.localBegin);
  archive("intermediate_begin", facts.intermediateBegin);
  archive("add_w2_bias", facts.addW2Bias);
  archive("add_zero_experts", facts.addZeroExperts);
  if (archive.has("shared_intermediate_begin",
                  facts.sharedIntermediateBegin != 0))
    archive("shared_intermediate_begin", facts.sharedIntermediateBegin);
}

/// Lists all fields except the format version, which comes first.
template <typename Archive> void fields(Archive &archive, Manifest &manifest) {
  archive("name", manifest.name);
  archive("compiler", manifest.compiler);
  archive("max_tokens", manifest.maxTokens);
  if (archive.has("token_ranks", manifest.tokenRanks != 1))
    archive("token_ranks", manifest.tokenRanks);
  archive("rows", manifest.rows);
  archive("ranks", manifest.ranks, kMostRanks);
  archive("layer", manifest.layer);
  archive("values", manifest.values);
  archive("one_of", manifest.oneOf);
  archive("targets", manifest.targets);
  archive("files", manifest.files);
}

template <typename Archive>
void fields(Archive &archive, ShareIndex::Share &share) {
  archive("folder", share.folder);
  archive("ranks", share.ranks, kMostRanks);
}

template <typename Archive> void fields(Archive &archive, ShareIndex &index) {
  archive("name", index.name);
  archive("shares", index.shares, kMostRanks);
  archive("files", index.files);
}

constexpr const char *kVersionField = "moec_manifest";

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

class Writer {
public:
  template <typename T>
  void operator()(const char *key, T &value, size_t /*most*/ = 0) {
    object[key] = write(value);
  }
  /// Returns true if an optional field is set and has to be written.
  bool has(const char * /*key*/, bool isSet) const { return isSet; }
  ordered_json object = ordered_json::object();

  static ordered_json write(std::string &text) { return text; }
  static ordered_json write(int64_t number) { return number; }
  static ordered_json write(double number) { return number; }
  static ordered_json write(bool flag) { return flag; }
  static ordered_json write(BoxedJson &any) { return ordered_json(*any); }
  static ordered_json write(Expression &expression) {
    if (std::optional<int64_t> constant = expression.constant())
      return *constant;
    return expression.text();
  }
  static ordered_json write(std::map<std::string, std::string> &map) {
    ordered_json result = ordered_json::object();
    for (const auto &[key, text] : map)
      result[key] = text;
    return result;
  }
  template <typename T> static ordered_json write(std::vector<T> &list) {
    return writeList(list);
  }
  template <typename T> static ordered_json write(std::array<T, 3> &list) {
    return writeList(list);
  }
  template <typename T> static ordered_json write(T &value) {
    if constexpr (std::is_enum_v<T>) {
      for (const auto &[candidate, name] : enumTable(value))
        if (candidate == value)
          return std::string(name);
      return nullptr;
    } else {
      Writer writer;
      fields(writer, value);
      return std::move(writer.object);
    }
  }

private:
  template <typename List> static ordered_json writeList(List &list) {
    ordered_json result = ordered_json::array();
    for (auto &element : list)
      result.push_back(write(element));
    return result;
  }
};

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Reads one object with the fields that `fields` lists.
class Reader {
public:
  Reader(const json &object, const std::string &path, std::string &problem)
      : object(object), path(path), problem(problem) {}

  /// Reads a field. `most` is the maximum length if the field is an array. A
  /// longer array is an error, and none of its elements is read.
  template <typename T>
  void operator()(const char *key, T &value, size_t most = kMostEntries) {
    if (known.empty() || known.back() != key)
      known.push_back(key);
    auto found = object.find(key);
    if (found == object.end())
      return fail(path, fmt::format("field '{}' is missing", key));
    const std::string where = path.empty() ? key : path + "." + key;
    if (found->is_array() && found->size() > most)
      return fail(where, fmt::format("expected an array of at most {}, got {} "
                                     "elements",
                                     most, found->size()));
    read(*found, where, value);
  }

  /// Returns true if an optional field is present.
  bool has(const char *key, bool /*isSet*/) {
    known.push_back(key);
    return object.contains(key);
  }

  /// Reports unknown fields. Must be called after all known fields were read.
  void refuseUnknown() {
    for (const auto &item : object.items())
      if (std::ranges::find(known, item.key()) == known.end())
        return fail(path.empty() ? shortText(item.key())
                                 : path + "." + shortText(item.key()),
                    fmt::format("unknown field; expected one of {}",
                                fmt::join(known, ", ")));
  }

private:
  void fail(const std::string &where, std::string_view what) {
    if (problem.empty())
      problem = fmt::format("{}{}{}", where, where.empty() ? "" : ": ", what);
  }
  void mistyped(const std::string &where, std::string_view expected,
                const json &got) {
    fail(where, fmt::format("expected {}, got {}", expected, shortJson(got)));
  }

  void read(const json &in, const std::string &where, std::string &text) {
    if (!in.is_string())
      return mistyped(where, "a string", in);
    text = in.get_ref<const std::string &>();
    // Strings may contain arbitrary names, and messages show them unchanged, so
    // control characters are not allowed.
    if (shortText(text, text.size()) != text)
      return mistyped(where, "a text without control characters", in);
  }
  void read(const json &in, const std::string &where, int64_t &number) {
    if (!in.is_number_integer())
      return mistyped(where, "an integer", in);
    if (in.is_number_unsigned() && in.get<uint64_t>() > INT64_MAX)
      return mistyped(where, "an integer below 2^63", in);
    number = in.get<int64_t>();
  }
  void read(const json &in, const std::string &where, double &number) {
    if (!in.is_number())
      return mistyped(where, "a number", in);
    number = in.get<double>();
  }
  void read(const json &in, const std::string &where, bool &flag) {
    if (!in.is_boolean())
      return mistyped(where, "true or false", in);
    flag = in.get<bool>();
  }
  void read(const json &in, const std::string &where, BoxedJson &any) {
    if (!in.is_object())
      return mistyped(where, "an object", in);
    *any = in;
  }
  void read(const json &in, const std::string &where, Expression &expression) {
    int64_t constant = 0;
    if (in.is_number()) {
      read(in, where, constant);
      expression = Expression(constant);
      return;
    }
    if (!in.is_string())
      return mistyped(where, "an integer or an expression as a string", in);
    Result<Expression> parsed =
        Expression::parse(in.get_ref<const std::string &>());
    if (!parsed)
      return fail(where, parsed.error().message);
    expression = std::move(*parsed);
  }
  void read(const json &in, const std::string &where,
            std::map<std::string, std::string> &map) {
    if (!in.is_object())
      return mistyped(where, "an object", in);
    for (const auto &item : in.items())
      if (shortText(item.key(), item.key().size()) != item.key())
        fail(where, fmt::format("expected keys without control characters, got "
                                "\"{}\"",
                                shortText(item.key())));
      else
        read(item.value(), where + "." + shortText(item.key()),
             map[item.key()]);
  }
  template <typename T>
  void read(const json &in, const std::string &where, std::vector<T> &list) {
    if (!in.is_array())
      return mistyped(where, "an array", in);
    list.resize(in.size());
    for (size_t i = 0; i < in.size(); ++i)
      read(in[i], fmt::format("{}[{}]", where, i), list[i]);
  }
  template <typename T>
  void read(const json &in, const std::string &where, std::array<T, 3> &list) {
    if (!in.is_array() || in.size() != 3)
      return mistyped(where, "an array of 3", in);
    for (size_t i = 0; i < 3; ++i)
      read(in[i], fmt::format("{}[{}]", where, i), list[i]);
  }
  template <typename T>
  void read(const json &in, const std::string &where, T &value) {
    if constexpr (std::is_enum_v<T>) {
      std::vector<std::string_view> names;
      for (const auto &[candidate, name] : enumTable(value)) {
        names.push_back(name);
        if (in.is_string() && in.get_ref<const std::string &>() == name) {
          value = candidate;
          return;
        }
      }
      mistyped(where, fmt::format("one of {}", fmt::join(names, ", ")), in);
    } else {
      if (!in.is_object())
        return mistyped(where, "an object", in);
      Reader reader(in, where, problem);
      fields(reader, value);
      reader.refuseUnknown();
    }
  }

  const json &object;
  const std::string &path;
  std::string &problem;
  std::vector<std::string_view> known;
};

} // namespace

/// Returns JSON text that is easy to read: a value that fits into 180
/// characters is written on one line.
static std::string layOut(const ordered_json &value, size_t indent) {
  if (!value.is_structured())
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::vector<std::string> items;
  size_t length = indent + 2;
  for (const auto &item : value.items()) {
    std::string text = layOut(item.value(), indent + 2);
    if (value.is_object())
      text = fmt::format("{}: {}", layOut(ordered_json(item.key()), 0), text);
    items.push_back(std::move(text));
    length += items.back().size() + 2;
    if (items.back().find('\n') != std::string::npos)
      length = std::string::npos / 2;
  }
  std::string_view brackets = value.is_object() ? "{}" : "[]";
  if (length <= 180)
    return fmt::format("{}{}{}", brackets[0], fmt::join(items, ", "),
                       brackets[1]);
  std::string line = fmt::format("\n{:{}}", "", indent + 2);
  return fmt::format("{}{}{}\n{:{}}{}", brackets[0], line,
                     fmt::join(items, fmt::format(",{}", line)), "", indent,
                     brackets[1]);
}

template <typename File> static std::string textOf(const File &file) {
  Writer writer;
  int64_t version = kManifestVersion;
  writer(kVersionField, version);
  // `fields` takes non-const references because the Reader uses it, too. The
  // Writer does not modify the file.
  fields(writer, const_cast<File &>(file));
  return layOut(writer.object, 0) + "\n";
}

std::string moec::toJson(const Manifest &manifest) { return textOf(manifest); }
std::string moec::toJson(const ShareIndex &index) { return textOf(index); }

template <typename File>
static Result<File> read(const nlohmann::json &document) {
  File file;
  std::string path, problem;
  int64_t ignored = 0;
  Reader reader(document, path, problem);
  reader(kVersionField, ignored);
  fields(reader, file);
  reader.refuseUnknown();
  if (!problem.empty())
    return Error(ErrorCode::InvalidManifest, std::move(problem));
  return file;
}

/// Checks that folders and ranks are unique, and that each file is in one of
/// the folders.
static Result<void> check(const ShareIndex &index) {
  std::set<int64_t> ranks;
  std::set<std::string> folders;
  if (index.shares.empty())
    return invalidManifest("shares: expected at least one share");
  for (size_t i = 0; i < index.shares.size(); ++i) {
    const ShareIndex::Share &share = index.shares[i];
    const std::string path = fmt::format("shares[{}]", i);
    if (share.folder.find('/') != std::string::npos ||
        !isContainedPath(share.folder) || !folders.insert(share.folder).second)
      return invalidManifest(
          "{}.folder: expected a folder of the package that no "
          "other share names, got '{}'",
          path, share.folder);
    if (share.ranks.empty())
      return invalidManifest("{}.ranks: expected at least one rank", path);
    for (const int64_t rank : share.ranks)
      if (rank < 0 || !ranks.insert(rank).second)
        return invalidManifest(
            "{}.ranks: expected ranks from 0 on, each in one "
            "share, got {}",
            path, rank);
    if (!index.files.count(share.folder + "/manifest.json"))
      return invalidManifest(
          "{}.folder: expected '{}/manifest.json' in `files`, "
          "which lacks it",
          path, share.folder);
  }
  for (const auto &[file, hash] : index.files)
    if (!isContainedPath(file) ||
        !folders.count(file.substr(0, file.find('/'))))
      return invalidManifest(
          "files.{}: expected a path inside the folder of a share", file);
  return {};
}

Result<ManifestFile> moec::manifestFileFromJson(std::string_view text) {
  json document = TRY(parseJsonObject(
      text, "manifest", ErrorCode::InvalidManifest, {kMaxManifestBytes}));
  auto version = document.find(kVersionField);
  if (version == document.end())
    return invalidManifest(
        "{}: expected the format version of a moec manifest, and "
        "there is none; this reader accepts version {}",
        kVersionField, kManifestVersion);
  if (*version != kManifestVersion)
    return invalidManifest(
        "{}: expected format version {}, got {}; compile the package with the "
        "moec that belongs to this runtime, or the reverse",
        kVersionField, kManifestVersion, shortJson(*version));
  if (!document.contains("shares")) {
    Manifest manifest = TRY(read<Manifest>(document));
    return ManifestFile(std::move(manifest));
  }
  ShareIndex index = TRY(read<ShareIndex>(document));
  TRY(check(index));
  return ManifestFile(std::move(index));
}

Result<Manifest> moec::fromJson(std::string_view text) {
  ManifestFile file = TRY(manifestFileFromJson(text));
  if (auto *manifest = std::get_if<Manifest>(&file))
    return std::move(*manifest);
  return invalidManifest(
      "shares: expected a manifest of ranks with equal shares, got an index");
}
