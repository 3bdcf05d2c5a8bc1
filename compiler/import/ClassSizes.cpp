//===- ClassSizes.cpp - default sizes of configuration classes ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The defaults of Hugging Face Transformers 5.24. A row lists the model types,
// layers, hidden size, experts, top-k and expert intermediate size.
// test/import/DefaultsTest.cpp checks each row.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Families.h"

using namespace moec;
using namespace moec::compiler;

// clang-format off
static constexpr ClassSizes kClassSizes[] = {
    {"afmoe", 32, 2048, 64, 6, 1408},
    {"aria aria_text", 32, 4096, 8, 2, 4096},
    {"axk1", 61, 7168, 192, 8, 2048},
    {"axk2", 48, 2048, 128, 8, 512},
    {"bailing_hybrid", 42, 2560, 512, 8, 768},
    {"beam", 52, 5120, 256, 8, 2560},
    {"cohere2_moe", 40, 8192, 8, 2, 22528},
    {"dbrx", 24, 2048, 4, 1, 3584},
    {"deepseek_ocr2 deepseek_ocr2_text deepseek_v2", 32, 4096, 64, 0, 1407},
    {"deepseek_v3 deepseek_v32 kimi_k25", 61, 7168, 256, 8, 2048},
    {"deepseek_v4", 43, 4096, 256, 6, 2048},
    {"diffusion_gemma diffusion_gemma_text gemma4 gemma4_text", 30, 2304, 0, 0, 0},
    {"dots1", 62, 4608, 0, 0, 1408},
    {"dots3_note dots3_note_text", 46, 5120, 256, 8, 1536},
    {"ernie4_5_moe", 28, 2560, 64, 6, 1536},
    {"exaone_moe", 32, 4096, 64, 8, 1024},
    {"flex_olmo", 32, 4096, 7, 5, 11008},
    {"flint", 49, 2048, 256, 6, 512},
    {"glm4_moe glm4v_moe glm4v_moe_text", 46, 4096, 128, 8, 1408},
    {"glm4_moe_lite", 47, 2048, 64, 4, 1536},
    {"glm5_next glm5_next_text", 45, 4096, 288, 8, 2048},
    {"glm_moe_dsa hy_v4_vl hy_v4_vl_text", 78, 6144, 256, 8, 2048},
    {"gpt_oss", 36, 2880, 128, 4, 2880},
    {"granitemoe granitemoe_swa granitemoehybrid granitemoeshared", 32, 4096, 8, 2, 11008},
    {"hunyuan_v1_moe", 32, 4096, 1, 1, 11008},
    {"hy_v3", 80, 4096, 192, 8, 1536},
    {"hy_v4", 34, 2816, 256, 8, 768},
    {"inkling2_loop inkling2_loop_text", 24, 2304, 128, 8, 1152},
    {"inkling2 inkling2_text", 48, 4608, 384, 8, 2304},
    {"inkling_mm_model inkling_text", 66, 6144, 256, 6, 3072},
    {"jamba", 32, 4096, 16, 2, 14336},
    {"kimi_linear", 27, 2304, 256, 8, 1024},
    {"kolibri1", 50, 2560, 384, 6, 512},
    {"laguna qwen3_5_moe qwen3_5_moe_text", 40, 2048, 256, 8, 512},
    {"lara_mini", 34, 1024, 128, 4, 512},
    {"lfm2_moe", 32, 2048, 32, 4, 1792},
    {"llama4 llama4_text", 48, 5120, 16, 1, 8192},
    {"longcat_flash", 28, 6144, 512, 12, 2048},
    {"mellum", 28, 2304, 64, 8, 896},
    {"mimo_v2_flash", 48, 4096, 256, 8, 2048},
    {"minimax mixtral", 32, 4096, 8, 2, 14336},
    {"minimax_m2", 62, 3072, 256, 8, 1536},
    {"minimax_m3_vl minimax_m3_vl_text", 60, 6144, 128, 4, 3072},
    {"mistral4", 36, 4096, 128, 4, 2048},
    {"mistral_large4 mistral_large4_text", 72, 6144, 128, 4, 6144},
    {"muse_spark muse_spark_text", 62, 8192, 256, 8, 4096},
    {"nemotron_h nemotron_h_omni", 0, 4096, 8, 2, 7688},
    {"olmoe", 16, 2048, 64, 8, 2048},
    {"openai_privacy_filter", 8, 640, 128, 4, 640},
    {"phimoe", 32, 4096, 16, 2, 6400},
    {"qwen2_moe qwen3_vl_moe qwen3_vl_moe_text", 24, 2048, 60, 4, 1408},
    {"qwen3_moe", 24, 2048, 128, 8, 768},
    {"qwen3_next", 48, 2048, 512, 10, 512},
    {"qwen3_omni_moe_talker qwen3_omni_moe_talker_text", 20, 1024, 128, 8, 384},
    {"qwen3_omni_moe qwen3_omni_moe_text qwen3_omni_moe_thinker", 28, 2048, 128, 8, 768},
    {"qwen4_exp qwen4_exp_text", 40, 2048, 512, 10, 512},
    {"sarvam_mla", 32, 4096, 128, 8, 2048},
    {"sarvam_moe", 19, 4096, 128, 6, 1024},
    {"solar_open", 48, 4096, 128, 8, 1280},
    {"step3p5 step3p7", 45, 4096, 288, 8, 1280},
    {"unlimited_ocr unlimited_ocr_text", 12, 1280, 64, 6, 896},
};
// clang-format on

const ClassSizes *compiler::findClassSizes(std::string_view modelType) {
  for (const ClassSizes &row : kClassSizes)
    if (row.modelTypes.contains(modelType))
      return &row;
  return nullptr;
}
