/*===- compiler.h - the C interface of moec's compiler ------------*- C -*-===*\
|*                                                                            *|
|* Part of moec, under the Apache License v2.0 with LLVM Exceptions.          *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* These functions are in libmoec.so, but not in libmoec-runtime.so.          *|
|* Errors are reported as in moec.h. Callers own all returned handles.        *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MOEC_COMPILER_H
#define MOEC_COMPILER_H

#include <moec/moec.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Compiles a layer description into a package in memory. `text` is the
 *  content of a Hugging Face config.json, a moec layer JSON or an .mlir
 *  file; the format is detected from the content. If moec does not support
 *  the layer, the function returns MOEC_REFUSED and moec_last_error() lists
 *  the reasons. On success the caller owns `*files` and destroys it with
 *  moec_package_files_destroy().
 *
 *  `options_json` is a JSON object, or NULL or "" for all defaults. Its
 *  fields are the options of the command `moec compile` without dashes:
 *  {"arch": ["sm_90a"], "gpu": "...", "scheme": "bf16", "tp": 4,
 *  "max_tokens": 8192, ...}. An unknown field is an error.
 *
 *  "backend" and "engine" force a choice, and "exclude" forbids choices.
 *  They default to the environment variables MOEC_BACKEND, MOEC_ENGINE and
 *  MOEC_EXCLUDE. "default_max_tokens" applies if "max_tokens" is absent; it
 *  is ignored for an .mlir program, which specifies its own maximum.
 *  "allow": "weight_only" permits a package that does not quantize
 *  activations, although the config does, so its results differ. "cubin":
 *  true also compiles the kernels ahead of time. "part": "route" (or
 *  "quantize", "gate_up", "down", "finalize") creates a package of only that
 *  part of the layer. */
moec_status moec_compile_config(const char *text, const char *options_json,
                                moec_package_files **files);

/** Reports what moec_compile_config() would decide and why, in the JSON
 *  format of `moec explain --json`. No kernel is compiled. A layer that moec
 *  does not support yields a report, too: "served" is false, "message" is
 *  the error message of moec_compile_config(), and "targets" lists the
 *  rejected candidates of each target that was tried. Any other error is
 *  returned as a status. `options_json` may also contain "tokens" (a count
 *  or an array) and "histogram" (as for the command); the report then
 *  predicts times for these token counts. The caller owns `*report`. */
moec_status moec_explain_config(const char *text, const char *options_json,
                                moec_text **report);

/** Renders the report of moec_explain_config() as an HTML page with charts.
 *  The page needs no network and contains no script. `bench_json` is NULL or
 *  a result of `moec-bench --json` that includes a package of the report's
 *  layer. Times that were measured on another GPU than the report's GPU are
 *  listed but not drawn. The caller owns `*page`. */
moec_status moec_explain_html(const char *report_json, const char *bench_json,
                              moec_text **page);

/** Measures schedules of a config on the local GPU, like `moec tune`. The
 *  call blocks for "budget" seconds. `options_json` may contain the layer
 *  and target options of moec_compile_config(), and "tokens" (an array),
 *  "budget", "exhaustive", "random", "seed", "device", "deadline",
 *  "min_gain", "sample", "out" and "log". The report is the JSON of `moec
 *  tune --report`; the caller owns `*report`. The program moec-measure must
 *  be in the same folder as the library. */
moec_status moec_tune_config(const char *text, const char *options_json,
                             moec_text **report);

/** Lists the words that a config may use, as a JSON object of the tables
 *  "schemes", "routing", "activations", "engines", "backends", "archs", "gpus"
 *  and "realizations". The command `moec list` prints the same tables. The
 *  caller owns `*catalog`. */
moec_status moec_catalog_json(moec_text **catalog);
/** Lists the model families whose config.json can be compiled, as a JSON array.
 *  Each entry has "model_types", "architectures" and the "source" of their
 *  defaults. The caller owns `*families`. */
moec_status moec_families_json(moec_text **families);

/** Runs the command `moec`. The arguments are those of main(), with the
 *  program's name first. Returns the exit status: 0 on success; 1 if the
 *  input was rejected, with the reason on standard error; 2 if the arguments
 *  are invalid or NULL. The function may be called any number of times and
 *  never exits the process. Progress is shown on standard error unless
 *  moec_set_progress() has set a function. */
int moec_main(int argc, char **argv);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOEC_COMPILER_H */
