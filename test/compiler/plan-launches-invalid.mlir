// RUN: moec-opt --moe-plan-launches --split-input-file --verify-diagnostics %s

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
  // expected-error@+1 {{kernel has no schedule; run moe-select-schedule first}}
  moe.kernel @combine kind = combine fields ["partials", "positions", "topk_weights"] results ["out"] {
  ^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
    %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.yield %d : tensor<?x64xbf16>
  }
  moe.variant @all tokens [1, 64] {
    %out = moe.launch @combine(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.return %out outputs ["out"] : (tensor<?x64xbf16>) -> ()
  }
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
  // expected-error@+1 {{the existing plan does not fit this kernel: expected #moe.plan<grid = "tokens", column_blocks = 1, label = "1x64">, got #moe.plan<grid = "tokens * 2", column_blocks = 2, label = "1x32">; remove 'plan' so that it is planned again}}
  moe.kernel @combine kind = combine schedule #moe.combine_schedule<columns = 64, threads = 128, programmatic> plan #moe.plan<grid = "tokens * 2", column_blocks = 2, label = "1x32"> fields ["partials", "positions", "topk_weights"] results ["out"] {
  ^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
    %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.yield %d : tensor<?x64xbf16>
  }
  moe.variant @all tokens [1, 64] {
    %out = moe.launch @combine(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
    moe.return %out outputs ["out"] : (tensor<?x64xbf16>) -> ()
  }
}
