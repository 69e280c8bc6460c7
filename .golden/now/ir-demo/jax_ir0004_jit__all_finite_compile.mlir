module @jit__all_finite attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "tensor"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "tensor", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg1: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg3: tensor<96x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg4: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg5: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg6: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg7: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg8: tensor<3x40x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg9: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg10: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg11: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg12: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg13: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg14: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg15: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg16: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg17: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg18: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg19: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg20: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg21: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg22: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg23: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg24: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg25: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg26: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg27: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg28: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg29: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg30: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg31: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg32: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg33: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg34: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg35: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg36: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg37: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg38: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg39: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg40: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg41: tensor<96x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg42: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg43: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg44: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg45: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg46: tensor<3x40x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg47: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg48: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg49: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg50: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg51: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg52: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg53: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg54: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg55: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg56: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg57: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg58: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg59: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg60: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg61: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg62: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg63: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg64: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg65: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg66: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg67: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg68: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg69: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg70: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg71: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg72: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg73: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg74: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg75: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg76: tensor<3x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg77: tensor<3x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg78: tensor<3x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg79: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg80: tensor<3x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg81: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg82: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg83: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg84: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg85: tensor<3x96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg86: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg87: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg88: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg89: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg90: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg91: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg92: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg93: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg94: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg95: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg96: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg97: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg98: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg99: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg100: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg101: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg102: tensor<3x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg103: tensor<3x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg104: tensor<3x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg105: tensor<3x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg106: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg107: tensor<3x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg108: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg109: tensor<3x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg110: tensor<96x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg111: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg112: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg113: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg114: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg115: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg116: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, %arg117: tensor<3x40x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg118: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg119: tensor<3x96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg120: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg121: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg122: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg123: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}]>}, %arg124: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg125: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg126: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg127: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg128: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}, {}]>}, %arg129: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg130: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg131: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg132: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tensor"}, {}]>}, %arg133: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg134: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg135: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg136: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg137: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg138: tensor<192x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg139: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg140: tensor<96x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg141: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg142: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg143: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg144: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg145: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg146: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg147: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg148: tensor<2x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg149: tensor<2x96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg150: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg151: tensor<2x256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg152: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg153: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg154: tensor<2x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg155: tensor<2x4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg156: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg157: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg158: tensor<2x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg159: tensor<2x96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}, %arg160: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg161: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<162xi1> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %1 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%arg1 init: %cst_1) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %3 = stablehlo.reduce(%arg1 init: %cst_2) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %4 = stablehlo.reduce(%arg2 init: %cst_3) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_4 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %5 = stablehlo.reduce(%arg2 init: %cst_4) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = stablehlo.reduce(%arg3 init: %cst_5) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_6 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %7 = stablehlo.reduce(%arg3 init: %cst_6) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = stablehlo.reduce(%arg4 init: %cst_7) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %9 = stablehlo.reduce(%arg4 init: %cst_8) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%arg5 init: %cst_9) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_10 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %11 = stablehlo.reduce(%arg5 init: %cst_10) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %12 = stablehlo.reduce(%arg6 init: %cst_11) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_12 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %13 = stablehlo.reduce(%arg6 init: %cst_12) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = stablehlo.reduce(%arg7 init: %cst_13) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_14 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %15 = stablehlo.reduce(%arg7 init: %cst_14) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.reduce(%arg8 init: %cst_15) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x40x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_16 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %17 = stablehlo.reduce(%arg8 init: %cst_16) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x40x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_17 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %18 = stablehlo.reduce(%arg9 init: %cst_17) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_18 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %19 = stablehlo.reduce(%arg9 init: %cst_18) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_19 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %20 = stablehlo.reduce(%arg10 init: %cst_19) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_20 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %21 = stablehlo.reduce(%arg10 init: %cst_20) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_21 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %22 = stablehlo.reduce(%arg11 init: %cst_21) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_22 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %23 = stablehlo.reduce(%arg11 init: %cst_22) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %24 = stablehlo.reduce(%arg12 init: %cst_23) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_24 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %25 = stablehlo.reduce(%arg12 init: %cst_24) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_25 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %26 = stablehlo.reduce(%arg13 init: %cst_25) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_26 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %27 = stablehlo.reduce(%arg13 init: %cst_26) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %28 = stablehlo.reduce(%arg14 init: %cst_27) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_28 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %29 = stablehlo.reduce(%arg14 init: %cst_28) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_29 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %30 = stablehlo.reduce(%arg15 init: %cst_29) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_30 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %31 = stablehlo.reduce(%arg15 init: %cst_30) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_31 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %32 = stablehlo.reduce(%arg16 init: %cst_31) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_32 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %33 = stablehlo.reduce(%arg16 init: %cst_32) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_33 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %34 = stablehlo.reduce(%arg17 init: %cst_33) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_34 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %35 = stablehlo.reduce(%arg17 init: %cst_34) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_35 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %36 = stablehlo.reduce(%arg18 init: %cst_35) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_36 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %37 = stablehlo.reduce(%arg18 init: %cst_36) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_37 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %38 = stablehlo.reduce(%arg19 init: %cst_37) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_38 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %39 = stablehlo.reduce(%arg19 init: %cst_38) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_39 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %40 = stablehlo.reduce(%arg20 init: %cst_39) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_40 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %41 = stablehlo.reduce(%arg20 init: %cst_40) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_41 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.reduce(%arg21 init: %cst_41) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_42 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %43 = stablehlo.reduce(%arg21 init: %cst_42) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_43 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %44 = stablehlo.reduce(%arg22 init: %cst_43) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_44 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %45 = stablehlo.reduce(%arg22 init: %cst_44) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_45 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %46 = stablehlo.reduce(%arg23 init: %cst_45) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_46 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %47 = stablehlo.reduce(%arg23 init: %cst_46) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_47 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %48 = stablehlo.reduce(%arg24 init: %cst_47) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_48 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %49 = stablehlo.reduce(%arg24 init: %cst_48) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_49 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.reduce(%arg25 init: %cst_49) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_50 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %51 = stablehlo.reduce(%arg25 init: %cst_50) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_51 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %52 = stablehlo.reduce(%arg26 init: %cst_51) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_52 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %53 = stablehlo.reduce(%arg26 init: %cst_52) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_53 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %54 = stablehlo.reduce(%arg27 init: %cst_53) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_54 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %55 = stablehlo.reduce(%arg27 init: %cst_54) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_55 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %56 = stablehlo.reduce(%arg28 init: %cst_55) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_56 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %57 = stablehlo.reduce(%arg28 init: %cst_56) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_57 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %58 = stablehlo.reduce(%arg29 init: %cst_57) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_58 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %59 = stablehlo.reduce(%arg29 init: %cst_58) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_59 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %60 = stablehlo.reduce(%arg30 init: %cst_59) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_60 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %61 = stablehlo.reduce(%arg30 init: %cst_60) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_61 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %62 = stablehlo.reduce(%arg31 init: %cst_61) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_62 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %63 = stablehlo.reduce(%arg31 init: %cst_62) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_63 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %64 = stablehlo.reduce(%arg32 init: %cst_63) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_64 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %65 = stablehlo.reduce(%arg32 init: %cst_64) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_65 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %66 = stablehlo.reduce(%arg33 init: %cst_65) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_66 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %67 = stablehlo.reduce(%arg33 init: %cst_66) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_67 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %68 = stablehlo.reduce(%arg34 init: %cst_67) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_68 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %69 = stablehlo.reduce(%arg34 init: %cst_68) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_69 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %70 = stablehlo.reduce(%arg35 init: %cst_69) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_70 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %71 = stablehlo.reduce(%arg35 init: %cst_70) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_71 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %72 = stablehlo.reduce(%arg36 init: %cst_71) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_72 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %73 = stablehlo.reduce(%arg36 init: %cst_72) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_73 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %74 = stablehlo.reduce(%arg37 init: %cst_73) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_74 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %75 = stablehlo.reduce(%arg37 init: %cst_74) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_75 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %76 = stablehlo.reduce(%arg38 init: %cst_75) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_76 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %77 = stablehlo.reduce(%arg38 init: %cst_76) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_77 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %78 = stablehlo.reduce(%arg39 init: %cst_77) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_78 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %79 = stablehlo.reduce(%arg39 init: %cst_78) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_79 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %80 = stablehlo.reduce(%arg40 init: %cst_79) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_80 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %81 = stablehlo.reduce(%arg40 init: %cst_80) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_81 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %82 = stablehlo.reduce(%arg41 init: %cst_81) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_82 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %83 = stablehlo.reduce(%arg41 init: %cst_82) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_83 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %84 = stablehlo.reduce(%arg42 init: %cst_83) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_84 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %85 = stablehlo.reduce(%arg42 init: %cst_84) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_85 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %86 = stablehlo.reduce(%arg43 init: %cst_85) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_86 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %87 = stablehlo.reduce(%arg43 init: %cst_86) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_87 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %88 = stablehlo.reduce(%arg44 init: %cst_87) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_88 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %89 = stablehlo.reduce(%arg44 init: %cst_88) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_89 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %90 = stablehlo.reduce(%arg45 init: %cst_89) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_90 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %91 = stablehlo.reduce(%arg45 init: %cst_90) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_91 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %92 = stablehlo.reduce(%arg46 init: %cst_91) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x40x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_92 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %93 = stablehlo.reduce(%arg46 init: %cst_92) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x40x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_93 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %94 = stablehlo.reduce(%arg47 init: %cst_93) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_94 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %95 = stablehlo.reduce(%arg47 init: %cst_94) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_95 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %96 = stablehlo.reduce(%arg48 init: %cst_95) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_96 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %97 = stablehlo.reduce(%arg48 init: %cst_96) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_97 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %98 = stablehlo.reduce(%arg49 init: %cst_97) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_98 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %99 = stablehlo.reduce(%arg49 init: %cst_98) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_99 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %100 = stablehlo.reduce(%arg50 init: %cst_99) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_100 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %101 = stablehlo.reduce(%arg50 init: %cst_100) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_101 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %102 = stablehlo.reduce(%arg51 init: %cst_101) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_102 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %103 = stablehlo.reduce(%arg51 init: %cst_102) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_103 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %104 = stablehlo.reduce(%arg52 init: %cst_103) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_104 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %105 = stablehlo.reduce(%arg52 init: %cst_104) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_105 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %106 = stablehlo.reduce(%arg53 init: %cst_105) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_106 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %107 = stablehlo.reduce(%arg53 init: %cst_106) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_107 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %108 = stablehlo.reduce(%arg54 init: %cst_107) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_108 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %109 = stablehlo.reduce(%arg54 init: %cst_108) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_109 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %110 = stablehlo.reduce(%arg55 init: %cst_109) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_110 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %111 = stablehlo.reduce(%arg55 init: %cst_110) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_111 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %112 = stablehlo.reduce(%arg56 init: %cst_111) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_112 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %113 = stablehlo.reduce(%arg56 init: %cst_112) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_113 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %114 = stablehlo.reduce(%arg57 init: %cst_113) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_114 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %115 = stablehlo.reduce(%arg57 init: %cst_114) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_115 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %116 = stablehlo.reduce(%arg58 init: %cst_115) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_116 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %117 = stablehlo.reduce(%arg58 init: %cst_116) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_117 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %118 = stablehlo.reduce(%arg59 init: %cst_117) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_118 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %119 = stablehlo.reduce(%arg59 init: %cst_118) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_119 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %120 = stablehlo.reduce(%arg60 init: %cst_119) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_120 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %121 = stablehlo.reduce(%arg60 init: %cst_120) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_121 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %122 = stablehlo.reduce(%arg61 init: %cst_121) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_122 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %123 = stablehlo.reduce(%arg61 init: %cst_122) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_123 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %124 = stablehlo.reduce(%arg62 init: %cst_123) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_124 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %125 = stablehlo.reduce(%arg62 init: %cst_124) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_125 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %126 = stablehlo.reduce(%arg63 init: %cst_125) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_126 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %127 = stablehlo.reduce(%arg63 init: %cst_126) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_127 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %128 = stablehlo.reduce(%arg64 init: %cst_127) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_128 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %129 = stablehlo.reduce(%arg64 init: %cst_128) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_129 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %130 = stablehlo.reduce(%arg65 init: %cst_129) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_130 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %131 = stablehlo.reduce(%arg65 init: %cst_130) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_131 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %132 = stablehlo.reduce(%arg66 init: %cst_131) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_132 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %133 = stablehlo.reduce(%arg66 init: %cst_132) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_133 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %134 = stablehlo.reduce(%arg67 init: %cst_133) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_134 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %135 = stablehlo.reduce(%arg67 init: %cst_134) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_135 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %136 = stablehlo.reduce(%arg68 init: %cst_135) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_136 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %137 = stablehlo.reduce(%arg68 init: %cst_136) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_137 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %138 = stablehlo.reduce(%arg69 init: %cst_137) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_138 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %139 = stablehlo.reduce(%arg69 init: %cst_138) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_139 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %140 = stablehlo.reduce(%arg70 init: %cst_139) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_140 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %141 = stablehlo.reduce(%arg70 init: %cst_140) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_141 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %142 = stablehlo.reduce(%arg71 init: %cst_141) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_142 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %143 = stablehlo.reduce(%arg71 init: %cst_142) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_143 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %144 = stablehlo.reduce(%arg72 init: %cst_143) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_144 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %145 = stablehlo.reduce(%arg72 init: %cst_144) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_145 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %146 = stablehlo.reduce(%arg73 init: %cst_145) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_146 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %147 = stablehlo.reduce(%arg73 init: %cst_146) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_147 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %148 = stablehlo.reduce(%arg74 init: %cst_147) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_148 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %149 = stablehlo.reduce(%arg74 init: %cst_148) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_149 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %150 = stablehlo.reduce(%arg75 init: %cst_149) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_150 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %151 = stablehlo.reduce(%arg75 init: %cst_150) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_151 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %152 = stablehlo.reduce(%arg76 init: %cst_151) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_152 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %153 = stablehlo.reduce(%arg76 init: %cst_152) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_153 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %154 = stablehlo.reduce(%arg77 init: %cst_153) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_154 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %155 = stablehlo.reduce(%arg77 init: %cst_154) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_155 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %156 = stablehlo.reduce(%arg78 init: %cst_155) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_156 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %157 = stablehlo.reduce(%arg78 init: %cst_156) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_157 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %158 = stablehlo.reduce(%arg79 init: %cst_157) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_158 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %159 = stablehlo.reduce(%arg79 init: %cst_158) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_159 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %160 = stablehlo.reduce(%arg80 init: %cst_159) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_160 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %161 = stablehlo.reduce(%arg80 init: %cst_160) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_161 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %162 = stablehlo.reduce(%arg81 init: %cst_161) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_162 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %163 = stablehlo.reduce(%arg81 init: %cst_162) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_163 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %164 = stablehlo.reduce(%arg82 init: %cst_163) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_164 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %165 = stablehlo.reduce(%arg82 init: %cst_164) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_165 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %166 = stablehlo.reduce(%arg83 init: %cst_165) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_166 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %167 = stablehlo.reduce(%arg83 init: %cst_166) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_167 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %168 = stablehlo.reduce(%arg84 init: %cst_167) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_168 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %169 = stablehlo.reduce(%arg84 init: %cst_168) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_169 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %170 = stablehlo.reduce(%arg85 init: %cst_169) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_170 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %171 = stablehlo.reduce(%arg85 init: %cst_170) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_171 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %172 = stablehlo.reduce(%arg86 init: %cst_171) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_172 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %173 = stablehlo.reduce(%arg86 init: %cst_172) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_173 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %174 = stablehlo.reduce(%arg87 init: %cst_173) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_174 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %175 = stablehlo.reduce(%arg87 init: %cst_174) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_175 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %176 = stablehlo.reduce(%arg88 init: %cst_175) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_176 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %177 = stablehlo.reduce(%arg88 init: %cst_176) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_177 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %178 = stablehlo.reduce(%arg89 init: %cst_177) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_178 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %179 = stablehlo.reduce(%arg89 init: %cst_178) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_179 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %180 = stablehlo.reduce(%arg90 init: %cst_179) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_180 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %181 = stablehlo.reduce(%arg90 init: %cst_180) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_181 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %182 = stablehlo.reduce(%arg91 init: %cst_181) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_182 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %183 = stablehlo.reduce(%arg91 init: %cst_182) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_183 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %184 = stablehlo.reduce(%arg92 init: %cst_183) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_184 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %185 = stablehlo.reduce(%arg92 init: %cst_184) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_185 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %186 = stablehlo.reduce(%arg93 init: %cst_185) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_186 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %187 = stablehlo.reduce(%arg93 init: %cst_186) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_187 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %188 = stablehlo.reduce(%arg94 init: %cst_187) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_188 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %189 = stablehlo.reduce(%arg94 init: %cst_188) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_189 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %190 = stablehlo.reduce(%arg95 init: %cst_189) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_190 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %191 = stablehlo.reduce(%arg95 init: %cst_190) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_191 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %192 = stablehlo.reduce(%arg96 init: %cst_191) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_192 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %193 = stablehlo.reduce(%arg96 init: %cst_192) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_193 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %194 = stablehlo.reduce(%arg97 init: %cst_193) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_194 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %195 = stablehlo.reduce(%arg97 init: %cst_194) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_195 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %196 = stablehlo.reduce(%arg98 init: %cst_195) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_196 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %197 = stablehlo.reduce(%arg98 init: %cst_196) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_197 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %198 = stablehlo.reduce(%arg99 init: %cst_197) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_198 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %199 = stablehlo.reduce(%arg99 init: %cst_198) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_199 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %200 = stablehlo.reduce(%arg100 init: %cst_199) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_200 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %201 = stablehlo.reduce(%arg100 init: %cst_200) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_201 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %202 = stablehlo.reduce(%arg101 init: %cst_201) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_202 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %203 = stablehlo.reduce(%arg101 init: %cst_202) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_203 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %204 = stablehlo.reduce(%arg102 init: %cst_203) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_204 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %205 = stablehlo.reduce(%arg102 init: %cst_204) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_205 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %206 = stablehlo.reduce(%arg103 init: %cst_205) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_206 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %207 = stablehlo.reduce(%arg103 init: %cst_206) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_207 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %208 = stablehlo.reduce(%arg104 init: %cst_207) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_208 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %209 = stablehlo.reduce(%arg104 init: %cst_208) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_209 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %210 = stablehlo.reduce(%arg105 init: %cst_209) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_210 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %211 = stablehlo.reduce(%arg105 init: %cst_210) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<3x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_211 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %212 = stablehlo.reduce(%arg106 init: %cst_211) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_212 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %213 = stablehlo.reduce(%arg106 init: %cst_212) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_213 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %214 = stablehlo.reduce(%arg107 init: %cst_213) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_214 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %215 = stablehlo.reduce(%arg107 init: %cst_214) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_215 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %216 = stablehlo.reduce(%arg108 init: %cst_215) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_216 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %217 = stablehlo.reduce(%arg108 init: %cst_216) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_217 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %218 = stablehlo.reduce(%arg109 init: %cst_217) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_218 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %219 = stablehlo.reduce(%arg109 init: %cst_218) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<3x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_219 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %220 = stablehlo.reduce(%arg110 init: %cst_219) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_220 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %221 = stablehlo.reduce(%arg110 init: %cst_220) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_221 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %222 = stablehlo.reduce(%arg111 init: %cst_221) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_222 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %223 = stablehlo.reduce(%arg111 init: %cst_222) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_223 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %224 = stablehlo.reduce(%arg112 init: %cst_223) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_224 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %225 = stablehlo.reduce(%arg112 init: %cst_224) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_225 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %226 = stablehlo.reduce(%arg113 init: %cst_225) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_226 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %227 = stablehlo.reduce(%arg113 init: %cst_226) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_227 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %228 = stablehlo.reduce(%arg114 init: %cst_227) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_228 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %229 = stablehlo.reduce(%arg114 init: %cst_228) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_229 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %230 = stablehlo.reduce(%arg115 init: %cst_229) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_230 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %231 = stablehlo.reduce(%arg115 init: %cst_230) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_231 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %232 = stablehlo.reduce(%arg116 init: %cst_231) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_232 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %233 = stablehlo.reduce(%arg116 init: %cst_232) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_233 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %234 = stablehlo.reduce(%arg117 init: %cst_233) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x40x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_234 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %235 = stablehlo.reduce(%arg117 init: %cst_234) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x40x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_235 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %236 = stablehlo.reduce(%arg118 init: %cst_235) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_236 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %237 = stablehlo.reduce(%arg118 init: %cst_236) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_237 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %238 = stablehlo.reduce(%arg119 init: %cst_237) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<3x96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_238 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %239 = stablehlo.reduce(%arg119 init: %cst_238) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<3x96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_239 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %240 = stablehlo.reduce(%arg120 init: %cst_239) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_240 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %241 = stablehlo.reduce(%arg120 init: %cst_240) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_241 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %242 = stablehlo.reduce(%arg121 init: %cst_241) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_242 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %243 = stablehlo.reduce(%arg121 init: %cst_242) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_243 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %244 = stablehlo.reduce(%arg122 init: %cst_243) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_244 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %245 = stablehlo.reduce(%arg122 init: %cst_244) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_245 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %246 = stablehlo.reduce(%arg123 init: %cst_245) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_246 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %247 = stablehlo.reduce(%arg123 init: %cst_246) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_247 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %248 = stablehlo.reduce(%arg124 init: %cst_247) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_248 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %249 = stablehlo.reduce(%arg124 init: %cst_248) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_249 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %250 = stablehlo.reduce(%arg125 init: %cst_249) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_250 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %251 = stablehlo.reduce(%arg125 init: %cst_250) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_251 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %252 = stablehlo.reduce(%arg126 init: %cst_251) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_252 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %253 = stablehlo.reduce(%arg126 init: %cst_252) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_253 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %254 = stablehlo.reduce(%arg127 init: %cst_253) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_254 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %255 = stablehlo.reduce(%arg127 init: %cst_254) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_255 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %256 = stablehlo.reduce(%arg128 init: %cst_255) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_256 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %257 = stablehlo.reduce(%arg128 init: %cst_256) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_257 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %258 = stablehlo.reduce(%arg129 init: %cst_257) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_258 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %259 = stablehlo.reduce(%arg129 init: %cst_258) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_259 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %260 = stablehlo.reduce(%arg130 init: %cst_259) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_260 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %261 = stablehlo.reduce(%arg130 init: %cst_260) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_261 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %262 = stablehlo.reduce(%arg131 init: %cst_261) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_262 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %263 = stablehlo.reduce(%arg131 init: %cst_262) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_263 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %264 = stablehlo.reduce(%arg132 init: %cst_263) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_264 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %265 = stablehlo.reduce(%arg132 init: %cst_264) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_265 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %266 = stablehlo.reduce(%arg133 init: %cst_265) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_266 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %267 = stablehlo.reduce(%arg133 init: %cst_266) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_267 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %268 = stablehlo.reduce(%arg134 init: %cst_267) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_268 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %269 = stablehlo.reduce(%arg134 init: %cst_268) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_269 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %270 = stablehlo.reduce(%arg135 init: %cst_269) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_270 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %271 = stablehlo.reduce(%arg135 init: %cst_270) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_271 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %272 = stablehlo.reduce(%arg136 init: %cst_271) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_272 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %273 = stablehlo.reduce(%arg136 init: %cst_272) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_273 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %274 = stablehlo.reduce(%arg137 init: %cst_273) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_274 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %275 = stablehlo.reduce(%arg137 init: %cst_274) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_275 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %276 = stablehlo.reduce(%arg138 init: %cst_275) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_276 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %277 = stablehlo.reduce(%arg138 init: %cst_276) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<192x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_277 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %278 = stablehlo.reduce(%arg139 init: %cst_277) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_278 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %279 = stablehlo.reduce(%arg139 init: %cst_278) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_279 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %280 = stablehlo.reduce(%arg140 init: %cst_279) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_280 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %281 = stablehlo.reduce(%arg140 init: %cst_280) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<96x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_281 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %282 = stablehlo.reduce(%arg141 init: %cst_281) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_282 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %283 = stablehlo.reduce(%arg141 init: %cst_282) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_283 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %284 = stablehlo.reduce(%arg142 init: %cst_283) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_284 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %285 = stablehlo.reduce(%arg142 init: %cst_284) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_285 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %286 = stablehlo.reduce(%arg143 init: %cst_285) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_286 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %287 = stablehlo.reduce(%arg143 init: %cst_286) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_287 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %288 = stablehlo.reduce(%arg144 init: %cst_287) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_288 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %289 = stablehlo.reduce(%arg144 init: %cst_288) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_289 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %290 = stablehlo.reduce(%arg145 init: %cst_289) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_290 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %291 = stablehlo.reduce(%arg145 init: %cst_290) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_291 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %292 = stablehlo.reduce(%arg146 init: %cst_291) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_292 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %293 = stablehlo.reduce(%arg146 init: %cst_292) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_293 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %294 = stablehlo.reduce(%arg147 init: %cst_293) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_294 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %295 = stablehlo.reduce(%arg147 init: %cst_294) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_295 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %296 = stablehlo.reduce(%arg148 init: %cst_295) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_296 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %297 = stablehlo.reduce(%arg148 init: %cst_296) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_297 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %298 = stablehlo.reduce(%arg149 init: %cst_297) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_298 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %299 = stablehlo.reduce(%arg149 init: %cst_298) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x96x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_299 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %300 = stablehlo.reduce(%arg150 init: %cst_299) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_300 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %301 = stablehlo.reduce(%arg150 init: %cst_300) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_301 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %302 = stablehlo.reduce(%arg151 init: %cst_301) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_302 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %303 = stablehlo.reduce(%arg151 init: %cst_302) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x256x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_303 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %304 = stablehlo.reduce(%arg152 init: %cst_303) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_304 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %305 = stablehlo.reduce(%arg152 init: %cst_304) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_305 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %306 = stablehlo.reduce(%arg153 init: %cst_305) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_306 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %307 = stablehlo.reduce(%arg153 init: %cst_306) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_307 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %308 = stablehlo.reduce(%arg154 init: %cst_307) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_308 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %309 = stablehlo.reduce(%arg154 init: %cst_308) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<2x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_309 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %310 = stablehlo.reduce(%arg155 init: %cst_309) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_310 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %311 = stablehlo.reduce(%arg155 init: %cst_310) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x4x24x96xf32>, tensor<f32>) -> tensor<f32>
    %cst_311 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %312 = stablehlo.reduce(%arg156 init: %cst_311) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_312 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %313 = stablehlo.reduce(%arg156 init: %cst_312) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_313 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %314 = stablehlo.reduce(%arg157 init: %cst_313) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_314 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %315 = stablehlo.reduce(%arg157 init: %cst_314) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_315 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %316 = stablehlo.reduce(%arg158 init: %cst_315) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_316 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %317 = stablehlo.reduce(%arg158 init: %cst_316) applies stablehlo.minimum across dimensions = [0, 1, 2] : (tensor<2x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_317 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %318 = stablehlo.reduce(%arg159 init: %cst_317) applies stablehlo.maximum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_318 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %319 = stablehlo.reduce(%arg159 init: %cst_318) applies stablehlo.minimum across dimensions = [0, 1, 2, 3] : (tensor<2x96x4x24xf32>, tensor<f32>) -> tensor<f32>
    %cst_319 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %320 = stablehlo.reduce(%arg160 init: %cst_319) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_320 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %321 = stablehlo.reduce(%arg160 init: %cst_320) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_321 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %322 = stablehlo.reduce(%arg161 init: %cst_321) applies stablehlo.maximum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %cst_322 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %323 = stablehlo.reduce(%arg161 init: %cst_322) applies stablehlo.minimum across dimensions = [0] : (tensor<96xf32>, tensor<f32>) -> tensor<f32>
    %324 = stablehlo.is_finite %0 : (tensor<f32>) -> tensor<i1>
    %325 = stablehlo.is_finite %1 : (tensor<f32>) -> tensor<i1>
    %326 = stablehlo.and %324, %325 : tensor<i1>
    %327 = stablehlo.is_finite %2 : (tensor<f32>) -> tensor<i1>
    %328 = stablehlo.is_finite %3 : (tensor<f32>) -> tensor<i1>
    %329 = stablehlo.and %327, %328 : tensor<i1>
    %330 = stablehlo.is_finite %4 : (tensor<f32>) -> tensor<i1>
    %331 = stablehlo.is_finite %5 : (tensor<f32>) -> tensor<i1>
    %332 = stablehlo.and %330, %331 : tensor<i1>
    %333 = stablehlo.is_finite %6 : (tensor<f32>) -> tensor<i1>
    %334 = stablehlo.is_finite %7 : (tensor<f32>) -> tensor<i1>
    %335 = stablehlo.and %333, %334 : tensor<i1>
    %336 = stablehlo.is_finite %8 : (tensor<f32>) -> tensor<i1>
    %337 = stablehlo.is_finite %9 : (tensor<f32>) -> tensor<i1>
    %338 = stablehlo.and %336, %337 : tensor<i1>
    %339 = stablehlo.is_finite %10 : (tensor<f32>) -> tensor<i1>
    %340 = stablehlo.is_finite %11 : (tensor<f32>) -> tensor<i1>
    %341 = stablehlo.and %339, %340 : tensor<i1>
    %342 = stablehlo.is_finite %12 : (tensor<f32>) -> tensor<i1>
    %343 = stablehlo.is_finite %13 : (tensor<f32>) -> tensor<i1>
    %344 = stablehlo.and %342, %343 : tensor<i1>
    %345 = stablehlo.is_finite %14 : (tensor<f32>) -> tensor<i1>
    %346 = stablehlo.is_finite %15 : (tensor<f32>) -> tensor<i1>
    %347 = stablehlo.and %345, %346 : tensor<i1>
    %348 = stablehlo.is_finite %16 : (tensor<f32>) -> tensor<i1>
    %349 = stablehlo.is_finite %17 : (tensor<f32>) -> tensor<i1>
    %350 = stablehlo.and %348, %349 : tensor<i1>
    %351 = stablehlo.is_finite %18 : (tensor<f32>) -> tensor<i1>
    %352 = stablehlo.is_finite %19 : (tensor<f32>) -> tensor<i1>
    %353 = stablehlo.and %351, %352 : tensor<i1>
    %354 = stablehlo.is_finite %20 : (tensor<f32>) -> tensor<i1>
    %355 = stablehlo.is_finite %21 : (tensor<f32>) -> tensor<i1>
    %356 = stablehlo.and %354, %355 : tensor<i1>
    %357 = stablehlo.is_finite %22 : (tensor<f32>) -> tensor<i1>
    %358 = stablehlo.is_finite %23 : (tensor<f32>) -> tensor<i1>
    %359 = stablehlo.and %357, %358 : tensor<i1>
    %360 = stablehlo.is_finite %24 : (tensor<f32>) -> tensor<i1>
    %361 = stablehlo.is_finite %25 : (tensor<f32>) -> tensor<i1>
    %362 = stablehlo.and %360, %361 : tensor<i1>
    %363 = stablehlo.is_finite %26 : (tensor<f32>) -> tensor<i1>
    %364 = stablehlo.is_finite %27 : (tensor<f32>) -> tensor<i1>
    %365 = stablehlo.and %363, %364 : tensor<i1>
    %366 = stablehlo.is_finite %28 : (tensor<f32>) -> tensor<i1>
    %367 = stablehlo.is_finite %29 : (tensor<f32>) -> tensor<i1>
    %368 = stablehlo.and %366, %367 : tensor<i1>
    %369 = stablehlo.is_finite %30 : (tensor<f32>) -> tensor<i1>
    %370 = stablehlo.is_finite %31 : (tensor<f32>) -> tensor<i1>
    %371 = stablehlo.and %369, %370 : tensor<i1>
    %372 = stablehlo.is_finite %32 : (tensor<f32>) -> tensor<i1>
    %373 = stablehlo.is_finite %33 : (tensor<f32>) -> tensor<i1>
    %374 = stablehlo.and %372, %373 : tensor<i1>
    %375 = stablehlo.is_finite %34 : (tensor<f32>) -> tensor<i1>
    %376 = stablehlo.is_finite %35 : (tensor<f32>) -> tensor<i1>
    %377 = stablehlo.and %375, %376 : tensor<i1>
    %378 = stablehlo.is_finite %36 : (tensor<f32>) -> tensor<i1>
    %379 = stablehlo.is_finite %37 : (tensor<f32>) -> tensor<i1>
    %380 = stablehlo.and %378, %379 : tensor<i1>
    %381 = stablehlo.is_finite %38 : (tensor<f32>) -> tensor<i1>
    %382 = stablehlo.is_finite %39 : (tensor<f32>) -> tensor<i1>
    %383 = stablehlo.and %381, %382 : tensor<i1>
    %384 = stablehlo.is_finite %40 : (tensor<f32>) -> tensor<i1>
    %385 = stablehlo.is_finite %41 : (tensor<f32>) -> tensor<i1>
    %386 = stablehlo.and %384, %385 : tensor<i1>
    %387 = stablehlo.is_finite %42 : (tensor<f32>) -> tensor<i1>
    %388 = stablehlo.is_finite %43 : (tensor<f32>) -> tensor<i1>
    %389 = stablehlo.and %387, %388 : tensor<i1>
    %390 = stablehlo.is_finite %44 : (tensor<f32>) -> tensor<i1>
    %391 = stablehlo.is_finite %45 : (tensor<f32>) -> tensor<i1>
    %392 = stablehlo.and %390, %391 : tensor<i1>
    %393 = stablehlo.is_finite %46 : (tensor<f32>) -> tensor<i1>
    %394 = stablehlo.is_finite %47 : (tensor<f32>) -> tensor<i1>
    %395 = stablehlo.and %393, %394 : tensor<i1>
    %396 = stablehlo.is_finite %48 : (tensor<f32>) -> tensor<i1>
    %397 = stablehlo.is_finite %49 : (tensor<f32>) -> tensor<i1>
    %398 = stablehlo.and %396, %397 : tensor<i1>
    %399 = stablehlo.is_finite %50 : (tensor<f32>) -> tensor<i1>
    %400 = stablehlo.is_finite %51 : (tensor<f32>) -> tensor<i1>
    %401 = stablehlo.and %399, %400 : tensor<i1>
    %402 = stablehlo.is_finite %52 : (tensor<f32>) -> tensor<i1>
    %403 = stablehlo.is_finite %53 : (tensor<f32>) -> tensor<i1>
    %404 = stablehlo.and %402, %403 : tensor<i1>
    %405 = stablehlo.is_finite %54 : (tensor<f32>) -> tensor<i1>
    %406 = stablehlo.is_finite %55 : (tensor<f32>) -> tensor<i1>
    %407 = stablehlo.and %405, %406 : tensor<i1>
    %408 = stablehlo.is_finite %56 : (tensor<f32>) -> tensor<i1>
    %409 = stablehlo.is_finite %57 : (tensor<f32>) -> tensor<i1>
    %410 = stablehlo.and %408, %409 : tensor<i1>
    %411 = stablehlo.is_finite %58 : (tensor<f32>) -> tensor<i1>
    %412 = stablehlo.is_finite %59 : (tensor<f32>) -> tensor<i1>
    %413 = stablehlo.and %411, %412 : tensor<i1>
    %414 = stablehlo.is_finite %60 : (tensor<f32>) -> tensor<i1>
    %415 = stablehlo.is_finite %61 : (tensor<f32>) -> tensor<i1>
    %416 = stablehlo.and %414, %415 : tensor<i1>
    %417 = stablehlo.is_finite %62 : (tensor<f32>) -> tensor<i1>
    %418 = stablehlo.is_finite %63 : (tensor<f32>) -> tensor<i1>
    %419 = stablehlo.and %417, %418 : tensor<i1>
    %420 = stablehlo.is_finite %64 : (tensor<f32>) -> tensor<i1>
    %421 = stablehlo.is_finite %65 : (tensor<f32>) -> tensor<i1>
    %422 = stablehlo.and %420, %421 : tensor<i1>
    %423 = stablehlo.is_finite %66 : (tensor<f32>) -> tensor<i1>
    %424 = stablehlo.is_finite %67 : (tensor<f32>) -> tensor<i1>
    %425 = stablehlo.and %423, %424 : tensor<i1>
    %426 = stablehlo.is_finite %68 : (tensor<f32>) -> tensor<i1>
    %427 = stablehlo.is_finite %69 : (tensor<f32>) -> tensor<i1>
    %428 = stablehlo.and %426, %427 : tensor<i1>
    %429 = stablehlo.is_finite %70 : (tensor<f32>) -> tensor<i1>
    %430 = stablehlo.is_finite %71 : (tensor<f32>) -> tensor<i1>
    %431 = stablehlo.and %429, %430 : tensor<i1>
    %432 = stablehlo.is_finite %72 : (tensor<f32>) -> tensor<i1>
    %433 = stablehlo.is_finite %73 : (tensor<f32>) -> tensor<i1>
    %434 = stablehlo.and %432, %433 : tensor<i1>
    %435 = stablehlo.is_finite %74 : (tensor<f32>) -> tensor<i1>
    %436 = stablehlo.is_finite %75 : (tensor<f32>) -> tensor<i1>
    %437 = stablehlo.and %435, %436 : tensor<i1>
    %438 = stablehlo.is_finite %76 : (tensor<f32>) -> tensor<i1>
    %439 = stablehlo.is_finite %77 : (tensor<f32>) -> tensor<i1>
    %440 = stablehlo.and %438, %439 : tensor<i1>
    %441 = stablehlo.is_finite %78 : (tensor<f32>) -> tensor<i1>
    %442 = stablehlo.is_finite %79 : (tensor<f32>) -> tensor<i1>
    %443 = stablehlo.and %441, %442 : tensor<i1>
    %444 = stablehlo.is_finite %80 : (tensor<f32>) -> tensor<i1>
    %445 = stablehlo.is_finite %81 : (tensor<f32>) -> tensor<i1>
    %446 = stablehlo.and %444, %445 : tensor<i1>
    %447 = stablehlo.is_finite %82 : (tensor<f32>) -> tensor<i1>
    %448 = stablehlo.is_finite %83 : (tensor<f32>) -> tensor<i1>
    %449 = stablehlo.and %447, %448 : tensor<i1>
    %450 = stablehlo.is_finite %84 : (tensor<f32>) -> tensor<i1>
    %451 = stablehlo.is_finite %85 : (tensor<f32>) -> tensor<i1>
    %452 = stablehlo.and %450, %451 : tensor<i1>
    %453 = stablehlo.is_finite %86 : (tensor<f32>) -> tensor<i1>
    %454 = stablehlo.is_finite %87 : (tensor<f32>) -> tensor<i1>
    %455 = stablehlo.and %453, %454 : tensor<i1>
    %456 = stablehlo.is_finite %88 : (tensor<f32>) -> tensor<i1>
    %457 = stablehlo.is_finite %89 : (tensor<f32>) -> tensor<i1>
    %458 = stablehlo.and %456, %457 : tensor<i1>
    %459 = stablehlo.is_finite %90 : (tensor<f32>) -> tensor<i1>
    %460 = stablehlo.is_finite %91 : (tensor<f32>) -> tensor<i1>
    %461 = stablehlo.and %459, %460 : tensor<i1>
    %462 = stablehlo.is_finite %92 : (tensor<f32>) -> tensor<i1>
    %463 = stablehlo.is_finite %93 : (tensor<f32>) -> tensor<i1>
    %464 = stablehlo.and %462, %463 : tensor<i1>
    %465 = stablehlo.is_finite %94 : (tensor<f32>) -> tensor<i1>
    %466 = stablehlo.is_finite %95 : (tensor<f32>) -> tensor<i1>
    %467 = stablehlo.and %465, %466 : tensor<i1>
    %468 = stablehlo.is_finite %96 : (tensor<f32>) -> tensor<i1>
    %469 = stablehlo.is_finite %97 : (tensor<f32>) -> tensor<i1>
    %470 = stablehlo.and %468, %469 : tensor<i1>
    %471 = stablehlo.is_finite %98 : (tensor<f32>) -> tensor<i1>
    %472 = stablehlo.is_finite %99 : (tensor<f32>) -> tensor<i1>
    %473 = stablehlo.and %471, %472 : tensor<i1>
    %474 = stablehlo.is_finite %100 : (tensor<f32>) -> tensor<i1>
    %475 = stablehlo.is_finite %101 : (tensor<f32>) -> tensor<i1>
    %476 = stablehlo.and %474, %475 : tensor<i1>
    %477 = stablehlo.is_finite %102 : (tensor<f32>) -> tensor<i1>
    %478 = stablehlo.is_finite %103 : (tensor<f32>) -> tensor<i1>
    %479 = stablehlo.and %477, %478 : tensor<i1>
    %480 = stablehlo.is_finite %104 : (tensor<f32>) -> tensor<i1>
    %481 = stablehlo.is_finite %105 : (tensor<f32>) -> tensor<i1>
    %482 = stablehlo.and %480, %481 : tensor<i1>
    %483 = stablehlo.is_finite %106 : (tensor<f32>) -> tensor<i1>
    %484 = stablehlo.is_finite %107 : (tensor<f32>) -> tensor<i1>
    %485 = stablehlo.and %483, %484 : tensor<i1>
    %486 = stablehlo.is_finite %108 : (tensor<f32>) -> tensor<i1>
    %487 = stablehlo.is_finite %109 : (tensor<f32>) -> tensor<i1>
    %488 = stablehlo.and %486, %487 : tensor<i1>
    %489 = stablehlo.is_finite %110 : (tensor<f32>) -> tensor<i1>
    %490 = stablehlo.is_finite %111 : (tensor<f32>) -> tensor<i1>
    %491 = stablehlo.and %489, %490 : tensor<i1>
    %492 = stablehlo.is_finite %112 : (tensor<f32>) -> tensor<i1>
    %493 = stablehlo.is_finite %113 : (tensor<f32>) -> tensor<i1>
    %494 = stablehlo.and %492, %493 : tensor<i1>
    %495 = stablehlo.is_finite %114 : (tensor<f32>) -> tensor<i1>
    %496 = stablehlo.is_finite %115 : (tensor<f32>) -> tensor<i1>
    %497 = stablehlo.and %495, %496 : tensor<i1>
    %498 = stablehlo.is_finite %116 : (tensor<f32>) -> tensor<i1>
    %499 = stablehlo.is_finite %117 : (tensor<f32>) -> tensor<i1>
    %500 = stablehlo.and %498, %499 : tensor<i1>
    %501 = stablehlo.is_finite %118 : (tensor<f32>) -> tensor<i1>
    %502 = stablehlo.is_finite %119 : (tensor<f32>) -> tensor<i1>
    %503 = stablehlo.and %501, %502 : tensor<i1>
    %504 = stablehlo.is_finite %120 : (tensor<f32>) -> tensor<i1>
    %505 = stablehlo.is_finite %121 : (tensor<f32>) -> tensor<i1>
    %506 = stablehlo.and %504, %505 : tensor<i1>
    %507 = stablehlo.is_finite %122 : (tensor<f32>) -> tensor<i1>
    %508 = stablehlo.is_finite %123 : (tensor<f32>) -> tensor<i1>
    %509 = stablehlo.and %507, %508 : tensor<i1>
    %510 = stablehlo.is_finite %124 : (tensor<f32>) -> tensor<i1>
    %511 = stablehlo.is_finite %125 : (tensor<f32>) -> tensor<i1>
    %512 = stablehlo.and %510, %511 : tensor<i1>
    %513 = stablehlo.is_finite %126 : (tensor<f32>) -> tensor<i1>
    %514 = stablehlo.is_finite %127 : (tensor<f32>) -> tensor<i1>
    %515 = stablehlo.and %513, %514 : tensor<i1>
    %516 = stablehlo.is_finite %128 : (tensor<f32>) -> tensor<i1>
    %517 = stablehlo.is_finite %129 : (tensor<f32>) -> tensor<i1>
    %518 = stablehlo.and %516, %517 : tensor<i1>
    %519 = stablehlo.is_finite %130 : (tensor<f32>) -> tensor<i1>
    %520 = stablehlo.is_finite %131 : (tensor<f32>) -> tensor<i1>
    %521 = stablehlo.and %519, %520 : tensor<i1>
    %522 = stablehlo.is_finite %132 : (tensor<f32>) -> tensor<i1>
    %523 = stablehlo.is_finite %133 : (tensor<f32>) -> tensor<i1>
    %524 = stablehlo.and %522, %523 : tensor<i1>
    %525 = stablehlo.is_finite %134 : (tensor<f32>) -> tensor<i1>
    %526 = stablehlo.is_finite %135 : (tensor<f32>) -> tensor<i1>
    %527 = stablehlo.and %525, %526 : tensor<i1>
    %528 = stablehlo.is_finite %136 : (tensor<f32>) -> tensor<i1>
    %529 = stablehlo.is_finite %137 : (tensor<f32>) -> tensor<i1>
    %530 = stablehlo.and %528, %529 : tensor<i1>
    %531 = stablehlo.is_finite %138 : (tensor<f32>) -> tensor<i1>
    %532 = stablehlo.is_finite %139 : (tensor<f32>) -> tensor<i1>
    %533 = stablehlo.and %531, %532 : tensor<i1>
    %534 = stablehlo.is_finite %140 : (tensor<f32>) -> tensor<i1>
    %535 = stablehlo.is_finite %141 : (tensor<f32>) -> tensor<i1>
    %536 = stablehlo.and %534, %535 : tensor<i1>
    %537 = stablehlo.is_finite %142 : (tensor<f32>) -> tensor<i1>
    %538 = stablehlo.is_finite %143 : (tensor<f32>) -> tensor<i1>
    %539 = stablehlo.and %537, %538 : tensor<i1>
    %540 = stablehlo.is_finite %144 : (tensor<f32>) -> tensor<i1>
    %541 = stablehlo.is_finite %145 : (tensor<f32>) -> tensor<i1>
    %542 = stablehlo.and %540, %541 : tensor<i1>
    %543 = stablehlo.is_finite %146 : (tensor<f32>) -> tensor<i1>
    %544 = stablehlo.is_finite %147 : (tensor<f32>) -> tensor<i1>
    %545 = stablehlo.and %543, %544 : tensor<i1>
    %546 = stablehlo.is_finite %148 : (tensor<f32>) -> tensor<i1>
    %547 = stablehlo.is_finite %149 : (tensor<f32>) -> tensor<i1>
    %548 = stablehlo.and %546, %547 : tensor<i1>
    %549 = stablehlo.is_finite %150 : (tensor<f32>) -> tensor<i1>
    %550 = stablehlo.is_finite %151 : (tensor<f32>) -> tensor<i1>
    %551 = stablehlo.and %549, %550 : tensor<i1>
    %552 = stablehlo.is_finite %152 : (tensor<f32>) -> tensor<i1>
    %553 = stablehlo.is_finite %153 : (tensor<f32>) -> tensor<i1>
    %554 = stablehlo.and %552, %553 : tensor<i1>
    %555 = stablehlo.is_finite %154 : (tensor<f32>) -> tensor<i1>
    %556 = stablehlo.is_finite %155 : (tensor<f32>) -> tensor<i1>
    %557 = stablehlo.and %555, %556 : tensor<i1>
    %558 = stablehlo.is_finite %156 : (tensor<f32>) -> tensor<i1>
    %559 = stablehlo.is_finite %157 : (tensor<f32>) -> tensor<i1>
    %560 = stablehlo.and %558, %559 : tensor<i1>
    %561 = stablehlo.is_finite %158 : (tensor<f32>) -> tensor<i1>
    %562 = stablehlo.is_finite %159 : (tensor<f32>) -> tensor<i1>
    %563 = stablehlo.and %561, %562 : tensor<i1>
    %564 = stablehlo.is_finite %160 : (tensor<f32>) -> tensor<i1>
    %565 = stablehlo.is_finite %161 : (tensor<f32>) -> tensor<i1>
    %566 = stablehlo.and %564, %565 : tensor<i1>
    %567 = stablehlo.is_finite %162 : (tensor<f32>) -> tensor<i1>
    %568 = stablehlo.is_finite %163 : (tensor<f32>) -> tensor<i1>
    %569 = stablehlo.and %567, %568 : tensor<i1>
    %570 = stablehlo.is_finite %164 : (tensor<f32>) -> tensor<i1>
    %571 = stablehlo.is_finite %165 : (tensor<f32>) -> tensor<i1>
    %572 = stablehlo.and %570, %571 : tensor<i1>
    %573 = stablehlo.is_finite %166 : (tensor<f32>) -> tensor<i1>
    %574 = stablehlo.is_finite %167 : (tensor<f32>) -> tensor<i1>
    %575 = stablehlo.and %573, %574 : tensor<i1>
    %576 = stablehlo.is_finite %168 : (tensor<f32>) -> tensor<i1>
    %577 = stablehlo.is_finite %169 : (tensor<f32>) -> tensor<i1>
    %578 = stablehlo.and %576, %577 : tensor<i1>
    %579 = stablehlo.is_finite %170 : (tensor<f32>) -> tensor<i1>
    %580 = stablehlo.is_finite %171 : (tensor<f32>) -> tensor<i1>
    %581 = stablehlo.and %579, %580 : tensor<i1>
    %582 = stablehlo.is_finite %172 : (tensor<f32>) -> tensor<i1>
    %583 = stablehlo.is_finite %173 : (tensor<f32>) -> tensor<i1>
    %584 = stablehlo.and %582, %583 : tensor<i1>
    %585 = stablehlo.is_finite %174 : (tensor<f32>) -> tensor<i1>
    %586 = stablehlo.is_finite %175 : (tensor<f32>) -> tensor<i1>
    %587 = stablehlo.and %585, %586 : tensor<i1>
    %588 = stablehlo.is_finite %176 : (tensor<f32>) -> tensor<i1>
    %589 = stablehlo.is_finite %177 : (tensor<f32>) -> tensor<i1>
    %590 = stablehlo.and %588, %589 : tensor<i1>
    %591 = stablehlo.is_finite %178 : (tensor<f32>) -> tensor<i1>
    %592 = stablehlo.is_finite %179 : (tensor<f32>) -> tensor<i1>
    %593 = stablehlo.and %591, %592 : tensor<i1>
    %594 = stablehlo.is_finite %180 : (tensor<f32>) -> tensor<i1>
    %595 = stablehlo.is_finite %181 : (tensor<f32>) -> tensor<i1>
    %596 = stablehlo.and %594, %595 : tensor<i1>
    %597 = stablehlo.is_finite %182 : (tensor<f32>) -> tensor<i1>
    %598 = stablehlo.is_finite %183 : (tensor<f32>) -> tensor<i1>
    %599 = stablehlo.and %597, %598 : tensor<i1>
    %600 = stablehlo.is_finite %184 : (tensor<f32>) -> tensor<i1>
    %601 = stablehlo.is_finite %185 : (tensor<f32>) -> tensor<i1>
    %602 = stablehlo.and %600, %601 : tensor<i1>
    %603 = stablehlo.is_finite %186 : (tensor<f32>) -> tensor<i1>
    %604 = stablehlo.is_finite %187 : (tensor<f32>) -> tensor<i1>
    %605 = stablehlo.and %603, %604 : tensor<i1>
    %606 = stablehlo.is_finite %188 : (tensor<f32>) -> tensor<i1>
    %607 = stablehlo.is_finite %189 : (tensor<f32>) -> tensor<i1>
    %608 = stablehlo.and %606, %607 : tensor<i1>
    %609 = stablehlo.is_finite %190 : (tensor<f32>) -> tensor<i1>
    %610 = stablehlo.is_finite %191 : (tensor<f32>) -> tensor<i1>
    %611 = stablehlo.and %609, %610 : tensor<i1>
    %612 = stablehlo.is_finite %192 : (tensor<f32>) -> tensor<i1>
    %613 = stablehlo.is_finite %193 : (tensor<f32>) -> tensor<i1>
    %614 = stablehlo.and %612, %613 : tensor<i1>
    %615 = stablehlo.is_finite %194 : (tensor<f32>) -> tensor<i1>
    %616 = stablehlo.is_finite %195 : (tensor<f32>) -> tensor<i1>
    %617 = stablehlo.and %615, %616 : tensor<i1>
    %618 = stablehlo.is_finite %196 : (tensor<f32>) -> tensor<i1>
    %619 = stablehlo.is_finite %197 : (tensor<f32>) -> tensor<i1>
    %620 = stablehlo.and %618, %619 : tensor<i1>
    %621 = stablehlo.is_finite %198 : (tensor<f32>) -> tensor<i1>
    %622 = stablehlo.is_finite %199 : (tensor<f32>) -> tensor<i1>
    %623 = stablehlo.and %621, %622 : tensor<i1>
    %624 = stablehlo.is_finite %200 : (tensor<f32>) -> tensor<i1>
    %625 = stablehlo.is_finite %201 : (tensor<f32>) -> tensor<i1>
    %626 = stablehlo.and %624, %625 : tensor<i1>
    %627 = stablehlo.is_finite %202 : (tensor<f32>) -> tensor<i1>
    %628 = stablehlo.is_finite %203 : (tensor<f32>) -> tensor<i1>
    %629 = stablehlo.and %627, %628 : tensor<i1>
    %630 = stablehlo.is_finite %204 : (tensor<f32>) -> tensor<i1>
    %631 = stablehlo.is_finite %205 : (tensor<f32>) -> tensor<i1>
    %632 = stablehlo.and %630, %631 : tensor<i1>
    %633 = stablehlo.is_finite %206 : (tensor<f32>) -> tensor<i1>
    %634 = stablehlo.is_finite %207 : (tensor<f32>) -> tensor<i1>
    %635 = stablehlo.and %633, %634 : tensor<i1>
    %636 = stablehlo.is_finite %208 : (tensor<f32>) -> tensor<i1>
    %637 = stablehlo.is_finite %209 : (tensor<f32>) -> tensor<i1>
    %638 = stablehlo.and %636, %637 : tensor<i1>
    %639 = stablehlo.is_finite %210 : (tensor<f32>) -> tensor<i1>
    %640 = stablehlo.is_finite %211 : (tensor<f32>) -> tensor<i1>
    %641 = stablehlo.and %639, %640 : tensor<i1>
    %642 = stablehlo.is_finite %212 : (tensor<f32>) -> tensor<i1>
    %643 = stablehlo.is_finite %213 : (tensor<f32>) -> tensor<i1>
    %644 = stablehlo.and %642, %643 : tensor<i1>
    %645 = stablehlo.is_finite %214 : (tensor<f32>) -> tensor<i1>
    %646 = stablehlo.is_finite %215 : (tensor<f32>) -> tensor<i1>
    %647 = stablehlo.and %645, %646 : tensor<i1>
    %648 = stablehlo.is_finite %216 : (tensor<f32>) -> tensor<i1>
    %649 = stablehlo.is_finite %217 : (tensor<f32>) -> tensor<i1>
    %650 = stablehlo.and %648, %649 : tensor<i1>
    %651 = stablehlo.is_finite %218 : (tensor<f32>) -> tensor<i1>
    %652 = stablehlo.is_finite %219 : (tensor<f32>) -> tensor<i1>
    %653 = stablehlo.and %651, %652 : tensor<i1>
    %654 = stablehlo.is_finite %220 : (tensor<f32>) -> tensor<i1>
    %655 = stablehlo.is_finite %221 : (tensor<f32>) -> tensor<i1>
    %656 = stablehlo.and %654, %655 : tensor<i1>
    %657 = stablehlo.is_finite %222 : (tensor<f32>) -> tensor<i1>
    %658 = stablehlo.is_finite %223 : (tensor<f32>) -> tensor<i1>
    %659 = stablehlo.and %657, %658 : tensor<i1>
    %660 = stablehlo.is_finite %224 : (tensor<f32>) -> tensor<i1>
    %661 = stablehlo.is_finite %225 : (tensor<f32>) -> tensor<i1>
    %662 = stablehlo.and %660, %661 : tensor<i1>
    %663 = stablehlo.is_finite %226 : (tensor<f32>) -> tensor<i1>
    %664 = stablehlo.is_finite %227 : (tensor<f32>) -> tensor<i1>
    %665 = stablehlo.and %663, %664 : tensor<i1>
    %666 = stablehlo.is_finite %228 : (tensor<f32>) -> tensor<i1>
    %667 = stablehlo.is_finite %229 : (tensor<f32>) -> tensor<i1>
    %668 = stablehlo.and %666, %667 : tensor<i1>
    %669 = stablehlo.is_finite %230 : (tensor<f32>) -> tensor<i1>
    %670 = stablehlo.is_finite %231 : (tensor<f32>) -> tensor<i1>
    %671 = stablehlo.and %669, %670 : tensor<i1>
    %672 = stablehlo.is_finite %232 : (tensor<f32>) -> tensor<i1>
    %673 = stablehlo.is_finite %233 : (tensor<f32>) -> tensor<i1>
    %674 = stablehlo.and %672, %673 : tensor<i1>
    %675 = stablehlo.is_finite %234 : (tensor<f32>) -> tensor<i1>
    %676 = stablehlo.is_finite %235 : (tensor<f32>) -> tensor<i1>
    %677 = stablehlo.and %675, %676 : tensor<i1>
    %678 = stablehlo.is_finite %236 : (tensor<f32>) -> tensor<i1>
    %679 = stablehlo.is_finite %237 : (tensor<f32>) -> tensor<i1>
    %680 = stablehlo.and %678, %679 : tensor<i1>
    %681 = stablehlo.is_finite %238 : (tensor<f32>) -> tensor<i1>
    %682 = stablehlo.is_finite %239 : (tensor<f32>) -> tensor<i1>
    %683 = stablehlo.and %681, %682 : tensor<i1>
    %684 = stablehlo.is_finite %240 : (tensor<f32>) -> tensor<i1>
    %685 = stablehlo.is_finite %241 : (tensor<f32>) -> tensor<i1>
    %686 = stablehlo.and %684, %685 : tensor<i1>
    %687 = stablehlo.is_finite %242 : (tensor<f32>) -> tensor<i1>
    %688 = stablehlo.is_finite %243 : (tensor<f32>) -> tensor<i1>
    %689 = stablehlo.and %687, %688 : tensor<i1>
    %690 = stablehlo.is_finite %244 : (tensor<f32>) -> tensor<i1>
    %691 = stablehlo.is_finite %245 : (tensor<f32>) -> tensor<i1>
    %692 = stablehlo.and %690, %691 : tensor<i1>
    %693 = stablehlo.is_finite %246 : (tensor<f32>) -> tensor<i1>
    %694 = stablehlo.is_finite %247 : (tensor<f32>) -> tensor<i1>
    %695 = stablehlo.and %693, %694 : tensor<i1>
    %696 = stablehlo.is_finite %248 : (tensor<f32>) -> tensor<i1>
    %697 = stablehlo.is_finite %249 : (tensor<f32>) -> tensor<i1>
    %698 = stablehlo.and %696, %697 : tensor<i1>
    %699 = stablehlo.is_finite %250 : (tensor<f32>) -> tensor<i1>
    %700 = stablehlo.is_finite %251 : (tensor<f32>) -> tensor<i1>
    %701 = stablehlo.and %699, %700 : tensor<i1>
    %702 = stablehlo.is_finite %252 : (tensor<f32>) -> tensor<i1>
    %703 = stablehlo.is_finite %253 : (tensor<f32>) -> tensor<i1>
    %704 = stablehlo.and %702, %703 : tensor<i1>
    %705 = stablehlo.is_finite %254 : (tensor<f32>) -> tensor<i1>
    %706 = stablehlo.is_finite %255 : (tensor<f32>) -> tensor<i1>
    %707 = stablehlo.and %705, %706 : tensor<i1>
    %708 = stablehlo.is_finite %256 : (tensor<f32>) -> tensor<i1>
    %709 = stablehlo.is_finite %257 : (tensor<f32>) -> tensor<i1>
    %710 = stablehlo.and %708, %709 : tensor<i1>
    %711 = stablehlo.is_finite %258 : (tensor<f32>) -> tensor<i1>
    %712 = stablehlo.is_finite %259 : (tensor<f32>) -> tensor<i1>
    %713 = stablehlo.and %711, %712 : tensor<i1>
    %714 = stablehlo.is_finite %260 : (tensor<f32>) -> tensor<i1>
    %715 = stablehlo.is_finite %261 : (tensor<f32>) -> tensor<i1>
    %716 = stablehlo.and %714, %715 : tensor<i1>
    %717 = stablehlo.is_finite %262 : (tensor<f32>) -> tensor<i1>
    %718 = stablehlo.is_finite %263 : (tensor<f32>) -> tensor<i1>
    %719 = stablehlo.and %717, %718 : tensor<i1>
    %720 = stablehlo.is_finite %264 : (tensor<f32>) -> tensor<i1>
    %721 = stablehlo.is_finite %265 : (tensor<f32>) -> tensor<i1>
    %722 = stablehlo.and %720, %721 : tensor<i1>
    %723 = stablehlo.is_finite %266 : (tensor<f32>) -> tensor<i1>
    %724 = stablehlo.is_finite %267 : (tensor<f32>) -> tensor<i1>
    %725 = stablehlo.and %723, %724 : tensor<i1>
    %726 = stablehlo.is_finite %268 : (tensor<f32>) -> tensor<i1>
    %727 = stablehlo.is_finite %269 : (tensor<f32>) -> tensor<i1>
    %728 = stablehlo.and %726, %727 : tensor<i1>
    %729 = stablehlo.is_finite %270 : (tensor<f32>) -> tensor<i1>
    %730 = stablehlo.is_finite %271 : (tensor<f32>) -> tensor<i1>
    %731 = stablehlo.and %729, %730 : tensor<i1>
    %732 = stablehlo.is_finite %272 : (tensor<f32>) -> tensor<i1>
    %733 = stablehlo.is_finite %273 : (tensor<f32>) -> tensor<i1>
    %734 = stablehlo.and %732, %733 : tensor<i1>
    %735 = stablehlo.is_finite %274 : (tensor<f32>) -> tensor<i1>
    %736 = stablehlo.is_finite %275 : (tensor<f32>) -> tensor<i1>
    %737 = stablehlo.and %735, %736 : tensor<i1>
    %738 = stablehlo.is_finite %276 : (tensor<f32>) -> tensor<i1>
    %739 = stablehlo.is_finite %277 : (tensor<f32>) -> tensor<i1>
    %740 = stablehlo.and %738, %739 : tensor<i1>
    %741 = stablehlo.is_finite %278 : (tensor<f32>) -> tensor<i1>
    %742 = stablehlo.is_finite %279 : (tensor<f32>) -> tensor<i1>
    %743 = stablehlo.and %741, %742 : tensor<i1>
    %744 = stablehlo.is_finite %280 : (tensor<f32>) -> tensor<i1>
    %745 = stablehlo.is_finite %281 : (tensor<f32>) -> tensor<i1>
    %746 = stablehlo.and %744, %745 : tensor<i1>
    %747 = stablehlo.is_finite %282 : (tensor<f32>) -> tensor<i1>
    %748 = stablehlo.is_finite %283 : (tensor<f32>) -> tensor<i1>
    %749 = stablehlo.and %747, %748 : tensor<i1>
    %750 = stablehlo.is_finite %284 : (tensor<f32>) -> tensor<i1>
    %751 = stablehlo.is_finite %285 : (tensor<f32>) -> tensor<i1>
    %752 = stablehlo.and %750, %751 : tensor<i1>
    %753 = stablehlo.is_finite %286 : (tensor<f32>) -> tensor<i1>
    %754 = stablehlo.is_finite %287 : (tensor<f32>) -> tensor<i1>
    %755 = stablehlo.and %753, %754 : tensor<i1>
    %756 = stablehlo.is_finite %288 : (tensor<f32>) -> tensor<i1>
    %757 = stablehlo.is_finite %289 : (tensor<f32>) -> tensor<i1>
    %758 = stablehlo.and %756, %757 : tensor<i1>
    %759 = stablehlo.is_finite %290 : (tensor<f32>) -> tensor<i1>
    %760 = stablehlo.is_finite %291 : (tensor<f32>) -> tensor<i1>
    %761 = stablehlo.and %759, %760 : tensor<i1>
    %762 = stablehlo.is_finite %292 : (tensor<f32>) -> tensor<i1>
    %763 = stablehlo.is_finite %293 : (tensor<f32>) -> tensor<i1>
    %764 = stablehlo.and %762, %763 : tensor<i1>
    %765 = stablehlo.is_finite %294 : (tensor<f32>) -> tensor<i1>
    %766 = stablehlo.is_finite %295 : (tensor<f32>) -> tensor<i1>
    %767 = stablehlo.and %765, %766 : tensor<i1>
    %768 = stablehlo.is_finite %296 : (tensor<f32>) -> tensor<i1>
    %769 = stablehlo.is_finite %297 : (tensor<f32>) -> tensor<i1>
    %770 = stablehlo.and %768, %769 : tensor<i1>
    %771 = stablehlo.is_finite %298 : (tensor<f32>) -> tensor<i1>
    %772 = stablehlo.is_finite %299 : (tensor<f32>) -> tensor<i1>
    %773 = stablehlo.and %771, %772 : tensor<i1>
    %774 = stablehlo.is_finite %300 : (tensor<f32>) -> tensor<i1>
    %775 = stablehlo.is_finite %301 : (tensor<f32>) -> tensor<i1>
    %776 = stablehlo.and %774, %775 : tensor<i1>
    %777 = stablehlo.is_finite %302 : (tensor<f32>) -> tensor<i1>
    %778 = stablehlo.is_finite %303 : (tensor<f32>) -> tensor<i1>
    %779 = stablehlo.and %777, %778 : tensor<i1>
    %780 = stablehlo.is_finite %304 : (tensor<f32>) -> tensor<i1>
    %781 = stablehlo.is_finite %305 : (tensor<f32>) -> tensor<i1>
    %782 = stablehlo.and %780, %781 : tensor<i1>
    %783 = stablehlo.is_finite %306 : (tensor<f32>) -> tensor<i1>
    %784 = stablehlo.is_finite %307 : (tensor<f32>) -> tensor<i1>
    %785 = stablehlo.and %783, %784 : tensor<i1>
    %786 = stablehlo.is_finite %308 : (tensor<f32>) -> tensor<i1>
    %787 = stablehlo.is_finite %309 : (tensor<f32>) -> tensor<i1>
    %788 = stablehlo.and %786, %787 : tensor<i1>
    %789 = stablehlo.is_finite %310 : (tensor<f32>) -> tensor<i1>
    %790 = stablehlo.is_finite %311 : (tensor<f32>) -> tensor<i1>
    %791 = stablehlo.and %789, %790 : tensor<i1>
    %792 = stablehlo.is_finite %312 : (tensor<f32>) -> tensor<i1>
    %793 = stablehlo.is_finite %313 : (tensor<f32>) -> tensor<i1>
    %794 = stablehlo.and %792, %793 : tensor<i1>
    %795 = stablehlo.is_finite %314 : (tensor<f32>) -> tensor<i1>
    %796 = stablehlo.is_finite %315 : (tensor<f32>) -> tensor<i1>
    %797 = stablehlo.and %795, %796 : tensor<i1>
    %798 = stablehlo.is_finite %316 : (tensor<f32>) -> tensor<i1>
    %799 = stablehlo.is_finite %317 : (tensor<f32>) -> tensor<i1>
    %800 = stablehlo.and %798, %799 : tensor<i1>
    %801 = stablehlo.is_finite %318 : (tensor<f32>) -> tensor<i1>
    %802 = stablehlo.is_finite %319 : (tensor<f32>) -> tensor<i1>
    %803 = stablehlo.and %801, %802 : tensor<i1>
    %804 = stablehlo.is_finite %320 : (tensor<f32>) -> tensor<i1>
    %805 = stablehlo.is_finite %321 : (tensor<f32>) -> tensor<i1>
    %806 = stablehlo.and %804, %805 : tensor<i1>
    %807 = stablehlo.is_finite %322 : (tensor<f32>) -> tensor<i1>
    %808 = stablehlo.is_finite %323 : (tensor<f32>) -> tensor<i1>
    %809 = stablehlo.and %807, %808 : tensor<i1>
    %810 = stablehlo.broadcast_in_dim %326, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %811 = stablehlo.broadcast_in_dim %329, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %812 = stablehlo.broadcast_in_dim %332, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %813 = stablehlo.broadcast_in_dim %335, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %814 = stablehlo.broadcast_in_dim %338, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %815 = stablehlo.broadcast_in_dim %341, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %816 = stablehlo.broadcast_in_dim %344, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %817 = stablehlo.broadcast_in_dim %347, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %818 = stablehlo.broadcast_in_dim %350, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %819 = stablehlo.broadcast_in_dim %353, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %820 = stablehlo.broadcast_in_dim %356, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %821 = stablehlo.broadcast_in_dim %359, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %822 = stablehlo.broadcast_in_dim %362, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %823 = stablehlo.broadcast_in_dim %365, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %824 = stablehlo.broadcast_in_dim %368, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %825 = stablehlo.broadcast_in_dim %371, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %826 = stablehlo.broadcast_in_dim %374, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %827 = stablehlo.broadcast_in_dim %377, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %828 = stablehlo.broadcast_in_dim %380, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %829 = stablehlo.broadcast_in_dim %383, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %830 = stablehlo.broadcast_in_dim %386, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %831 = stablehlo.broadcast_in_dim %389, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %832 = stablehlo.broadcast_in_dim %392, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %833 = stablehlo.broadcast_in_dim %395, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %834 = stablehlo.broadcast_in_dim %398, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %835 = stablehlo.broadcast_in_dim %401, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %836 = stablehlo.broadcast_in_dim %404, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %837 = stablehlo.broadcast_in_dim %407, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %838 = stablehlo.broadcast_in_dim %410, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %839 = stablehlo.broadcast_in_dim %413, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %840 = stablehlo.broadcast_in_dim %416, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %841 = stablehlo.broadcast_in_dim %419, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %842 = stablehlo.broadcast_in_dim %422, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %843 = stablehlo.broadcast_in_dim %425, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %844 = stablehlo.broadcast_in_dim %428, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %845 = stablehlo.broadcast_in_dim %431, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %846 = stablehlo.broadcast_in_dim %434, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %847 = stablehlo.broadcast_in_dim %437, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %848 = stablehlo.broadcast_in_dim %440, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %849 = stablehlo.broadcast_in_dim %443, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %850 = stablehlo.broadcast_in_dim %446, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %851 = stablehlo.broadcast_in_dim %449, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %852 = stablehlo.broadcast_in_dim %452, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %853 = stablehlo.broadcast_in_dim %455, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %854 = stablehlo.broadcast_in_dim %458, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %855 = stablehlo.broadcast_in_dim %461, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %856 = stablehlo.broadcast_in_dim %464, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %857 = stablehlo.broadcast_in_dim %467, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %858 = stablehlo.broadcast_in_dim %470, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %859 = stablehlo.broadcast_in_dim %473, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %860 = stablehlo.broadcast_in_dim %476, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %861 = stablehlo.broadcast_in_dim %479, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %862 = stablehlo.broadcast_in_dim %482, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %863 = stablehlo.broadcast_in_dim %485, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %864 = stablehlo.broadcast_in_dim %488, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %865 = stablehlo.broadcast_in_dim %491, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %866 = stablehlo.broadcast_in_dim %494, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %867 = stablehlo.broadcast_in_dim %497, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %868 = stablehlo.broadcast_in_dim %500, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %869 = stablehlo.broadcast_in_dim %503, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %870 = stablehlo.broadcast_in_dim %506, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %871 = stablehlo.broadcast_in_dim %509, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %872 = stablehlo.broadcast_in_dim %512, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %873 = stablehlo.broadcast_in_dim %515, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %874 = stablehlo.broadcast_in_dim %518, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %875 = stablehlo.broadcast_in_dim %521, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %876 = stablehlo.broadcast_in_dim %524, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %877 = stablehlo.broadcast_in_dim %527, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %878 = stablehlo.broadcast_in_dim %530, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %879 = stablehlo.broadcast_in_dim %533, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %880 = stablehlo.broadcast_in_dim %536, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %881 = stablehlo.broadcast_in_dim %539, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %882 = stablehlo.broadcast_in_dim %542, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %883 = stablehlo.broadcast_in_dim %545, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %884 = stablehlo.broadcast_in_dim %548, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %885 = stablehlo.broadcast_in_dim %551, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %886 = stablehlo.broadcast_in_dim %554, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %887 = stablehlo.broadcast_in_dim %557, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %888 = stablehlo.broadcast_in_dim %560, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %889 = stablehlo.broadcast_in_dim %563, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %890 = stablehlo.broadcast_in_dim %566, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %891 = stablehlo.broadcast_in_dim %569, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %892 = stablehlo.broadcast_in_dim %572, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %893 = stablehlo.broadcast_in_dim %575, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %894 = stablehlo.broadcast_in_dim %578, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %895 = stablehlo.broadcast_in_dim %581, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %896 = stablehlo.broadcast_in_dim %584, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %897 = stablehlo.broadcast_in_dim %587, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %898 = stablehlo.broadcast_in_dim %590, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %899 = stablehlo.broadcast_in_dim %593, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %900 = stablehlo.broadcast_in_dim %596, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %901 = stablehlo.broadcast_in_dim %599, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %902 = stablehlo.broadcast_in_dim %602, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %903 = stablehlo.broadcast_in_dim %605, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %904 = stablehlo.broadcast_in_dim %608, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %905 = stablehlo.broadcast_in_dim %611, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %906 = stablehlo.broadcast_in_dim %614, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %907 = stablehlo.broadcast_in_dim %617, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %908 = stablehlo.broadcast_in_dim %620, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %909 = stablehlo.broadcast_in_dim %623, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %910 = stablehlo.broadcast_in_dim %626, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %911 = stablehlo.broadcast_in_dim %629, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %912 = stablehlo.broadcast_in_dim %632, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %913 = stablehlo.broadcast_in_dim %635, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %914 = stablehlo.broadcast_in_dim %638, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %915 = stablehlo.broadcast_in_dim %641, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %916 = stablehlo.broadcast_in_dim %644, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %917 = stablehlo.broadcast_in_dim %647, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %918 = stablehlo.broadcast_in_dim %650, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %919 = stablehlo.broadcast_in_dim %653, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %920 = stablehlo.broadcast_in_dim %656, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %921 = stablehlo.broadcast_in_dim %659, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %922 = stablehlo.broadcast_in_dim %662, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %923 = stablehlo.broadcast_in_dim %665, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %924 = stablehlo.broadcast_in_dim %668, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %925 = stablehlo.broadcast_in_dim %671, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %926 = stablehlo.broadcast_in_dim %674, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %927 = stablehlo.broadcast_in_dim %677, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %928 = stablehlo.broadcast_in_dim %680, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %929 = stablehlo.broadcast_in_dim %683, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %930 = stablehlo.broadcast_in_dim %686, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %931 = stablehlo.broadcast_in_dim %689, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %932 = stablehlo.broadcast_in_dim %692, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %933 = stablehlo.broadcast_in_dim %695, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %934 = stablehlo.broadcast_in_dim %698, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %935 = stablehlo.broadcast_in_dim %701, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %936 = stablehlo.broadcast_in_dim %704, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %937 = stablehlo.broadcast_in_dim %707, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %938 = stablehlo.broadcast_in_dim %710, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %939 = stablehlo.broadcast_in_dim %713, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %940 = stablehlo.broadcast_in_dim %716, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %941 = stablehlo.broadcast_in_dim %719, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %942 = stablehlo.broadcast_in_dim %722, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %943 = stablehlo.broadcast_in_dim %725, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %944 = stablehlo.broadcast_in_dim %728, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %945 = stablehlo.broadcast_in_dim %731, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %946 = stablehlo.broadcast_in_dim %734, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %947 = stablehlo.broadcast_in_dim %737, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %948 = stablehlo.broadcast_in_dim %740, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %949 = stablehlo.broadcast_in_dim %743, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %950 = stablehlo.broadcast_in_dim %746, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %951 = stablehlo.broadcast_in_dim %749, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %952 = stablehlo.broadcast_in_dim %752, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %953 = stablehlo.broadcast_in_dim %755, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %954 = stablehlo.broadcast_in_dim %758, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %955 = stablehlo.broadcast_in_dim %761, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %956 = stablehlo.broadcast_in_dim %764, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %957 = stablehlo.broadcast_in_dim %767, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %958 = stablehlo.broadcast_in_dim %770, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %959 = stablehlo.broadcast_in_dim %773, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %960 = stablehlo.broadcast_in_dim %776, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %961 = stablehlo.broadcast_in_dim %779, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %962 = stablehlo.broadcast_in_dim %782, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %963 = stablehlo.broadcast_in_dim %785, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %964 = stablehlo.broadcast_in_dim %788, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %965 = stablehlo.broadcast_in_dim %791, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %966 = stablehlo.broadcast_in_dim %794, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %967 = stablehlo.broadcast_in_dim %797, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %968 = stablehlo.broadcast_in_dim %800, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %969 = stablehlo.broadcast_in_dim %803, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %970 = stablehlo.broadcast_in_dim %806, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %971 = stablehlo.broadcast_in_dim %809, dims = [] : (tensor<i1>) -> tensor<1xi1>
    %972 = stablehlo.concatenate %810, %811, %812, %813, %814, %815, %816, %817, %818, %819, %820, %821, %822, %823, %824, %825, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %973 = stablehlo.concatenate %826, %827, %828, %829, %830, %831, %832, %833, %834, %835, %836, %837, %838, %839, %840, %841, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %974 = stablehlo.concatenate %842, %843, %844, %845, %846, %847, %848, %849, %850, %851, %852, %853, %854, %855, %856, %857, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %975 = stablehlo.concatenate %858, %859, %860, %861, %862, %863, %864, %865, %866, %867, %868, %869, %870, %871, %872, %873, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %976 = stablehlo.concatenate %874, %875, %876, %877, %878, %879, %880, %881, %882, %883, %884, %885, %886, %887, %888, %889, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %977 = stablehlo.concatenate %890, %891, %892, %893, %894, %895, %896, %897, %898, %899, %900, %901, %902, %903, %904, %905, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %978 = stablehlo.concatenate %906, %907, %908, %909, %910, %911, %912, %913, %914, %915, %916, %917, %918, %919, %920, %921, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %979 = stablehlo.concatenate %922, %923, %924, %925, %926, %927, %928, %929, %930, %931, %932, %933, %934, %935, %936, %937, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %980 = stablehlo.concatenate %938, %939, %940, %941, %942, %943, %944, %945, %946, %947, %948, %949, %950, %951, %952, %953, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %981 = stablehlo.concatenate %954, %955, %956, %957, %958, %959, %960, %961, %962, %963, %964, %965, %966, %967, %968, %969, dim = 0 : (tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>, tensor<1xi1>) -> tensor<16xi1>
    %982 = stablehlo.concatenate %970, %971, dim = 0 : (tensor<1xi1>, tensor<1xi1>) -> tensor<2xi1>
    %983 = stablehlo.concatenate %972, %973, %974, %975, %976, %977, %978, %979, %980, %981, %982, dim = 0 : (tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<16xi1>, tensor<2xi1>) -> tensor<162xi1>
    return %983 : tensor<162xi1>
  }
}
