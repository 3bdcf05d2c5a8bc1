//===- moec-nvrtc.cpp - NVRTC in a separate process -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The libraries and moec-run start this program
// ("runtime/jit/CompileWorker.h"). Its standard input is a socket, over which
// it receives jobs and sends answers.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CompileWorker.h"
#include "runtime/support/Guard.h"

#include <cstdio>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

int main() {
  // Ends this process with the thread that requested the compilation.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fputs("moec-nvrtc: expected a socket as standard input; moec's "
               "libraries start this program where they compile kernels\n",
               stderr);
    return 2;
  }
  int status = moec::guarded(
      "moec-nvrtc", [] { return moec::runtime::serveCompiles(STDIN_FILENO); });
  // Skips the destructors of NVRTC, which only take time.
  ::_exit(status);
}
