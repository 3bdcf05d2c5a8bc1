//===- WorkerMessages.cpp - messages of compile workers -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts jobs and answers to lists of strings, and transfers these lists
// through a socket.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/WorkerMessages.h"

#include "moec/moec.h"

#include <fmt/core.h>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

using namespace moec;
using namespace moec::runtime;

//===----------------------------------------------------------------------===//
// Transfer through the socket
//===----------------------------------------------------------------------===//

/// Limits for a message. They are far above any real job or answer.
static constexpr uint64_t kMostTexts = 1 << 16;
static constexpr uint64_t kMostBytes = uint64_t(1) << 30;

static bool sendAll(int socket, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = ::send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

static bool receiveAll(int socket, char *bytes, size_t size) {
  while (size > 0) {
    ssize_t got = ::recv(socket, bytes, size, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool moec::runtime::sendMessage(int socket, const WorkerMessage &message) {
  std::string bytes;
  auto append = [&](uint64_t number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
  };
  append(message.size());
  for (const std::string &text : message) {
    append(text.size());
    bytes += text;
  }
  return sendAll(socket, bytes.data(), bytes.size());
}

std::optional<WorkerMessage> moec::runtime::receiveMessage(int socket) {
  auto number = [&](uint64_t most) -> std::optional<uint64_t> {
    uint64_t got = 0;
    if (!receiveAll(socket, reinterpret_cast<char *>(&got), sizeof got) ||
        got > most)
      return std::nullopt;
    return got;
  };
  auto count = number(kMostTexts);
  if (!count)
    return std::nullopt;
  WorkerMessage message;
  for (uint64_t i = 0; i < *count; ++i) {
    auto size = number(kMostBytes);
    if (!size)
      return std::nullopt;
    std::string &text = message.emplace_back();
    // Memory is allocated in steps as bytes arrive, so a wrong length cannot
    // cause a large allocation.
    for (size_t at = 0; at < *size; at = text.size()) {
      constexpr size_t kAtOnce = size_t(1) << 20;
      text.resize(std::min<size_t>(*size, at + kAtOnce));
      if (!receiveAll(socket, text.data() + at, text.size() - at))
        return std::nullopt;
    }
  }
  return message;
}

//===----------------------------------------------------------------------===//
// Jobs and answers
//===----------------------------------------------------------------------===//

namespace {
/// Reads the strings of a message in order. A missing string or an invalid
/// integer invalidates the whole message.
class Texts {
public:
  explicit Texts(WorkerMessage message) : message(std::move(message)) {}

  std::string text() {
    if (at >= message.size()) {
      wrong = true;
      return "";
    }
    return std::move(message[at++]);
  }
  /// Reads an integer from 0 to `most`, in decimal.
  int number(int most) {
    std::string digits = text();
    int got = 0;
    auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), got);
    if (code != std::errc() || end != digits.data() + digits.size() ||
        got < 0 || got > most) {
      wrong = true;
      return 0;
    }
    return got;
  }
  /// Reads the number of list elements that follow.
  int count() { return number(static_cast<int>(message.size() - at)); }
  LogLevel level() {
    return static_cast<LogLevel>(number(static_cast<int>(LogLevel::Debug)));
  }
  double milliseconds() {
    std::string bytes = text();
    double value = 0;
    if (bytes.size() == sizeof value)
      std::memcpy(&value, bytes.data(), sizeof value);
    else
      wrong = true;
    return value;
  }
  bool right() const { return !wrong && at == message.size(); }

private:
  WorkerMessage message;
  size_t at = 0;
  bool wrong = false;
};
} // namespace

static std::string bytesOf(double value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

/// The message version, incremented if the format of a message changes.
static constexpr int kMessagesVersion = 1;

WorkerMessage moec::runtime::workerGreeting() {
  return {"moec-nvrtc",
          fmt::format("{}.{}.{}", MOEC_VERSION_MAJOR, MOEC_VERSION_MINOR,
                      MOEC_VERSION_PATCH),
          fmt::format("messages {}", kMessagesVersion)};
}

WorkerMessage moec::runtime::toMessage(const WorkerJob &job) {
  const Recipe &recipe = job.recipe;
  WorkerMessage message = {job.nvrtc.library,
                           job.nvrtc.builtins,
                           job.nvrtc.foundBy,
                           job.nvrtc.identity,
                           std::to_string(static_cast<int>(job.level)),
                           recipe.entry,
                           recipe.arch,
                           recipe.compiler,
                           recipe.source->text,
                           std::to_string(recipe.options.size())};
  message.insert(message.end(), recipe.options.begin(), recipe.options.end());
  message.push_back(std::to_string(recipe.headers.size()));
  for (const auto &[name, header] : recipe.headers) {
    message.push_back(name);
    message.push_back(header->text);
  }
  return message;
}

std::optional<WorkerJob> moec::runtime::jobOf(WorkerMessage message) {
  Texts texts(std::move(message));
  WorkerJob job;
  job.nvrtc.library = texts.text();
  job.nvrtc.builtins = texts.text();
  job.nvrtc.foundBy = texts.text();
  job.nvrtc.identity = texts.text();
  job.level = texts.level();
  job.recipe.entry = texts.text();
  job.recipe.arch = texts.text();
  job.recipe.compiler = texts.text();
  job.recipe.source = std::make_shared<const HashedText>(texts.text());
  for (int left = texts.count(); left > 0; --left)
    job.recipe.options.push_back(texts.text());
  for (int left = texts.count(); left > 0; --left) {
    std::string name = texts.text();
    job.recipe.headers.emplace(
        std::move(name), std::make_shared<const HashedText>(texts.text()));
  }
  if (!texts.right())
    return std::nullopt;
  return job;
}

WorkerMessage moec::runtime::toMessage(const WorkerAnswer &answer) {
  WorkerMessage message;
  if (answer.cubin)
    message = {std::to_string(static_cast<int>(ErrorCode::Ok)),
               answer.cubin->bytes, answer.cubin->log};
  else
    message = {std::to_string(static_cast<int>(answer.cubin.error().code)),
               answer.cubin.error().message};
  message.push_back(bytesOf(answer.openMilliseconds));
  message.push_back(std::to_string(answer.log.size()));
  for (const auto &[level, text] : answer.log) {
    message.push_back(std::to_string(static_cast<int>(level)));
    message.push_back(text);
  }
  return message;
}

std::optional<WorkerAnswer> moec::runtime::answerOf(WorkerMessage message) {
  Texts texts(std::move(message));
  WorkerAnswer answer;
  auto code = static_cast<ErrorCode>(
      texts.number(static_cast<int>(ErrorCode::Internal)));
  if (code == ErrorCode::Ok) {
    answer.cubin->bytes = texts.text();
    answer.cubin->log = texts.text();
  } else {
    answer.cubin = Error(code, texts.text());
  }
  answer.openMilliseconds = texts.milliseconds();
  for (int left = texts.count(); left > 0; --left) {
    LogLevel level = texts.level();
    answer.log.emplace_back(level, texts.text());
  }
  if (!texts.right())
    return std::nullopt;
  return answer;
}
