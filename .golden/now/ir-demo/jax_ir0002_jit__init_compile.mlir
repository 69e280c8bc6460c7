module @jit__init attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  sdy.mesh @mesh = <["data"=2, "tensor"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "tensor", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<2xui32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}]>}) -> (tensor<i32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].count", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<64x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['decoder']['embed_tokens']['embedding']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, tensor<3x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['decoder']['layers']['input_layernorm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<3x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['decoder']['layers']['post_attention_layernorm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96x64xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['decoder']['lm_head']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['decoder']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['connector']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['connector']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['embeddings']['conv1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<3x40x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['embeddings']['conv1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['embeddings']['conv2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['final_layer_norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['final_layer_norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['mlp']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['mlp']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['self_attn']['o_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['self_attn']['q_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['self_attn']['v_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['self_attn_layer_norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['layers']['self_attn_layer_norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['audio']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['connector']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['connector']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['embeddings']['patch_embedding']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['embeddings']['patch_embedding']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['embeddings']['position_embedding']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['layer_norm1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['layer_norm1']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['layer_norm2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['layer_norm2']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['mlp']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['mlp']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['self_attn']['k_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['self_attn']['o_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['self_attn']['q_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['layers']['self_attn']['v_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].mu['encoders']['vision']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['decoder']['embed_tokens']['embedding']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, tensor<3x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['decoder']['layers']['input_layernorm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<3x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['decoder']['layers']['post_attention_layernorm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96x64xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['decoder']['lm_head']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['decoder']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['connector']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['connector']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['embeddings']['conv1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<3x40x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['embeddings']['conv1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['embeddings']['conv2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['final_layer_norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['final_layer_norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['mlp']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['mlp']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['self_attn']['o_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['self_attn']['q_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['self_attn']['v_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['self_attn_layer_norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['layers']['self_attn_layer_norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['audio']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['connector']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['connector']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['embeddings']['patch_embedding']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['embeddings']['patch_embedding']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['embeddings']['position_embedding']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['layer_norm1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['layer_norm1']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['layer_norm2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['layer_norm2']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['mlp']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['mlp']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['self_attn']['k_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['self_attn']['o_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['self_attn']['q_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['layers']['self_attn']['v_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[0].nu['encoders']['vision']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<i32> {jax.result_info = "result['optimizer'][1].inner_states['adamw'].inner_state[2].count", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<3x256x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['mlp']['down_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<3x96x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['mlp']['gate_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<3x96x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['mlp']['up_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<3x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['self_attn']['k_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<3x4x24x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['self_attn']['o_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, tensor<3x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['self_attn']['q_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<3x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['decoder']['layers']['self_attn']['v_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<192x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['connector']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<96x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['connector']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, tensor<3x96x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['embeddings']['conv2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['layers']['mlp']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<2x256x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['layers']['mlp']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['layers']['self_attn']['k_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<2x4x24x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['layers']['self_attn']['o_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['layers']['self_attn']['q_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['audio']['layers']['self_attn']['v_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<192x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['connector']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['connector']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96x256xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['layers']['mlp']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x256x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['layers']['mlp']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['layers']['self_attn']['k_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<2x4x24x96xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['layers']['self_attn']['o_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['layers']['self_attn']['q_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[0].trace['encoders']['vision']['layers']['self_attn']['v_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<i32> {jax.result_info = "result['optimizer'][1].inner_states['muon'].inner_state[3].count", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<64x96xf32> {jax.result_info = "result['params']['decoder']['embed_tokens']['embedding']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, tensor<3x96xf32> {jax.result_info = "result['params']['decoder']['layers']['input_layernorm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<3x256x96xf32> {jax.result_info = "result['params']['decoder']['layers']['mlp']['down_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<3x96x256xf32> {jax.result_info = "result['params']['decoder']['layers']['mlp']['gate_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<3x96x256xf32> {jax.result_info = "result['params']['decoder']['layers']['mlp']['up_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<3x96xf32> {jax.result_info = "result['params']['decoder']['layers']['post_attention_layernorm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<3x96x4x24xf32> {jax.result_info = "result['params']['decoder']['layers']['self_attn']['k_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<3x4x24x96xf32> {jax.result_info = "result['params']['decoder']['layers']['self_attn']['o_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, tensor<3x96x4x24xf32> {jax.result_info = "result['params']['decoder']['layers']['self_attn']['q_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<3x96x4x24xf32> {jax.result_info = "result['params']['decoder']['layers']['self_attn']['v_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<96x64xf32> {jax.result_info = "result['params']['decoder']['lm_head']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['params']['decoder']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['audio']['connector']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<192x96xf32> {jax.result_info = "result['params']['encoders']['audio']['connector']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['audio']['connector']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96x96xf32> {jax.result_info = "result['params']['encoders']['audio']['connector']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['audio']['embeddings']['conv1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<3x40x96xf32> {jax.result_info = "result['params']['encoders']['audio']['embeddings']['conv1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['audio']['embeddings']['conv2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<3x96x96xf32> {jax.result_info = "result['params']['encoders']['audio']['embeddings']['conv2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['final_layer_norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['final_layer_norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['mlp']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, tensor<2x96x256xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['mlp']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['mlp']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['mlp']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['k_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['o_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['o_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['q_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['q_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['v_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn']['v_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn_layer_norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['audio']['layers']['self_attn_layer_norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['audio']['norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['audio']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['vision']['connector']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<192x96xf32> {jax.result_info = "result['params']['encoders']['vision']['connector']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['vision']['connector']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96x96xf32> {jax.result_info = "result['params']['encoders']['vision']['connector']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['vision']['embeddings']['patch_embedding']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64x96xf32> {jax.result_info = "result['params']['encoders']['vision']['embeddings']['patch_embedding']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64x96xf32> {jax.result_info = "result['params']['encoders']['vision']['embeddings']['position_embedding']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['layer_norm1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['layer_norm1']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['layer_norm2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['layer_norm2']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['mlp']['fc1']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x96x256xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['mlp']['fc1']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['mlp']['fc2']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x256x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['mlp']['fc2']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['k_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['k_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<2x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['o_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<2x4x24x96xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['o_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['q_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['q_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<2x4x24xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['v_proj']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<2x96x4x24xf32> {jax.result_info = "result['params']['encoders']['vision']['layers']['self_attn']['v_proj']['kernel']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['vision']['norm']['bias']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<96xf32> {jax.result_info = "result['params']['encoders']['vision']['norm']['scale']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<i32> {jax.result_info = "result['step']", sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %0 = call @_threefry_split(%arg0) : (tensor<2xui32>) -> tensor<3x2xui32>
    %1 = stablehlo.slice %0 [0:1, 0:2] : (tensor<3x2xui32>) -> tensor<1x2xui32>
    %2 = stablehlo.reshape %1 : (tensor<1x2xui32>) -> tensor<2xui32>
    %3 = stablehlo.slice %0 [1:2, 0:2] : (tensor<3x2xui32>) -> tensor<1x2xui32>
    %4 = stablehlo.reshape %3 : (tensor<1x2xui32>) -> tensor<2xui32>
    %5 = stablehlo.slice %0 [2:3, 0:2] : (tensor<3x2xui32>) -> tensor<1x2xui32>
    %6 = stablehlo.reshape %5 : (tensor<1x2xui32>) -> tensor<2xui32>
    %c = stablehlo.constant dense<153522652> : tensor<ui32>
    %7 = call @_threefry_fold_in(%2, %c) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_0 = stablehlo.constant dense<0> : tensor<ui32>
    %8 = call @_threefry_fold_in(%7, %c_0) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %9 = call @_normal(%8) : (tensor<2xui32>) -> tensor<64x96xf32>
    %cst = stablehlo.constant dense<0.102062076> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<64x96xf32>
    %c_1 = stablehlo.constant dense<3867733328> : tensor<ui32>
    %12 = call @_threefry_fold_in(%2, %c_1) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %13 = call @_threefry_split(%12) : (tensor<2xui32>) -> tensor<3x2xui32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<ui32>
    %15 = call @_threefry_fold_in_4(%13, %c_3) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %c_4 = stablehlo.constant dense<0> : tensor<ui32>
    %c_5 = stablehlo.constant dense<1> : tensor<ui32>
    %16 = stablehlo.add %c_4, %c_5 : tensor<ui32>
    %17 = call @_normal_7(%15) : (tensor<3x2xui32>) -> tensor<3x96x4x24xf32>
    %cst_6 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %19 = stablehlo.multiply %18, %17 : tensor<3x96x4x24xf32>
    %20 = call @_threefry_fold_in_4(%13, %16) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %c_7 = stablehlo.constant dense<1> : tensor<ui32>
    %21 = stablehlo.add %16, %c_7 : tensor<ui32>
    %22 = call @_normal_7(%20) : (tensor<3x2xui32>) -> tensor<3x96x4x24xf32>
    %cst_8 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %24 = stablehlo.multiply %23, %22 : tensor<3x96x4x24xf32>
    %25 = call @_threefry_fold_in_4(%13, %21) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %c_9 = stablehlo.constant dense<1> : tensor<ui32>
    %26 = stablehlo.add %21, %c_9 : tensor<ui32>
    %27 = call @_normal_7(%25) : (tensor<3x2xui32>) -> tensor<3x96x4x24xf32>
    %cst_10 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %29 = stablehlo.multiply %28, %27 : tensor<3x96x4x24xf32>
    %30 = call @_threefry_fold_in_4(%13, %26) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %c_11 = stablehlo.constant dense<1> : tensor<ui32>
    %31 = stablehlo.add %26, %c_11 : tensor<ui32>
    %32 = call @_normal_12(%30) : (tensor<3x2xui32>) -> tensor<3x4x24x96xf32>
    %cst_12 = stablehlo.constant dense<0.0416666679> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<3x4x24x96xf32>
    %34 = stablehlo.multiply %33, %32 : tensor<3x4x24x96xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %36 = call @_threefry_fold_in_4(%13, %31) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %c_14 = stablehlo.constant dense<1> : tensor<ui32>
    %37 = stablehlo.add %31, %c_14 : tensor<ui32>
    %38 = call @_normal_17(%36) : (tensor<3x2xui32>) -> tensor<3x96x256xf32>
    %cst_15 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<3x96x256xf32>
    %40 = stablehlo.multiply %39, %38 : tensor<3x96x256xf32>
    %41 = call @_threefry_fold_in_4(%13, %37) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %c_16 = stablehlo.constant dense<1> : tensor<ui32>
    %42 = stablehlo.add %37, %c_16 : tensor<ui32>
    %43 = call @_normal_17(%41) : (tensor<3x2xui32>) -> tensor<3x96x256xf32>
    %cst_17 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<3x96x256xf32>
    %45 = stablehlo.multiply %44, %43 : tensor<3x96x256xf32>
    %46 = call @_threefry_fold_in_4(%13, %42) : (tensor<3x2xui32>, tensor<ui32>) -> tensor<3x2xui32>
    %47 = call @_normal_22(%46) : (tensor<3x2xui32>) -> tensor<3x256x96xf32>
    %cst_18 = stablehlo.constant dense<0.0255155191> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<3x256x96xf32>
    %49 = stablehlo.multiply %48, %47 : tensor<3x256x96xf32>
    %50 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<96xf32>) -> tensor<3x96xf32>
    %51 = stablehlo.broadcast_in_dim %35, dims = [1] : (tensor<96xf32>) -> tensor<3x96xf32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_20 = stablehlo.constant dense<1508152561> : tensor<ui32>
    %53 = call @_threefry_fold_in(%2, %c_20) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_21 = stablehlo.constant dense<0> : tensor<ui32>
    %54 = call @_threefry_fold_in(%53, %c_21) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %55 = call @_normal_27(%54) : (tensor<2xui32>) -> tensor<96x64xf32>
    %cst_22 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %57 = stablehlo.multiply %56, %55 : tensor<96x64xf32>
    %c_23 = stablehlo.constant dense<707271345> : tensor<ui32>
    %58 = call @_threefry_fold_in(%6, %c_23) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_24 = stablehlo.constant dense<0> : tensor<ui32>
    %59 = call @_threefry_fold_in(%58, %c_24) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_25 = stablehlo.constant dense<0> : tensor<ui32>
    %c_26 = stablehlo.constant dense<1> : tensor<ui32>
    %60 = stablehlo.add %c_25, %c_26 : tensor<ui32>
    %61 = call @_normal(%59) : (tensor<2xui32>) -> tensor<64x96xf32>
    %cst_27 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %63 = stablehlo.multiply %62, %61 : tensor<64x96xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %65 = call @_threefry_fold_in(%58, %60) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %66 = call @_normal(%65) : (tensor<2xui32>) -> tensor<64x96xf32>
    %cst_29 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %68 = stablehlo.multiply %67, %66 : tensor<64x96xf32>
    %c_30 = stablehlo.constant dense<3867733328> : tensor<ui32>
    %69 = call @_threefry_fold_in(%6, %c_30) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %70 = call @_threefry_split_32(%69) : (tensor<2xui32>) -> tensor<2x2xui32>
    %cst_31 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_33 = stablehlo.constant dense<0> : tensor<ui32>
    %73 = call @_threefry_fold_in_35(%70, %c_33) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_34 = stablehlo.constant dense<0> : tensor<ui32>
    %c_35 = stablehlo.constant dense<1> : tensor<ui32>
    %74 = stablehlo.add %c_34, %c_35 : tensor<ui32>
    %75 = call @_normal_38(%73) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    %cst_36 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %77 = stablehlo.multiply %76, %75 : tensor<2x96x4x24xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %78 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<4x24xf32>
    %79 = call @_threefry_fold_in_35(%70, %74) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_38 = stablehlo.constant dense<1> : tensor<ui32>
    %80 = stablehlo.add %74, %c_38 : tensor<ui32>
    %81 = call @_normal_38(%79) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    %cst_39 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %83 = stablehlo.multiply %82, %81 : tensor<2x96x4x24xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<4x24xf32>
    %85 = call @_threefry_fold_in_35(%70, %80) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_41 = stablehlo.constant dense<1> : tensor<ui32>
    %86 = stablehlo.add %80, %c_41 : tensor<ui32>
    %87 = call @_normal_38(%85) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    %cst_42 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %89 = stablehlo.multiply %88, %87 : tensor<2x96x4x24xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<4x24xf32>
    %91 = call @_threefry_fold_in_35(%70, %86) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_44 = stablehlo.constant dense<1> : tensor<ui32>
    %92 = stablehlo.add %86, %c_44 : tensor<ui32>
    %93 = call @_normal_43(%91) : (tensor<2x2xui32>) -> tensor<2x4x24x96xf32>
    %cst_45 = stablehlo.constant dense<0.0510310382> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<2x4x24x96xf32>
    %95 = stablehlo.multiply %94, %93 : tensor<2x4x24x96xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_47 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %99 = call @_threefry_fold_in_35(%70, %92) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_49 = stablehlo.constant dense<1> : tensor<ui32>
    %100 = stablehlo.add %92, %c_49 : tensor<ui32>
    %101 = call @_normal_48(%99) : (tensor<2x2xui32>) -> tensor<2x96x256xf32>
    %cst_50 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<2x96x256xf32>
    %103 = stablehlo.multiply %102, %101 : tensor<2x96x256xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %105 = call @_threefry_fold_in_35(%70, %100) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %106 = call @_normal_53(%105) : (tensor<2x2xui32>) -> tensor<2x256x96xf32>
    %cst_52 = stablehlo.constant dense<3.125000e-02> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x256x96xf32>
    %108 = stablehlo.multiply %107, %106 : tensor<2x256x96xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %110 = stablehlo.broadcast_in_dim %72, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %111 = stablehlo.broadcast_in_dim %71, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %112 = stablehlo.broadcast_in_dim %98, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %113 = stablehlo.broadcast_in_dim %97, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %114 = stablehlo.broadcast_in_dim %104, dims = [1] : (tensor<256xf32>) -> tensor<2x256xf32>
    %115 = stablehlo.broadcast_in_dim %109, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %116 = stablehlo.broadcast_in_dim %84, dims = [1, 2] : (tensor<4x24xf32>) -> tensor<2x4x24xf32>
    %117 = stablehlo.broadcast_in_dim %96, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %118 = stablehlo.broadcast_in_dim %78, dims = [1, 2] : (tensor<4x24xf32>) -> tensor<2x4x24xf32>
    %119 = stablehlo.broadcast_in_dim %90, dims = [1, 2] : (tensor<4x24xf32>) -> tensor<2x4x24xf32>
    %cst_54 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_56 = stablehlo.constant dense<344737134> : tensor<ui32>
    %122 = call @_threefry_fold_in(%6, %c_56) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_57 = stablehlo.constant dense<0> : tensor<ui32>
    %123 = call @_threefry_fold_in(%122, %c_57) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_58 = stablehlo.constant dense<0> : tensor<ui32>
    %c_59 = stablehlo.constant dense<1> : tensor<ui32>
    %124 = stablehlo.add %c_58, %c_59 : tensor<ui32>
    %125 = call @_normal_58(%123) : (tensor<2xui32>) -> tensor<192x96xf32>
    %cst_60 = stablehlo.constant dense<0.0721687824> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<192x96xf32>
    %127 = stablehlo.multiply %126, %125 : tensor<192x96xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %129 = call @_threefry_fold_in(%122, %124) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %130 = call @_normal_63(%129) : (tensor<2xui32>) -> tensor<96x96xf32>
    %cst_62 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<96x96xf32>
    %132 = stablehlo.multiply %131, %130 : tensor<96x96xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %133 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_64 = stablehlo.constant dense<707271345> : tensor<ui32>
    %134 = call @_threefry_fold_in(%4, %c_64) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_65 = stablehlo.constant dense<0> : tensor<ui32>
    %135 = call @_threefry_fold_in(%134, %c_65) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_66 = stablehlo.constant dense<0> : tensor<ui32>
    %c_67 = stablehlo.constant dense<1> : tensor<ui32>
    %136 = stablehlo.add %c_66, %c_67 : tensor<ui32>
    %137 = call @_normal_68(%135) : (tensor<2xui32>) -> tensor<3x40x96xf32>
    %cst_68 = stablehlo.constant dense<0.0912870914> : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<3x40x96xf32>
    %139 = stablehlo.multiply %138, %137 : tensor<3x40x96xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %141 = call @_threefry_fold_in(%134, %136) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %142 = call @_normal_73(%141) : (tensor<2xui32>) -> tensor<3x96x96xf32>
    %cst_70 = stablehlo.constant dense<0.0589255653> : tensor<f32>
    %143 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<3x96x96xf32>
    %144 = stablehlo.multiply %143, %142 : tensor<3x96x96xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_72 = stablehlo.constant dense<3867733328> : tensor<ui32>
    %146 = call @_threefry_fold_in(%4, %c_72) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %147 = call @_threefry_split_32(%146) : (tensor<2xui32>) -> tensor<2x2xui32>
    %cst_73 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %148 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %149 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_75 = stablehlo.constant dense<0> : tensor<ui32>
    %150 = call @_threefry_fold_in_35(%147, %c_75) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_76 = stablehlo.constant dense<0> : tensor<ui32>
    %c_77 = stablehlo.constant dense<1> : tensor<ui32>
    %151 = stablehlo.add %c_76, %c_77 : tensor<ui32>
    %152 = call @_normal_38(%150) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    %cst_78 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %154 = stablehlo.multiply %153, %152 : tensor<2x96x4x24xf32>
    %cst_79 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %155 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<4x24xf32>
    %156 = call @_threefry_fold_in_35(%147, %151) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_80 = stablehlo.constant dense<1> : tensor<ui32>
    %157 = stablehlo.add %151, %c_80 : tensor<ui32>
    %158 = call @_normal_38(%156) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    %cst_81 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %160 = stablehlo.multiply %159, %158 : tensor<2x96x4x24xf32>
    %161 = call @_threefry_fold_in_35(%147, %157) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_82 = stablehlo.constant dense<1> : tensor<ui32>
    %162 = stablehlo.add %157, %c_82 : tensor<ui32>
    %163 = call @_normal_38(%161) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    %cst_83 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %164 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %165 = stablehlo.multiply %164, %163 : tensor<2x96x4x24xf32>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %166 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x24xf32>
    %167 = call @_threefry_fold_in_35(%147, %162) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_85 = stablehlo.constant dense<1> : tensor<ui32>
    %168 = stablehlo.add %162, %c_85 : tensor<ui32>
    %169 = call @_normal_43(%167) : (tensor<2x2xui32>) -> tensor<2x4x24x96xf32>
    %cst_86 = stablehlo.constant dense<0.0510310382> : tensor<f32>
    %170 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<2x4x24x96xf32>
    %171 = stablehlo.multiply %170, %169 : tensor<2x4x24x96xf32>
    %cst_87 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %172 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_88 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %173 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %175 = call @_threefry_fold_in_35(%147, %168) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %c_90 = stablehlo.constant dense<1> : tensor<ui32>
    %176 = stablehlo.add %168, %c_90 : tensor<ui32>
    %177 = call @_normal_48(%175) : (tensor<2x2xui32>) -> tensor<2x96x256xf32>
    %cst_91 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %178 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<2x96x256xf32>
    %179 = stablehlo.multiply %178, %177 : tensor<2x96x256xf32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %181 = call @_threefry_fold_in_35(%147, %176) : (tensor<2x2xui32>, tensor<ui32>) -> tensor<2x2xui32>
    %182 = call @_normal_53(%181) : (tensor<2x2xui32>) -> tensor<2x256x96xf32>
    %cst_93 = stablehlo.constant dense<3.125000e-02> : tensor<f32>
    %183 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<2x256x96xf32>
    %184 = stablehlo.multiply %183, %182 : tensor<2x256x96xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %185 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %186 = stablehlo.broadcast_in_dim %174, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %187 = stablehlo.broadcast_in_dim %173, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %188 = stablehlo.broadcast_in_dim %180, dims = [1] : (tensor<256xf32>) -> tensor<2x256xf32>
    %189 = stablehlo.broadcast_in_dim %185, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %190 = stablehlo.broadcast_in_dim %172, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %191 = stablehlo.broadcast_in_dim %155, dims = [1, 2] : (tensor<4x24xf32>) -> tensor<2x4x24xf32>
    %192 = stablehlo.broadcast_in_dim %166, dims = [1, 2] : (tensor<4x24xf32>) -> tensor<2x4x24xf32>
    %193 = stablehlo.broadcast_in_dim %149, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %194 = stablehlo.broadcast_in_dim %148, dims = [1] : (tensor<96xf32>) -> tensor<2x96xf32>
    %cst_95 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %196 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %c_97 = stablehlo.constant dense<344737134> : tensor<ui32>
    %197 = call @_threefry_fold_in(%4, %c_97) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_98 = stablehlo.constant dense<0> : tensor<ui32>
    %198 = call @_threefry_fold_in(%197, %c_98) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %c_99 = stablehlo.constant dense<0> : tensor<ui32>
    %c_100 = stablehlo.constant dense<1> : tensor<ui32>
    %199 = stablehlo.add %c_99, %c_100 : tensor<ui32>
    %200 = call @_normal_58(%198) : (tensor<2xui32>) -> tensor<192x96xf32>
    %cst_101 = stablehlo.constant dense<0.0721687824> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<192x96xf32>
    %202 = stablehlo.multiply %201, %200 : tensor<192x96xf32>
    %cst_102 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %203 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %204 = call @_threefry_fold_in(%197, %199) : (tensor<2xui32>, tensor<ui32>) -> tensor<2xui32>
    %205 = call @_normal_63(%204) : (tensor<2xui32>) -> tensor<96x96xf32>
    %cst_103 = stablehlo.constant dense<0.102062076> : tensor<f32>
    %206 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<96x96xf32>
    %207 = stablehlo.multiply %206, %205 : tensor<96x96xf32>
    %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %208 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_105 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %209 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %cst_106 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %210 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<3x96xf32>
    %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %211 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<3x96xf32>
    %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %212 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %213 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_110 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %214 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_111 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_112 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_113 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %217 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<3x40x96xf32>
    %cst_114 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_115 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %219 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %220 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_117 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %221 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<2x256xf32>
    %cst_118 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %222 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_120 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %225 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_122 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %226 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_123 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %227 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %228 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %230 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_127 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %231 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %232 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_129 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %233 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %234 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %cst_131 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_132 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %236 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_133 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_134 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %238 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_135 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %239 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<2x256xf32>
    %cst_136 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %240 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_137 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %241 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_138 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %242 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_139 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_140 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %244 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_141 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %245 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_142 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %246 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_143 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %247 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %cst_144 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %248 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<3x96xf32>
    %cst_145 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %249 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<3x96xf32>
    %cst_146 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %250 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %cst_147 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %251 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_148 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %252 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_149 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %253 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_150 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_151 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %255 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<3x40x96xf32>
    %cst_152 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %256 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_153 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %257 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_154 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %258 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_155 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %259 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<2x256xf32>
    %cst_156 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %260 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_157 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %261 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_158 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %262 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_159 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %263 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_160 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %264 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_161 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %265 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_162 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %266 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_163 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %267 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_164 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %268 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_165 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %269 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_166 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %270 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_167 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %271 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %cst_168 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %cst_169 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %273 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_170 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %274 = stablehlo.broadcast_in_dim %cst_170, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_171 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %275 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_172 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %276 = stablehlo.broadcast_in_dim %cst_172, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_173 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %277 = stablehlo.broadcast_in_dim %cst_173, dims = [] : (tensor<f32>) -> tensor<2x256xf32>
    %cst_174 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %278 = stablehlo.broadcast_in_dim %cst_174, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_175 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_176 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %280 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<2x96xf32>
    %cst_177 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %281 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_178 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %282 = stablehlo.broadcast_in_dim %cst_178, dims = [] : (tensor<f32>) -> tensor<2x4x24xf32>
    %cst_179 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %283 = stablehlo.broadcast_in_dim %cst_179, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_180 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %284 = stablehlo.broadcast_in_dim %cst_180, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %cst_181 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %285 = stablehlo.broadcast_in_dim %cst_181, dims = [] : (tensor<f32>) -> tensor<3x256x96xf32>
    %cst_182 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %286 = stablehlo.broadcast_in_dim %cst_182, dims = [] : (tensor<f32>) -> tensor<3x96x256xf32>
    %cst_183 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %287 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<3x96x256xf32>
    %cst_184 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %288 = stablehlo.broadcast_in_dim %cst_184, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %cst_185 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %289 = stablehlo.broadcast_in_dim %cst_185, dims = [] : (tensor<f32>) -> tensor<3x4x24x96xf32>
    %cst_186 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %290 = stablehlo.broadcast_in_dim %cst_186, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %cst_187 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %291 = stablehlo.broadcast_in_dim %cst_187, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %cst_188 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %292 = stablehlo.broadcast_in_dim %cst_188, dims = [] : (tensor<f32>) -> tensor<192x96xf32>
    %cst_189 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %293 = stablehlo.broadcast_in_dim %cst_189, dims = [] : (tensor<f32>) -> tensor<96x96xf32>
    %cst_190 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %294 = stablehlo.broadcast_in_dim %cst_190, dims = [] : (tensor<f32>) -> tensor<3x96x96xf32>
    %cst_191 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %295 = stablehlo.broadcast_in_dim %cst_191, dims = [] : (tensor<f32>) -> tensor<2x96x256xf32>
    %cst_192 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %296 = stablehlo.broadcast_in_dim %cst_192, dims = [] : (tensor<f32>) -> tensor<2x256x96xf32>
    %cst_193 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %297 = stablehlo.broadcast_in_dim %cst_193, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %cst_194 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %298 = stablehlo.broadcast_in_dim %cst_194, dims = [] : (tensor<f32>) -> tensor<2x4x24x96xf32>
    %cst_195 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %299 = stablehlo.broadcast_in_dim %cst_195, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %cst_196 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %300 = stablehlo.broadcast_in_dim %cst_196, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %cst_197 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %301 = stablehlo.broadcast_in_dim %cst_197, dims = [] : (tensor<f32>) -> tensor<192x96xf32>
    %cst_198 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %302 = stablehlo.broadcast_in_dim %cst_198, dims = [] : (tensor<f32>) -> tensor<96x96xf32>
    %cst_199 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %303 = stablehlo.broadcast_in_dim %cst_199, dims = [] : (tensor<f32>) -> tensor<2x96x256xf32>
    %cst_200 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %304 = stablehlo.broadcast_in_dim %cst_200, dims = [] : (tensor<f32>) -> tensor<2x256x96xf32>
    %cst_201 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %305 = stablehlo.broadcast_in_dim %cst_201, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %cst_202 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %306 = stablehlo.broadcast_in_dim %cst_202, dims = [] : (tensor<f32>) -> tensor<2x4x24x96xf32>
    %cst_203 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %307 = stablehlo.broadcast_in_dim %cst_203, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %cst_204 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %308 = stablehlo.broadcast_in_dim %cst_204, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %c_205 = stablehlo.constant dense<0> : tensor<i32>
    %c_206 = stablehlo.constant dense<0> : tensor<i32>
    %c_207 = stablehlo.constant dense<0> : tensor<i32>
    %c_208 = stablehlo.constant dense<0> : tensor<i32>
    return %c_205, %209, %210, %211, %212, %213, %214, %215, %216, %217, %218, %219, %220, %221, %222, %223, %224, %225, %226, %227, %228, %229, %230, %231, %232, %233, %234, %235, %236, %237, %238, %239, %240, %241, %242, %243, %244, %245, %246, %247, %248, %249, %250, %251, %252, %253, %254, %255, %256, %257, %258, %259, %260, %261, %262, %263, %264, %265, %266, %267, %268, %269, %270, %271, %272, %273, %274, %275, %276, %277, %278, %279, %280, %281, %282, %283, %284, %c_206, %285, %286, %287, %288, %289, %290, %291, %292, %293, %294, %295, %296, %297, %298, %299, %300, %301, %302, %303, %304, %305, %306, %307, %308, %c_207, %11, %50, %49, %40, %45, %51, %24, %34, %19, %29, %57, %52, %203, %202, %208, %207, %140, %139, %145, %144, %186, %187, %188, %179, %189, %184, %160, %190, %171, %191, %154, %192, %165, %193, %194, %196, %195, %128, %127, %133, %132, %64, %63, %68, %110, %111, %112, %113, %114, %103, %115, %108, %116, %83, %117, %95, %118, %77, %119, %89, %121, %120, %c_208 : tensor<i32>, tensor<64x96xf32>, tensor<3x96xf32>, tensor<3x96xf32>, tensor<96x64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<3x40x96xf32>, tensor<96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96xf32>, tensor<2x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24xf32>, tensor<2x4x24xf32>, tensor<96xf32>, tensor<96xf32>, tensor<64x96xf32>, tensor<3x96xf32>, tensor<3x96xf32>, tensor<96x64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<3x40x96xf32>, tensor<96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96xf32>, tensor<2x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24xf32>, tensor<2x4x24xf32>, tensor<96xf32>, tensor<96xf32>, tensor<i32>, tensor<3x256x96xf32>, tensor<3x96x256xf32>, tensor<3x96x256xf32>, tensor<3x96x4x24xf32>, tensor<3x4x24x96xf32>, tensor<3x96x4x24xf32>, tensor<3x96x4x24xf32>, tensor<192x96xf32>, tensor<96x96xf32>, tensor<3x96x96xf32>, tensor<2x96x256xf32>, tensor<2x256x96xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24x96xf32>, tensor<2x96x4x24xf32>, tensor<2x96x4x24xf32>, tensor<192x96xf32>, tensor<96x96xf32>, tensor<2x96x256xf32>, tensor<2x256x96xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24x96xf32>, tensor<2x96x4x24xf32>, tensor<2x96x4x24xf32>, tensor<i32>, tensor<64x96xf32>, tensor<3x96xf32>, tensor<3x256x96xf32>, tensor<3x96x256xf32>, tensor<3x96x256xf32>, tensor<3x96xf32>, tensor<3x96x4x24xf32>, tensor<3x4x24x96xf32>, tensor<3x96x4x24xf32>, tensor<3x96x4x24xf32>, tensor<96x64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<192x96xf32>, tensor<96xf32>, tensor<96x96xf32>, tensor<96xf32>, tensor<3x40x96xf32>, tensor<96xf32>, tensor<3x96x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<192x96xf32>, tensor<96xf32>, tensor<96x96xf32>, tensor<96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<96xf32>, tensor<96xf32>, tensor<i32>
  }
  func.func private @_threefry_split(%arg0: tensor<2xui32>) -> tensor<3x2xui32> {
    %0 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %1 = stablehlo.reshape %0 : (tensor<1xui32>) -> tensor<ui32>
    %2 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.iota dim = 0 : tensor<3xui64>
    %c = stablehlo.constant dense<1> : tensor<ui64>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<3xui64>
    %6 = stablehlo.multiply %5, %4 : tensor<3xui64>
    %c_0 = stablehlo.constant dense<32> : tensor<ui64>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<3xui64>
    %8 = stablehlo.shift_right_logical %6, %7 : tensor<3xui64>
    %9 = stablehlo.convert %6 : (tensor<3xui64>) -> tensor<3xui32>
    %10 = stablehlo.convert %8 : (tensor<3xui64>) -> tensor<3xui32>
    %11:2 = call @threefry2x32(%1, %3, %10, %9) : (tensor<ui32>, tensor<ui32>, tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>)
    %12 = stablehlo.broadcast_in_dim %11#0, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %13 = stablehlo.broadcast_in_dim %11#1, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %14 = stablehlo.concatenate %12, %13, dim = 1 : (tensor<3x1xui32>, tensor<3x1xui32>) -> tensor<3x2xui32>
    return %14 : tensor<3x2xui32>
  }
  func.func private @threefry2x32(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<3xui32>, %arg3: tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<3xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<3xui32>, tensor<3xui32>
  }
  func.func private @closed_call(%arg0: tensor<i32>, %arg1: tensor<3xui32>, %arg2: tensor<3xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3xui32>
    %9 = stablehlo.or %5, %8 : tensor<3xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3xui32>
    %19 = stablehlo.or %15, %18 : tensor<3xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3xui32>
    %29 = stablehlo.or %25, %28 : tensor<3xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3xui32>
    %39 = stablehlo.or %35, %38 : tensor<3xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %42 = stablehlo.add %33, %41 : tensor<3xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %44 = stablehlo.add %40, %43 : tensor<3xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %48 = stablehlo.add %44, %47 : tensor<3xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_threefry_fold_in(%arg0: tensor<2xui32>, %arg1: tensor<ui32>) -> tensor<2xui32> {
    %c = stablehlo.constant dense<32> : tensor<ui32>
    %0 = stablehlo.shift_right_logical %arg1, %c : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %c_0 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %2 = stablehlo.and %arg1, %c_0 : tensor<ui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %4 = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
    %5 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %6 = stablehlo.reshape %5 : (tensor<1xui32>) -> tensor<ui32>
    %7 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %8 = stablehlo.reshape %7 : (tensor<1xui32>) -> tensor<ui32>
    %9 = stablehlo.slice %4 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %10 = stablehlo.slice %4 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %11:2 = call @threefry2x32_0(%6, %8, %9, %10) : (tensor<ui32>, tensor<ui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)
    %12 = stablehlo.concatenate %11#0, %11#1, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
    return %12 : tensor<2xui32>
  }
  func.func private @threefry2x32_0(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<1xui32>, %arg3: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<1xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<1xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_1(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<1xui32>, tensor<1xui32>
  }
  func.func private @closed_call_1(%arg0: tensor<i32>, %arg1: tensor<1xui32>, %arg2: tensor<1xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<1xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<1xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<1xui32>
    %9 = stablehlo.or %5, %8 : tensor<1xui32>
    %10 = stablehlo.xor %3, %9 : tensor<1xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<1xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<1xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<1xui32>
    %19 = stablehlo.or %15, %18 : tensor<1xui32>
    %20 = stablehlo.xor %13, %19 : tensor<1xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<1xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<1xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<1xui32>
    %29 = stablehlo.or %25, %28 : tensor<1xui32>
    %30 = stablehlo.xor %23, %29 : tensor<1xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<1xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<1xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<1xui32>
    %39 = stablehlo.or %35, %38 : tensor<1xui32>
    %40 = stablehlo.xor %33, %39 : tensor<1xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %42 = stablehlo.add %33, %41 : tensor<1xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %44 = stablehlo.add %40, %43 : tensor<1xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %48 = stablehlo.add %44, %47 : tensor<1xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<1xui32>, tensor<1xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal(%arg0: tensor<2xui32>) -> tensor<64x96xf32> {
    %0 = call @_normal_real(%arg0) : (tensor<2xui32>) -> tensor<64x96xf32>
    return %0 : tensor<64x96xf32>
  }
  func.func private @_normal_real(%arg0: tensor<2xui32>) -> tensor<64x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<64x96xf32>
    %1 = chlo.erf_inv %0 : tensor<64x96xf32> -> tensor<64x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<64x96xf32>
    return %3 : tensor<64x96xf32>
  }
  func.func private @_uniform(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<64x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.iota dim = 0 : tensor<64x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<64x96xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<64x96xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<64x96xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<64x96xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<64x96xui64>
    %12 = stablehlo.add %9, %11 : tensor<64x96xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<64x96xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<64x96xui64>
    %15 = stablehlo.convert %12 : (tensor<64x96xui64>) -> tensor<64x96xui32>
    %16 = stablehlo.convert %14 : (tensor<64x96xui64>) -> tensor<64x96xui32>
    %17:2 = call @threefry2x32_2(%3, %5, %16, %15) : (tensor<ui32>, tensor<ui32>, tensor<64x96xui32>, tensor<64x96xui32>) -> (tensor<64x96xui32>, tensor<64x96xui32>)
    %18 = stablehlo.xor %17#0, %17#1 : tensor<64x96xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %20 = stablehlo.shift_right_logical %18, %19 : tensor<64x96xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %21 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %22 = stablehlo.or %20, %21 : tensor<64x96xui32>
    %23 = stablehlo.bitcast_convert %22 : (tensor<64x96xui32>) -> tensor<64x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %25 = stablehlo.subtract %23, %24 : tensor<64x96xf32>
    %26 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<64x96xf32>
    %28 = stablehlo.multiply %25, %27 : tensor<64x96xf32>
    %29 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<64x96xf32>
    %30 = stablehlo.add %28, %29 : tensor<64x96xf32>
    %31 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<64x96xf32>
    %32 = stablehlo.maximum %31, %30 : tensor<64x96xf32>
    return %32 : tensor<64x96xf32>
  }
  func.func private @threefry2x32_2(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<64x96xui32>, %arg3: tensor<64x96xui32>) -> (tensor<64x96xui32>, tensor<64x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<64x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<64x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<64x96xui32>, tensor<64x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_3(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<64x96xui32>, tensor<64x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<64x96xui32>, tensor<64x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<64x96xui32>, tensor<64x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<64x96xui32>, tensor<64x96xui32>
  }
  func.func private @closed_call_3(%arg0: tensor<i32>, %arg1: tensor<64x96xui32>, %arg2: tensor<64x96xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<64x96xui32>, tensor<64x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<64x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<64x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<64x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<64x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<64x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<64x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<64x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<64x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<64x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<64x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<64x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<64x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<64x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<64x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<64x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<64x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<64x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<64x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<64x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<64x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<64x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<64x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<64x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<64x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<64x96xui32>, tensor<64x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_threefry_fold_in_4(%arg0: tensor<3x2xui32>, %arg1: tensor<ui32>) -> tensor<3x2xui32> {
    %c = stablehlo.constant dense<32> : tensor<ui32>
    %0 = stablehlo.shift_right_logical %arg1, %c : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %c_0 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %2 = stablehlo.and %arg1, %c_0 : tensor<ui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %4 = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
    %5 = stablehlo.slice %arg0 [0:3, 0:1] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %6 = stablehlo.reshape %5 : (tensor<3x1xui32>) -> tensor<3xui32>
    %7 = stablehlo.slice %arg0 [0:3, 1:2] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %8 = stablehlo.reshape %7 : (tensor<3x1xui32>) -> tensor<3xui32>
    %9 = stablehlo.slice %4 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %10 = stablehlo.slice %4 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<1xui32>) -> tensor<1x1xui32>
    %12 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<1xui32>) -> tensor<1x1xui32>
    %13 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %14 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %15:2 = call @threefry2x32_5(%13, %14, %11, %12) : (tensor<3x1xui32>, tensor<3x1xui32>, tensor<1x1xui32>, tensor<1x1xui32>) -> (tensor<3x1xui32>, tensor<3x1xui32>)
    %16 = stablehlo.concatenate %15#0, %15#1, dim = 1 : (tensor<3x1xui32>, tensor<3x1xui32>) -> tensor<3x2xui32>
    return %16 : tensor<3x2xui32>
  }
  func.func private @threefry2x32_5(%arg0: tensor<3x1xui32>, %arg1: tensor<3x1xui32>, %arg2: tensor<1x1xui32>, %arg3: tensor<1x1xui32>) -> (tensor<3x1xui32>, tensor<3x1xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<3x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<3x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<1x1xui32>) -> tensor<3x1xui32>
    %4 = stablehlo.add %3, %arg0 : tensor<3x1xui32>
    %5 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1] : (tensor<1x1xui32>) -> tensor<3x1xui32>
    %6 = stablehlo.add %5, %arg1 : tensor<3x1xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %7:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %4, %iterArg_6 = %6, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %8 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    } do {
      %8:8 = func.call @closed_call_6(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %9, %8#0, %8#1, %8#2, %8#3, %8#4, %8#5, %8#6, %8#7 : tensor<i32>, tensor<i32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %7#2, %7#3 : tensor<3x1xui32>, tensor<3x1xui32>
  }
  func.func private @closed_call_6(%arg0: tensor<i32>, %arg1: tensor<3x1xui32>, %arg2: tensor<3x1xui32>, %arg3: tensor<3x1xui32>, %arg4: tensor<3x1xui32>, %arg5: tensor<3x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x1xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x1xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x1xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x1xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x1xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x1xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x1xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x1xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x1xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x1xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x1xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x1xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x1xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x1xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x1xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x1xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x1xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x1xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x1xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x1xui32>
    %41 = stablehlo.add %33, %arg3 : tensor<3x1xui32>
    %42 = stablehlo.add %40, %arg4 : tensor<3x1xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %43 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %44 = stablehlo.convert %43 : (tensor<i32>) -> tensor<ui32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [] : (tensor<ui32>) -> tensor<3x1xui32>
    %46 = stablehlo.add %42, %45 : tensor<3x1xui32>
    return %0, %41, %46, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<3x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_7(%arg0: tensor<3x2xui32>) -> tensor<3x96x4x24xf32> {
    %0 = call @_normal_real_8(%arg0) : (tensor<3x2xui32>) -> tensor<3x96x4x24xf32>
    return %0 : tensor<3x96x4x24xf32>
  }
  func.func private @_normal_real_8(%arg0: tensor<3x2xui32>) -> tensor<3x96x4x24xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_9(%arg0, %cst, %cst_0) : (tensor<3x2xui32>, tensor<f32>, tensor<f32>) -> tensor<3x96x4x24xf32>
    %1 = chlo.erf_inv %0 : tensor<3x96x4x24xf32> -> tensor<3x96x4x24xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<3x96x4x24xf32>
    return %3 : tensor<3x96x4x24xf32>
  }
  func.func private @_uniform_9(%arg0: tensor<3x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<3x96x4x24xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %2 = stablehlo.slice %arg0 [0:3, 0:1] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<3x1xui32>) -> tensor<3xui32>
    %4 = stablehlo.slice %arg0 [0:3, 1:2] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<3x1xui32>) -> tensor<3xui32>
    %6 = stablehlo.iota dim = 0 : tensor<96x4x24xui64>
    %7 = stablehlo.iota dim = 1 : tensor<96x4x24xui64>
    %8 = stablehlo.iota dim = 2 : tensor<96x4x24xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %10 = stablehlo.multiply %9, %6 : tensor<96x4x24xui64>
    %c_0 = stablehlo.constant dense<24> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %12 = stablehlo.multiply %11, %7 : tensor<96x4x24xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %14 = stablehlo.multiply %13, %8 : tensor<96x4x24xui64>
    %15 = stablehlo.add %10, %12 : tensor<96x4x24xui64>
    %16 = stablehlo.add %15, %14 : tensor<96x4x24xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<96x4x24xui64>
    %19 = stablehlo.convert %16 : (tensor<96x4x24xui64>) -> tensor<96x4x24xui32>
    %20 = stablehlo.convert %18 : (tensor<96x4x24xui64>) -> tensor<96x4x24xui32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [1, 2, 3] : (tensor<96x4x24xui32>) -> tensor<1x96x4x24xui32>
    %22 = stablehlo.broadcast_in_dim %19, dims = [1, 2, 3] : (tensor<96x4x24xui32>) -> tensor<1x96x4x24xui32>
    %23 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1x1xui32>
    %24 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1x1xui32>
    %25:2 = call @threefry2x32_10(%23, %24, %21, %22) : (tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<1x96x4x24xui32>, tensor<1x96x4x24xui32>) -> (tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>)
    %26 = stablehlo.xor %25#0, %25#1 : tensor<3x96x4x24xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %28 = stablehlo.shift_right_logical %26, %27 : tensor<3x96x4x24xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %29 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %30 = stablehlo.or %28, %29 : tensor<3x96x4x24xui32>
    %31 = stablehlo.bitcast_convert %30 : (tensor<3x96x4x24xui32>) -> tensor<3x96x4x24xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x96x4x24xf32>
    %33 = stablehlo.subtract %31, %32 : tensor<3x96x4x24xf32>
    %34 = stablehlo.subtract %1, %0 : tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<3x96x4x24xf32>
    %37 = stablehlo.multiply %33, %36 : tensor<3x96x4x24xf32>
    %38 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<3x96x4x24xf32>
    %40 = stablehlo.add %37, %39 : tensor<3x96x4x24xf32>
    %41 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<3x96x4x24xf32>
    %43 = stablehlo.maximum %42, %40 : tensor<3x96x4x24xf32>
    return %43 : tensor<3x96x4x24xf32>
  }
  func.func private @threefry2x32_10(%arg0: tensor<3x1x1x1xui32>, %arg1: tensor<3x1x1x1xui32>, %arg2: tensor<1x96x4x24xui32>, %arg3: tensor<1x96x4x24xui32>) -> (tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<3x1x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<3x1x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<3x1x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x96x4x24xui32>) -> tensor<3x96x4x24xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x96x4x24xui32>
    %5 = stablehlo.add %3, %4 : tensor<3x96x4x24xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x96x4x24xui32>) -> tensor<3x96x4x24xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x96x4x24xui32>
    %8 = stablehlo.add %6, %7 : tensor<3x96x4x24xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_11(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>
  }
  func.func private @closed_call_11(%arg0: tensor<i32>, %arg1: tensor<3x96x4x24xui32>, %arg2: tensor<3x96x4x24xui32>, %arg3: tensor<3x1x1x1xui32>, %arg4: tensor<3x1x1x1xui32>, %arg5: tensor<3x1x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x96x4x24xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x96x4x24xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x96x4x24xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x96x4x24xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x96x4x24xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x96x4x24xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x96x4x24xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x96x4x24xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x96x4x24xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x96x4x24xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x96x4x24xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x96x4x24xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x96x4x24xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x96x4x24xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x96x4x24xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x96x4x24xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x96x4x24xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x96x4x24xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x96x4x24xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x96x4x24xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x96x4x24xui32>
    %42 = stablehlo.add %33, %41 : tensor<3x96x4x24xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x96x4x24xui32>
    %44 = stablehlo.add %40, %43 : tensor<3x96x4x24xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3x96x4x24xui32>
    %48 = stablehlo.add %44, %47 : tensor<3x96x4x24xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x96x4x24xui32>, tensor<3x96x4x24xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_12(%arg0: tensor<3x2xui32>) -> tensor<3x4x24x96xf32> {
    %0 = call @_normal_real_13(%arg0) : (tensor<3x2xui32>) -> tensor<3x4x24x96xf32>
    return %0 : tensor<3x4x24x96xf32>
  }
  func.func private @_normal_real_13(%arg0: tensor<3x2xui32>) -> tensor<3x4x24x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_14(%arg0, %cst, %cst_0) : (tensor<3x2xui32>, tensor<f32>, tensor<f32>) -> tensor<3x4x24x96xf32>
    %1 = chlo.erf_inv %0 : tensor<3x4x24x96xf32> -> tensor<3x4x24x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x4x24x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<3x4x24x96xf32>
    return %3 : tensor<3x4x24x96xf32>
  }
  func.func private @_uniform_14(%arg0: tensor<3x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<3x4x24x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %2 = stablehlo.slice %arg0 [0:3, 0:1] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<3x1xui32>) -> tensor<3xui32>
    %4 = stablehlo.slice %arg0 [0:3, 1:2] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<3x1xui32>) -> tensor<3xui32>
    %6 = stablehlo.iota dim = 0 : tensor<4x24x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<4x24x96xui64>
    %8 = stablehlo.iota dim = 2 : tensor<4x24x96xui64>
    %c = stablehlo.constant dense<2304> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %10 = stablehlo.multiply %9, %6 : tensor<4x24x96xui64>
    %c_0 = stablehlo.constant dense<96> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %12 = stablehlo.multiply %11, %7 : tensor<4x24x96xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %14 = stablehlo.multiply %13, %8 : tensor<4x24x96xui64>
    %15 = stablehlo.add %10, %12 : tensor<4x24x96xui64>
    %16 = stablehlo.add %15, %14 : tensor<4x24x96xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<4x24x96xui64>
    %19 = stablehlo.convert %16 : (tensor<4x24x96xui64>) -> tensor<4x24x96xui32>
    %20 = stablehlo.convert %18 : (tensor<4x24x96xui64>) -> tensor<4x24x96xui32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [1, 2, 3] : (tensor<4x24x96xui32>) -> tensor<1x4x24x96xui32>
    %22 = stablehlo.broadcast_in_dim %19, dims = [1, 2, 3] : (tensor<4x24x96xui32>) -> tensor<1x4x24x96xui32>
    %23 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1x1xui32>
    %24 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1x1xui32>
    %25:2 = call @threefry2x32_15(%23, %24, %21, %22) : (tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<1x4x24x96xui32>, tensor<1x4x24x96xui32>) -> (tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>)
    %26 = stablehlo.xor %25#0, %25#1 : tensor<3x4x24x96xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %28 = stablehlo.shift_right_logical %26, %27 : tensor<3x4x24x96xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %29 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %30 = stablehlo.or %28, %29 : tensor<3x4x24x96xui32>
    %31 = stablehlo.bitcast_convert %30 : (tensor<3x4x24x96xui32>) -> tensor<3x4x24x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x4x24x96xf32>
    %33 = stablehlo.subtract %31, %32 : tensor<3x4x24x96xf32>
    %34 = stablehlo.subtract %1, %0 : tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<3x4x24x96xf32>
    %37 = stablehlo.multiply %33, %36 : tensor<3x4x24x96xf32>
    %38 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<3x4x24x96xf32>
    %40 = stablehlo.add %37, %39 : tensor<3x4x24x96xf32>
    %41 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<3x4x24x96xf32>
    %43 = stablehlo.maximum %42, %40 : tensor<3x4x24x96xf32>
    return %43 : tensor<3x4x24x96xf32>
  }
  func.func private @threefry2x32_15(%arg0: tensor<3x1x1x1xui32>, %arg1: tensor<3x1x1x1xui32>, %arg2: tensor<1x4x24x96xui32>, %arg3: tensor<1x4x24x96xui32>) -> (tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<3x1x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<3x1x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<3x1x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x4x24x96xui32>) -> tensor<3x4x24x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x4x24x96xui32>
    %5 = stablehlo.add %3, %4 : tensor<3x4x24x96xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x4x24x96xui32>) -> tensor<3x4x24x96xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x4x24x96xui32>
    %8 = stablehlo.add %6, %7 : tensor<3x4x24x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_16(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>
  }
  func.func private @closed_call_16(%arg0: tensor<i32>, %arg1: tensor<3x4x24x96xui32>, %arg2: tensor<3x4x24x96xui32>, %arg3: tensor<3x1x1x1xui32>, %arg4: tensor<3x1x1x1xui32>, %arg5: tensor<3x1x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x4x24x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x4x24x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x4x24x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x4x24x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x4x24x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x4x24x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x4x24x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x4x24x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x4x24x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x4x24x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x4x24x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x4x24x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x4x24x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x4x24x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x4x24x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x4x24x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x4x24x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x4x24x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x4x24x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x4x24x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x4x24x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<3x4x24x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<3x1x1x1xui32>) -> tensor<3x4x24x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<3x4x24x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3x4x24x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<3x4x24x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x4x24x96xui32>, tensor<3x4x24x96xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<3x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_17(%arg0: tensor<3x2xui32>) -> tensor<3x96x256xf32> {
    %0 = call @_normal_real_18(%arg0) : (tensor<3x2xui32>) -> tensor<3x96x256xf32>
    return %0 : tensor<3x96x256xf32>
  }
  func.func private @_normal_real_18(%arg0: tensor<3x2xui32>) -> tensor<3x96x256xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_19(%arg0, %cst, %cst_0) : (tensor<3x2xui32>, tensor<f32>, tensor<f32>) -> tensor<3x96x256xf32>
    %1 = chlo.erf_inv %0 : tensor<3x96x256xf32> -> tensor<3x96x256xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x96x256xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<3x96x256xf32>
    return %3 : tensor<3x96x256xf32>
  }
  func.func private @_uniform_19(%arg0: tensor<3x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<3x96x256xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:3, 0:1] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<3x1xui32>) -> tensor<3xui32>
    %4 = stablehlo.slice %arg0 [0:3, 1:2] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<3x1xui32>) -> tensor<3xui32>
    %6 = stablehlo.iota dim = 0 : tensor<96x256xui64>
    %7 = stablehlo.iota dim = 1 : tensor<96x256xui64>
    %c = stablehlo.constant dense<256> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<96x256xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<96x256xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<96x256xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<96x256xui64>
    %12 = stablehlo.add %9, %11 : tensor<96x256xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<96x256xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<96x256xui64>
    %15 = stablehlo.convert %12 : (tensor<96x256xui64>) -> tensor<96x256xui32>
    %16 = stablehlo.convert %14 : (tensor<96x256xui64>) -> tensor<96x256xui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1, 2] : (tensor<96x256xui32>) -> tensor<1x96x256xui32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [1, 2] : (tensor<96x256xui32>) -> tensor<1x96x256xui32>
    %19 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1xui32>
    %20 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1xui32>
    %21:2 = call @threefry2x32_20(%19, %20, %17, %18) : (tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<1x96x256xui32>, tensor<1x96x256xui32>) -> (tensor<3x96x256xui32>, tensor<3x96x256xui32>)
    %22 = stablehlo.xor %21#0, %21#1 : tensor<3x96x256xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %23 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %24 = stablehlo.shift_right_logical %22, %23 : tensor<3x96x256xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %26 = stablehlo.or %24, %25 : tensor<3x96x256xui32>
    %27 = stablehlo.bitcast_convert %26 : (tensor<3x96x256xui32>) -> tensor<3x96x256xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x96x256xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<3x96x256xf32>
    %30 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x96x256xf32>
    %33 = stablehlo.multiply %29, %32 : tensor<3x96x256xf32>
    %34 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x96x256xf32>
    %36 = stablehlo.add %33, %35 : tensor<3x96x256xf32>
    %37 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x96x256xf32>
    %39 = stablehlo.maximum %38, %36 : tensor<3x96x256xf32>
    return %39 : tensor<3x96x256xf32>
  }
  func.func private @threefry2x32_20(%arg0: tensor<3x1x1xui32>, %arg1: tensor<3x1x1xui32>, %arg2: tensor<1x96x256xui32>, %arg3: tensor<1x96x256xui32>) -> (tensor<3x96x256xui32>, tensor<3x96x256xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<3x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<3x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<3x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2] : (tensor<1x96x256xui32>) -> tensor<3x96x256xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x96x256xui32>
    %5 = stablehlo.add %3, %4 : tensor<3x96x256xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<1x96x256xui32>) -> tensor<3x96x256xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x96x256xui32>
    %8 = stablehlo.add %6, %7 : tensor<3x96x256xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x96x256xui32>, tensor<3x96x256xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_21(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x96x256xui32>, tensor<3x96x256xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x96x256xui32>, tensor<3x96x256xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<3x96x256xui32>, tensor<3x96x256xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<3x96x256xui32>, tensor<3x96x256xui32>
  }
  func.func private @closed_call_21(%arg0: tensor<i32>, %arg1: tensor<3x96x256xui32>, %arg2: tensor<3x96x256xui32>, %arg3: tensor<3x1x1xui32>, %arg4: tensor<3x1x1xui32>, %arg5: tensor<3x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x96x256xui32>, tensor<3x96x256xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x96x256xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x96x256xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x96x256xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x96x256xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x96x256xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x96x256xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x96x256xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x96x256xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x96x256xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x96x256xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x96x256xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x96x256xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x96x256xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x96x256xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x96x256xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x96x256xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x96x256xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x96x256xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x96x256xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x96x256xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x96x256xui32>
    %42 = stablehlo.add %33, %41 : tensor<3x96x256xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x96x256xui32>
    %44 = stablehlo.add %40, %43 : tensor<3x96x256xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3x96x256xui32>
    %48 = stablehlo.add %44, %47 : tensor<3x96x256xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x96x256xui32>, tensor<3x96x256xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_22(%arg0: tensor<3x2xui32>) -> tensor<3x256x96xf32> {
    %0 = call @_normal_real_23(%arg0) : (tensor<3x2xui32>) -> tensor<3x256x96xf32>
    return %0 : tensor<3x256x96xf32>
  }
  func.func private @_normal_real_23(%arg0: tensor<3x2xui32>) -> tensor<3x256x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_24(%arg0, %cst, %cst_0) : (tensor<3x2xui32>, tensor<f32>, tensor<f32>) -> tensor<3x256x96xf32>
    %1 = chlo.erf_inv %0 : tensor<3x256x96xf32> -> tensor<3x256x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x256x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<3x256x96xf32>
    return %3 : tensor<3x256x96xf32>
  }
  func.func private @_uniform_24(%arg0: tensor<3x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<3x256x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:3, 0:1] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<3x1xui32>) -> tensor<3xui32>
    %4 = stablehlo.slice %arg0 [0:3, 1:2] : (tensor<3x2xui32>) -> tensor<3x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<3x1xui32>) -> tensor<3xui32>
    %6 = stablehlo.iota dim = 0 : tensor<256x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<256x96xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<256x96xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<256x96xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<256x96xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<256x96xui64>
    %12 = stablehlo.add %9, %11 : tensor<256x96xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<256x96xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<256x96xui64>
    %15 = stablehlo.convert %12 : (tensor<256x96xui64>) -> tensor<256x96xui32>
    %16 = stablehlo.convert %14 : (tensor<256x96xui64>) -> tensor<256x96xui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1, 2] : (tensor<256x96xui32>) -> tensor<1x256x96xui32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [1, 2] : (tensor<256x96xui32>) -> tensor<1x256x96xui32>
    %19 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1xui32>
    %20 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<3xui32>) -> tensor<3x1x1xui32>
    %21:2 = call @threefry2x32_25(%19, %20, %17, %18) : (tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<1x256x96xui32>, tensor<1x256x96xui32>) -> (tensor<3x256x96xui32>, tensor<3x256x96xui32>)
    %22 = stablehlo.xor %21#0, %21#1 : tensor<3x256x96xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %23 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %24 = stablehlo.shift_right_logical %22, %23 : tensor<3x256x96xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %26 = stablehlo.or %24, %25 : tensor<3x256x96xui32>
    %27 = stablehlo.bitcast_convert %26 : (tensor<3x256x96xui32>) -> tensor<3x256x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x256x96xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<3x256x96xf32>
    %30 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x256x96xf32>
    %33 = stablehlo.multiply %29, %32 : tensor<3x256x96xf32>
    %34 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x256x96xf32>
    %36 = stablehlo.add %33, %35 : tensor<3x256x96xf32>
    %37 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x256x96xf32>
    %39 = stablehlo.maximum %38, %36 : tensor<3x256x96xf32>
    return %39 : tensor<3x256x96xf32>
  }
  func.func private @threefry2x32_25(%arg0: tensor<3x1x1xui32>, %arg1: tensor<3x1x1xui32>, %arg2: tensor<1x256x96xui32>, %arg3: tensor<1x256x96xui32>) -> (tensor<3x256x96xui32>, tensor<3x256x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<3x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<3x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<3x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2] : (tensor<1x256x96xui32>) -> tensor<3x256x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x256x96xui32>
    %5 = stablehlo.add %3, %4 : tensor<3x256x96xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<1x256x96xui32>) -> tensor<3x256x96xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x256x96xui32>
    %8 = stablehlo.add %6, %7 : tensor<3x256x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x256x96xui32>, tensor<3x256x96xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_26(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x256x96xui32>, tensor<3x256x96xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x256x96xui32>, tensor<3x256x96xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<3x256x96xui32>, tensor<3x256x96xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<3x256x96xui32>, tensor<3x256x96xui32>
  }
  func.func private @closed_call_26(%arg0: tensor<i32>, %arg1: tensor<3x256x96xui32>, %arg2: tensor<3x256x96xui32>, %arg3: tensor<3x1x1xui32>, %arg4: tensor<3x1x1xui32>, %arg5: tensor<3x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x256x96xui32>, tensor<3x256x96xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x256x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x256x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x256x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x256x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x256x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x256x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x256x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x256x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x256x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x256x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x256x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x256x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x256x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x256x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x256x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x256x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x256x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x256x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x256x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x256x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x256x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<3x256x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2] : (tensor<3x1x1xui32>) -> tensor<3x256x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<3x256x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3x256x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<3x256x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x256x96xui32>, tensor<3x256x96xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<3x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_27(%arg0: tensor<2xui32>) -> tensor<96x64xf32> {
    %0 = call @_normal_real_28(%arg0) : (tensor<2xui32>) -> tensor<96x64xf32>
    return %0 : tensor<96x64xf32>
  }
  func.func private @_normal_real_28(%arg0: tensor<2xui32>) -> tensor<96x64xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_29(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<96x64xf32>
    %1 = chlo.erf_inv %0 : tensor<96x64xf32> -> tensor<96x64xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<96x64xf32>
    return %3 : tensor<96x64xf32>
  }
  func.func private @_uniform_29(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<96x64xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.iota dim = 0 : tensor<96x64xui64>
    %7 = stablehlo.iota dim = 1 : tensor<96x64xui64>
    %c = stablehlo.constant dense<64> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<96x64xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<96x64xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<96x64xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<96x64xui64>
    %12 = stablehlo.add %9, %11 : tensor<96x64xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<96x64xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<96x64xui64>
    %15 = stablehlo.convert %12 : (tensor<96x64xui64>) -> tensor<96x64xui32>
    %16 = stablehlo.convert %14 : (tensor<96x64xui64>) -> tensor<96x64xui32>
    %17:2 = call @threefry2x32_30(%3, %5, %16, %15) : (tensor<ui32>, tensor<ui32>, tensor<96x64xui32>, tensor<96x64xui32>) -> (tensor<96x64xui32>, tensor<96x64xui32>)
    %18 = stablehlo.xor %17#0, %17#1 : tensor<96x64xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %20 = stablehlo.shift_right_logical %18, %19 : tensor<96x64xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %21 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %22 = stablehlo.or %20, %21 : tensor<96x64xui32>
    %23 = stablehlo.bitcast_convert %22 : (tensor<96x64xui32>) -> tensor<96x64xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %25 = stablehlo.subtract %23, %24 : tensor<96x64xf32>
    %26 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<96x64xf32>
    %28 = stablehlo.multiply %25, %27 : tensor<96x64xf32>
    %29 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<96x64xf32>
    %30 = stablehlo.add %28, %29 : tensor<96x64xf32>
    %31 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<96x64xf32>
    %32 = stablehlo.maximum %31, %30 : tensor<96x64xf32>
    return %32 : tensor<96x64xf32>
  }
  func.func private @threefry2x32_30(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<96x64xui32>, %arg3: tensor<96x64xui32>) -> (tensor<96x64xui32>, tensor<96x64xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<96x64xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<96x64xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<96x64xui32>, tensor<96x64xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_31(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<96x64xui32>, tensor<96x64xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<96x64xui32>, tensor<96x64xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<96x64xui32>, tensor<96x64xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<96x64xui32>, tensor<96x64xui32>
  }
  func.func private @closed_call_31(%arg0: tensor<i32>, %arg1: tensor<96x64xui32>, %arg2: tensor<96x64xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<96x64xui32>, tensor<96x64xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<96x64xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<96x64xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<96x64xui32>
    %9 = stablehlo.or %5, %8 : tensor<96x64xui32>
    %10 = stablehlo.xor %3, %9 : tensor<96x64xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<96x64xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<96x64xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<96x64xui32>
    %19 = stablehlo.or %15, %18 : tensor<96x64xui32>
    %20 = stablehlo.xor %13, %19 : tensor<96x64xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<96x64xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<96x64xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<96x64xui32>
    %29 = stablehlo.or %25, %28 : tensor<96x64xui32>
    %30 = stablehlo.xor %23, %29 : tensor<96x64xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<96x64xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<96x64xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<96x64xui32>
    %39 = stablehlo.or %35, %38 : tensor<96x64xui32>
    %40 = stablehlo.xor %33, %39 : tensor<96x64xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %42 = stablehlo.add %33, %41 : tensor<96x64xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %44 = stablehlo.add %40, %43 : tensor<96x64xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<96x64xui32>
    %48 = stablehlo.add %44, %47 : tensor<96x64xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<96x64xui32>, tensor<96x64xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_threefry_split_32(%arg0: tensor<2xui32>) -> tensor<2x2xui32> {
    %0 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %1 = stablehlo.reshape %0 : (tensor<1xui32>) -> tensor<ui32>
    %2 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.iota dim = 0 : tensor<2xui64>
    %c = stablehlo.constant dense<1> : tensor<ui64>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<2xui64>
    %6 = stablehlo.multiply %5, %4 : tensor<2xui64>
    %c_0 = stablehlo.constant dense<32> : tensor<ui64>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<2xui64>
    %8 = stablehlo.shift_right_logical %6, %7 : tensor<2xui64>
    %9 = stablehlo.convert %6 : (tensor<2xui64>) -> tensor<2xui32>
    %10 = stablehlo.convert %8 : (tensor<2xui64>) -> tensor<2xui32>
    %11:2 = call @threefry2x32_33(%1, %3, %10, %9) : (tensor<ui32>, tensor<ui32>, tensor<2xui32>, tensor<2xui32>) -> (tensor<2xui32>, tensor<2xui32>)
    %12 = stablehlo.broadcast_in_dim %11#0, dims = [0] : (tensor<2xui32>) -> tensor<2x1xui32>
    %13 = stablehlo.broadcast_in_dim %11#1, dims = [0] : (tensor<2xui32>) -> tensor<2x1xui32>
    %14 = stablehlo.concatenate %12, %13, dim = 1 : (tensor<2x1xui32>, tensor<2x1xui32>) -> tensor<2x2xui32>
    return %14 : tensor<2x2xui32>
  }
  func.func private @threefry2x32_33(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<2xui32>, %arg3: tensor<2xui32>) -> (tensor<2xui32>, tensor<2xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<2xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<2xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_34(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<2xui32>, tensor<2xui32>
  }
  func.func private @closed_call_34(%arg0: tensor<i32>, %arg1: tensor<2xui32>, %arg2: tensor<2xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2xui32>
    %9 = stablehlo.or %5, %8 : tensor<2xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2xui32>
    %19 = stablehlo.or %15, %18 : tensor<2xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2xui32>
    %29 = stablehlo.or %25, %28 : tensor<2xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2xui32>
    %39 = stablehlo.or %35, %38 : tensor<2xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %42 = stablehlo.add %33, %41 : tensor<2xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %44 = stablehlo.add %40, %43 : tensor<2xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %48 = stablehlo.add %44, %47 : tensor<2xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_threefry_fold_in_35(%arg0: tensor<2x2xui32>, %arg1: tensor<ui32>) -> tensor<2x2xui32> {
    %c = stablehlo.constant dense<32> : tensor<ui32>
    %0 = stablehlo.shift_right_logical %arg1, %c : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %c_0 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %2 = stablehlo.and %arg1, %c_0 : tensor<ui32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<1xui32>
    %4 = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
    %5 = stablehlo.slice %arg0 [0:2, 0:1] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %6 = stablehlo.reshape %5 : (tensor<2x1xui32>) -> tensor<2xui32>
    %7 = stablehlo.slice %arg0 [0:2, 1:2] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %8 = stablehlo.reshape %7 : (tensor<2x1xui32>) -> tensor<2xui32>
    %9 = stablehlo.slice %4 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %10 = stablehlo.slice %4 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<1xui32>) -> tensor<1x1xui32>
    %12 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<1xui32>) -> tensor<1x1xui32>
    %13 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<2xui32>) -> tensor<2x1xui32>
    %14 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<2xui32>) -> tensor<2x1xui32>
    %15:2 = call @threefry2x32_36(%13, %14, %11, %12) : (tensor<2x1xui32>, tensor<2x1xui32>, tensor<1x1xui32>, tensor<1x1xui32>) -> (tensor<2x1xui32>, tensor<2x1xui32>)
    %16 = stablehlo.concatenate %15#0, %15#1, dim = 1 : (tensor<2x1xui32>, tensor<2x1xui32>) -> tensor<2x2xui32>
    return %16 : tensor<2x2xui32>
  }
  func.func private @threefry2x32_36(%arg0: tensor<2x1xui32>, %arg1: tensor<2x1xui32>, %arg2: tensor<1x1xui32>, %arg3: tensor<1x1xui32>) -> (tensor<2x1xui32>, tensor<2x1xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<2x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<2x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<1x1xui32>) -> tensor<2x1xui32>
    %4 = stablehlo.add %3, %arg0 : tensor<2x1xui32>
    %5 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1] : (tensor<1x1xui32>) -> tensor<2x1xui32>
    %6 = stablehlo.add %5, %arg1 : tensor<2x1xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %7:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %4, %iterArg_6 = %6, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %8 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    } do {
      %8:8 = func.call @closed_call_37(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %9 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %9, %8#0, %8#1, %8#2, %8#3, %8#4, %8#5, %8#6, %8#7 : tensor<i32>, tensor<i32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %7#2, %7#3 : tensor<2x1xui32>, tensor<2x1xui32>
  }
  func.func private @closed_call_37(%arg0: tensor<i32>, %arg1: tensor<2x1xui32>, %arg2: tensor<2x1xui32>, %arg3: tensor<2x1xui32>, %arg4: tensor<2x1xui32>, %arg5: tensor<2x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x1xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x1xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x1xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x1xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x1xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x1xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x1xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x1xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x1xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x1xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x1xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x1xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x1xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x1xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x1xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x1xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x1xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x1xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x1xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x1xui32>
    %41 = stablehlo.add %33, %arg3 : tensor<2x1xui32>
    %42 = stablehlo.add %40, %arg4 : tensor<2x1xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %43 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %44 = stablehlo.convert %43 : (tensor<i32>) -> tensor<ui32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [] : (tensor<ui32>) -> tensor<2x1xui32>
    %46 = stablehlo.add %42, %45 : tensor<2x1xui32>
    return %0, %41, %46, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_38(%arg0: tensor<2x2xui32>) -> tensor<2x96x4x24xf32> {
    %0 = call @_normal_real_39(%arg0) : (tensor<2x2xui32>) -> tensor<2x96x4x24xf32>
    return %0 : tensor<2x96x4x24xf32>
  }
  func.func private @_normal_real_39(%arg0: tensor<2x2xui32>) -> tensor<2x96x4x24xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_40(%arg0, %cst, %cst_0) : (tensor<2x2xui32>, tensor<f32>, tensor<f32>) -> tensor<2x96x4x24xf32>
    %1 = chlo.erf_inv %0 : tensor<2x96x4x24xf32> -> tensor<2x96x4x24xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<2x96x4x24xf32>
    return %3 : tensor<2x96x4x24xf32>
  }
  func.func private @_uniform_40(%arg0: tensor<2x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<2x96x4x24xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %2 = stablehlo.slice %arg0 [0:2, 0:1] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<2x1xui32>) -> tensor<2xui32>
    %4 = stablehlo.slice %arg0 [0:2, 1:2] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<2x1xui32>) -> tensor<2xui32>
    %6 = stablehlo.iota dim = 0 : tensor<96x4x24xui64>
    %7 = stablehlo.iota dim = 1 : tensor<96x4x24xui64>
    %8 = stablehlo.iota dim = 2 : tensor<96x4x24xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %10 = stablehlo.multiply %9, %6 : tensor<96x4x24xui64>
    %c_0 = stablehlo.constant dense<24> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %12 = stablehlo.multiply %11, %7 : tensor<96x4x24xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %14 = stablehlo.multiply %13, %8 : tensor<96x4x24xui64>
    %15 = stablehlo.add %10, %12 : tensor<96x4x24xui64>
    %16 = stablehlo.add %15, %14 : tensor<96x4x24xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<96x4x24xui64>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<96x4x24xui64>
    %19 = stablehlo.convert %16 : (tensor<96x4x24xui64>) -> tensor<96x4x24xui32>
    %20 = stablehlo.convert %18 : (tensor<96x4x24xui64>) -> tensor<96x4x24xui32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [1, 2, 3] : (tensor<96x4x24xui32>) -> tensor<1x96x4x24xui32>
    %22 = stablehlo.broadcast_in_dim %19, dims = [1, 2, 3] : (tensor<96x4x24xui32>) -> tensor<1x96x4x24xui32>
    %23 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1x1xui32>
    %24 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1x1xui32>
    %25:2 = call @threefry2x32_41(%23, %24, %21, %22) : (tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<1x96x4x24xui32>, tensor<1x96x4x24xui32>) -> (tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>)
    %26 = stablehlo.xor %25#0, %25#1 : tensor<2x96x4x24xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %28 = stablehlo.shift_right_logical %26, %27 : tensor<2x96x4x24xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %29 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %30 = stablehlo.or %28, %29 : tensor<2x96x4x24xui32>
    %31 = stablehlo.bitcast_convert %30 : (tensor<2x96x4x24xui32>) -> tensor<2x96x4x24xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x96x4x24xf32>
    %33 = stablehlo.subtract %31, %32 : tensor<2x96x4x24xf32>
    %34 = stablehlo.subtract %1, %0 : tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<2x96x4x24xf32>
    %37 = stablehlo.multiply %33, %36 : tensor<2x96x4x24xf32>
    %38 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<2x96x4x24xf32>
    %40 = stablehlo.add %37, %39 : tensor<2x96x4x24xf32>
    %41 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<2x96x4x24xf32>
    %43 = stablehlo.maximum %42, %40 : tensor<2x96x4x24xf32>
    return %43 : tensor<2x96x4x24xf32>
  }
  func.func private @threefry2x32_41(%arg0: tensor<2x1x1x1xui32>, %arg1: tensor<2x1x1x1xui32>, %arg2: tensor<1x96x4x24xui32>, %arg3: tensor<1x96x4x24xui32>) -> (tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<2x1x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<2x1x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<2x1x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x96x4x24xui32>) -> tensor<2x96x4x24xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x96x4x24xui32>
    %5 = stablehlo.add %3, %4 : tensor<2x96x4x24xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x96x4x24xui32>) -> tensor<2x96x4x24xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x96x4x24xui32>
    %8 = stablehlo.add %6, %7 : tensor<2x96x4x24xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_42(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>
  }
  func.func private @closed_call_42(%arg0: tensor<i32>, %arg1: tensor<2x96x4x24xui32>, %arg2: tensor<2x96x4x24xui32>, %arg3: tensor<2x1x1x1xui32>, %arg4: tensor<2x1x1x1xui32>, %arg5: tensor<2x1x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x96x4x24xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x96x4x24xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x96x4x24xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x96x4x24xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x96x4x24xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x96x4x24xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x96x4x24xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x96x4x24xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x96x4x24xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x96x4x24xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x96x4x24xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x96x4x24xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x96x4x24xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x96x4x24xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x96x4x24xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x96x4x24xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x96x4x24xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x96x4x24xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x96x4x24xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x96x4x24xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x96x4x24xui32>
    %42 = stablehlo.add %33, %41 : tensor<2x96x4x24xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x96x4x24xui32>
    %44 = stablehlo.add %40, %43 : tensor<2x96x4x24xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2x96x4x24xui32>
    %48 = stablehlo.add %44, %47 : tensor<2x96x4x24xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x96x4x24xui32>, tensor<2x96x4x24xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_43(%arg0: tensor<2x2xui32>) -> tensor<2x4x24x96xf32> {
    %0 = call @_normal_real_44(%arg0) : (tensor<2x2xui32>) -> tensor<2x4x24x96xf32>
    return %0 : tensor<2x4x24x96xf32>
  }
  func.func private @_normal_real_44(%arg0: tensor<2x2xui32>) -> tensor<2x4x24x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_45(%arg0, %cst, %cst_0) : (tensor<2x2xui32>, tensor<f32>, tensor<f32>) -> tensor<2x4x24x96xf32>
    %1 = chlo.erf_inv %0 : tensor<2x4x24x96xf32> -> tensor<2x4x24x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x24x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<2x4x24x96xf32>
    return %3 : tensor<2x4x24x96xf32>
  }
  func.func private @_uniform_45(%arg0: tensor<2x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<2x4x24x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %2 = stablehlo.slice %arg0 [0:2, 0:1] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<2x1xui32>) -> tensor<2xui32>
    %4 = stablehlo.slice %arg0 [0:2, 1:2] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<2x1xui32>) -> tensor<2xui32>
    %6 = stablehlo.iota dim = 0 : tensor<4x24x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<4x24x96xui64>
    %8 = stablehlo.iota dim = 2 : tensor<4x24x96xui64>
    %c = stablehlo.constant dense<2304> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %10 = stablehlo.multiply %9, %6 : tensor<4x24x96xui64>
    %c_0 = stablehlo.constant dense<96> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %12 = stablehlo.multiply %11, %7 : tensor<4x24x96xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %14 = stablehlo.multiply %13, %8 : tensor<4x24x96xui64>
    %15 = stablehlo.add %10, %12 : tensor<4x24x96xui64>
    %16 = stablehlo.add %15, %14 : tensor<4x24x96xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<4x24x96xui64>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<4x24x96xui64>
    %19 = stablehlo.convert %16 : (tensor<4x24x96xui64>) -> tensor<4x24x96xui32>
    %20 = stablehlo.convert %18 : (tensor<4x24x96xui64>) -> tensor<4x24x96xui32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [1, 2, 3] : (tensor<4x24x96xui32>) -> tensor<1x4x24x96xui32>
    %22 = stablehlo.broadcast_in_dim %19, dims = [1, 2, 3] : (tensor<4x24x96xui32>) -> tensor<1x4x24x96xui32>
    %23 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1x1xui32>
    %24 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1x1xui32>
    %25:2 = call @threefry2x32_46(%23, %24, %21, %22) : (tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<1x4x24x96xui32>, tensor<1x4x24x96xui32>) -> (tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>)
    %26 = stablehlo.xor %25#0, %25#1 : tensor<2x4x24x96xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %28 = stablehlo.shift_right_logical %26, %27 : tensor<2x4x24x96xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %29 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %30 = stablehlo.or %28, %29 : tensor<2x4x24x96xui32>
    %31 = stablehlo.bitcast_convert %30 : (tensor<2x4x24x96xui32>) -> tensor<2x4x24x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x24x96xf32>
    %33 = stablehlo.subtract %31, %32 : tensor<2x4x24x96xf32>
    %34 = stablehlo.subtract %1, %0 : tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<2x4x24x96xf32>
    %37 = stablehlo.multiply %33, %36 : tensor<2x4x24x96xf32>
    %38 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<2x4x24x96xf32>
    %40 = stablehlo.add %37, %39 : tensor<2x4x24x96xf32>
    %41 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xf32>) -> tensor<2x4x24x96xf32>
    %43 = stablehlo.maximum %42, %40 : tensor<2x4x24x96xf32>
    return %43 : tensor<2x4x24x96xf32>
  }
  func.func private @threefry2x32_46(%arg0: tensor<2x1x1x1xui32>, %arg1: tensor<2x1x1x1xui32>, %arg2: tensor<1x4x24x96xui32>, %arg3: tensor<1x4x24x96xui32>) -> (tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<2x1x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<2x1x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<2x1x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x4x24x96xui32>) -> tensor<2x4x24x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x4x24x96xui32>
    %5 = stablehlo.add %3, %4 : tensor<2x4x24x96xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x4x24x96xui32>) -> tensor<2x4x24x96xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x4x24x96xui32>
    %8 = stablehlo.add %6, %7 : tensor<2x4x24x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_47(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>
  }
  func.func private @closed_call_47(%arg0: tensor<i32>, %arg1: tensor<2x4x24x96xui32>, %arg2: tensor<2x4x24x96xui32>, %arg3: tensor<2x1x1x1xui32>, %arg4: tensor<2x1x1x1xui32>, %arg5: tensor<2x1x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x4x24x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x4x24x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x4x24x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x4x24x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x4x24x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x4x24x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x4x24x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x4x24x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x4x24x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x4x24x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x4x24x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x4x24x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x4x24x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x4x24x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x4x24x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x4x24x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x4x24x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x4x24x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x4x24x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x4x24x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x4x24x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<2x4x24x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<2x1x1x1xui32>) -> tensor<2x4x24x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<2x4x24x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2x4x24x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<2x4x24x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x4x24x96xui32>, tensor<2x4x24x96xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<2x1x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_48(%arg0: tensor<2x2xui32>) -> tensor<2x96x256xf32> {
    %0 = call @_normal_real_49(%arg0) : (tensor<2x2xui32>) -> tensor<2x96x256xf32>
    return %0 : tensor<2x96x256xf32>
  }
  func.func private @_normal_real_49(%arg0: tensor<2x2xui32>) -> tensor<2x96x256xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_50(%arg0, %cst, %cst_0) : (tensor<2x2xui32>, tensor<f32>, tensor<f32>) -> tensor<2x96x256xf32>
    %1 = chlo.erf_inv %0 : tensor<2x96x256xf32> -> tensor<2x96x256xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x96x256xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<2x96x256xf32>
    return %3 : tensor<2x96x256xf32>
  }
  func.func private @_uniform_50(%arg0: tensor<2x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<2x96x256xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:2, 0:1] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<2x1xui32>) -> tensor<2xui32>
    %4 = stablehlo.slice %arg0 [0:2, 1:2] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<2x1xui32>) -> tensor<2xui32>
    %6 = stablehlo.iota dim = 0 : tensor<96x256xui64>
    %7 = stablehlo.iota dim = 1 : tensor<96x256xui64>
    %c = stablehlo.constant dense<256> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<96x256xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<96x256xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<96x256xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<96x256xui64>
    %12 = stablehlo.add %9, %11 : tensor<96x256xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<96x256xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<96x256xui64>
    %15 = stablehlo.convert %12 : (tensor<96x256xui64>) -> tensor<96x256xui32>
    %16 = stablehlo.convert %14 : (tensor<96x256xui64>) -> tensor<96x256xui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1, 2] : (tensor<96x256xui32>) -> tensor<1x96x256xui32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [1, 2] : (tensor<96x256xui32>) -> tensor<1x96x256xui32>
    %19 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1xui32>
    %20 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1xui32>
    %21:2 = call @threefry2x32_51(%19, %20, %17, %18) : (tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<1x96x256xui32>, tensor<1x96x256xui32>) -> (tensor<2x96x256xui32>, tensor<2x96x256xui32>)
    %22 = stablehlo.xor %21#0, %21#1 : tensor<2x96x256xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %23 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %24 = stablehlo.shift_right_logical %22, %23 : tensor<2x96x256xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %26 = stablehlo.or %24, %25 : tensor<2x96x256xui32>
    %27 = stablehlo.bitcast_convert %26 : (tensor<2x96x256xui32>) -> tensor<2x96x256xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x96x256xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<2x96x256xf32>
    %30 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x96x256xf32>
    %33 = stablehlo.multiply %29, %32 : tensor<2x96x256xf32>
    %34 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x96x256xf32>
    %36 = stablehlo.add %33, %35 : tensor<2x96x256xf32>
    %37 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x96x256xf32>
    %39 = stablehlo.maximum %38, %36 : tensor<2x96x256xf32>
    return %39 : tensor<2x96x256xf32>
  }
  func.func private @threefry2x32_51(%arg0: tensor<2x1x1xui32>, %arg1: tensor<2x1x1xui32>, %arg2: tensor<1x96x256xui32>, %arg3: tensor<1x96x256xui32>) -> (tensor<2x96x256xui32>, tensor<2x96x256xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<2x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<2x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<2x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2] : (tensor<1x96x256xui32>) -> tensor<2x96x256xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x96x256xui32>
    %5 = stablehlo.add %3, %4 : tensor<2x96x256xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<1x96x256xui32>) -> tensor<2x96x256xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x96x256xui32>
    %8 = stablehlo.add %6, %7 : tensor<2x96x256xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x96x256xui32>, tensor<2x96x256xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_52(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x96x256xui32>, tensor<2x96x256xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x96x256xui32>, tensor<2x96x256xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<2x96x256xui32>, tensor<2x96x256xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<2x96x256xui32>, tensor<2x96x256xui32>
  }
  func.func private @closed_call_52(%arg0: tensor<i32>, %arg1: tensor<2x96x256xui32>, %arg2: tensor<2x96x256xui32>, %arg3: tensor<2x1x1xui32>, %arg4: tensor<2x1x1xui32>, %arg5: tensor<2x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x96x256xui32>, tensor<2x96x256xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x96x256xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x96x256xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x96x256xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x96x256xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x96x256xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x96x256xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x96x256xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x96x256xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x96x256xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x96x256xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x96x256xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x96x256xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x96x256xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x96x256xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x96x256xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x96x256xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x96x256xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x96x256xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x96x256xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x96x256xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x96x256xui32>
    %42 = stablehlo.add %33, %41 : tensor<2x96x256xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x96x256xui32>
    %44 = stablehlo.add %40, %43 : tensor<2x96x256xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2x96x256xui32>
    %48 = stablehlo.add %44, %47 : tensor<2x96x256xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x96x256xui32>, tensor<2x96x256xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_53(%arg0: tensor<2x2xui32>) -> tensor<2x256x96xf32> {
    %0 = call @_normal_real_54(%arg0) : (tensor<2x2xui32>) -> tensor<2x256x96xf32>
    return %0 : tensor<2x256x96xf32>
  }
  func.func private @_normal_real_54(%arg0: tensor<2x2xui32>) -> tensor<2x256x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_55(%arg0, %cst, %cst_0) : (tensor<2x2xui32>, tensor<f32>, tensor<f32>) -> tensor<2x256x96xf32>
    %1 = chlo.erf_inv %0 : tensor<2x256x96xf32> -> tensor<2x256x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x256x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<2x256x96xf32>
    return %3 : tensor<2x256x96xf32>
  }
  func.func private @_uniform_55(%arg0: tensor<2x2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<2x256x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:2, 0:1] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %3 = stablehlo.reshape %2 : (tensor<2x1xui32>) -> tensor<2xui32>
    %4 = stablehlo.slice %arg0 [0:2, 1:2] : (tensor<2x2xui32>) -> tensor<2x1xui32>
    %5 = stablehlo.reshape %4 : (tensor<2x1xui32>) -> tensor<2xui32>
    %6 = stablehlo.iota dim = 0 : tensor<256x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<256x96xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<256x96xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<256x96xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<256x96xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<256x96xui64>
    %12 = stablehlo.add %9, %11 : tensor<256x96xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<256x96xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<256x96xui64>
    %15 = stablehlo.convert %12 : (tensor<256x96xui64>) -> tensor<256x96xui32>
    %16 = stablehlo.convert %14 : (tensor<256x96xui64>) -> tensor<256x96xui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1, 2] : (tensor<256x96xui32>) -> tensor<1x256x96xui32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [1, 2] : (tensor<256x96xui32>) -> tensor<1x256x96xui32>
    %19 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1xui32>
    %20 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xui32>) -> tensor<2x1x1xui32>
    %21:2 = call @threefry2x32_56(%19, %20, %17, %18) : (tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<1x256x96xui32>, tensor<1x256x96xui32>) -> (tensor<2x256x96xui32>, tensor<2x256x96xui32>)
    %22 = stablehlo.xor %21#0, %21#1 : tensor<2x256x96xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %23 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %24 = stablehlo.shift_right_logical %22, %23 : tensor<2x256x96xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %26 = stablehlo.or %24, %25 : tensor<2x256x96xui32>
    %27 = stablehlo.bitcast_convert %26 : (tensor<2x256x96xui32>) -> tensor<2x256x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x256x96xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<2x256x96xf32>
    %30 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x256x96xf32>
    %33 = stablehlo.multiply %29, %32 : tensor<2x256x96xf32>
    %34 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x256x96xf32>
    %36 = stablehlo.add %33, %35 : tensor<2x256x96xf32>
    %37 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x256x96xf32>
    %39 = stablehlo.maximum %38, %36 : tensor<2x256x96xf32>
    return %39 : tensor<2x256x96xf32>
  }
  func.func private @threefry2x32_56(%arg0: tensor<2x1x1xui32>, %arg1: tensor<2x1x1xui32>, %arg2: tensor<1x256x96xui32>, %arg3: tensor<1x256x96xui32>) -> (tensor<2x256x96xui32>, tensor<2x256x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<2x1x1xui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui32>) -> tensor<2x1x1xui32>
    %2 = stablehlo.xor %0, %1 : tensor<2x1x1xui32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2] : (tensor<1x256x96xui32>) -> tensor<2x256x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x256x96xui32>
    %5 = stablehlo.add %3, %4 : tensor<2x256x96xui32>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<1x256x96xui32>) -> tensor<2x256x96xui32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x256x96xui32>
    %8 = stablehlo.add %6, %7 : tensor<2x256x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %5, %iterArg_6 = %8, %iterArg_7 = %arg1, %iterArg_8 = %2, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x256x96xui32>, tensor<2x256x96xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %10 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    } do {
      %10:8 = func.call @closed_call_57(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x256x96xui32>, tensor<2x256x96xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x256x96xui32>, tensor<2x256x96xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %11, %10#0, %10#1, %10#2, %10#3, %10#4, %10#5, %10#6, %10#7 : tensor<i32>, tensor<i32>, tensor<2x256x96xui32>, tensor<2x256x96xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %9#2, %9#3 : tensor<2x256x96xui32>, tensor<2x256x96xui32>
  }
  func.func private @closed_call_57(%arg0: tensor<i32>, %arg1: tensor<2x256x96xui32>, %arg2: tensor<2x256x96xui32>, %arg3: tensor<2x1x1xui32>, %arg4: tensor<2x1x1xui32>, %arg5: tensor<2x1x1xui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x256x96xui32>, tensor<2x256x96xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x256x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x256x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x256x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x256x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x256x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x256x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x256x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x256x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x256x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x256x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x256x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x256x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x256x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x256x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x256x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x256x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x256x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x256x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x256x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x256x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x256x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<2x256x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2] : (tensor<2x1x1xui32>) -> tensor<2x256x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<2x256x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2x256x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<2x256x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x256x96xui32>, tensor<2x256x96xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<2x1x1xui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_58(%arg0: tensor<2xui32>) -> tensor<192x96xf32> {
    %0 = call @_normal_real_59(%arg0) : (tensor<2xui32>) -> tensor<192x96xf32>
    return %0 : tensor<192x96xf32>
  }
  func.func private @_normal_real_59(%arg0: tensor<2xui32>) -> tensor<192x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_60(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<192x96xf32>
    %1 = chlo.erf_inv %0 : tensor<192x96xf32> -> tensor<192x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<192x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<192x96xf32>
    return %3 : tensor<192x96xf32>
  }
  func.func private @_uniform_60(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<192x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.iota dim = 0 : tensor<192x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<192x96xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<192x96xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<192x96xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<192x96xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<192x96xui64>
    %12 = stablehlo.add %9, %11 : tensor<192x96xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<192x96xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<192x96xui64>
    %15 = stablehlo.convert %12 : (tensor<192x96xui64>) -> tensor<192x96xui32>
    %16 = stablehlo.convert %14 : (tensor<192x96xui64>) -> tensor<192x96xui32>
    %17:2 = call @threefry2x32_61(%3, %5, %16, %15) : (tensor<ui32>, tensor<ui32>, tensor<192x96xui32>, tensor<192x96xui32>) -> (tensor<192x96xui32>, tensor<192x96xui32>)
    %18 = stablehlo.xor %17#0, %17#1 : tensor<192x96xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %20 = stablehlo.shift_right_logical %18, %19 : tensor<192x96xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %21 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %22 = stablehlo.or %20, %21 : tensor<192x96xui32>
    %23 = stablehlo.bitcast_convert %22 : (tensor<192x96xui32>) -> tensor<192x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<192x96xf32>
    %25 = stablehlo.subtract %23, %24 : tensor<192x96xf32>
    %26 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<192x96xf32>
    %28 = stablehlo.multiply %25, %27 : tensor<192x96xf32>
    %29 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<192x96xf32>
    %30 = stablehlo.add %28, %29 : tensor<192x96xf32>
    %31 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<192x96xf32>
    %32 = stablehlo.maximum %31, %30 : tensor<192x96xf32>
    return %32 : tensor<192x96xf32>
  }
  func.func private @threefry2x32_61(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<192x96xui32>, %arg3: tensor<192x96xui32>) -> (tensor<192x96xui32>, tensor<192x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<192x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<192x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<192x96xui32>, tensor<192x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_62(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<192x96xui32>, tensor<192x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<192x96xui32>, tensor<192x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<192x96xui32>, tensor<192x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<192x96xui32>, tensor<192x96xui32>
  }
  func.func private @closed_call_62(%arg0: tensor<i32>, %arg1: tensor<192x96xui32>, %arg2: tensor<192x96xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<192x96xui32>, tensor<192x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<192x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<192x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<192x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<192x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<192x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<192x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<192x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<192x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<192x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<192x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<192x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<192x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<192x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<192x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<192x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<192x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<192x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<192x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<192x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<192x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<192x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<192x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<192x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<192x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<192x96xui32>, tensor<192x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_63(%arg0: tensor<2xui32>) -> tensor<96x96xf32> {
    %0 = call @_normal_real_64(%arg0) : (tensor<2xui32>) -> tensor<96x96xf32>
    return %0 : tensor<96x96xf32>
  }
  func.func private @_normal_real_64(%arg0: tensor<2xui32>) -> tensor<96x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_65(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<96x96xf32>
    %1 = chlo.erf_inv %0 : tensor<96x96xf32> -> tensor<96x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<96x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<96x96xf32>
    return %3 : tensor<96x96xf32>
  }
  func.func private @_uniform_65(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<96x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.iota dim = 0 : tensor<96x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<96x96xui64>
    %c = stablehlo.constant dense<96> : tensor<ui64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<96x96xui64>
    %9 = stablehlo.multiply %8, %6 : tensor<96x96xui64>
    %c_0 = stablehlo.constant dense<1> : tensor<ui64>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<96x96xui64>
    %11 = stablehlo.multiply %10, %7 : tensor<96x96xui64>
    %12 = stablehlo.add %9, %11 : tensor<96x96xui64>
    %c_1 = stablehlo.constant dense<32> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<96x96xui64>
    %14 = stablehlo.shift_right_logical %12, %13 : tensor<96x96xui64>
    %15 = stablehlo.convert %12 : (tensor<96x96xui64>) -> tensor<96x96xui32>
    %16 = stablehlo.convert %14 : (tensor<96x96xui64>) -> tensor<96x96xui32>
    %17:2 = call @threefry2x32_66(%3, %5, %16, %15) : (tensor<ui32>, tensor<ui32>, tensor<96x96xui32>, tensor<96x96xui32>) -> (tensor<96x96xui32>, tensor<96x96xui32>)
    %18 = stablehlo.xor %17#0, %17#1 : tensor<96x96xui32>
    %c_2 = stablehlo.constant dense<9> : tensor<ui32>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %20 = stablehlo.shift_right_logical %18, %19 : tensor<96x96xui32>
    %c_3 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %21 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %22 = stablehlo.or %20, %21 : tensor<96x96xui32>
    %23 = stablehlo.bitcast_convert %22 : (tensor<96x96xui32>) -> tensor<96x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<96x96xf32>
    %25 = stablehlo.subtract %23, %24 : tensor<96x96xf32>
    %26 = stablehlo.subtract %1, %0 : tensor<1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<96x96xf32>
    %28 = stablehlo.multiply %25, %27 : tensor<96x96xf32>
    %29 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<96x96xf32>
    %30 = stablehlo.add %28, %29 : tensor<96x96xf32>
    %31 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<96x96xf32>
    %32 = stablehlo.maximum %31, %30 : tensor<96x96xf32>
    return %32 : tensor<96x96xf32>
  }
  func.func private @threefry2x32_66(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<96x96xui32>, %arg3: tensor<96x96xui32>) -> (tensor<96x96xui32>, tensor<96x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<96x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<96x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<96x96xui32>, tensor<96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_67(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<96x96xui32>, tensor<96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<96x96xui32>, tensor<96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<96x96xui32>, tensor<96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<96x96xui32>, tensor<96x96xui32>
  }
  func.func private @closed_call_67(%arg0: tensor<i32>, %arg1: tensor<96x96xui32>, %arg2: tensor<96x96xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<96x96xui32>, tensor<96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<96x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<96x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<96x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<96x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<96x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<96x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<96x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<96x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<96x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<96x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<96x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<96x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<96x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<96x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<96x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<96x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<96x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<96x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<96x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<96x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<96x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<96x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<96x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<96x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<96x96xui32>, tensor<96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_68(%arg0: tensor<2xui32>) -> tensor<3x40x96xf32> {
    %0 = call @_normal_real_69(%arg0) : (tensor<2xui32>) -> tensor<3x40x96xf32>
    return %0 : tensor<3x40x96xf32>
  }
  func.func private @_normal_real_69(%arg0: tensor<2xui32>) -> tensor<3x40x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_70(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<3x40x96xf32>
    %1 = chlo.erf_inv %0 : tensor<3x40x96xf32> -> tensor<3x40x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x40x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<3x40x96xf32>
    return %3 : tensor<3x40x96xf32>
  }
  func.func private @_uniform_70(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<3x40x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.iota dim = 0 : tensor<3x40x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<3x40x96xui64>
    %8 = stablehlo.iota dim = 2 : tensor<3x40x96xui64>
    %c = stablehlo.constant dense<3840> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<3x40x96xui64>
    %10 = stablehlo.multiply %9, %6 : tensor<3x40x96xui64>
    %c_0 = stablehlo.constant dense<96> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<3x40x96xui64>
    %12 = stablehlo.multiply %11, %7 : tensor<3x40x96xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<3x40x96xui64>
    %14 = stablehlo.multiply %13, %8 : tensor<3x40x96xui64>
    %15 = stablehlo.add %10, %12 : tensor<3x40x96xui64>
    %16 = stablehlo.add %15, %14 : tensor<3x40x96xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<3x40x96xui64>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<3x40x96xui64>
    %19 = stablehlo.convert %16 : (tensor<3x40x96xui64>) -> tensor<3x40x96xui32>
    %20 = stablehlo.convert %18 : (tensor<3x40x96xui64>) -> tensor<3x40x96xui32>
    %21:2 = call @threefry2x32_71(%3, %5, %20, %19) : (tensor<ui32>, tensor<ui32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>) -> (tensor<3x40x96xui32>, tensor<3x40x96xui32>)
    %22 = stablehlo.xor %21#0, %21#1 : tensor<3x40x96xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %23 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %24 = stablehlo.shift_right_logical %22, %23 : tensor<3x40x96xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %26 = stablehlo.or %24, %25 : tensor<3x40x96xui32>
    %27 = stablehlo.bitcast_convert %26 : (tensor<3x40x96xui32>) -> tensor<3x40x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x40x96xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<3x40x96xf32>
    %30 = stablehlo.subtract %1, %0 : tensor<1x1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x40x96xf32>
    %32 = stablehlo.multiply %29, %31 : tensor<3x40x96xf32>
    %33 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x40x96xf32>
    %34 = stablehlo.add %32, %33 : tensor<3x40x96xf32>
    %35 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x40x96xf32>
    %36 = stablehlo.maximum %35, %34 : tensor<3x40x96xf32>
    return %36 : tensor<3x40x96xf32>
  }
  func.func private @threefry2x32_71(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<3x40x96xui32>, %arg3: tensor<3x40x96xui32>) -> (tensor<3x40x96xui32>, tensor<3x40x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<3x40x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<3x40x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_72(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<3x40x96xui32>, tensor<3x40x96xui32>
  }
  func.func private @closed_call_72(%arg0: tensor<i32>, %arg1: tensor<3x40x96xui32>, %arg2: tensor<3x40x96xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x40x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x40x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x40x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x40x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x40x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x40x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x40x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x40x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x40x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x40x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x40x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x40x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x40x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x40x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x40x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x40x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x40x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x40x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x40x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x40x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<3x40x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<3x40x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3x40x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<3x40x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x40x96xui32>, tensor<3x40x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_normal_73(%arg0: tensor<2xui32>) -> tensor<3x96x96xf32> {
    %0 = call @_normal_real_74(%arg0) : (tensor<2xui32>) -> tensor<3x96x96xf32>
    return %0 : tensor<3x96x96xf32>
  }
  func.func private @_normal_real_74(%arg0: tensor<2xui32>) -> tensor<3x96x96xf32> {
    %cst = stablehlo.constant dense<-0.99999994> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform_75(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<3x96x96xf32>
    %1 = chlo.erf_inv %0 : tensor<3x96x96xf32> -> tensor<3x96x96xf32>
    %cst_1 = stablehlo.constant dense<1.41421354> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x96x96xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<3x96x96xf32>
    return %3 : tensor<3x96x96xf32>
  }
  func.func private @_uniform_75(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<3x96x96xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %2 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.iota dim = 0 : tensor<3x96x96xui64>
    %7 = stablehlo.iota dim = 1 : tensor<3x96x96xui64>
    %8 = stablehlo.iota dim = 2 : tensor<3x96x96xui64>
    %c = stablehlo.constant dense<9216> : tensor<ui64>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<3x96x96xui64>
    %10 = stablehlo.multiply %9, %6 : tensor<3x96x96xui64>
    %c_0 = stablehlo.constant dense<96> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<3x96x96xui64>
    %12 = stablehlo.multiply %11, %7 : tensor<3x96x96xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<3x96x96xui64>
    %14 = stablehlo.multiply %13, %8 : tensor<3x96x96xui64>
    %15 = stablehlo.add %10, %12 : tensor<3x96x96xui64>
    %16 = stablehlo.add %15, %14 : tensor<3x96x96xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %17 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<3x96x96xui64>
    %18 = stablehlo.shift_right_logical %16, %17 : tensor<3x96x96xui64>
    %19 = stablehlo.convert %16 : (tensor<3x96x96xui64>) -> tensor<3x96x96xui32>
    %20 = stablehlo.convert %18 : (tensor<3x96x96xui64>) -> tensor<3x96x96xui32>
    %21:2 = call @threefry2x32_76(%3, %5, %20, %19) : (tensor<ui32>, tensor<ui32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>) -> (tensor<3x96x96xui32>, tensor<3x96x96xui32>)
    %22 = stablehlo.xor %21#0, %21#1 : tensor<3x96x96xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %23 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %24 = stablehlo.shift_right_logical %22, %23 : tensor<3x96x96xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %26 = stablehlo.or %24, %25 : tensor<3x96x96xui32>
    %27 = stablehlo.bitcast_convert %26 : (tensor<3x96x96xui32>) -> tensor<3x96x96xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x96x96xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<3x96x96xf32>
    %30 = stablehlo.subtract %1, %0 : tensor<1x1x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x96x96xf32>
    %32 = stablehlo.multiply %29, %31 : tensor<3x96x96xf32>
    %33 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x96x96xf32>
    %34 = stablehlo.add %32, %33 : tensor<3x96x96xf32>
    %35 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<3x96x96xf32>
    %36 = stablehlo.maximum %35, %34 : tensor<3x96x96xf32>
    return %36 : tensor<3x96x96xf32>
  }
  func.func private @threefry2x32_76(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<3x96x96xui32>, %arg3: tensor<3x96x96xui32>) -> (tensor<3x96x96xui32>, tensor<3x96x96xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<3x96x96xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<3x96x96xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_77(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<3x96x96xui32>, tensor<3x96x96xui32>
  }
  func.func private @closed_call_77(%arg0: tensor<i32>, %arg1: tensor<3x96x96xui32>, %arg2: tensor<3x96x96xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<3x96x96xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<3x96x96xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<3x96x96xui32>
    %9 = stablehlo.or %5, %8 : tensor<3x96x96xui32>
    %10 = stablehlo.xor %3, %9 : tensor<3x96x96xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<3x96x96xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<3x96x96xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<3x96x96xui32>
    %19 = stablehlo.or %15, %18 : tensor<3x96x96xui32>
    %20 = stablehlo.xor %13, %19 : tensor<3x96x96xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<3x96x96xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<3x96x96xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<3x96x96xui32>
    %29 = stablehlo.or %25, %28 : tensor<3x96x96xui32>
    %30 = stablehlo.xor %23, %29 : tensor<3x96x96xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<3x96x96xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<3x96x96xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<3x96x96xui32>
    %39 = stablehlo.or %35, %38 : tensor<3x96x96xui32>
    %40 = stablehlo.xor %33, %39 : tensor<3x96x96xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %42 = stablehlo.add %33, %41 : tensor<3x96x96xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %44 = stablehlo.add %40, %43 : tensor<3x96x96xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<3x96x96xui32>
    %48 = stablehlo.add %44, %47 : tensor<3x96x96xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<3x96x96xui32>, tensor<3x96x96xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
}
