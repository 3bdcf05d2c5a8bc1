// RUN: moec compile %s --arch=sm_90a --max-tokens=1048576 --emit=scheduled | FileCheck %s
// RUN: moec compile %s --arch=sm_90a --max-tokens=16384 --emit=scheduled | FileCheck %s --check-prefix=FEWER
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=1048576 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: FileCheck %s --check-prefix=ROUTE < %t/sm_90a/up_to_1048576_route.cu
// RUN: FileCheck %s --check-prefix=PERMUTE < %t/sm_90a/up_to_1048576_permute.cu

// Every CTA of a permutation sums the counts of all blocks. With very many
// tokens blocks grow in place of their number.

// CHECK: moe.count experts = 8 block_tokens = 16 %
// CHECK: moe.permute experts = 8 {{.*}}block_tokens = 16 capacity
// CHECK: moe.count experts = 8 block_tokens = 64 most_blocks = 256 %
// CHECK: moe.permute experts = 8 {{.*}}block_tokens = 64 most_blocks = 256 capacity
// FEWER-NOT: most_blocks

// ROUTE: kBlockTokens = 64;
// ROUTE-NEXT: static constexpr int kMostBlocks = 256;
// PERMUTE: kBlockTokens = 64;
// PERMUTE-NEXT: static constexpr int kMostBlocks = 256;

// The workspace has no more rows than blocks.

// MANIFEST-DAG: "bytes": "min(ceildiv(tokens, 16), 256) * 32"
// MANIFEST-DAG: "ceildiv(tokens, 64 * ceildiv(tokens, 16384))"
// MANIFEST-DAG: "most_blocks": 256

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
