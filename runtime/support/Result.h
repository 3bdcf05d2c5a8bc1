//===- Result.h - errors as values ------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every runtime function that can fail returns a Result. An Error has a stable
// code and a message. Programs may compare the code, and the C interface
// returns it as an integer. The message is for users: what was expected, what
// was found, and what would be accepted. Functions in public headers throw no
// exceptions.
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

/// Stable error codes of the C interface. A value is never reused.
enum class ErrorCode : int {
  Ok = 0,
  InvalidArgument = 1,  ///< the caller passed an invalid argument
  InvalidManifest = 2,  ///< a package is inconsistent or violates the format
  DamagedPackage = 3,   ///< a file is missing, truncated or has another hash
  NoMatchingTarget = 4, ///< no target of the package runs on this device
  DeviceLimit = 5,      ///< a kernel needs more resources than this device has
  TooManyTokens = 6,    ///< the token count exceeds the package's max_tokens
  WorkspaceTooSmall = 7,
  Misaligned = 8,   ///< a pointer or stride violates a value's alignment
  ContextInUse = 9, ///< two concurrent runs used the same Context
  /// Compiling or loading is not possible during a graph capture.
  Capturing = 10,
  /// Strict mode: a kernel is neither in the package nor in the cache.
  StrictMiss = 11,
  CompileFailed = 12, ///< NVRTC could not compile a kernel
  NoCompiler = 13,    ///< NVRTC is needed but was not found
  NoDriver = 14,      ///< the CUDA driver is needed but was not found
  DriverFailed = 15,  ///< a call of the driver failed
  FileSystem = 16,    ///< reading or writing a file failed (e.g. disk full)
  Refused = 17,  ///< the layer or checkpoint is not supported; the message has
                 ///< the reason
  Internal = 18, ///< a bug in moec
  PeerLost = 19, ///< another rank has failed or does not respond
  PeerMismatch = 20,    ///< the ranks run different packages or operations
  NoCommunication = 21, ///< the ranks have no way to communicate
  Interrupted = 22,     ///< a signal or the caller ended the call
};

/// Returns the code's name in programs and logs, such as "invalid_argument".
std::string_view errorCodeName(ErrorCode code);

/// Returns untrusted text in a form that is safe to print on a terminal.
/// Characters that would move the cursor, change colors or change the text
/// direction are escaped ("\x1b", "\u202e"). Newlines and tabs are kept.
std::string printable(std::string_view text);

/// Appends the character at offset `at` of `text` to `to` in printable form.
/// Newlines and tabs are also escaped, unless `keepsLines` is set. Returns the
/// offset of the next character.
size_t appendPrintable(std::string &to, std::string_view text, size_t at,
                       bool keepsLines);

struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string message; ///< printable text

  Error() = default;
  Error(ErrorCode code, std::string_view message)
      : code(code), message(printable(message)) {}
  /// Creates an error with a message formatted by fmt.
  template <typename... Args>
  Error(ErrorCode code, fmt::format_string<Args...> text, Args &&...args)
      : Error(code, std::string_view(
                        fmt::format(text, std::forward<Args>(args)...))) {}
};

/// Return an error with a frequently used code.
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

/// A T or an Error. `Result<void>` is success or an Error.
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

/// Evaluates to the value of a Result. If the Result has an error, returns the
/// error from the enclosing function. Use it only as a statement or directly
/// after `=` or `return`, never inside an expression. Do not use it to
/// initialize a static variable, because the variable would stay partly
/// initialized.
#define TRY(...)                                                               \
  ({                                                                           \
    auto tried = (__VA_ARGS__);                                                \
    if (!tried)                                                                \
      return tried.takeError();                                                \
    tried.take();                                                              \
  })

#endif // MOEC_RUNTIME_SUPPORT_RESULT_H
