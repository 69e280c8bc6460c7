module @jit_slice attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  func.func public @main(%arg0: tensor<96x32xf32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}, {}]>}) -> (tensor<48x32xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg0 [48:96, 0:32] : (tensor<96x32xf32>) -> tensor<48x32xf32>
    return %0 : tensor<48x32xf32>
  }
}
