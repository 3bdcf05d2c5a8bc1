//===- Result.h - errors as values ------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every fallible function of the runtime returns a Result. An Error is a
// stable code, which programs may compare and which the C ABI returns as a
// number, and a sentence for people: what was expected, what came, and what
// would be accepted. No exception crosses a public header.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_RESULT_H
#define MOEC_RUNTIME_SUPPORT_RESULT_H

#include <cassert>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace moec {

/// The stable numbers of the C ABI. A number is never reused.
enum class ErrorCode : int {
  Ok = 0,
  InvalidArgument = 1,  ///< the caller passed something impossible
  InvalidManifest = 2,  ///< a package contradicts itself or the format
  DamagedPackage = 3,   ///< a file is missing, truncated or has another hash
  NoMatchingTarget = 4, ///< no target of the package serves this device
  DeviceLimit = 5,      ///< a kernel needs more than this device has
  TooManyTokens = 6,    ///< beyond the package's max_tokens
  WorkspaceTooSmall = 7,
  Misaligned = 8,       ///< a pointer or stride breaks a value's alignment
  ContextInUse = 9,     ///< one Context was given two runs at once
  Capturing = 10,       ///< compiling or loading during a graph capture
  StrictMiss = 11,      ///< strict mode: a kernel would have to be compiled
  CompileFailed = 12,   ///< NVRTC refused a kernel
  NoCompiler = 13,      ///< NVRTC is needed and was not found
  NoDriver = 14,        ///< the CUDA driver is needed and was not found
  DriverFailed = 15,    ///< a driver call failed
  FileSystem = 16,      ///< reading or writing a file failed (disk full too)
  Refused = 17,         ///< the compiler refuses this layer, with a reason
  Internal = 18,        ///< a bug of moec
  PeerLost = 19,        ///< another rank has failed, or does not come
  PeerMismatch = 20,    ///< ranks do not do the same together
  NoCommunication = 21, ///< ranks have nothing to reach each other by
  Interrupted = 22,     ///< a signal or the caller ended the call
};

/// The code's name as programs and logs spell it, "invalid_argument" say.
std::string_view errorCodeName(ErrorCode code);

/// A text that others may have written, as a terminal may show it: what would
/// move the cursor, change colors or turn the direction of writing is spelled
/// out ("\x1b", "\u202e"). Newlines and tabs stay.
std::string printable(std::string_view text);

/// Appends the character that begins at `at` so, newlines and tabs spelled out
/// too unless `keepsLines`. Returns where the next one begins.
size_t appendPrintable(std::string &to, std::string_view text, size_t at,
                       bool keepsLines);

struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string message; ///< printable

  Error() = default;
  Error(ErrorCode code, std::string_view message)
      : code(code), message(printable(message)) {}
  /// The message that fmt makes.
  template <typename... Args>
  Error(ErrorCode code, fmt::format_string<Args...> text, Args &&...args)
      : Error(code, std::string_view(
                        fmt::format(text, std::forward<Args>(args)...))) {}
};

/// Errors of the codes that are used most.
template <typename... Args>
Error invalidArgument(fmt::format_string<Args...> text, Args &&...args) {
  return {ErrorCode::InvalidArgument, text, std::forward<Args>(args)...};
}
template <typename... Args>
Error invalidManifest(fmt::format_string<Args...> text, Args &&...args) {
  return {ErrorCode::InvalidManifest, text, std::forward<Args>(args)...};
}
template <typename... Args>
Error refused(fmt::format_string<Args...> text, Args &&...args) {
  return {ErrorCode::Refused, text, std::forward<Args>(args)...};
}

/// A T or an Error. `Result<void>` carries success or an Error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : storage(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return storage.index() == 0; }
  T &operator*() & { return get(); }
  const T &operator*() const & {
    assert(*this && "dereferencing an error");
    return std::get<0>(storage);
  }
  T &&operator*() && { return std::move(get()); }
  T *operator->() { return &get(); }
  const T *operator->() const { return &**this; }

  const Error &error() const {
    assert(!*this && "no error");
    return std::get<1>(storage);
  }
  Error takeError() {
    assert(!*this && "no error");
    return std::move(std::get<1>(storage));
  }
  T take() { return std::move(get()); }

private:
  T &get() {
    assert(*this && "dereferencing an error");
    return std::get<0>(storage);
  }
  std::variant<T, Error> storage;
};

template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failure(std::move(error)), failed(true) {}

  explicit operator bool() const { return !failed; }
  const Error &error() const {
    assert(failed && "no error");
    return failure;
  }
  Error takeError() {
    assert(failed && "no error");
    return std::move(failure);
  }
  void take() {}

private:
  Error failure;
  bool failed = false;
};

} // namespace moec

/// The value of a Result. Its error is returned from this function instead. It
/// stands alone, behind `=` or behind `return`, never within an expression, and
/// never behind the `=` of a static variable, which would be left half made.
#define TRY(...)                                                               \
  ({                                                                           \
    auto tried = (__VA_ARGS__);                                                \
    if (!tried)                                                                \
      return tried.takeError();                                                \
    tried.take();                                                              \
  })

#endif // MOEC_RUNTIME_SUPPORT_RESULT_H
