//===- Guard.h - exception handler of every main() --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec reports its own errors as values. Exceptions come from libraries and
// failed allocations; without a handler they would end the process by a signal.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_GUARD_H
#define MOEC_RUNTIME_SUPPORT_GUARD_H

#include "runtime/support/Result.h"

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

namespace moec {

/// Returns the exit status that `body` returns. If `body` throws, prints the
/// reason to standard error and returns 1.
template <typename Body>
int guarded(const char *program, const Body &body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "%s: there is not enough memory for this\n", program);
  } catch (const std::length_error &) {
    std::fprintf(stderr, "%s: there is not enough memory for this\n", program);
  } catch (const std::exception &exception) {
    std::fprintf(stderr, "%s: %s\n", program,
                 printable(exception.what()).c_str());
  } catch (...) {
    std::fprintf(stderr, "%s: an exception of unknown kind\n", program);
  }
  return 1;
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_GUARD_H
