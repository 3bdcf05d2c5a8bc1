/*===- runtime-shared.c - source file of libmoec-runtime.so -------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* CMake requires a source file for a shared library; the code comes from     *|
|* static libraries. This C file also checks that moec.h is valid C.          *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "runtime/include/moec/moec.h"
