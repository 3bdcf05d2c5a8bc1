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

static void writeFolder(const std::string &folder, json &files) {
  json &manifest = files["manifest.json"];
  if (manifest.is_object() && manifest["files"].is_object() &&
      files.value("hashes", json(true)) != false)
    for (const auto &[path, content] : files.items())
      if (content.is_string() && manifest["files"].contains(path))
        manifest["files"][path] = sha256(content.get<std::string>());
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
  Result<PackageFiles> package = readPackage(folder);
  if (!package) {
    fuzz::requireRefusal(package.error());
  } else {
    const std::string copy = fuzz::scratchFolder() + "/copy";
    Result<void> written = writePackage(*package, copy);
    fuzz::require(static_cast<bool>(written), "what was read can be written");
    Result<PackageFiles> again = readPackage(copy);
    fuzz::require(again && again->files == package->files &&
                      toJson(again->manifest) == toJson(package->manifest),
                  "what was written is read again");
    (void)static_cast<bool>(removeAll(copy));
  }
  (void)static_cast<bool>(removeAll(folder));
  return 0;
}
