/*===- client.c - a program of a former version -------------------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Compiled against a recorded header, with its sizes of structs and numbers  *|
|* of enums, and linked against the library of this tree. Runs the recorded   *|
|* package on the host device and prints the output.                          *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include <moec/moec.h>

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 3, HIDDEN = 64, EXPERTS = 4, INTERMEDIATE = 32 };

static void check(moec_status status) {
  if (status == MOEC_OK)
    return;
  fprintf(stderr, "client: %s: %s\n", moec_status_name(status),
          moec_last_error());
  exit(1);
}

/** abi_test.py has the same numbers. */
static void fill(float *to, int count, int seed) {
  for (int i = 0; i < count; ++i)
    to[i] = (float)((i * 37 + seed * 11) % 29 - 14) / 64.0F;
}

static void *allocate(uint64_t bytes) {
  return aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
}

int main(int argc, char **argv) {
  static float w13[EXPERTS * 2 * INTERMEDIATE * HIDDEN];
  static float w2[EXPERTS * HIDDEN * INTERMEDIATE];
  static float logits[TOKENS * EXPERTS];
  float *x = allocate(TOKENS * HIDDEN * sizeof(float));
  float *out = allocate(TOKENS * HIDDEN * sizeof(float));
  if (argc != 2)
    return 2;
  fill(w13, EXPERTS * 2 * INTERMEDIATE * HIDDEN, 1);
  fill(w2, EXPERTS * HIDDEN * INTERMEDIATE, 2);
  fill(x, TOKENS * HIDDEN, 3);
  fill(logits, TOKENS * EXPERTS, 4);

  moec_load_options load = {0};
  load.struct_size = sizeof(load);
  load.device = MOEC_DEVICE_HOST;
  moec_package *package = NULL;
  check(moec_package_load(argv[1], &load, &package));

  const moec_tensor weights[] = {
      {"w13", w13, NULL, MOEC_SHAPE(EXPERTS, 2 * INTERMEDIATE, HIDDEN), NULL},
      {"w2", w2, NULL, MOEC_SHAPE(EXPERTS, HIDDEN, INTERMEDIATE), NULL}};
  moec_layer *layer = NULL;
  check(moec_layer_create(package, weights, 2, NULL, NULL, &layer));

  uint64_t bytes = 0;
  check(moec_package_workspace_bytes(package, TOKENS, &bytes));
  moec_context *context = NULL;
  check(moec_context_create(package, allocate(bytes), bytes, NULL, &context));

  const moec_tensor tensors[] = {
      {"x", x, NULL, MOEC_SHAPE(TOKENS, HIDDEN), NULL},
      {"logits", logits, NULL, MOEC_SHAPE(TOKENS, EXPERTS), NULL},
      {"out", out, NULL, MOEC_SHAPE(TOKENS, HIDDEN), NULL}};
  check(moec_run(layer, context, NULL, tensors, 3, TOKENS, NULL));
  for (int i = 0; i < TOKENS * HIDDEN; ++i)
    printf("%.9g\n", (double)out[i]);
  moec_context_destroy(context);
  moec_layer_destroy(layer);
  moec_package_destroy(package);
  return 0;
}
