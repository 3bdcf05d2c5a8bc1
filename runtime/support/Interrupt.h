//===- Interrupt.h - interrupts long operations -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that take seconds call isInterrupted() regularly. The interrupt
// comes from a signal in a program, or from the host of a library, such as
// Python.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_INTERRUPT_H
#define MOEC_RUNTIME_SUPPORT_INTERRUPT_H

#include <functional>

namespace moec {

/// Returns true if the work of the calling thread is to end.
using InterruptSource = std::function<bool()>;

/// Sets the source of interrupts. An empty source never interrupts.
void setInterruptSource(InterruptSource source);

/// Returns true after a signal that SignalsInterrupt has caught, or if the
/// source returns true. Must be called by the thread that entered moec.
bool isInterrupted();

/// During its lifetime, SIGINT, SIGTERM and SIGHUP interrupt work instead of
/// ending the process, so that temporary files and locks are removed. The
/// destructor raises a caught signal again, which then has its previous effect.
/// A second signal has its previous effect at once. Ignored signals stay
/// ignored. If there are several objects, the first one installs the handlers
/// and the last one removes them.
class SignalsInterrupt {
public:
  SignalsInterrupt();
  ~SignalsInterrupt();
  SignalsInterrupt(const SignalsInterrupt &) = delete;
  SignalsInterrupt &operator=(const SignalsInterrupt &) = delete;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_INTERRUPT_H
