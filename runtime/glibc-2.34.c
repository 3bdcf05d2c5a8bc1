/*===- glibc-2.34.c - functions that glibc 2.34 lacks -------------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* libstdc++.a of Debian 12 calls arc4random, which glibc has since 2.36.     *|
|* The shared libraries therefore contain their own arc4random, so that they  *|
|* load with glibc 2.34. The version script keeps it hidden.                  *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void);

/** Returns 32 random bits from the kernel. Aborts on failure, like glibc's
 *  function. */
uint32_t arc4random(void) {
  uint32_t bits;
  unsigned char *at = (unsigned char *)&bits;
  size_t left = sizeof(bits);
  while (left > 0) {
    ssize_t got = getrandom(at, left, 0);
    if (got < 0 && errno != EINTR)
      abort();
    if (got > 0) {
      at += got;
      left -= (size_t)got;
    }
  }
  return bits;
}
