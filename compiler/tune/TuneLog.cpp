//===- TuneLog.cpp - the log of measurements ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If the last line of a log is incomplete, a newline ends it before the next
// line is written.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/TuneLog.h"

#include "runtime/support/Files.h"
#include "runtime/support/Json.h"

#include <nlohmann/json.hpp>

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

static Result<void> writeAll(int file, std::string_view text,
                             const std::string &path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return fileError("cannot write", path);
    text.remove_prefix(size_t(written));
  }
  return {};
}

Result<TuneLog> TuneLog::open(const std::string &path) {
  TRY(createFolders(parentFolder(path)));
  TuneLog log;
  log.where = path;
  log.file = Descriptor(
      ::open(path.c_str(), O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0666));
  if (!log.file)
    return fileError("cannot open", path);
  if (::flock(log.file.get(), LOCK_EX | LOCK_NB) != 0)
    return Error(
        ErrorCode::FileSystem,
        "'{}' is in use: another moec tune of this layer runs; expected "
        "it to end first, or another file (--log)",
        path);
  std::string text = TRY(readFile(path));
  const bool torn = !text.empty() && text.back() != '\n';
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos)
      end = text.size();
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    const auto parsed = parseJsonObject(line, "a line", ErrorCode::FileSystem,
                                        {line.size() + 1});
    if (!parsed || !parsed->contains("key") || !(*parsed)["key"].is_string() ||
        !parsed->contains("ok") || !(*parsed)["ok"].is_boolean()) {
      ++log.damaged;
      continue;
    }
    *log.lines[(*parsed)["key"].get<std::string>()] = *parsed;
  }
  if (torn)
    TRY(writeAll(log.file.get(), "\n", path));
  return log;
}

const ordered_json *TuneLog::find(const std::string &key) const {
  const auto found = lines.find(key);
  return found == lines.end() ? nullptr : &*found->second;
}

Result<void> TuneLog::add(const ordered_json &line) {
  const std::string text =
      line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  TRY(writeAll(file.get(), text, where));
  if (::fsync(file.get()) != 0)
    return fileError("cannot write", where);
  *lines[line["key"].get<std::string>()] = line;
  return {};
}
