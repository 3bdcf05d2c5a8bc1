//===- Interrupt.h - ends long work when a user asks for it -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Work that takes seconds asks isInterrupted() now and then. The answer comes
// from a signal, in a program, or from the host of a library, Python say.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_INTERRUPT_H
#define MOEC_RUNTIME_SUPPORT_INTERRUPT_H

#include <functional>

namespace moec {

/// Returns true if the work of the calling thread is to end.
using InterruptSource = std::function<bool()>;

/// An empty source never interrupts.
void setInterruptSource(InterruptSource source);

/// Returns true after a signal that SignalsInterrupt has caught, or if the
/// source says so. The thread that a user's call has begun asks.
bool isInterrupted();

/// While it lives, SIGINT, SIGTERM and SIGHUP interrupt work instead of ending
/// the process, so that temporary files and locks go. The destructor raises a
/// caught signal again, which then does what it did before. A second signal
/// does so at once. A signal that is ignored stays ignored. Of several objects
/// the last one counts.
class SignalsInterrupt {
public:
  SignalsInterrupt();
  ~SignalsInterrupt();
  SignalsInterrupt(const SignalsInterrupt &) = delete;
  SignalsInterrupt &operator=(const SignalsInterrupt &) = delete;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_INTERRUPT_H
