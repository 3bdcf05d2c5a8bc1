/*===- WrapperC.c - a run from C ---------------------------------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "runtime/include/moec/moec.h"

moec_status runFromC(const moec_layer *layer, moec_context *context, void *x,
                     void *logits, void *out, int64_t tokens);

/** The layer of test/runtime/TinyManifest.h: 4 experts, 16 columns. */
moec_status runFromC(const moec_layer *layer, moec_context *context, void *x,
                     void *logits, void *out, int64_t tokens) {
  const moec_tensor tensors[] = {
      {"x", x, NULL, MOEC_SHAPE(tokens, 16), NULL},
      {"logits", logits, NULL, MOEC_SHAPE(tokens, 4), NULL},
      {"out", out, "bf16", MOEC_SHAPE(tokens, 16), NULL},
  };
  return moec_run(layer, context, NULL, tensors, 3, tokens, NULL);
}
