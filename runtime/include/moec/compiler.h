/*===- compiler.h - the C interface of moec's compiler -----------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* What libmoec.so exports and libmoec-runtime.so does not. Errors are those  *|
|* of moec.h.                                                                 *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MOEC_COMPILER_H
#define MOEC_COMPILER_H

#include <moec/moec.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Compiles the text of a Hugging Face config.json, a moec layer JSON or an
 *  .mlir file, told apart by content, to a package in memory. `options_json`
 *  (NULL or "": all defaults) is an object whose fields are the options of the
 *  command `moec compile` without dashes: {"arch": ["sm_90a"], "gpu": "...",
 *  "scheme": "bf16", "tp": 4, "max_tokens": 8192, ...}; an unknown field is an
 *  error. "backend", "engine" and "exclude" force a choice, or are those of
 *  MOEC_BACKEND, MOEC_ENGINE and MOEC_EXCLUDE. "default_max_tokens" counts
 *  where "max_tokens" is absent and the text holds no program, which has a
 *  count of its own. "allow": "weight_only" may
 *  compute another layer, which quantizes no activations. "cubin": true also
 *  compiles ahead of time. "part": "route" (or
 *  "quantize", "finalize") makes a package of that part of the layer alone. A
 *  layer that cannot be served is MOEC_REFUSED with the reasons. */
moec_status moec_compile_config(const char *text, const char *options_json,
                                moec_package_files **files);

/** What moec_compile_config would decide, and why: the JSON of
 *  `moec explain --json`. Compiles no kernel. A layer that cannot be served is
 *  a report, too: "served" is false, "message" is what moec_compile_config
 *  would say, and "targets" has the refused candidates of each target whose
 *  turn came. Any other error is a status. `options_json` may also have
 * "tokens" (a count or an array) and "histogram" (as for the command), for
 * which the report predicts times. */
moec_status moec_explain_config(const char *text, const char *options_json,
                                moec_text **report);

/** The report of moec_explain_config as a page of HTML with pictures. The page
 *  needs no network and has no script. `bench_json` (NULL: none) is a result of
 *  `moec-bench --json` that has a package of the report's layer; times of
 *  another GPU than the report's are named and not drawn. */
moec_status moec_explain_html(const char *report_json, const char *bench_json,
                              moec_text **page);

/** Measures schedules of a config on the GPU that is here, as `moec tune` does:
 *  blocks for "budget" seconds. Options are those of the layer and its target
 *  as above, and "tokens" (an array), "budget", "exhaustive", "random", "seed",
 *  "device", "deadline", "min_gain", "sample", "out" and "log". The report is
 * the JSON of `moec tune --report`. Needs the program moec-measure beside the
 * library. */
moec_status moec_tune_config(const char *text, const char *options_json,
                             moec_text **report);

/** The words that a config may use, as JSON: an object of tables "schemes",
 *  "routing", "activations", "engines", "backends", "archs", "gpus" and
 *  "realizations". The command `moec list` prints the same tables. */
moec_status moec_catalog_json(moec_text **catalog);
/** The families of models whose config.json can be compiled, as JSON: an array
 *  of "model_types", "architectures" and the "source" of their defaults. */
moec_status moec_families_json(moec_text **families);

/** The command `moec`: words as main() gets them, the program's name first.
 *  Returns the exit status: 0; 1 where the input was refused, with the reason
 *  on standard error; 2 where the words make no sense, also for NULL. It may be
 *  called any number of times, and shows progress on standard error unless
 *  moec_set_progress has set who hears it. Never exits the process. */
int moec_main(int argc, char **argv);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOEC_COMPILER_H */
