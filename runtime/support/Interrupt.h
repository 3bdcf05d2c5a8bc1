//===- Interrupt.h - interrupts long operations -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that take seconds call isInterrupted() regularly. In a program, an
// interrupt comes from a signal. In a library, it comes from the host program,
// such as Python.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_INTERRUPT_H
#define MOEC_RUNTIME_SUPPORT_INTERRUPT_H

#include <functional>

namespace moec {

/// Returns true if the calling thread's operation should be aborted.
using InterruptSource = std::function<bool()>;

/// Sets the interrupt source. An empty source never interrupts.
void setInterruptSource(InterruptSource source);

/// Returns true if SignalsInterrupt has caught a signal, or if the interrupt
/// source returns true. Must be called by the thread that called into moec.
bool isInterrupted();

/// During its lifetime, SIGINT, SIGTERM and SIGHUP interrupt the current
/// operation instead of ending the process, so that temporary files and locks
/// are removed. The destructor raises a caught signal again with the previous
/// handler in place. A second signal reaches the previous handler immediately.
/// Signals that were ignored before remain ignored. If there are several
/// objects, the first one installs the handlers and the last one removes them.
class SignalsInterrupt {
public:
  SignalsInterrupt();
  ~SignalsInterrupt();
  SignalsInterrupt(const SignalsInterrupt &) = delete;
  SignalsInterrupt &operator=(const SignalsInterrupt &) = delete;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_INTERRUPT_H
