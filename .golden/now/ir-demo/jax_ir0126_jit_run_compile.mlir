module @jit_run attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "tensor"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "tensor", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg1: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg2: tensor<256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg3: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg4: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg5: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg7: tensor<4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}, {}]>}, %arg8: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg9: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg10: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg11: tensor<256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg12: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg13: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg14: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg15: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg16: tensor<4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}, {}]>}, %arg17: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg18: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg19: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg20: tensor<256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg21: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg22: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg23: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg24: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg25: tensor<4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}, {}]>}, %arg26: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg27: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg28: tensor<96x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg29: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg30: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg31: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg32: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg33: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg34: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg35: tensor<3x40x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg36: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg37: tensor<3x96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg38: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg39: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg40: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg41: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg42: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg43: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg44: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg45: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg46: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg47: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg48: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg49: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg50: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg51: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg52: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg53: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg54: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg55: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg56: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg57: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg58: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg59: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg60: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg61: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg62: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg63: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg64: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg65: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg66: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg67: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg68: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg69: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg70: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg71: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg72: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg73: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg74: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg75: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg76: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg77: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg78: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg79: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg80: tensor<1x8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg81: tensor<1x8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg82: tensor<1x8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg83: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg84: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg85: tensor<1x8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg86: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg87: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg88: tensor<1x8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg89: tensor<1x8x312xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg90: tensor<1x8x640x40xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}, {}]>}, %arg91: tensor<1x8x640xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg92: tensor<1x8x640xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %arg93: tensor<1x8x144x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}, {}]>}, %arg94: tensor<1x8x144x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}, {}]>}, %arg95: tensor<1x8x144xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}]>}, %arg96: tensor<1x8x144x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "tensor"}, {}, {}]>}) -> (tensor<8x4x636x24xf32> {jax.result_info = "result.cache.layers[0][0]"}, tensor<8x4x636x24xf32> {jax.result_info = "result.cache.layers[0][1]"}, tensor<8x4x636x24xf32> {jax.result_info = "result.cache.layers[1][0]"}, tensor<8x4x636x24xf32> {jax.result_info = "result.cache.layers[1][1]"}, tensor<8x4x636x24xf32> {jax.result_info = "result.cache.layers[2][0]"}, tensor<8x4x636x24xf32> {jax.result_info = "result.cache.layers[2][1]"}, tensor<8x636xi32> {jax.result_info = "result.cache.ids"}, tensor<8x636xi32> {jax.result_info = "result.cache.positions"}, tensor<8x18xi32> {jax.result_info = "result.token"}, tensor<8x18x18xi32> {jax.result_info = "result.written"}, tensor<8x18xi32> {jax.result_info = "result.made"}, tensor<8x18xi1> {jax.result_info = "result.alive"}, tensor<i32> {jax.result_info = "result.left"}, tensor<8x18xi32> {jax.result_info = "result.segments"}, tensor<8x18xi32> {jax.result_info = "result.lengths"}, tensor<8x18xi32> {jax.result_info = "result.limits"}, tensor<8x18xi32> {jax.result_info = "result.numbers"}) {
    %c = stablehlo.constant dense<45> : tensor<1xi32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %1:17 = sdy.manual_computation(%0, %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %arg36, %arg37, %arg38, %arg39, %arg40, %arg41, %arg42, %arg43, %arg44, %arg45, %arg46, %arg47, %arg48, %arg49, %arg50, %arg51, %arg52, %arg53, %arg54, %arg55, %arg56, %arg57, %arg58, %arg59, %arg60, %arg61, %arg62, %arg63, %arg64, %arg65, %arg66, %arg67, %arg68, %arg69, %arg70, %arg71, %arg72, %arg73, %arg74, %arg75, %arg76, %arg77, %arg78, %arg79, %arg80, %arg81, %arg82, %arg83, %arg84, %arg85, %arg86, %arg87, %arg88, %arg89, %arg90, %arg91, %arg92, %arg93, %arg94, %arg95, %arg96) in_shardings=[<@mesh, [{}, {}, {}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{"tensor"}]>, <@mesh, [{}, {}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {}, {"tensor"}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {}, {"tensor"}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}]>, <@mesh, [{}]>, <@mesh, [{}]>, <@mesh, [{}, {}]>, <@mesh, [{}]>, <@mesh, [{}, {}]>, <@mesh, [{}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}, {}, {}]>, <@mesh, [{}, {}, {}, {}]>, <@mesh, [{}]>, <@mesh, [{}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data"}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}]>, <@mesh, [{}, {"data", "tensor"}, {}, {}]>] out_shardings=[<@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, []>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>] manual_axes={"data", "tensor"} (%arg97: tensor<1x1x1xi32>, %arg98: tensor<32x96xf32>, %arg99: tensor<96xf32>, %arg100: tensor<128x96xf32>, %arg101: tensor<96x128xf32>, %arg102: tensor<96x128xf32>, %arg103: tensor<96xf32>, %arg104: tensor<96x2x24xf32>, %arg105: tensor<2x24x96xf32>, %arg106: tensor<96x2x24xf32>, %arg107: tensor<96x2x24xf32>, %arg108: tensor<96xf32>, %arg109: tensor<128x96xf32>, %arg110: tensor<96x128xf32>, %arg111: tensor<96x128xf32>, %arg112: tensor<96xf32>, %arg113: tensor<96x2x24xf32>, %arg114: tensor<2x24x96xf32>, %arg115: tensor<96x2x24xf32>, %arg116: tensor<96x2x24xf32>, %arg117: tensor<96xf32>, %arg118: tensor<128x96xf32>, %arg119: tensor<96x128xf32>, %arg120: tensor<96x128xf32>, %arg121: tensor<96xf32>, %arg122: tensor<96x2x24xf32>, %arg123: tensor<2x24x96xf32>, %arg124: tensor<96x2x24xf32>, %arg125: tensor<96x2x24xf32>, %arg126: tensor<96x32xf32>, %arg127: tensor<96xf32>, %arg128: tensor<48xf32>, %arg129: tensor<192x48xf32>, %arg130: tensor<96xf32>, %arg131: tensor<48x96xf32>, %arg132: tensor<48xf32>, %arg133: tensor<3x40x48xf32>, %arg134: tensor<96xf32>, %arg135: tensor<3x48x96xf32>, %arg136: tensor<2x96xf32>, %arg137: tensor<2x96xf32>, %arg138: tensor<2x128xf32>, %arg139: tensor<2x96x128xf32>, %arg140: tensor<2x96xf32>, %arg141: tensor<2x128x96xf32>, %arg142: tensor<2x96x2x24xf32>, %arg143: tensor<2x96xf32>, %arg144: tensor<2x2x24x96xf32>, %arg145: tensor<2x2x24xf32>, %arg146: tensor<2x96x2x24xf32>, %arg147: tensor<2x2x24xf32>, %arg148: tensor<2x96x2x24xf32>, %arg149: tensor<2x96xf32>, %arg150: tensor<2x96xf32>, %arg151: tensor<96xf32>, %arg152: tensor<96xf32>, %arg153: tensor<96xf32>, %arg154: tensor<192x96xf32>, %arg155: tensor<96xf32>, %arg156: tensor<96x96xf32>, %arg157: tensor<96xf32>, %arg158: tensor<64x96xf32>, %arg159: tensor<64x96xf32>, %arg160: tensor<2x96xf32>, %arg161: tensor<2x96xf32>, %arg162: tensor<2x96xf32>, %arg163: tensor<2x96xf32>, %arg164: tensor<2x256xf32>, %arg165: tensor<2x96x256xf32>, %arg166: tensor<2x96xf32>, %arg167: tensor<2x256x96xf32>, %arg168: tensor<2x4x24xf32>, %arg169: tensor<2x96x4x24xf32>, %arg170: tensor<2x96xf32>, %arg171: tensor<2x4x24x96xf32>, %arg172: tensor<2x4x24xf32>, %arg173: tensor<2x96x4x24xf32>, %arg174: tensor<2x4x24xf32>, %arg175: tensor<2x96x4x24xf32>, %arg176: tensor<96xf32>, %arg177: tensor<96xf32>, %arg178: tensor<1x4x18xi32>, %arg179: tensor<1x4x18xi32>, %arg180: tensor<1x4x18xi32>, %arg181: tensor<1x4x312xi32>, %arg182: tensor<1x4x312xi32>, %arg183: tensor<1x4x18xi32>, %arg184: tensor<1x4x312xi32>, %arg185: tensor<1x4x312xi32>, %arg186: tensor<1x4x18xi32>, %arg187: tensor<1x4x312xi32>, %arg188: tensor<1x4x640x40xf32>, %arg189: tensor<1x4x640xi32>, %arg190: tensor<1x4x640xi32>, %arg191: tensor<1x2x144x64xf32>, %arg192: tensor<1x2x144x2xi32>, %arg193: tensor<1x2x144xi32>, %arg194: tensor<1x2x144x2xi32>) {
      %2 = stablehlo.reshape %arg178 : (tensor<1x4x18xi32>) -> tensor<4x18xi32>
      %3 = stablehlo.reshape %arg179 : (tensor<1x4x18xi32>) -> tensor<4x18xi32>
      %4 = stablehlo.reshape %arg180 : (tensor<1x4x18xi32>) -> tensor<4x18xi32>
      %5 = stablehlo.reshape %arg181 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %6 = stablehlo.reshape %arg182 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %7 = stablehlo.reshape %arg183 : (tensor<1x4x18xi32>) -> tensor<4x18xi32>
      %8 = stablehlo.reshape %arg184 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %9 = stablehlo.reshape %arg185 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %10 = stablehlo.reshape %arg186 : (tensor<1x4x18xi32>) -> tensor<4x18xi32>
      %11 = stablehlo.reshape %arg187 : (tensor<1x4x312xi32>) -> tensor<4x312xi32>
      %12 = stablehlo.reshape %arg188 : (tensor<1x4x640x40xf32>) -> tensor<4x640x40xf32>
      %13 = stablehlo.reshape %arg189 : (tensor<1x4x640xi32>) -> tensor<4x640xi32>
      %14 = stablehlo.reshape %arg190 : (tensor<1x4x640xi32>) -> tensor<4x640xi32>
      %15 = stablehlo.reshape %arg191 : (tensor<1x2x144x64xf32>) -> tensor<2x144x64xf32>
      %16 = stablehlo.reshape %arg192 : (tensor<1x2x144x2xi32>) -> tensor<2x144x2xi32>
      %17 = stablehlo.reshape %arg193 : (tensor<1x2x144xi32>) -> tensor<2x144xi32>
      %18 = stablehlo.reshape %arg194 : (tensor<1x2x144x2xi32>) -> tensor<2x144x2xi32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %19 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x2x636x24xf32>
      %c_0 = stablehlo.constant dense<0> : tensor<i32>
      %20 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x636xi32>
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      %c_2 = stablehlo.constant dense<0> : tensor<i32>
      %21 = stablehlo.compare LT, %c_1, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_3 = stablehlo.constant dense<0> : tensor<i32>
      %c_4 = stablehlo.constant dense<636> : tensor<i32>
      %22 = stablehlo.add %c_3, %c_4 : tensor<i32>
      %c_5 = stablehlo.constant dense<0> : tensor<i32>
      %23 = stablehlo.select %21, %22, %c_5 : tensor<i1>, tensor<i32>
      %c_6 = stablehlo.constant dense<0> : tensor<i32>
      %24 = stablehlo.dynamic_update_slice %20, %9, %c_6, %23 : (tensor<4x636xi32>, tensor<4x312xi32>, tensor<i32>, tensor<i32>) -> tensor<4x636xi32>
      %c_7 = stablehlo.constant dense<0> : tensor<i32>
      %c_8 = stablehlo.constant dense<0> : tensor<i32>
      %25 = stablehlo.compare LT, %c_7, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_9 = stablehlo.constant dense<0> : tensor<i32>
      %c_10 = stablehlo.constant dense<636> : tensor<i32>
      %26 = stablehlo.add %c_9, %c_10 : tensor<i32>
      %c_11 = stablehlo.constant dense<0> : tensor<i32>
      %27 = stablehlo.select %25, %26, %c_11 : tensor<i1>, tensor<i32>
      %c_12 = stablehlo.constant dense<0> : tensor<i32>
      %28 = stablehlo.dynamic_update_slice %20, %8, %c_12, %27 : (tensor<4x636xi32>, tensor<4x312xi32>, tensor<i32>, tensor<i32>) -> tensor<4x636xi32>
      %c_13 = stablehlo.constant dense<0> : tensor<i32>
      %29 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
      %30 = stablehlo.compare NE, %17, %29, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
      %31 = stablehlo.convert %30 : (tensor<2x144xi1>) -> tensor<2x144xi32>
      %c_14 = stablehlo.constant dense<0> : tensor<i32>
      %32 = stablehlo.reduce(%31 init: %c_14) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x144xi32>, tensor<i32>) -> tensor<i32>
      %c_15 = stablehlo.constant dense<0> : tensor<i32>
      %33 = stablehlo.compare GT, %32, %c_15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %34 = stablehlo.convert %33 : (tensor<i1>) -> tensor<i32>
      %c_16 = stablehlo.constant dense<0> : tensor<i32>
      %c_17 = stablehlo.constant dense<1> : tensor<i32>
      %35 = stablehlo.clamp %c_16, %34, %c_17 : tensor<i32>
      %36 = "stablehlo.case"(%35) ({
        %cst_323 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1143 = stablehlo.broadcast_in_dim %cst_323, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        stablehlo.return %1143 : tensor<2x72x96xf32>
      }, {
        %1143 = stablehlo.reshape %15 : (tensor<2x144x64xf32>) -> tensor<288x64xf32>
        %1144 = stablehlo.dot_general %1143, %arg158, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<288x64xf32>, tensor<64x96xf32>) -> tensor<288x96xf32>
        %1145 = stablehlo.reshape %1144 : (tensor<288x96xf32>) -> tensor<2x144x96xf32>
        %1146 = stablehlo.broadcast_in_dim %arg157, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1147 = stablehlo.broadcast_in_dim %1146, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
        %1148 = stablehlo.add %1145, %1147 : tensor<2x144x96xf32>
        %1149 = stablehlo.slice %16 [0:2, 0:144, 0:1] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %1150 = stablehlo.reshape %1149 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %1151 = stablehlo.slice %18 [0:2, 0:144, 0:1] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %1152 = stablehlo.reshape %1151 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %1153 = stablehlo.convert %1150 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %c_323 = stablehlo.constant dense<1> : tensor<i32>
        %1154 = stablehlo.broadcast_in_dim %c_323, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %1155 = stablehlo.maximum %1152, %1154 : tensor<2x144xi32>
        %1156 = stablehlo.convert %1155 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %cst_324 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
        %1157 = stablehlo.broadcast_in_dim %cst_324, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1158 = stablehlo.divide %1157, %1156 : tensor<2x144xf32>
        %c_325 = stablehlo.constant dense<2> : tensor<i32>
        %1159 = stablehlo.broadcast_in_dim %c_325, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %1160 = stablehlo.compare EQ, %1152, %1159, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
        %cst_326 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1161 = stablehlo.broadcast_in_dim %cst_326, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1162 = stablehlo.add %1153, %1161 : tensor<2x144xf32>
        %1163 = stablehlo.multiply %1162, %1158 : tensor<2x144xf32>
        %cst_327 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1164 = stablehlo.broadcast_in_dim %cst_327, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1165 = stablehlo.subtract %1163, %1164 : tensor<2x144xf32>
        %1166 = stablehlo.select %1160, %1153, %1165 : tensor<2x144xi1>, tensor<2x144xf32>
        %1167 = stablehlo.broadcast_in_dim %1166, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %1168 = stablehlo.iota dim = 0 : tensor<2xf32>
        %1169 = stablehlo.broadcast_in_dim %1168, dims = [2] : (tensor<2xf32>) -> tensor<1x1x2xf32>
        %1170 = stablehlo.broadcast_in_dim %1167, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x2xf32>
        %1171 = stablehlo.broadcast_in_dim %1169, dims = [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<2x144x2xf32>
        %1172 = stablehlo.subtract %1170, %1171 : tensor<2x144x2xf32>
        %1173 = stablehlo.abs %1172 : tensor<2x144x2xf32>
        %cst_328 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1174 = stablehlo.broadcast_in_dim %cst_328, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1175 = stablehlo.broadcast_in_dim %1174, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %1176 = stablehlo.broadcast_in_dim %1175, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x2xf32>
        %1177 = stablehlo.divide %1173, %1176 : tensor<2x144x2xf32>
        %cst_329 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1178 = stablehlo.broadcast_in_dim %cst_329, dims = [] : (tensor<f32>) -> tensor<2x144x2xf32>
        %1179 = stablehlo.subtract %1178, %1177 : tensor<2x144x2xf32>
        %cst_330 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1180 = stablehlo.broadcast_in_dim %cst_330, dims = [] : (tensor<f32>) -> tensor<2x144x2xf32>
        %1181 = stablehlo.maximum %1180, %1179 : tensor<2x144x2xf32>
        %cst_331 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1182 = stablehlo.reduce(%1181 init: %cst_331) applies stablehlo.add across dimensions = [2] : (tensor<2x144x2xf32>, tensor<f32>) -> tensor<2x144xf32>
        %1183 = stablehlo.broadcast_in_dim %1182, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_332 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
        %1184 = stablehlo.broadcast_in_dim %cst_332, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %1185 = stablehlo.maximum %1183, %1184 : tensor<2x144x1xf32>
        %1186 = stablehlo.broadcast_in_dim %1185, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x2xf32>
        %1187 = stablehlo.divide %1181, %1186 : tensor<2x144x2xf32>
        %1188 = stablehlo.slice %16 [0:2, 0:144, 1:2] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %1189 = stablehlo.reshape %1188 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %1190 = stablehlo.slice %18 [0:2, 0:144, 1:2] : (tensor<2x144x2xi32>) -> tensor<2x144x1xi32>
        %1191 = stablehlo.reshape %1190 : (tensor<2x144x1xi32>) -> tensor<2x144xi32>
        %1192 = stablehlo.convert %1189 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %c_333 = stablehlo.constant dense<1> : tensor<i32>
        %1193 = stablehlo.broadcast_in_dim %c_333, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %1194 = stablehlo.maximum %1191, %1193 : tensor<2x144xi32>
        %1195 = stablehlo.convert %1194 : (tensor<2x144xi32>) -> tensor<2x144xf32>
        %cst_334 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
        %1196 = stablehlo.broadcast_in_dim %cst_334, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1197 = stablehlo.divide %1196, %1195 : tensor<2x144xf32>
        %c_335 = stablehlo.constant dense<32> : tensor<i32>
        %1198 = stablehlo.broadcast_in_dim %c_335, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %1199 = stablehlo.compare EQ, %1191, %1198, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
        %cst_336 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1200 = stablehlo.broadcast_in_dim %cst_336, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1201 = stablehlo.add %1192, %1200 : tensor<2x144xf32>
        %1202 = stablehlo.multiply %1201, %1197 : tensor<2x144xf32>
        %cst_337 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1203 = stablehlo.broadcast_in_dim %cst_337, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1204 = stablehlo.subtract %1202, %1203 : tensor<2x144xf32>
        %1205 = stablehlo.select %1199, %1192, %1204 : tensor<2x144xi1>, tensor<2x144xf32>
        %1206 = stablehlo.broadcast_in_dim %1205, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %1207 = stablehlo.iota dim = 0 : tensor<32xf32>
        %1208 = stablehlo.broadcast_in_dim %1207, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
        %1209 = stablehlo.broadcast_in_dim %1206, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x32xf32>
        %1210 = stablehlo.broadcast_in_dim %1208, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x144x32xf32>
        %1211 = stablehlo.subtract %1209, %1210 : tensor<2x144x32xf32>
        %1212 = stablehlo.abs %1211 : tensor<2x144x32xf32>
        %cst_338 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1213 = stablehlo.broadcast_in_dim %cst_338, dims = [] : (tensor<f32>) -> tensor<2x144xf32>
        %1214 = stablehlo.broadcast_in_dim %1213, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %1215 = stablehlo.broadcast_in_dim %1214, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x32xf32>
        %1216 = stablehlo.divide %1212, %1215 : tensor<2x144x32xf32>
        %cst_339 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1217 = stablehlo.broadcast_in_dim %cst_339, dims = [] : (tensor<f32>) -> tensor<2x144x32xf32>
        %1218 = stablehlo.subtract %1217, %1216 : tensor<2x144x32xf32>
        %cst_340 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1219 = stablehlo.broadcast_in_dim %cst_340, dims = [] : (tensor<f32>) -> tensor<2x144x32xf32>
        %1220 = stablehlo.maximum %1219, %1218 : tensor<2x144x32xf32>
        %cst_341 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1221 = stablehlo.reduce(%1220 init: %cst_341) applies stablehlo.add across dimensions = [2] : (tensor<2x144x32xf32>, tensor<f32>) -> tensor<2x144xf32>
        %1222 = stablehlo.broadcast_in_dim %1221, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_342 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
        %1223 = stablehlo.broadcast_in_dim %cst_342, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %1224 = stablehlo.maximum %1222, %1223 : tensor<2x144x1xf32>
        %1225 = stablehlo.broadcast_in_dim %1224, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x32xf32>
        %1226 = stablehlo.divide %1220, %1225 : tensor<2x144x32xf32>
        %1227 = stablehlo.broadcast_in_dim %1187, dims = [0, 1, 2] : (tensor<2x144x2xf32>) -> tensor<2x144x2x1xf32>
        %1228 = stablehlo.broadcast_in_dim %1226, dims = [0, 1, 3] : (tensor<2x144x32xf32>) -> tensor<2x144x1x32xf32>
        %1229 = stablehlo.broadcast_in_dim %1227, dims = [0, 1, 2, 3] : (tensor<2x144x2x1xf32>) -> tensor<2x144x2x32xf32>
        %1230 = stablehlo.broadcast_in_dim %1228, dims = [0, 1, 2, 3] : (tensor<2x144x1x32xf32>) -> tensor<2x144x2x32xf32>
        %1231 = stablehlo.multiply %1229, %1230 : tensor<2x144x2x32xf32>
        %1232 = stablehlo.reshape %1231 : (tensor<2x144x2x32xf32>) -> tensor<2x144x64xf32>
        %1233 = stablehlo.dot_general %1232, %arg159, contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x144x64xf32>, tensor<64x96xf32>) -> tensor<2x144x96xf32>
        %1234 = stablehlo.add %1148, %1233 : tensor<2x144x96xf32>
        %1235 = stablehlo.iota dim = 0 : tensor<2xi32>
        %c_343 = stablehlo.constant dense<1> : tensor<i32>
        %1236 = stablehlo.broadcast_in_dim %c_343, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %1237 = stablehlo.multiply %1236, %1235 : tensor<2xi32>
        %c_344 = stablehlo.constant dense<0> : tensor<i32>
        %1238 = stablehlo.broadcast_in_dim %c_344, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %1239 = stablehlo.add %1238, %1237 : tensor<2xi32>
        %c_345 = stablehlo.constant dense<0> : tensor<i32>
        %1240 = stablehlo.broadcast_in_dim %c_345, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %1241 = stablehlo.add %1240, %1239 : tensor<2xi32>
        %c_346 = stablehlo.constant dense<0> : tensor<i32>
        %1242:20 = stablehlo.while(%iterArg = %1241, %iterArg_358 = %arg160, %iterArg_359 = %arg161, %iterArg_360 = %arg162, %iterArg_361 = %arg163, %iterArg_362 = %arg164, %iterArg_363 = %arg165, %iterArg_364 = %arg166, %iterArg_365 = %arg167, %iterArg_366 = %arg168, %iterArg_367 = %arg169, %iterArg_368 = %arg170, %iterArg_369 = %arg171, %iterArg_370 = %arg172, %iterArg_371 = %arg173, %iterArg_372 = %arg174, %iterArg_373 = %arg175, %iterArg_374 = %17, %iterArg_375 = %c_346, %iterArg_376 = %1234) : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x144xi32>, tensor<i32>, tensor<2x144x96xf32>
        cond {
          %c_377 = stablehlo.constant dense<2> : tensor<i32>
          %1298 = stablehlo.compare LT, %iterArg_375, %c_377, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1298 : tensor<i1>
        } do {
          %1298 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_375) : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
          %1299 = func.call @closed_call(%iterArg_358, %iterArg_359, %iterArg_360, %iterArg_361, %iterArg_362, %iterArg_363, %iterArg_364, %iterArg_365, %iterArg_366, %iterArg_367, %iterArg_368, %iterArg_369, %iterArg_370, %iterArg_371, %iterArg_372, %iterArg_373, %iterArg_374, %iterArg_376, %1298) : (tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x144xi32>, tensor<2x144x96xf32>, tensor<i32>) -> tensor<2x144x96xf32>
          %c_377 = stablehlo.constant dense<1> : tensor<i32>
          %1300 = stablehlo.add %iterArg_375, %c_377 : tensor<i32>
          stablehlo.return %iterArg, %iterArg_358, %iterArg_359, %iterArg_360, %iterArg_361, %iterArg_362, %iterArg_363, %iterArg_364, %iterArg_365, %iterArg_366, %iterArg_367, %iterArg_368, %iterArg_369, %iterArg_370, %iterArg_371, %iterArg_372, %iterArg_373, %iterArg_374, %1300, %1299 : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x144xi32>, tensor<i32>, tensor<2x144x96xf32>
        }
        %1243 = stablehlo.slice %1242#19 [0:2, 0:144, 0:96] : (tensor<2x144x96xf32>) -> tensor<2x144x96xf32>
        %c_347 = stablehlo.constant dense<0> : tensor<i32>
        %1244 = stablehlo.broadcast_in_dim %c_347, dims = [] : (tensor<i32>) -> tensor<2x144xi32>
        %1245 = stablehlo.compare GT, %17, %1244, SIGNED : (tensor<2x144xi32>, tensor<2x144xi32>) -> tensor<2x144xi1>
        %1246 = stablehlo.broadcast_in_dim %1245, dims = [0, 1] : (tensor<2x144xi1>) -> tensor<2x144x1xi1>
        %1247 = stablehlo.broadcast_in_dim %arg177, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1248 = stablehlo.broadcast_in_dim %arg176, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %cst_348 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1249 = stablehlo.reduce(%1243 init: %cst_348) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
        %1250 = stablehlo.broadcast_in_dim %1249, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_349 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %1251 = stablehlo.broadcast_in_dim %cst_349, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %1252 = stablehlo.divide %1250, %1251 : tensor<2x144x1xf32>
        %1253 = stablehlo.broadcast_in_dim %1252, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
        %1254 = stablehlo.subtract %1243, %1253 : tensor<2x144x96xf32>
        %1255 = chlo.square %1254 : tensor<2x144x96xf32> -> tensor<2x144x96xf32>
        %cst_350 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1256 = stablehlo.reduce(%1255 init: %cst_350) applies stablehlo.add across dimensions = [2] : (tensor<2x144x96xf32>, tensor<f32>) -> tensor<2x144xf32>
        %1257 = stablehlo.broadcast_in_dim %1256, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x1xf32>
        %cst_351 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %1258 = stablehlo.broadcast_in_dim %cst_351, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %1259 = stablehlo.divide %1257, %1258 : tensor<2x144x1xf32>
        %cst_352 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
        %1260 = stablehlo.broadcast_in_dim %cst_352, dims = [] : (tensor<f32>) -> tensor<2x144x1xf32>
        %1261 = stablehlo.add %1259, %1260 : tensor<2x144x1xf32>
        %1262 = stablehlo.rsqrt %1261 : tensor<2x144x1xf32>
        %1263 = stablehlo.broadcast_in_dim %1262, dims = [0, 1, 2] : (tensor<2x144x1xf32>) -> tensor<2x144x96xf32>
        %1264 = stablehlo.multiply %1254, %1263 : tensor<2x144x96xf32>
        %1265 = stablehlo.broadcast_in_dim %1247, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
        %1266 = stablehlo.multiply %1264, %1265 : tensor<2x144x96xf32>
        %1267 = stablehlo.broadcast_in_dim %1248, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x144x96xf32>
        %1268 = stablehlo.add %1266, %1267 : tensor<2x144x96xf32>
        %1269 = stablehlo.broadcast_in_dim %1246, dims = [0, 1, 2] : (tensor<2x144x1xi1>) -> tensor<2x144x96xi1>
        %cst_353 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1270 = stablehlo.broadcast_in_dim %cst_353, dims = [] : (tensor<f32>) -> tensor<2x144x96xf32>
        %1271 = stablehlo.select %1269, %1268, %1270 : tensor<2x144x96xi1>, tensor<2x144x96xf32>
        %1272 = stablehlo.reshape %1271 : (tensor<2x144x96xf32>) -> tensor<2x72x192xf32>
        %1273 = stablehlo.reshape %1272 : (tensor<2x72x192xf32>) -> tensor<144x192xf32>
        %1274 = stablehlo.dot_general %1273, %arg154, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<144x192xf32>, tensor<192x96xf32>) -> tensor<144x96xf32>
        %1275 = stablehlo.reshape %1274 : (tensor<144x96xf32>) -> tensor<2x72x96xf32>
        %1276 = stablehlo.broadcast_in_dim %arg153, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1277 = stablehlo.broadcast_in_dim %1276, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x72x96xf32>
        %1278 = stablehlo.add %1275, %1277 : tensor<2x72x96xf32>
        %1279 = stablehlo.multiply %1278, %1278 : tensor<2x72x96xf32>
        %1280 = stablehlo.multiply %1279, %1278 : tensor<2x72x96xf32>
        %cst_354 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
        %1281 = stablehlo.broadcast_in_dim %cst_354, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %1282 = stablehlo.multiply %1281, %1280 : tensor<2x72x96xf32>
        %1283 = stablehlo.add %1278, %1282 : tensor<2x72x96xf32>
        %cst_355 = stablehlo.constant dense<0.797884583> : tensor<f32>
        %1284 = stablehlo.broadcast_in_dim %cst_355, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %1285 = stablehlo.multiply %1284, %1283 : tensor<2x72x96xf32>
        %1286 = stablehlo.tanh %1285 : tensor<2x72x96xf32>
        %cst_356 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1287 = stablehlo.broadcast_in_dim %cst_356, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %1288 = stablehlo.add %1287, %1286 : tensor<2x72x96xf32>
        %cst_357 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1289 = stablehlo.broadcast_in_dim %cst_357, dims = [] : (tensor<f32>) -> tensor<2x72x96xf32>
        %1290 = stablehlo.multiply %1289, %1288 : tensor<2x72x96xf32>
        %1291 = stablehlo.multiply %1278, %1290 : tensor<2x72x96xf32>
        %1292 = stablehlo.reshape %1291 : (tensor<2x72x96xf32>) -> tensor<144x96xf32>
        %1293 = stablehlo.dot_general %1292, %arg156, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<144x96xf32>, tensor<96x96xf32>) -> tensor<144x96xf32>
        %1294 = stablehlo.reshape %1293 : (tensor<144x96xf32>) -> tensor<2x72x96xf32>
        %1295 = stablehlo.broadcast_in_dim %arg155, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1296 = stablehlo.broadcast_in_dim %1295, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<2x72x96xf32>
        %1297 = stablehlo.add %1294, %1296 : tensor<2x72x96xf32>
        stablehlo.return %1297 : tensor<2x72x96xf32>
      }) : (tensor<i32>) -> tensor<2x72x96xf32>
      %c_18 = stablehlo.constant dense<0> : tensor<i32>
      %37 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %38 = stablehlo.compare GE, %6, %37, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_19 = stablehlo.constant dense<false> : tensor<i1>
      %39 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i1>) -> tensor<4x312xi1>
      %40 = stablehlo.compare NE, %38, %39, UNSIGNED : (tensor<4x312xi1>, tensor<4x312xi1>) -> tensor<4x312xi1>
      %41 = stablehlo.convert %40 : (tensor<4x312xi1>) -> tensor<4x312xi32>
      %c_20 = stablehlo.constant dense<0> : tensor<i32>
      %42 = stablehlo.reduce(%41 init: %c_20) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x312xi32>, tensor<i32>) -> tensor<i32>
      %c_21 = stablehlo.constant dense<0> : tensor<i32>
      %43 = stablehlo.compare GT, %42, %c_21, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %44 = stablehlo.convert %43 : (tensor<i1>) -> tensor<i32>
      %c_22 = stablehlo.constant dense<0> : tensor<i32>
      %c_23 = stablehlo.constant dense<1> : tensor<i32>
      %45 = stablehlo.clamp %c_22, %44, %c_23 : tensor<i32>
      %c_24 = stablehlo.constant dense<1> : tensor<i32>
      %46:2 = "stablehlo.case"(%45) ({
        %cst_323 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1143 = stablehlo.broadcast_in_dim %cst_323, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        stablehlo.return %c_24, %1143 : tensor<i32>, tensor<4x156x96xf32>
      }, {
        %1143 = stablehlo.slice %36 [0:1, 0:1, 0:1] : (tensor<2x72x96xf32>) -> tensor<1x1x1xf32>
        %c_323 = stablehlo.constant dense<0> : tensor<i32>
        %1144 = stablehlo.compare GE, %c_24, %c_323, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_324 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1145 = stablehlo.broadcast_in_dim %cst_324, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %1146 = func.call @_where(%1144, %1143, %1145) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_325 = stablehlo.constant dense<0> : tensor<i32>
        %c_326 = stablehlo.constant dense<0> : tensor<i32>
        %c_327 = stablehlo.constant dense<0> : tensor<i32>
        %1147 = stablehlo.dynamic_update_slice %36, %1146, %c_325, %c_326, %c_327 : (tensor<2x72x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x72x96xf32>
        %1148 = "stablehlo.all_gather"(%1147) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<2x72x96xf32>) -> tensor<4x72x96xf32>
        %c_328 = stablehlo.constant dense<2> : tensor<ui32>
        %c_329 = stablehlo.constant dense<2> : tensor<ui32>
        %1149 = stablehlo.partition_id : tensor<ui32>
        %1150 = stablehlo.divide %1149, %c_328 : tensor<ui32>
        %1151 = stablehlo.remainder %1150, %c_329 : tensor<ui32>
        %1152 = stablehlo.convert %1151 : (tensor<ui32>) -> tensor<i32>
        %c_330 = stablehlo.constant dense<1> : tensor<i32>
        %1153 = stablehlo.multiply %1152, %c_330 : tensor<i32>
        %c_331 = stablehlo.constant dense<0> : tensor<i32>
        %1154 = stablehlo.add %c_331, %1153 : tensor<i32>
        %c_332 = stablehlo.constant dense<4> : tensor<i32>
        %1155 = stablehlo.multiply %1154, %c_332 : tensor<i32>
        %c_333 = stablehlo.constant dense<72> : tensor<i32>
        %1156 = stablehlo.multiply %1155, %c_333 : tensor<i32>
        %c_334 = stablehlo.constant dense<1> : tensor<ui32>
        %c_335 = stablehlo.constant dense<2> : tensor<ui32>
        %1157 = stablehlo.partition_id : tensor<ui32>
        %1158 = stablehlo.divide %1157, %c_334 : tensor<ui32>
        %1159 = stablehlo.remainder %1158, %c_335 : tensor<ui32>
        %1160 = stablehlo.convert %1159 : (tensor<ui32>) -> tensor<i32>
        %c_336 = stablehlo.constant dense<1> : tensor<i32>
        %1161 = stablehlo.multiply %1160, %c_336 : tensor<i32>
        %c_337 = stablehlo.constant dense<0> : tensor<i32>
        %1162 = stablehlo.add %c_337, %1161 : tensor<i32>
        %c_338 = stablehlo.constant dense<156> : tensor<i32>
        %1163 = stablehlo.multiply %1162, %c_338 : tensor<i32>
        %c_339 = stablehlo.constant dense<0> : tensor<i32>
        %1164 = stablehlo.compare LT, %1163, %c_339, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_340 = stablehlo.constant dense<312> : tensor<i32>
        %1165 = stablehlo.add %1163, %c_340 : tensor<i32>
        %1166 = stablehlo.select %1164, %1165, %1163 : tensor<i1>, tensor<i32>
        %c_341 = stablehlo.constant dense<0> : tensor<i32>
        %1167 = stablehlo.dynamic_slice %6, %c_341, %1166, sizes = [4, 156] : (tensor<4x312xi32>, tensor<i32>, tensor<i32>) -> tensor<4x156xi32>
        %c_342 = stablehlo.constant dense<0> : tensor<i32>
        %1168 = stablehlo.broadcast_in_dim %c_342, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1169 = stablehlo.compare GE, %1167, %1168, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %1170 = stablehlo.broadcast_in_dim %1156, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1171 = stablehlo.subtract %1167, %1170 : tensor<4x156xi32>
        %c_343 = stablehlo.constant dense<288> : tensor<i32>
        %1172 = stablehlo.broadcast_in_dim %c_343, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1173 = stablehlo.select %1169, %1171, %1172 : tensor<4x156xi1>, tensor<4x156xi32>
        %1174 = stablehlo.reshape %1148 : (tensor<4x72x96xf32>) -> tensor<288x96xf32>
        %c_344 = stablehlo.constant dense<0> : tensor<i32>
        %1175 = stablehlo.broadcast_in_dim %c_344, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1176 = stablehlo.compare LT, %1173, %1175, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %c_345 = stablehlo.constant dense<288> : tensor<i32>
        %1177 = stablehlo.broadcast_in_dim %c_345, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1178 = stablehlo.add %1173, %1177 : tensor<4x156xi32>
        %1179 = stablehlo.select %1176, %1178, %1173 : tensor<4x156xi1>, tensor<4x156xi32>
        %1180 = stablehlo.broadcast_in_dim %1179, dims = [0, 1] : (tensor<4x156xi32>) -> tensor<4x156x1xi32>
        %c_346 = stablehlo.constant dense<287> : tensor<1xi32>
        %c_347 = stablehlo.constant dense<0> : tensor<i32>
        %1181 = stablehlo.broadcast_in_dim %c_347, dims = [] : (tensor<i32>) -> tensor<4x156x1xi32>
        %1182 = stablehlo.compare GE, %1180, %1181, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %1183 = stablehlo.broadcast_in_dim %c_346, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
        %1184 = stablehlo.broadcast_in_dim %1183, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x156x1xi32>
        %1185 = stablehlo.compare LE, %1180, %1184, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %1186 = stablehlo.and %1182, %1185 : tensor<4x156x1xi1>
        %c_348 = stablehlo.constant dense<true> : tensor<i1>
        %1187 = stablehlo.reduce(%1186 init: %c_348) applies stablehlo.and across dimensions = [2] : (tensor<4x156x1xi1>, tensor<i1>) -> tensor<4x156xi1>
        %1188 = "stablehlo.gather"(%1174, %1180) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<288x96xf32>, tensor<4x156x1xi32>) -> tensor<4x156x96xf32>
        %1189 = stablehlo.broadcast_in_dim %1187, dims = [0, 1] : (tensor<4x156xi1>) -> tensor<4x156x96xi1>
        %cst_349 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1190 = stablehlo.broadcast_in_dim %cst_349, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        %1191 = stablehlo.select %1189, %1188, %1190 : tensor<4x156x96xi1>, tensor<4x156x96xf32>
        %1192 = stablehlo.slice %1148 [0:1, 0:1, 0:1] : (tensor<4x72x96xf32>) -> tensor<1x1x1xf32>
        %1193 = stablehlo.reshape %1192 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_350 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1194 = stablehlo.compare NE, %1193, %cst_350, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %1195 = stablehlo.convert %1194 : (tensor<i1>) -> tensor<i32>
        %c_351 = stablehlo.constant dense<1> : tensor<i32>
        %1196 = stablehlo.or %1195, %c_351 : tensor<i32>
        %1197 = stablehlo.and %c_24, %1196 : tensor<i32>
        stablehlo.return %1197, %1191 : tensor<i32>, tensor<4x156x96xf32>
      }) : (tensor<i32>) -> (tensor<i32>, tensor<4x156x96xf32>)
      %c_25 = stablehlo.constant dense<0> : tensor<i32>
      %47 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i32>) -> tensor<4x640xi32>
      %48 = stablehlo.compare NE, %14, %47, SIGNED : (tensor<4x640xi32>, tensor<4x640xi32>) -> tensor<4x640xi1>
      %49 = stablehlo.convert %48 : (tensor<4x640xi1>) -> tensor<4x640xi32>
      %c_26 = stablehlo.constant dense<0> : tensor<i32>
      %50 = stablehlo.reduce(%49 init: %c_26) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x640xi32>, tensor<i32>) -> tensor<i32>
      %c_27 = stablehlo.constant dense<0> : tensor<i32>
      %51 = stablehlo.compare GT, %50, %c_27, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %52 = stablehlo.convert %51 : (tensor<i1>) -> tensor<i32>
      %c_28 = stablehlo.constant dense<0> : tensor<i32>
      %c_29 = stablehlo.constant dense<1> : tensor<i32>
      %53 = stablehlo.clamp %c_28, %52, %c_29 : tensor<i32>
      %54:2 = "stablehlo.case"(%53) ({
        %cst_323 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1143 = stablehlo.broadcast_in_dim %cst_323, dims = [] : (tensor<f32>) -> tensor<4x40x96xf32>
        stablehlo.return %46#0, %1143 : tensor<i32>, tensor<4x40x96xf32>
      }, {
        %1143 = stablehlo.abs %14 : tensor<4x640xi32>
        %1144 = stablehlo.slice %1143 [0:4, 0:640:2] : (tensor<4x640xi32>) -> tensor<4x320xi32>
        %cst_323 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1145 = stablehlo.pad %12, %cst_323, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<4x640x40xf32>, tensor<f32>) -> tensor<4x642x40xf32>
        %c_324 = stablehlo.constant dense<0> : tensor<i32>
        %1146 = stablehlo.pad %1143, %c_324, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<4x640xi32>, tensor<i32>) -> tensor<4x642xi32>
        %1147 = stablehlo.slice %1146 [0:4, 0:640:2] : (tensor<4x642xi32>) -> tensor<4x320xi32>
        %1148 = stablehlo.compare EQ, %1147, %1144, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %c_325 = stablehlo.constant dense<0> : tensor<i32>
        %1149 = stablehlo.broadcast_in_dim %c_325, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %1150 = stablehlo.compare GT, %1144, %1149, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %1151 = stablehlo.and %1148, %1150 : tensor<4x320xi1>
        %1152 = stablehlo.broadcast_in_dim %1151, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %1153 = stablehlo.slice %1145 [0:4, 0:640:2, 0:40] : (tensor<4x642x40xf32>) -> tensor<4x320x40xf32>
        %1154 = stablehlo.broadcast_in_dim %1152, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x40xi1>
        %cst_326 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1155 = stablehlo.broadcast_in_dim %cst_326, dims = [] : (tensor<f32>) -> tensor<4x320x40xf32>
        %1156 = stablehlo.select %1154, %1153, %1155 : tensor<4x320x40xi1>, tensor<4x320x40xf32>
        %1157 = stablehlo.slice %1146 [0:4, 1:641:2] : (tensor<4x642xi32>) -> tensor<4x320xi32>
        %1158 = stablehlo.compare EQ, %1157, %1144, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %c_327 = stablehlo.constant dense<0> : tensor<i32>
        %1159 = stablehlo.broadcast_in_dim %c_327, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %1160 = stablehlo.compare GT, %1144, %1159, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %1161 = stablehlo.and %1158, %1160 : tensor<4x320xi1>
        %1162 = stablehlo.broadcast_in_dim %1161, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %1163 = stablehlo.slice %1145 [0:4, 1:641:2, 0:40] : (tensor<4x642x40xf32>) -> tensor<4x320x40xf32>
        %1164 = stablehlo.broadcast_in_dim %1162, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x40xi1>
        %cst_328 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1165 = stablehlo.broadcast_in_dim %cst_328, dims = [] : (tensor<f32>) -> tensor<4x320x40xf32>
        %1166 = stablehlo.select %1164, %1163, %1165 : tensor<4x320x40xi1>, tensor<4x320x40xf32>
        %1167 = stablehlo.slice %1146 [0:4, 2:642:2] : (tensor<4x642xi32>) -> tensor<4x320xi32>
        %1168 = stablehlo.compare EQ, %1167, %1144, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %c_329 = stablehlo.constant dense<0> : tensor<i32>
        %1169 = stablehlo.broadcast_in_dim %c_329, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %1170 = stablehlo.compare GT, %1144, %1169, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %1171 = stablehlo.and %1168, %1170 : tensor<4x320xi1>
        %1172 = stablehlo.broadcast_in_dim %1171, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %1173 = stablehlo.slice %1145 [0:4, 2:642:2, 0:40] : (tensor<4x642x40xf32>) -> tensor<4x320x40xf32>
        %1174 = stablehlo.broadcast_in_dim %1172, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x40xi1>
        %cst_330 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1175 = stablehlo.broadcast_in_dim %cst_330, dims = [] : (tensor<f32>) -> tensor<4x320x40xf32>
        %1176 = stablehlo.select %1174, %1173, %1175 : tensor<4x320x40xi1>, tensor<4x320x40xf32>
        %1177 = stablehlo.broadcast_in_dim %1156, dims = [0, 1, 3] : (tensor<4x320x40xf32>) -> tensor<4x320x1x40xf32>
        %1178 = stablehlo.broadcast_in_dim %1166, dims = [0, 1, 3] : (tensor<4x320x40xf32>) -> tensor<4x320x1x40xf32>
        %1179 = stablehlo.broadcast_in_dim %1176, dims = [0, 1, 3] : (tensor<4x320x40xf32>) -> tensor<4x320x1x40xf32>
        %1180 = stablehlo.concatenate %1177, %1178, %1179, dim = 2 : (tensor<4x320x1x40xf32>, tensor<4x320x1x40xf32>, tensor<4x320x1x40xf32>) -> tensor<4x320x3x40xf32>
        %1181 = stablehlo.reshape %1180 : (tensor<4x320x3x40xf32>) -> tensor<1280x120xf32>
        %1182 = stablehlo.reshape %arg133 : (tensor<3x40x48xf32>) -> tensor<120x48xf32>
        %1183 = stablehlo.dot_general %1181, %1182, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1280x120xf32>, tensor<120x48xf32>) -> tensor<1280x48xf32>
        %1184 = stablehlo.reshape %1183 : (tensor<1280x48xf32>) -> tensor<4x320x48xf32>
        %1185 = stablehlo.broadcast_in_dim %arg132, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
        %1186 = stablehlo.broadcast_in_dim %1185, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<4x320x48xf32>
        %1187 = stablehlo.add %1184, %1186 : tensor<4x320x48xf32>
        %1188 = stablehlo.slice %1143 [0:4, 0:640:2] : (tensor<4x640xi32>) -> tensor<4x320xi32>
        %c_331 = stablehlo.constant dense<0> : tensor<i32>
        %1189 = stablehlo.broadcast_in_dim %c_331, dims = [] : (tensor<i32>) -> tensor<4x320xi32>
        %1190 = stablehlo.compare GT, %1188, %1189, SIGNED : (tensor<4x320xi32>, tensor<4x320xi32>) -> tensor<4x320xi1>
        %1191 = stablehlo.broadcast_in_dim %1190, dims = [0, 1] : (tensor<4x320xi1>) -> tensor<4x320x1xi1>
        %cst_332 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1192 = stablehlo.broadcast_in_dim %cst_332, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %1193 = stablehlo.multiply %1192, %1187 : tensor<4x320x48xf32>
        %cst_333 = stablehlo.constant dense<0.707106769> : tensor<f32>
        %1194 = stablehlo.broadcast_in_dim %cst_333, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %1195 = stablehlo.multiply %1187, %1194 : tensor<4x320x48xf32>
        %cst_334 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1196 = stablehlo.broadcast_in_dim %cst_334, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %1197 = stablehlo.multiply %1195, %1196 : tensor<4x320x48xf32>
        %1198 = chlo.erf %1197 : tensor<4x320x48xf32> -> tensor<4x320x48xf32>
        %cst_335 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1199 = stablehlo.broadcast_in_dim %cst_335, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %1200 = stablehlo.add %1199, %1198 : tensor<4x320x48xf32>
        %1201 = stablehlo.multiply %1193, %1200 : tensor<4x320x48xf32>
        %1202 = stablehlo.broadcast_in_dim %1191, dims = [0, 1, 2] : (tensor<4x320x1xi1>) -> tensor<4x320x48xi1>
        %cst_336 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1203 = stablehlo.broadcast_in_dim %cst_336, dims = [] : (tensor<f32>) -> tensor<4x320x48xf32>
        %1204 = stablehlo.select %1202, %1201, %1203 : tensor<4x320x48xi1>, tensor<4x320x48xf32>
        %1205 = stablehlo.slice %1188 [0:4, 0:320:2] : (tensor<4x320xi32>) -> tensor<4x160xi32>
        %cst_337 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1206 = stablehlo.pad %1204, %cst_337, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<4x320x48xf32>, tensor<f32>) -> tensor<4x322x48xf32>
        %c_338 = stablehlo.constant dense<0> : tensor<i32>
        %1207 = stablehlo.pad %1188, %c_338, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<4x320xi32>, tensor<i32>) -> tensor<4x322xi32>
        %1208 = stablehlo.slice %1207 [0:4, 0:320:2] : (tensor<4x322xi32>) -> tensor<4x160xi32>
        %1209 = stablehlo.compare EQ, %1208, %1205, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_339 = stablehlo.constant dense<0> : tensor<i32>
        %1210 = stablehlo.broadcast_in_dim %c_339, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1211 = stablehlo.compare GT, %1205, %1210, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %1212 = stablehlo.and %1209, %1211 : tensor<4x160xi1>
        %1213 = stablehlo.broadcast_in_dim %1212, dims = [0, 1] : (tensor<4x160xi1>) -> tensor<4x160x1xi1>
        %1214 = stablehlo.slice %1206 [0:4, 0:320:2, 0:48] : (tensor<4x322x48xf32>) -> tensor<4x160x48xf32>
        %1215 = stablehlo.broadcast_in_dim %1213, dims = [0, 1, 2] : (tensor<4x160x1xi1>) -> tensor<4x160x48xi1>
        %cst_340 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1216 = stablehlo.broadcast_in_dim %cst_340, dims = [] : (tensor<f32>) -> tensor<4x160x48xf32>
        %1217 = stablehlo.select %1215, %1214, %1216 : tensor<4x160x48xi1>, tensor<4x160x48xf32>
        %1218 = stablehlo.slice %1207 [0:4, 1:321:2] : (tensor<4x322xi32>) -> tensor<4x160xi32>
        %1219 = stablehlo.compare EQ, %1218, %1205, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_341 = stablehlo.constant dense<0> : tensor<i32>
        %1220 = stablehlo.broadcast_in_dim %c_341, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1221 = stablehlo.compare GT, %1205, %1220, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %1222 = stablehlo.and %1219, %1221 : tensor<4x160xi1>
        %1223 = stablehlo.broadcast_in_dim %1222, dims = [0, 1] : (tensor<4x160xi1>) -> tensor<4x160x1xi1>
        %1224 = stablehlo.slice %1206 [0:4, 1:321:2, 0:48] : (tensor<4x322x48xf32>) -> tensor<4x160x48xf32>
        %1225 = stablehlo.broadcast_in_dim %1223, dims = [0, 1, 2] : (tensor<4x160x1xi1>) -> tensor<4x160x48xi1>
        %cst_342 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1226 = stablehlo.broadcast_in_dim %cst_342, dims = [] : (tensor<f32>) -> tensor<4x160x48xf32>
        %1227 = stablehlo.select %1225, %1224, %1226 : tensor<4x160x48xi1>, tensor<4x160x48xf32>
        %1228 = stablehlo.slice %1207 [0:4, 2:322:2] : (tensor<4x322xi32>) -> tensor<4x160xi32>
        %1229 = stablehlo.compare EQ, %1228, %1205, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_343 = stablehlo.constant dense<0> : tensor<i32>
        %1230 = stablehlo.broadcast_in_dim %c_343, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1231 = stablehlo.compare GT, %1205, %1230, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %1232 = stablehlo.and %1229, %1231 : tensor<4x160xi1>
        %1233 = stablehlo.broadcast_in_dim %1232, dims = [0, 1] : (tensor<4x160xi1>) -> tensor<4x160x1xi1>
        %1234 = stablehlo.slice %1206 [0:4, 2:322:2, 0:48] : (tensor<4x322x48xf32>) -> tensor<4x160x48xf32>
        %1235 = stablehlo.broadcast_in_dim %1233, dims = [0, 1, 2] : (tensor<4x160x1xi1>) -> tensor<4x160x48xi1>
        %cst_344 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1236 = stablehlo.broadcast_in_dim %cst_344, dims = [] : (tensor<f32>) -> tensor<4x160x48xf32>
        %1237 = stablehlo.select %1235, %1234, %1236 : tensor<4x160x48xi1>, tensor<4x160x48xf32>
        %1238 = stablehlo.broadcast_in_dim %1217, dims = [0, 1, 3] : (tensor<4x160x48xf32>) -> tensor<4x160x1x48xf32>
        %1239 = stablehlo.broadcast_in_dim %1227, dims = [0, 1, 3] : (tensor<4x160x48xf32>) -> tensor<4x160x1x48xf32>
        %1240 = stablehlo.broadcast_in_dim %1237, dims = [0, 1, 3] : (tensor<4x160x48xf32>) -> tensor<4x160x1x48xf32>
        %1241 = stablehlo.concatenate %1238, %1239, %1240, dim = 2 : (tensor<4x160x1x48xf32>, tensor<4x160x1x48xf32>, tensor<4x160x1x48xf32>) -> tensor<4x160x3x48xf32>
        %1242 = stablehlo.reshape %1241 : (tensor<4x160x3x48xf32>) -> tensor<640x144xf32>
        %1243 = stablehlo.reshape %arg135 : (tensor<3x48x96xf32>) -> tensor<144x96xf32>
        %1244 = stablehlo.dot_general %1242, %1243, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<640x144xf32>, tensor<144x96xf32>) -> tensor<640x96xf32>
        %1245 = stablehlo.reshape %1244 : (tensor<640x96xf32>) -> tensor<4x160x96xf32>
        %1246 = stablehlo.slice %1245 [0:1, 0:1, 0:1] : (tensor<4x160x96xf32>) -> tensor<1x1x1xf32>
        %c_345 = stablehlo.constant dense<0> : tensor<i32>
        %1247 = stablehlo.compare GE, %46#0, %c_345, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_346 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1248 = stablehlo.broadcast_in_dim %cst_346, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %1249 = func.call @_where(%1247, %1246, %1248) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_347 = stablehlo.constant dense<0> : tensor<i32>
        %c_348 = stablehlo.constant dense<0> : tensor<i32>
        %c_349 = stablehlo.constant dense<0> : tensor<i32>
        %1250 = stablehlo.dynamic_update_slice %1245, %1249, %c_347, %c_348, %c_349 : (tensor<4x160x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x160x96xf32>
        %1251 = "stablehlo.reduce_scatter"(%1250) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
          %1435 = stablehlo.add %arg195, %arg196 : tensor<f32>
          stablehlo.return %1435 : tensor<f32>
        }) : (tensor<4x160x96xf32>) -> tensor<4x80x96xf32>
        %1252 = stablehlo.broadcast_in_dim %arg134, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1253 = stablehlo.broadcast_in_dim %1252, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
        %1254 = stablehlo.add %1251, %1253 : tensor<4x80x96xf32>
        %1255 = stablehlo.slice %14 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_350 = stablehlo.constant dense<0> : tensor<i32>
        %1256 = stablehlo.broadcast_in_dim %c_350, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1257 = stablehlo.maximum %1255, %1256 : tensor<4x160xi32>
        %1258 = stablehlo.slice %13 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_351 = stablehlo.constant dense<4> : tensor<i32>
        %1259 = stablehlo.broadcast_in_dim %c_351, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1260 = stablehlo.divide %1258, %1259 : tensor<4x160xi32>
        %1261 = stablehlo.sign %1258 : tensor<4x160xi32>
        %c_352 = stablehlo.constant dense<4> : tensor<i32>
        %1262 = stablehlo.sign %c_352 : tensor<i32>
        %1263 = stablehlo.broadcast_in_dim %1262, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1264 = stablehlo.compare NE, %1261, %1263, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %c_353 = stablehlo.constant dense<4> : tensor<i32>
        %1265 = stablehlo.broadcast_in_dim %c_353, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1266 = stablehlo.remainder %1258, %1265 : tensor<4x160xi32>
        %c_354 = stablehlo.constant dense<0> : tensor<i32>
        %1267 = stablehlo.broadcast_in_dim %c_354, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1268 = stablehlo.compare NE, %1266, %1267, SIGNED : (tensor<4x160xi32>, tensor<4x160xi32>) -> tensor<4x160xi1>
        %1269 = stablehlo.and %1264, %1268 : tensor<4x160xi1>
        %c_355 = stablehlo.constant dense<1> : tensor<i32>
        %1270 = stablehlo.broadcast_in_dim %c_355, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1271 = stablehlo.subtract %1260, %1270 : tensor<4x160xi32>
        %1272 = stablehlo.select %1269, %1271, %1260 : tensor<4x160xi1>, tensor<4x160xi32>
        %c_356 = stablehlo.constant dense<1> : tensor<ui32>
        %c_357 = stablehlo.constant dense<2> : tensor<ui32>
        %1273 = stablehlo.partition_id : tensor<ui32>
        %1274 = stablehlo.divide %1273, %c_356 : tensor<ui32>
        %1275 = stablehlo.remainder %1274, %c_357 : tensor<ui32>
        %1276 = stablehlo.convert %1275 : (tensor<ui32>) -> tensor<i32>
        %c_358 = stablehlo.constant dense<1> : tensor<i32>
        %1277 = stablehlo.multiply %1276, %c_358 : tensor<i32>
        %c_359 = stablehlo.constant dense<0> : tensor<i32>
        %1278 = stablehlo.add %c_359, %1277 : tensor<i32>
        %c_360 = stablehlo.constant dense<80> : tensor<i32>
        %1279 = stablehlo.multiply %1278, %c_360 : tensor<i32>
        %c_361 = stablehlo.constant dense<0> : tensor<i32>
        %1280 = stablehlo.compare LT, %1279, %c_361, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_362 = stablehlo.constant dense<160> : tensor<i32>
        %1281 = stablehlo.add %1279, %c_362 : tensor<i32>
        %1282 = stablehlo.select %1280, %1281, %1279 : tensor<i1>, tensor<i32>
        %c_363 = stablehlo.constant dense<0> : tensor<i32>
        %1283 = stablehlo.dynamic_slice %1257, %c_363, %1282, sizes = [4, 80] : (tensor<4x160xi32>, tensor<i32>, tensor<i32>) -> tensor<4x80xi32>
        %c_364 = stablehlo.constant dense<1> : tensor<ui32>
        %c_365 = stablehlo.constant dense<2> : tensor<ui32>
        %1284 = stablehlo.partition_id : tensor<ui32>
        %1285 = stablehlo.divide %1284, %c_364 : tensor<ui32>
        %1286 = stablehlo.remainder %1285, %c_365 : tensor<ui32>
        %1287 = stablehlo.convert %1286 : (tensor<ui32>) -> tensor<i32>
        %c_366 = stablehlo.constant dense<1> : tensor<i32>
        %1288 = stablehlo.multiply %1287, %c_366 : tensor<i32>
        %c_367 = stablehlo.constant dense<0> : tensor<i32>
        %1289 = stablehlo.add %c_367, %1288 : tensor<i32>
        %c_368 = stablehlo.constant dense<80> : tensor<i32>
        %1290 = stablehlo.multiply %1289, %c_368 : tensor<i32>
        %c_369 = stablehlo.constant dense<0> : tensor<i32>
        %1291 = stablehlo.compare LT, %1290, %c_369, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_370 = stablehlo.constant dense<160> : tensor<i32>
        %1292 = stablehlo.add %1290, %c_370 : tensor<i32>
        %1293 = stablehlo.select %1291, %1292, %1290 : tensor<i1>, tensor<i32>
        %c_371 = stablehlo.constant dense<0> : tensor<i32>
        %1294 = stablehlo.dynamic_slice %1272, %c_371, %1293, sizes = [4, 80] : (tensor<4x160xi32>, tensor<i32>, tensor<i32>) -> tensor<4x80xi32>
        %cst_372 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1295 = stablehlo.broadcast_in_dim %cst_372, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %1296 = stablehlo.multiply %1295, %1254 : tensor<4x80x96xf32>
        %cst_373 = stablehlo.constant dense<0.707106769> : tensor<f32>
        %1297 = stablehlo.broadcast_in_dim %cst_373, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %1298 = stablehlo.multiply %1254, %1297 : tensor<4x80x96xf32>
        %cst_374 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1299 = stablehlo.broadcast_in_dim %cst_374, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %1300 = stablehlo.multiply %1298, %1299 : tensor<4x80x96xf32>
        %1301 = chlo.erf %1300 : tensor<4x80x96xf32> -> tensor<4x80x96xf32>
        %cst_375 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1302 = stablehlo.broadcast_in_dim %cst_375, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %1303 = stablehlo.add %1302, %1301 : tensor<4x80x96xf32>
        %1304 = stablehlo.multiply %1296, %1303 : tensor<4x80x96xf32>
        %1305 = stablehlo.iota dim = 0 : tensor<48xf32>
        %cst_376 = stablehlo.constant dense<-0.195964694> : tensor<f32>
        %1306 = stablehlo.broadcast_in_dim %cst_376, dims = [] : (tensor<f32>) -> tensor<48xf32>
        %1307 = stablehlo.multiply %1306, %1305 : tensor<48xf32>
        %1308 = stablehlo.exponential %1307 : tensor<48xf32>
        %1309 = stablehlo.convert %1294 : (tensor<4x80xi32>) -> tensor<4x80xf32>
        %1310 = stablehlo.broadcast_in_dim %1309, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
        %1311 = stablehlo.broadcast_in_dim %1308, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
        %1312 = stablehlo.broadcast_in_dim %1310, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x48xf32>
        %1313 = stablehlo.broadcast_in_dim %1311, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<4x80x48xf32>
        %1314 = stablehlo.multiply %1312, %1313 : tensor<4x80x48xf32>
        %1315 = stablehlo.sine %1314 : tensor<4x80x48xf32>
        %1316 = stablehlo.cosine %1314 : tensor<4x80x48xf32>
        %1317 = stablehlo.concatenate %1315, %1316, dim = 2 : (tensor<4x80x48xf32>, tensor<4x80x48xf32>) -> tensor<4x80x96xf32>
        %1318 = stablehlo.add %1304, %1317 : tensor<4x80x96xf32>
        %c_377 = stablehlo.constant dense<0> : tensor<i32>
        %1319 = stablehlo.broadcast_in_dim %c_377, dims = [] : (tensor<i32>) -> tensor<4x80xi32>
        %1320 = stablehlo.compare GT, %1283, %1319, SIGNED : (tensor<4x80xi32>, tensor<4x80xi32>) -> tensor<4x80xi1>
        %1321 = stablehlo.broadcast_in_dim %1320, dims = [0, 1] : (tensor<4x80xi1>) -> tensor<4x80x1xi1>
        %1322 = stablehlo.broadcast_in_dim %1321, dims = [0, 1, 2] : (tensor<4x80x1xi1>) -> tensor<4x80x96xi1>
        %cst_378 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1323 = stablehlo.broadcast_in_dim %cst_378, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %1324 = stablehlo.select %1322, %1318, %1323 : tensor<4x80x96xi1>, tensor<4x80x96xf32>
        %1325 = stablehlo.slice %14 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_379 = stablehlo.constant dense<0> : tensor<i32>
        %1326 = stablehlo.broadcast_in_dim %c_379, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1327 = stablehlo.maximum %1325, %1326 : tensor<4x160xi32>
        %1328 = stablehlo.iota dim = 0 : tensor<2xi32>
        %c_380 = stablehlo.constant dense<1> : tensor<i32>
        %1329 = stablehlo.broadcast_in_dim %c_380, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %1330 = stablehlo.multiply %1329, %1328 : tensor<2xi32>
        %c_381 = stablehlo.constant dense<0> : tensor<i32>
        %1331 = stablehlo.broadcast_in_dim %c_381, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %1332 = stablehlo.add %1331, %1330 : tensor<2xi32>
        %c_382 = stablehlo.constant dense<0> : tensor<i32>
        %1333 = stablehlo.broadcast_in_dim %c_382, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %1334 = stablehlo.add %1333, %1332 : tensor<2xi32>
        %1335 = stablehlo.slice %1251 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
        %1336 = stablehlo.reshape %1335 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_383 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1337 = stablehlo.compare NE, %1336, %cst_383, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %1338 = stablehlo.convert %1337 : (tensor<i1>) -> tensor<i32>
        %c_384 = stablehlo.constant dense<1> : tensor<i32>
        %1339 = stablehlo.or %1338, %c_384 : tensor<i32>
        %1340 = stablehlo.and %46#0, %1339 : tensor<i32>
        %c_385 = stablehlo.constant dense<0> : tensor<i32>
        %1341:20 = stablehlo.while(%iterArg = %1334, %iterArg_420 = %arg136, %iterArg_421 = %arg137, %iterArg_422 = %arg138, %iterArg_423 = %arg139, %iterArg_424 = %arg140, %iterArg_425 = %arg141, %iterArg_426 = %arg142, %iterArg_427 = %arg143, %iterArg_428 = %arg144, %iterArg_429 = %arg145, %iterArg_430 = %arg146, %iterArg_431 = %arg147, %iterArg_432 = %arg148, %iterArg_433 = %arg149, %iterArg_434 = %arg150, %iterArg_435 = %1327, %iterArg_436 = %c_385, %iterArg_437 = %1340, %iterArg_438 = %1324) : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x128xf32>, tensor<2x96x128xf32>, tensor<2x96xf32>, tensor<2x128x96xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x2x24x96xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<4x160xi32>, tensor<i32>, tensor<i32>, tensor<4x80x96xf32>
        cond {
          %c_439 = stablehlo.constant dense<2> : tensor<i32>
          %1435 = stablehlo.compare LT, %iterArg_436, %c_439, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1435 : tensor<i1>
        } do {
          %1435 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_436) : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
          %1436:2 = func.call @closed_call_7(%iterArg_420, %iterArg_421, %iterArg_422, %iterArg_423, %iterArg_424, %iterArg_425, %iterArg_426, %iterArg_427, %iterArg_428, %iterArg_429, %iterArg_430, %iterArg_431, %iterArg_432, %iterArg_433, %iterArg_434, %iterArg_435, %iterArg_437, %iterArg_438, %1435) : (tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x128xf32>, tensor<2x96x128xf32>, tensor<2x96xf32>, tensor<2x128x96xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x2x24x96xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<4x160xi32>, tensor<i32>, tensor<4x80x96xf32>, tensor<i32>) -> (tensor<i32>, tensor<4x80x96xf32>)
          %c_439 = stablehlo.constant dense<1> : tensor<i32>
          %1437 = stablehlo.add %iterArg_436, %c_439 : tensor<i32>
          stablehlo.return %iterArg, %iterArg_420, %iterArg_421, %iterArg_422, %iterArg_423, %iterArg_424, %iterArg_425, %iterArg_426, %iterArg_427, %iterArg_428, %iterArg_429, %iterArg_430, %iterArg_431, %iterArg_432, %iterArg_433, %iterArg_434, %iterArg_435, %1437, %1436#0, %1436#1 : tensor<2xi32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x128xf32>, tensor<2x96x128xf32>, tensor<2x96xf32>, tensor<2x128x96xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x2x24x96xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x2x24xf32>, tensor<2x96x2x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<4x160xi32>, tensor<i32>, tensor<i32>, tensor<4x80x96xf32>
        }
        %1342 = stablehlo.slice %1341#19 [0:4, 0:80, 0:96] : (tensor<4x80x96xf32>) -> tensor<4x80x96xf32>
        %1343 = stablehlo.slice %14 [0:4, 0:640:4] : (tensor<4x640xi32>) -> tensor<4x160xi32>
        %c_386 = stablehlo.constant dense<0> : tensor<i32>
        %1344 = stablehlo.broadcast_in_dim %c_386, dims = [] : (tensor<i32>) -> tensor<4x160xi32>
        %1345 = stablehlo.maximum %1343, %1344 : tensor<4x160xi32>
        %c_387 = stablehlo.constant dense<1> : tensor<ui32>
        %c_388 = stablehlo.constant dense<2> : tensor<ui32>
        %1346 = stablehlo.partition_id : tensor<ui32>
        %1347 = stablehlo.divide %1346, %c_387 : tensor<ui32>
        %1348 = stablehlo.remainder %1347, %c_388 : tensor<ui32>
        %1349 = stablehlo.convert %1348 : (tensor<ui32>) -> tensor<i32>
        %c_389 = stablehlo.constant dense<1> : tensor<i32>
        %1350 = stablehlo.multiply %1349, %c_389 : tensor<i32>
        %c_390 = stablehlo.constant dense<0> : tensor<i32>
        %1351 = stablehlo.add %c_390, %1350 : tensor<i32>
        %c_391 = stablehlo.constant dense<80> : tensor<i32>
        %1352 = stablehlo.multiply %1351, %c_391 : tensor<i32>
        %c_392 = stablehlo.constant dense<0> : tensor<i32>
        %1353 = stablehlo.compare LT, %1352, %c_392, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_393 = stablehlo.constant dense<160> : tensor<i32>
        %1354 = stablehlo.add %1352, %c_393 : tensor<i32>
        %1355 = stablehlo.select %1353, %1354, %1352 : tensor<i1>, tensor<i32>
        %c_394 = stablehlo.constant dense<0> : tensor<i32>
        %1356 = stablehlo.dynamic_slice %1345, %c_394, %1355, sizes = [4, 80] : (tensor<4x160xi32>, tensor<i32>, tensor<i32>) -> tensor<4x80xi32>
        %c_395 = stablehlo.constant dense<0> : tensor<i32>
        %1357 = stablehlo.broadcast_in_dim %c_395, dims = [] : (tensor<i32>) -> tensor<4x80xi32>
        %1358 = stablehlo.compare GT, %1356, %1357, SIGNED : (tensor<4x80xi32>, tensor<4x80xi32>) -> tensor<4x80xi1>
        %1359 = stablehlo.broadcast_in_dim %1358, dims = [0, 1] : (tensor<4x80xi1>) -> tensor<4x80x1xi1>
        %1360 = stablehlo.broadcast_in_dim %arg152, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1361 = stablehlo.broadcast_in_dim %arg151, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %cst_396 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1362 = stablehlo.reduce(%1342 init: %cst_396) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
        %1363 = stablehlo.broadcast_in_dim %1362, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
        %cst_397 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %1364 = stablehlo.broadcast_in_dim %cst_397, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
        %1365 = stablehlo.divide %1363, %1364 : tensor<4x80x1xf32>
        %1366 = stablehlo.broadcast_in_dim %1365, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
        %1367 = stablehlo.subtract %1342, %1366 : tensor<4x80x96xf32>
        %1368 = chlo.square %1367 : tensor<4x80x96xf32> -> tensor<4x80x96xf32>
        %cst_398 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1369 = stablehlo.reduce(%1368 init: %cst_398) applies stablehlo.add across dimensions = [2] : (tensor<4x80x96xf32>, tensor<f32>) -> tensor<4x80xf32>
        %1370 = stablehlo.broadcast_in_dim %1369, dims = [0, 1] : (tensor<4x80xf32>) -> tensor<4x80x1xf32>
        %cst_399 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %1371 = stablehlo.broadcast_in_dim %cst_399, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
        %1372 = stablehlo.divide %1370, %1371 : tensor<4x80x1xf32>
        %cst_400 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %1373 = stablehlo.broadcast_in_dim %cst_400, dims = [] : (tensor<f32>) -> tensor<4x80x1xf32>
        %1374 = stablehlo.add %1372, %1373 : tensor<4x80x1xf32>
        %1375 = stablehlo.rsqrt %1374 : tensor<4x80x1xf32>
        %1376 = stablehlo.broadcast_in_dim %1375, dims = [0, 1, 2] : (tensor<4x80x1xf32>) -> tensor<4x80x96xf32>
        %1377 = stablehlo.multiply %1367, %1376 : tensor<4x80x96xf32>
        %1378 = stablehlo.broadcast_in_dim %1360, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
        %1379 = stablehlo.multiply %1377, %1378 : tensor<4x80x96xf32>
        %1380 = stablehlo.broadcast_in_dim %1361, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x80x96xf32>
        %1381 = stablehlo.add %1379, %1380 : tensor<4x80x96xf32>
        %1382 = stablehlo.broadcast_in_dim %1359, dims = [0, 1, 2] : (tensor<4x80x1xi1>) -> tensor<4x80x96xi1>
        %cst_401 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1383 = stablehlo.broadcast_in_dim %cst_401, dims = [] : (tensor<f32>) -> tensor<4x80x96xf32>
        %1384 = stablehlo.select %1382, %1381, %1383 : tensor<4x80x96xi1>, tensor<4x80x96xf32>
        %1385 = stablehlo.reshape %1384 : (tensor<4x80x96xf32>) -> tensor<4x40x192xf32>
        %1386 = stablehlo.slice %1385 [0:1, 0:1, 0:1] : (tensor<4x40x192xf32>) -> tensor<1x1x1xf32>
        %c_402 = stablehlo.constant dense<0> : tensor<i32>
        %1387 = stablehlo.compare GE, %1341#18, %c_402, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_403 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1388 = stablehlo.broadcast_in_dim %cst_403, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %1389 = func.call @_where(%1387, %1386, %1388) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_404 = stablehlo.constant dense<0> : tensor<i32>
        %c_405 = stablehlo.constant dense<0> : tensor<i32>
        %c_406 = stablehlo.constant dense<0> : tensor<i32>
        %1390 = stablehlo.dynamic_update_slice %1385, %1389, %c_404, %c_405, %c_406 : (tensor<4x40x192xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x40x192xf32>
        %1391 = "stablehlo.all_gather"(%1390) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x40x192xf32>) -> tensor<4x80x192xf32>
        %1392 = stablehlo.reshape %1391 : (tensor<4x80x192xf32>) -> tensor<320x192xf32>
        %1393 = stablehlo.dot_general %1392, %arg129, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<320x192xf32>, tensor<192x48xf32>) -> tensor<320x48xf32>
        %1394 = stablehlo.reshape %1393 : (tensor<320x48xf32>) -> tensor<4x80x48xf32>
        %1395 = stablehlo.broadcast_in_dim %arg128, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
        %1396 = stablehlo.broadcast_in_dim %1395, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<4x80x48xf32>
        %1397 = stablehlo.add %1394, %1396 : tensor<4x80x48xf32>
        %1398 = stablehlo.multiply %1397, %1397 : tensor<4x80x48xf32>
        %1399 = stablehlo.multiply %1398, %1397 : tensor<4x80x48xf32>
        %cst_407 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
        %1400 = stablehlo.broadcast_in_dim %cst_407, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %1401 = stablehlo.multiply %1400, %1399 : tensor<4x80x48xf32>
        %1402 = stablehlo.add %1397, %1401 : tensor<4x80x48xf32>
        %cst_408 = stablehlo.constant dense<0.797884583> : tensor<f32>
        %1403 = stablehlo.broadcast_in_dim %cst_408, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %1404 = stablehlo.multiply %1403, %1402 : tensor<4x80x48xf32>
        %1405 = stablehlo.tanh %1404 : tensor<4x80x48xf32>
        %cst_409 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %1406 = stablehlo.broadcast_in_dim %cst_409, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %1407 = stablehlo.add %1406, %1405 : tensor<4x80x48xf32>
        %cst_410 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
        %1408 = stablehlo.broadcast_in_dim %cst_410, dims = [] : (tensor<f32>) -> tensor<4x80x48xf32>
        %1409 = stablehlo.multiply %1408, %1407 : tensor<4x80x48xf32>
        %1410 = stablehlo.multiply %1397, %1409 : tensor<4x80x48xf32>
        %1411 = stablehlo.reshape %1410 : (tensor<4x80x48xf32>) -> tensor<320x48xf32>
        %1412 = stablehlo.dot_general %1411, %arg131, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<320x48xf32>, tensor<48x96xf32>) -> tensor<320x96xf32>
        %1413 = stablehlo.reshape %1412 : (tensor<320x96xf32>) -> tensor<4x80x96xf32>
        %1414 = stablehlo.slice %1413 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
        %c_411 = stablehlo.constant dense<0> : tensor<i32>
        %1415 = stablehlo.compare GE, %1341#18, %c_411, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_412 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1416 = stablehlo.broadcast_in_dim %cst_412, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %1417 = func.call @_where(%1415, %1414, %1416) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_413 = stablehlo.constant dense<0> : tensor<i32>
        %c_414 = stablehlo.constant dense<0> : tensor<i32>
        %c_415 = stablehlo.constant dense<0> : tensor<i32>
        %1418 = stablehlo.dynamic_update_slice %1413, %1417, %c_413, %c_414, %c_415 : (tensor<4x80x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x80x96xf32>
        %1419 = "stablehlo.reduce_scatter"(%1418) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
          %1435 = stablehlo.add %arg195, %arg196 : tensor<f32>
          stablehlo.return %1435 : tensor<f32>
        }) : (tensor<4x80x96xf32>) -> tensor<4x40x96xf32>
        %1420 = stablehlo.broadcast_in_dim %arg130, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %1421 = stablehlo.broadcast_in_dim %1420, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x40x96xf32>
        %1422 = stablehlo.add %1419, %1421 : tensor<4x40x96xf32>
        %1423 = stablehlo.slice %1391 [0:1, 0:1, 0:1] : (tensor<4x80x192xf32>) -> tensor<1x1x1xf32>
        %1424 = stablehlo.reshape %1423 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_416 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1425 = stablehlo.compare NE, %1424, %cst_416, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %1426 = stablehlo.convert %1425 : (tensor<i1>) -> tensor<i32>
        %c_417 = stablehlo.constant dense<1> : tensor<i32>
        %1427 = stablehlo.or %1426, %c_417 : tensor<i32>
        %1428 = stablehlo.and %1341#18, %1427 : tensor<i32>
        %1429 = stablehlo.slice %1419 [0:1, 0:1, 0:1] : (tensor<4x40x96xf32>) -> tensor<1x1x1xf32>
        %1430 = stablehlo.reshape %1429 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_418 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1431 = stablehlo.compare NE, %1430, %cst_418, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %1432 = stablehlo.convert %1431 : (tensor<i1>) -> tensor<i32>
        %c_419 = stablehlo.constant dense<1> : tensor<i32>
        %1433 = stablehlo.or %1432, %c_419 : tensor<i32>
        %1434 = stablehlo.and %1428, %1433 : tensor<i32>
        stablehlo.return %1434, %1422 : tensor<i32>, tensor<4x40x96xf32>
      }) : (tensor<i32>) -> (tensor<i32>, tensor<4x40x96xf32>)
      %c_30 = stablehlo.constant dense<0> : tensor<i32>
      %55 = stablehlo.broadcast_in_dim %c_30, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %56 = stablehlo.compare GE, %5, %55, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_31 = stablehlo.constant dense<false> : tensor<i1>
      %57 = stablehlo.broadcast_in_dim %c_31, dims = [] : (tensor<i1>) -> tensor<4x312xi1>
      %58 = stablehlo.compare NE, %56, %57, UNSIGNED : (tensor<4x312xi1>, tensor<4x312xi1>) -> tensor<4x312xi1>
      %59 = stablehlo.convert %58 : (tensor<4x312xi1>) -> tensor<4x312xi32>
      %c_32 = stablehlo.constant dense<0> : tensor<i32>
      %60 = stablehlo.reduce(%59 init: %c_32) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x312xi32>, tensor<i32>) -> tensor<i32>
      %c_33 = stablehlo.constant dense<0> : tensor<i32>
      %61 = stablehlo.compare GT, %60, %c_33, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %62 = stablehlo.convert %61 : (tensor<i1>) -> tensor<i32>
      %c_34 = stablehlo.constant dense<0> : tensor<i32>
      %c_35 = stablehlo.constant dense<1> : tensor<i32>
      %63 = stablehlo.clamp %c_34, %62, %c_35 : tensor<i32>
      %64:2 = "stablehlo.case"(%63) ({
        %cst_323 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1143 = stablehlo.broadcast_in_dim %cst_323, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        stablehlo.return %54#0, %1143 : tensor<i32>, tensor<4x156x96xf32>
      }, {
        %1143 = stablehlo.slice %54#1 [0:1, 0:1, 0:1] : (tensor<4x40x96xf32>) -> tensor<1x1x1xf32>
        %c_323 = stablehlo.constant dense<0> : tensor<i32>
        %1144 = stablehlo.compare GE, %54#0, %c_323, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_324 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1145 = stablehlo.broadcast_in_dim %cst_324, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %1146 = func.call @_where(%1144, %1143, %1145) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_325 = stablehlo.constant dense<0> : tensor<i32>
        %c_326 = stablehlo.constant dense<0> : tensor<i32>
        %c_327 = stablehlo.constant dense<0> : tensor<i32>
        %1147 = stablehlo.dynamic_update_slice %54#1, %1146, %c_325, %c_326, %c_327 : (tensor<4x40x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x40x96xf32>
        %1148 = "stablehlo.all_gather"(%1147) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x40x96xf32>) -> tensor<4x80x96xf32>
        %c_328 = stablehlo.constant dense<2> : tensor<ui32>
        %c_329 = stablehlo.constant dense<2> : tensor<ui32>
        %1149 = stablehlo.partition_id : tensor<ui32>
        %1150 = stablehlo.divide %1149, %c_328 : tensor<ui32>
        %1151 = stablehlo.remainder %1150, %c_329 : tensor<ui32>
        %1152 = stablehlo.convert %1151 : (tensor<ui32>) -> tensor<i32>
        %c_330 = stablehlo.constant dense<1> : tensor<i32>
        %1153 = stablehlo.multiply %1152, %c_330 : tensor<i32>
        %c_331 = stablehlo.constant dense<0> : tensor<i32>
        %1154 = stablehlo.add %c_331, %1153 : tensor<i32>
        %c_332 = stablehlo.constant dense<4> : tensor<i32>
        %1155 = stablehlo.multiply %1154, %c_332 : tensor<i32>
        %c_333 = stablehlo.constant dense<80> : tensor<i32>
        %1156 = stablehlo.multiply %1155, %c_333 : tensor<i32>
        %c_334 = stablehlo.constant dense<1> : tensor<ui32>
        %c_335 = stablehlo.constant dense<2> : tensor<ui32>
        %1157 = stablehlo.partition_id : tensor<ui32>
        %1158 = stablehlo.divide %1157, %c_334 : tensor<ui32>
        %1159 = stablehlo.remainder %1158, %c_335 : tensor<ui32>
        %1160 = stablehlo.convert %1159 : (tensor<ui32>) -> tensor<i32>
        %c_336 = stablehlo.constant dense<1> : tensor<i32>
        %1161 = stablehlo.multiply %1160, %c_336 : tensor<i32>
        %c_337 = stablehlo.constant dense<0> : tensor<i32>
        %1162 = stablehlo.add %c_337, %1161 : tensor<i32>
        %c_338 = stablehlo.constant dense<156> : tensor<i32>
        %1163 = stablehlo.multiply %1162, %c_338 : tensor<i32>
        %c_339 = stablehlo.constant dense<0> : tensor<i32>
        %1164 = stablehlo.compare LT, %1163, %c_339, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_340 = stablehlo.constant dense<312> : tensor<i32>
        %1165 = stablehlo.add %1163, %c_340 : tensor<i32>
        %1166 = stablehlo.select %1164, %1165, %1163 : tensor<i1>, tensor<i32>
        %c_341 = stablehlo.constant dense<0> : tensor<i32>
        %1167 = stablehlo.dynamic_slice %5, %c_341, %1166, sizes = [4, 156] : (tensor<4x312xi32>, tensor<i32>, tensor<i32>) -> tensor<4x156xi32>
        %c_342 = stablehlo.constant dense<0> : tensor<i32>
        %1168 = stablehlo.broadcast_in_dim %c_342, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1169 = stablehlo.compare GE, %1167, %1168, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %1170 = stablehlo.broadcast_in_dim %1156, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1171 = stablehlo.subtract %1167, %1170 : tensor<4x156xi32>
        %c_343 = stablehlo.constant dense<320> : tensor<i32>
        %1172 = stablehlo.broadcast_in_dim %c_343, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1173 = stablehlo.select %1169, %1171, %1172 : tensor<4x156xi1>, tensor<4x156xi32>
        %1174 = stablehlo.reshape %1148 : (tensor<4x80x96xf32>) -> tensor<320x96xf32>
        %c_344 = stablehlo.constant dense<0> : tensor<i32>
        %1175 = stablehlo.broadcast_in_dim %c_344, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1176 = stablehlo.compare LT, %1173, %1175, SIGNED : (tensor<4x156xi32>, tensor<4x156xi32>) -> tensor<4x156xi1>
        %c_345 = stablehlo.constant dense<320> : tensor<i32>
        %1177 = stablehlo.broadcast_in_dim %c_345, dims = [] : (tensor<i32>) -> tensor<4x156xi32>
        %1178 = stablehlo.add %1173, %1177 : tensor<4x156xi32>
        %1179 = stablehlo.select %1176, %1178, %1173 : tensor<4x156xi1>, tensor<4x156xi32>
        %1180 = stablehlo.broadcast_in_dim %1179, dims = [0, 1] : (tensor<4x156xi32>) -> tensor<4x156x1xi32>
        %c_346 = stablehlo.constant dense<319> : tensor<1xi32>
        %c_347 = stablehlo.constant dense<0> : tensor<i32>
        %1181 = stablehlo.broadcast_in_dim %c_347, dims = [] : (tensor<i32>) -> tensor<4x156x1xi32>
        %1182 = stablehlo.compare GE, %1180, %1181, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %1183 = stablehlo.broadcast_in_dim %c_346, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
        %1184 = stablehlo.broadcast_in_dim %1183, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x156x1xi32>
        %1185 = stablehlo.compare LE, %1180, %1184, SIGNED : (tensor<4x156x1xi32>, tensor<4x156x1xi32>) -> tensor<4x156x1xi1>
        %1186 = stablehlo.and %1182, %1185 : tensor<4x156x1xi1>
        %c_348 = stablehlo.constant dense<true> : tensor<i1>
        %1187 = stablehlo.reduce(%1186 init: %c_348) applies stablehlo.and across dimensions = [2] : (tensor<4x156x1xi1>, tensor<i1>) -> tensor<4x156xi1>
        %1188 = "stablehlo.gather"(%1174, %1180) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<320x96xf32>, tensor<4x156x1xi32>) -> tensor<4x156x96xf32>
        %1189 = stablehlo.broadcast_in_dim %1187, dims = [0, 1] : (tensor<4x156xi1>) -> tensor<4x156x96xi1>
        %cst_349 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1190 = stablehlo.broadcast_in_dim %cst_349, dims = [] : (tensor<f32>) -> tensor<4x156x96xf32>
        %1191 = stablehlo.select %1189, %1188, %1190 : tensor<4x156x96xi1>, tensor<4x156x96xf32>
        %1192 = stablehlo.slice %1148 [0:1, 0:1, 0:1] : (tensor<4x80x96xf32>) -> tensor<1x1x1xf32>
        %1193 = stablehlo.reshape %1192 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_350 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %1194 = stablehlo.compare NE, %1193, %cst_350, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %1195 = stablehlo.convert %1194 : (tensor<i1>) -> tensor<i32>
        %c_351 = stablehlo.constant dense<1> : tensor<i32>
        %1196 = stablehlo.or %1195, %c_351 : tensor<i32>
        %1197 = stablehlo.and %54#0, %1196 : tensor<i32>
        stablehlo.return %1197, %1191 : tensor<i32>, tensor<4x156x96xf32>
      }) : (tensor<i32>) -> (tensor<i32>, tensor<4x156x96xf32>)
      %65 = stablehlo.add %46#1, %64#1 : tensor<4x156x96xf32>
      %c_36 = stablehlo.constant dense<false> : tensor<i1>
      %66 = stablehlo.broadcast_in_dim %c_36, dims = [] : (tensor<i1>) -> tensor<4x312xi1>
      %c_37 = stablehlo.constant dense<0> : tensor<i32>
      %67 = stablehlo.broadcast_in_dim %c_37, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %68 = stablehlo.compare GE, %5, %67, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %69 = stablehlo.or %66, %68 : tensor<4x312xi1>
      %c_38 = stablehlo.constant dense<0> : tensor<i32>
      %70 = stablehlo.broadcast_in_dim %c_38, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %71 = stablehlo.compare GE, %6, %70, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %72 = stablehlo.or %69, %71 : tensor<4x312xi1>
      %c_39 = stablehlo.constant dense<64> : tensor<i32>
      %73 = stablehlo.broadcast_in_dim %c_39, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %74 = stablehlo.compare LT, %11, %73, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %75 = stablehlo.not %72 : tensor<4x312xi1>
      %76 = stablehlo.and %74, %75 : tensor<4x312xi1>
      %c_40 = stablehlo.constant dense<1> : tensor<ui32>
      %c_41 = stablehlo.constant dense<2> : tensor<ui32>
      %77 = stablehlo.partition_id : tensor<ui32>
      %78 = stablehlo.divide %77, %c_40 : tensor<ui32>
      %79 = stablehlo.remainder %78, %c_41 : tensor<ui32>
      %80 = stablehlo.convert %79 : (tensor<ui32>) -> tensor<i32>
      %c_42 = stablehlo.constant dense<1> : tensor<i32>
      %81 = stablehlo.multiply %80, %c_42 : tensor<i32>
      %c_43 = stablehlo.constant dense<0> : tensor<i32>
      %82 = stablehlo.add %c_43, %81 : tensor<i32>
      %c_44 = stablehlo.constant dense<32> : tensor<i32>
      %83 = stablehlo.multiply %82, %c_44 : tensor<i32>
      %84 = stablehlo.broadcast_in_dim %83, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %85 = stablehlo.subtract %11, %84 : tensor<4x312xi32>
      %c_45 = stablehlo.constant dense<0> : tensor<i32>
      %86 = stablehlo.broadcast_in_dim %c_45, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %87 = stablehlo.compare GE, %85, %86, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_46 = stablehlo.constant dense<32> : tensor<i32>
      %88 = stablehlo.broadcast_in_dim %c_46, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %89 = stablehlo.compare LT, %85, %88, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %90 = stablehlo.and %87, %89 : tensor<4x312xi1>
      %c_47 = stablehlo.constant dense<0> : tensor<i32>
      %91 = stablehlo.broadcast_in_dim %c_47, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %92 = stablehlo.select %90, %85, %91 : tensor<4x312xi1>, tensor<4x312xi32>
      %93 = stablehlo.and %90, %76 : tensor<4x312xi1>
      %94 = stablehlo.broadcast_in_dim %93, dims = [0, 1] : (tensor<4x312xi1>) -> tensor<4x312x1xi1>
      %c_48 = stablehlo.constant dense<0> : tensor<i32>
      %95 = stablehlo.broadcast_in_dim %c_48, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %96 = stablehlo.compare LT, %92, %95, SIGNED : (tensor<4x312xi32>, tensor<4x312xi32>) -> tensor<4x312xi1>
      %c_49 = stablehlo.constant dense<32> : tensor<i32>
      %97 = stablehlo.broadcast_in_dim %c_49, dims = [] : (tensor<i32>) -> tensor<4x312xi32>
      %98 = stablehlo.add %92, %97 : tensor<4x312xi32>
      %99 = stablehlo.select %96, %98, %92 : tensor<4x312xi1>, tensor<4x312xi32>
      %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1] : (tensor<4x312xi32>) -> tensor<4x312x1xi32>
      %101 = "stablehlo.gather"(%arg98, %100) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<32x96xf32>, tensor<4x312x1xi32>) -> tensor<4x312x96xf32>
      %102 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<4x312x1xi1>) -> tensor<4x312x96xi1>
      %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %103 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<4x312x96xf32>
      %104 = stablehlo.select %102, %101, %103 : tensor<4x312x96xi1>, tensor<4x312x96xf32>
      %105 = stablehlo.slice %104 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_51 = stablehlo.constant dense<0> : tensor<i32>
      %106 = stablehlo.compare GE, %64#0, %c_51, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %107 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %108 = func.call @_where(%106, %105, %107) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_53 = stablehlo.constant dense<0> : tensor<i32>
      %c_54 = stablehlo.constant dense<0> : tensor<i32>
      %c_55 = stablehlo.constant dense<0> : tensor<i32>
      %109 = stablehlo.dynamic_update_slice %104, %108, %c_53, %c_54, %c_55 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %110 = "stablehlo.reduce_scatter"(%109) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %111 = stablehlo.add %110, %65 : tensor<4x156x96xf32>
      %112 = stablehlo.slice %111 [0:4, 0:156, 0:96] : (tensor<4x156x96xf32>) -> tensor<4x156x96xf32>
      %113 = stablehlo.iota dim = 0 : tensor<12xf32>
      %cst_56 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %114 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %115 = stablehlo.multiply %114, %113 : tensor<12xf32>
      %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %116 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %117 = stablehlo.add %116, %115 : tensor<12xf32>
      %118 = stablehlo.negate %117 : tensor<12xf32>
      %cst_58 = stablehlo.constant dense<2.400000e+01> : tensor<f32>
      %119 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %120 = stablehlo.divide %118, %119 : tensor<12xf32>
      %cst_59 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
      %121 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %122 = stablehlo.power %121, %120 : tensor<12xf32>
      %123 = stablehlo.convert %8 : (tensor<4x312xi32>) -> tensor<4x312xf32>
      %124 = stablehlo.broadcast_in_dim %123, dims = [0, 1] : (tensor<4x312xf32>) -> tensor<4x312x1x1xf32>
      %125 = stablehlo.broadcast_in_dim %122, dims = [3] : (tensor<12xf32>) -> tensor<1x1x1x12xf32>
      %126 = stablehlo.broadcast_in_dim %124, dims = [0, 1, 2, 3] : (tensor<4x312x1x1xf32>) -> tensor<4x312x1x12xf32>
      %127 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2, 3] : (tensor<1x1x1x12xf32>) -> tensor<4x312x1x12xf32>
      %128 = stablehlo.multiply %126, %127 : tensor<4x312x1x12xf32>
      %129 = stablehlo.cosine %128 : tensor<4x312x1x12xf32>
      %130 = stablehlo.sine %128 : tensor<4x312x1x12xf32>
      %131 = stablehlo.broadcast_in_dim %arg99, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %132 = chlo.square %112 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %133 = stablehlo.reduce(%132 init: %cst_60) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_61 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %135 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %136 = stablehlo.divide %134, %135 : tensor<4x156x1xf32>
      %cst_62 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %137 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %138 = stablehlo.add %136, %137 : tensor<4x156x1xf32>
      %139 = stablehlo.rsqrt %138 : tensor<4x156x1xf32>
      %140 = stablehlo.broadcast_in_dim %139, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %141 = stablehlo.multiply %112, %140 : tensor<4x156x96xf32>
      %142 = stablehlo.broadcast_in_dim %131, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %143 = stablehlo.multiply %141, %142 : tensor<4x156x96xf32>
      %144 = stablehlo.slice %143 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_63 = stablehlo.constant dense<0> : tensor<i32>
      %145 = stablehlo.compare GE, %64#0, %c_63, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %146 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %147 = func.call @_where(%145, %144, %146) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_65 = stablehlo.constant dense<0> : tensor<i32>
      %c_66 = stablehlo.constant dense<0> : tensor<i32>
      %c_67 = stablehlo.constant dense<0> : tensor<i32>
      %148 = stablehlo.dynamic_update_slice %143, %147, %c_65, %c_66, %c_67 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %149 = "stablehlo.all_gather"(%148) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %150 = stablehlo.reshape %149 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %151 = stablehlo.reshape %arg106 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %152 = stablehlo.dot_general %150, %151, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %153 = stablehlo.reshape %152 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %154 = stablehlo.reshape %149 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %155 = stablehlo.reshape %arg104 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %156 = stablehlo.dot_general %154, %155, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %157 = stablehlo.reshape %156 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %158 = stablehlo.reshape %149 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %159 = stablehlo.reshape %arg107 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %160 = stablehlo.dot_general %158, %159, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %161 = stablehlo.reshape %160 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %162 = stablehlo.slice %153 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %163 = stablehlo.slice %153 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %164 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %165 = stablehlo.multiply %162, %164 : tensor<4x312x2x12xf32>
      %166 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %167 = stablehlo.multiply %163, %166 : tensor<4x312x2x12xf32>
      %168 = stablehlo.subtract %165, %167 : tensor<4x312x2x12xf32>
      %169 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %170 = stablehlo.multiply %163, %169 : tensor<4x312x2x12xf32>
      %171 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %172 = stablehlo.multiply %162, %171 : tensor<4x312x2x12xf32>
      %173 = stablehlo.add %170, %172 : tensor<4x312x2x12xf32>
      %174 = stablehlo.concatenate %168, %173, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
      %175 = stablehlo.slice %157 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %176 = stablehlo.slice %157 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %177 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %178 = stablehlo.multiply %175, %177 : tensor<4x312x2x12xf32>
      %179 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %180 = stablehlo.multiply %176, %179 : tensor<4x312x2x12xf32>
      %181 = stablehlo.subtract %178, %180 : tensor<4x312x2x12xf32>
      %182 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %183 = stablehlo.multiply %176, %182 : tensor<4x312x2x12xf32>
      %184 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %185 = stablehlo.multiply %175, %184 : tensor<4x312x2x12xf32>
      %186 = stablehlo.add %183, %185 : tensor<4x312x2x12xf32>
      %187 = stablehlo.concatenate %181, %186, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
      %188 = stablehlo.transpose %187, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %c_68 = stablehlo.constant dense<0> : tensor<i32>
      %c_69 = stablehlo.constant dense<0> : tensor<i32>
      %189 = stablehlo.compare LT, %c_68, %c_69, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_70 = stablehlo.constant dense<0> : tensor<i32>
      %c_71 = stablehlo.constant dense<636> : tensor<i32>
      %190 = stablehlo.add %c_70, %c_71 : tensor<i32>
      %c_72 = stablehlo.constant dense<0> : tensor<i32>
      %191 = stablehlo.select %189, %190, %c_72 : tensor<i1>, tensor<i32>
      %c_73 = stablehlo.constant dense<0> : tensor<i32>
      %c_74 = stablehlo.constant dense<0> : tensor<i32>
      %c_75 = stablehlo.constant dense<0> : tensor<i32>
      %192 = stablehlo.dynamic_update_slice %19, %188, %c_73, %c_74, %191, %c_75 : (tensor<4x2x636x24xf32>, tensor<4x2x312x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
      %193 = stablehlo.transpose %161, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %c_76 = stablehlo.constant dense<0> : tensor<i32>
      %c_77 = stablehlo.constant dense<0> : tensor<i32>
      %194 = stablehlo.compare LT, %c_76, %c_77, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_78 = stablehlo.constant dense<0> : tensor<i32>
      %c_79 = stablehlo.constant dense<636> : tensor<i32>
      %195 = stablehlo.add %c_78, %c_79 : tensor<i32>
      %c_80 = stablehlo.constant dense<0> : tensor<i32>
      %196 = stablehlo.select %194, %195, %c_80 : tensor<i1>, tensor<i32>
      %c_81 = stablehlo.constant dense<0> : tensor<i32>
      %c_82 = stablehlo.constant dense<0> : tensor<i32>
      %c_83 = stablehlo.constant dense<0> : tensor<i32>
      %197 = stablehlo.dynamic_update_slice %19, %193, %c_81, %c_82, %196, %c_83 : (tensor<4x2x636x24xf32>, tensor<4x2x312x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
      %cst_84 = stablehlo.constant dense<0.204124153> : tensor<f32>
      %198 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x312x2x24xf32>
      %199 = stablehlo.multiply %174, %198 : tensor<4x312x2x24xf32>
      %200 = stablehlo.transpose %199, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %201 = stablehlo.transpose %187, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %202 = stablehlo.transpose %161, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %203 = stablehlo.slice %9 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %204 = stablehlo.slice %9 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %205 = stablehlo.broadcast_in_dim %203, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %206 = stablehlo.broadcast_in_dim %204, dims = [0, 2] : (tensor<4x64xi32>) -> tensor<4x1x64xi32>
      %207 = stablehlo.broadcast_in_dim %205, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x64xi32>
      %208 = stablehlo.broadcast_in_dim %206, dims = [0, 1, 2] : (tensor<4x1x64xi32>) -> tensor<4x64x64xi32>
      %209 = stablehlo.compare EQ, %207, %208, SIGNED : (tensor<4x64x64xi32>, tensor<4x64x64xi32>) -> tensor<4x64x64xi1>
      %c_85 = stablehlo.constant dense<true> : tensor<i1>
      %210 = stablehlo.broadcast_in_dim %c_85, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
      %211 = func.call @tril(%210) : (tensor<64x64xi1>) -> tensor<64x64xi1>
      %212 = stablehlo.broadcast_in_dim %211, dims = [1, 2] : (tensor<64x64xi1>) -> tensor<1x64x64xi1>
      %213 = stablehlo.broadcast_in_dim %212, dims = [0, 1, 2] : (tensor<1x64x64xi1>) -> tensor<4x64x64xi1>
      %214 = stablehlo.and %209, %213 : tensor<4x64x64xi1>
      %215 = stablehlo.slice %200 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %216 = stablehlo.slice %201 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %217 = stablehlo.slice %202 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %218 = stablehlo.dot_general %215, %216, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x64xf32>
      %219 = stablehlo.broadcast_in_dim %214, dims = [0, 2, 3] : (tensor<4x64x64xi1>) -> tensor<4x1x64x64xi1>
      %220 = stablehlo.broadcast_in_dim %219, dims = [0, 1, 2, 3] : (tensor<4x1x64x64xi1>) -> tensor<4x2x64x64xi1>
      %cst_86 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %221 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<4x2x64x64xf32>
      %222 = stablehlo.select %220, %218, %221 : tensor<4x2x64x64xi1>, tensor<4x2x64x64xf32>
      %cst_87 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %223 = stablehlo.reduce(%222 init: %cst_87) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %224 = stablehlo.broadcast_in_dim %223, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %225 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x64xf32>
      %226 = stablehlo.subtract %222, %225 : tensor<4x2x64x64xf32>
      %227 = stablehlo.exponential %226 : tensor<4x2x64x64xf32>
      %228 = stablehlo.dot_general %227, %217, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x64xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_88 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %229 = stablehlo.reduce(%227 init: %cst_88) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %230 = stablehlo.broadcast_in_dim %229, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %231 = stablehlo.broadcast_in_dim %230, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %232 = stablehlo.divide %228, %231 : tensor<4x2x64x24xf32>
      %233 = stablehlo.slice %9 [0:4, 64:128] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %234 = stablehlo.slice %9 [0:4, 0:128] : (tensor<4x312xi32>) -> tensor<4x128xi32>
      %235 = stablehlo.broadcast_in_dim %233, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %236 = stablehlo.broadcast_in_dim %234, dims = [0, 2] : (tensor<4x128xi32>) -> tensor<4x1x128xi32>
      %237 = stablehlo.broadcast_in_dim %235, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x128xi32>
      %238 = stablehlo.broadcast_in_dim %236, dims = [0, 1, 2] : (tensor<4x1x128xi32>) -> tensor<4x64x128xi32>
      %239 = stablehlo.compare EQ, %237, %238, SIGNED : (tensor<4x64x128xi32>, tensor<4x64x128xi32>) -> tensor<4x64x128xi1>
      %c_89 = stablehlo.constant dense<true> : tensor<i1>
      %240 = stablehlo.broadcast_in_dim %c_89, dims = [] : (tensor<i1>) -> tensor<64x128xi1>
      %241 = func.call @tril_8(%240) : (tensor<64x128xi1>) -> tensor<64x128xi1>
      %242 = stablehlo.broadcast_in_dim %241, dims = [1, 2] : (tensor<64x128xi1>) -> tensor<1x64x128xi1>
      %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1, 2] : (tensor<1x64x128xi1>) -> tensor<4x64x128xi1>
      %244 = stablehlo.and %239, %243 : tensor<4x64x128xi1>
      %245 = stablehlo.slice %200 [0:4, 0:2, 64:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %246 = stablehlo.slice %201 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
      %247 = stablehlo.slice %202 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
      %248 = stablehlo.dot_general %245, %246, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x128xf32>
      %249 = stablehlo.broadcast_in_dim %244, dims = [0, 2, 3] : (tensor<4x64x128xi1>) -> tensor<4x1x64x128xi1>
      %250 = stablehlo.broadcast_in_dim %249, dims = [0, 1, 2, 3] : (tensor<4x1x64x128xi1>) -> tensor<4x2x64x128xi1>
      %cst_90 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %251 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<4x2x64x128xf32>
      %252 = stablehlo.select %250, %248, %251 : tensor<4x2x64x128xi1>, tensor<4x2x64x128xf32>
      %cst_91 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %253 = stablehlo.reduce(%252 init: %cst_91) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %254 = stablehlo.broadcast_in_dim %253, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %255 = stablehlo.broadcast_in_dim %254, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x128xf32>
      %256 = stablehlo.subtract %252, %255 : tensor<4x2x64x128xf32>
      %257 = stablehlo.exponential %256 : tensor<4x2x64x128xf32>
      %258 = stablehlo.dot_general %257, %247, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x128xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %259 = stablehlo.reduce(%257 init: %cst_92) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %260 = stablehlo.broadcast_in_dim %259, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %261 = stablehlo.broadcast_in_dim %260, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %262 = stablehlo.divide %258, %261 : tensor<4x2x64x24xf32>
      %263 = stablehlo.slice %9 [0:4, 128:192] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %264 = stablehlo.slice %9 [0:4, 0:192] : (tensor<4x312xi32>) -> tensor<4x192xi32>
      %265 = stablehlo.broadcast_in_dim %263, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %266 = stablehlo.broadcast_in_dim %264, dims = [0, 2] : (tensor<4x192xi32>) -> tensor<4x1x192xi32>
      %267 = stablehlo.broadcast_in_dim %265, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x192xi32>
      %268 = stablehlo.broadcast_in_dim %266, dims = [0, 1, 2] : (tensor<4x1x192xi32>) -> tensor<4x64x192xi32>
      %269 = stablehlo.compare EQ, %267, %268, SIGNED : (tensor<4x64x192xi32>, tensor<4x64x192xi32>) -> tensor<4x64x192xi1>
      %c_93 = stablehlo.constant dense<true> : tensor<i1>
      %270 = stablehlo.broadcast_in_dim %c_93, dims = [] : (tensor<i1>) -> tensor<64x192xi1>
      %271 = func.call @tril_9(%270) : (tensor<64x192xi1>) -> tensor<64x192xi1>
      %272 = stablehlo.broadcast_in_dim %271, dims = [1, 2] : (tensor<64x192xi1>) -> tensor<1x64x192xi1>
      %273 = stablehlo.broadcast_in_dim %272, dims = [0, 1, 2] : (tensor<1x64x192xi1>) -> tensor<4x64x192xi1>
      %274 = stablehlo.and %269, %273 : tensor<4x64x192xi1>
      %275 = stablehlo.slice %200 [0:4, 0:2, 128:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %276 = stablehlo.slice %201 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
      %277 = stablehlo.slice %202 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
      %278 = stablehlo.dot_general %275, %276, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x192xf32>
      %279 = stablehlo.broadcast_in_dim %274, dims = [0, 2, 3] : (tensor<4x64x192xi1>) -> tensor<4x1x64x192xi1>
      %280 = stablehlo.broadcast_in_dim %279, dims = [0, 1, 2, 3] : (tensor<4x1x64x192xi1>) -> tensor<4x2x64x192xi1>
      %cst_94 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %281 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<4x2x64x192xf32>
      %282 = stablehlo.select %280, %278, %281 : tensor<4x2x64x192xi1>, tensor<4x2x64x192xf32>
      %cst_95 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %283 = stablehlo.reduce(%282 init: %cst_95) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %284 = stablehlo.broadcast_in_dim %283, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %285 = stablehlo.broadcast_in_dim %284, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x192xf32>
      %286 = stablehlo.subtract %282, %285 : tensor<4x2x64x192xf32>
      %287 = stablehlo.exponential %286 : tensor<4x2x64x192xf32>
      %288 = stablehlo.dot_general %287, %277, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x192xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %289 = stablehlo.reduce(%287 init: %cst_96) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %290 = stablehlo.broadcast_in_dim %289, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %291 = stablehlo.broadcast_in_dim %290, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %292 = stablehlo.divide %288, %291 : tensor<4x2x64x24xf32>
      %293 = stablehlo.slice %9 [0:4, 192:256] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %294 = stablehlo.slice %9 [0:4, 0:256] : (tensor<4x312xi32>) -> tensor<4x256xi32>
      %295 = stablehlo.broadcast_in_dim %293, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %296 = stablehlo.broadcast_in_dim %294, dims = [0, 2] : (tensor<4x256xi32>) -> tensor<4x1x256xi32>
      %297 = stablehlo.broadcast_in_dim %295, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x256xi32>
      %298 = stablehlo.broadcast_in_dim %296, dims = [0, 1, 2] : (tensor<4x1x256xi32>) -> tensor<4x64x256xi32>
      %299 = stablehlo.compare EQ, %297, %298, SIGNED : (tensor<4x64x256xi32>, tensor<4x64x256xi32>) -> tensor<4x64x256xi1>
      %c_97 = stablehlo.constant dense<true> : tensor<i1>
      %300 = stablehlo.broadcast_in_dim %c_97, dims = [] : (tensor<i1>) -> tensor<64x256xi1>
      %301 = func.call @tril_10(%300) : (tensor<64x256xi1>) -> tensor<64x256xi1>
      %302 = stablehlo.broadcast_in_dim %301, dims = [1, 2] : (tensor<64x256xi1>) -> tensor<1x64x256xi1>
      %303 = stablehlo.broadcast_in_dim %302, dims = [0, 1, 2] : (tensor<1x64x256xi1>) -> tensor<4x64x256xi1>
      %304 = stablehlo.and %299, %303 : tensor<4x64x256xi1>
      %305 = stablehlo.slice %200 [0:4, 0:2, 192:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %306 = stablehlo.slice %201 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
      %307 = stablehlo.slice %202 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
      %308 = stablehlo.dot_general %305, %306, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x256xf32>
      %309 = stablehlo.broadcast_in_dim %304, dims = [0, 2, 3] : (tensor<4x64x256xi1>) -> tensor<4x1x64x256xi1>
      %310 = stablehlo.broadcast_in_dim %309, dims = [0, 1, 2, 3] : (tensor<4x1x64x256xi1>) -> tensor<4x2x64x256xi1>
      %cst_98 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %311 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<4x2x64x256xf32>
      %312 = stablehlo.select %310, %308, %311 : tensor<4x2x64x256xi1>, tensor<4x2x64x256xf32>
      %cst_99 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %313 = stablehlo.reduce(%312 init: %cst_99) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %314 = stablehlo.broadcast_in_dim %313, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %315 = stablehlo.broadcast_in_dim %314, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x256xf32>
      %316 = stablehlo.subtract %312, %315 : tensor<4x2x64x256xf32>
      %317 = stablehlo.exponential %316 : tensor<4x2x64x256xf32>
      %318 = stablehlo.dot_general %317, %307, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x256xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %319 = stablehlo.reduce(%317 init: %cst_100) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %320 = stablehlo.broadcast_in_dim %319, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %321 = stablehlo.broadcast_in_dim %320, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %322 = stablehlo.divide %318, %321 : tensor<4x2x64x24xf32>
      %323 = stablehlo.slice %9 [0:4, 256:312] : (tensor<4x312xi32>) -> tensor<4x56xi32>
      %324 = stablehlo.broadcast_in_dim %323, dims = [0, 1] : (tensor<4x56xi32>) -> tensor<4x56x1xi32>
      %325 = stablehlo.broadcast_in_dim %9, dims = [0, 2] : (tensor<4x312xi32>) -> tensor<4x1x312xi32>
      %326 = stablehlo.broadcast_in_dim %324, dims = [0, 1, 2] : (tensor<4x56x1xi32>) -> tensor<4x56x312xi32>
      %327 = stablehlo.broadcast_in_dim %325, dims = [0, 1, 2] : (tensor<4x1x312xi32>) -> tensor<4x56x312xi32>
      %328 = stablehlo.compare EQ, %326, %327, SIGNED : (tensor<4x56x312xi32>, tensor<4x56x312xi32>) -> tensor<4x56x312xi1>
      %c_101 = stablehlo.constant dense<true> : tensor<i1>
      %329 = stablehlo.broadcast_in_dim %c_101, dims = [] : (tensor<i1>) -> tensor<56x312xi1>
      %330 = func.call @tril_11(%329) : (tensor<56x312xi1>) -> tensor<56x312xi1>
      %331 = stablehlo.broadcast_in_dim %330, dims = [1, 2] : (tensor<56x312xi1>) -> tensor<1x56x312xi1>
      %332 = stablehlo.broadcast_in_dim %331, dims = [0, 1, 2] : (tensor<1x56x312xi1>) -> tensor<4x56x312xi1>
      %333 = stablehlo.and %328, %332 : tensor<4x56x312xi1>
      %334 = stablehlo.slice %200 [0:4, 0:2, 256:312, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
      %335 = stablehlo.dot_general %334, %201, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x24xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x312xf32>
      %336 = stablehlo.broadcast_in_dim %333, dims = [0, 2, 3] : (tensor<4x56x312xi1>) -> tensor<4x1x56x312xi1>
      %337 = stablehlo.broadcast_in_dim %336, dims = [0, 1, 2, 3] : (tensor<4x1x56x312xi1>) -> tensor<4x2x56x312xi1>
      %cst_102 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %338 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<4x2x56x312xf32>
      %339 = stablehlo.select %337, %335, %338 : tensor<4x2x56x312xi1>, tensor<4x2x56x312xf32>
      %cst_103 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %340 = stablehlo.reduce(%339 init: %cst_103) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
      %341 = stablehlo.broadcast_in_dim %340, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
      %342 = stablehlo.broadcast_in_dim %341, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x312xf32>
      %343 = stablehlo.subtract %339, %342 : tensor<4x2x56x312xf32>
      %344 = stablehlo.exponential %343 : tensor<4x2x56x312xf32>
      %345 = stablehlo.dot_general %344, %202, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x312xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
      %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %346 = stablehlo.reduce(%344 init: %cst_104) applies stablehlo.add across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
      %347 = stablehlo.broadcast_in_dim %346, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
      %348 = stablehlo.broadcast_in_dim %347, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x24xf32>
      %349 = stablehlo.divide %345, %348 : tensor<4x2x56x24xf32>
      %350 = stablehlo.concatenate %232, %262, %292, %322, %349, dim = 2 : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x56x24xf32>) -> tensor<4x2x312x24xf32>
      %351 = stablehlo.transpose %350, dims = [0, 2, 1, 3] : (tensor<4x2x312x24xf32>) -> tensor<4x312x2x24xf32>
      %352 = stablehlo.reshape %351 : (tensor<4x312x2x24xf32>) -> tensor<1248x48xf32>
      %353 = stablehlo.reshape %arg105 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
      %354 = stablehlo.dot_general %352, %353, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x48xf32>, tensor<48x96xf32>) -> tensor<1248x96xf32>
      %355 = stablehlo.reshape %354 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
      %356 = stablehlo.slice %355 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_105 = stablehlo.constant dense<0> : tensor<i32>
      %357 = stablehlo.compare GE, %64#0, %c_105, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_106 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %358 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %359 = func.call @_where(%357, %356, %358) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_107 = stablehlo.constant dense<0> : tensor<i32>
      %c_108 = stablehlo.constant dense<0> : tensor<i32>
      %c_109 = stablehlo.constant dense<0> : tensor<i32>
      %360 = stablehlo.dynamic_update_slice %355, %359, %c_107, %c_108, %c_109 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %361 = "stablehlo.reduce_scatter"(%360) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %362 = stablehlo.add %112, %361 : tensor<4x156x96xf32>
      %363 = stablehlo.broadcast_in_dim %arg103, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %364 = chlo.square %362 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_110 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %365 = stablehlo.reduce(%364 init: %cst_110) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %366 = stablehlo.broadcast_in_dim %365, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_111 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %367 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %368 = stablehlo.divide %366, %367 : tensor<4x156x1xf32>
      %cst_112 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %369 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %370 = stablehlo.add %368, %369 : tensor<4x156x1xf32>
      %371 = stablehlo.rsqrt %370 : tensor<4x156x1xf32>
      %372 = stablehlo.broadcast_in_dim %371, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %373 = stablehlo.multiply %362, %372 : tensor<4x156x96xf32>
      %374 = stablehlo.broadcast_in_dim %363, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %375 = stablehlo.multiply %373, %374 : tensor<4x156x96xf32>
      %376 = stablehlo.slice %375 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_113 = stablehlo.constant dense<0> : tensor<i32>
      %377 = stablehlo.compare GE, %64#0, %c_113, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_114 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %378 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %379 = func.call @_where(%377, %376, %378) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_115 = stablehlo.constant dense<0> : tensor<i32>
      %c_116 = stablehlo.constant dense<0> : tensor<i32>
      %c_117 = stablehlo.constant dense<0> : tensor<i32>
      %380 = stablehlo.dynamic_update_slice %375, %379, %c_115, %c_116, %c_117 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %381 = "stablehlo.all_gather"(%380) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %382 = stablehlo.reshape %381 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %383 = stablehlo.dot_general %382, %arg101, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
      %384 = stablehlo.reshape %383 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
      %385 = stablehlo.reshape %381 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %386 = stablehlo.dot_general %385, %arg102, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
      %387 = stablehlo.reshape %386 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
      %388 = stablehlo.negate %384 : tensor<4x312x128xf32>
      %389 = stablehlo.exponential %388 : tensor<4x312x128xf32>
      %cst_118 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %390 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
      %391 = stablehlo.add %390, %389 : tensor<4x312x128xf32>
      %cst_119 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %392 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
      %393 = stablehlo.divide %392, %391 : tensor<4x312x128xf32>
      %394 = stablehlo.multiply %384, %393 : tensor<4x312x128xf32>
      %395 = stablehlo.multiply %394, %387 : tensor<4x312x128xf32>
      %396 = stablehlo.reshape %395 : (tensor<4x312x128xf32>) -> tensor<1248x128xf32>
      %397 = stablehlo.dot_general %396, %arg100, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x128xf32>, tensor<128x96xf32>) -> tensor<1248x96xf32>
      %398 = stablehlo.reshape %397 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
      %399 = stablehlo.slice %398 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_120 = stablehlo.constant dense<0> : tensor<i32>
      %400 = stablehlo.compare GE, %64#0, %c_120, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %401 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %402 = func.call @_where(%400, %399, %401) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_122 = stablehlo.constant dense<0> : tensor<i32>
      %c_123 = stablehlo.constant dense<0> : tensor<i32>
      %c_124 = stablehlo.constant dense<0> : tensor<i32>
      %403 = stablehlo.dynamic_update_slice %398, %402, %c_122, %c_123, %c_124 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %404 = "stablehlo.reduce_scatter"(%403) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %405 = stablehlo.add %362, %404 : tensor<4x156x96xf32>
      %406 = stablehlo.broadcast_in_dim %arg108, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %407 = chlo.square %405 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %408 = stablehlo.reduce(%407 init: %cst_125) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %409 = stablehlo.broadcast_in_dim %408, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_126 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %410 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %411 = stablehlo.divide %409, %410 : tensor<4x156x1xf32>
      %cst_127 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %412 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %413 = stablehlo.add %411, %412 : tensor<4x156x1xf32>
      %414 = stablehlo.rsqrt %413 : tensor<4x156x1xf32>
      %415 = stablehlo.broadcast_in_dim %414, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %416 = stablehlo.multiply %405, %415 : tensor<4x156x96xf32>
      %417 = stablehlo.broadcast_in_dim %406, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %418 = stablehlo.multiply %416, %417 : tensor<4x156x96xf32>
      %419 = stablehlo.slice %418 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_128 = stablehlo.constant dense<0> : tensor<i32>
      %420 = stablehlo.compare GE, %64#0, %c_128, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_129 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %421 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %422 = func.call @_where(%420, %419, %421) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_130 = stablehlo.constant dense<0> : tensor<i32>
      %c_131 = stablehlo.constant dense<0> : tensor<i32>
      %c_132 = stablehlo.constant dense<0> : tensor<i32>
      %423 = stablehlo.dynamic_update_slice %418, %422, %c_130, %c_131, %c_132 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %424 = "stablehlo.all_gather"(%423) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %425 = stablehlo.reshape %424 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %426 = stablehlo.reshape %arg115 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %427 = stablehlo.dot_general %425, %426, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %428 = stablehlo.reshape %427 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %429 = stablehlo.reshape %424 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %430 = stablehlo.reshape %arg113 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %431 = stablehlo.dot_general %429, %430, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %432 = stablehlo.reshape %431 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %433 = stablehlo.reshape %424 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %434 = stablehlo.reshape %arg116 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %435 = stablehlo.dot_general %433, %434, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %436 = stablehlo.reshape %435 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %437 = stablehlo.slice %428 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %438 = stablehlo.slice %428 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %439 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %440 = stablehlo.multiply %437, %439 : tensor<4x312x2x12xf32>
      %441 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %442 = stablehlo.multiply %438, %441 : tensor<4x312x2x12xf32>
      %443 = stablehlo.subtract %440, %442 : tensor<4x312x2x12xf32>
      %444 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %445 = stablehlo.multiply %438, %444 : tensor<4x312x2x12xf32>
      %446 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %447 = stablehlo.multiply %437, %446 : tensor<4x312x2x12xf32>
      %448 = stablehlo.add %445, %447 : tensor<4x312x2x12xf32>
      %449 = stablehlo.concatenate %443, %448, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
      %450 = stablehlo.slice %432 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %451 = stablehlo.slice %432 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %452 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %453 = stablehlo.multiply %450, %452 : tensor<4x312x2x12xf32>
      %454 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %455 = stablehlo.multiply %451, %454 : tensor<4x312x2x12xf32>
      %456 = stablehlo.subtract %453, %455 : tensor<4x312x2x12xf32>
      %457 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %458 = stablehlo.multiply %451, %457 : tensor<4x312x2x12xf32>
      %459 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %460 = stablehlo.multiply %450, %459 : tensor<4x312x2x12xf32>
      %461 = stablehlo.add %458, %460 : tensor<4x312x2x12xf32>
      %462 = stablehlo.concatenate %456, %461, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
      %463 = stablehlo.transpose %462, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %c_133 = stablehlo.constant dense<0> : tensor<i32>
      %c_134 = stablehlo.constant dense<0> : tensor<i32>
      %464 = stablehlo.compare LT, %c_133, %c_134, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_135 = stablehlo.constant dense<0> : tensor<i32>
      %c_136 = stablehlo.constant dense<636> : tensor<i32>
      %465 = stablehlo.add %c_135, %c_136 : tensor<i32>
      %c_137 = stablehlo.constant dense<0> : tensor<i32>
      %466 = stablehlo.select %464, %465, %c_137 : tensor<i1>, tensor<i32>
      %c_138 = stablehlo.constant dense<0> : tensor<i32>
      %c_139 = stablehlo.constant dense<0> : tensor<i32>
      %c_140 = stablehlo.constant dense<0> : tensor<i32>
      %467 = stablehlo.dynamic_update_slice %19, %463, %c_138, %c_139, %466, %c_140 : (tensor<4x2x636x24xf32>, tensor<4x2x312x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
      %468 = stablehlo.transpose %436, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %c_141 = stablehlo.constant dense<0> : tensor<i32>
      %c_142 = stablehlo.constant dense<0> : tensor<i32>
      %469 = stablehlo.compare LT, %c_141, %c_142, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_143 = stablehlo.constant dense<0> : tensor<i32>
      %c_144 = stablehlo.constant dense<636> : tensor<i32>
      %470 = stablehlo.add %c_143, %c_144 : tensor<i32>
      %c_145 = stablehlo.constant dense<0> : tensor<i32>
      %471 = stablehlo.select %469, %470, %c_145 : tensor<i1>, tensor<i32>
      %c_146 = stablehlo.constant dense<0> : tensor<i32>
      %c_147 = stablehlo.constant dense<0> : tensor<i32>
      %c_148 = stablehlo.constant dense<0> : tensor<i32>
      %472 = stablehlo.dynamic_update_slice %19, %468, %c_146, %c_147, %471, %c_148 : (tensor<4x2x636x24xf32>, tensor<4x2x312x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
      %cst_149 = stablehlo.constant dense<0.204124153> : tensor<f32>
      %473 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<4x312x2x24xf32>
      %474 = stablehlo.multiply %449, %473 : tensor<4x312x2x24xf32>
      %475 = stablehlo.transpose %474, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %476 = stablehlo.transpose %462, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %477 = stablehlo.transpose %436, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %478 = stablehlo.slice %9 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %479 = stablehlo.slice %9 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %480 = stablehlo.broadcast_in_dim %478, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %481 = stablehlo.broadcast_in_dim %479, dims = [0, 2] : (tensor<4x64xi32>) -> tensor<4x1x64xi32>
      %482 = stablehlo.broadcast_in_dim %480, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x64xi32>
      %483 = stablehlo.broadcast_in_dim %481, dims = [0, 1, 2] : (tensor<4x1x64xi32>) -> tensor<4x64x64xi32>
      %484 = stablehlo.compare EQ, %482, %483, SIGNED : (tensor<4x64x64xi32>, tensor<4x64x64xi32>) -> tensor<4x64x64xi1>
      %c_150 = stablehlo.constant dense<true> : tensor<i1>
      %485 = stablehlo.broadcast_in_dim %c_150, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
      %486 = func.call @tril(%485) : (tensor<64x64xi1>) -> tensor<64x64xi1>
      %487 = stablehlo.broadcast_in_dim %486, dims = [1, 2] : (tensor<64x64xi1>) -> tensor<1x64x64xi1>
      %488 = stablehlo.broadcast_in_dim %487, dims = [0, 1, 2] : (tensor<1x64x64xi1>) -> tensor<4x64x64xi1>
      %489 = stablehlo.and %484, %488 : tensor<4x64x64xi1>
      %490 = stablehlo.slice %475 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %491 = stablehlo.slice %476 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %492 = stablehlo.slice %477 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %493 = stablehlo.dot_general %490, %491, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x64xf32>
      %494 = stablehlo.broadcast_in_dim %489, dims = [0, 2, 3] : (tensor<4x64x64xi1>) -> tensor<4x1x64x64xi1>
      %495 = stablehlo.broadcast_in_dim %494, dims = [0, 1, 2, 3] : (tensor<4x1x64x64xi1>) -> tensor<4x2x64x64xi1>
      %cst_151 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %496 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<4x2x64x64xf32>
      %497 = stablehlo.select %495, %493, %496 : tensor<4x2x64x64xi1>, tensor<4x2x64x64xf32>
      %cst_152 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %498 = stablehlo.reduce(%497 init: %cst_152) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %499 = stablehlo.broadcast_in_dim %498, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %500 = stablehlo.broadcast_in_dim %499, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x64xf32>
      %501 = stablehlo.subtract %497, %500 : tensor<4x2x64x64xf32>
      %502 = stablehlo.exponential %501 : tensor<4x2x64x64xf32>
      %503 = stablehlo.dot_general %502, %492, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x64xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_153 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %504 = stablehlo.reduce(%502 init: %cst_153) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %505 = stablehlo.broadcast_in_dim %504, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %506 = stablehlo.broadcast_in_dim %505, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %507 = stablehlo.divide %503, %506 : tensor<4x2x64x24xf32>
      %508 = stablehlo.slice %9 [0:4, 64:128] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %509 = stablehlo.slice %9 [0:4, 0:128] : (tensor<4x312xi32>) -> tensor<4x128xi32>
      %510 = stablehlo.broadcast_in_dim %508, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %511 = stablehlo.broadcast_in_dim %509, dims = [0, 2] : (tensor<4x128xi32>) -> tensor<4x1x128xi32>
      %512 = stablehlo.broadcast_in_dim %510, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x128xi32>
      %513 = stablehlo.broadcast_in_dim %511, dims = [0, 1, 2] : (tensor<4x1x128xi32>) -> tensor<4x64x128xi32>
      %514 = stablehlo.compare EQ, %512, %513, SIGNED : (tensor<4x64x128xi32>, tensor<4x64x128xi32>) -> tensor<4x64x128xi1>
      %c_154 = stablehlo.constant dense<true> : tensor<i1>
      %515 = stablehlo.broadcast_in_dim %c_154, dims = [] : (tensor<i1>) -> tensor<64x128xi1>
      %516 = func.call @tril_8(%515) : (tensor<64x128xi1>) -> tensor<64x128xi1>
      %517 = stablehlo.broadcast_in_dim %516, dims = [1, 2] : (tensor<64x128xi1>) -> tensor<1x64x128xi1>
      %518 = stablehlo.broadcast_in_dim %517, dims = [0, 1, 2] : (tensor<1x64x128xi1>) -> tensor<4x64x128xi1>
      %519 = stablehlo.and %514, %518 : tensor<4x64x128xi1>
      %520 = stablehlo.slice %475 [0:4, 0:2, 64:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %521 = stablehlo.slice %476 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
      %522 = stablehlo.slice %477 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
      %523 = stablehlo.dot_general %520, %521, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x128xf32>
      %524 = stablehlo.broadcast_in_dim %519, dims = [0, 2, 3] : (tensor<4x64x128xi1>) -> tensor<4x1x64x128xi1>
      %525 = stablehlo.broadcast_in_dim %524, dims = [0, 1, 2, 3] : (tensor<4x1x64x128xi1>) -> tensor<4x2x64x128xi1>
      %cst_155 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %526 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<4x2x64x128xf32>
      %527 = stablehlo.select %525, %523, %526 : tensor<4x2x64x128xi1>, tensor<4x2x64x128xf32>
      %cst_156 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %528 = stablehlo.reduce(%527 init: %cst_156) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %529 = stablehlo.broadcast_in_dim %528, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %530 = stablehlo.broadcast_in_dim %529, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x128xf32>
      %531 = stablehlo.subtract %527, %530 : tensor<4x2x64x128xf32>
      %532 = stablehlo.exponential %531 : tensor<4x2x64x128xf32>
      %533 = stablehlo.dot_general %532, %522, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x128xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_157 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %534 = stablehlo.reduce(%532 init: %cst_157) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %535 = stablehlo.broadcast_in_dim %534, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %536 = stablehlo.broadcast_in_dim %535, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %537 = stablehlo.divide %533, %536 : tensor<4x2x64x24xf32>
      %538 = stablehlo.slice %9 [0:4, 128:192] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %539 = stablehlo.slice %9 [0:4, 0:192] : (tensor<4x312xi32>) -> tensor<4x192xi32>
      %540 = stablehlo.broadcast_in_dim %538, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %541 = stablehlo.broadcast_in_dim %539, dims = [0, 2] : (tensor<4x192xi32>) -> tensor<4x1x192xi32>
      %542 = stablehlo.broadcast_in_dim %540, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x192xi32>
      %543 = stablehlo.broadcast_in_dim %541, dims = [0, 1, 2] : (tensor<4x1x192xi32>) -> tensor<4x64x192xi32>
      %544 = stablehlo.compare EQ, %542, %543, SIGNED : (tensor<4x64x192xi32>, tensor<4x64x192xi32>) -> tensor<4x64x192xi1>
      %c_158 = stablehlo.constant dense<true> : tensor<i1>
      %545 = stablehlo.broadcast_in_dim %c_158, dims = [] : (tensor<i1>) -> tensor<64x192xi1>
      %546 = func.call @tril_9(%545) : (tensor<64x192xi1>) -> tensor<64x192xi1>
      %547 = stablehlo.broadcast_in_dim %546, dims = [1, 2] : (tensor<64x192xi1>) -> tensor<1x64x192xi1>
      %548 = stablehlo.broadcast_in_dim %547, dims = [0, 1, 2] : (tensor<1x64x192xi1>) -> tensor<4x64x192xi1>
      %549 = stablehlo.and %544, %548 : tensor<4x64x192xi1>
      %550 = stablehlo.slice %475 [0:4, 0:2, 128:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %551 = stablehlo.slice %476 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
      %552 = stablehlo.slice %477 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
      %553 = stablehlo.dot_general %550, %551, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x192xf32>
      %554 = stablehlo.broadcast_in_dim %549, dims = [0, 2, 3] : (tensor<4x64x192xi1>) -> tensor<4x1x64x192xi1>
      %555 = stablehlo.broadcast_in_dim %554, dims = [0, 1, 2, 3] : (tensor<4x1x64x192xi1>) -> tensor<4x2x64x192xi1>
      %cst_159 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %556 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<4x2x64x192xf32>
      %557 = stablehlo.select %555, %553, %556 : tensor<4x2x64x192xi1>, tensor<4x2x64x192xf32>
      %cst_160 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %558 = stablehlo.reduce(%557 init: %cst_160) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %559 = stablehlo.broadcast_in_dim %558, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %560 = stablehlo.broadcast_in_dim %559, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x192xf32>
      %561 = stablehlo.subtract %557, %560 : tensor<4x2x64x192xf32>
      %562 = stablehlo.exponential %561 : tensor<4x2x64x192xf32>
      %563 = stablehlo.dot_general %562, %552, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x192xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_161 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %564 = stablehlo.reduce(%562 init: %cst_161) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %565 = stablehlo.broadcast_in_dim %564, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %566 = stablehlo.broadcast_in_dim %565, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %567 = stablehlo.divide %563, %566 : tensor<4x2x64x24xf32>
      %568 = stablehlo.slice %9 [0:4, 192:256] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %569 = stablehlo.slice %9 [0:4, 0:256] : (tensor<4x312xi32>) -> tensor<4x256xi32>
      %570 = stablehlo.broadcast_in_dim %568, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %571 = stablehlo.broadcast_in_dim %569, dims = [0, 2] : (tensor<4x256xi32>) -> tensor<4x1x256xi32>
      %572 = stablehlo.broadcast_in_dim %570, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x256xi32>
      %573 = stablehlo.broadcast_in_dim %571, dims = [0, 1, 2] : (tensor<4x1x256xi32>) -> tensor<4x64x256xi32>
      %574 = stablehlo.compare EQ, %572, %573, SIGNED : (tensor<4x64x256xi32>, tensor<4x64x256xi32>) -> tensor<4x64x256xi1>
      %c_162 = stablehlo.constant dense<true> : tensor<i1>
      %575 = stablehlo.broadcast_in_dim %c_162, dims = [] : (tensor<i1>) -> tensor<64x256xi1>
      %576 = func.call @tril_10(%575) : (tensor<64x256xi1>) -> tensor<64x256xi1>
      %577 = stablehlo.broadcast_in_dim %576, dims = [1, 2] : (tensor<64x256xi1>) -> tensor<1x64x256xi1>
      %578 = stablehlo.broadcast_in_dim %577, dims = [0, 1, 2] : (tensor<1x64x256xi1>) -> tensor<4x64x256xi1>
      %579 = stablehlo.and %574, %578 : tensor<4x64x256xi1>
      %580 = stablehlo.slice %475 [0:4, 0:2, 192:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %581 = stablehlo.slice %476 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
      %582 = stablehlo.slice %477 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
      %583 = stablehlo.dot_general %580, %581, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x256xf32>
      %584 = stablehlo.broadcast_in_dim %579, dims = [0, 2, 3] : (tensor<4x64x256xi1>) -> tensor<4x1x64x256xi1>
      %585 = stablehlo.broadcast_in_dim %584, dims = [0, 1, 2, 3] : (tensor<4x1x64x256xi1>) -> tensor<4x2x64x256xi1>
      %cst_163 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %586 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<4x2x64x256xf32>
      %587 = stablehlo.select %585, %583, %586 : tensor<4x2x64x256xi1>, tensor<4x2x64x256xf32>
      %cst_164 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %588 = stablehlo.reduce(%587 init: %cst_164) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %589 = stablehlo.broadcast_in_dim %588, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %590 = stablehlo.broadcast_in_dim %589, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x256xf32>
      %591 = stablehlo.subtract %587, %590 : tensor<4x2x64x256xf32>
      %592 = stablehlo.exponential %591 : tensor<4x2x64x256xf32>
      %593 = stablehlo.dot_general %592, %582, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x256xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_165 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %594 = stablehlo.reduce(%592 init: %cst_165) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %595 = stablehlo.broadcast_in_dim %594, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %596 = stablehlo.broadcast_in_dim %595, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %597 = stablehlo.divide %593, %596 : tensor<4x2x64x24xf32>
      %598 = stablehlo.slice %9 [0:4, 256:312] : (tensor<4x312xi32>) -> tensor<4x56xi32>
      %599 = stablehlo.broadcast_in_dim %598, dims = [0, 1] : (tensor<4x56xi32>) -> tensor<4x56x1xi32>
      %600 = stablehlo.broadcast_in_dim %9, dims = [0, 2] : (tensor<4x312xi32>) -> tensor<4x1x312xi32>
      %601 = stablehlo.broadcast_in_dim %599, dims = [0, 1, 2] : (tensor<4x56x1xi32>) -> tensor<4x56x312xi32>
      %602 = stablehlo.broadcast_in_dim %600, dims = [0, 1, 2] : (tensor<4x1x312xi32>) -> tensor<4x56x312xi32>
      %603 = stablehlo.compare EQ, %601, %602, SIGNED : (tensor<4x56x312xi32>, tensor<4x56x312xi32>) -> tensor<4x56x312xi1>
      %c_166 = stablehlo.constant dense<true> : tensor<i1>
      %604 = stablehlo.broadcast_in_dim %c_166, dims = [] : (tensor<i1>) -> tensor<56x312xi1>
      %605 = func.call @tril_11(%604) : (tensor<56x312xi1>) -> tensor<56x312xi1>
      %606 = stablehlo.broadcast_in_dim %605, dims = [1, 2] : (tensor<56x312xi1>) -> tensor<1x56x312xi1>
      %607 = stablehlo.broadcast_in_dim %606, dims = [0, 1, 2] : (tensor<1x56x312xi1>) -> tensor<4x56x312xi1>
      %608 = stablehlo.and %603, %607 : tensor<4x56x312xi1>
      %609 = stablehlo.slice %475 [0:4, 0:2, 256:312, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
      %610 = stablehlo.dot_general %609, %476, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x24xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x312xf32>
      %611 = stablehlo.broadcast_in_dim %608, dims = [0, 2, 3] : (tensor<4x56x312xi1>) -> tensor<4x1x56x312xi1>
      %612 = stablehlo.broadcast_in_dim %611, dims = [0, 1, 2, 3] : (tensor<4x1x56x312xi1>) -> tensor<4x2x56x312xi1>
      %cst_167 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %613 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<4x2x56x312xf32>
      %614 = stablehlo.select %612, %610, %613 : tensor<4x2x56x312xi1>, tensor<4x2x56x312xf32>
      %cst_168 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %615 = stablehlo.reduce(%614 init: %cst_168) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
      %616 = stablehlo.broadcast_in_dim %615, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
      %617 = stablehlo.broadcast_in_dim %616, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x312xf32>
      %618 = stablehlo.subtract %614, %617 : tensor<4x2x56x312xf32>
      %619 = stablehlo.exponential %618 : tensor<4x2x56x312xf32>
      %620 = stablehlo.dot_general %619, %477, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x312xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
      %cst_169 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %621 = stablehlo.reduce(%619 init: %cst_169) applies stablehlo.add across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
      %622 = stablehlo.broadcast_in_dim %621, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
      %623 = stablehlo.broadcast_in_dim %622, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x24xf32>
      %624 = stablehlo.divide %620, %623 : tensor<4x2x56x24xf32>
      %625 = stablehlo.concatenate %507, %537, %567, %597, %624, dim = 2 : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x56x24xf32>) -> tensor<4x2x312x24xf32>
      %626 = stablehlo.transpose %625, dims = [0, 2, 1, 3] : (tensor<4x2x312x24xf32>) -> tensor<4x312x2x24xf32>
      %627 = stablehlo.reshape %626 : (tensor<4x312x2x24xf32>) -> tensor<1248x48xf32>
      %628 = stablehlo.reshape %arg114 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
      %629 = stablehlo.dot_general %627, %628, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x48xf32>, tensor<48x96xf32>) -> tensor<1248x96xf32>
      %630 = stablehlo.reshape %629 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
      %631 = stablehlo.slice %630 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_170 = stablehlo.constant dense<0> : tensor<i32>
      %632 = stablehlo.compare GE, %64#0, %c_170, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_171 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %633 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %634 = func.call @_where(%632, %631, %633) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_172 = stablehlo.constant dense<0> : tensor<i32>
      %c_173 = stablehlo.constant dense<0> : tensor<i32>
      %c_174 = stablehlo.constant dense<0> : tensor<i32>
      %635 = stablehlo.dynamic_update_slice %630, %634, %c_172, %c_173, %c_174 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %636 = "stablehlo.reduce_scatter"(%635) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %637 = stablehlo.add %405, %636 : tensor<4x156x96xf32>
      %638 = stablehlo.broadcast_in_dim %arg112, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %639 = chlo.square %637 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_175 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %640 = stablehlo.reduce(%639 init: %cst_175) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %641 = stablehlo.broadcast_in_dim %640, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_176 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %642 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %643 = stablehlo.divide %641, %642 : tensor<4x156x1xf32>
      %cst_177 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %644 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %645 = stablehlo.add %643, %644 : tensor<4x156x1xf32>
      %646 = stablehlo.rsqrt %645 : tensor<4x156x1xf32>
      %647 = stablehlo.broadcast_in_dim %646, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %648 = stablehlo.multiply %637, %647 : tensor<4x156x96xf32>
      %649 = stablehlo.broadcast_in_dim %638, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %650 = stablehlo.multiply %648, %649 : tensor<4x156x96xf32>
      %651 = stablehlo.slice %650 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_178 = stablehlo.constant dense<0> : tensor<i32>
      %652 = stablehlo.compare GE, %64#0, %c_178, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_179 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %653 = stablehlo.broadcast_in_dim %cst_179, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %654 = func.call @_where(%652, %651, %653) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_180 = stablehlo.constant dense<0> : tensor<i32>
      %c_181 = stablehlo.constant dense<0> : tensor<i32>
      %c_182 = stablehlo.constant dense<0> : tensor<i32>
      %655 = stablehlo.dynamic_update_slice %650, %654, %c_180, %c_181, %c_182 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %656 = "stablehlo.all_gather"(%655) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %657 = stablehlo.reshape %656 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %658 = stablehlo.dot_general %657, %arg110, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
      %659 = stablehlo.reshape %658 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
      %660 = stablehlo.reshape %656 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %661 = stablehlo.dot_general %660, %arg111, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
      %662 = stablehlo.reshape %661 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
      %663 = stablehlo.negate %659 : tensor<4x312x128xf32>
      %664 = stablehlo.exponential %663 : tensor<4x312x128xf32>
      %cst_183 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %665 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
      %666 = stablehlo.add %665, %664 : tensor<4x312x128xf32>
      %cst_184 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %667 = stablehlo.broadcast_in_dim %cst_184, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
      %668 = stablehlo.divide %667, %666 : tensor<4x312x128xf32>
      %669 = stablehlo.multiply %659, %668 : tensor<4x312x128xf32>
      %670 = stablehlo.multiply %669, %662 : tensor<4x312x128xf32>
      %671 = stablehlo.reshape %670 : (tensor<4x312x128xf32>) -> tensor<1248x128xf32>
      %672 = stablehlo.dot_general %671, %arg109, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x128xf32>, tensor<128x96xf32>) -> tensor<1248x96xf32>
      %673 = stablehlo.reshape %672 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
      %674 = stablehlo.slice %673 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_185 = stablehlo.constant dense<0> : tensor<i32>
      %675 = stablehlo.compare GE, %64#0, %c_185, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_186 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %676 = stablehlo.broadcast_in_dim %cst_186, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %677 = func.call @_where(%675, %674, %676) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_187 = stablehlo.constant dense<0> : tensor<i32>
      %c_188 = stablehlo.constant dense<0> : tensor<i32>
      %c_189 = stablehlo.constant dense<0> : tensor<i32>
      %678 = stablehlo.dynamic_update_slice %673, %677, %c_187, %c_188, %c_189 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %679 = "stablehlo.reduce_scatter"(%678) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %680 = stablehlo.add %637, %679 : tensor<4x156x96xf32>
      %681 = stablehlo.broadcast_in_dim %arg117, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %682 = chlo.square %680 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_190 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %683 = stablehlo.reduce(%682 init: %cst_190) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %684 = stablehlo.broadcast_in_dim %683, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_191 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %685 = stablehlo.broadcast_in_dim %cst_191, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %686 = stablehlo.divide %684, %685 : tensor<4x156x1xf32>
      %cst_192 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %687 = stablehlo.broadcast_in_dim %cst_192, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %688 = stablehlo.add %686, %687 : tensor<4x156x1xf32>
      %689 = stablehlo.rsqrt %688 : tensor<4x156x1xf32>
      %690 = stablehlo.broadcast_in_dim %689, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %691 = stablehlo.multiply %680, %690 : tensor<4x156x96xf32>
      %692 = stablehlo.broadcast_in_dim %681, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %693 = stablehlo.multiply %691, %692 : tensor<4x156x96xf32>
      %694 = stablehlo.slice %693 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_193 = stablehlo.constant dense<0> : tensor<i32>
      %695 = stablehlo.compare GE, %64#0, %c_193, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_194 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %696 = stablehlo.broadcast_in_dim %cst_194, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %697 = func.call @_where(%695, %694, %696) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_195 = stablehlo.constant dense<0> : tensor<i32>
      %c_196 = stablehlo.constant dense<0> : tensor<i32>
      %c_197 = stablehlo.constant dense<0> : tensor<i32>
      %698 = stablehlo.dynamic_update_slice %693, %697, %c_195, %c_196, %c_197 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %699 = "stablehlo.all_gather"(%698) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %700 = stablehlo.reshape %699 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %701 = stablehlo.reshape %arg124 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %702 = stablehlo.dot_general %700, %701, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %703 = stablehlo.reshape %702 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %704 = stablehlo.reshape %699 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %705 = stablehlo.reshape %arg122 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %706 = stablehlo.dot_general %704, %705, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %707 = stablehlo.reshape %706 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %708 = stablehlo.reshape %699 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %709 = stablehlo.reshape %arg125 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
      %710 = stablehlo.dot_general %708, %709, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x48xf32>) -> tensor<1248x48xf32>
      %711 = stablehlo.reshape %710 : (tensor<1248x48xf32>) -> tensor<4x312x2x24xf32>
      %712 = stablehlo.slice %703 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %713 = stablehlo.slice %703 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %714 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %715 = stablehlo.multiply %712, %714 : tensor<4x312x2x12xf32>
      %716 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %717 = stablehlo.multiply %713, %716 : tensor<4x312x2x12xf32>
      %718 = stablehlo.subtract %715, %717 : tensor<4x312x2x12xf32>
      %719 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %720 = stablehlo.multiply %713, %719 : tensor<4x312x2x12xf32>
      %721 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %722 = stablehlo.multiply %712, %721 : tensor<4x312x2x12xf32>
      %723 = stablehlo.add %720, %722 : tensor<4x312x2x12xf32>
      %724 = stablehlo.concatenate %718, %723, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
      %725 = stablehlo.slice %707 [0:4, 0:312, 0:2, 0:12] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %726 = stablehlo.slice %707 [0:4, 0:312, 0:2, 12:24] : (tensor<4x312x2x24xf32>) -> tensor<4x312x2x12xf32>
      %727 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %728 = stablehlo.multiply %725, %727 : tensor<4x312x2x12xf32>
      %729 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %730 = stablehlo.multiply %726, %729 : tensor<4x312x2x12xf32>
      %731 = stablehlo.subtract %728, %730 : tensor<4x312x2x12xf32>
      %732 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %733 = stablehlo.multiply %726, %732 : tensor<4x312x2x12xf32>
      %734 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<4x312x1x12xf32>) -> tensor<4x312x2x12xf32>
      %735 = stablehlo.multiply %725, %734 : tensor<4x312x2x12xf32>
      %736 = stablehlo.add %733, %735 : tensor<4x312x2x12xf32>
      %737 = stablehlo.concatenate %731, %736, dim = 3 : (tensor<4x312x2x12xf32>, tensor<4x312x2x12xf32>) -> tensor<4x312x2x24xf32>
      %738 = stablehlo.transpose %737, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %c_198 = stablehlo.constant dense<0> : tensor<i32>
      %c_199 = stablehlo.constant dense<0> : tensor<i32>
      %739 = stablehlo.compare LT, %c_198, %c_199, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_200 = stablehlo.constant dense<0> : tensor<i32>
      %c_201 = stablehlo.constant dense<636> : tensor<i32>
      %740 = stablehlo.add %c_200, %c_201 : tensor<i32>
      %c_202 = stablehlo.constant dense<0> : tensor<i32>
      %741 = stablehlo.select %739, %740, %c_202 : tensor<i1>, tensor<i32>
      %c_203 = stablehlo.constant dense<0> : tensor<i32>
      %c_204 = stablehlo.constant dense<0> : tensor<i32>
      %c_205 = stablehlo.constant dense<0> : tensor<i32>
      %742 = stablehlo.dynamic_update_slice %19, %738, %c_203, %c_204, %741, %c_205 : (tensor<4x2x636x24xf32>, tensor<4x2x312x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
      %743 = stablehlo.transpose %711, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %c_206 = stablehlo.constant dense<0> : tensor<i32>
      %c_207 = stablehlo.constant dense<0> : tensor<i32>
      %744 = stablehlo.compare LT, %c_206, %c_207, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_208 = stablehlo.constant dense<0> : tensor<i32>
      %c_209 = stablehlo.constant dense<636> : tensor<i32>
      %745 = stablehlo.add %c_208, %c_209 : tensor<i32>
      %c_210 = stablehlo.constant dense<0> : tensor<i32>
      %746 = stablehlo.select %744, %745, %c_210 : tensor<i1>, tensor<i32>
      %c_211 = stablehlo.constant dense<0> : tensor<i32>
      %c_212 = stablehlo.constant dense<0> : tensor<i32>
      %c_213 = stablehlo.constant dense<0> : tensor<i32>
      %747 = stablehlo.dynamic_update_slice %19, %743, %c_211, %c_212, %746, %c_213 : (tensor<4x2x636x24xf32>, tensor<4x2x312x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
      %cst_214 = stablehlo.constant dense<0.204124153> : tensor<f32>
      %748 = stablehlo.broadcast_in_dim %cst_214, dims = [] : (tensor<f32>) -> tensor<4x312x2x24xf32>
      %749 = stablehlo.multiply %724, %748 : tensor<4x312x2x24xf32>
      %750 = stablehlo.transpose %749, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %751 = stablehlo.transpose %737, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %752 = stablehlo.transpose %711, dims = [0, 2, 1, 3] : (tensor<4x312x2x24xf32>) -> tensor<4x2x312x24xf32>
      %753 = stablehlo.slice %9 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %754 = stablehlo.slice %9 [0:4, 0:64] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %755 = stablehlo.broadcast_in_dim %753, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %756 = stablehlo.broadcast_in_dim %754, dims = [0, 2] : (tensor<4x64xi32>) -> tensor<4x1x64xi32>
      %757 = stablehlo.broadcast_in_dim %755, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x64xi32>
      %758 = stablehlo.broadcast_in_dim %756, dims = [0, 1, 2] : (tensor<4x1x64xi32>) -> tensor<4x64x64xi32>
      %759 = stablehlo.compare EQ, %757, %758, SIGNED : (tensor<4x64x64xi32>, tensor<4x64x64xi32>) -> tensor<4x64x64xi1>
      %c_215 = stablehlo.constant dense<true> : tensor<i1>
      %760 = stablehlo.broadcast_in_dim %c_215, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
      %761 = func.call @tril(%760) : (tensor<64x64xi1>) -> tensor<64x64xi1>
      %762 = stablehlo.broadcast_in_dim %761, dims = [1, 2] : (tensor<64x64xi1>) -> tensor<1x64x64xi1>
      %763 = stablehlo.broadcast_in_dim %762, dims = [0, 1, 2] : (tensor<1x64x64xi1>) -> tensor<4x64x64xi1>
      %764 = stablehlo.and %759, %763 : tensor<4x64x64xi1>
      %765 = stablehlo.slice %750 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %766 = stablehlo.slice %751 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %767 = stablehlo.slice %752 [0:4, 0:2, 0:64, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %768 = stablehlo.dot_general %765, %766, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x64xf32>
      %769 = stablehlo.broadcast_in_dim %764, dims = [0, 2, 3] : (tensor<4x64x64xi1>) -> tensor<4x1x64x64xi1>
      %770 = stablehlo.broadcast_in_dim %769, dims = [0, 1, 2, 3] : (tensor<4x1x64x64xi1>) -> tensor<4x2x64x64xi1>
      %cst_216 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %771 = stablehlo.broadcast_in_dim %cst_216, dims = [] : (tensor<f32>) -> tensor<4x2x64x64xf32>
      %772 = stablehlo.select %770, %768, %771 : tensor<4x2x64x64xi1>, tensor<4x2x64x64xf32>
      %cst_217 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %773 = stablehlo.reduce(%772 init: %cst_217) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %774 = stablehlo.broadcast_in_dim %773, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %775 = stablehlo.broadcast_in_dim %774, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x64xf32>
      %776 = stablehlo.subtract %772, %775 : tensor<4x2x64x64xf32>
      %777 = stablehlo.exponential %776 : tensor<4x2x64x64xf32>
      %778 = stablehlo.dot_general %777, %767, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x64xf32>, tensor<4x2x64x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_218 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %779 = stablehlo.reduce(%777 init: %cst_218) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x64xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %780 = stablehlo.broadcast_in_dim %779, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %781 = stablehlo.broadcast_in_dim %780, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %782 = stablehlo.divide %778, %781 : tensor<4x2x64x24xf32>
      %783 = stablehlo.slice %9 [0:4, 64:128] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %784 = stablehlo.slice %9 [0:4, 0:128] : (tensor<4x312xi32>) -> tensor<4x128xi32>
      %785 = stablehlo.broadcast_in_dim %783, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %786 = stablehlo.broadcast_in_dim %784, dims = [0, 2] : (tensor<4x128xi32>) -> tensor<4x1x128xi32>
      %787 = stablehlo.broadcast_in_dim %785, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x128xi32>
      %788 = stablehlo.broadcast_in_dim %786, dims = [0, 1, 2] : (tensor<4x1x128xi32>) -> tensor<4x64x128xi32>
      %789 = stablehlo.compare EQ, %787, %788, SIGNED : (tensor<4x64x128xi32>, tensor<4x64x128xi32>) -> tensor<4x64x128xi1>
      %c_219 = stablehlo.constant dense<true> : tensor<i1>
      %790 = stablehlo.broadcast_in_dim %c_219, dims = [] : (tensor<i1>) -> tensor<64x128xi1>
      %791 = func.call @tril_8(%790) : (tensor<64x128xi1>) -> tensor<64x128xi1>
      %792 = stablehlo.broadcast_in_dim %791, dims = [1, 2] : (tensor<64x128xi1>) -> tensor<1x64x128xi1>
      %793 = stablehlo.broadcast_in_dim %792, dims = [0, 1, 2] : (tensor<1x64x128xi1>) -> tensor<4x64x128xi1>
      %794 = stablehlo.and %789, %793 : tensor<4x64x128xi1>
      %795 = stablehlo.slice %750 [0:4, 0:2, 64:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %796 = stablehlo.slice %751 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
      %797 = stablehlo.slice %752 [0:4, 0:2, 0:128, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x128x24xf32>
      %798 = stablehlo.dot_general %795, %796, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x128xf32>
      %799 = stablehlo.broadcast_in_dim %794, dims = [0, 2, 3] : (tensor<4x64x128xi1>) -> tensor<4x1x64x128xi1>
      %800 = stablehlo.broadcast_in_dim %799, dims = [0, 1, 2, 3] : (tensor<4x1x64x128xi1>) -> tensor<4x2x64x128xi1>
      %cst_220 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %801 = stablehlo.broadcast_in_dim %cst_220, dims = [] : (tensor<f32>) -> tensor<4x2x64x128xf32>
      %802 = stablehlo.select %800, %798, %801 : tensor<4x2x64x128xi1>, tensor<4x2x64x128xf32>
      %cst_221 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %803 = stablehlo.reduce(%802 init: %cst_221) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %804 = stablehlo.broadcast_in_dim %803, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %805 = stablehlo.broadcast_in_dim %804, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x128xf32>
      %806 = stablehlo.subtract %802, %805 : tensor<4x2x64x128xf32>
      %807 = stablehlo.exponential %806 : tensor<4x2x64x128xf32>
      %808 = stablehlo.dot_general %807, %797, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x128xf32>, tensor<4x2x128x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_222 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %809 = stablehlo.reduce(%807 init: %cst_222) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x128xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %810 = stablehlo.broadcast_in_dim %809, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %811 = stablehlo.broadcast_in_dim %810, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %812 = stablehlo.divide %808, %811 : tensor<4x2x64x24xf32>
      %813 = stablehlo.slice %9 [0:4, 128:192] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %814 = stablehlo.slice %9 [0:4, 0:192] : (tensor<4x312xi32>) -> tensor<4x192xi32>
      %815 = stablehlo.broadcast_in_dim %813, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %816 = stablehlo.broadcast_in_dim %814, dims = [0, 2] : (tensor<4x192xi32>) -> tensor<4x1x192xi32>
      %817 = stablehlo.broadcast_in_dim %815, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x192xi32>
      %818 = stablehlo.broadcast_in_dim %816, dims = [0, 1, 2] : (tensor<4x1x192xi32>) -> tensor<4x64x192xi32>
      %819 = stablehlo.compare EQ, %817, %818, SIGNED : (tensor<4x64x192xi32>, tensor<4x64x192xi32>) -> tensor<4x64x192xi1>
      %c_223 = stablehlo.constant dense<true> : tensor<i1>
      %820 = stablehlo.broadcast_in_dim %c_223, dims = [] : (tensor<i1>) -> tensor<64x192xi1>
      %821 = func.call @tril_9(%820) : (tensor<64x192xi1>) -> tensor<64x192xi1>
      %822 = stablehlo.broadcast_in_dim %821, dims = [1, 2] : (tensor<64x192xi1>) -> tensor<1x64x192xi1>
      %823 = stablehlo.broadcast_in_dim %822, dims = [0, 1, 2] : (tensor<1x64x192xi1>) -> tensor<4x64x192xi1>
      %824 = stablehlo.and %819, %823 : tensor<4x64x192xi1>
      %825 = stablehlo.slice %750 [0:4, 0:2, 128:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %826 = stablehlo.slice %751 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
      %827 = stablehlo.slice %752 [0:4, 0:2, 0:192, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x192x24xf32>
      %828 = stablehlo.dot_general %825, %826, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x192xf32>
      %829 = stablehlo.broadcast_in_dim %824, dims = [0, 2, 3] : (tensor<4x64x192xi1>) -> tensor<4x1x64x192xi1>
      %830 = stablehlo.broadcast_in_dim %829, dims = [0, 1, 2, 3] : (tensor<4x1x64x192xi1>) -> tensor<4x2x64x192xi1>
      %cst_224 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %831 = stablehlo.broadcast_in_dim %cst_224, dims = [] : (tensor<f32>) -> tensor<4x2x64x192xf32>
      %832 = stablehlo.select %830, %828, %831 : tensor<4x2x64x192xi1>, tensor<4x2x64x192xf32>
      %cst_225 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %833 = stablehlo.reduce(%832 init: %cst_225) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %834 = stablehlo.broadcast_in_dim %833, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %835 = stablehlo.broadcast_in_dim %834, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x192xf32>
      %836 = stablehlo.subtract %832, %835 : tensor<4x2x64x192xf32>
      %837 = stablehlo.exponential %836 : tensor<4x2x64x192xf32>
      %838 = stablehlo.dot_general %837, %827, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x192xf32>, tensor<4x2x192x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_226 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %839 = stablehlo.reduce(%837 init: %cst_226) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x192xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %840 = stablehlo.broadcast_in_dim %839, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %841 = stablehlo.broadcast_in_dim %840, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %842 = stablehlo.divide %838, %841 : tensor<4x2x64x24xf32>
      %843 = stablehlo.slice %9 [0:4, 192:256] : (tensor<4x312xi32>) -> tensor<4x64xi32>
      %844 = stablehlo.slice %9 [0:4, 0:256] : (tensor<4x312xi32>) -> tensor<4x256xi32>
      %845 = stablehlo.broadcast_in_dim %843, dims = [0, 1] : (tensor<4x64xi32>) -> tensor<4x64x1xi32>
      %846 = stablehlo.broadcast_in_dim %844, dims = [0, 2] : (tensor<4x256xi32>) -> tensor<4x1x256xi32>
      %847 = stablehlo.broadcast_in_dim %845, dims = [0, 1, 2] : (tensor<4x64x1xi32>) -> tensor<4x64x256xi32>
      %848 = stablehlo.broadcast_in_dim %846, dims = [0, 1, 2] : (tensor<4x1x256xi32>) -> tensor<4x64x256xi32>
      %849 = stablehlo.compare EQ, %847, %848, SIGNED : (tensor<4x64x256xi32>, tensor<4x64x256xi32>) -> tensor<4x64x256xi1>
      %c_227 = stablehlo.constant dense<true> : tensor<i1>
      %850 = stablehlo.broadcast_in_dim %c_227, dims = [] : (tensor<i1>) -> tensor<64x256xi1>
      %851 = func.call @tril_10(%850) : (tensor<64x256xi1>) -> tensor<64x256xi1>
      %852 = stablehlo.broadcast_in_dim %851, dims = [1, 2] : (tensor<64x256xi1>) -> tensor<1x64x256xi1>
      %853 = stablehlo.broadcast_in_dim %852, dims = [0, 1, 2] : (tensor<1x64x256xi1>) -> tensor<4x64x256xi1>
      %854 = stablehlo.and %849, %853 : tensor<4x64x256xi1>
      %855 = stablehlo.slice %750 [0:4, 0:2, 192:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x64x24xf32>
      %856 = stablehlo.slice %751 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
      %857 = stablehlo.slice %752 [0:4, 0:2, 0:256, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x256x24xf32>
      %858 = stablehlo.dot_general %855, %856, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x24xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x256xf32>
      %859 = stablehlo.broadcast_in_dim %854, dims = [0, 2, 3] : (tensor<4x64x256xi1>) -> tensor<4x1x64x256xi1>
      %860 = stablehlo.broadcast_in_dim %859, dims = [0, 1, 2, 3] : (tensor<4x1x64x256xi1>) -> tensor<4x2x64x256xi1>
      %cst_228 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %861 = stablehlo.broadcast_in_dim %cst_228, dims = [] : (tensor<f32>) -> tensor<4x2x64x256xf32>
      %862 = stablehlo.select %860, %858, %861 : tensor<4x2x64x256xi1>, tensor<4x2x64x256xf32>
      %cst_229 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %863 = stablehlo.reduce(%862 init: %cst_229) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %864 = stablehlo.broadcast_in_dim %863, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %865 = stablehlo.broadcast_in_dim %864, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x256xf32>
      %866 = stablehlo.subtract %862, %865 : tensor<4x2x64x256xf32>
      %867 = stablehlo.exponential %866 : tensor<4x2x64x256xf32>
      %868 = stablehlo.dot_general %867, %857, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x64x256xf32>, tensor<4x2x256x24xf32>) -> tensor<4x2x64x24xf32>
      %cst_230 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %869 = stablehlo.reduce(%867 init: %cst_230) applies stablehlo.add across dimensions = [3] : (tensor<4x2x64x256xf32>, tensor<f32>) -> tensor<4x2x64xf32>
      %870 = stablehlo.broadcast_in_dim %869, dims = [0, 1, 2] : (tensor<4x2x64xf32>) -> tensor<4x2x64x1xf32>
      %871 = stablehlo.broadcast_in_dim %870, dims = [0, 1, 2, 3] : (tensor<4x2x64x1xf32>) -> tensor<4x2x64x24xf32>
      %872 = stablehlo.divide %868, %871 : tensor<4x2x64x24xf32>
      %873 = stablehlo.slice %9 [0:4, 256:312] : (tensor<4x312xi32>) -> tensor<4x56xi32>
      %874 = stablehlo.broadcast_in_dim %873, dims = [0, 1] : (tensor<4x56xi32>) -> tensor<4x56x1xi32>
      %875 = stablehlo.broadcast_in_dim %9, dims = [0, 2] : (tensor<4x312xi32>) -> tensor<4x1x312xi32>
      %876 = stablehlo.broadcast_in_dim %874, dims = [0, 1, 2] : (tensor<4x56x1xi32>) -> tensor<4x56x312xi32>
      %877 = stablehlo.broadcast_in_dim %875, dims = [0, 1, 2] : (tensor<4x1x312xi32>) -> tensor<4x56x312xi32>
      %878 = stablehlo.compare EQ, %876, %877, SIGNED : (tensor<4x56x312xi32>, tensor<4x56x312xi32>) -> tensor<4x56x312xi1>
      %c_231 = stablehlo.constant dense<true> : tensor<i1>
      %879 = stablehlo.broadcast_in_dim %c_231, dims = [] : (tensor<i1>) -> tensor<56x312xi1>
      %880 = func.call @tril_11(%879) : (tensor<56x312xi1>) -> tensor<56x312xi1>
      %881 = stablehlo.broadcast_in_dim %880, dims = [1, 2] : (tensor<56x312xi1>) -> tensor<1x56x312xi1>
      %882 = stablehlo.broadcast_in_dim %881, dims = [0, 1, 2] : (tensor<1x56x312xi1>) -> tensor<4x56x312xi1>
      %883 = stablehlo.and %878, %882 : tensor<4x56x312xi1>
      %884 = stablehlo.slice %750 [0:4, 0:2, 256:312, 0:24] : (tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
      %885 = stablehlo.dot_general %884, %751, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x24xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x312xf32>
      %886 = stablehlo.broadcast_in_dim %883, dims = [0, 2, 3] : (tensor<4x56x312xi1>) -> tensor<4x1x56x312xi1>
      %887 = stablehlo.broadcast_in_dim %886, dims = [0, 1, 2, 3] : (tensor<4x1x56x312xi1>) -> tensor<4x2x56x312xi1>
      %cst_232 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
      %888 = stablehlo.broadcast_in_dim %cst_232, dims = [] : (tensor<f32>) -> tensor<4x2x56x312xf32>
      %889 = stablehlo.select %887, %885, %888 : tensor<4x2x56x312xi1>, tensor<4x2x56x312xf32>
      %cst_233 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %890 = stablehlo.reduce(%889 init: %cst_233) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
      %891 = stablehlo.broadcast_in_dim %890, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
      %892 = stablehlo.broadcast_in_dim %891, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x312xf32>
      %893 = stablehlo.subtract %889, %892 : tensor<4x2x56x312xf32>
      %894 = stablehlo.exponential %893 : tensor<4x2x56x312xf32>
      %895 = stablehlo.dot_general %894, %752, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x56x312xf32>, tensor<4x2x312x24xf32>) -> tensor<4x2x56x24xf32>
      %cst_234 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %896 = stablehlo.reduce(%894 init: %cst_234) applies stablehlo.add across dimensions = [3] : (tensor<4x2x56x312xf32>, tensor<f32>) -> tensor<4x2x56xf32>
      %897 = stablehlo.broadcast_in_dim %896, dims = [0, 1, 2] : (tensor<4x2x56xf32>) -> tensor<4x2x56x1xf32>
      %898 = stablehlo.broadcast_in_dim %897, dims = [0, 1, 2, 3] : (tensor<4x2x56x1xf32>) -> tensor<4x2x56x24xf32>
      %899 = stablehlo.divide %895, %898 : tensor<4x2x56x24xf32>
      %900 = stablehlo.concatenate %782, %812, %842, %872, %899, dim = 2 : (tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x64x24xf32>, tensor<4x2x56x24xf32>) -> tensor<4x2x312x24xf32>
      %901 = stablehlo.transpose %900, dims = [0, 2, 1, 3] : (tensor<4x2x312x24xf32>) -> tensor<4x312x2x24xf32>
      %902 = stablehlo.reshape %901 : (tensor<4x312x2x24xf32>) -> tensor<1248x48xf32>
      %903 = stablehlo.reshape %arg123 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
      %904 = stablehlo.dot_general %902, %903, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x48xf32>, tensor<48x96xf32>) -> tensor<1248x96xf32>
      %905 = stablehlo.reshape %904 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
      %906 = stablehlo.slice %905 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_235 = stablehlo.constant dense<0> : tensor<i32>
      %907 = stablehlo.compare GE, %64#0, %c_235, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_236 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %908 = stablehlo.broadcast_in_dim %cst_236, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %909 = func.call @_where(%907, %906, %908) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_237 = stablehlo.constant dense<0> : tensor<i32>
      %c_238 = stablehlo.constant dense<0> : tensor<i32>
      %c_239 = stablehlo.constant dense<0> : tensor<i32>
      %910 = stablehlo.dynamic_update_slice %905, %909, %c_237, %c_238, %c_239 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %911 = "stablehlo.reduce_scatter"(%910) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %912 = stablehlo.add %680, %911 : tensor<4x156x96xf32>
      %913 = stablehlo.broadcast_in_dim %arg121, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %914 = chlo.square %912 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_240 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %915 = stablehlo.reduce(%914 init: %cst_240) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %916 = stablehlo.broadcast_in_dim %915, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_241 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %917 = stablehlo.broadcast_in_dim %cst_241, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %918 = stablehlo.divide %916, %917 : tensor<4x156x1xf32>
      %cst_242 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %919 = stablehlo.broadcast_in_dim %cst_242, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %920 = stablehlo.add %918, %919 : tensor<4x156x1xf32>
      %921 = stablehlo.rsqrt %920 : tensor<4x156x1xf32>
      %922 = stablehlo.broadcast_in_dim %921, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %923 = stablehlo.multiply %912, %922 : tensor<4x156x96xf32>
      %924 = stablehlo.broadcast_in_dim %913, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %925 = stablehlo.multiply %923, %924 : tensor<4x156x96xf32>
      %926 = stablehlo.slice %925 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_243 = stablehlo.constant dense<0> : tensor<i32>
      %927 = stablehlo.compare GE, %64#0, %c_243, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_244 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %928 = stablehlo.broadcast_in_dim %cst_244, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %929 = func.call @_where(%927, %926, %928) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_245 = stablehlo.constant dense<0> : tensor<i32>
      %c_246 = stablehlo.constant dense<0> : tensor<i32>
      %c_247 = stablehlo.constant dense<0> : tensor<i32>
      %930 = stablehlo.dynamic_update_slice %925, %929, %c_245, %c_246, %c_247 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %931 = "stablehlo.all_gather"(%930) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %932 = stablehlo.reshape %931 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %933 = stablehlo.dot_general %932, %arg119, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
      %934 = stablehlo.reshape %933 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
      %935 = stablehlo.reshape %931 : (tensor<4x312x96xf32>) -> tensor<1248x96xf32>
      %936 = stablehlo.dot_general %935, %arg120, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x96xf32>, tensor<96x128xf32>) -> tensor<1248x128xf32>
      %937 = stablehlo.reshape %936 : (tensor<1248x128xf32>) -> tensor<4x312x128xf32>
      %938 = stablehlo.negate %934 : tensor<4x312x128xf32>
      %939 = stablehlo.exponential %938 : tensor<4x312x128xf32>
      %cst_248 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %940 = stablehlo.broadcast_in_dim %cst_248, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
      %941 = stablehlo.add %940, %939 : tensor<4x312x128xf32>
      %cst_249 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %942 = stablehlo.broadcast_in_dim %cst_249, dims = [] : (tensor<f32>) -> tensor<4x312x128xf32>
      %943 = stablehlo.divide %942, %941 : tensor<4x312x128xf32>
      %944 = stablehlo.multiply %934, %943 : tensor<4x312x128xf32>
      %945 = stablehlo.multiply %944, %937 : tensor<4x312x128xf32>
      %946 = stablehlo.reshape %945 : (tensor<4x312x128xf32>) -> tensor<1248x128xf32>
      %947 = stablehlo.dot_general %946, %arg118, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1248x128xf32>, tensor<128x96xf32>) -> tensor<1248x96xf32>
      %948 = stablehlo.reshape %947 : (tensor<1248x96xf32>) -> tensor<4x312x96xf32>
      %949 = stablehlo.slice %948 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %c_250 = stablehlo.constant dense<0> : tensor<i32>
      %950 = stablehlo.compare GE, %64#0, %c_250, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_251 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %951 = stablehlo.broadcast_in_dim %cst_251, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %952 = func.call @_where(%950, %949, %951) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_252 = stablehlo.constant dense<0> : tensor<i32>
      %c_253 = stablehlo.constant dense<0> : tensor<i32>
      %c_254 = stablehlo.constant dense<0> : tensor<i32>
      %953 = stablehlo.dynamic_update_slice %948, %952, %c_252, %c_253, %c_254 : (tensor<4x312x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x312x96xf32>
      %954 = "stablehlo.reduce_scatter"(%953) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<f32>, %arg196: tensor<f32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<f32>
        stablehlo.return %1143 : tensor<f32>
      }) : (tensor<4x312x96xf32>) -> tensor<4x156x96xf32>
      %955 = stablehlo.add %912, %954 : tensor<4x156x96xf32>
      %956 = stablehlo.broadcast_in_dim %arg127, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
      %957 = chlo.square %955 : tensor<4x156x96xf32> -> tensor<4x156x96xf32>
      %cst_255 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %958 = stablehlo.reduce(%957 init: %cst_255) applies stablehlo.add across dimensions = [2] : (tensor<4x156x96xf32>, tensor<f32>) -> tensor<4x156xf32>
      %959 = stablehlo.broadcast_in_dim %958, dims = [0, 1] : (tensor<4x156xf32>) -> tensor<4x156x1xf32>
      %cst_256 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
      %960 = stablehlo.broadcast_in_dim %cst_256, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %961 = stablehlo.divide %959, %960 : tensor<4x156x1xf32>
      %cst_257 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
      %962 = stablehlo.broadcast_in_dim %cst_257, dims = [] : (tensor<f32>) -> tensor<4x156x1xf32>
      %963 = stablehlo.add %961, %962 : tensor<4x156x1xf32>
      %964 = stablehlo.rsqrt %963 : tensor<4x156x1xf32>
      %965 = stablehlo.broadcast_in_dim %964, dims = [0, 1, 2] : (tensor<4x156x1xf32>) -> tensor<4x156x96xf32>
      %966 = stablehlo.multiply %955, %965 : tensor<4x156x96xf32>
      %967 = stablehlo.broadcast_in_dim %956, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x156x96xf32>
      %968 = stablehlo.multiply %966, %967 : tensor<4x156x96xf32>
      %c_258 = stablehlo.constant dense<0> : tensor<i32>
      %969 = stablehlo.broadcast_in_dim %c_258, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
      %c_259 = stablehlo.constant dense<-1> : tensor<i32>
      %970 = stablehlo.broadcast_in_dim %c_259, dims = [] : (tensor<i32>) -> tensor<4x18x18xi32>
      %971 = stablehlo.broadcast_in_dim %969, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
      %972 = stablehlo.broadcast_in_dim %971, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x18xi32>
      %973 = stablehlo.add %970, %972 : tensor<4x18x18xi32>
      %c_260 = stablehlo.constant dense<0> : tensor<i32>
      %974 = stablehlo.broadcast_in_dim %c_260, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
      %975 = stablehlo.compare GT, %10, %974, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
      %976 = stablehlo.slice %968 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %c_261 = stablehlo.constant dense<0> : tensor<i32>
      %977 = stablehlo.compare GE, %64#0, %c_261, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_262 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %978 = stablehlo.broadcast_in_dim %cst_262, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %979 = func.call @_where(%977, %976, %978) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_263 = stablehlo.constant dense<0> : tensor<i32>
      %c_264 = stablehlo.constant dense<0> : tensor<i32>
      %c_265 = stablehlo.constant dense<0> : tensor<i32>
      %980 = stablehlo.dynamic_update_slice %968, %979, %c_263, %c_264, %c_265 : (tensor<4x156x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x156x96xf32>
      %981 = "stablehlo.all_gather"(%980) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x156x96xf32>) -> tensor<4x312x96xf32>
      %c_266 = stablehlo.constant dense<1> : tensor<ui32>
      %c_267 = stablehlo.constant dense<2> : tensor<ui32>
      %982 = stablehlo.partition_id : tensor<ui32>
      %983 = stablehlo.divide %982, %c_266 : tensor<ui32>
      %984 = stablehlo.remainder %983, %c_267 : tensor<ui32>
      %985 = stablehlo.convert %984 : (tensor<ui32>) -> tensor<i32>
      %c_268 = stablehlo.constant dense<1> : tensor<i32>
      %986 = stablehlo.multiply %985, %c_268 : tensor<i32>
      %c_269 = stablehlo.constant dense<0> : tensor<i32>
      %987 = stablehlo.add %c_269, %986 : tensor<i32>
      %c_270 = stablehlo.constant dense<9> : tensor<i32>
      %988 = stablehlo.multiply %987, %c_270 : tensor<i32>
      %c_271 = stablehlo.constant dense<0> : tensor<i32>
      %989 = stablehlo.compare LT, %988, %c_271, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_272 = stablehlo.constant dense<18> : tensor<i32>
      %990 = stablehlo.add %988, %c_272 : tensor<i32>
      %991 = stablehlo.select %989, %990, %988 : tensor<i1>, tensor<i32>
      %c_273 = stablehlo.constant dense<0> : tensor<i32>
      %992 = stablehlo.dynamic_slice %2, %c_273, %991, sizes = [4, 9] : (tensor<4x18xi32>, tensor<i32>, tensor<i32>) -> tensor<4x9xi32>
      %993 = stablehlo.broadcast_in_dim %992, dims = [0, 1] : (tensor<4x9xi32>) -> tensor<4x9x1xi32>
      %c_274 = stablehlo.constant dense<0> : tensor<i32>
      %994 = stablehlo.broadcast_in_dim %c_274, dims = [] : (tensor<i32>) -> tensor<4x9x1xi32>
      %995 = stablehlo.compare LT, %993, %994, SIGNED : (tensor<4x9x1xi32>, tensor<4x9x1xi32>) -> tensor<4x9x1xi1>
      %c_275 = stablehlo.constant dense<312> : tensor<i32>
      %996 = stablehlo.broadcast_in_dim %c_275, dims = [] : (tensor<i32>) -> tensor<4x9x1xi32>
      %997 = stablehlo.add %993, %996 : tensor<4x9x1xi32>
      %998 = stablehlo.select %995, %997, %993 : tensor<4x9x1xi1>, tensor<4x9x1xi32>
      %c_276 = stablehlo.constant dense<311> : tensor<1xi32>
      %c_277 = stablehlo.constant dense<0> : tensor<i32>
      %999 = stablehlo.broadcast_in_dim %c_277, dims = [] : (tensor<i32>) -> tensor<4x9x1xi32>
      %1000 = stablehlo.compare GE, %998, %999, SIGNED : (tensor<4x9x1xi32>, tensor<4x9x1xi32>) -> tensor<4x9x1xi1>
      %1001 = stablehlo.broadcast_in_dim %c_276, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
      %1002 = stablehlo.broadcast_in_dim %1001, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x9x1xi32>
      %1003 = stablehlo.compare LE, %998, %1002, SIGNED : (tensor<4x9x1xi32>, tensor<4x9x1xi32>) -> tensor<4x9x1xi1>
      %1004 = stablehlo.and %1000, %1003 : tensor<4x9x1xi1>
      %c_278 = stablehlo.constant dense<true> : tensor<i1>
      %1005 = stablehlo.reduce(%1004 init: %c_278) applies stablehlo.and across dimensions = [2] : (tensor<4x9x1xi1>, tensor<i1>) -> tensor<4x9xi1>
      %1006 = "stablehlo.gather"(%981, %998) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 96>}> : (tensor<4x312x96xf32>, tensor<4x9x1xi32>) -> tensor<4x9x96xf32>
      %1007 = stablehlo.broadcast_in_dim %1005, dims = [0, 1] : (tensor<4x9xi1>) -> tensor<4x9x96xi1>
      %cst_279 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %1008 = stablehlo.broadcast_in_dim %cst_279, dims = [] : (tensor<f32>) -> tensor<4x9x96xf32>
      %1009 = stablehlo.select %1007, %1006, %1008 : tensor<4x9x96xi1>, tensor<4x9x96xf32>
      %1010 = stablehlo.slice %1009 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
      %c_280 = stablehlo.constant dense<0> : tensor<i32>
      %1011 = stablehlo.compare GE, %64#0, %c_280, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %cst_281 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1012 = stablehlo.broadcast_in_dim %cst_281, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
      %1013 = func.call @_where(%1011, %1010, %1012) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
      %c_282 = stablehlo.constant dense<0> : tensor<i32>
      %c_283 = stablehlo.constant dense<0> : tensor<i32>
      %c_284 = stablehlo.constant dense<0> : tensor<i32>
      %1014 = stablehlo.dynamic_update_slice %1009, %1013, %c_282, %c_283, %c_284 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
      %1015 = "stablehlo.all_gather"(%1014) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
      %1016 = stablehlo.reshape %1015 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
      %cst_285 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1017 = stablehlo.pad %1016, %cst_285, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<72x96xf32>, tensor<f32>) -> tensor<72x96xf32>
      %1018 = stablehlo.reshape %1017 : (tensor<72x96xf32>) -> tensor<1x72x96xf32>
      %1019 = stablehlo.slice %110 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1020 = stablehlo.reshape %1019 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_286 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1021 = stablehlo.compare NE, %1020, %cst_286, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1022 = stablehlo.convert %1021 : (tensor<i1>) -> tensor<i32>
      %c_287 = stablehlo.constant dense<1> : tensor<i32>
      %1023 = stablehlo.or %1022, %c_287 : tensor<i32>
      %1024 = stablehlo.and %64#0, %1023 : tensor<i32>
      %1025 = stablehlo.slice %149 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1026 = stablehlo.reshape %1025 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_288 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1027 = stablehlo.compare NE, %1026, %cst_288, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1028 = stablehlo.convert %1027 : (tensor<i1>) -> tensor<i32>
      %c_289 = stablehlo.constant dense<1> : tensor<i32>
      %1029 = stablehlo.or %1028, %c_289 : tensor<i32>
      %1030 = stablehlo.and %1024, %1029 : tensor<i32>
      %1031 = stablehlo.slice %361 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1032 = stablehlo.reshape %1031 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_290 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1033 = stablehlo.compare NE, %1032, %cst_290, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1034 = stablehlo.convert %1033 : (tensor<i1>) -> tensor<i32>
      %c_291 = stablehlo.constant dense<1> : tensor<i32>
      %1035 = stablehlo.or %1034, %c_291 : tensor<i32>
      %1036 = stablehlo.and %1030, %1035 : tensor<i32>
      %1037 = stablehlo.slice %381 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1038 = stablehlo.reshape %1037 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_292 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1039 = stablehlo.compare NE, %1038, %cst_292, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1040 = stablehlo.convert %1039 : (tensor<i1>) -> tensor<i32>
      %c_293 = stablehlo.constant dense<1> : tensor<i32>
      %1041 = stablehlo.or %1040, %c_293 : tensor<i32>
      %1042 = stablehlo.and %1036, %1041 : tensor<i32>
      %1043 = stablehlo.slice %404 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1044 = stablehlo.reshape %1043 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_294 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1045 = stablehlo.compare NE, %1044, %cst_294, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1046 = stablehlo.convert %1045 : (tensor<i1>) -> tensor<i32>
      %c_295 = stablehlo.constant dense<1> : tensor<i32>
      %1047 = stablehlo.or %1046, %c_295 : tensor<i32>
      %1048 = stablehlo.and %1042, %1047 : tensor<i32>
      %1049 = stablehlo.slice %424 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1050 = stablehlo.reshape %1049 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_296 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1051 = stablehlo.compare NE, %1050, %cst_296, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1052 = stablehlo.convert %1051 : (tensor<i1>) -> tensor<i32>
      %c_297 = stablehlo.constant dense<1> : tensor<i32>
      %1053 = stablehlo.or %1052, %c_297 : tensor<i32>
      %1054 = stablehlo.and %1048, %1053 : tensor<i32>
      %1055 = stablehlo.slice %636 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1056 = stablehlo.reshape %1055 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_298 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1057 = stablehlo.compare NE, %1056, %cst_298, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1058 = stablehlo.convert %1057 : (tensor<i1>) -> tensor<i32>
      %c_299 = stablehlo.constant dense<1> : tensor<i32>
      %1059 = stablehlo.or %1058, %c_299 : tensor<i32>
      %1060 = stablehlo.and %1054, %1059 : tensor<i32>
      %1061 = stablehlo.slice %656 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1062 = stablehlo.reshape %1061 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_300 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1063 = stablehlo.compare NE, %1062, %cst_300, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1064 = stablehlo.convert %1063 : (tensor<i1>) -> tensor<i32>
      %c_301 = stablehlo.constant dense<1> : tensor<i32>
      %1065 = stablehlo.or %1064, %c_301 : tensor<i32>
      %1066 = stablehlo.and %1060, %1065 : tensor<i32>
      %1067 = stablehlo.slice %679 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1068 = stablehlo.reshape %1067 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_302 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1069 = stablehlo.compare NE, %1068, %cst_302, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1070 = stablehlo.convert %1069 : (tensor<i1>) -> tensor<i32>
      %c_303 = stablehlo.constant dense<1> : tensor<i32>
      %1071 = stablehlo.or %1070, %c_303 : tensor<i32>
      %1072 = stablehlo.and %1066, %1071 : tensor<i32>
      %1073 = stablehlo.slice %699 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1074 = stablehlo.reshape %1073 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_304 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1075 = stablehlo.compare NE, %1074, %cst_304, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1076 = stablehlo.convert %1075 : (tensor<i1>) -> tensor<i32>
      %c_305 = stablehlo.constant dense<1> : tensor<i32>
      %1077 = stablehlo.or %1076, %c_305 : tensor<i32>
      %1078 = stablehlo.and %1072, %1077 : tensor<i32>
      %1079 = stablehlo.slice %911 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1080 = stablehlo.reshape %1079 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_306 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1081 = stablehlo.compare NE, %1080, %cst_306, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1082 = stablehlo.convert %1081 : (tensor<i1>) -> tensor<i32>
      %c_307 = stablehlo.constant dense<1> : tensor<i32>
      %1083 = stablehlo.or %1082, %c_307 : tensor<i32>
      %1084 = stablehlo.and %1078, %1083 : tensor<i32>
      %1085 = stablehlo.slice %931 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1086 = stablehlo.reshape %1085 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_308 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1087 = stablehlo.compare NE, %1086, %cst_308, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1088 = stablehlo.convert %1087 : (tensor<i1>) -> tensor<i32>
      %c_309 = stablehlo.constant dense<1> : tensor<i32>
      %1089 = stablehlo.or %1088, %c_309 : tensor<i32>
      %1090 = stablehlo.and %1084, %1089 : tensor<i32>
      %1091 = stablehlo.slice %954 [0:1, 0:1, 0:1] : (tensor<4x156x96xf32>) -> tensor<1x1x1xf32>
      %1092 = stablehlo.reshape %1091 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_310 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1093 = stablehlo.compare NE, %1092, %cst_310, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1094 = stablehlo.convert %1093 : (tensor<i1>) -> tensor<i32>
      %c_311 = stablehlo.constant dense<1> : tensor<i32>
      %1095 = stablehlo.or %1094, %c_311 : tensor<i32>
      %1096 = stablehlo.and %1090, %1095 : tensor<i32>
      %1097 = stablehlo.slice %981 [0:1, 0:1, 0:1] : (tensor<4x312x96xf32>) -> tensor<1x1x1xf32>
      %1098 = stablehlo.reshape %1097 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_312 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1099 = stablehlo.compare NE, %1098, %cst_312, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1100 = stablehlo.convert %1099 : (tensor<i1>) -> tensor<i32>
      %c_313 = stablehlo.constant dense<1> : tensor<i32>
      %1101 = stablehlo.or %1100, %c_313 : tensor<i32>
      %1102 = stablehlo.and %1096, %1101 : tensor<i32>
      %1103 = stablehlo.slice %1015 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
      %1104 = stablehlo.reshape %1103 : (tensor<1x1x1xf32>) -> tensor<f32>
      %cst_314 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1105 = stablehlo.compare NE, %1104, %cst_314, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1106 = stablehlo.convert %1105 : (tensor<i1>) -> tensor<i32>
      %c_315 = stablehlo.constant dense<1> : tensor<i32>
      %1107 = stablehlo.or %1106, %c_315 : tensor<i32>
      %1108 = stablehlo.and %1102, %1107 : tensor<i32>
      %c_316 = stablehlo.constant dense<0> : tensor<i32>
      %1109 = stablehlo.broadcast_in_dim %c_316, dims = [] : (tensor<i32>) -> tensor<1x72xi32>
      %c_317 = stablehlo.constant dense<0> : tensor<i32>
      %1110:5 = stablehlo.while(%iterArg = %1018, %iterArg_323 = %arg126, %iterArg_324 = %c_317, %iterArg_325 = %1108, %iterArg_326 = %1109) : tensor<1x72x96xf32>, tensor<96x32xf32>, tensor<i32>, tensor<i32>, tensor<1x72xi32>
      cond {
        %c_327 = stablehlo.constant dense<1> : tensor<i32>
        %1143 = stablehlo.compare LT, %iterArg_324, %c_327, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1143 : tensor<i1>
      } do {
        %1143 = func.call @dynamic_index_in_dim_12(%iterArg, %iterArg_324) : (tensor<1x72x96xf32>, tensor<i32>) -> tensor<72x96xf32>
        %1144:2 = func.call @closed_call_13(%iterArg_323, %iterArg_325, %1143) : (tensor<96x32xf32>, tensor<i32>, tensor<72x96xf32>) -> (tensor<i32>, tensor<72xi32>)
        %1145 = func.call @dynamic_update_index_in_dim(%iterArg_326, %1144#1, %iterArg_324) : (tensor<1x72xi32>, tensor<72xi32>, tensor<i32>) -> tensor<1x72xi32>
        %c_327 = stablehlo.constant dense<1> : tensor<i32>
        %1146 = stablehlo.add %iterArg_324, %c_327 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_323, %1146, %1144#0, %1145 : tensor<1x72x96xf32>, tensor<96x32xf32>, tensor<i32>, tensor<i32>, tensor<1x72xi32>
      }
      %1111 = stablehlo.reshape %1110#4 : (tensor<1x72xi32>) -> tensor<72xi32>
      %1112 = stablehlo.reshape %1111 : (tensor<72xi32>) -> tensor<4x18xi32>
      %1113 = stablehlo.iota dim = 0 : tensor<18xi32>
      %1114 = stablehlo.broadcast_in_dim %1113, dims = [2] : (tensor<18xi32>) -> tensor<1x1x18xi32>
      %1115 = stablehlo.broadcast_in_dim %969, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
      %1116 = stablehlo.broadcast_in_dim %1114, dims = [0, 1, 2] : (tensor<1x1x18xi32>) -> tensor<4x18x18xi32>
      %1117 = stablehlo.broadcast_in_dim %1115, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x18xi32>
      %1118 = stablehlo.compare EQ, %1116, %1117, SIGNED : (tensor<4x18x18xi32>, tensor<4x18x18xi32>) -> tensor<4x18x18xi1>
      %1119 = stablehlo.broadcast_in_dim %975, dims = [0, 1] : (tensor<4x18xi1>) -> tensor<4x18x1xi1>
      %1120 = stablehlo.broadcast_in_dim %1119, dims = [0, 1, 2] : (tensor<4x18x1xi1>) -> tensor<4x18x18xi1>
      %1121 = stablehlo.and %1118, %1120 : tensor<4x18x18xi1>
      %1122 = stablehlo.broadcast_in_dim %1112, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
      %1123 = stablehlo.broadcast_in_dim %1122, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x18xi32>
      %1124 = stablehlo.select %1121, %1123, %973 : tensor<4x18x18xi1>, tensor<4x18x18xi32>
      %1125 = stablehlo.convert %975 : (tensor<4x18xi1>) -> tensor<4x18xi32>
      %1126 = stablehlo.add %969, %1125 : tensor<4x18xi32>
      %1127 = stablehlo.broadcast_in_dim %1112, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
      %1128 = stablehlo.broadcast_in_dim %arg97, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x18x1xi32>
      %1129 = stablehlo.compare EQ, %1127, %1128, SIGNED : (tensor<4x18x1xi32>, tensor<4x18x1xi32>) -> tensor<4x18x1xi1>
      %c_318 = stablehlo.constant dense<false> : tensor<i1>
      %1130 = stablehlo.reduce(%1129 init: %c_318) applies stablehlo.or across dimensions = [2] : (tensor<4x18x1xi1>, tensor<i1>) -> tensor<4x18xi1>
      %1131 = stablehlo.not %1130 : tensor<4x18xi1>
      %1132 = stablehlo.and %975, %1131 : tensor<4x18xi1>
      %c_319 = stablehlo.constant dense<18> : tensor<i32>
      %1133 = stablehlo.broadcast_in_dim %c_319, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
      %1134 = stablehlo.minimum %4, %1133 : tensor<4x18xi32>
      %1135 = stablehlo.compare LT, %1126, %1134, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
      %1136 = stablehlo.and %1132, %1135 : tensor<4x18xi1>
      %1137 = stablehlo.convert %1136 : (tensor<4x18xi1>) -> tensor<4x18xi32>
      %c_320 = stablehlo.constant dense<0> : tensor<i32>
      %1138 = stablehlo.reduce(%1137 init: %c_320) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x18xi32>, tensor<i32>) -> tensor<i32>
      %1139 = stablehlo.slice %1138 [] : (tensor<i32>) -> tensor<i32>
      %c_321 = stablehlo.constant dense<0> : tensor<i32>
      %1140 = stablehlo.compare GE, %1110#3, %c_321, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_322 = stablehlo.constant dense<0> : tensor<i32>
      %1141 = func.call @_where_16(%1140, %1139, %c_322) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      %1142 = "stablehlo.all_reduce"(%1141) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg195: tensor<i32>, %arg196: tensor<i32>):
        %1143 = stablehlo.add %arg195, %arg196 : tensor<i32>
        stablehlo.return %1143 : tensor<i32>
      }) : (tensor<i32>) -> tensor<i32>
      sdy.return %192, %197, %467, %472, %742, %747, %24, %28, %1112, %1124, %1126, %1136, %1142, %10, %3, %4, %7 : tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x636xi32>, tensor<4x636xi32>, tensor<4x18xi32>, tensor<4x18x18xi32>, tensor<4x18xi32>, tensor<4x18xi1>, tensor<i32>, tensor<4x18xi32>, tensor<4x18xi32>, tensor<4x18xi32>, tensor<4x18xi32>
    } : (tensor<1x1x1xi32>, tensor<64x96xf32>, tensor<96xf32>, tensor<256x96xf32>, tensor<96x256xf32>, tensor<96x256xf32>, tensor<96xf32>, tensor<96x4x24xf32>, tensor<4x24x96xf32>, tensor<96x4x24xf32>, tensor<96x4x24xf32>, tensor<96xf32>, tensor<256x96xf32>, tensor<96x256xf32>, tensor<96x256xf32>, tensor<96xf32>, tensor<96x4x24xf32>, tensor<4x24x96xf32>, tensor<96x4x24xf32>, tensor<96x4x24xf32>, tensor<96xf32>, tensor<256x96xf32>, tensor<96x256xf32>, tensor<96x256xf32>, tensor<96xf32>, tensor<96x4x24xf32>, tensor<4x24x96xf32>, tensor<96x4x24xf32>, tensor<96x4x24xf32>, tensor<96x64xf32>, tensor<96xf32>, tensor<96xf32>, tensor<192x96xf32>, tensor<96xf32>, tensor<96x96xf32>, tensor<96xf32>, tensor<3x40x96xf32>, tensor<96xf32>, tensor<3x96x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<192x96xf32>, tensor<96xf32>, tensor<96x96xf32>, tensor<96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x96xf32>, tensor<2x256xf32>, tensor<2x96x256xf32>, tensor<2x96xf32>, tensor<2x256x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x96xf32>, tensor<2x4x24x96xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<2x4x24xf32>, tensor<2x96x4x24xf32>, tensor<96xf32>, tensor<96xf32>, tensor<1x8x18xi32>, tensor<1x8x18xi32>, tensor<1x8x18xi32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x18xi32>, tensor<1x8x312xi32>, tensor<1x8x312xi32>, tensor<1x8x18xi32>, tensor<1x8x312xi32>, tensor<1x8x640x40xf32>, tensor<1x8x640xi32>, tensor<1x8x640xi32>, tensor<1x8x144x64xf32>, tensor<1x8x144x2xi32>, tensor<1x8x144xi32>, tensor<1x8x144x2xi32>) -> (tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x636xi32>, tensor<8x636xi32>, tensor<8x18xi32>, tensor<8x18x18xi32>, tensor<8x18xi32>, tensor<8x18xi1>, tensor<i32>, tensor<8x18xi32>, tensor<8x18xi32>, tensor<8x18xi32>, tensor<8x18xi32>)
    return %1#0, %1#1, %1#2, %1#3, %1#4, %1#5, %1#6, %1#7, %1#8, %1#9, %1#10, %1#11, %1#12, %1#13, %1#14, %1#15, %1#16 : tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x636xi32>, tensor<8x636xi32>, tensor<8x18xi32>, tensor<8x18x18xi32>, tensor<8x18xi32>, tensor<8x18xi1>, tensor<i32>, tensor<8x18xi32>, tensor<8x18xi32>, tensor<8x18xi32>, tensor<8x18xi32>
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
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x1x1xf32>, %arg2: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1x1x1xf32>
    return %0 : tensor<1x1x1xf32>
  }
  func.func private @closed_call_7(%arg0: tensor<2x96xf32>, %arg1: tensor<2x96xf32>, %arg2: tensor<2x128xf32>, %arg3: tensor<2x96x128xf32>, %arg4: tensor<2x96xf32>, %arg5: tensor<2x128x96xf32>, %arg6: tensor<2x96x2x24xf32>, %arg7: tensor<2x96xf32>, %arg8: tensor<2x2x24x96xf32>, %arg9: tensor<2x2x24xf32>, %arg10: tensor<2x96x2x24xf32>, %arg11: tensor<2x2x24xf32>, %arg12: tensor<2x96x2x24xf32>, %arg13: tensor<2x96xf32>, %arg14: tensor<2x96xf32>, %arg15: tensor<4x160xi32>, %arg16: tensor<i32>, %arg17: tensor<4x80x96xf32>, %arg18: tensor<i32>) -> (tensor<i32>, tensor<4x80x96xf32>) {
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
    %91 = call @_where(%89, %88, %90) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
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
    %145 = call @_where(%143, %142, %144) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
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
    %177 = call @_where(%175, %174, %176) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
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
    %202 = call @_where(%200, %199, %201) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
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
  func.func private @tril_8(%arg0: tensor<64x128xi1>) -> tensor<64x128xi1> {
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
  func.func private @tril_9(%arg0: tensor<64x192xi1>) -> tensor<64x192xi1> {
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
  func.func private @tril_10(%arg0: tensor<64x256xi1>) -> tensor<64x256xi1> {
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
  func.func private @tril_11(%arg0: tensor<56x312xi1>) -> tensor<56x312xi1> {
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
  func.func private @dynamic_index_in_dim_12(%arg0: tensor<1x72x96xf32>, %arg1: tensor<i32>) -> tensor<72x96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 72, 96] : (tensor<1x72x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x72x96xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x72x96xf32>) -> tensor<72x96xf32>
    return %1 : tensor<72x96xf32>
  }
  func.func private @closed_call_13(%arg0: tensor<96x32xf32>, %arg1: tensor<i32>, %arg2: tensor<72x96xf32>) -> (tensor<i32>, tensor<72xi32>) {
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x32xf32>) -> tensor<72x32xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<72x32xf32>, tensor<f32>) -> tensor<72xf32>
    %2 = call @argmax(%0) : (tensor<72x32xf32>) -> tensor<72xi32>
    %c = stablehlo.constant dense<1> : tensor<ui32>
    %c_0 = stablehlo.constant dense<2> : tensor<ui32>
    %3 = stablehlo.partition_id : tensor<ui32>
    %4 = stablehlo.divide %3, %c : tensor<ui32>
    %5 = stablehlo.remainder %4, %c_0 : tensor<ui32>
    %6 = stablehlo.convert %5 : (tensor<ui32>) -> tensor<i32>
    %c_1 = stablehlo.constant dense<1> : tensor<i32>
    %7 = stablehlo.multiply %6, %c_1 : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.add %c_2, %7 : tensor<i32>
    %c_3 = stablehlo.constant dense<32> : tensor<i32>
    %9 = stablehlo.multiply %8, %c_3 : tensor<i32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i32>) -> tensor<72xi32>
    %11 = stablehlo.add %2, %10 : tensor<72xi32>
    %12 = stablehlo.slice %1 [0:1] : (tensor<72xf32>) -> tensor<1xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.compare GE, %arg1, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %15 = call @_where_14(%13, %12, %14) : (tensor<i1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.dynamic_update_slice %1, %15, %c_6 : (tensor<72xf32>, tensor<1xf32>, tensor<i32>) -> tensor<72xf32>
    %17 = "stablehlo.all_reduce"(%16) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %41 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      stablehlo.return %41 : tensor<f32>
    }) : (tensor<72xf32>) -> tensor<72xf32>
    %18 = stablehlo.compare EQ, %1, %17, FLOAT : (tensor<72xf32>, tensor<72xf32>) -> tensor<72xi1>
    %c_7 = stablehlo.constant dense<2147483647> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<72xi32>
    %20 = stablehlo.select %18, %11, %19 : tensor<72xi1>, tensor<72xi32>
    %21 = stablehlo.negate %20 : tensor<72xi32>
    %22 = stablehlo.slice %21 [0:1] : (tensor<72xi32>) -> tensor<1xi32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %23 = stablehlo.compare GE, %arg1, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %25 = call @_where_15(%23, %22, %24) : (tensor<i1>, tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %26 = stablehlo.dynamic_update_slice %21, %25, %c_10 : (tensor<72xi32>, tensor<1xi32>, tensor<i32>) -> tensor<72xi32>
    %27 = "stablehlo.all_reduce"(%26) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      %41 = stablehlo.maximum %arg3, %arg4 : tensor<i32>
      stablehlo.return %41 : tensor<i32>
    }) : (tensor<72xi32>) -> tensor<72xi32>
    %28 = stablehlo.negate %27 : tensor<72xi32>
    %29 = stablehlo.slice %17 [0:1] : (tensor<72xf32>) -> tensor<1xf32>
    %30 = stablehlo.reshape %29 : (tensor<1xf32>) -> tensor<f32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.compare NE, %30, %cst_11, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %32 = stablehlo.convert %31 : (tensor<i1>) -> tensor<i32>
    %c_12 = stablehlo.constant dense<1> : tensor<i32>
    %33 = stablehlo.or %32, %c_12 : tensor<i32>
    %34 = stablehlo.and %arg1, %33 : tensor<i32>
    %35 = stablehlo.slice %27 [0:1] : (tensor<72xi32>) -> tensor<1xi32>
    %36 = stablehlo.reshape %35 : (tensor<1xi32>) -> tensor<i32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %37 = stablehlo.compare NE, %36, %c_13, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %38 = stablehlo.convert %37 : (tensor<i1>) -> tensor<i32>
    %c_14 = stablehlo.constant dense<1> : tensor<i32>
    %39 = stablehlo.or %38, %c_14 : tensor<i32>
    %40 = stablehlo.and %34, %39 : tensor<i32>
    return %40, %28 : tensor<i32>, tensor<72xi32>
  }
  func.func private @argmax(%arg0: tensor<72x32xf32>) -> tensor<72xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<72x32xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<72x32xf32>, tensor<72x32xi32>, tensor<f32>, tensor<i32>) -> (tensor<72xf32>, tensor<72xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<72xi32>
  }
  func.func private @_where_14(%arg0: tensor<i1>, %arg1: tensor<1xf32>, %arg2: tensor<1xf32>) -> tensor<1xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1xf32>
    return %0 : tensor<1xf32>
  }
  func.func private @_where_15(%arg0: tensor<i1>, %arg1: tensor<1xi32>, %arg2: tensor<1xi32>) -> tensor<1xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1xi32>
    return %0 : tensor<1xi32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<1x72xi32>, %arg1: tensor<72xi32>, %arg2: tensor<i32>) -> tensor<1x72xi32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<72xi32>) -> tensor<1x72xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<1x72xi32>, tensor<1x72xi32>, tensor<i32>, tensor<i32>) -> tensor<1x72xi32>
    return %1 : tensor<1x72xi32>
  }
  func.func private @_where_16(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}
