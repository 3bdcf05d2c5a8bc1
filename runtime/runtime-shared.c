/*===- runtime-shared.c - libmoec-runtime.so's own file ----------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* A shared library needs a source file of its own; the code comes from the   *|
|* archives. Being C, it also checks that the public header is C.             *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "runtime/include/moec/moec.h"
