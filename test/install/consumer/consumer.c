/*===- consumer.c - a program that links an installed moec --------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Prints the version of the loaded library, then the error of a package      *|
|* that is not there.                                                         *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include <moec/moec.h>

#include <stdio.h>

int main(void) {
  moec_load_options options = {0};
  moec_package *package = NULL;
  options.struct_size = sizeof(options);
  options.device = MOEC_DEVICE_HOST;
  printf("%d\n", (int)moec_version());
  if (moec_package_load("no-such-package", &options, &package) == MOEC_OK)
    return 1;
  printf("%s\n", moec_last_error());
  return 0;
}
