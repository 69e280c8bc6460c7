module @jit_slice attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  func.func public @main(%arg0: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}, {}]>}) -> (tensor<24x96xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg0 [24:48, 0:96] : (tensor<96x96xf32>) -> tensor<24x96xf32>
    return %0 : tensor<24x96xf32>
  }
}
