module @jit_slice attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  func.func public @main(%arg0: tensor<3x2x24x96xf32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}, {}, {}, {}]>}) -> (tensor<3x1x24x96xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg0 [0:3, 1:2, 0:24, 0:96] : (tensor<3x2x24x96xf32>) -> tensor<3x1x24x96xf32>
    return %0 : tensor<3x1x24x96xf32>
  }
}
