//===- FuzzPackage.cpp - folders of packages ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is a JSON object of paths and contents. Hashes are made right
// unless a field "hashes" is false: else nothing would pass them.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Package.h"
#include "runtime/support/Sha256.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>
#include <sys/stat.h>

using namespace moec;
using nlohmann::json;

/// Makes the hashes right that a manifest has of the files behind `prefix`.
static void hashFiles(json &manifest, const json &files,
                      const std::string &prefix) {
  if (!manifest.is_object() || !manifest["files"].is_object())
    return;
  for (auto &[path, hash] : manifest["files"].items())
    if (auto found = files.find(prefix + path);
        found != files.end() && found->is_string())
      hash = sha256(found->get<std::string>());
}

static void writeFolder(const std::string &folder, json &files) {
  constexpr std::string_view kManifest = "manifest.json";
  if (files.value("hashes", json(true)) != false) {
    // Manifests of shares come first: an index has their hashes.
    for (auto &[path, content] : files.items())
      if (content.is_object() && path.ends_with(kManifest) &&
          path.size() > kManifest.size()) {
        json manifest = content;
        hashFiles(manifest, files,
                  path.substr(0, path.size() - kManifest.size()));
        content = manifest.dump();
      }
    json manifest = files["manifest.json"];
    hashFiles(manifest, files, "");
    files["manifest.json"] = std::move(manifest);
  }
  ::mkdir(folder.c_str(), 0700);
  for (const auto &[path, content] : files.items()) {
    if (!isContainedPath(path) || path == "hashes")
      continue;
    if (path.find('/') != std::string::npos)
      (void)static_cast<bool>(
          createFolders(parentFolder(joinPath(folder, path))));
    fuzz::writeFile(joinPath(folder, path), content.is_string()
                                                ? content.get<std::string>()
                                                : content.dump());
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json files = json::parse(fuzz::textOf(data, size), nullptr, false);
  constexpr size_t kMostFiles = 20;
  if (!files.is_object() || files.size() > kMostFiles)
    return 0;
  const std::string folder = fuzz::scratchFolder() + "/package";
  writeFolder(folder, files);
  Result<Shares> shares = readShares(folder);
  if (!shares) {
    fuzz::requireRefusal(shares.error());
  } else {
    const std::string copy = fuzz::scratchFolder() + "/copy";
    Result<void> written = writeShares(*shares, copy);
    fuzz::require(static_cast<bool>(written), "what was read can be written");
    for (const PackageFiles &package : *shares) {
      Result<PackageFiles> again =
          readShare(copy, package.manifest.ranks.front().rank);
      fuzz::require(again && again->files == package.files &&
                        toJson(again->manifest) == toJson(package.manifest),
                    "what was written is read again");
    }
    (void)static_cast<bool>(removeAll(copy));
  }
  (void)static_cast<bool>(removeAll(folder));
  return 0;
}
