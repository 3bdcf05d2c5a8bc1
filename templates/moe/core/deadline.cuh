//===- deadline.cuh - waits that fail instead of hanging --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every loop that waits for other threads checks a Deadline in each iteration.
// By default the check is empty. If MOEC_SPIN_DEADLINE is defined, it is the
// number of milliseconds after which a wait fails: a lost arrival or count then
// ends the kernel with an assertion that names the wait, instead of a hang.
// Such a kernel is slower, because the call of a function prevents the overlap
// with MMAs.
//
//===----------------------------------------------------------------------===//

#pragma once

#ifdef MOEC_SPIN_DEADLINE
/// The driver's assertion function. It prints its arguments to stderr and ends
/// the kernel.
extern "C" __device__ void __assertfail(const char *message, const char *file,
                                        unsigned line, const char *function,
                                        unsigned long charBytes)
    __attribute__((noreturn));
#endif

namespace moe::ptx {

/// The source location of a wait; empty without MOEC_SPIN_DEADLINE. It is a
/// default argument of functions that wait.
struct Waiter {
#ifdef MOEC_SPIN_DEADLINE
  const char *file;
  unsigned line;
  static constexpr Waiter here(const char *file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
    return {file, line};
  }
#else
  static constexpr Waiter here() { return {}; }
#endif
};

/// The deadline of a wait that starts at construction. `times` is its duration
/// as a multiple of MOEC_SPIN_DEADLINE. Waits for other CTAs use 1. Waits
/// inside a CTA use more, because most of them wait for a thread that itself
/// waits for another CTA.
class Deadline {
public:
#ifdef MOEC_SPIN_DEADLINE
  __device__ __forceinline__ Deadline(const char *what, Waiter waiter,
                                      unsigned times = 1)
      : what(what), waiter(waiter), end(now() + times * kNanoseconds) {}
  __device__ __forceinline__ void check() const {
    if (now() > end)
      __assertfail(what, waiter.file, waiter.line, "wait", 1);
  }

private:
  static constexpr unsigned long long kNanoseconds =
      MOEC_SPIN_DEADLINE * 1000000ull;
  static __device__ __forceinline__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
  }
  const char *what;
  Waiter waiter;
  unsigned long long end;
#else
  __device__ __forceinline__ Deadline(const char *, Waiter, unsigned = 1) {}
  __device__ __forceinline__ void check() const {}
#endif
};

} // namespace moe::ptx
