module @jit_run attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "tensor"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "tensor", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg1: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<3x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg3: tensor<3x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg4: tensor<3x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg5: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg6: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg7: tensor<3x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg8: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg9: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg10: tensor<96x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg11: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg12: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg13: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg14: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg15: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg16: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg17: tensor<3x40x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg18: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg19: tensor<3x96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg20: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg21: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg22: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg23: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg24: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg25: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg26: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg27: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg28: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg29: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg30: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg31: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg32: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg33: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg34: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg35: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg36: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg37: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg38: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg39: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg40: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg41: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg42: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg43: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg44: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg45: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg46: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg47: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg48: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg49: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg50: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg51: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg52: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg53: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg54: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg55: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg56: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg57: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg58: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg59: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg60: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg61: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg62: tensor<1x8x312xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg63: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg64: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg65: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg66: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg67: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg68: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg69: tensor<1x8x640x40xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}, {}]>}, %arg70: tensor<1x8x640xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg71: tensor<1x8x640xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg72: tensor<1x8x144x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}, {}]>}, %arg73: tensor<1x8x144x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}, {}]>}, %arg74: tensor<1x8x144xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}]>}, %arg75: tensor<1x8x144x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}, {}]>}) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<f32> {jax.result_info = "result[1]"}) {
    %0:2 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %arg36, %arg37, %arg38, %arg39, %arg40, %arg41, %arg42, %arg43, %arg44, %arg45, %arg46, %arg47, %arg48, %arg49, %arg50, %arg51, %arg52, %arg53, %arg54, %arg55, %arg56, %arg57, %arg58, %arg59, %arg60, %arg61, %arg62, %arg63, %arg64, %arg65, %arg66, %arg67, %arg68, %arg69, %arg70, %arg71, %arg72, %arg73, %arg74, %arg75) in_shardings=[<@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}]>, <@mesh, [{}, {}, {"tensor"}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{"tensor"}]>, <@mesh, [{}, {}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {}, {"tensor"}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}]>, <@mesh, [{}]>, <@mesh, [{}]>, <@mesh, [{}, {}]>, <@mesh, [{}]>, <@mesh, [{}, {}]>, <@mesh, [{}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}]>, <@mesh, [{}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}, {}]>] out_shardings=[<@mesh, []>, <@mesh, []>] manual_axes={"data", "tensor"} (%arg76: tensor<32x96xf32>, %arg77: tensor<3x96xf32>, %arg78: tensor<3x128x96xf32>, %arg79: tensor<3x96x128xf32>, %arg80: tensor<3x96x128xf32>, %arg81: tensor<3x96xf32>, %arg82: tensor<3x96x2x24xf32>, %arg83: tensor<3x2x24x96xf32>, %arg84: tensor<3x96x2x24xf32>, %arg85: tensor<3x96x2x24xf32>, %arg86: tensor<96x32xf32>, %arg87: tensor<96xf32>, %arg88: tensor<48xf32>, %arg89: tensor<192x48xf32>, %arg90: tensor<96xf32>, %arg91: tensor<48x96xf32>, %arg92: tensor<48xf32>, %arg93: tensor<3x40x48xf32>, %arg94: tensor<96xf32>, %arg95: tensor<3x48x96xf32>, %arg96: tensor<2x96xf32>, %arg97: tensor<2x96xf32>, %arg98: tensor<2x128xf32>, %arg99: tensor<2x96x128xf32>, %arg100: tensor<2x96xf32>, %arg101: tensor<2x128x96xf32>, %arg102: tensor<2x96x2x24xf32>, %arg103: tensor<2x96xf32>, %arg104: tensor<2x2x24x96xf32>, %arg105: tensor<2x2x24xf32>, %arg106: tensor<2x96x2x24xf32>, %arg107: tensor<2x2x24xf32>, %arg108: tensor<2x96x2x24xf32>, %arg109: tensor<2x96xf32>, %arg110: tensor<2x96xf32>, %arg111: tensor<96xf32>, %arg112: tensor<96xf32>, %arg113: tensor<96xf32>, %arg114: tensor<192x96xf32>, %arg115: tensor<96xf32>, %arg116: tensor<96x96xf32>, %arg117: tensor<96xf32>, %arg118: tensor<64x96xf32>, %arg119: tensor<64x96xf32>, %arg120: tensor<2x96xf32>, %arg121: tensor<2x96xf32>, %arg122: tensor<2x96xf32>, %arg123: tensor<2x96xf32>, %arg124: tensor<2x256xf32>, %arg125: tensor<2x96x256xf32>, %arg126: tensor<2x96xf32>, %arg127: tensor<2x256x96xf32>, %arg128: tensor<2x4x24xf32>, %arg129: tensor<2x96x4x24xf32>, %arg130: tensor<2x96xf32>, %arg131: tensor<2x4x24x96xf32>, %arg132: tensor<2x4x24xf32>, %arg133: tensor<2x96x4x24xf32>, %arg134: tensor<2x4x24xf32>, %arg135: tensor<2x96x4x24xf32>, %arg136: tensor<96xf32>, %arg137: tensor<96xf32>, %arg138: tensor<1x4x312xf32>, %arg139: tensor<1x4x312xi32>, %arg140: tensor<1x4x312xi32>, %arg141: tensor<1x4x312xi32>, %arg142: tensor<1x4x312xi32>, %arg143: tensor<1x4x312xi32>, %arg144: tensor<1x4x312xi32>, %arg145: tensor<1x4x640x40xf32>, %arg146: tensor<1x4x640xi32>, %arg147: tensor<1x4x640xi32>, %arg148: tensor<1x2x144x64xf32>, %arg149: tensor<1x2x144x2xi32>, %arg150: tensor<1x2x144xi32>, %arg151: tensor<1x2x144x2xi32>) {
      %1 = stablehlo.reshape %arg138 : (tensor<1x4x312xf32>) -> tensor<4x312xf32>
      %2 = stablehlo.reshape %arg139 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %3 = stablehlo.reshape %arg140 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %4 = stablehlo.reshape %arg141 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %5 = stablehlo.reshape %arg142 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %6 = stablehlo.reshape %arg143 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %7 = stablehlo.reshape %arg144 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %8 = stablehlo.reshape %arg145 : (tensor<1x4x640x40xf32>) -> tensor<4x640x40xf32>
      %9 = stablehlo.reshape %arg146 : (tensor<1x4x640xi32>) -> tensor<4x640xi32>
      %10 = stablehlo.reshape %arg147 : (tensor<1x4x640xi32>) -> tensor<4x640xi32>
      %11 = stablehlo.reshape %arg148 : (tensor<1x2x144x64xf32>) -> tensor<2x144x64xf32>
      %12 = stablehlo.reshape %arg149 : (tensor<1x2x144x2xi32>) -> tensor<2x144x2xi32>
      %13 = stablehlo.reshape %arg150 : (tensor<1x2x144xi32>) -> tensor<2x144xi32>
      %14 = stablehlo.reshape %arg151 : (tensor<1x2x144x2xi32>) -> tensor<2x144x2xi32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %15 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x312xf32>, tensor<f32>) -> tensor<f32>
      %16 = stablehlo.slice %15 [] : (tensor<f32>) -> tensor<f32>
      %c = stablehlo.constant dense<1> : tensor<i32>
      %c_0 = stablehlo.constant dense<0> : tensor<i32>
      %17 = stablehlo.compare GE, %c, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %18 = func.call @_where(%17, %16, %cst_1) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %19 = "stablehlo.all_reduce"(%18) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
        %200 = stablehlo.add %arg152, %arg153 : tensor<f32>
        stablehlo.return %200 : tensor<f32>
      }) : (tensor<f32>) -> tensor<f32>
      %c_2 = stablehlo.constant dense<0> : tensor<i32>
      %20 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
      %21 = stablehlo.compare NE, %13, %20, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
      %22 = stablehlo.convert %21 : (tensor<2x144xi1>) -> tensor<2x144xi32>
      %c_3 = stablehlo.constant dense<0> : tensor<i32>
      %23 = stablehlo.reduce(%22 init: %c_3) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x144xi32>, tensor<i32>) -> tensor<i32>
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %24 = stablehlo.compare GT, %23, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %25 = stablehlo.convert %24 : (tensor<i1>) -> tensor<i32>
      %c_5 = stablehlo.constant dense<0> : tensor<i32>
      %c_6 = stablehlo.constant dense<1> : tensor<i32>
      %26 = stablehlo.clamp %c_5, %25, %c_6 : tensor<i32>
      %27 = "stablehlo.case"(%26) ({
        %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %200 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        stablehlo.return %200 : tensor<2x72x96xf32>
      }, {
        %200 = stablehlo.reshape %11 : (tensor<2x144x64xf32>) -> tensor<288x64xf32>
        %201 = stablehlo.dot_general %200, %arg118, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x64xf32>, tensor<64x96xf32>) -> tensor<288x96xf32>
        %202 = stablehlo.reshape %201 : (tensor<288x96xf32>) -> tensor<2x144x96xf32>
        %203 = stablehlo.broadcast_in_dim %arg117, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %204 = stablehlo.broadcast_in_dim %203, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
        %205 = stablehlo.add %202, %204 : tensor<2x144x96xf32>
        %206 = stablehlo.slice %12 [0:2, 0:144, 0:1] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %207 = stablehlo.reshape %206 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %208 = stablehlo.slice %14 [0:2, 0:144, 0:1] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %209 = stablehlo.reshape %208 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %210 = stablehlo.convert %207 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %c_82 = stablehlo.constant dense<1> : tensor<i32>
        %211 = stablehlo.broadcast_in_dim %c_82, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %212 = stablehlo.maximum %209, %211 : tensor<2x144xi32>
        %213 = stablehlo.convert %212 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %cst_83 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
        %214 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %215 = stablehlo.divide %214, %213 : tensor<2x144xf32>
        %c_84 = stablehlo.constant dense<2> : tensor<i32>
        %216 = stablehlo.broadcast_in_dim %c_84, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %217 = stablehlo.compare EQ, %209, %216, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
        %cst_85 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %218 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %219 = stablehlo.add %210, %218 : tensor<2x144xf32>
        %220 = stablehlo.multiply %219, %215 : tensor<2x144xf32>
        %cst_86 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %221 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %222 = stablehlo.subtract %220, %221 : tensor<2x144xf32>
        %223 = stablehlo.select %217, %210, %222 : tensor<2x144xi1>, tensor<2x144xf32>
        %224 = stablehlo.broadcast_in_dim %223, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %225 = stablehlo.iota dim = 0 : tensor<2xf32>
        %226 = stablehlo.broadcast_in_dim %225, dims = [2] : (tensor<2xf32>) -> tensor<1x1x2xf32>
        %227 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x2xf32>
        %228 = stablehlo.broadcast_in_dim %226, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<2x144x2xf32>
        %229 = stablehlo.subtract %227, %228 : tensor<2x144x2xf32>
        %230 = stablehlo.abs %229 : tensor<2x144x2xf32>
        %cst_87 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %231 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %232 = stablehlo.broadcast_in_dim %231, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %233 = stablehlo.broadcast_in_dim %232, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x2xf32>
        %234 = stablehlo.divide %230, %233 : tensor<2x144x2xf32>
        %cst_88 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %235 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<2x144x2xf32>
        %236 = stablehlo.subtract %235, %234 : tensor<2x144x2xf32>
        %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %237 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<2x144x2xf32>
        %238 = stablehlo.maximum %237, %236 : tensor<2x144x2xf32>
        %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %239 = stablehlo.reduce(%238 init: %cst_90) applies stablehlo.add across dimensions = [2] : (tensor<2x144x2xf32>, tensor<f32>) -> tensor<2x144xf32>
        %240 = stablehlo.broadcast_in_dim %239, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_91 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
        %241 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %242 = stablehlo.maximum %240, %241 : tensor<2x144x1xf32>
        %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x2xf32>
        %244 = stablehlo.divide %238, %243 : tensor<2x144x2xf32>
        %245 = stablehlo.slice %12 [0:2, 0:144, 1:2] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %246 = stablehlo.reshape %245 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %247 = stablehlo.slice %14 [0:2, 0:144, 1:2] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %248 = stablehlo.reshape %247 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %249 = stablehlo.convert %246 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %c_92 = stablehlo.constant dense<1> : tensor<i32>
        %250 = stablehlo.broadcast_in_dim %c_92, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %251 = stablehlo.maximum %248, %250 : tensor<2x144xi32>
        %252 = stablehlo.convert %251 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %cst_93 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
        %253 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %254 = stablehlo.divide %253, %252 : tensor<2x144xf32>
        %c_94 = stablehlo.constant dense<32> : tensor<i32>
        %255 = stablehlo.broadcast_in_dim %c_94, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %256 = stablehlo.compare EQ, %248, %255, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
        %cst_95 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %257 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %258 = stablehlo.add %249, %257 : tensor<2x144xf32>
        %259 = stablehlo.multiply %258, %254 : tensor<2x144xf32>
        %cst_96 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %260 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %261 = stablehlo.subtract %259, %260 : tensor<2x144xf32>
        %262 = stablehlo.select %256, %249, %261 : tensor<2x144xi1>, tensor<2x144xf32>
        %263 = stablehlo.broadcast_in_dim %262, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %264 = stablehlo.iota dim = 0 : tensor<32xf32>
        %265 = stablehlo.broadcast_in_dim %264, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
        %266 = stablehlo.broadcast_in_dim %263, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x32xf32>
        %267 = stablehlo.broadcast_in_dim %265, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x144x32xf32>
        %268 = stablehlo.subtract %266, %267 : tensor<2x144x32xf32>
        %269 = stablehlo.abs %268 : tensor<2x144x32xf32>
        %cst_97 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %270 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %271 = stablehlo.broadcast_in_dim %270, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %272 = stablehlo.broadcast_in_dim %271, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x32xf32>
        %273 = stablehlo.divide %269, %272 : tensor<2x144x32xf32>
        %cst_98 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %274 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<2x144x32xf32>
        %275 = stablehlo.subtract %274, %273 : tensor<2x144x32xf32>
        %cst_99 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %276 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<2x144x32xf32>
        %277 = stablehlo.maximum %276, %275 : tensor<2x144x32xf32>
        %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %278 = stablehlo.reduce(%277 init: %cst_100) applies stablehlo.add across dimensions = [2] : (tensor<2x144x32xf32>, tensor<f32>) -> tensor<2x144xf32>
        %279 = stablehlo.broadcast_in_dim %278, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_101 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
        %280 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %281 = stablehlo.maximum %279, %280 : tensor<2x144x1xf32>
        %282 = stablehlo.broadcast_in_dim %281, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x32xf32>
        %283 = stablehlo.divide %277, %282 : tensor<2x144x32xf32>
        %284 = stablehlo.broadcast_in_dim %244, dims = [0, 1, 2] : (tensor<2x144x2xf32>) -> tensor<2x144x2x1xf32>
        %285 = stablehlo.broadcast_in_dim %283, dims = [0, 1, 3] : (tensor<2x144x32xf32>) -> tensor<2x144x1x32xf32>
        %286 = stablehlo.broadcast_in_dim %284, dims = [0, 1, 2, 3] : (tensor<2x144x2x1xf32>) -> tensor<2x144x2x32xf32>
        %287 = stablehlo.broadcast_in_dim %285, dims = [0, 1, 2, 3] : (tensor<2x144x1x32xf32>) -> tensor<2x144x2x32xf32>
        %288 = stablehlo.multiply %286, %287 : tensor<2x144x2x32xf32>
        %289 = stablehlo.reshape %288 : (tensor<2x144x2x32xf32>) -> tensor<2x144x64xf32>
        %290 = stablehlo.dot_general %289, %arg119, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x144x64xf32>, tensor<64x96xf32>) -> tensor<2x144x96xf32>
        %291 = stablehlo.add %205, %290 : tensor<2x144x96xf32>
        %292 = stablehlo.iota dim = 0 : tensor<2xi32>
        %c_102 = stablehlo.constant dense<1> : tensor<i32>
        %293 = stablehlo.broadcast_in_dim %c_102, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %294 = stablehlo.multiply %293, %292 : tensor<2xi32>
        %c_103 = stablehlo.constant dense<0> : tensor<i32>
        %295 = stablehlo.broadcast_in_dim %c_103, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %296 = stablehlo.add %295, %294 : tensor<2xi32>
        %c_104 = stablehlo.constant dense<0> : tensor<i32>
        %297 = stablehlo.broadcast_in_dim %c_104, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %298 = stablehlo.add %297, %296 : tensor<2xi32>
        %c_105 = stablehlo.constant dense<0> : tensor<i32>
        %299:20 = stablehlo.while(%iterArg = %298, %iterArg_117 = %arg120, %iterArg_118 = %arg121, %iterArg_119 = %arg122, %iterArg_120 = %arg123, %iterArg_121 = %arg124, %iterArg_122 = %arg125, %iterArg_123 = %arg126, %iterArg_124 = %arg127, %iterArg_125 = %arg128, %iterArg_126 = %arg129, %iterArg_127 = %arg130, %iterArg_128 = %arg131, %iterArg_129 = %arg132, %iterArg_130 = %arg133, %iterArg_131 = %arg134, %iterArg_132 = %arg135, %iterArg_133 = %13, %iterArg_134 = %c_105, %iterArg_135 = %291) : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x144xi32>, tensor<i32>, tensor<2x144x96xf32>
        cond {
          %c_136 = stablehlo.constant dense<2> : tensor<i32>
          %355 = stablehlo.compare LT, %iterArg_134, %c_136, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %355 : tensor<i1>
        } do {
          %355 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_134) : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
          %356 = func.call @closed_call(%iterArg_117, %iterArg_118, %iterArg_119, %iterArg_120, %iterArg_121, %iterArg_122, %iterArg_123, %iterArg_124, %iterArg_125, %iterArg_126, %iterArg_127, %iterArg_128, %iterArg_129, %iterArg_130, %iterArg_131, %iterArg_132, %iterArg_133, %iterArg_135, %355) : (tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x144xi32>, tensor<2x144x96xf32>, tensor<i32>) -> tensor<2x144x96xf32>
          %c_136 = stablehlo.constant dense<1> : tensor<i32>
          %357 = stablehlo.add %iterArg_134, %c_136 : tensor<i32>
          stablehlo.return %iterArg, %iterArg_117, %iterArg_118, %iterArg_119, %iterArg_120, %iterArg_121, %iterArg_122, %iterArg_123, %iterArg_124, %iterArg_125, %iterArg_126, %iterArg_127, %iterArg_128, %iterArg_129, %iterArg_130, %iterArg_131, %iterArg_132, %iterArg_133, %357, %356 : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x144xi32>, tensor<i32>, tensor<2x144x96xf32>
        }
        %300 = stablehlo.slice %299#19 [0:2, 0:144, 0:96] : (tensor<2x144x96xf32>) -> tensor<2x144x96xf32>
        %c_106 = stablehlo.constant dense<0> : tensor<i32>
        %301 = stablehlo.broadcast_in_dim %c_106, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %302 = stablehlo.compare GT, %13, %301, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
        %303 = stablehlo.broadcast_in_dim %302, dims = [0, 1] : (tensor<2x144xi1>) -> tensor<2x144x1xi1>
        %304 = stablehlo.broadcast_in_dim %arg137, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %305 = stablehlo.broadcast_in_dim %arg136, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %306 = stablehlo.reduce(%300 init: %cst_107) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
        %307 = stablehlo.broadcast_in_dim %306, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_108 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %308 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %309 = stablehlo.divide %307, %308 : tensor<2x144x1xf32>
        %310 = stablehlo.broadcast_in_dim %309, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
        %311 = stablehlo.subtract %300, %310 : tensor<2x144x96xf32>
        %312 = chlo.square %311 : tensor<2x144x96xf32> -> tensor<2x144x96xf32>
        %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %313 = stablehlo.reduce(%312 init: %cst_109) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
        %314 = stablehlo.broadcast_in_dim %313, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_110 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %315 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %316 = stablehlo.divide %314, %315 : tensor<2x144x1xf32>
        %cst_111 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
        %317 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %318 = stablehlo.add %316, %317 : tensor<2x144x1xf32>
        %319 = stablehlo.rsqrt %318 : tensor<2x144x1xf32>
        %320 = stablehlo.broadcast_in_dim %319, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
        %321 = stablehlo.multiply %311, %320 : tensor<2x144x96xf32>
        %322 = stablehlo.broadcast_in_dim %304, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
        %323 = stablehlo.multiply %321, %322 : tensor<2x144x96xf32>
        %324 = stablehlo.broadcast_in_dim %305, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
        %325 = stablehlo.add %323, %324 : tensor<2x144x96xf32>
        %326 = stablehlo.broadcast_in_dim %303, dims = [0, 1, 2] : (tensor<2x144x1xi1>) -> tensor<2x144x96xi1>
        %cst_112 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %327 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<2x144x96xf32>
        %328 = stablehlo.select %326, %325, %327 : tensor<2x144x96xi1>, tensor<2x144x96xf32>
        %329 = stablehlo.reshape %328 : (tensor<2x144x96xf32>) -> tensor<2x72x192xf32>
        %330 = stablehlo.reshape %329 : (tensor<2x72x192xf32>) -> tensor<144x192xf32>
        %331 = stablehlo.dot_general %330, %arg114, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<144x192xf32>, tensor<192x96xf32>) -> tensor<144x96xf32>
        %332 = stablehlo.reshape %331 : (tensor<144x96xf32>) -> tensor<2x72x96xf32>
        %333 = stablehlo.broadcast_in_dim %arg113, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %334 = stablehlo.broadcast_in_dim %333, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x72x96xf32>
        %335 = stablehlo.add %332, %334 : tensor<2x72x96xf32>
        %336 = stablehlo.multiply %335, %335 : tensor<2x72x96xf32>
        %337 = stablehlo.multiply %336, %335 : tensor<2x72x96xf32>
        %cst_113 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
        %338 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %339 = stablehlo.multiply %338, %337 : tensor<2x72x96xf32>
        %340 = stablehlo.add %335, %339 : tensor<2x72x96xf32>
        %cst_114 = stablehlo.constant dense<0.797884583> : tensor<f32>
        %341 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %342 = stablehlo.multiply %341, %340 : tensor<2x72x96xf32>
        %343 = stablehlo.tanh %342 : tensor<2x72x96xf32>
        %cst_115 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %344 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %345 = stablehlo.add %344, %343 : tensor<2x72x96xf32>
        %cst_116 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %346 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %347 = stablehlo.multiply %346, %345 : tensor<2x72x96xf32>
        %348 = stablehlo.multiply %335, %347 : tensor<2x72x96xf32>
        %349 = stablehlo.reshape %348 : (tensor<2x72x96xf32>) -> tensor<144x96xf32>
        %350 = stablehlo.dot_general %349, %arg116, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<144x96xf32>, tensor<96x96xf32>) -> tensor<144x96xf32>
        %351 = stablehlo.reshape %350 : (tensor<144x96xf32>) -> tensor<2x72x96xf32>
        %352 = stablehlo.broadcast_in_dim %arg115, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %353 = stablehlo.broadcast_in_dim %352, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x72x96xf32>
        %354 = stablehlo.add %351, %353 : tensor<2x72x96xf32>
        stablehlo.return %354 : tensor<2x72x96xf32>
      }) : (tensor<i32>) -> tensor<2x72x96xf32>
      %c_7 = stablehlo.constant dense<0> : tensor<i32>
      %28 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %29 = stablehlo.compare GE, %3, %28, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_8 = stablehlo.constant dense<false> : tensor<i1>
      %30 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<4x312xi1>
      %31 = stablehlo.compare NE, %29, %30, UNSIGNED : (tensor<4x312xi1>, tensor<4x312xi1>) -> tensor<4x312xi1>
      %32 = stablehlo.convert %31 : (tensor<4x312xi1>) -> tensor<4x312xi32>
      %c_9 = stablehlo.constant dense<0> : tensor<i32>
      %33 = stablehlo.reduce(%32 init: %c_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x312xi32>, tensor<i32>) -> tensor<i32>
      %c_10 = stablehlo.constant dense<0> : tensor<i32>
      %34 = stablehlo.compare GT, %33, %c_10, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %35 = stablehlo.convert %34 : (tensor<i1>) -> tensor<i32>
      %36 = stablehlo.slice %19 [] : (tensor<f32>) -> tensor<f32>
      %37 = stablehlo.reshape %36 : (tensor<f32>) -> tensor<f32>
      %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %38 = stablehlo.compare NE, %37, %cst_11, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %39 = stablehlo.convert %38 : (tensor<i1>) -> tensor<i32>
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %40 = stablehlo.or %39, %c_12 : tensor<i32>
      %c_13 = stablehlo.constant dense<1> : tensor<i32>
      %41 = stablehlo.and %c_13, %40 : tensor<i32>
      %c_14 = stablehlo.constant dense<0> : tensor<i32>
      %c_15 = stablehlo.constant dense<1> : tensor<i32>
      %42 = stablehlo.clamp %c_14, %35, %c_15 : tensor<i32>
      %43:2 = "stablehlo.case"(%42) ({
        %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %200 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        stablehlo.return %41, %200 : tensor<i32>, tensor<4x156x96xf32>
      }, {
        %200 = stablehlo.slice %27 [0:1, 0:1, 0:1] : (tensor<2x72x96xf32>) -> tensor<1x1x1xf32>
        %c_82 = stablehlo.constant dense<0> : tensor<i32>
        %201 = stablehlo.compare GE, %41, %c_82, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_83 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %202 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %203 = func.call @_where_7(%201, %200, %202) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_84 = stablehlo.constant dense<0> : tensor<i32>
        %c_85 = stablehlo.constant dense<0> : tensor<i32>
        %c_86 = stablehlo.constant dense<0> : tensor<i32>
        %204 = stablehlo.dynamic_update_slice %27, %203, %c_84, %c_85, %c_86 : (tensor<2x72x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x72x96xf32>
        %205 = "stablehlo.all_gather"(%204) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<2x72x96xf32>) -> tensor<4x72x96xf32>
        %c_87 = stablehlo.constant dense<2> : tensor<ui32>
        %c_88 = stablehlo.constant dense<2> : tensor<ui32>
        %206 = stablehlo.partition_id : tensor<ui32>
        %207 = stablehlo.divide %206, %c_87 : tensor<ui32>
        %208 = stablehlo.remainder %207, %c_88 : tensor<ui32>
        %209 = stablehlo.convert %208 : (tensor<ui32>) -> tensor<i32>
        %c_89 = stablehlo.constant dense<1> : tensor<i32>
        %210 = stablehlo.multiply %209, %c_89 : tensor<i32>
        %c_90 = stablehlo.constant dense<0> : tensor<i32>
        %211 = stablehlo.add %c_90, %210 : tensor<i32>
        %c_91 = stablehlo.constant dense<4> : tensor<i32>
        %212 = stablehlo.multiply %211, %c_91 : tensor<i32>
        %c_92 = stablehlo.constant dense<72> : tensor<i32>
        %213 = stablehlo.multiply %212, %c_92 : tensor<i32>
        %c_93 = stablehlo.constant dense<1> : tensor<ui32>
        %c_94 = stablehlo.constant dense<2> : tensor<ui32>
        %214 = stablehlo.partition_id : tensor<ui32>
        %215 = stablehlo.divide %214, %c_93 : tensor<ui32>
        %216 = stablehlo.remainder %215, %c_94 : tensor<ui32>
        %217 = stablehlo.convert %216 : (tensor<ui32>) -> tensor<i32>
        %c_95 = stablehlo.constant dense<1> : tensor<i32>
        %218 = stablehlo.multiply %217, %c_95 : tensor<i32>
        %c_96 = stablehlo.constant dense<0> : tensor<i32>
        %219 = stablehlo.add %c_96, %218 : tensor<i32>
        %c_97 = stablehlo.constant dense<156> : tensor<i32>
        %220 = stablehlo.multiply %219, %c_97 : tensor<i32>
        %c_98 = stablehlo.constant dense<0> : tensor<i32>
        %221 = stablehlo.compare LT, %220, %c_98, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_99 = stablehlo.constant dense<312> : tensor<i32>
        %222 = stablehlo.add %220, %c_99 : tensor<i32>
        %223 = stablehlo.select %221, %222, %220 : tensor<i1>, tensor<i32>
        %c_100 = stablehlo.constant dense<0> : tensor<i32>
        %224 = stablehlo.dynamic_slice %3, %c_100, %223, sizes = [4, 156] : (tensor<4x312xi32>, tensor<i32>, tensor<i32>) -> tensor<4x156xi32>
        %c_101 = stablehlo.constant dense<0> : tensor<i32>
        %225 = stablehlo.broadcast_in_dim %c_101, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %226 = stablehlo.compare GE, %224, %225, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %227 = stablehlo.broadcast_in_dim %213, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %228 = stablehlo.subtract %224, %227 : tensor<4x156xi32>
        %c_102 = stablehlo.constant dense<288> : tensor<i32>
        %229 = stablehlo.broadcast_in_dim %c_102, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %230 = stablehlo.select %226, %228, %229 : tensor<4x156xi1>, tensor<4x156xi32>
        %231 = stablehlo.reshape %205 : (tensor<4x72x96xf32>) -> tensor<288x96xf32>
        %c_103 = stablehlo.constant dense<0> : tensor<i32>
        %232 = stablehlo.broadcast_in_dim %c_103, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %233 = stablehlo.compare LT, %230, %232, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %c_104 = stablehlo.constant dense<288> : tensor<i32>
        %234 = stablehlo.broadcast_in_dim %c_104, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %235 = stablehlo.add %230, %234 : tensor<4x156xi32>
        %236 = stablehlo.select %233, %235, %230 : tensor<4x156xi1>, tensor<4x156xi32>
        %237 = stablehlo.broadcast_in_dim %236, dims = [0, 1] : (tensor<4x156xi32>) -> tensor<4x156x1xi32>
        %c_105 = stablehlo.constant dense<287> : tensor<1xi32>
        %c_106 = stablehlo.constant dense<0> : tensor<i32>
        %238 = stablehlo.broadcast_in_dim %c_106, dims = [] : (tensor<i32>) -> tensor<4x156x1xi32>
        %239 = stablehlo.compare GE, %237, %238, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %240 = stablehlo.broadcast_in_dim %c_105, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
        %241 = stablehlo.broadcast_in_dim %240, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x156x1xi32>
        %242 = stablehlo.compare LE, %237, %241, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %243 = stablehlo.and %239, %242 : tensor<4x156x1xi1>
        %c_107 = stablehlo.constant dense<true> : tensor<i1>
        %244 = stablehlo.reduce(%243 init: %c_107) applies stablehlo.and across dimensions = [2] : (tensor<4x156x1xi1>, tensor<i1>) -> tensor<4x156xi1>
        %245 = "stablehlo.gather"(%231, %237) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<288x96xf32>, tensor<4x156x1xi32>) -> tensor<4x156x96xf32>
        %246 = stablehlo.broadcast_in_dim %244, dims = [0, 1] : (tensor<4x156xi1>) -> tensor<4x156x96xi1>
        %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %247 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        %248 = stablehlo.select %246, %245, %247 : tensor<4x156x96xi1>, tensor<4x156x96xf32>
        %249 = stablehlo.slice %205 [0:1, 0:1, 0:1] : (tensor<4x72x96xf32>) -> tensor<1x1x1xf32>
        %250 = stablehlo.reshape %249 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %251 = stablehlo.compare NE, %250, %cst_109, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %252 = stablehlo.convert %251 : (tensor<i1>) -> tensor<i32>
        %c_110 = stablehlo.constant dense<1> : tensor<i32>
        %253 = stablehlo.or %252, %c_110 : tensor<i32>
        %254 = stablehlo.and %41, %253 : tensor<i32>
        stablehlo.return %254, %248 : tensor<i32>, tensor<4x156x96xf32>
      }) : (tensor<i32>) -> (tensor<i32>, tensor<4x156x96xf32>)
      %c_16 = stablehlo.constant dense<0> : tensor<i32>
      %44 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<4x640xi32>
      %45 = stablehlo.compare NE, %10, %44, SIGNED : (tensor<4x640xi32>, tensor<4x640xi32>) -> tensor<4x640xi1>
      %46 = stablehlo.convert %45 : (tensor<4x640xi1>) -> tensor<4x640xi32>
      %c_17 = stablehlo.constant dense<0> : tensor<i32>
      %47 = stablehlo.reduce(%46 init: %c_17) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x640xi32>, tensor<i32>) -> tensor<i32>
      %c_18 = stablehlo.constant dense<0> : tensor<i32>
      %48 = stablehlo.compare GT, %47, %c_18, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %49 = stablehlo.convert %48 : (tensor<i1>) -> tensor<i32>
      %c_19 = stablehlo.constant dense<0> : tensor<i32>
      %c_20 = stablehlo.constant dense<1> : tensor<i32>
      %50 = stablehlo.clamp %c_19, %49, %c_20 : tensor<i32>
      %51:2 = "stablehlo.case"(%50) ({
        %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %200 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x40x96xf32>
        stablehlo.return %43#0, %200 : tensor<i32>, tensor<4x40x96xf32>
      }, {
        %200 = stablehlo.abs %10 : tensor<4x640xi32>
        %201 = stablehlo.slice %200 [0:4, 0:640:2] : (tensor<4x640xi32>) -> tensor<4x320xi32>
        %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %202 = stablehlo.pad %8, %cst_82, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<4x640x40xf32>, tensor<f32>) -> tensor<4x642x40xf32>
        %c_83 = stablehlo.constant dense<0> : tensor<i32>
        %203 = stablehlo.pad %200, %c_83, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<4x640xi32>, tensor<i32>) -> tensor<4x642xi32>
        %204 = stablehlo.slice %203 [0:4, 0:640:2] : (tensor<4x642xi32>) -> tensor<4x320xi32>
        %205 = stablehlo.compare EQ, %204, %201, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %c_84 = stablehlo.constant dense<0> : tensor<i32>
        %206 = stablehlo.broadcast_in_dim %c_84, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %207 = stablehlo.compare GT, %201, %206, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %208 = stablehlo.and %205, %207 : tensor<4x320xi1>
        %209 = stablehlo.broadcast_in_dim %208, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %210 = stablehlo.slice %202 [0:4, 0:640:2, 0:40] : (tensor<4x642x40xf32>) -> tensor<4x320x40xf32>
        %211 = stablehlo.broadcast_in_dim %209, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x40xi1>
        %cst_85 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %212 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<4x320x40xf32>
        %213 = stablehlo.select %211, %210, %212 : tensor<4x320x40xi1>, tensor<4x320x40xf32>
        %214 = stablehlo.slice %203 [0:4, 1:641:2] : (tensor<4x642xi32>) -> tensor<4x320xi32>
        %215 = stablehlo.compare EQ, %214, %201, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %c_86 = stablehlo.constant dense<0> : tensor<i32>
        %216 = stablehlo.broadcast_in_dim %c_86, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %217 = stablehlo.compare GT, %201, %216, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %218 = stablehlo.and %215, %217 : tensor<4x320xi1>
        %219 = stablehlo.broadcast_in_dim %218, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %220 = stablehlo.slice %202 [0:4, 1:641:2, 0:40] : (tensor<4x642x40xf32>) -> tensor<4x320x40xf32>
        %221 = stablehlo.broadcast_in_dim %219, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x40xi1>
        %cst_87 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %222 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<4x320x40xf32>
        %223 = stablehlo.select %221, %220, %222 : tensor<4x320x40xi1>, tensor<4x320x40xf32>
        %224 = stablehlo.slice %203 [0:4, 2:642:2] : (tensor<4x642xi32>) -> tensor<4x320xi32>
        %225 = stablehlo.compare EQ, %224, %201, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %c_88 = stablehlo.constant dense<0> : tensor<i32>
        %226 = stablehlo.broadcast_in_dim %c_88, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %227 = stablehlo.compare GT, %201, %226, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %228 = stablehlo.and %225, %227 : tensor<4x320xi1>
        %229 = stablehlo.broadcast_in_dim %228, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %230 = stablehlo.slice %202 [0:4, 2:642:2, 0:40] : (tensor<4x642x40xf32>) -> tensor<4x320x40xf32>
        %231 = stablehlo.broadcast_in_dim %229, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x40xi1>
        %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %232 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<4x320x40xf32>
        %233 = stablehlo.select %231, %230, %232 : tensor<4x320x40xi1>, tensor<4x320x40xf32>
        %234 = stablehlo.broadcast_in_dim %213, dims = [0, 1, 3] : (tensor<4x320x40xf32>) -> tensor<4x320x1x40xf32>
        %235 = stablehlo.broadcast_in_dim %223, dims = [0, 1, 3] : (tensor<4x320x40xf32>) -> tensor<4x320x1x40xf32>
        %236 = stablehlo.broadcast_in_dim %233, dims = [0, 1, 3] : (tensor<4x320x40xf32>) -> tensor<4x320x1x40xf32>
        %237 = stablehlo.concatenate %234, %235, %236, dim = 2 : (tensor<4x320x1x40xf32>, tensor<4x320x1x40xf32>, tensor<4x320x1x40xf32>) -> tensor<4x320x3x40xf32>
        %238 = stablehlo.reshape %237 : (tensor<4x320x3x40xf32>) -> tensor<1280x120xf32>
        %239 = stablehlo.reshape %arg93 : (tensor<3x40x48xf32>) -> tensor<120x48xf32>
        %240 = stablehlo.dot_general %238, %239, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1280x120xf32>, tensor<120x48xf32>) -> tensor<1280x48xf32>
        %241 = stablehlo.reshape %240 : (tensor<1280x48xf32>) -> tensor<4x320x48xf32>
        %242 = stablehlo.broadcast_in_dim %arg92, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
        %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<4x320x48xf32>
        %244 = stablehlo.add %241, %243 : tensor<4x320x48xf32>
        %245 = stablehlo.slice %200 [0:4, 0:640:2] : (tensor<4x640xi32>) -> tensor<4x320xi32>
        %c_90 = stablehlo.constant dense<0> : tensor<i32>
        %246 = stablehlo.broadcast_in_dim %c_90, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %247 = stablehlo.compare GT, %245, %246, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %248 = stablehlo.broadcast_in_dim %247, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %cst_91 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %249 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %250 = stablehlo.multiply %249, %244 : tensor<4x320x48xf32>
        %cst_92 = stablehlo.constant dense<0.707106769> : tensor<f32>
        %251 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %252 = stablehlo.multiply %244, %251 : tensor<4x320x48xf32>
        %cst_93 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %253 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %254 = stablehlo.multiply %252, %253 : tensor<4x320x48xf32>
        %255 = chlo.erf %254 : tensor<4x320x48xf32> -> tensor<4x320x48xf32>
        %cst_94 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %256 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %257 = stablehlo.add %256, %255 : tensor<4x320x48xf32>
        %258 = stablehlo.multiply %250, %257 : tensor<4x320x48xf32>
        %259 = stablehlo.broadcast_in_dim %248, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x48xi1>
        %cst_95 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %260 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %261 = stablehlo.select %259, %258, %260 : tensor<4x320x48xi1>, tensor<4x320x48xf32>
        %262 = stablehlo.slice %245 [0:4, 0:320:2] : (tensor<4x320xi32>) -> tensor<4x160xi32>
        %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %263 = stablehlo.pad %261, %cst_96, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<4x320x48xf32>, tensor<f32>) -> tensor<4x322x48xf32>
        %c_97 = stablehlo.constant dense<0> : tensor<i32>
        %264 = stablehlo.pad %245, %c_97, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<4x320xi32>, tensor<i32>) -> tensor<4x322xi32>
        %265 = stablehlo.slice %264 [0:4, 0:320:2] : (tensor<4x322xi32>) -> tensor<4x160xi32>
        %266 = stablehlo.compare EQ, %265, %262, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_98 = stablehlo.constant dense<0> : tensor<i32>
        %267 = stablehlo.broadcast_in_dim %c_98, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %268 = stablehlo.compare GT, %262, %267, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %269 = stablehlo.and %266, %268 : tensor<4x160xi1>
        %270 = stablehlo.broadcast_in_dim %269, dims = [0, 1] : (tensor<4x160xi1>) -> tensor<4x160x1xi1>
        %271 = stablehlo.slice %263 [0:4, 0:320:2, 0:48] : (tensor<4x322x48xf32>) -> tensor<4x160x48xf32>
        %272 = stablehlo.broadcast_in_dim %270, dims = [0, 1, 2] : (tensor<4x160x1xi1>) -> tensor<4x160x48xi1>
        %cst_99 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %273 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<4x160x48xf32>
        %274 = stablehlo.select %272, %271, %273 : tensor<4x160x48xi1>, tensor<4x160x48xf32>
        %275 = stablehlo.slice %264 [0:4, 1:321:2] : (tensor<4x322xi32>) -> tensor<4x160xi32>
        %276 = stablehlo.compare EQ, %275, %262, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_100 = stablehlo.constant dense<0> : tensor<i32>
        %277 = stablehlo.broadcast_in_dim %c_100, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %278 = stablehlo.compare GT, %262, %277, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %279 = stablehlo.and %276, %278 : tensor<4x160xi1>
        %280 = stablehlo.broadcast_in_dim %279, dims = [0, 1] : (tensor<4x160xi1>) -> tensor<4x160x1xi1>
        %281 = stablehlo.slice %263 [0:4, 1:321:2, 0:48] : (tensor<4x322x48xf32>) -> tensor<4x160x48xf32>
        %282 = stablehlo.broadcast_in_dim %280, dims = [0, 1, 2] : (tensor<4x160x1xi1>) -> tensor<4x160x48xi1>
        %cst_101 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %283 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<4x160x48xf32>
        %284 = stablehlo.select %282, %281, %283 : tensor<4x160x48xi1>, tensor<4x160x48xf32>
        %285 = stablehlo.slice %264 [0:4, 2:322:2] : (tensor<4x322xi32>) -> tensor<4x160xi32>
        %286 = stablehlo.compare EQ, %285, %262, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_102 = stablehlo.constant dense<0> : tensor<i32>
        %287 = stablehlo.broadcast_in_dim %c_102, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %288 = stablehlo.compare GT, %262, %287, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %289 = stablehlo.and %286, %288 : tensor<4x160xi1>
        %290 = stablehlo.broadcast_in_dim %289, dims = [0, 1] : (tensor<4x160xi1>) -> tensor<4x160x1xi1>
        %291 = stablehlo.slice %263 [0:4, 2:322:2, 0:48] : (tensor<4x322x48xf32>) -> tensor<4x160x48xf32>
        %292 = stablehlo.broadcast_in_dim %290, dims = [0, 1, 2] : (tensor<4x160x1xi1>) -> tensor<4x160x48xi1>
        %cst_103 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %293 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<4x160x48xf32>
        %294 = stablehlo.select %292, %291, %293 : tensor<4x160x48xi1>, tensor<4x160x48xf32>
        %295 = stablehlo.broadcast_in_dim %274, dims = [0, 1, 3] : (tensor<4x160x48xf32>) -> tensor<4x160x1x48xf32>
        %296 = stablehlo.broadcast_in_dim %284, dims = [0, 1, 3] : (tensor<4x160x48xf32>) -> tensor<4x160x1x48xf32>
        %297 = stablehlo.broadcast_in_dim %294, dims = [0, 1, 3] : (tensor<4x160x48xf32>) -> tensor<4x160x1x48xf32>
        %298 = stablehlo.concatenate %295, %296, %297, dim = 2 : (tensor<4x160x1x48xf32>, tensor<4x160x1x48xf32>, tensor<4x160x1x48xf32>) -> tensor<4x160x3x48xf32>
        %299 = stablehlo.reshape %298 : (tensor<4x160x3x48xf32>) -> tensor<640x144xf32>
        %300 = stablehlo.reshape %arg95 : (tensor<3x48x96xf32>) -> tensor<144x96xf32>
        %301 = stablehlo.dot_general %299, %300, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x144xf32>, tensor<144x96xf32>) -> tensor<640x96xf32>
        %302 = stablehlo.reshape %301 : (tensor<640x96xf32>) -> tensor<4x160x96xf32>
        %303 = stablehlo.slice %302 [0:1, 0:1, 0:1] : (tensor<4x160x96xf32>) -> tensor<1x1x1xf32>
        %c_104 = stablehlo.constant dense<0> : tensor<i32>
        %304 = stablehlo.compare GE, %43#0, %c_104, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_105 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %305 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %306 = func.call @_where_7(%304, %303, %305) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_106 = stablehlo.constant dense<0> : tensor<i32>
        %c_107 = stablehlo.constant dense<0> : tensor<i32>
        %c_108 = stablehlo.constant dense<0> : tensor<i32>
        %307 = stablehlo.dynamic_update_slice %302, %306, %c_106, %c_107, %c_108 : (tensor<4x160x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x160x96xf32>
        %308 = "stablehlo.reduce_scatter"(%307) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
          %492 = stablehlo.add %arg152, %arg153 : tensor<f32>
          stablehlo.return %492 : tensor<f32>
        }) : (tensor<4x160x96xf32>) -> tensor<4x80x96xf32>
        %309 = stablehlo.broadcast_in_dim %arg94, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %310 = stablehlo.broadcast_in_dim %309, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
        %311 = stablehlo.add %308, %310 : tensor<4x80x96xf32>
        %312 = stablehlo.slice %10 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_109 = stablehlo.constant dense<0> : tensor<i32>
        %313 = stablehlo.broadcast_in_dim %c_109, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %314 = stablehlo.maximum %312, %313 : tensor<4x160xi32>
        %315 = stablehlo.slice %9 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_110 = stablehlo.constant dense<4> : tensor<i32>
        %316 = stablehlo.broadcast_in_dim %c_110, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %317 = stablehlo.divide %315, %316 : tensor<4x160xi32>
        %318 = stablehlo.sign %315 : tensor<4x160xi32>
        %c_111 = stablehlo.constant dense<4> : tensor<i32>
        %319 = stablehlo.sign %c_111 : tensor<i32>
        %320 = stablehlo.broadcast_in_dim %319, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %321 = stablehlo.compare NE, %318, %320, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_112 = stablehlo.constant dense<4> : tensor<i32>
        %322 = stablehlo.broadcast_in_dim %c_112, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %323 = stablehlo.remainder %315, %322 : tensor<4x160xi32>
        %c_113 = stablehlo.constant dense<0> : tensor<i32>
        %324 = stablehlo.broadcast_in_dim %c_113, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %325 = stablehlo.compare NE, %323, %324, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %326 = stablehlo.and %321, %325 : tensor<4x160xi1>
        %c_114 = stablehlo.constant dense<1> : tensor<i32>
        %327 = stablehlo.broadcast_in_dim %c_114, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %328 = stablehlo.subtract %317, %327 : tensor<4x160xi32>
        %329 = stablehlo.select %326, %328, %317 : tensor<4x160xi1>, tensor<4x160xi32>
        %c_115 = stablehlo.constant dense<1> : tensor<ui32>
        %c_116 = stablehlo.constant dense<2> : tensor<ui32>
        %330 = stablehlo.partition_id : tensor<ui32>
        %331 = stablehlo.divide %330, %c_115 : tensor<ui32>
        %332 = stablehlo.remainder %331, %c_116 : tensor<ui32>
        %333 = stablehlo.convert %332 : (tensor<ui32>) -> tensor<i32>
        %c_117 = stablehlo.constant dense<1> : tensor<i32>
        %334 = stablehlo.multiply %333, %c_117 : tensor<i32>
        %c_118 = stablehlo.constant dense<0> : tensor<i32>
        %335 = stablehlo.add %c_118, %334 : tensor<i32>
        %c_119 = stablehlo.constant dense<80> : tensor<i32>
        %336 = stablehlo.multiply %335, %c_119 : tensor<i32>
        %c_120 = stablehlo.constant dense<0> : tensor<i32>
        %337 = stablehlo.compare LT, %336, %c_120, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_121 = stablehlo.constant dense<160> : tensor<i32>
        %338 = stablehlo.add %336, %c_121 : tensor<i32>
        %339 = stablehlo.select %337, %338, %336 : tensor<i1>, tensor<i32>
        %c_122 = stablehlo.constant dense<0> : tensor<i32>
        %340 = stablehlo.dynamic_slice %314, %c_122, %339, sizes = [4, 80] : (tensor<4x160xi32>, tensor<i32>, tensor<i32>) -> tensor<4x80xi32>
        %c_123 = stablehlo.constant dense<1> : tensor<ui32>
        %c_124 = stablehlo.constant dense<2> : tensor<ui32>
        %341 = stablehlo.partition_id : tensor<ui32>
        %342 = stablehlo.divide %341, %c_123 : tensor<ui32>
        %343 = stablehlo.remainder %342, %c_124 : tensor<ui32>
        %344 = stablehlo.convert %343 : (tensor<ui32>) -> tensor<i32>
        %c_125 = stablehlo.constant dense<1> : tensor<i32>
        %345 = stablehlo.multiply %344, %c_125 : tensor<i32>
        %c_126 = stablehlo.constant dense<0> : tensor<i32>
        %346 = stablehlo.add %c_126, %345 : tensor<i32>
        %c_127 = stablehlo.constant dense<80> : tensor<i32>
        %347 = stablehlo.multiply %346, %c_127 : tensor<i32>
        %c_128 = stablehlo.constant dense<0> : tensor<i32>
        %348 = stablehlo.compare LT, %347, %c_128, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_129 = stablehlo.constant dense<160> : tensor<i32>
        %349 = stablehlo.add %347, %c_129 : tensor<i32>
        %350 = stablehlo.select %348, %349, %347 : tensor<i1>, tensor<i32>
        %c_130 = stablehlo.constant dense<0> : tensor<i32>
        %351 = stablehlo.dynamic_slice %329, %c_130, %350, sizes = [4, 80] : (tensor<4x160xi32>, tensor<i32>, tensor<i32>) -> tensor<4x80xi32>
        %cst_131 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %352 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %353 = stablehlo.multiply %352, %311 : tensor<4x80x96xf32>
        %cst_132 = stablehlo.constant dense<0.707106769> : tensor<f32>
        %354 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %355 = stablehlo.multiply %311, %354 : tensor<4x80x96xf32>
        %cst_133 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %356 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %357 = stablehlo.multiply %355, %356 : tensor<4x80x96xf32>
        %358 = chlo.erf %357 : tensor<4x80x96xf32> -> tensor<4x80x96xf32>
        %cst_134 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %359 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %360 = stablehlo.add %359, %358 : tensor<4x80x96xf32>
        %361 = stablehlo.multiply %353, %360 : tensor<4x80x96xf32>
        %362 = stablehlo.iota dim = 0 : tensor<48xf32>
        %cst_135 = stablehlo.constant dense<-0.195964694> : tensor<f32>
        %363 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<48xf32>
        %364 = stablehlo.multiply %363, %362 : tensor<48xf32>
        %365 = stablehlo.exponential %364 : tensor<48xf32>
        %366 = stablehlo.convert %351 : (tensor<4x80xi32>) -> tensor<4x80xf32>
        %367 = stablehlo.broadcast_in_dim %366, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
        %368 = stablehlo.broadcast_in_dim %365, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
        %369 = stablehlo.broadcast_in_dim %367, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x48xf32>
        %370 = stablehlo.broadcast_in_dim %368, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<4x80x48xf32>
        %371 = stablehlo.multiply %369, %370 : tensor<4x80x48xf32>
        %372 = stablehlo.sine %371 : tensor<4x80x48xf32>
        %373 = stablehlo.cosine %371 : tensor<4x80x48xf32>
        %374 = stablehlo.concatenate %372, %373, dim = 2 : (tensor<4x80x48xf32>, tensor<4x80x48xf32>) -> tensor<4x80x96xf32>
        %375 = stablehlo.add %361, %374 : tensor<4x80x96xf32>
        %c_136 = stablehlo.constant dense<0> : tensor<i32>
        %376 = stablehlo.broadcast_in_dim %c_136, dims = [] : (tensor<i32>) -> tensor<4x80xi32>
        %377 = stablehlo.compare GT, %340, %376, SIGNED : (tensor<4x80xi32>, tensor<4x80xi32>) -> tensor<4x80xi1>
        %378 = stablehlo.broadcast_in_dim %377, dims = [0, 1] : (tensor<4x80xi1>) -> tensor<4x80x1xi1>
        %379 = stablehlo.broadcast_in_dim %378, dims = [0, 1, 2] : (tensor<4x80x1xi1>) -> tensor<4x80x96xi1>
        %cst_137 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %380 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %381 = stablehlo.select %379, %375, %380 : tensor<4x80x96xi1>, tensor<4x80x96xf32>
        %382 = stablehlo.slice %10 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_138 = stablehlo.constant dense<0> : tensor<i32>
        %383 = stablehlo.broadcast_in_dim %c_138, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %384 = stablehlo.maximum %382, %383 : tensor<4x160xi32>
        %385 = stablehlo.iota dim = 0 : tensor<2xi32>
        %c_139 = stablehlo.constant dense<1> : tensor<i32>
        %386 = stablehlo.broadcast_in_dim %c_139, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %387 = stablehlo.multiply %386, %385 : tensor<2xi32>
        %c_140 = stablehlo.constant dense<0> : tensor<i32>
        %388 = stablehlo.broadcast_in_dim %c_140, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %389 = stablehlo.add %388, %387 : tensor<2xi32>
        %c_141 = stablehlo.constant dense<0> : tensor<i32>
        %390 = stablehlo.broadcast_in_dim %c_141, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %391 = stablehlo.add %390, %389 : tensor<2xi32>
        %392 = stablehlo.slice %308 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
        %393 = stablehlo.reshape %392 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_142 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %394 = stablehlo.compare NE, %393, %cst_142, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %395 = stablehlo.convert %394 : (tensor<i1>) -> tensor<i32>
        %c_143 = stablehlo.constant dense<1> : tensor<i32>
        %396 = stablehlo.or %395, %c_143 : tensor<i32>
        %397 = stablehlo.and %43#0, %396 : tensor<i32>
        %c_144 = stablehlo.constant dense<0> : tensor<i32>
        %398:20 = stablehlo.while(%iterArg = %391, %iterArg_179 = %arg96, %iterArg_180 = %arg97, %iterArg_181 = %arg98, %iterArg_182 = %arg99, %iterArg_183 = %arg100, %iterArg_184 = %arg101, %iterArg_185 = %arg102, %iterArg_186 = %arg103, %iterArg_187 = %arg104, %iterArg_188 = %arg105, %iterArg_189 = %arg106, %iterArg_190 = %arg107, %iterArg_191 = %arg108, %iterArg_192 = %arg109, %iterArg_193 = %arg110, %iterArg_194 = %384, %iterArg_195 = %c_144, %iterArg_196 = %397, %iterArg_197 = %381) : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x128xf32>, tensor<2x96x128xf32>, tensor<2x96xf32>, tensor<2x128x96xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x2x24x96xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<4x160xi32>, tensor<i32>, tensor<i32>, tensor<4x80x96xf32>
        cond {
          %c_198 = stablehlo.constant dense<2> : tensor<i32>
          %492 = stablehlo.compare LT, %iterArg_195, %c_198, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %492 : tensor<i1>
        } do {
          %492 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_195) : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
          %493:2 = func.call @closed_call_8(%iterArg_179, %iterArg_180, %iterArg_181, %iterArg_182, %iterArg_183, %iterArg_184, %iterArg_185, %iterArg_186, %iterArg_187, %iterArg_188, %iterArg_189, %iterArg_190, %iterArg_191, %iterArg_192, %iterArg_193, %iterArg_194, %iterArg_196, %iterArg_197, %492) : (tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x128xf32>, tensor<2x96x128xf32>, tensor<2x96xf32>, tensor<2x128x96xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x2x24x96xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<4x160xi32>, tensor<i32>, tensor<4x80x96xf32>, tensor<i32>) -> (tensor<i32>, tensor<4x80x96xf32>)
          %c_198 = stablehlo.constant dense<1> : tensor<i32>
          %494 = stablehlo.add %iterArg_195, %c_198 : tensor<i32>
          stablehlo.return %iterArg, %iterArg_179, %iterArg_180, %iterArg_181, %iterArg_182, %iterArg_183, %iterArg_184, %iterArg_185, %iterArg_186, %iterArg_187, %iterArg_188, %iterArg_189, %iterArg_190, %iterArg_191, %iterArg_192, %iterArg_193, %iterArg_194, %494, %493#0, %493#1 : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x128xf32>, tensor<2x96x128xf32>, tensor<2x96xf32>, tensor<2x128x96xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x2x24x96xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<4x160xi32>, tensor<i32>, tensor<i32>, tensor<4x80x96xf32>
        }
        %399 = stablehlo.slice %398#19 [0:4, 0:80, 0:96] : (tensor<4x80x96xf32>) -> tensor<4x80x96xf32>
        %400 = stablehlo.slice %10 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_145 = stablehlo.constant dense<0> : tensor<i32>
        %401 = stablehlo.broadcast_in_dim %c_145, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %402 = stablehlo.maximum %400, %401 : tensor<4x160xi32>
        %c_146 = stablehlo.constant dense<1> : tensor<ui32>
        %c_147 = stablehlo.constant dense<2> : tensor<ui32>
        %403 = stablehlo.partition_id : tensor<ui32>
        %404 = stablehlo.divide %403, %c_146 : tensor<ui32>
        %405 = stablehlo.remainder %404, %c_147 : tensor<ui32>
        %406 = stablehlo.convert %405 : (tensor<ui32>) -> tensor<i32>
        %c_148 = stablehlo.constant dense<1> : tensor<i32>
        %407 = stablehlo.multiply %406, %c_148 : tensor<i32>
        %c_149 = stablehlo.constant dense<0> : tensor<i32>
        %408 = stablehlo.add %c_149, %407 : tensor<i32>
        %c_150 = stablehlo.constant dense<80> : tensor<i32>
        %409 = stablehlo.multiply %408, %c_150 : tensor<i32>
        %c_151 = stablehlo.constant dense<0> : tensor<i32>
        %410 = stablehlo.compare LT, %409, %c_151, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_152 = stablehlo.constant dense<160> : tensor<i32>
        %411 = stablehlo.add %409, %c_152 : tensor<i32>
        %412 = stablehlo.select %410, %411, %409 : tensor<i1>, tensor<i32>
        %c_153 = stablehlo.constant dense<0> : tensor<i32>
        %413 = stablehlo.dynamic_slice %402, %c_153, %412, sizes = [4, 80] : (tensor<4x160xi32>, tensor<i32>, tensor<i32>) -> tensor<4x80xi32>
        %c_154 = stablehlo.constant dense<0> : tensor<i32>
        %414 = stablehlo.broadcast_in_dim %c_154, dims = [] : (tensor<i32>) -> tensor<4x80xi32>
        %415 = stablehlo.compare GT, %413, %414, SIGNED : (tensor<4x80xi32>, tensor<4x80xi32>) -> tensor<4x80xi1>
        %416 = stablehlo.broadcast_in_dim %415, dims = [0, 1] : (tensor<4x80xi1>) -> tensor<4x80x1xi1>
        %417 = stablehlo.broadcast_in_dim %arg112, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %418 = stablehlo.broadcast_in_dim %arg111, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %cst_155 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %419 = stablehlo.reduce(%399 init: %cst_155) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
        %420 = stablehlo.broadcast_in_dim %419, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
        %cst_156 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %421 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
        %422 = stablehlo.divide %420, %421 : tensor<4x80x1xf32>
        %423 = stablehlo.broadcast_in_dim %422, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
        %424 = stablehlo.subtract %399, %423 : tensor<4x80x96xf32>
        %425 = chlo.square %424 : tensor<4x80x96xf32> -> tensor<4x80x96xf32>
        %cst_157 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %426 = stablehlo.reduce(%425 init: %cst_157) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
        %427 = stablehlo.broadcast_in_dim %426, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
        %cst_158 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %428 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
        %429 = stablehlo.divide %427, %428 : tensor<4x80x1xf32>
        %cst_159 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %430 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
        %431 = stablehlo.add %429, %430 : tensor<4x80x1xf32>
        %432 = stablehlo.rsqrt %431 : tensor<4x80x1xf32>
        %433 = stablehlo.broadcast_in_dim %432, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
        %434 = stablehlo.multiply %424, %433 : tensor<4x80x96xf32>
        %435 = stablehlo.broadcast_in_dim %417, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
        %436 = stablehlo.multiply %434, %435 : tensor<4x80x96xf32>
        %437 = stablehlo.broadcast_in_dim %418, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
        %438 = stablehlo.add %436, %437 : tensor<4x80x96xf32>
        %439 = stablehlo.broadcast_in_dim %416, dims = [0, 1, 2] : (tensor<4x80x1xi1>) -> tensor<4x80x96xi1>
        %cst_160 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %440 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %441 = stablehlo.select %439, %438, %440 : tensor<4x80x96xi1>, tensor<4x80x96xf32>
        %442 = stablehlo.reshape %441 : (tensor<4x80x96xf32>) -> tensor<4x40x192xf32>
        %443 = stablehlo.slice %442 [0:1, 0:1, 0:1] : (tensor<4x40x192xf32>) -> tensor<1x1x1xf32>
        %c_161 = stablehlo.constant dense<0> : tensor<i32>
        %444 = stablehlo.compare GE, %398#18, %c_161, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_162 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %445 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %446 = func.call @_where_7(%444, %443, %445) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_163 = stablehlo.constant dense<0> : tensor<i32>
        %c_164 = stablehlo.constant dense<0> : tensor<i32>
        %c_165 = stablehlo.constant dense<0> : tensor<i32>
        %447 = stablehlo.dynamic_update_slice %442, %446, %c_163, %c_164, %c_165 : (tensor<4x40x192xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x40x192xf32>
        %448 = "stablehlo.all_gather"(%447) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x40x192xf32>) -> tensor<4x80x192xf32>
        %449 = stablehlo.reshape %448 : (tensor<4x80x192xf32>) -> tensor<320x192xf32>
        %450 = stablehlo.dot_general %449, %arg89, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<320x192xf32>, tensor<192x48xf32>) -> tensor<320x48xf32>
        %451 = stablehlo.reshape %450 : (tensor<320x48xf32>) -> tensor<4x80x48xf32>
        %452 = stablehlo.broadcast_in_dim %arg88, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
        %453 = stablehlo.broadcast_in_dim %452, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<4x80x48xf32>
        %454 = stablehlo.add %451, %453 : tensor<4x80x48xf32>
        %455 = stablehlo.multiply %454, %454 : tensor<4x80x48xf32>
        %456 = stablehlo.multiply %455, %454 : tensor<4x80x48xf32>
        %cst_166 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
        %457 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %458 = stablehlo.multiply %457, %456 : tensor<4x80x48xf32>
        %459 = stablehlo.add %454, %458 : tensor<4x80x48xf32>
        %cst_167 = stablehlo.constant dense<0.797884583> : tensor<f32>
        %460 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %461 = stablehlo.multiply %460, %459 : tensor<4x80x48xf32>
        %462 = stablehlo.tanh %461 : tensor<4x80x48xf32>
        %cst_168 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %463 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %464 = stablehlo.add %463, %462 : tensor<4x80x48xf32>
        %cst_169 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %465 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %466 = stablehlo.multiply %465, %464 : tensor<4x80x48xf32>
        %467 = stablehlo.multiply %454, %466 : tensor<4x80x48xf32>
        %468 = stablehlo.reshape %467 : (tensor<4x80x48xf32>) -> tensor<320x48xf32>
        %469 = stablehlo.dot_general %468, %arg91, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<320x48xf32>, tensor<48x96xf32>) -> tensor<320x96xf32>
        %470 = stablehlo.reshape %469 : (tensor<320x96xf32>) -> tensor<4x80x96xf32>
        %471 = stablehlo.slice %470 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
        %c_170 = stablehlo.constant dense<0> : tensor<i32>
        %472 = stablehlo.compare GE, %398#18, %c_170, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_171 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %473 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %474 = func.call @_where_7(%472, %471, %473) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_172 = stablehlo.constant dense<0> : tensor<i32>
        %c_173 = stablehlo.constant dense<0> : tensor<i32>
        %c_174 = stablehlo.constant dense<0> : tensor<i32>
        %475 = stablehlo.dynamic_update_slice %470, %474, %c_172, %c_173, %c_174 : (tensor<4x80x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x80x96xf32>
        %476 = "stablehlo.reduce_scatter"(%475) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
          %492 = stablehlo.add %arg152, %arg153 : tensor<f32>
          stablehlo.return %492 : tensor<f32>
        }) : (tensor<4x80x96xf32>) -> tensor<4x40x96xf32>
        %477 = stablehlo.broadcast_in_dim %arg90, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %478 = stablehlo.broadcast_in_dim %477, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x40x96xf32>
        %479 = stablehlo.add %476, %478 : tensor<4x40x96xf32>
        %480 = stablehlo.slice %448 [0:1, 0:1, 0:1] : (tensor<4x80x192xf32>) -> tensor<1x1x1xf32>
        %481 = stablehlo.reshape %480 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_175 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %482 = stablehlo.compare NE, %481, %cst_175, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %483 = stablehlo.convert %482 : (tensor<i1>) -> tensor<i32>
        %c_176 = stablehlo.constant dense<1> : tensor<i32>
        %484 = stablehlo.or %483, %c_176 : tensor<i32>
        %485 = stablehlo.and %398#18, %484 : tensor<i32>
        %486 = stablehlo.slice %476 [0:1, 0:1, 0:1] : (tensor<4x40x96xf32>) -> tensor<1x1x1xf32>
        %487 = stablehlo.reshape %486 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_177 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %488 = stablehlo.compare NE, %487, %cst_177, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %489 = stablehlo.convert %488 : (tensor<i1>) -> tensor<i32>
        %c_178 = stablehlo.constant dense<1> : tensor<i32>
        %490 = stablehlo.or %489, %c_178 : tensor<i32>
        %491 = stablehlo.and %485, %490 : tensor<i32>
        stablehlo.return %491, %479 : tensor<i32>, tensor<4x40x96xf32>
      }) : (tensor<i32>) -> (tensor<i32>, tensor<4x40x96xf32>)
      %c_21 = stablehlo.constant dense<0> : tensor<i32>
      %52 = stablehlo.broadcast_in_dim %c_21, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %53 = stablehlo.compare GE, %2, %52, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_22 = stablehlo.constant dense<false> : tensor<i1>
      %54 = stablehlo.broadcast_in_dim %c_22, dims = [] : (tensor<i1>) -> tensor<4x312xi1>
      %55 = stablehlo.compare NE, %53, %54, UNSIGNED : (tensor<4x312xi1>, tensor<4x312xi1>) -> tensor<4x312xi1>
      %56 = stablehlo.convert %55 : (tensor<4x312xi1>) -> tensor<4x312xi32>
      %c_23 = stablehlo.constant dense<0> : tensor<i32>
      %57 = stablehlo.reduce(%56 init: %c_23) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x312xi32>, tensor<i32>) -> tensor<i32>
      %c_24 = stablehlo.constant dense<0> : tensor<i32>
      %58 = stablehlo.compare GT, %57, %c_24, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %59 = stablehlo.convert %58 : (tensor<i1>) -> tensor<i32>
      %c_25 = stablehlo.constant dense<0> : tensor<i32>
      %c_26 = stablehlo.constant dense<1> : tensor<i32>
      %60 = stablehlo.clamp %c_25, %59, %c_26 : tensor<i32>
      %61:2 = "stablehlo.case"(%60) ({
        %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %200 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        stablehlo.return %51#0, %200 : tensor<i32>, tensor<4x156x96xf32>
      }, {
        %200 = stablehlo.slice %51#1 [0:1, 0:1, 0:1] : (tensor<4x40x96xf32>) -> tensor<1x1x1xf32>
        %c_82 = stablehlo.constant dense<0> : tensor<i32>
        %201 = stablehlo.compare GE, %51#0, %c_82, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_83 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %202 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %203 = func.call @_where_7(%201, %200, %202) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_84 = stablehlo.constant dense<0> : tensor<i32>
        %c_85 = stablehlo.constant dense<0> : tensor<i32>
        %c_86 = stablehlo.constant dense<0> : tensor<i32>
        %204 = stablehlo.dynamic_update_slice %51#1, %203, %c_84, %c_85, %c_86 : (tensor<4x40x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x40x96xf32>
        %205 = "stablehlo.all_gather"(%204) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x40x96xf32>) -> tensor<4x80x96xf32>
        %c_87 = stablehlo.constant dense<2> : tensor<ui32>
        %c_88 = stablehlo.constant dense<2> : tensor<ui32>
        %206 = stablehlo.partition_id : tensor<ui32>
        %207 = stablehlo.divide %206, %c_87 : tensor<ui32>
        %208 = stablehlo.remainder %207, %c_88 : tensor<ui32>
        %209 = stablehlo.convert %208 : (tensor<ui32>) -> tensor<i32>
        %c_89 = stablehlo.constant dense<1> : tensor<i32>
        %210 = stablehlo.multiply %209, %c_89 : tensor<i32>
        %c_90 = stablehlo.constant dense<0> : tensor<i32>
        %211 = stablehlo.add %c_90, %210 : tensor<i32>
        %c_91 = stablehlo.constant dense<4> : tensor<i32>
        %212 = stablehlo.multiply %211, %c_91 : tensor<i32>
        %c_92 = stablehlo.constant dense<80> : tensor<i32>
        %213 = stablehlo.multiply %212, %c_92 : tensor<i32>
        %c_93 = stablehlo.constant dense<1> : tensor<ui32>
        %c_94 = stablehlo.constant dense<2> : tensor<ui32>
        %214 = stablehlo.partition_id : tensor<ui32>
        %215 = stablehlo.divide %214, %c_93 : tensor<ui32>
        %216 = stablehlo.remainder %215, %c_94 : tensor<ui32>
        %217 = stablehlo.convert %216 : (tensor<ui32>) -> tensor<i32>
        %c_95 = stablehlo.constant dense<1> : tensor<i32>
        %218 = stablehlo.multiply %217, %c_95 : tensor<i32>
        %c_96 = stablehlo.constant dense<0> : tensor<i32>
        %219 = stablehlo.add %c_96, %218 : tensor<i32>
        %c_97 = stablehlo.constant dense<156> : tensor<i32>
        %220 = stablehlo.multiply %219, %c_97 : tensor<i32>
        %c_98 = stablehlo.constant dense<0> : tensor<i32>
        %221 = stablehlo.compare LT, %220, %c_98, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_99 = stablehlo.constant dense<312> : tensor<i32>
        %222 = stablehlo.add %220, %c_99 : tensor<i32>
        %223 = stablehlo.select %221, %222, %220 : tensor<i1>, tensor<i32>
        %c_100 = stablehlo.constant dense<0> : tensor<i32>
        %224 = stablehlo.dynamic_slice %2, %c_100, %223, sizes = [4, 156] : (tensor<4x312xi32>, tensor<i32>, tensor<i32>) -> tensor<4x156xi32>
        %c_101 = stablehlo.constant dense<0> : tensor<i32>
        %225 = stablehlo.broadcast_in_dim %c_101, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %226 = stablehlo.compare GE, %224, %225, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %227 = stablehlo.broadcast_in_dim %213, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %228 = stablehlo.subtract %224, %227 : tensor<4x156xi32>
        %c_102 = stablehlo.constant dense<320> : tensor<i32>
        %229 = stablehlo.broadcast_in_dim %c_102, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %230 = stablehlo.select %226, %228, %229 : tensor<4x156xi1>, tensor<4x156xi32>
        %231 = stablehlo.reshape %205 : (tensor<4x80x96xf32>) -> tensor<320x96xf32>
        %c_103 = stablehlo.constant dense<0> : tensor<i32>
        %232 = stablehlo.broadcast_in_dim %c_103, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %233 = stablehlo.compare LT, %230, %232, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %c_104 = stablehlo.constant dense<320> : tensor<i32>
        %234 = stablehlo.broadcast_in_dim %c_104, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %235 = stablehlo.add %230, %234 : tensor<4x156xi32>
        %236 = stablehlo.select %233, %235, %230 : tensor<4x156xi1>, tensor<4x156xi32>
        %237 = stablehlo.broadcast_in_dim %236, dims = [0, 1] : (tensor<4x156xi32>) -> tensor<4x156x1xi32>
        %c_105 = stablehlo.constant dense<319> : tensor<1xi32>
        %c_106 = stablehlo.constant dense<0> : tensor<i32>
        %238 = stablehlo.broadcast_in_dim %c_106, dims = [] : (tensor<i32>) -> tensor<4x156x1xi32>
        %239 = stablehlo.compare GE, %237, %238, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %240 = stablehlo.broadcast_in_dim %c_105, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
        %241 = stablehlo.broadcast_in_dim %240, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x156x1xi32>
        %242 = stablehlo.compare LE, %237, %241, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %243 = stablehlo.and %239, %242 : tensor<4x156x1xi1>
        %c_107 = stablehlo.constant dense<true> : tensor<i1>
        %244 = stablehlo.reduce(%243 init: %c_107) applies stablehlo.and across dimensions = [2] : (tensor<4x156x1xi1>, tensor<i1>) -> tensor<4x156xi1>
        %245 = "stablehlo.gather"(%231, %237) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<320x96xf32>, tensor<4x156x1xi32>) -> tensor<4x156x96xf32>
        %246 = stablehlo.broadcast_in_dim %244, dims = [0, 1] : (tensor<4x156xi1>) -> tensor<4x156x96xi1>
        %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %247 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        %248 = stablehlo.select %246, %245, %247 : tensor<4x156x96xi1>, tensor<4x156x96xf32>
        %249 = stablehlo.slice %205 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
        %250 = stablehlo.reshape %249 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %251 = stablehlo.compare NE, %250, %cst_109, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %252 = stablehlo.convert %251 : (tensor<i1>) -> tensor<i32>
        %c_110 = stablehlo.constant dense<1> : tensor<i32>
        %253 = stablehlo.or %252, %c_110 : tensor<i32>
        %254 = stablehlo.and %51#0, %253 : tensor<i32>
        stablehlo.return %254, %248 : tensor<i32>, tensor<4x156x96xf32>
      }) : (tensor<i32>) -> (tensor<i32>, tensor<4x156x96xf32>)
      %62 = stablehlo.add %43#1, %61#1 : tensor<4x156x96xf32>
      %c_27 = stablehlo.constant dense<false> : tensor<i1>
      %63 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i1>) -> tensor<4x312xi1>
      %c_28 = stablehlo.constant dense<0> : tensor<i32>
      %64 = stablehlo.broadcast_in_dim %c_28, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %65 = stablehlo.compare GE, %2, %64, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %66 = stablehlo.or %63, %65 : tensor<4x312xi1>
      %c_29 = stablehlo.constant dense<0> : tensor<i32>
      %67 = stablehlo.broadcast_in_dim %c_29, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %68 = stablehlo.compare GE, %3, %67, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %69 = stablehlo.or %66, %68 : tensor<4x312xi1>
      %c_30 = stablehlo.constant dense<64> : tensor<i32>
      %70 = stablehlo.broadcast_in_dim %c_30, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %71 = stablehlo.compare LT, %7, %70, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %72 = stablehlo.not %69 : tensor<4x312xi1>
      %73 = stablehlo.and %71, %72 : tensor<4x312xi1>
      %c_31 = stablehlo.constant dense<1> : tensor<ui32>
      %c_32 = stablehlo.constant dense<2> : tensor<ui32>
      %74 = stablehlo.partition_id : tensor<ui32>
      %75 = stablehlo.divide %74, %c_31 : tensor<ui32>
      %76 = stablehlo.remainder %75, %c_32 : tensor<ui32>
      %77 = stablehlo.convert %76 : (tensor<ui32>) -> tensor<i32>
      %c_33 = stablehlo.constant dense<1> : tensor<i32>
      %78 = stablehlo.multiply %77, %c_33 : tensor<i32>
      %c_34 = stablehlo.constant dense<0> : tensor<i32>
      %79 = stablehlo.add %c_34, %78 : tensor<i32>
      %c_35 = stablehlo.constant dense<32> : tensor<i32>
      %80 = stablehlo.multiply %79, %c_35 : tensor<i32>
      %81 = stablehlo.broadcast_in_dim %80, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %82 = stablehlo.subtract %7, %81 : tensor<4x312xi32>
      %c_36 = stablehlo.constant dense<0> : tensor<i32>
      %83 = stablehlo.broadcast_in_dim %c_36, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %84 = stablehlo.compare GE, %82, %83, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_37 = stablehlo.constant dense<32> : tensor<i32>
      %85 = stablehlo.broadcast_in_dim %c_37, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %86 = stablehlo.compare LT, %82, %85, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %87 = stablehlo.and %84, %86 : tensor<4x312xi1>
      %c_38 = stablehlo.constant dense<0> : tensor<i32>
      %88 = stablehlo.broadcast_in_dim %c_38, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %89 = stablehlo.select %87, %82, %88 : tensor<4x312xi1>, tensor<4x312xi32>
      %90 = stablehlo.and %87, %73 : tensor<4x312xi1>
      %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1] : (tensor<4x312xi1>) -> tensor<4x312x1xi1>
      %c_39 = stablehlo.constant dense<0> : tensor<i32>
      %92 = stablehlo.broadcast_in_dim %c_39, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %93 = stablehlo.compare LT, %89, %92, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_40 = stablehlo.constant dense<32> : tensor<i32>
      %94 = stablehlo.broadcast_in_dim %c_40, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %95 = stablehlo.add %89, %94 : tensor<4x312xi32>
      %96 = stablehlo.select %93, %95, %89 : tensor<4x312xi1>, tensor<4x312xi32>
      %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1] : (tensor<4x312xi32>) -> tensor<4x312x1xi32>
      %98 = "stablehlo.gather"(%arg76, %97) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<32x96xf32>, tensor<4x312x1xi32>) -> tensor<4x312x96xf32>
      %99 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<4x312x1xi1>) -> tensor<4x312x96xi1>
      %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %100 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4x312x96xf32>
      %101 = stablehlo.select %99, %98, %100 : tensor<4x312x96xi1>, tensor<4x312x96xf32>
      %102 = stablehlo.slice %101 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_42 = stablehlo.constant dense<0> : tensor<i32>
      %103 = stablehlo.compare GE, %61#0, %c_42, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %104 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %105 = func.call @_where_7(%103, %102, %104) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_44 = stablehlo.constant dense<0> : tensor<i32>
      %c_45 = stablehlo.constant dense<0> : tensor<i32>
      %c_46 = stablehlo.constant dense<0> : tensor<i32>
      %106 = stablehlo.dynamic_update_slice %101, %105, %c_44, %c_45, %c_46 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %107 = "stablehlo.reduce_scatter"(%106) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
        %200 = stablehlo.add %arg152, %arg153 : tensor<f32>
        stablehlo.return %200 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %108 = stablehlo.add %107, %62 : tensor<4x156x96xf32>
      %109 = stablehlo.iota dim = 0 : tensor<12xf32>
      %cst_47 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %110 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %111 = stablehlo.multiply %110, %109 : tensor<12xf32>
      %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %112 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %113 = stablehlo.add %112, %111 : tensor<12xf32>
      %114 = stablehlo.negate %113 : tensor<12xf32>
      %cst_49 = stablehlo.constant dense<2.400000e+01> : tensor<f32>
      %115 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %116 = stablehlo.divide %114, %115 : tensor<12xf32>
      %cst_50 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
      %117 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %118 = stablehlo.power %117, %116 : tensor<12xf32>
      %119 = stablehlo.convert %4 : (tensor<4x312xi32>) -> tensor<4x312xf32>
      %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1] : (tensor<4x312xf32>) -> tensor<4x312x1x1xf32>
      %121 = stablehlo.broadcast_in_dim %118, dims = [3] : (tensor<12xf32>) -> tensor<1x1x1x12xf32>
      %122 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2, 3] : (tensor<4x312x1x1xf32>) -> tensor<4x312x1x12xf32>
      %123 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<1x1x1x12xf32>) -> tensor<4x312x1x12xf32>
      %124 = stablehlo.multiply %122, %123 : tensor<4x312x1x12xf32>
      %125 = stablehlo.cosine %124 : tensor<4x312x1x12xf32>
      %126 = stablehlo.sine %124 : tensor<4x312x1x12xf32>
      %127 = stablehlo.iota dim = 0 : tensor<3xi32>
      %c_51 = stablehlo.constant dense<1> : tensor<i32>
      %128 = stablehlo.broadcast_in_dim %c_51, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %129 = stablehlo.multiply %128, %127 : tensor<3xi32>
      %c_52 = stablehlo.constant dense<0> : tensor<i32>
      %130 = stablehlo.broadcast_in_dim %c_52, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %131 = stablehlo.add %130, %129 : tensor<3xi32>
      %c_53 = stablehlo.constant dense<0> : tensor<i32>
      %132 = stablehlo.broadcast_in_dim %c_53, dims = [] : (tensor<i32>) -> tensor<3xi32>
      %133 = stablehlo.add %132, %131 : tensor<3xi32>
      %134 = stablehlo.slice %107 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %135 = stablehlo.reshape %134 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %136 = stablehlo.compare NE, %135, %cst_54, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %137 = stablehlo.convert %136 : (tensor<i1>) -> tensor<i32>
      %c_55 = stablehlo.constant dense<1> : tensor<i32>
      %138 = stablehlo.or %137, %c_55 : tensor<i32>
      %139 = stablehlo.and %61#0, %138 : tensor<i32>
      %c_56 = stablehlo.constant dense<0> : tensor<i32>
      %140:16 = stablehlo.while(%iterArg = %133, %iterArg_82 = %arg77, %iterArg_83 = %arg78, %iterArg_84 = %arg79, %iterArg_85 = %arg80, %iterArg_86 = %arg81, %iterArg_87 = %arg82, %iterArg_88 = %arg83, %iterArg_89 = %arg84, %iterArg_90 = %arg85, %iterArg_91 = %125, %iterArg_92 = %126, %iterArg_93 = %5, %iterArg_94 = %c_56, %iterArg_95 = %139, %iterArg_96 = %108) : tensor<3xi32>, tensor<3x96xf32>, tensor<3x128x96xf32>, tensor<3x96x128xf32>, tensor<3x96x128xf32>, tensor<3x96xf32>, tensor<3x96x2x24xf32>, tensor<3x2x24x96xf32>, tensor<3x96x2x24xf32>, tensor<3x96x2x24xf32>, tensor<4x312x1x12xf32>, tensor<4x312x1x12xf32>, tensor<4x312xi32>, tensor<i32>, tensor<i32>, tensor<4x156x96xf32>
      cond {
        %c_97 = stablehlo.constant dense<3> : tensor<i32>
        %200 = stablehlo.compare LT, %iterArg_94, %c_97, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %200 : tensor<i1>
      } do {
        %200 = func.call @dynamic_index_in_dim_9(%iterArg, %iterArg_94) : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
        %201:2 = func.call @closed_call_10(%iterArg_82, %iterArg_83, %iterArg_84, %iterArg_85, %iterArg_86, %iterArg_87, %iterArg_88, %iterArg_89, %iterArg_90, %iterArg_91, %iterArg_92, %iterArg_93, %iterArg_95, %iterArg_96, %200) : (tensor<3x96xf32>, tensor<3x128x96xf32>, tensor<3x96x128xf32>, tensor<3x96x128xf32>, tensor<3x96xf32>, tensor<3x96x2x24xf32>, tensor<3x2x24x96xf32>, tensor<3x96x2x24xf32>, tensor<3x96x2x24xf32>, tensor<4x312x1x12xf32>, tensor<4x312x1x12xf32>, tensor<4x312xi32>, tensor<i32>, tensor<4x156x96xf32>, tensor<i32>) -> (tensor<i32>, tensor<4x156x96xf32>)
        %c_97 = stablehlo.constant dense<1> : tensor<i32>
        %202 = stablehlo.add %iterArg_94, %c_97 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_82, %iterArg_83, %iterArg_84, %iterArg_85, %iterArg_86, %iterArg_87, %iterArg_88, %iterArg_89, %iterArg_90, %iterArg_91, %iterArg_92, %iterArg_93, %202, %201#0, %201#1 : tensor<3xi32>, tensor<3x96xf32>, tensor<3x128x96xf32>, tensor<3x96x128xf32>, tensor<3x96x128xf32>, tensor<3x96xf32>, tensor<3x96x2x24xf32>, tensor<3x2x24x96xf32>, tensor<3x96x2x24xf32>, tensor<3x96x2x24xf32>, tensor<4x312x1x12xf32>, tensor<4x312x1x12xf32>, tensor<4x312xi32>, tensor<i32>, tensor<i32>, tensor<4x156x96xf32>
      }
      %141 = stablehlo.broadcast_in_dim %arg87, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %142 = chlo.square %140#15 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %143 = stablehlo.reduce(%142 init: %cst_57) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %144 = stablehlo.broadcast_in_dim %143, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_58 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %145 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %146 = stablehlo.divide %144, %145 : tensor<4x156x1xf32>
      %cst_59 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %147 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %148 = stablehlo.add %146, %147 : tensor<4x156x1xf32>
      %149 = stablehlo.rsqrt %148 : tensor<4x156x1xf32>
      %150 = stablehlo.broadcast_in_dim %149, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %151 = stablehlo.multiply %140#15, %150 : tensor<4x156x96xf32>
      %152 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %153 = stablehlo.multiply %151, %152 : tensor<4x156x96xf32>
      %154 = stablehlo.slice %153 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_60 = stablehlo.constant dense<0> : tensor<i32>
      %155 = stablehlo.compare GE, %140#14, %c_60, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %156 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %157 = func.call @_where_7(%155, %154, %156) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_62 = stablehlo.constant dense<0> : tensor<i32>
      %c_63 = stablehlo.constant dense<0> : tensor<i32>
      %c_64 = stablehlo.constant dense<0> : tensor<i32>
      %158 = stablehlo.dynamic_update_slice %153, %157, %c_62, %c_63, %c_64 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %159 = "stablehlo.all_gather"(%158) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %160 = stablehlo.reshape %159 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %161 = stablehlo.reshape %6 : (tensor<4x312xi32>) -> tensor<1248xi32>
      %162 = stablehlo.reshape %1 : (tensor<4x312xf32>) -> tensor<1248xf32>
      %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %163 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<1248xf32>
      %164 = stablehlo.compare EQ, %162, %163, FLOAT : (tensor<1248xf32>, tensor<1248xf32>) -> tensor<1248xi1>
      %165 = stablehlo.iota dim = 0 : tensor<1248xi32>
      %166:2 = "stablehlo.sort"(%164, %165) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%arg152: tensor<i1>, %arg153: tensor<i1>, %arg154: tensor<i32>, %arg155: tensor<i32>):
        %200 = stablehlo.compare LT, %arg152, %arg153, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
        stablehlo.return %200 : tensor<i1>
      }) : (tensor<1248xi1>, tensor<1248xi32>) -> (tensor<1248xi1>, tensor<1248xi32>)
      %c_66 = stablehlo.constant dense<0> : tensor<i32>
      %167 = func.call @_pad(%166#1, %c_66) : (tensor<1248xi32>, tensor<i32>) -> tensor<2048xi32>
      %168 = stablehlo.broadcast_in_dim %166#1, dims = [0] : (tensor<1248xi32>) -> tensor<1248x1xi32>
      %169 = "stablehlo.gather"(%161, %168) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<1248xi32>, tensor<1248x1xi32>) -> tensor<1248xi32>
      %c_67 = stablehlo.constant dense<0> : tensor<i32>
      %170 = stablehlo.pad %169, %c_67, low = [0], high = [800], interior = [0] : (tensor<1248xi32>, tensor<i32>) -> tensor<2048xi32>
      %171 = stablehlo.broadcast_in_dim %166#1, dims = [0] : (tensor<1248xi32>) -> tensor<1248x1xi32>
      %172 = "stablehlo.gather"(%162, %171) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<1248xf32>, tensor<1248x1xi32>) -> tensor<1248xf32>
      %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %173 = stablehlo.pad %172, %cst_68, low = [0], high = [800], interior = [0] : (tensor<1248xf32>, tensor<f32>) -> tensor<2048xf32>
      %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %174 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<2048xf32>
      %175 = stablehlo.compare NE, %173, %174, FLOAT : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xi1>
      %176 = stablehlo.convert %175 : (tensor<2048xi1>) -> tensor<2048xi32>
      %c_70 = stablehlo.constant dense<0> : tensor<i32>
      %177 = stablehlo.reduce(%176 init: %c_70) applies stablehlo.add across dimensions = [0] : (tensor<2048xi32>, tensor<i32>) -> tensor<i32>
      %178 = stablehlo.negate %177 : tensor<i32>
      %c_71 = stablehlo.constant dense<1024> : tensor<i32>
      %179 = stablehlo.divide %178, %c_71 : tensor<i32>
      %180 = stablehlo.sign %178 : tensor<i32>
      %c_72 = stablehlo.constant dense<1024> : tensor<i32>
      %181 = stablehlo.sign %c_72 : tensor<i32>
      %182 = stablehlo.compare NE, %180, %181, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_73 = stablehlo.constant dense<1024> : tensor<i32>
      %183 = stablehlo.remainder %178, %c_73 : tensor<i32>
      %c_74 = stablehlo.constant dense<0> : tensor<i32>
      %184 = stablehlo.compare NE, %183, %c_74, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %185 = stablehlo.and %182, %184 : tensor<i1>
      %c_75 = stablehlo.constant dense<1> : tensor<i32>
      %186 = stablehlo.subtract %179, %c_75 : tensor<i32>
      %187 = stablehlo.select %185, %186, %179 : tensor<i1>, tensor<i32>
      %188 = stablehlo.negate %187 : tensor<i32>
      %189 = stablehlo.slice %159 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %190 = stablehlo.reshape %189 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_76 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %191 = stablehlo.compare NE, %190, %cst_76, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %192 = stablehlo.convert %191 : (tensor<i1>) -> tensor<i32>
      %c_77 = stablehlo.constant dense<1> : tensor<i32>
      %193 = stablehlo.or %192, %c_77 : tensor<i32>
      %194 = stablehlo.and %140#14, %193 : tensor<i32>
      %c_78 = stablehlo.constant dense<0> : tensor<i32>
      %cst_79 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %195:9 = stablehlo.while(%iterArg = %167, %iterArg_82 = %170, %iterArg_83 = %173, %iterArg_84 = %160, %iterArg_85 = %arg86, %iterArg_86 = %194, %iterArg_87 = %c_78, %iterArg_88 = %188, %iterArg_89 = %cst_79) : tensor<2048xi32>, tensor<2048xi32>, tensor<2048xf32>, tensor<1248x96xf32>, tensor<96x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>
      cond {
        %200 = stablehlo.compare LT, %iterArg_87, %iterArg_88, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %200 : tensor<i1>
      } do {
        %c_90 = stablehlo.constant dense<1> : tensor<i32>
        %200 = stablehlo.add %iterArg_87, %c_90 : tensor<i32>
        %c_91 = stablehlo.constant dense<1024> : tensor<i32>
        %201 = stablehlo.multiply %iterArg_87, %c_91 : tensor<i32>
        %c_92 = stablehlo.constant dense<0> : tensor<i32>
        %202 = stablehlo.compare LT, %201, %c_92, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %203 = stablehlo.convert %201 : tensor<i32>
        %c_93 = stablehlo.constant dense<2048> : tensor<i32>
        %204 = stablehlo.add %203, %c_93 : tensor<i32>
        %205 = stablehlo.select %202, %204, %201 : tensor<i1>, tensor<i32>
        %206 = stablehlo.dynamic_slice %iterArg, %205, sizes = [1024] : (tensor<2048xi32>, tensor<i32>) -> tensor<1024xi32>
        %c_94 = stablehlo.constant dense<0> : tensor<i32>
        %207 = stablehlo.compare LT, %201, %c_94, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %208 = stablehlo.convert %201 : tensor<i32>
        %c_95 = stablehlo.constant dense<2048> : tensor<i32>
        %209 = stablehlo.add %208, %c_95 : tensor<i32>
        %210 = stablehlo.select %207, %209, %201 : tensor<i1>, tensor<i32>
        %211 = stablehlo.dynamic_slice %iterArg_82, %210, sizes = [1024] : (tensor<2048xi32>, tensor<i32>) -> tensor<1024xi32>
        %c_96 = stablehlo.constant dense<0> : tensor<i32>
        %212 = stablehlo.compare LT, %201, %c_96, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %213 = stablehlo.convert %201 : tensor<i32>
        %c_97 = stablehlo.constant dense<2048> : tensor<i32>
        %214 = stablehlo.add %213, %c_97 : tensor<i32>
        %215 = stablehlo.select %212, %214, %201 : tensor<i1>, tensor<i32>
        %216 = stablehlo.dynamic_slice %iterArg_83, %215, sizes = [1024] : (tensor<2048xf32>, tensor<i32>) -> tensor<1024xf32>
        %217 = stablehlo.broadcast_in_dim %206, dims = [0] : (tensor<1024xi32>) -> tensor<1024x1xi32>
        %218 = "stablehlo.gather"(%iterArg_84, %217) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<1248x96xf32>, tensor<1024x1xi32>) -> tensor<1024x96xf32>
        %219 = stablehlo.dot_general %218, %iterArg_85, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1024x96xf32>, tensor<96x32xf32>) -> tensor<1024x32xf32>
        %cst_98 = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %220 = stablehlo.reduce(%219 init: %cst_98) applies stablehlo.maximum across dimensions = [1] : (tensor<1024x32xf32>, tensor<f32>) -> tensor<1024xf32>
        %221 = stablehlo.slice %220 [0:1] : (tensor<1024xf32>) -> tensor<1xf32>
        %c_99 = stablehlo.constant dense<0> : tensor<i32>
        %222 = stablehlo.compare GE, %iterArg_86, %c_99, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %223 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<1xf32>
        %224 = func.call @_where_16(%222, %221, %223) : (tensor<i1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
        %c_101 = stablehlo.constant dense<0> : tensor<i32>
        %225 = stablehlo.dynamic_update_slice %220, %224, %c_101 : (tensor<1024xf32>, tensor<1xf32>, tensor<i32>) -> tensor<1024xf32>
        %226 = "stablehlo.all_reduce"(%225) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
          %321 = stablehlo.maximum %arg152, %arg153 : tensor<f32>
          stablehlo.return %321 : tensor<f32>
        }) : (tensor<1024xf32>) -> tensor<1024xf32>
        %227 = stablehlo.broadcast_in_dim %226, dims = [0] : (tensor<1024xf32>) -> tensor<1024x1xf32>
        %228 = stablehlo.broadcast_in_dim %227, dims = [0, 1] : (tensor<1024x1xf32>) -> tensor<1024x32xf32>
        %229 = stablehlo.subtract %219, %228 : tensor<1024x32xf32>
        %230 = stablehlo.exponential %229 : tensor<1024x32xf32>
        %cst_102 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %231 = stablehlo.reduce(%230 init: %cst_102) applies stablehlo.add across dimensions = [1] : (tensor<1024x32xf32>, tensor<f32>) -> tensor<1024xf32>
        %232 = stablehlo.slice %231 [0:1] : (tensor<1024xf32>) -> tensor<1xf32>
        %c_103 = stablehlo.constant dense<0> : tensor<i32>
        %233 = stablehlo.compare GE, %iterArg_86, %c_103, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %234 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<1xf32>
        %235 = func.call @_where_16(%233, %232, %234) : (tensor<i1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
        %c_105 = stablehlo.constant dense<0> : tensor<i32>
        %236 = stablehlo.dynamic_update_slice %231, %235, %c_105 : (tensor<1024xf32>, tensor<1xf32>, tensor<i32>) -> tensor<1024xf32>
        %237 = "stablehlo.all_reduce"(%236) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
          %321 = stablehlo.add %arg152, %arg153 : tensor<f32>
          stablehlo.return %321 : tensor<f32>
        }) : (tensor<1024xf32>) -> tensor<1024xf32>
        %c_106 = stablehlo.constant dense<1> : tensor<ui32>
        %c_107 = stablehlo.constant dense<2> : tensor<ui32>
        %238 = stablehlo.partition_id : tensor<ui32>
        %239 = stablehlo.divide %238, %c_106 : tensor<ui32>
        %240 = stablehlo.remainder %239, %c_107 : tensor<ui32>
        %241 = stablehlo.convert %240 : (tensor<ui32>) -> tensor<i32>
        %c_108 = stablehlo.constant dense<1> : tensor<i32>
        %242 = stablehlo.multiply %241, %c_108 : tensor<i32>
        %c_109 = stablehlo.constant dense<0> : tensor<i32>
        %243 = stablehlo.add %c_109, %242 : tensor<i32>
        %c_110 = stablehlo.constant dense<32> : tensor<i32>
        %244 = stablehlo.multiply %243, %c_110 : tensor<i32>
        %245 = stablehlo.broadcast_in_dim %244, dims = [] : (tensor<i32>) -> tensor<1024xi32>
        %246 = stablehlo.subtract %211, %245 : tensor<1024xi32>
        %c_111 = stablehlo.constant dense<0> : tensor<i32>
        %247 = stablehlo.broadcast_in_dim %c_111, dims = [] : (tensor<i32>) -> tensor<1024xi32>
        %248 = stablehlo.compare GE, %246, %247, SIGNED : (tensor<1024xi32>, tensor<1024xi32>) -> tensor<1024xi1>
        %c_112 = stablehlo.constant dense<32> : tensor<i32>
        %249 = stablehlo.broadcast_in_dim %c_112, dims = [] : (tensor<i32>) -> tensor<1024xi32>
        %250 = stablehlo.compare LT, %246, %249, SIGNED : (tensor<1024xi32>, tensor<1024xi32>) -> tensor<1024xi1>
        %251 = stablehlo.and %248, %250 : tensor<1024xi1>
        %c_113 = stablehlo.constant dense<0> : tensor<i32>
        %252 = stablehlo.broadcast_in_dim %c_113, dims = [] : (tensor<i32>) -> tensor<1024xi32>
        %253 = stablehlo.select %251, %246, %252 : tensor<1024xi1>, tensor<1024xi32>
        %c_114 = stablehlo.constant dense<64> : tensor<i32>
        %254 = stablehlo.broadcast_in_dim %c_114, dims = [] : (tensor<i32>) -> tensor<1024xi32>
        %255 = stablehlo.compare LT, %211, %254, SIGNED : (tensor<1024xi32>, tensor<1024xi32>) -> tensor<1024xi1>
        %256 = stablehlo.and %251, %255 : tensor<1024xi1>
        %257 = stablehlo.broadcast_in_dim %253, dims = [0] : (tensor<1024xi32>) -> tensor<1024x1xi32>
        %c_115 = stablehlo.constant dense<0> : tensor<i32>
        %258 = stablehlo.broadcast_in_dim %c_115, dims = [] : (tensor<i32>) -> tensor<1024x1xi32>
        %259 = stablehlo.compare LT, %257, %258, SIGNED : (tensor<1024x1xi32>, tensor<1024x1xi32>) -> tensor<1024x1xi1>
        %c_116 = stablehlo.constant dense<32> : tensor<i32>
        %260 = stablehlo.broadcast_in_dim %c_116, dims = [] : (tensor<i32>) -> tensor<1024x1xi32>
        %261 = stablehlo.add %257, %260 : tensor<1024x1xi32>
        %262 = stablehlo.select %259, %261, %257 : tensor<1024x1xi1>, tensor<1024x1xi32>
        %263 = stablehlo.reshape %262 : (tensor<1024x1xi32>) -> tensor<1024x1x1xi32>
        %c_117 = stablehlo.constant dense<31> : tensor<1xi32>
        %c_118 = stablehlo.constant dense<0> : tensor<i32>
        %264 = stablehlo.broadcast_in_dim %c_118, dims = [] : (tensor<i32>) -> tensor<1024x1x1xi32>
        %265 = stablehlo.compare GE, %263, %264, SIGNED : (tensor<1024x1x1xi32>, tensor<1024x1x1xi32>) -> tensor<1024x1x1xi1>
        %266 = stablehlo.broadcast_in_dim %c_117, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
        %267 = stablehlo.broadcast_in_dim %266, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<1024x1x1xi32>
        %268 = stablehlo.compare LE, %263, %267, SIGNED : (tensor<1024x1x1xi32>, tensor<1024x1x1xi32>) -> tensor<1024x1x1xi1>
        %269 = stablehlo.and %265, %268 : tensor<1024x1x1xi1>
        %c_119 = stablehlo.constant dense<true> : tensor<i1>
        %270 = stablehlo.reduce(%269 init: %c_119) applies stablehlo.and across dimensions = [2] : (tensor<1024x1x1xi1>, tensor<i1>) -> tensor<1024x1xi1>
        %271 = "stablehlo.gather"(%219, %263) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<1024x32xf32>, tensor<1024x1x1xi32>) -> tensor<1024x1xf32>
        %cst_120 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
        %272 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<1024x1xf32>
        %273 = stablehlo.select %270, %271, %272 : tensor<1024x1xi1>, tensor<1024x1xf32>
        %274 = stablehlo.reshape %273 : (tensor<1024x1xf32>) -> tensor<1024xf32>
        %275 = stablehlo.log %237 : tensor<1024xf32>
        %276 = stablehlo.add %275, %226 : tensor<1024xf32>
        %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %277 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<1024xf32>
        %278 = stablehlo.select %256, %274, %277 : tensor<1024xi1>, tensor<1024xf32>
        %279 = stablehlo.slice %278 [0:1] : (tensor<1024xf32>) -> tensor<1xf32>
        %c_122 = stablehlo.constant dense<0> : tensor<i32>
        %280 = stablehlo.compare GE, %iterArg_86, %c_122, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_123 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %281 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<1xf32>
        %282 = func.call @_where_16(%280, %279, %281) : (tensor<i1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
        %c_124 = stablehlo.constant dense<0> : tensor<i32>
        %283 = stablehlo.dynamic_update_slice %278, %282, %c_124 : (tensor<1024xf32>, tensor<1xf32>, tensor<i32>) -> tensor<1024xf32>
        %284 = "stablehlo.all_reduce"(%283) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
          %321 = stablehlo.add %arg152, %arg153 : tensor<f32>
          stablehlo.return %321 : tensor<f32>
        }) : (tensor<1024xf32>) -> tensor<1024xf32>
        %285 = stablehlo.subtract %276, %284 : tensor<1024xf32>
        %286 = stablehlo.iota dim = 0 : tensor<32xi32>
        %287 = stablehlo.broadcast_in_dim %286, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
        %288 = stablehlo.broadcast_in_dim %253, dims = [0] : (tensor<1024xi32>) -> tensor<1024x1xi32>
        %289 = stablehlo.broadcast_in_dim %287, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<1024x32xi32>
        %290 = stablehlo.broadcast_in_dim %288, dims = [0, 1] : (tensor<1024x1xi32>) -> tensor<1024x32xi32>
        %291 = stablehlo.compare EQ, %289, %290, SIGNED : (tensor<1024x32xi32>, tensor<1024x32xi32>) -> tensor<1024x32xi1>
        %292 = stablehlo.broadcast_in_dim %256, dims = [0] : (tensor<1024xi1>) -> tensor<1024x1xi1>
        %293 = stablehlo.broadcast_in_dim %292, dims = [0, 1] : (tensor<1024x1xi1>) -> tensor<1024x32xi1>
        %294 = stablehlo.and %291, %293 : tensor<1024x32xi1>
        %295 = stablehlo.broadcast_in_dim %237, dims = [0] : (tensor<1024xf32>) -> tensor<1024x1xf32>
        %296 = stablehlo.broadcast_in_dim %295, dims = [0, 1] : (tensor<1024x1xf32>) -> tensor<1024x32xf32>
        %297 = stablehlo.divide %230, %296 : tensor<1024x32xf32>
        %298 = stablehlo.convert %294 : (tensor<1024x32xi1>) -> tensor<1024x32xf32>
        %299 = stablehlo.subtract %297, %298 : tensor<1024x32xf32>
        %300 = stablehlo.multiply %216, %285 : tensor<1024xf32>
        %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %301 = stablehlo.reduce(%300 init: %cst_125) applies stablehlo.add across dimensions = [0] : (tensor<1024xf32>, tensor<f32>) -> tensor<f32>
        %302 = stablehlo.add %iterArg_89, %301 : tensor<f32>
        %303 = stablehlo.slice %226 [0:1] : (tensor<1024xf32>) -> tensor<1xf32>
        %304 = stablehlo.reshape %303 : (tensor<1xf32>) -> tensor<f32>
        %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %305 = stablehlo.compare NE, %304, %cst_126, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %306 = stablehlo.convert %305 : (tensor<i1>) -> tensor<i32>
        %c_127 = stablehlo.constant dense<1> : tensor<i32>
        %307 = stablehlo.or %306, %c_127 : tensor<i32>
        %308 = stablehlo.and %iterArg_86, %307 : tensor<i32>
        %309 = stablehlo.slice %237 [0:1] : (tensor<1024xf32>) -> tensor<1xf32>
        %310 = stablehlo.reshape %309 : (tensor<1xf32>) -> tensor<f32>
        %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %311 = stablehlo.compare NE, %310, %cst_128, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %312 = stablehlo.convert %311 : (tensor<i1>) -> tensor<i32>
        %c_129 = stablehlo.constant dense<1> : tensor<i32>
        %313 = stablehlo.or %312, %c_129 : tensor<i32>
        %314 = stablehlo.and %308, %313 : tensor<i32>
        %315 = stablehlo.slice %284 [0:1] : (tensor<1024xf32>) -> tensor<1xf32>
        %316 = stablehlo.reshape %315 : (tensor<1xf32>) -> tensor<f32>
        %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %317 = stablehlo.compare NE, %316, %cst_130, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %318 = stablehlo.convert %317 : (tensor<i1>) -> tensor<i32>
        %c_131 = stablehlo.constant dense<1> : tensor<i32>
        %319 = stablehlo.or %318, %c_131 : tensor<i32>
        %320 = stablehlo.and %314, %319 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_82, %iterArg_83, %iterArg_84, %iterArg_85, %320, %200, %iterArg_88, %302 : tensor<2048xi32>, tensor<2048xi32>, tensor<2048xf32>, tensor<1248x96xf32>, tensor<96x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>
      }
      %196 = stablehlo.slice %195#8 [] : (tensor<f32>) -> tensor<f32>
      %c_80 = stablehlo.constant dense<0> : tensor<i32>
      %197 = stablehlo.compare GE, %195#5, %c_80, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %198 = func.call @_where(%197, %196, %cst_81) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %199 = "stablehlo.all_reduce"(%198) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg152: tensor<f32>, %arg153: tensor<f32>):
        %200 = stablehlo.add %arg152, %arg153 : tensor<f32>
        stablehlo.return %200 : tensor<f32>
      }) : (tensor<f32>) -> tensor<f32>
      sdy.return %199, %19 : tensor<f32>, tensor<f32>
    } : (tensor<64x96xf32>, tensor<3x96xf32>, tensor<3x256x96xf32>, tensor<3x96x256xf32>, tensor<3x96x256xf32>, tensor<3x96xf32>, tensor<3x96x4x24xf32>, tensor<3x4x24x96xf32>, tensor<3x96x4x24xf32>, tensor<3x96x4x24xf32>, tensor<96x64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<192x96xf32>, tensor<96xf32>, tensor<96x96xf32>, tensor<96xf32>, tensor<3x40x96xf32>, tensor<96xf32>, tensor<3x96x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<192x96xf32>, tensor<96xf32>, tensor<96x96xf32>, tensor<96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<96xf32>, tensor<96xf32>, tensor<1x8x312xf32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x640x40xf32>, tensor<1x8x640xi32>, tensor<1x8x640xi32>, tensor<1x8x144x64xf32>, tensor<1x8x144x2xi32>, tensor<1x8x144xi32>, tensor<1x8x144x2xi32>) -> (tensor<f32>, tensor<f32>)
    return %0#0, %0#1 : tensor<f32>, tensor<f32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2xi32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    return %1 : tensor<i32>
  }
  func.func private @closed_call(%arg0: tensor<2x96xf32>, %arg1: tensor<2x96xf32>, %arg2: tensor<2x96xf32>, %arg3: tensor<2x96xf32>, %arg4: tensor<2x256xf32>, %arg5: tensor<2x96x256xf32>, %arg6: tensor<2x96xf32>, %arg7: tensor<2x256x96xf32>, %arg8: tensor<2x4x24xf32>, %arg9: tensor<2x96x4x24xf32>, %arg10: tensor<2x96xf32>, %arg11: tensor<2x4x24x96xf32>, %arg12: tensor<2x4x24xf32>, %arg13: tensor<2x96x4x24xf32>, %arg14: tensor<2x4x24xf32>, %arg15: tensor<2x96x4x24xf32>, %arg16: tensor<2x144xi32>, %arg17: tensor<2x144x96xf32>, %arg18: tensor<i32>) -> tensor<2x144x96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.maximum %arg18, %c : tensor<i32>
    %1 = call @dynamic_index_in_dim_0(%arg0, %0) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.maximum %arg18, %c_0 : tensor<i32>
    %3 = call @dynamic_index_in_dim_0(%arg1, %2) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.maximum %arg18, %c_1 : tensor<i32>
    %5 = call @dynamic_index_in_dim_0(%arg2, %4) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.maximum %arg18, %c_2 : tensor<i32>
    %7 = call @dynamic_index_in_dim_0(%arg3, %6) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.maximum %arg18, %c_3 : tensor<i32>
    %9 = call @dynamic_index_in_dim_1(%arg4, %8) : (tensor<2x256xf32>, tensor<i32>) -> tensor<256xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %10 = stablehlo.maximum %arg18, %c_4 : tensor<i32>
    %11 = call @dynamic_index_in_dim_2(%arg5, %10) : (tensor<2x96x256xf32>, tensor<i32>) -> tensor<96x256xf32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.maximum %arg18, %c_5 : tensor<i32>
    %13 = call @dynamic_index_in_dim_0(%arg6, %12) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %14 = stablehlo.maximum %arg18, %c_6 : tensor<i32>
    %15 = call @dynamic_index_in_dim_3(%arg7, %14) : (tensor<2x256x96xf32>, tensor<i32>) -> tensor<256x96xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.maximum %arg18, %c_7 : tensor<i32>
    %17 = call @dynamic_index_in_dim_4(%arg8, %16) : (tensor<2x4x24xf32>, tensor<i32>) -> tensor<4x24xf32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.maximum %arg18, %c_8 : tensor<i32>
    %19 = call @dynamic_index_in_dim_5(%arg9, %18) : (tensor<2x96x4x24xf32>, tensor<i32>) -> tensor<96x4x24xf32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %20 = stablehlo.maximum %arg18, %c_9 : tensor<i32>
    %21 = call @dynamic_index_in_dim_0(%arg10, %20) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.maximum %arg18, %c_10 : tensor<i32>
    %23 = call @dynamic_index_in_dim_6(%arg11, %22) : (tensor<2x4x24x96xf32>, tensor<i32>) -> tensor<4x24x96xf32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.maximum %arg18, %c_11 : tensor<i32>
    %25 = call @dynamic_index_in_dim_4(%arg12, %24) : (tensor<2x4x24xf32>, tensor<i32>) -> tensor<4x24xf32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %26 = stablehlo.maximum %arg18, %c_12 : tensor<i32>
    %27 = call @dynamic_index_in_dim_5(%arg13, %26) : (tensor<2x96x4x24xf32>, tensor<i32>) -> tensor<96x4x24xf32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %28 = stablehlo.maximum %arg18, %c_13 : tensor<i32>
    %29 = call @dynamic_index_in_dim_4(%arg14, %28) : (tensor<2x4x24xf32>, tensor<i32>) -> tensor<4x24xf32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %30 = stablehlo.maximum %arg18, %c_14 : tensor<i32>
    %31 = call @dynamic_index_in_dim_5(%arg15, %30) : (tensor<2x96x4x24xf32>, tensor<i32>) -> tensor<96x4x24xf32>
    %32 = stablehlo.broadcast_in_dim %3, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %33 = stablehlo.broadcast_in_dim %1, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%arg17 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
    %cst_15 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
    %37 = stablehlo.divide %35, %36 : tensor<2x144x1xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
    %39 = stablehlo.subtract %arg17, %38 : tensor<2x144x96xf32>
    %40 = chlo.square %39 : tensor<2x144x96xf32> -> tensor<2x144x96xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %41 = stablehlo.reduce(%40 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
    %cst_17 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
    %44 = stablehlo.divide %42, %43 : tensor<2x144x1xf32>
    %cst_18 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
    %46 = stablehlo.add %44, %45 : tensor<2x144x1xf32>
    %47 = stablehlo.rsqrt %46 : tensor<2x144x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
    %49 = stablehlo.multiply %39, %48 : tensor<2x144x96xf32>
    %50 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
    %51 = stablehlo.multiply %49, %50 : tensor<2x144x96xf32>
    %52 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
    %53 = stablehlo.add %51, %52 : tensor<2x144x96xf32>
    %54 = stablehlo.reshape %53 : (tensor<2x144x96xf32>) -> tensor<288x96xf32>
    %55 = stablehlo.reshape %27 : (tensor<96x4x24xf32>) -> tensor<96x96xf32>
    %56 = stablehlo.dot_general %54, %55, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x96xf32>, tensor<96x96xf32>) -> tensor<288x96xf32>
    %57 = stablehlo.reshape %56 : (tensor<288x96xf32>) -> tensor<2x144x4x24xf32>
    %58 = stablehlo.broadcast_in_dim %25, dims = [2, 3] : (tensor<4x24xf32>) -> tensor<1x1x4x24xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<1x1x4x24xf32>) -> tensor<2x144x4x24xf32>
    %60 = stablehlo.add %57, %59 : tensor<2x144x4x24xf32>
    %61 = stablehlo.reshape %53 : (tensor<2x144x96xf32>) -> tensor<288x96xf32>
    %62 = stablehlo.reshape %19 : (tensor<96x4x24xf32>) -> tensor<96x96xf32>
    %63 = stablehlo.dot_general %61, %62, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x96xf32>, tensor<96x96xf32>) -> tensor<288x96xf32>
    %64 = stablehlo.reshape %63 : (tensor<288x96xf32>) -> tensor<2x144x4x24xf32>
    %65 = stablehlo.broadcast_in_dim %17, dims = [2, 3] : (tensor<4x24xf32>) -> tensor<1x1x4x24xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<1x1x4x24xf32>) -> tensor<2x144x4x24xf32>
    %67 = stablehlo.add %64, %66 : tensor<2x144x4x24xf32>
    %68 = stablehlo.reshape %53 : (tensor<2x144x96xf32>) -> tensor<288x96xf32>
    %69 = stablehlo.reshape %31 : (tensor<96x4x24xf32>) -> tensor<96x96xf32>
    %70 = stablehlo.dot_general %68, %69, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x96xf32>, tensor<96x96xf32>) -> tensor<288x96xf32>
    %71 = stablehlo.reshape %70 : (tensor<288x96xf32>) -> tensor<2x144x4x24xf32>
    %72 = stablehlo.broadcast_in_dim %29, dims = [2, 3] : (tensor<4x24xf32>) -> tensor<1x1x4x24xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x1x4x24xf32>) -> tensor<2x144x4x24xf32>
    %74 = stablehlo.add %71, %73 : tensor<2x144x4x24xf32>
    %cst_19 = stablehlo.constant dense<0.204124153> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x144x4x24xf32>
    %76 = stablehlo.multiply %60, %75 : tensor<2x144x4x24xf32>
    %77 = stablehlo.transpose %76, dims = [0, 2, 1, 3] : (tensor<2x144x4x24xf32>) -> tensor<2x4x144x24xf32>
    %78 = stablehlo.transpose %67, dims = [0, 2, 1, 3] : (tensor<2x144x4x24xf32>) -> tensor<2x4x144x24xf32>
    %79 = stablehlo.transpose %74, dims = [0, 2, 1, 3] : (tensor<2x144x4x24xf32>) -> tensor<2x4x144x24xf32>
    %80 = stablehlo.broadcast_in_dim %arg16, dims = [0, 1] : (tensor<2x144xi32>) -> tensor<2x144x1xi32>
    %81 = stablehlo.broadcast_in_dim %arg16, dims = [0, 2] : (tensor<2x144xi32>) -> tensor<2x1x144xi32>
    %82 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2] : (tensor<2x144x1xi32>) -> tensor<2x144x144xi32>
    %83 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<2x1x144xi32>) -> tensor<2x144x144xi32>
    %84 = stablehlo.compare EQ, %82, %83, SIGNED : (tensor<2x144x144xi32>, tensor<2x144x144xi32>) -> tensor<2x144x144xi1>
    %85 = stablehlo.dot_general %77, %78, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x144x24xf32>, tensor<2x4x144x24xf32>) -> tensor<2x4x144x144xf32>
    %86 = stablehlo.broadcast_in_dim %84, dims = [0, 2, 3] : (tensor<2x144x144xi1>) -> tensor<2x1x144x144xi1>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2, 3] : (tensor<2x1x144x144xi1>) -> tensor<2x4x144x144xi1>
    %cst_20 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x4x144x144xf32>
    %89 = stablehlo.select %87, %85, %88 : tensor<2x4x144x144xi1>, tensor<2x4x144x144xf32>
    %cst_21 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %90 = stablehlo.reduce(%89 init: %cst_21) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x144x144xf32>, tensor<f32>) -> tensor<2x4x144xf32>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<2x4x144xf32>) -> tensor<2x4x144x1xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2, 3] : (tensor<2x4x144x1xf32>) -> tensor<2x4x144x144xf32>
    %93 = stablehlo.subtract %89, %92 : tensor<2x4x144x144xf32>
    %94 = stablehlo.exponential %93 : tensor<2x4x144x144xf32>
    %95 = stablehlo.dot_general %94, %79, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x144x144xf32>, tensor<2x4x144x24xf32>) -> tensor<2x4x144x24xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.reduce(%94 init: %cst_22) applies stablehlo.add across dimensions = [3] : (tensor<2x4x144x144xf32>, tensor<f32>) -> tensor<2x4x144xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<2x4x144xf32>) -> tensor<2x4x144x1xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2, 3] : (tensor<2x4x144x1xf32>) -> tensor<2x4x144x24xf32>
    %99 = stablehlo.divide %95, %98 : tensor<2x4x144x24xf32>
    %100 = stablehlo.transpose %99, dims = [0, 2, 1, 3] : (tensor<2x4x144x24xf32>) -> tensor<2x144x4x24xf32>
    %101 = stablehlo.reshape %100 : (tensor<2x144x4x24xf32>) -> tensor<288x96xf32>
    %102 = stablehlo.reshape %23 : (tensor<4x24x96xf32>) -> tensor<96x96xf32>
    %103 = stablehlo.dot_general %101, %102, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x96xf32>, tensor<96x96xf32>) -> tensor<288x96xf32>
    %104 = stablehlo.reshape %103 : (tensor<288x96xf32>) -> tensor<2x144x96xf32>
    %105 = stablehlo.broadcast_in_dim %21, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
    %107 = stablehlo.add %104, %106 : tensor<2x144x96xf32>
    %108 = stablehlo.add %arg17, %107 : tensor<2x144x96xf32>
    %109 = stablehlo.broadcast_in_dim %7, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %110 = stablehlo.broadcast_in_dim %5, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%108 init: %cst_23) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
    %cst_24 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %113 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
    %114 = stablehlo.divide %112, %113 : tensor<2x144x1xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
    %116 = stablehlo.subtract %108, %115 : tensor<2x144x96xf32>
    %117 = chlo.square %116 : tensor<2x144x96xf32> -> tensor<2x144x96xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.reduce(%117 init: %cst_25) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
    %119 = stablehlo.broadcast_in_dim %118, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
    %cst_26 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
    %121 = stablehlo.divide %119, %120 : tensor<2x144x1xf32>
    %cst_27 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %122 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
    %123 = stablehlo.add %121, %122 : tensor<2x144x1xf32>
    %124 = stablehlo.rsqrt %123 : tensor<2x144x1xf32>
    %125 = stablehlo.broadcast_in_dim %124, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
    %126 = stablehlo.multiply %116, %125 : tensor<2x144x96xf32>
    %127 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
    %128 = stablehlo.multiply %126, %127 : tensor<2x144x96xf32>
    %129 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
    %130 = stablehlo.add %128, %129 : tensor<2x144x96xf32>
    %131 = stablehlo.reshape %130 : (tensor<2x144x96xf32>) -> tensor<288x96xf32>
    %132 = stablehlo.dot_general %131, %11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x96xf32>, tensor<96x256xf32>) -> tensor<288x256xf32>
    %133 = stablehlo.reshape %132 : (tensor<288x256xf32>) -> tensor<2x144x256xf32>
    %134 = stablehlo.broadcast_in_dim %9, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<2x144x256xf32>
    %136 = stablehlo.add %133, %135 : tensor<2x144x256xf32>
    %137 = stablehlo.multiply %136, %136 : tensor<2x144x256xf32>
    %138 = stablehlo.multiply %137, %136 : tensor<2x144x256xf32>
    %cst_28 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x144x256xf32>
    %140 = stablehlo.multiply %139, %138 : tensor<2x144x256xf32>
    %141 = stablehlo.add %136, %140 : tensor<2x144x256xf32>
    %cst_29 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x144x256xf32>
    %143 = stablehlo.multiply %142, %141 : tensor<2x144x256xf32>
    %144 = stablehlo.tanh %143 : tensor<2x144x256xf32>
    %cst_30 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x144x256xf32>
    %146 = stablehlo.add %145, %144 : tensor<2x144x256xf32>
    %cst_31 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x144x256xf32>
    %148 = stablehlo.multiply %147, %146 : tensor<2x144x256xf32>
    %149 = stablehlo.multiply %136, %148 : tensor<2x144x256xf32>
    %150 = stablehlo.reshape %149 : (tensor<2x144x256xf32>) -> tensor<288x256xf32>
    %151 = stablehlo.dot_general %150, %15, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x256xf32>, tensor<256x96xf32>) -> tensor<288x96xf32>
    %152 = stablehlo.reshape %151 : (tensor<288x96xf32>) -> tensor<2x144x96xf32>
    %153 = stablehlo.broadcast_in_dim %13, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
    %155 = stablehlo.add %152, %154 : tensor<2x144x96xf32>
    %156 = stablehlo.add %108, %155 : tensor<2x144x96xf32>
    return %156 : tensor<2x144x96xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<2x96xf32>, %arg1: tensor<i32>) -> tensor<96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, sizes = [1, 96] : (tensor<2x96xf32>, tensor<i32>, tensor<i32>) -> tensor<1x96xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x96xf32>) -> tensor<96xf32>
    return %4 : tensor<96xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<2x256xf32>, %arg1: tensor<i32>) -> tensor<256xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, sizes = [1, 256] : (tensor<2x256xf32>, tensor<i32>, tensor<i32>) -> tensor<1x256xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x256xf32>) -> tensor<256xf32>
    return %4 : tensor<256xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<2x96x256xf32>, %arg1: tensor<i32>) -> tensor<96x256xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, %c_2, sizes = [1, 96, 256] : (tensor<2x96x256xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x256xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x96x256xf32>) -> tensor<96x256xf32>
    return %4 : tensor<96x256xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<2x256x96xf32>, %arg1: tensor<i32>) -> tensor<256x96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, %c_2, sizes = [1, 256, 96] : (tensor<2x256x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x96xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x256x96xf32>) -> tensor<256x96xf32>
    return %4 : tensor<256x96xf32>
  }
  func.func private @dynamic_index_in_dim_4(%arg0: tensor<2x4x24xf32>, %arg1: tensor<i32>) -> tensor<4x24xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, %c_2, sizes = [1, 4, 24] : (tensor<2x4x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x24xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x4x24xf32>) -> tensor<4x24xf32>
    return %4 : tensor<4x24xf32>
  }
  func.func private @dynamic_index_in_dim_5(%arg0: tensor<2x96x4x24xf32>, %arg1: tensor<i32>) -> tensor<96x4x24xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, %c_2, %c_3, sizes = [1, 96, 4, 24] : (tensor<2x96x4x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x4x24xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x96x4x24xf32>) -> tensor<96x4x24xf32>
    return %4 : tensor<96x4x24xf32>
  }
  func.func private @dynamic_index_in_dim_6(%arg0: tensor<2x4x24x96xf32>, %arg1: tensor<i32>) -> tensor<4x24x96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, %c_2, %c_3, sizes = [1, 4, 24, 96] : (tensor<2x4x24x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x24x96xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x4x24x96xf32>) -> tensor<4x24x96xf32>
    return %4 : tensor<4x24x96xf32>
  }
  func.func private @_where_7(%arg0: tensor<i1>, %arg1: tensor<1x1x1xf32>, %arg2: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1x1x1xf32>
    return %0 : tensor<1x1x1xf32>
  }
  func.func private @closed_call_8(%arg0: tensor<2x96xf32>, %arg1: tensor<2x96xf32>, %arg2: tensor<2x128xf32>, %arg3: tensor<2x96x128xf32>, %arg4: tensor<2x96xf32>, %arg5: tensor<2x128x96xf32>, %arg6: tensor<2x96x2x24xf32>, %arg7: tensor<2x96xf32>, %arg8: tensor<2x2x24x96xf32>, %arg9: tensor<2x2x24xf32>, %arg10: tensor<2x96x2x24xf32>, %arg11: tensor<2x2x24xf32>, %arg12: tensor<2x96x2x24xf32>, %arg13: tensor<2x96xf32>, %arg14: tensor<2x96xf32>, %arg15: tensor<4x160xi32>, %arg16: tensor<i32>, %arg17: tensor<4x80x96xf32>, %arg18: tensor<i32>) -> (tensor<i32>, tensor<4x80x96xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.maximum %arg18, %c : tensor<i32>
    %1 = call @dynamic_index_in_dim_0(%arg0, %0) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.maximum %arg18, %c_0 : tensor<i32>
    %3 = call @dynamic_index_in_dim_0(%arg1, %2) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.maximum %arg18, %c_1 : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %4, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<2> : tensor<i32>
    %6 = stablehlo.add %4, %c_3 : tensor<i32>
    %7 = stablehlo.select %5, %6, %4 : tensor<i1>, tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.dynamic_slice %arg2, %7, %c_4, sizes = [1, 128] : (tensor<2x128xf32>, tensor<i32>, tensor<i32>) -> tensor<1x128xf32>
    %9 = stablehlo.reshape %8 : (tensor<1x128xf32>) -> tensor<128xf32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %10 = stablehlo.maximum %arg18, %c_5 : tensor<i32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.compare LT, %10, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_7 = stablehlo.constant dense<2> : tensor<i32>
    %12 = stablehlo.add %10, %c_7 : tensor<i32>
    %13 = stablehlo.select %11, %12, %10 : tensor<i1>, tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %14 = stablehlo.dynamic_slice %arg3, %13, %c_8, %c_9, sizes = [1, 96, 128] : (tensor<2x96x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x128xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x96x128xf32>) -> tensor<96x128xf32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.maximum %arg18, %c_10 : tensor<i32>
    %17 = call @dynamic_index_in_dim_0(%arg4, %16) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.maximum %arg18, %c_11 : tensor<i32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %19 = stablehlo.compare LT, %18, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_13 = stablehlo.constant dense<2> : tensor<i32>
    %20 = stablehlo.add %18, %c_13 : tensor<i32>
    %21 = stablehlo.select %19, %20, %18 : tensor<i1>, tensor<i32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.dynamic_slice %arg5, %21, %c_14, %c_15, sizes = [1, 128, 96] : (tensor<2x128x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x96xf32>
    %23 = stablehlo.reshape %22 : (tensor<1x128x96xf32>) -> tensor<128x96xf32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.maximum %arg18, %c_16 : tensor<i32>
    %c_17 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.compare LT, %24, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_18 = stablehlo.constant dense<2> : tensor<i32>
    %26 = stablehlo.add %24, %c_18 : tensor<i32>
    %27 = stablehlo.select %25, %26, %24 : tensor<i1>, tensor<i32>
    %c_19 = stablehlo.constant dense<0> : tensor<i32>
    %c_20 = stablehlo.constant dense<0> : tensor<i32>
    %c_21 = stablehlo.constant dense<0> : tensor<i32>
    %28 = stablehlo.dynamic_slice %arg6, %27, %c_19, %c_20, %c_21, sizes = [1, 96, 2, 24] : (tensor<2x96x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x2x24xf32>
    %29 = stablehlo.reshape %28 : (tensor<1x96x2x24xf32>) -> tensor<96x2x24xf32>
    %c_22 = stablehlo.constant dense<0> : tensor<i32>
    %30 = stablehlo.maximum %arg18, %c_22 : tensor<i32>
    %31 = call @dynamic_index_in_dim_0(%arg7, %30) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_23 = stablehlo.constant dense<0> : tensor<i32>
    %32 = stablehlo.maximum %arg18, %c_23 : tensor<i32>
    %c_24 = stablehlo.constant dense<0> : tensor<i32>
    %33 = stablehlo.compare LT, %32, %c_24, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_25 = stablehlo.constant dense<2> : tensor<i32>
    %34 = stablehlo.add %32, %c_25 : tensor<i32>
    %35 = stablehlo.select %33, %34, %32 : tensor<i1>, tensor<i32>
    %c_26 = stablehlo.constant dense<0> : tensor<i32>
    %c_27 = stablehlo.constant dense<0> : tensor<i32>
    %c_28 = stablehlo.constant dense<0> : tensor<i32>
    %36 = stablehlo.dynamic_slice %arg8, %35, %c_26, %c_27, %c_28, sizes = [1, 2, 24, 96] : (tensor<2x2x24x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x24x96xf32>
    %37 = stablehlo.reshape %36 : (tensor<1x2x24x96xf32>) -> tensor<2x24x96xf32>
    %c_29 = stablehlo.constant dense<0> : tensor<i32>
    %38 = stablehlo.maximum %arg18, %c_29 : tensor<i32>
    %c_30 = stablehlo.constant dense<0> : tensor<i32>
    %39 = stablehlo.compare LT, %38, %c_30, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_31 = stablehlo.constant dense<2> : tensor<i32>
    %40 = stablehlo.add %38, %c_31 : tensor<i32>
    %41 = stablehlo.select %39, %40, %38 : tensor<i1>, tensor<i32>
    %c_32 = stablehlo.constant dense<0> : tensor<i32>
    %c_33 = stablehlo.constant dense<0> : tensor<i32>
    %42 = stablehlo.dynamic_slice %arg9, %41, %c_32, %c_33, sizes = [1, 2, 24] : (tensor<2x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x24xf32>
    %43 = stablehlo.reshape %42 : (tensor<1x2x24xf32>) -> tensor<2x24xf32>
    %c_34 = stablehlo.constant dense<0> : tensor<i32>
    %44 = stablehlo.maximum %arg18, %c_34 : tensor<i32>
    %c_35 = stablehlo.constant dense<0> : tensor<i32>
    %45 = stablehlo.compare LT, %44, %c_35, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_36 = stablehlo.constant dense<2> : tensor<i32>
    %46 = stablehlo.add %44, %c_36 : tensor<i32>
    %47 = stablehlo.select %45, %46, %44 : tensor<i1>, tensor<i32>
    %c_37 = stablehlo.constant dense<0> : tensor<i32>
    %c_38 = stablehlo.constant dense<0> : tensor<i32>
    %c_39 = stablehlo.constant dense<0> : tensor<i32>
    %48 = stablehlo.dynamic_slice %arg10, %47, %c_37, %c_38, %c_39, sizes = [1, 96, 2, 24] : (tensor<2x96x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x2x24xf32>
    %49 = stablehlo.reshape %48 : (tensor<1x96x2x24xf32>) -> tensor<96x2x24xf32>
    %c_40 = stablehlo.constant dense<0> : tensor<i32>
    %50 = stablehlo.maximum %arg18, %c_40 : tensor<i32>
    %c_41 = stablehlo.constant dense<0> : tensor<i32>
    %51 = stablehlo.compare LT, %50, %c_41, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_42 = stablehlo.constant dense<2> : tensor<i32>
    %52 = stablehlo.add %50, %c_42 : tensor<i32>
    %53 = stablehlo.select %51, %52, %50 : tensor<i1>, tensor<i32>
    %c_43 = stablehlo.constant dense<0> : tensor<i32>
    %c_44 = stablehlo.constant dense<0> : tensor<i32>
    %54 = stablehlo.dynamic_slice %arg11, %53, %c_43, %c_44, sizes = [1, 2, 24] : (tensor<2x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x24xf32>
    %55 = stablehlo.reshape %54 : (tensor<1x2x24xf32>) -> tensor<2x24xf32>
    %c_45 = stablehlo.constant dense<0> : tensor<i32>
    %56 = stablehlo.maximum %arg18, %c_45 : tensor<i32>
    %c_46 = stablehlo.constant dense<0> : tensor<i32>
    %57 = stablehlo.compare LT, %56, %c_46, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_47 = stablehlo.constant dense<2> : tensor<i32>
    %58 = stablehlo.add %56, %c_47 : tensor<i32>
    %59 = stablehlo.select %57, %58, %56 : tensor<i1>, tensor<i32>
    %c_48 = stablehlo.constant dense<0> : tensor<i32>
    %c_49 = stablehlo.constant dense<0> : tensor<i32>
    %c_50 = stablehlo.constant dense<0> : tensor<i32>
    %60 = stablehlo.dynamic_slice %arg12, %59, %c_48, %c_49, %c_50, sizes = [1, 96, 2, 24] : (tensor<2x96x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x2x24xf32>
    %61 = stablehlo.reshape %60 : (tensor<1x96x2x24xf32>) -> tensor<96x2x24xf32>
    %c_51 = stablehlo.constant dense<0> : tensor<i32>
    %62 = stablehlo.maximum %arg18, %c_51 : tensor<i32>
    %63 = call @dynamic_index_in_dim_0(%arg13, %62) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_52 = stablehlo.constant dense<0> : tensor<i32>
    %64 = stablehlo.maximum %arg18, %c_52 : tensor<i32>
    %65 = call @dynamic_index_in_dim_0(%arg14, %64) : (tensor<2x96xf32>, tensor<i32>) -> tensor<96xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %67 = stablehlo.broadcast_in_dim %63, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%arg17 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
    %cst_53 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
    %71 = stablehlo.divide %69, %70 : tensor<4x80x1xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
    %73 = stablehlo.subtract %arg17, %72 : tensor<4x80x96xf32>
    %74 = chlo.square %73 : tensor<4x80x96xf32> -> tensor<4x80x96xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_54) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
    %cst_55 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
    %78 = stablehlo.divide %76, %77 : tensor<4x80x1xf32>
    %cst_56 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
    %80 = stablehlo.add %78, %79 : tensor<4x80x1xf32>
    %81 = stablehlo.rsqrt %80 : tensor<4x80x1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
    %83 = stablehlo.multiply %73, %82 : tensor<4x80x96xf32>
    %84 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
    %85 = stablehlo.multiply %83, %84 : tensor<4x80x96xf32>
    %86 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
    %87 = stablehlo.add %85, %86 : tensor<4x80x96xf32>
    %88 = stablehlo.slice %87 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
    %c_57 = stablehlo.constant dense<0> : tensor<i32>
    %89 = stablehlo.compare GE, %arg16, %c_57, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %91 = call @_where_7(%89, %88, %90) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_59 = stablehlo.constant dense<0> : tensor<i32>
    %c_60 = stablehlo.constant dense<0> : tensor<i32>
    %c_61 = stablehlo.constant dense<0> : tensor<i32>
    %92 = stablehlo.dynamic_update_slice %87, %91, %c_59, %c_60, %c_61 : (tensor<4x80x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x80x96xf32>
    %93 = "stablehlo.all_gather"(%92) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x80x96xf32>) -> tensor<4x160x96xf32>
    %94 = stablehlo.reshape %93 : (tensor<4x160x96xf32>) -> tensor<640x96xf32>
    %95 = stablehlo.reshape %49 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
    %96 = stablehlo.dot_general %94, %95, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x96xf32>, tensor<96x48xf32>) -> tensor<640x48xf32>
    %97 = stablehlo.reshape %96 : (tensor<640x48xf32>) -> tensor<4x160x2x24xf32>
    %98 = stablehlo.broadcast_in_dim %43, dims = [2, 3] : (tensor<2x24xf32>) -> tensor<1x1x2x24xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2, 3] : (tensor<1x1x2x24xf32>) -> tensor<4x160x2x24xf32>
    %100 = stablehlo.add %97, %99 : tensor<4x160x2x24xf32>
    %101 = stablehlo.reshape %93 : (tensor<4x160x96xf32>) -> tensor<640x96xf32>
    %102 = stablehlo.reshape %29 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
    %103 = stablehlo.dot_general %101, %102, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x96xf32>, tensor<96x48xf32>) -> tensor<640x48xf32>
    %104 = stablehlo.reshape %103 : (tensor<640x48xf32>) -> tensor<4x160x2x24xf32>
    %105 = stablehlo.reshape %93 : (tensor<4x160x96xf32>) -> tensor<640x96xf32>
    %106 = stablehlo.reshape %61 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
    %107 = stablehlo.dot_general %105, %106, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x96xf32>, tensor<96x48xf32>) -> tensor<640x48xf32>
    %108 = stablehlo.reshape %107 : (tensor<640x48xf32>) -> tensor<4x160x2x24xf32>
    %109 = stablehlo.broadcast_in_dim %55, dims = [2, 3] : (tensor<2x24xf32>) -> tensor<1x1x2x24xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3] : (tensor<1x1x2x24xf32>) -> tensor<4x160x2x24xf32>
    %111 = stablehlo.add %108, %110 : tensor<4x160x2x24xf32>
    %cst_62 = stablehlo.constant dense<0.204124153> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<4x160x2x24xf32>
    %113 = stablehlo.multiply %100, %112 : tensor<4x160x2x24xf32>
    %114 = stablehlo.transpose %113, dims = [0, 2, 1, 3] : (tensor<4x160x2x24xf32>) -> tensor<4x2x160x24xf32>
    %115 = stablehlo.transpose %104, dims = [0, 2, 1, 3] : (tensor<4x160x2x24xf32>) -> tensor<4x2x160x24xf32>
    %116 = stablehlo.transpose %111, dims = [0, 2, 1, 3] : (tensor<4x160x2x24xf32>) -> tensor<4x2x160x24xf32>
    %117 = stablehlo.broadcast_in_dim %arg15, dims = [0, 1] : (tensor<4x160xi32>) -> tensor<4x160x1xi32>
    %118 = stablehlo.broadcast_in_dim %arg15, dims = [0, 2] : (tensor<4x160xi32>) -> tensor<4x1x160xi32>
    %119 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2] : (tensor<4x160x1xi32>) -> tensor<4x160x160xi32>
    %120 = stablehlo.broadcast_in_dim %118, dims = [0, 1, 2] : (tensor<4x1x160xi32>) -> tensor<4x160x160xi32>
    %121 = stablehlo.compare EQ, %119, %120, SIGNED : (tensor<4x160x160xi32>, tensor<4x160x160xi32>) -> tensor<4x160x160xi1>
    %122 = stablehlo.dot_general %114, %115, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x160x24xf32>, tensor<4x2x160x24xf32>) -> tensor<4x2x160x160xf32>
    %123 = stablehlo.broadcast_in_dim %121, dims = [0, 2, 3] : (tensor<4x160x160xi1>) -> tensor<4x1x160x160xi1>
    %124 = stablehlo.broadcast_in_dim %123, dims = [0, 1, 2, 3] : (tensor<4x1x160x160xi1>) -> tensor<4x2x160x160xi1>
    %cst_63 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<4x2x160x160xf32>
    %126 = stablehlo.select %124, %122, %125 : tensor<4x2x160x160xi1>, tensor<4x2x160x160xf32>
    %cst_64 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %127 = stablehlo.reduce(%126 init: %cst_64) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x160x160xf32>, tensor<f32>) -> tensor<4x2x160xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2] : (tensor<4x2x160xf32>) -> tensor<4x2x160x1xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2, 3] : (tensor<4x2x160x1xf32>) -> tensor<4x2x160x160xf32>
    %130 = stablehlo.subtract %126, %129 : tensor<4x2x160x160xf32>
    %131 = stablehlo.exponential %130 : tensor<4x2x160x160xf32>
    %132 = stablehlo.dot_general %131, %116, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x160x160xf32>, tensor<4x2x160x24xf32>) -> tensor<4x2x160x24xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %133 = stablehlo.reduce(%131 init: %cst_65) applies stablehlo.add across dimensions = [3] : (tensor<4x2x160x160xf32>, tensor<f32>) -> tensor<4x2x160xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<4x2x160xf32>) -> tensor<4x2x160x1xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 2, 3] : (tensor<4x2x160x1xf32>) -> tensor<4x2x160x24xf32>
    %136 = stablehlo.divide %132, %135 : tensor<4x2x160x24xf32>
    %137 = stablehlo.transpose %136, dims = [0, 2, 1, 3] : (tensor<4x2x160x24xf32>) -> tensor<4x160x2x24xf32>
    %138 = stablehlo.reshape %137 : (tensor<4x160x2x24xf32>) -> tensor<640x48xf32>
    %139 = stablehlo.reshape %37 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
    %140 = stablehlo.dot_general %138, %139, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x48xf32>, tensor<48x96xf32>) -> tensor<640x96xf32>
    %141 = stablehlo.reshape %140 : (tensor<640x96xf32>) -> tensor<4x160x96xf32>
    %142 = stablehlo.slice %141 [0:1, 0:1, 0:1] : (tensor<4x160x96xf32>) -> tensor<1x1x1xf32>
    %c_66 = stablehlo.constant dense<0> : tensor<i32>
    %143 = stablehlo.compare GE, %arg16, %c_66, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %145 = call @_where_7(%143, %142, %144) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_68 = stablehlo.constant dense<0> : tensor<i32>
    %c_69 = stablehlo.constant dense<0> : tensor<i32>
    %c_70 = stablehlo.constant dense<0> : tensor<i32>
    %146 = stablehlo.dynamic_update_slice %141, %145, %c_68, %c_69, %c_70 : (tensor<4x160x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x160x96xf32>
    %147 = "stablehlo.reduce_scatter"(%146) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
      %233 = stablehlo.add %arg19, %arg20 : tensor<f32>
      stablehlo.return %233 : tensor<f32>
    }) : (tensor<4x160x96xf32>) -> tensor<4x80x96xf32>
    %148 = stablehlo.broadcast_in_dim %31, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
    %150 = stablehlo.add %147, %149 : tensor<4x80x96xf32>
    %151 = stablehlo.add %arg17, %150 : tensor<4x80x96xf32>
    %152 = stablehlo.broadcast_in_dim %3, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %153 = stablehlo.broadcast_in_dim %1, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %154 = stablehlo.reduce(%151 init: %cst_71) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
    %155 = stablehlo.broadcast_in_dim %154, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
    %cst_72 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
    %157 = stablehlo.divide %155, %156 : tensor<4x80x1xf32>
    %158 = stablehlo.broadcast_in_dim %157, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
    %159 = stablehlo.subtract %151, %158 : tensor<4x80x96xf32>
    %160 = chlo.square %159 : tensor<4x80x96xf32> -> tensor<4x80x96xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %161 = stablehlo.reduce(%160 init: %cst_73) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
    %162 = stablehlo.broadcast_in_dim %161, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
    %cst_74 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %163 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
    %164 = stablehlo.divide %162, %163 : tensor<4x80x1xf32>
    %cst_75 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
    %166 = stablehlo.add %164, %165 : tensor<4x80x1xf32>
    %167 = stablehlo.rsqrt %166 : tensor<4x80x1xf32>
    %168 = stablehlo.broadcast_in_dim %167, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
    %169 = stablehlo.multiply %159, %168 : tensor<4x80x96xf32>
    %170 = stablehlo.broadcast_in_dim %152, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
    %171 = stablehlo.multiply %169, %170 : tensor<4x80x96xf32>
    %172 = stablehlo.broadcast_in_dim %153, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
    %173 = stablehlo.add %171, %172 : tensor<4x80x96xf32>
    %174 = stablehlo.slice %173 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
    %c_76 = stablehlo.constant dense<0> : tensor<i32>
    %175 = stablehlo.compare GE, %arg16, %c_76, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %176 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %177 = call @_where_7(%175, %174, %176) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_78 = stablehlo.constant dense<0> : tensor<i32>
    %c_79 = stablehlo.constant dense<0> : tensor<i32>
    %c_80 = stablehlo.constant dense<0> : tensor<i32>
    %178 = stablehlo.dynamic_update_slice %173, %177, %c_78, %c_79, %c_80 : (tensor<4x80x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x80x96xf32>
    %179 = "stablehlo.all_gather"(%178) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x80x96xf32>) -> tensor<4x160x96xf32>
    %180 = stablehlo.reshape %179 : (tensor<4x160x96xf32>) -> tensor<640x96xf32>
    %181 = stablehlo.dot_general %180, %15, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x96xf32>, tensor<96x128xf32>) -> tensor<640x128xf32>
    %182 = stablehlo.reshape %181 : (tensor<640x128xf32>) -> tensor<4x160x128xf32>
    %183 = stablehlo.broadcast_in_dim %9, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<4x160x128xf32>
    %185 = stablehlo.add %182, %184 : tensor<4x160x128xf32>
    %cst_81 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<4x160x128xf32>
    %187 = stablehlo.multiply %186, %185 : tensor<4x160x128xf32>
    %cst_82 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %188 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x160x128xf32>
    %189 = stablehlo.multiply %185, %188 : tensor<4x160x128xf32>
    %cst_83 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %190 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<4x160x128xf32>
    %191 = stablehlo.multiply %189, %190 : tensor<4x160x128xf32>
    %192 = chlo.erf %191 : tensor<4x160x128xf32> -> tensor<4x160x128xf32>
    %cst_84 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %193 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x160x128xf32>
    %194 = stablehlo.add %193, %192 : tensor<4x160x128xf32>
    %195 = stablehlo.multiply %187, %194 : tensor<4x160x128xf32>
    %196 = stablehlo.reshape %195 : (tensor<4x160x128xf32>) -> tensor<640x128xf32>
    %197 = stablehlo.dot_general %196, %23, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x128xf32>, tensor<128x96xf32>) -> tensor<640x96xf32>
    %198 = stablehlo.reshape %197 : (tensor<640x96xf32>) -> tensor<4x160x96xf32>
    %199 = stablehlo.slice %198 [0:1, 0:1, 0:1] : (tensor<4x160x96xf32>) -> tensor<1x1x1xf32>
    %c_85 = stablehlo.constant dense<0> : tensor<i32>
    %200 = stablehlo.compare GE, %arg16, %c_85, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_86 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %202 = call @_where_7(%200, %199, %201) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_87 = stablehlo.constant dense<0> : tensor<i32>
    %c_88 = stablehlo.constant dense<0> : tensor<i32>
    %c_89 = stablehlo.constant dense<0> : tensor<i32>
    %203 = stablehlo.dynamic_update_slice %198, %202, %c_87, %c_88, %c_89 : (tensor<4x160x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x160x96xf32>
    %204 = "stablehlo.reduce_scatter"(%203) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%arg19: tensor<f32>, %arg20: tensor<f32>):
      %233 = stablehlo.add %arg19, %arg20 : tensor<f32>
      stablehlo.return %233 : tensor<f32>
    }) : (tensor<4x160x96xf32>) -> tensor<4x80x96xf32>
    %205 = stablehlo.broadcast_in_dim %17, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %206 = stablehlo.broadcast_in_dim %205, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
    %207 = stablehlo.add %204, %206 : tensor<4x80x96xf32>
    %208 = stablehlo.add %151, %207 : tensor<4x80x96xf32>
    %209 = stablehlo.slice %93 [0:1, 0:1, 0:1] : (tensor<4x160x96xf32>) -> tensor<1x1x1xf32>
    %210 = stablehlo.reshape %209 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %211 = stablehlo.compare NE, %210, %cst_90, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %212 = stablehlo.convert %211 : (tensor<i1>) -> tensor<i32>
    %c_91 = stablehlo.constant dense<1> : tensor<i32>
    %213 = stablehlo.or %212, %c_91 : tensor<i32>
    %214 = stablehlo.and %arg16, %213 : tensor<i32>
    %215 = stablehlo.slice %147 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
    %216 = stablehlo.reshape %215 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %217 = stablehlo.compare NE, %216, %cst_92, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %218 = stablehlo.convert %217 : (tensor<i1>) -> tensor<i32>
    %c_93 = stablehlo.constant dense<1> : tensor<i32>
    %219 = stablehlo.or %218, %c_93 : tensor<i32>
    %220 = stablehlo.and %214, %219 : tensor<i32>
    %221 = stablehlo.slice %179 [0:1, 0:1, 0:1] : (tensor<4x160x96xf32>) -> tensor<1x1x1xf32>
    %222 = stablehlo.reshape %221 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.compare NE, %222, %cst_94, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %224 = stablehlo.convert %223 : (tensor<i1>) -> tensor<i32>
    %c_95 = stablehlo.constant dense<1> : tensor<i32>
    %225 = stablehlo.or %224, %c_95 : tensor<i32>
    %226 = stablehlo.and %220, %225 : tensor<i32>
    %227 = stablehlo.slice %204 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
    %228 = stablehlo.reshape %227 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %229 = stablehlo.compare NE, %228, %cst_96, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %230 = stablehlo.convert %229 : (tensor<i1>) -> tensor<i32>
    %c_97 = stablehlo.constant dense<1> : tensor<i32>
    %231 = stablehlo.or %230, %c_97 : tensor<i32>
    %232 = stablehlo.and %226, %231 : tensor<i32>
    return %232, %208 : tensor<i32>, tensor<4x80x96xf32>
  }
  func.func private @dynamic_index_in_dim_9(%arg0: tensor<3xi32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    return %1 : tensor<i32>
  }
  func.func private @closed_call_10(%arg0: tensor<3x96xf32>, %arg1: tensor<3x128x96xf32>, %arg2: tensor<3x96x128xf32>, %arg3: tensor<3x96x128xf32>, %arg4: tensor<3x96xf32>, %arg5: tensor<3x96x2x24xf32>, %arg6: tensor<3x2x24x96xf32>, %arg7: tensor<3x96x2x24xf32>, %arg8: tensor<3x96x2x24xf32>, %arg9: tensor<4x312x1x12xf32>, %arg10: tensor<4x312x1x12xf32>, %arg11: tensor<4x312xi32>, %arg12: tensor<i32>, %arg13: tensor<4x156x96xf32>, %arg14: tensor<i32>) -> (tensor<i32>, tensor<4x156x96xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.maximum %arg14, %c : tensor<i32>
    %1 = call @dynamic_index_in_dim_11(%arg0, %0) : (tensor<3x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.maximum %arg14, %c_0 : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare LT, %2, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<3> : tensor<i32>
    %4 = stablehlo.add %2, %c_2 : tensor<i32>
    %5 = stablehlo.select %3, %4, %2 : tensor<i1>, tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.dynamic_slice %arg1, %5, %c_3, %c_4, sizes = [1, 128, 96] : (tensor<3x128x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x96xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x128x96xf32>) -> tensor<128x96xf32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.maximum %arg14, %c_5 : tensor<i32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %8, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_7 = stablehlo.constant dense<3> : tensor<i32>
    %10 = stablehlo.add %8, %c_7 : tensor<i32>
    %11 = stablehlo.select %9, %10, %8 : tensor<i1>, tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.dynamic_slice %arg2, %11, %c_8, %c_9, sizes = [1, 96, 128] : (tensor<3x96x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x128xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x96x128xf32>) -> tensor<96x128xf32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %14 = stablehlo.maximum %arg14, %c_10 : tensor<i32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %15 = stablehlo.compare LT, %14, %c_11, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_12 = stablehlo.constant dense<3> : tensor<i32>
    %16 = stablehlo.add %14, %c_12 : tensor<i32>
    %17 = stablehlo.select %15, %16, %14 : tensor<i1>, tensor<i32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.dynamic_slice %arg3, %17, %c_13, %c_14, sizes = [1, 96, 128] : (tensor<3x96x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x128xf32>
    %19 = stablehlo.reshape %18 : (tensor<1x96x128xf32>) -> tensor<96x128xf32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %20 = stablehlo.maximum %arg14, %c_15 : tensor<i32>
    %21 = call @dynamic_index_in_dim_11(%arg4, %20) : (tensor<3x96xf32>, tensor<i32>) -> tensor<96xf32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.maximum %arg14, %c_16 : tensor<i32>
    %c_17 = stablehlo.constant dense<0> : tensor<i32>
    %23 = stablehlo.compare LT, %22, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_18 = stablehlo.constant dense<3> : tensor<i32>
    %24 = stablehlo.add %22, %c_18 : tensor<i32>
    %25 = stablehlo.select %23, %24, %22 : tensor<i1>, tensor<i32>
    %c_19 = stablehlo.constant dense<0> : tensor<i32>
    %c_20 = stablehlo.constant dense<0> : tensor<i32>
    %c_21 = stablehlo.constant dense<0> : tensor<i32>
    %26 = stablehlo.dynamic_slice %arg5, %25, %c_19, %c_20, %c_21, sizes = [1, 96, 2, 24] : (tensor<3x96x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x2x24xf32>
    %27 = stablehlo.reshape %26 : (tensor<1x96x2x24xf32>) -> tensor<96x2x24xf32>
    %c_22 = stablehlo.constant dense<0> : tensor<i32>
    %28 = stablehlo.maximum %arg14, %c_22 : tensor<i32>
    %c_23 = stablehlo.constant dense<0> : tensor<i32>
    %29 = stablehlo.compare LT, %28, %c_23, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_24 = stablehlo.constant dense<3> : tensor<i32>
    %30 = stablehlo.add %28, %c_24 : tensor<i32>
    %31 = stablehlo.select %29, %30, %28 : tensor<i1>, tensor<i32>
    %c_25 = stablehlo.constant dense<0> : tensor<i32>
    %c_26 = stablehlo.constant dense<0> : tensor<i32>
    %c_27 = stablehlo.constant dense<0> : tensor<i32>
    %32 = stablehlo.dynamic_slice %arg6, %31, %c_25, %c_26, %c_27, sizes = [1, 2, 24, 96] : (tensor<3x2x24x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x24x96xf32>
    %33 = stablehlo.reshape %32 : (tensor<1x2x24x96xf32>) -> tensor<2x24x96xf32>
    %c_28 = stablehlo.constant dense<0> : tensor<i32>
    %34 = stablehlo.maximum %arg14, %c_28 : tensor<i32>
    %c_29 = stablehlo.constant dense<0> : tensor<i32>
    %35 = stablehlo.compare LT, %34, %c_29, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_30 = stablehlo.constant dense<3> : tensor<i32>
    %36 = stablehlo.add %34, %c_30 : tensor<i32>
    %37 = stablehlo.select %35, %36, %34 : tensor<i1>, tensor<i32>
    %c_31 = stablehlo.constant dense<0> : tensor<i32>
    %c_32 = stablehlo.constant dense<0> : tensor<i32>
    %c_33 = stablehlo.constant dense<0> : tensor<i32>
    %38 = stablehlo.dynamic_slice %arg7, %37, %c_31, %c_32, %c_33, sizes = [1, 96, 2, 24] : (tensor<3x96x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x2x24xf32>
    %39 = stablehlo.reshape %38 : (tensor<1x96x2x24xf32>) -> tensor<96x2x24xf32>
    %c_34 = stablehlo.constant dense<0> : tensor<i32>
    %40 = stablehlo.maximum %arg14, %c_34 : tensor<i32>
    %c_35 = stablehlo.constant dense<0> : tensor<i32>
    %41 = stablehlo.compare LT, %40, %c_35, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_36 = stablehlo.constant dense<3> : tensor<i32>
    %42 = stablehlo.add %40, %c_36 : tensor<i32>
    %43 = stablehlo.select %41, %42, %40 : tensor<i1>, tensor<i32>
    %c_37 = stablehlo.constant dense<0> : tensor<i32>
    %c_38 = stablehlo.constant dense<0> : tensor<i32>
    %c_39 = stablehlo.constant dense<0> : tensor<i32>
    %44 = stablehlo.dynamic_slice %arg8, %43, %c_37, %c_38, %c_39, sizes = [1, 96, 2, 24] : (tensor<3x96x2x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x96x2x24xf32>
    %45 = stablehlo.reshape %44 : (tensor<1x96x2x24xf32>) -> tensor<96x2x24xf32>
    %46 = stablehlo.broadcast_in_dim %1, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %47 = chlo.square %arg13 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
    %cst_40 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
    %51 = stablehlo.divide %49, %50 : tensor<4x156x1xf32>
    %cst_41 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
    %53 = stablehlo.add %51, %52 : tensor<4x156x1xf32>
    %54 = stablehlo.rsqrt %53 : tensor<4x156x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
    %56 = stablehlo.multiply %arg13, %55 : tensor<4x156x96xf32>
    %57 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
    %58 = stablehlo.multiply %56, %57 : tensor<4x156x96xf32>
    %59 = stablehlo.slice %58 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
    %c_42 = stablehlo.constant dense<0> : tensor<i32>
    %60 = stablehlo.compare GE, %arg12, %c_42, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %62 = call @_where_7(%60, %59, %61) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_44 = stablehlo.constant dense<0> : tensor<i32>
    %c_45 = stablehlo.constant dense<0> : tensor<i32>
    %c_46 = stablehlo.constant dense<0> : tensor<i32>
    %63 = stablehlo.dynamic_update_slice %58, %62, %c_44, %c_45, %c_46 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
    %64 = "stablehlo.all_gather"(%63) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
    %65 = stablehlo.reshape %64 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
    %66 = stablehlo.reshape %39 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
    %67 = stablehlo.dot_general %65, %66, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
    %68 = stablehlo.reshape %67 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
    %69 = stablehlo.reshape %64 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
    %70 = stablehlo.reshape %27 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
    %71 = stablehlo.dot_general %69, %70, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
    %72 = stablehlo.reshape %71 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
    %73 = stablehlo.reshape %64 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
    %74 = stablehlo.reshape %45 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
    %75 = stablehlo.dot_general %73, %74, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
    %76 = stablehlo.reshape %75 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
    %77 = stablehlo.slice %68 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
    %78 = stablehlo.slice %68 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
    %79 = stablehlo.broadcast_in_dim %arg9, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %80 = stablehlo.multiply %77, %79 : tensor<4x312x2x12xf32>
    %81 = stablehlo.broadcast_in_dim %arg10, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %82 = stablehlo.multiply %78, %81 : tensor<4x312x2x12xf32>
    %83 = stablehlo.subtract %80, %82 : tensor<4x312x2x12xf32>
    %84 = stablehlo.broadcast_in_dim %arg9, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %85 = stablehlo.multiply %78, %84 : tensor<4x312x2x12xf32>
    %86 = stablehlo.broadcast_in_dim %arg10, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %87 = stablehlo.multiply %77, %86 : tensor<4x312x2x12xf32>
    %88 = stablehlo.add %85, %87 : tensor<4x312x2x12xf32>
    %89 = stablehlo.concatenate %83, %88, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
    %90 = stablehlo.slice %72 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
    %91 = stablehlo.slice %72 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
    %92 = stablehlo.broadcast_in_dim %arg9, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %93 = stablehlo.multiply %90, %92 : tensor<4x312x2x12xf32>
    %94 = stablehlo.broadcast_in_dim %arg10, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %95 = stablehlo.multiply %91, %94 : tensor<4x312x2x12xf32>
    %96 = stablehlo.subtract %93, %95 : tensor<4x312x2x12xf32>
    %97 = stablehlo.broadcast_in_dim %arg9, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %98 = stablehlo.multiply %91, %97 : tensor<4x312x2x12xf32>
    %99 = stablehlo.broadcast_in_dim %arg10, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
    %100 = stablehlo.multiply %90, %99 : tensor<4x312x2x12xf32>
    %101 = stablehlo.add %98, %100 : tensor<4x312x2x12xf32>
    %102 = stablehlo.concatenate %96, %101, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
    %cst_47 = stablehlo.constant dense<0.204124153> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<4x312x2x24xf32>
    %104 = stablehlo.multiply %89, %103 : tensor<4x312x2x24xf32>
    %105 = stablehlo.transpose %104, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
    %106 = stablehlo.transpose %102, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
    %107 = stablehlo.transpose %76, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
    %108 = stablehlo.slice %arg11 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
    %109 = stablehlo.slice %arg11 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
    %110 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
    %111 = stablehlo.broadcast_in_dim %109, dims = [0, 2] : (tensor<4x64xi32>) -> tensor<4x1x64xi32>
    %112 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x64xi32>
    %113 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<4x1x64xi32>) -> tensor<4x64x64xi32>
    %114 = stablehlo.compare EQ, %112, %113, SIGNED : (tensor<4x64x64xi32>, tensor<4x64x64xi32>) -> tensor<4x64x64xi1>
    %c_48 = stablehlo.constant dense<true> : tensor<i1>
    %115 = stablehlo.broadcast_in_dim %c_48, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %116 = call @tril(%115) : (tensor<64x64xi1>) -> tensor<64x64xi1>
    %117 = stablehlo.broadcast_in_dim %116, dims = [1, 2] : (tensor<64x64xi1>) -> tensor<1x64x64xi1>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2] : (tensor<1x64x64xi1>) -> tensor<4x64x64xi1>
    %119 = stablehlo.and %114, %118 : tensor<4x64x64xi1>
    %120 = stablehlo.slice %105 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
    %121 = stablehlo.slice %106 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
    %122 = stablehlo.slice %107 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
    %123 = stablehlo.dot_general %120, %121, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x64xf32>
    %124 = stablehlo.broadcast_in_dim %119, dims = [0, 2, 3] : (tensor<4x64x64xi1>) -> tensor<4x1x64x64xi1>
    %125 = stablehlo.broadcast_in_dim %124, dims = [0, 1, 2, 3] : (tensor<4x1x64x64xi1>) -> tensor<4x2x64x64xi1>
    %cst_49 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<4x2x64x64xf32>
    %127 = stablehlo.select %125, %123, %126 : tensor<4x2x64x64xi1>, tensor<4x2x64x64xf32>
    %cst_50 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %128 = stablehlo.reduce(%127 init: %cst_50) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x64xf32>
    %131 = stablehlo.subtract %127, %130 : tensor<4x2x64x64xf32>
    %132 = stablehlo.exponential %131 : tensor<4x2x64x64xf32>
    %133 = stablehlo.dot_general %132, %122, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x64xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x24xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %134 = stablehlo.reduce(%132 init: %cst_51) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
    %137 = stablehlo.divide %133, %136 : tensor<4x2x64x24xf32>
    %138 = stablehlo.slice %arg11 [0:4, 64:128] : (tensor<4x312xi32>) -> tensor<4x64xi32>
    %139 = stablehlo.slice %arg11 [0:4, 0:128] : (tensor<4x312xi32>) -> tensor<4x128xi32>
    %140 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
    %141 = stablehlo.broadcast_in_dim %139, dims = [0, 2] : (tensor<4x128xi32>) -> tensor<4x1x128xi32>
    %142 = stablehlo.broadcast_in_dim %140, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x128xi32>
    %143 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2] : (tensor<4x1x128xi32>) -> tensor<4x64x128xi32>
    %144 = stablehlo.compare EQ, %142, %143, SIGNED : (tensor<4x64x128xi32>, tensor<4x64x128xi32>) -> tensor<4x64x128xi1>
    %c_52 = stablehlo.constant dense<true> : tensor<i1>
    %145 = stablehlo.broadcast_in_dim %c_52, dims = [] : (tensor<i1>) -> tensor<64x128xi1>
    %146 = call @tril_12(%145) : (tensor<64x128xi1>) -> tensor<64x128xi1>
    %147 = stablehlo.broadcast_in_dim %146, dims = [1, 2] : (tensor<64x128xi1>) -> tensor<1x64x128xi1>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0, 1, 2] : (tensor<1x64x128xi1>) -> tensor<4x64x128xi1>
    %149 = stablehlo.and %144, %148 : tensor<4x64x128xi1>
    %150 = stablehlo.slice %105 [0:4, 0:2, 64:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
    %151 = stablehlo.slice %106 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
    %152 = stablehlo.slice %107 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
    %153 = stablehlo.dot_general %150, %151, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x128xf32>
    %154 = stablehlo.broadcast_in_dim %149, dims = [0, 2, 3] : (tensor<4x64x128xi1>) -> tensor<4x1x64x128xi1>
    %155 = stablehlo.broadcast_in_dim %154, dims = [0, 1, 2, 3] : (tensor<4x1x64x128xi1>) -> tensor<4x2x64x128xi1>
    %cst_53 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<4x2x64x128xf32>
    %157 = stablehlo.select %155, %153, %156 : tensor<4x2x64x128xi1>, tensor<4x2x64x128xf32>
    %cst_54 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %158 = stablehlo.reduce(%157 init: %cst_54) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %159 = stablehlo.broadcast_in_dim %158, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %160 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x128xf32>
    %161 = stablehlo.subtract %157, %160 : tensor<4x2x64x128xf32>
    %162 = stablehlo.exponential %161 : tensor<4x2x64x128xf32>
    %163 = stablehlo.dot_general %162, %152, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x128xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x24xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %164 = stablehlo.reduce(%162 init: %cst_55) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %165 = stablehlo.broadcast_in_dim %164, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
    %167 = stablehlo.divide %163, %166 : tensor<4x2x64x24xf32>
    %168 = stablehlo.slice %arg11 [0:4, 128:192] : (tensor<4x312xi32>) -> tensor<4x64xi32>
    %169 = stablehlo.slice %arg11 [0:4, 0:192] : (tensor<4x312xi32>) -> tensor<4x192xi32>
    %170 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
    %171 = stablehlo.broadcast_in_dim %169, dims = [0, 2] : (tensor<4x192xi32>) -> tensor<4x1x192xi32>
    %172 = stablehlo.broadcast_in_dim %170, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x192xi32>
    %173 = stablehlo.broadcast_in_dim %171, dims = [0, 1, 2] : (tensor<4x1x192xi32>) -> tensor<4x64x192xi32>
    %174 = stablehlo.compare EQ, %172, %173, SIGNED : (tensor<4x64x192xi32>, tensor<4x64x192xi32>) -> tensor<4x64x192xi1>
    %c_56 = stablehlo.constant dense<true> : tensor<i1>
    %175 = stablehlo.broadcast_in_dim %c_56, dims = [] : (tensor<i1>) -> tensor<64x192xi1>
    %176 = call @tril_13(%175) : (tensor<64x192xi1>) -> tensor<64x192xi1>
    %177 = stablehlo.broadcast_in_dim %176, dims = [1, 2] : (tensor<64x192xi1>) -> tensor<1x64x192xi1>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2] : (tensor<1x64x192xi1>) -> tensor<4x64x192xi1>
    %179 = stablehlo.and %174, %178 : tensor<4x64x192xi1>
    %180 = stablehlo.slice %105 [0:4, 0:2, 128:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
    %181 = stablehlo.slice %106 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
    %182 = stablehlo.slice %107 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
    %183 = stablehlo.dot_general %180, %181, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x192xf32>
    %184 = stablehlo.broadcast_in_dim %179, dims = [0, 2, 3] : (tensor<4x64x192xi1>) -> tensor<4x1x64x192xi1>
    %185 = stablehlo.broadcast_in_dim %184, dims = [0, 1, 2, 3] : (tensor<4x1x64x192xi1>) -> tensor<4x2x64x192xi1>
    %cst_57 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<4x2x64x192xf32>
    %187 = stablehlo.select %185, %183, %186 : tensor<4x2x64x192xi1>, tensor<4x2x64x192xf32>
    %cst_58 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %188 = stablehlo.reduce(%187 init: %cst_58) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %189 = stablehlo.broadcast_in_dim %188, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x192xf32>
    %191 = stablehlo.subtract %187, %190 : tensor<4x2x64x192xf32>
    %192 = stablehlo.exponential %191 : tensor<4x2x64x192xf32>
    %193 = stablehlo.dot_general %192, %182, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x192xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x24xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %194 = stablehlo.reduce(%192 init: %cst_59) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %195 = stablehlo.broadcast_in_dim %194, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %196 = stablehlo.broadcast_in_dim %195, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
    %197 = stablehlo.divide %193, %196 : tensor<4x2x64x24xf32>
    %198 = stablehlo.slice %arg11 [0:4, 192:256] : (tensor<4x312xi32>) -> tensor<4x64xi32>
    %199 = stablehlo.slice %arg11 [0:4, 0:256] : (tensor<4x312xi32>) -> tensor<4x256xi32>
    %200 = stablehlo.broadcast_in_dim %198, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
    %201 = stablehlo.broadcast_in_dim %199, dims = [0, 2] : (tensor<4x256xi32>) -> tensor<4x1x256xi32>
    %202 = stablehlo.broadcast_in_dim %200, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x256xi32>
    %203 = stablehlo.broadcast_in_dim %201, dims = [0, 1, 2] : (tensor<4x1x256xi32>) -> tensor<4x64x256xi32>
    %204 = stablehlo.compare EQ, %202, %203, SIGNED : (tensor<4x64x256xi32>, tensor<4x64x256xi32>) -> tensor<4x64x256xi1>
    %c_60 = stablehlo.constant dense<true> : tensor<i1>
    %205 = stablehlo.broadcast_in_dim %c_60, dims = [] : (tensor<i1>) -> tensor<64x256xi1>
    %206 = call @tril_14(%205) : (tensor<64x256xi1>) -> tensor<64x256xi1>
    %207 = stablehlo.broadcast_in_dim %206, dims = [1, 2] : (tensor<64x256xi1>) -> tensor<1x64x256xi1>
    %208 = stablehlo.broadcast_in_dim %207, dims = [0, 1, 2] : (tensor<1x64x256xi1>) -> tensor<4x64x256xi1>
    %209 = stablehlo.and %204, %208 : tensor<4x64x256xi1>
    %210 = stablehlo.slice %105 [0:4, 0:2, 192:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
    %211 = stablehlo.slice %106 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
    %212 = stablehlo.slice %107 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
    %213 = stablehlo.dot_general %210, %211, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x256xf32>
    %214 = stablehlo.broadcast_in_dim %209, dims = [0, 2, 3] : (tensor<4x64x256xi1>) -> tensor<4x1x64x256xi1>
    %215 = stablehlo.broadcast_in_dim %214, dims = [0, 1, 2, 3] : (tensor<4x1x64x256xi1>) -> tensor<4x2x64x256xi1>
    %cst_61 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<4x2x64x256xf32>
    %217 = stablehlo.select %215, %213, %216 : tensor<4x2x64x256xi1>, tensor<4x2x64x256xf32>
    %cst_62 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %218 = stablehlo.reduce(%217 init: %cst_62) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %219 = stablehlo.broadcast_in_dim %218, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %220 = stablehlo.broadcast_in_dim %219, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x256xf32>
    %221 = stablehlo.subtract %217, %220 : tensor<4x2x64x256xf32>
    %222 = stablehlo.exponential %221 : tensor<4x2x64x256xf32>
    %223 = stablehlo.dot_general %222, %212, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x256xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x24xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%222 init: %cst_63) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
    %225 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
    %226 = stablehlo.broadcast_in_dim %225, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
    %227 = stablehlo.divide %223, %226 : tensor<4x2x64x24xf32>
    %228 = stablehlo.slice %arg11 [0:4, 256:312] : (tensor<4x312xi32>) -> tensor<4x56xi32>
    %229 = stablehlo.broadcast_in_dim %228, dims = [0, 1] : (tensor<4x56xi32>) -> tensor<4x56x1xi32>
    %230 = stablehlo.broadcast_in_dim %arg11, dims = [0, 2] : (tensor<4x312xi32>) -> tensor<4x1x312xi32>
    %231 = stablehlo.broadcast_in_dim %229, dims = [0, 1, 2] : (tensor<4x56x1xi32>) -> tensor<4x56x312xi32>
    %232 = stablehlo.broadcast_in_dim %230, dims = [0, 1, 2] : (tensor<4x1x312xi32>) -> tensor<4x56x312xi32>
    %233 = stablehlo.compare EQ, %231, %232, SIGNED : (tensor<4x56x312xi32>, tensor<4x56x312xi32>) -> tensor<4x56x312xi1>
    %c_64 = stablehlo.constant dense<true> : tensor<i1>
    %234 = stablehlo.broadcast_in_dim %c_64, dims = [] : (tensor<i1>) -> tensor<56x312xi1>
    %235 = call @tril_15(%234) : (tensor<56x312xi1>) -> tensor<56x312xi1>
    %236 = stablehlo.broadcast_in_dim %235, dims = [1, 2] : (tensor<56x312xi1>) -> tensor<1x56x312xi1>
    %237 = stablehlo.broadcast_in_dim %236, dims = [0, 1, 2] : (tensor<1x56x312xi1>) -> tensor<4x56x312xi1>
    %238 = stablehlo.and %233, %237 : tensor<4x56x312xi1>
    %239 = stablehlo.slice %105 [0:4, 0:2, 256:312, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
    %240 = stablehlo.dot_general %239, %106, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x24xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x312xf32>
    %241 = stablehlo.broadcast_in_dim %238, dims = [0, 2, 3] : (tensor<4x56x312xi1>) -> tensor<4x1x56x312xi1>
    %242 = stablehlo.broadcast_in_dim %241, dims = [0, 1, 2, 3] : (tensor<4x1x56x312xi1>) -> tensor<4x2x56x312xi1>
    %cst_65 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<4x2x56x312xf32>
    %244 = stablehlo.select %242, %240, %243 : tensor<4x2x56x312xi1>, tensor<4x2x56x312xf32>
    %cst_66 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %245 = stablehlo.reduce(%244 init: %cst_66) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
    %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
    %247 = stablehlo.broadcast_in_dim %246, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x312xf32>
    %248 = stablehlo.subtract %244, %247 : tensor<4x2x56x312xf32>
    %249 = stablehlo.exponential %248 : tensor<4x2x56x312xf32>
    %250 = stablehlo.dot_general %249, %107, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x312xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %251 = stablehlo.reduce(%249 init: %cst_67) applies stablehlo.add across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
    %252 = stablehlo.broadcast_in_dim %251, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
    %253 = stablehlo.broadcast_in_dim %252, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x24xf32>
    %254 = stablehlo.divide %250, %253 : tensor<4x2x56x24xf32>
    %255 = stablehlo.concatenate %137, %167, %197, %227, %254, dim = 2 : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x56x24xf32>) -> tensor<4x2x312x24xf32>
    %256 = stablehlo.transpose %255, dims = [0, 2, 1, 3] : (tensor<4x2x312x24xf32>) -> tensor<4x312x2x24xf32>
    %257 = stablehlo.reshape %256 : (tensor<4x312x2x24xf32>) -> tensor<1248x48xf32>
    %258 = stablehlo.reshape %33 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
    %259 = stablehlo.dot_general %257, %258, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x48xf32>, tensor<48x96xf32>) -> tensor<1248x96xf32>
    %260 = stablehlo.reshape %259 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
    %261 = stablehlo.slice %260 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
    %c_68 = stablehlo.constant dense<0> : tensor<i32>
    %262 = stablehlo.compare GE, %arg12, %c_68, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %263 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %264 = call @_where_7(%262, %261, %263) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_70 = stablehlo.constant dense<0> : tensor<i32>
    %c_71 = stablehlo.constant dense<0> : tensor<i32>
    %c_72 = stablehlo.constant dense<0> : tensor<i32>
    %265 = stablehlo.dynamic_update_slice %260, %264, %c_70, %c_71, %c_72 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
    %266 = "stablehlo.reduce_scatter"(%265) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %335 = stablehlo.add %arg15, %arg16 : tensor<f32>
      stablehlo.return %335 : tensor<f32>
    }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
    %267 = stablehlo.add %arg13, %266 : tensor<4x156x96xf32>
    %268 = stablehlo.broadcast_in_dim %21, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
    %269 = chlo.square %267 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %270 = stablehlo.reduce(%269 init: %cst_73) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
    %271 = stablehlo.broadcast_in_dim %270, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
    %cst_74 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
    %272 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
    %273 = stablehlo.divide %271, %272 : tensor<4x156x1xf32>
    %cst_75 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %274 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
    %275 = stablehlo.add %273, %274 : tensor<4x156x1xf32>
    %276 = stablehlo.rsqrt %275 : tensor<4x156x1xf32>
    %277 = stablehlo.broadcast_in_dim %276, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
    %278 = stablehlo.multiply %267, %277 : tensor<4x156x96xf32>
    %279 = stablehlo.broadcast_in_dim %268, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
    %280 = stablehlo.multiply %278, %279 : tensor<4x156x96xf32>
    %281 = stablehlo.slice %280 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
    %c_76 = stablehlo.constant dense<0> : tensor<i32>
    %282 = stablehlo.compare GE, %arg12, %c_76, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %283 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %284 = call @_where_7(%282, %281, %283) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_78 = stablehlo.constant dense<0> : tensor<i32>
    %c_79 = stablehlo.constant dense<0> : tensor<i32>
    %c_80 = stablehlo.constant dense<0> : tensor<i32>
    %285 = stablehlo.dynamic_update_slice %280, %284, %c_78, %c_79, %c_80 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
    %286 = "stablehlo.all_gather"(%285) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
    %287 = stablehlo.reshape %286 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
    %288 = stablehlo.dot_general %287, %13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
    %289 = stablehlo.reshape %288 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
    %290 = stablehlo.reshape %286 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
    %291 = stablehlo.dot_general %290, %19, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
    %292 = stablehlo.reshape %291 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
    %293 = stablehlo.negate %289 : tensor<4x312x128xf32>
    %294 = stablehlo.exponential %293 : tensor<4x312x128xf32>
    %cst_81 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %295 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
    %296 = stablehlo.add %295, %294 : tensor<4x312x128xf32>
    %cst_82 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %297 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
    %298 = stablehlo.divide %297, %296 : tensor<4x312x128xf32>
    %299 = stablehlo.multiply %289, %298 : tensor<4x312x128xf32>
    %300 = stablehlo.multiply %299, %292 : tensor<4x312x128xf32>
    %301 = stablehlo.reshape %300 : (tensor<4x312x128xf32>) -> tensor<1248x128xf32>
    %302 = stablehlo.dot_general %301, %7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x128xf32>, tensor<128x96xf32>) -> tensor<1248x96xf32>
    %303 = stablehlo.reshape %302 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
    %304 = stablehlo.slice %303 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
    %c_83 = stablehlo.constant dense<0> : tensor<i32>
    %305 = stablehlo.compare GE, %arg12, %c_83, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %306 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %307 = call @_where_7(%305, %304, %306) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %c_85 = stablehlo.constant dense<0> : tensor<i32>
    %c_86 = stablehlo.constant dense<0> : tensor<i32>
    %c_87 = stablehlo.constant dense<0> : tensor<i32>
    %308 = stablehlo.dynamic_update_slice %303, %307, %c_85, %c_86, %c_87 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
    %309 = "stablehlo.reduce_scatter"(%308) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %335 = stablehlo.add %arg15, %arg16 : tensor<f32>
      stablehlo.return %335 : tensor<f32>
    }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
    %310 = stablehlo.add %267, %309 : tensor<4x156x96xf32>
    %311 = stablehlo.slice %64 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
    %312 = stablehlo.reshape %311 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_88 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %313 = stablehlo.compare NE, %312, %cst_88, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %314 = stablehlo.convert %313 : (tensor<i1>) -> tensor<i32>
    %c_89 = stablehlo.constant dense<1> : tensor<i32>
    %315 = stablehlo.or %314, %c_89 : tensor<i32>
    %316 = stablehlo.and %arg12, %315 : tensor<i32>
    %317 = stablehlo.slice %266 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
    %318 = stablehlo.reshape %317 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %319 = stablehlo.compare NE, %318, %cst_90, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %320 = stablehlo.convert %319 : (tensor<i1>) -> tensor<i32>
    %c_91 = stablehlo.constant dense<1> : tensor<i32>
    %321 = stablehlo.or %320, %c_91 : tensor<i32>
    %322 = stablehlo.and %316, %321 : tensor<i32>
    %323 = stablehlo.slice %286 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
    %324 = stablehlo.reshape %323 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %325 = stablehlo.compare NE, %324, %cst_92, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %326 = stablehlo.convert %325 : (tensor<i1>) -> tensor<i32>
    %c_93 = stablehlo.constant dense<1> : tensor<i32>
    %327 = stablehlo.or %326, %c_93 : tensor<i32>
    %328 = stablehlo.and %322, %327 : tensor<i32>
    %329 = stablehlo.slice %309 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
    %330 = stablehlo.reshape %329 : (tensor<1x1x1xf32>) -> tensor<f32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %331 = stablehlo.compare NE, %330, %cst_94, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %332 = stablehlo.convert %331 : (tensor<i1>) -> tensor<i32>
    %c_95 = stablehlo.constant dense<1> : tensor<i32>
    %333 = stablehlo.or %332, %c_95 : tensor<i32>
    %334 = stablehlo.and %328, %333 : tensor<i32>
    return %334, %310 : tensor<i32>, tensor<4x156x96xf32>
  }
  func.func private @dynamic_index_in_dim_11(%arg0: tensor<3x96xf32>, %arg1: tensor<i32>) -> tensor<96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %2, %c_1, sizes = [1, 96] : (tensor<3x96xf32>, tensor<i32>, tensor<i32>) -> tensor<1x96xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x96xf32>) -> tensor<96xf32>
    return %4 : tensor<96xf32>
  }
  func.func private @tril(%arg0: tensor<64x64xi1>) -> tensor<64x64xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x64xi32>
    %2 = stablehlo.add %0, %1 : tensor<64x64xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<64x64xi1>, tensor<64x64xi1>
    return %6 : tensor<64x64xi1>
  }
  func.func private @tril_12(%arg0: tensor<64x128xi1>) -> tensor<64x128xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<64x128xi32>
    %c = stablehlo.constant dense<64> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x128xi32>
    %2 = stablehlo.add %0, %1 : tensor<64x128xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x128xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<64x128xi32>, tensor<64x128xi32>) -> tensor<64x128xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<64x128xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<64x128xi1>, tensor<64x128xi1>
    return %6 : tensor<64x128xi1>
  }
  func.func private @tril_13(%arg0: tensor<64x192xi1>) -> tensor<64x192xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<64x192xi32>
    %c = stablehlo.constant dense<128> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x192xi32>
    %2 = stablehlo.add %0, %1 : tensor<64x192xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x192xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<64x192xi32>, tensor<64x192xi32>) -> tensor<64x192xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<64x192xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<64x192xi1>, tensor<64x192xi1>
    return %6 : tensor<64x192xi1>
  }
  func.func private @tril_14(%arg0: tensor<64x256xi1>) -> tensor<64x256xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<64x256xi32>
    %c = stablehlo.constant dense<192> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x256xi32>
    %2 = stablehlo.add %0, %1 : tensor<64x256xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x256xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<64x256xi32>, tensor<64x256xi32>) -> tensor<64x256xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<64x256xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<64x256xi1>, tensor<64x256xi1>
    return %6 : tensor<64x256xi1>
  }
  func.func private @tril_15(%arg0: tensor<56x312xi1>) -> tensor<56x312xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<56x312xi32>
    %c = stablehlo.constant dense<256> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<56x312xi32>
    %2 = stablehlo.add %0, %1 : tensor<56x312xi32>
    %3 = stablehlo.iota dim = 1 : tensor<56x312xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<56x312xi32>, tensor<56x312xi32>) -> tensor<56x312xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<56x312xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<56x312xi1>, tensor<56x312xi1>
    return %6 : tensor<56x312xi1>
  }
  func.func private @_pad(%arg0: tensor<1248xi32>, %arg1: tensor<i32>) -> tensor<2048xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.pad %arg0, %0, low = [0], high = [800], interior = [0] : (tensor<1248xi32>, tensor<i32>) -> tensor<2048xi32>
    return %1 : tensor<2048xi32>
  }
  func.func private @_where_16(%arg0: tensor<i1>, %arg1: tensor<1xf32>, %arg2: tensor<1xf32>) -> tensor<1xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
