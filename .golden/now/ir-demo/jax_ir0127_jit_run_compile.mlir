module @jit_run attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "tensor"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "tensor", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<64x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg1: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg2: tensor<256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg3: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg4: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg5: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg7: tensor<4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}, {}]>}, %arg8: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg9: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg10: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg11: tensor<256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg12: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg13: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg14: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg15: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg16: tensor<4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}, {}]>}, %arg17: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg18: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg19: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg20: tensor<256x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}]>}, %arg21: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg22: tensor<96x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg23: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg24: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg25: tensor<4x24x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {}, {}]>}, %arg26: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg27: tensor<96x4x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}, {}]>}, %arg28: tensor<96x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tensor"}]>}, %arg29: tensor<96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg30: tensor<8x4x636x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"tensor"}, {}, {}]>}, %arg31: tensor<8x4x636x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"tensor"}, {}, {}]>}, %arg32: tensor<8x4x636x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"tensor"}, {}, {}]>}, %arg33: tensor<8x4x636x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"tensor"}, {}, {}]>}, %arg34: tensor<8x4x636x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"tensor"}, {}, {}]>}, %arg35: tensor<8x4x636x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"tensor"}, {}, {}]>}, %arg36: tensor<8x636xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg37: tensor<8x636xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg38: tensor<8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg39: tensor<8x18x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}, %arg40: tensor<8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg41: tensor<8x18xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg42: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>}, %arg43: tensor<8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg44: tensor<8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg45: tensor<8x18xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x18x18xi32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<45> : tensor<1xi32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %1 = sdy.manual_computation(%0, %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %arg36, %arg37, %arg38, %arg39, %arg40, %arg41, %arg42, %arg43, %arg44, %arg45) in_shardings=[<@mesh, [{}, {}, {}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}]>, <@mesh, [{"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{"tensor"}, {}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}, {}]>, <@mesh, [{}, {"tensor"}]>, <@mesh, [{}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {"tensor"}, {}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, []>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}, {}]>] manual_axes={"data", "tensor"} (%arg46: tensor<1x1x1xi32>, %arg47: tensor<32x96xf32>, %arg48: tensor<96xf32>, %arg49: tensor<128x96xf32>, %arg50: tensor<96x128xf32>, %arg51: tensor<96x128xf32>, %arg52: tensor<96xf32>, %arg53: tensor<96x2x24xf32>, %arg54: tensor<2x24x96xf32>, %arg55: tensor<96x2x24xf32>, %arg56: tensor<96x2x24xf32>, %arg57: tensor<96xf32>, %arg58: tensor<128x96xf32>, %arg59: tensor<96x128xf32>, %arg60: tensor<96x128xf32>, %arg61: tensor<96xf32>, %arg62: tensor<96x2x24xf32>, %arg63: tensor<2x24x96xf32>, %arg64: tensor<96x2x24xf32>, %arg65: tensor<96x2x24xf32>, %arg66: tensor<96xf32>, %arg67: tensor<128x96xf32>, %arg68: tensor<96x128xf32>, %arg69: tensor<96x128xf32>, %arg70: tensor<96xf32>, %arg71: tensor<96x2x24xf32>, %arg72: tensor<2x24x96xf32>, %arg73: tensor<96x2x24xf32>, %arg74: tensor<96x2x24xf32>, %arg75: tensor<96x32xf32>, %arg76: tensor<96xf32>, %arg77: tensor<4x2x636x24xf32>, %arg78: tensor<4x2x636x24xf32>, %arg79: tensor<4x2x636x24xf32>, %arg80: tensor<4x2x636x24xf32>, %arg81: tensor<4x2x636x24xf32>, %arg82: tensor<4x2x636x24xf32>, %arg83: tensor<4x636xi32>, %arg84: tensor<4x636xi32>, %arg85: tensor<4x18xi32>, %arg86: tensor<4x18x18xi32>, %arg87: tensor<4x18xi32>, %arg88: tensor<4x18xi1>, %arg89: tensor<i32>, %arg90: tensor<4x18xi32>, %arg91: tensor<4x18xi32>, %arg92: tensor<4x18xi32>) {
      %c_0 = stablehlo.constant dense<1> : tensor<i32>
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      %2:49 = stablehlo.while(%iterArg = %arg90, %iterArg_2 = %arg91, %iterArg_3 = %arg47, %iterArg_4 = %arg48, %iterArg_5 = %arg55, %iterArg_6 = %arg53, %iterArg_7 = %arg56, %iterArg_8 = %arg54, %iterArg_9 = %arg52, %iterArg_10 = %arg50, %iterArg_11 = %arg51, %iterArg_12 = %arg49, %iterArg_13 = %arg57, %iterArg_14 = %arg64, %iterArg_15 = %arg62, %iterArg_16 = %arg65, %iterArg_17 = %arg63, %iterArg_18 = %arg61, %iterArg_19 = %arg59, %iterArg_20 = %arg60, %iterArg_21 = %arg58, %iterArg_22 = %arg66, %iterArg_23 = %arg73, %iterArg_24 = %arg71, %iterArg_25 = %arg74, %iterArg_26 = %arg72, %iterArg_27 = %arg70, %iterArg_28 = %arg68, %iterArg_29 = %arg69, %iterArg_30 = %arg67, %iterArg_31 = %arg76, %iterArg_32 = %arg75, %iterArg_33 = %arg46, %iterArg_34 = %arg92, %iterArg_35 = %c_0, %iterArg_36 = %c_1, %iterArg_37 = %arg77, %iterArg_38 = %arg78, %iterArg_39 = %arg79, %iterArg_40 = %arg80, %iterArg_41 = %arg81, %iterArg_42 = %arg82, %iterArg_43 = %arg83, %iterArg_44 = %arg84, %iterArg_45 = %arg85, %iterArg_46 = %arg86, %iterArg_47 = %arg87, %iterArg_48 = %arg88, %iterArg_49 = %arg89) : tensor<4x18xi32>, tensor<4x18xi32>, tensor<32x96xf32>, tensor<96xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<2x24x96xf32>, tensor<96xf32>, tensor<96x128xf32>, tensor<96x128xf32>, tensor<128x96xf32>, tensor<96xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<2x24x96xf32>, tensor<96xf32>, tensor<96x128xf32>, tensor<96x128xf32>, tensor<128x96xf32>, tensor<96xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<2x24x96xf32>, tensor<96xf32>, tensor<96x128xf32>, tensor<96x128xf32>, tensor<128x96xf32>, tensor<96xf32>, tensor<96x32xf32>, tensor<1x1x1xi32>, tensor<4x18xi32>, tensor<i32>, tensor<i32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x636xi32>, tensor<4x636xi32>, tensor<4x18xi32>, tensor<4x18x18xi32>, tensor<4x18xi32>, tensor<4x18xi1>, tensor<i32>
      cond {
        %c_50 = stablehlo.constant dense<0> : tensor<i32>
        %3 = stablehlo.compare GT, %iterArg_49, %c_50, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %3 : tensor<i1>
      } do {
        %c_50 = stablehlo.constant dense<18> : tensor<i32>
        %3 = stablehlo.multiply %iterArg_36, %c_50 : tensor<i32>
        %c_51 = stablehlo.constant dense<312> : tensor<i32>
        %4 = stablehlo.add %c_51, %3 : tensor<i32>
        %c_52 = stablehlo.constant dense<0> : tensor<i32>
        %5 = stablehlo.broadcast_in_dim %c_52, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %6 = stablehlo.select %iterArg_48, %iterArg, %5 : tensor<4x18xi1>, tensor<4x18xi32>
        %7 = stablehlo.add %iterArg_2, %iterArg_47 : tensor<4x18xi32>
        %c_53 = stablehlo.constant dense<1> : tensor<i32>
        %8 = stablehlo.broadcast_in_dim %c_53, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %9 = stablehlo.subtract %7, %8 : tensor<4x18xi32>
        %c_54 = stablehlo.constant dense<0> : tensor<i32>
        %10 = stablehlo.compare LT, %4, %c_54, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_55 = stablehlo.constant dense<636> : tensor<i32>
        %11 = stablehlo.add %4, %c_55 : tensor<i32>
        %12 = stablehlo.select %10, %11, %4 : tensor<i1>, tensor<i32>
        %c_56 = stablehlo.constant dense<0> : tensor<i32>
        %13 = stablehlo.dynamic_update_slice %iterArg_43, %6, %c_56, %12 : (tensor<4x636xi32>, tensor<4x18xi32>, tensor<i32>, tensor<i32>) -> tensor<4x636xi32>
        %c_57 = stablehlo.constant dense<0> : tensor<i32>
        %14 = stablehlo.compare LT, %4, %c_57, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_58 = stablehlo.constant dense<636> : tensor<i32>
        %15 = stablehlo.add %4, %c_58 : tensor<i32>
        %16 = stablehlo.select %14, %15, %4 : tensor<i1>, tensor<i32>
        %c_59 = stablehlo.constant dense<0> : tensor<i32>
        %17 = stablehlo.dynamic_update_slice %iterArg_44, %9, %c_59, %16 : (tensor<4x636xi32>, tensor<4x18xi32>, tensor<i32>, tensor<i32>) -> tensor<4x636xi32>
        %c_60 = stablehlo.constant dense<false> : tensor<i1>
        %18 = stablehlo.broadcast_in_dim %c_60, dims = [] : (tensor<i1>) -> tensor<4x18xi1>
        %c_61 = stablehlo.constant dense<64> : tensor<i32>
        %19 = stablehlo.broadcast_in_dim %c_61, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %20 = stablehlo.compare LT, %iterArg_45, %19, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
        %21 = stablehlo.not %18 : tensor<4x18xi1>
        %22 = stablehlo.and %20, %21 : tensor<4x18xi1>
        %c_62 = stablehlo.constant dense<1> : tensor<ui32>
        %c_63 = stablehlo.constant dense<2> : tensor<ui32>
        %23 = stablehlo.partition_id : tensor<ui32>
        %24 = stablehlo.divide %23, %c_62 : tensor<ui32>
        %25 = stablehlo.remainder %24, %c_63 : tensor<ui32>
        %26 = stablehlo.convert %25 : (tensor<ui32>) -> tensor<i32>
        %c_64 = stablehlo.constant dense<1> : tensor<i32>
        %27 = stablehlo.multiply %26, %c_64 : tensor<i32>
        %c_65 = stablehlo.constant dense<0> : tensor<i32>
        %28 = stablehlo.add %c_65, %27 : tensor<i32>
        %c_66 = stablehlo.constant dense<32> : tensor<i32>
        %29 = stablehlo.multiply %28, %c_66 : tensor<i32>
        %30 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %31 = stablehlo.subtract %iterArg_45, %30 : tensor<4x18xi32>
        %c_67 = stablehlo.constant dense<0> : tensor<i32>
        %32 = stablehlo.broadcast_in_dim %c_67, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %33 = stablehlo.compare GE, %31, %32, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
        %c_68 = stablehlo.constant dense<32> : tensor<i32>
        %34 = stablehlo.broadcast_in_dim %c_68, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %35 = stablehlo.compare LT, %31, %34, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
        %36 = stablehlo.and %33, %35 : tensor<4x18xi1>
        %c_69 = stablehlo.constant dense<0> : tensor<i32>
        %37 = stablehlo.broadcast_in_dim %c_69, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %38 = stablehlo.select %36, %31, %37 : tensor<4x18xi1>, tensor<4x18xi32>
        %39 = stablehlo.and %36, %22 : tensor<4x18xi1>
        %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<4x18xi1>) -> tensor<4x18x1xi1>
        %c_70 = stablehlo.constant dense<0> : tensor<i32>
        %41 = stablehlo.broadcast_in_dim %c_70, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %42 = stablehlo.compare LT, %38, %41, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
        %c_71 = stablehlo.constant dense<32> : tensor<i32>
        %43 = stablehlo.broadcast_in_dim %c_71, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %44 = stablehlo.add %38, %43 : tensor<4x18xi32>
        %45 = stablehlo.select %42, %44, %38 : tensor<4x18xi1>, tensor<4x18xi32>
        %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %47 = "stablehlo.gather"(%iterArg_3, %46) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 96>}> : (tensor<32x96xf32>, tensor<4x18x1xi32>) -> tensor<4x18x96xf32>
        %48 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] : (tensor<4x18x1xi1>) -> tensor<4x18x96xi1>
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %49 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x18x96xf32>
        %50 = stablehlo.select %48, %47, %49 : tensor<4x18x96xi1>, tensor<4x18x96xf32>
        %51 = stablehlo.slice %50 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_72 = stablehlo.constant dense<0> : tensor<i32>
        %52 = stablehlo.compare GE, %iterArg_35, %c_72, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %53 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %54 = func.call @_where(%52, %51, %53) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_74 = stablehlo.constant dense<0> : tensor<i32>
        %c_75 = stablehlo.constant dense<0> : tensor<i32>
        %c_76 = stablehlo.constant dense<0> : tensor<i32>
        %55 = stablehlo.dynamic_update_slice %50, %54, %c_74, %c_75, %c_76 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %56 = "stablehlo.reduce_scatter"(%55) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %57 = stablehlo.slice %56 [0:4, 0:9, 0:96] : (tensor<4x9x96xf32>) -> tensor<4x9x96xf32>
        %58 = stablehlo.iota dim = 0 : tensor<12xf32>
        %cst_77 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
        %59 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<12xf32>
        %60 = stablehlo.multiply %59, %58 : tensor<12xf32>
        %cst_78 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %61 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<12xf32>
        %62 = stablehlo.add %61, %60 : tensor<12xf32>
        %63 = stablehlo.negate %62 : tensor<12xf32>
        %cst_79 = stablehlo.constant dense<2.400000e+01> : tensor<f32>
        %64 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<12xf32>
        %65 = stablehlo.divide %63, %64 : tensor<12xf32>
        %cst_80 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
        %66 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<12xf32>
        %67 = stablehlo.power %66, %65 : tensor<12xf32>
        %68 = stablehlo.convert %9 : (tensor<4x18xi32>) -> tensor<4x18xf32>
        %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<4x18xf32>) -> tensor<4x18x1x1xf32>
        %70 = stablehlo.broadcast_in_dim %67, dims = [3] : (tensor<12xf32>) -> tensor<1x1x1x12xf32>
        %71 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<4x18x1x1xf32>) -> tensor<4x18x1x12xf32>
        %72 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2, 3] : (tensor<1x1x1x12xf32>) -> tensor<4x18x1x12xf32>
        %73 = stablehlo.multiply %71, %72 : tensor<4x18x1x12xf32>
        %74 = stablehlo.cosine %73 : tensor<4x18x1x12xf32>
        %75 = stablehlo.sine %73 : tensor<4x18x1x12xf32>
        %76 = stablehlo.broadcast_in_dim %iterArg_4, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %77 = chlo.square %57 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %78 = stablehlo.reduce(%77 init: %cst_81) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_82 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %80 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %81 = stablehlo.divide %79, %80 : tensor<4x9x1xf32>
        %cst_83 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %82 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %83 = stablehlo.add %81, %82 : tensor<4x9x1xf32>
        %84 = stablehlo.rsqrt %83 : tensor<4x9x1xf32>
        %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %86 = stablehlo.multiply %57, %85 : tensor<4x9x96xf32>
        %87 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %88 = stablehlo.multiply %86, %87 : tensor<4x9x96xf32>
        %89 = stablehlo.slice %88 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_84 = stablehlo.constant dense<0> : tensor<i32>
        %90 = stablehlo.compare GE, %iterArg_35, %c_84, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_85 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %91 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %92 = func.call @_where(%90, %89, %91) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_86 = stablehlo.constant dense<0> : tensor<i32>
        %c_87 = stablehlo.constant dense<0> : tensor<i32>
        %c_88 = stablehlo.constant dense<0> : tensor<i32>
        %93 = stablehlo.dynamic_update_slice %88, %92, %c_86, %c_87, %c_88 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %94 = "stablehlo.all_gather"(%93) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %95 = stablehlo.reshape %94 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %96 = stablehlo.reshape %iterArg_5 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %97 = stablehlo.dot_general %95, %96, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %98 = stablehlo.reshape %97 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %99 = stablehlo.reshape %94 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %100 = stablehlo.reshape %iterArg_6 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %101 = stablehlo.dot_general %99, %100, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %102 = stablehlo.reshape %101 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %103 = stablehlo.reshape %94 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %104 = stablehlo.reshape %iterArg_7 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %105 = stablehlo.dot_general %103, %104, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %106 = stablehlo.reshape %105 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %107 = stablehlo.slice %98 [0:4, 0:18, 0:2, 0:12] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %108 = stablehlo.slice %98 [0:4, 0:18, 0:2, 12:24] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %109 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %110 = stablehlo.multiply %107, %109 : tensor<4x18x2x12xf32>
        %111 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %112 = stablehlo.multiply %108, %111 : tensor<4x18x2x12xf32>
        %113 = stablehlo.subtract %110, %112 : tensor<4x18x2x12xf32>
        %114 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %115 = stablehlo.multiply %108, %114 : tensor<4x18x2x12xf32>
        %116 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %117 = stablehlo.multiply %107, %116 : tensor<4x18x2x12xf32>
        %118 = stablehlo.add %115, %117 : tensor<4x18x2x12xf32>
        %119 = stablehlo.concatenate %113, %118, dim = 3 : (tensor<4x18x2x12xf32>, tensor<4x18x2x12xf32>) -> tensor<4x18x2x24xf32>
        %120 = stablehlo.slice %102 [0:4, 0:18, 0:2, 0:12] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %121 = stablehlo.slice %102 [0:4, 0:18, 0:2, 12:24] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %122 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %123 = stablehlo.multiply %120, %122 : tensor<4x18x2x12xf32>
        %124 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %125 = stablehlo.multiply %121, %124 : tensor<4x18x2x12xf32>
        %126 = stablehlo.subtract %123, %125 : tensor<4x18x2x12xf32>
        %127 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %128 = stablehlo.multiply %121, %127 : tensor<4x18x2x12xf32>
        %129 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %130 = stablehlo.multiply %120, %129 : tensor<4x18x2x12xf32>
        %131 = stablehlo.add %128, %130 : tensor<4x18x2x12xf32>
        %132 = stablehlo.concatenate %126, %131, dim = 3 : (tensor<4x18x2x12xf32>, tensor<4x18x2x12xf32>) -> tensor<4x18x2x24xf32>
        %133 = stablehlo.transpose %132, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_89 = stablehlo.constant dense<0> : tensor<i32>
        %134 = stablehlo.compare LT, %4, %c_89, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_90 = stablehlo.constant dense<636> : tensor<i32>
        %135 = stablehlo.add %4, %c_90 : tensor<i32>
        %136 = stablehlo.select %134, %135, %4 : tensor<i1>, tensor<i32>
        %c_91 = stablehlo.constant dense<0> : tensor<i32>
        %c_92 = stablehlo.constant dense<0> : tensor<i32>
        %c_93 = stablehlo.constant dense<0> : tensor<i32>
        %137 = stablehlo.dynamic_update_slice %iterArg_37, %133, %c_91, %c_92, %136, %c_93 : (tensor<4x2x636x24xf32>, tensor<4x2x18x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
        %138 = stablehlo.transpose %106, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_94 = stablehlo.constant dense<0> : tensor<i32>
        %139 = stablehlo.compare LT, %4, %c_94, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_95 = stablehlo.constant dense<636> : tensor<i32>
        %140 = stablehlo.add %4, %c_95 : tensor<i32>
        %141 = stablehlo.select %139, %140, %4 : tensor<i1>, tensor<i32>
        %c_96 = stablehlo.constant dense<0> : tensor<i32>
        %c_97 = stablehlo.constant dense<0> : tensor<i32>
        %c_98 = stablehlo.constant dense<0> : tensor<i32>
        %142 = stablehlo.dynamic_update_slice %iterArg_38, %138, %c_96, %c_97, %141, %c_98 : (tensor<4x2x636x24xf32>, tensor<4x2x18x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
        %cst_99 = stablehlo.constant dense<0.204124153> : tensor<f32>
        %143 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<4x18x2x24xf32>
        %144 = stablehlo.multiply %119, %143 : tensor<4x18x2x24xf32>
        %145 = stablehlo.transpose %144, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_100 = stablehlo.constant dense<0> : tensor<i32>
        %146 = stablehlo.compare LT, %4, %c_100, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_101 = stablehlo.constant dense<636> : tensor<i32>
        %147 = stablehlo.add %4, %c_101 : tensor<i32>
        %148 = stablehlo.select %146, %147, %4 : tensor<i1>, tensor<i32>
        %c_102 = stablehlo.constant dense<0> : tensor<i32>
        %149 = stablehlo.dynamic_slice %17, %c_102, %148, sizes = [4, 18] : (tensor<4x636xi32>, tensor<i32>, tensor<i32>) -> tensor<4x18xi32>
        %150 = stablehlo.broadcast_in_dim %149, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %151 = stablehlo.broadcast_in_dim %17, dims = [0, 2] : (tensor<4x636xi32>) -> tensor<4x1x636xi32>
        %152 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x636xi32>
        %153 = stablehlo.broadcast_in_dim %151, dims = [0, 1, 2] : (tensor<4x1x636xi32>) -> tensor<4x18x636xi32>
        %154 = stablehlo.subtract %152, %153 : tensor<4x18x636xi32>
        %c_103 = stablehlo.constant dense<0> : tensor<i32>
        %155 = stablehlo.compare LT, %4, %c_103, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_104 = stablehlo.constant dense<636> : tensor<i32>
        %156 = stablehlo.add %4, %c_104 : tensor<i32>
        %157 = stablehlo.select %155, %156, %4 : tensor<i1>, tensor<i32>
        %c_105 = stablehlo.constant dense<0> : tensor<i32>
        %158 = stablehlo.dynamic_slice %13, %c_105, %157, sizes = [4, 18] : (tensor<4x636xi32>, tensor<i32>, tensor<i32>) -> tensor<4x18xi32>
        %159 = stablehlo.broadcast_in_dim %158, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %160 = stablehlo.broadcast_in_dim %13, dims = [0, 2] : (tensor<4x636xi32>) -> tensor<4x1x636xi32>
        %161 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x636xi32>
        %162 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<4x1x636xi32>) -> tensor<4x18x636xi32>
        %163 = stablehlo.compare EQ, %161, %162, SIGNED : (tensor<4x18x636xi32>, tensor<4x18x636xi32>) -> tensor<4x18x636xi1>
        %c_106 = stablehlo.constant dense<0> : tensor<i32>
        %164 = stablehlo.broadcast_in_dim %c_106, dims = [] : (tensor<i32>) -> tensor<4x18x636xi32>
        %165 = stablehlo.compare GE, %154, %164, SIGNED : (tensor<4x18x636xi32>, tensor<4x18x636xi32>) -> tensor<4x18x636xi1>
        %166 = stablehlo.and %163, %165 : tensor<4x18x636xi1>
        %167 = stablehlo.dot_general %145, %137, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x24xf32>, tensor<4x2x636x24xf32>) -> tensor<4x2x18x636xf32>
        %168 = stablehlo.broadcast_in_dim %166, dims = [0, 2, 3] : (tensor<4x18x636xi1>) -> tensor<4x1x18x636xi1>
        %169 = stablehlo.broadcast_in_dim %168, dims = [0, 1, 2, 3] : (tensor<4x1x18x636xi1>) -> tensor<4x2x18x636xi1>
        %cst_107 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
        %170 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<4x2x18x636xf32>
        %171 = stablehlo.select %169, %167, %170 : tensor<4x2x18x636xi1>, tensor<4x2x18x636xf32>
        %cst_108 = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %172 = stablehlo.reduce(%171 init: %cst_108) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x18x636xf32>, tensor<f32>) -> tensor<4x2x18xf32>
        %173 = stablehlo.broadcast_in_dim %172, dims = [0, 1, 2] : (tensor<4x2x18xf32>) -> tensor<4x2x18x1xf32>
        %174 = stablehlo.broadcast_in_dim %173, dims = [0, 1, 2, 3] : (tensor<4x2x18x1xf32>) -> tensor<4x2x18x636xf32>
        %175 = stablehlo.subtract %171, %174 : tensor<4x2x18x636xf32>
        %176 = stablehlo.exponential %175 : tensor<4x2x18x636xf32>
        %177 = stablehlo.dot_general %176, %142, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x636xf32>, tensor<4x2x636x24xf32>) -> tensor<4x2x18x24xf32>
        %cst_109 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %178 = stablehlo.reduce(%176 init: %cst_109) applies stablehlo.add across dimensions = [3] : (tensor<4x2x18x636xf32>, tensor<f32>) -> tensor<4x2x18xf32>
        %179 = stablehlo.broadcast_in_dim %178, dims = [0, 1, 2] : (tensor<4x2x18xf32>) -> tensor<4x2x18x1xf32>
        %180 = stablehlo.broadcast_in_dim %179, dims = [0, 1, 2, 3] : (tensor<4x2x18x1xf32>) -> tensor<4x2x18x24xf32>
        %181 = stablehlo.divide %177, %180 : tensor<4x2x18x24xf32>
        %182 = stablehlo.transpose %181, dims = [0, 2, 1, 3] : (tensor<4x2x18x24xf32>) -> tensor<4x18x2x24xf32>
        %183 = stablehlo.reshape %182 : (tensor<4x18x2x24xf32>) -> tensor<72x48xf32>
        %184 = stablehlo.reshape %iterArg_8 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
        %185 = stablehlo.dot_general %183, %184, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x48xf32>, tensor<48x96xf32>) -> tensor<72x96xf32>
        %186 = stablehlo.reshape %185 : (tensor<72x96xf32>) -> tensor<4x18x96xf32>
        %187 = stablehlo.slice %186 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_110 = stablehlo.constant dense<0> : tensor<i32>
        %188 = stablehlo.compare GE, %iterArg_35, %c_110, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_111 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %189 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %190 = func.call @_where(%188, %187, %189) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_112 = stablehlo.constant dense<0> : tensor<i32>
        %c_113 = stablehlo.constant dense<0> : tensor<i32>
        %c_114 = stablehlo.constant dense<0> : tensor<i32>
        %191 = stablehlo.dynamic_update_slice %186, %190, %c_112, %c_113, %c_114 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %192 = "stablehlo.reduce_scatter"(%191) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %193 = stablehlo.add %57, %192 : tensor<4x9x96xf32>
        %194 = stablehlo.broadcast_in_dim %iterArg_9, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %195 = chlo.square %193 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_115 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %196 = stablehlo.reduce(%195 init: %cst_115) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %197 = stablehlo.broadcast_in_dim %196, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_116 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %198 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %199 = stablehlo.divide %197, %198 : tensor<4x9x1xf32>
        %cst_117 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %200 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %201 = stablehlo.add %199, %200 : tensor<4x9x1xf32>
        %202 = stablehlo.rsqrt %201 : tensor<4x9x1xf32>
        %203 = stablehlo.broadcast_in_dim %202, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %204 = stablehlo.multiply %193, %203 : tensor<4x9x96xf32>
        %205 = stablehlo.broadcast_in_dim %194, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %206 = stablehlo.multiply %204, %205 : tensor<4x9x96xf32>
        %207 = stablehlo.slice %206 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_118 = stablehlo.constant dense<0> : tensor<i32>
        %208 = stablehlo.compare GE, %iterArg_35, %c_118, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %209 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %210 = func.call @_where(%208, %207, %209) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_120 = stablehlo.constant dense<0> : tensor<i32>
        %c_121 = stablehlo.constant dense<0> : tensor<i32>
        %c_122 = stablehlo.constant dense<0> : tensor<i32>
        %211 = stablehlo.dynamic_update_slice %206, %210, %c_120, %c_121, %c_122 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %212 = "stablehlo.all_gather"(%211) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %213 = stablehlo.reshape %212 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %214 = stablehlo.dot_general %213, %iterArg_10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x128xf32>) -> tensor<72x128xf32>
        %215 = stablehlo.reshape %214 : (tensor<72x128xf32>) -> tensor<4x18x128xf32>
        %216 = stablehlo.reshape %212 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %217 = stablehlo.dot_general %216, %iterArg_11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x128xf32>) -> tensor<72x128xf32>
        %218 = stablehlo.reshape %217 : (tensor<72x128xf32>) -> tensor<4x18x128xf32>
        %219 = stablehlo.negate %215 : tensor<4x18x128xf32>
        %220 = stablehlo.exponential %219 : tensor<4x18x128xf32>
        %cst_123 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %221 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<4x18x128xf32>
        %222 = stablehlo.add %221, %220 : tensor<4x18x128xf32>
        %cst_124 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %223 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<4x18x128xf32>
        %224 = stablehlo.divide %223, %222 : tensor<4x18x128xf32>
        %225 = stablehlo.multiply %215, %224 : tensor<4x18x128xf32>
        %226 = stablehlo.multiply %225, %218 : tensor<4x18x128xf32>
        %227 = stablehlo.reshape %226 : (tensor<4x18x128xf32>) -> tensor<72x128xf32>
        %228 = stablehlo.dot_general %227, %iterArg_12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x128xf32>, tensor<128x96xf32>) -> tensor<72x96xf32>
        %229 = stablehlo.reshape %228 : (tensor<72x96xf32>) -> tensor<4x18x96xf32>
        %230 = stablehlo.slice %229 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_125 = stablehlo.constant dense<0> : tensor<i32>
        %231 = stablehlo.compare GE, %iterArg_35, %c_125, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %232 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %233 = func.call @_where(%231, %230, %232) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_127 = stablehlo.constant dense<0> : tensor<i32>
        %c_128 = stablehlo.constant dense<0> : tensor<i32>
        %c_129 = stablehlo.constant dense<0> : tensor<i32>
        %234 = stablehlo.dynamic_update_slice %229, %233, %c_127, %c_128, %c_129 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %235 = "stablehlo.reduce_scatter"(%234) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %236 = stablehlo.add %193, %235 : tensor<4x9x96xf32>
        %237 = stablehlo.broadcast_in_dim %iterArg_13, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %238 = chlo.square %236 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %239 = stablehlo.reduce(%238 init: %cst_130) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %240 = stablehlo.broadcast_in_dim %239, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_131 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %241 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %242 = stablehlo.divide %240, %241 : tensor<4x9x1xf32>
        %cst_132 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %243 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %244 = stablehlo.add %242, %243 : tensor<4x9x1xf32>
        %245 = stablehlo.rsqrt %244 : tensor<4x9x1xf32>
        %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %247 = stablehlo.multiply %236, %246 : tensor<4x9x96xf32>
        %248 = stablehlo.broadcast_in_dim %237, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %249 = stablehlo.multiply %247, %248 : tensor<4x9x96xf32>
        %250 = stablehlo.slice %249 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_133 = stablehlo.constant dense<0> : tensor<i32>
        %251 = stablehlo.compare GE, %iterArg_35, %c_133, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_134 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %252 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %253 = func.call @_where(%251, %250, %252) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_135 = stablehlo.constant dense<0> : tensor<i32>
        %c_136 = stablehlo.constant dense<0> : tensor<i32>
        %c_137 = stablehlo.constant dense<0> : tensor<i32>
        %254 = stablehlo.dynamic_update_slice %249, %253, %c_135, %c_136, %c_137 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %255 = "stablehlo.all_gather"(%254) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %256 = stablehlo.reshape %255 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %257 = stablehlo.reshape %iterArg_14 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %258 = stablehlo.dot_general %256, %257, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %259 = stablehlo.reshape %258 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %260 = stablehlo.reshape %255 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %261 = stablehlo.reshape %iterArg_15 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %262 = stablehlo.dot_general %260, %261, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %263 = stablehlo.reshape %262 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %264 = stablehlo.reshape %255 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %265 = stablehlo.reshape %iterArg_16 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %266 = stablehlo.dot_general %264, %265, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %267 = stablehlo.reshape %266 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %268 = stablehlo.slice %259 [0:4, 0:18, 0:2, 0:12] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %269 = stablehlo.slice %259 [0:4, 0:18, 0:2, 12:24] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %270 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %271 = stablehlo.multiply %268, %270 : tensor<4x18x2x12xf32>
        %272 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %273 = stablehlo.multiply %269, %272 : tensor<4x18x2x12xf32>
        %274 = stablehlo.subtract %271, %273 : tensor<4x18x2x12xf32>
        %275 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %276 = stablehlo.multiply %269, %275 : tensor<4x18x2x12xf32>
        %277 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %278 = stablehlo.multiply %268, %277 : tensor<4x18x2x12xf32>
        %279 = stablehlo.add %276, %278 : tensor<4x18x2x12xf32>
        %280 = stablehlo.concatenate %274, %279, dim = 3 : (tensor<4x18x2x12xf32>, tensor<4x18x2x12xf32>) -> tensor<4x18x2x24xf32>
        %281 = stablehlo.slice %263 [0:4, 0:18, 0:2, 0:12] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %282 = stablehlo.slice %263 [0:4, 0:18, 0:2, 12:24] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %283 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %284 = stablehlo.multiply %281, %283 : tensor<4x18x2x12xf32>
        %285 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %286 = stablehlo.multiply %282, %285 : tensor<4x18x2x12xf32>
        %287 = stablehlo.subtract %284, %286 : tensor<4x18x2x12xf32>
        %288 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %289 = stablehlo.multiply %282, %288 : tensor<4x18x2x12xf32>
        %290 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %291 = stablehlo.multiply %281, %290 : tensor<4x18x2x12xf32>
        %292 = stablehlo.add %289, %291 : tensor<4x18x2x12xf32>
        %293 = stablehlo.concatenate %287, %292, dim = 3 : (tensor<4x18x2x12xf32>, tensor<4x18x2x12xf32>) -> tensor<4x18x2x24xf32>
        %294 = stablehlo.transpose %293, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_138 = stablehlo.constant dense<0> : tensor<i32>
        %295 = stablehlo.compare LT, %4, %c_138, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_139 = stablehlo.constant dense<636> : tensor<i32>
        %296 = stablehlo.add %4, %c_139 : tensor<i32>
        %297 = stablehlo.select %295, %296, %4 : tensor<i1>, tensor<i32>
        %c_140 = stablehlo.constant dense<0> : tensor<i32>
        %c_141 = stablehlo.constant dense<0> : tensor<i32>
        %c_142 = stablehlo.constant dense<0> : tensor<i32>
        %298 = stablehlo.dynamic_update_slice %iterArg_39, %294, %c_140, %c_141, %297, %c_142 : (tensor<4x2x636x24xf32>, tensor<4x2x18x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
        %299 = stablehlo.transpose %267, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_143 = stablehlo.constant dense<0> : tensor<i32>
        %300 = stablehlo.compare LT, %4, %c_143, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_144 = stablehlo.constant dense<636> : tensor<i32>
        %301 = stablehlo.add %4, %c_144 : tensor<i32>
        %302 = stablehlo.select %300, %301, %4 : tensor<i1>, tensor<i32>
        %c_145 = stablehlo.constant dense<0> : tensor<i32>
        %c_146 = stablehlo.constant dense<0> : tensor<i32>
        %c_147 = stablehlo.constant dense<0> : tensor<i32>
        %303 = stablehlo.dynamic_update_slice %iterArg_40, %299, %c_145, %c_146, %302, %c_147 : (tensor<4x2x636x24xf32>, tensor<4x2x18x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
        %cst_148 = stablehlo.constant dense<0.204124153> : tensor<f32>
        %304 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<4x18x2x24xf32>
        %305 = stablehlo.multiply %280, %304 : tensor<4x18x2x24xf32>
        %306 = stablehlo.transpose %305, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_149 = stablehlo.constant dense<0> : tensor<i32>
        %307 = stablehlo.compare LT, %4, %c_149, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_150 = stablehlo.constant dense<636> : tensor<i32>
        %308 = stablehlo.add %4, %c_150 : tensor<i32>
        %309 = stablehlo.select %307, %308, %4 : tensor<i1>, tensor<i32>
        %c_151 = stablehlo.constant dense<0> : tensor<i32>
        %310 = stablehlo.dynamic_slice %17, %c_151, %309, sizes = [4, 18] : (tensor<4x636xi32>, tensor<i32>, tensor<i32>) -> tensor<4x18xi32>
        %311 = stablehlo.broadcast_in_dim %310, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %312 = stablehlo.broadcast_in_dim %17, dims = [0, 2] : (tensor<4x636xi32>) -> tensor<4x1x636xi32>
        %313 = stablehlo.broadcast_in_dim %311, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x636xi32>
        %314 = stablehlo.broadcast_in_dim %312, dims = [0, 1, 2] : (tensor<4x1x636xi32>) -> tensor<4x18x636xi32>
        %315 = stablehlo.subtract %313, %314 : tensor<4x18x636xi32>
        %c_152 = stablehlo.constant dense<0> : tensor<i32>
        %316 = stablehlo.compare LT, %4, %c_152, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_153 = stablehlo.constant dense<636> : tensor<i32>
        %317 = stablehlo.add %4, %c_153 : tensor<i32>
        %318 = stablehlo.select %316, %317, %4 : tensor<i1>, tensor<i32>
        %c_154 = stablehlo.constant dense<0> : tensor<i32>
        %319 = stablehlo.dynamic_slice %13, %c_154, %318, sizes = [4, 18] : (tensor<4x636xi32>, tensor<i32>, tensor<i32>) -> tensor<4x18xi32>
        %320 = stablehlo.broadcast_in_dim %319, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %321 = stablehlo.broadcast_in_dim %13, dims = [0, 2] : (tensor<4x636xi32>) -> tensor<4x1x636xi32>
        %322 = stablehlo.broadcast_in_dim %320, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x636xi32>
        %323 = stablehlo.broadcast_in_dim %321, dims = [0, 1, 2] : (tensor<4x1x636xi32>) -> tensor<4x18x636xi32>
        %324 = stablehlo.compare EQ, %322, %323, SIGNED : (tensor<4x18x636xi32>, tensor<4x18x636xi32>) -> tensor<4x18x636xi1>
        %c_155 = stablehlo.constant dense<0> : tensor<i32>
        %325 = stablehlo.broadcast_in_dim %c_155, dims = [] : (tensor<i32>) -> tensor<4x18x636xi32>
        %326 = stablehlo.compare GE, %315, %325, SIGNED : (tensor<4x18x636xi32>, tensor<4x18x636xi32>) -> tensor<4x18x636xi1>
        %327 = stablehlo.and %324, %326 : tensor<4x18x636xi1>
        %328 = stablehlo.dot_general %306, %298, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x24xf32>, tensor<4x2x636x24xf32>) -> tensor<4x2x18x636xf32>
        %329 = stablehlo.broadcast_in_dim %327, dims = [0, 2, 3] : (tensor<4x18x636xi1>) -> tensor<4x1x18x636xi1>
        %330 = stablehlo.broadcast_in_dim %329, dims = [0, 1, 2, 3] : (tensor<4x1x18x636xi1>) -> tensor<4x2x18x636xi1>
        %cst_156 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
        %331 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<4x2x18x636xf32>
        %332 = stablehlo.select %330, %328, %331 : tensor<4x2x18x636xi1>, tensor<4x2x18x636xf32>
        %cst_157 = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %333 = stablehlo.reduce(%332 init: %cst_157) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x18x636xf32>, tensor<f32>) -> tensor<4x2x18xf32>
        %334 = stablehlo.broadcast_in_dim %333, dims = [0, 1, 2] : (tensor<4x2x18xf32>) -> tensor<4x2x18x1xf32>
        %335 = stablehlo.broadcast_in_dim %334, dims = [0, 1, 2, 3] : (tensor<4x2x18x1xf32>) -> tensor<4x2x18x636xf32>
        %336 = stablehlo.subtract %332, %335 : tensor<4x2x18x636xf32>
        %337 = stablehlo.exponential %336 : tensor<4x2x18x636xf32>
        %338 = stablehlo.dot_general %337, %303, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x636xf32>, tensor<4x2x636x24xf32>) -> tensor<4x2x18x24xf32>
        %cst_158 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %339 = stablehlo.reduce(%337 init: %cst_158) applies stablehlo.add across dimensions = [3] : (tensor<4x2x18x636xf32>, tensor<f32>) -> tensor<4x2x18xf32>
        %340 = stablehlo.broadcast_in_dim %339, dims = [0, 1, 2] : (tensor<4x2x18xf32>) -> tensor<4x2x18x1xf32>
        %341 = stablehlo.broadcast_in_dim %340, dims = [0, 1, 2, 3] : (tensor<4x2x18x1xf32>) -> tensor<4x2x18x24xf32>
        %342 = stablehlo.divide %338, %341 : tensor<4x2x18x24xf32>
        %343 = stablehlo.transpose %342, dims = [0, 2, 1, 3] : (tensor<4x2x18x24xf32>) -> tensor<4x18x2x24xf32>
        %344 = stablehlo.reshape %343 : (tensor<4x18x2x24xf32>) -> tensor<72x48xf32>
        %345 = stablehlo.reshape %iterArg_17 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
        %346 = stablehlo.dot_general %344, %345, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x48xf32>, tensor<48x96xf32>) -> tensor<72x96xf32>
        %347 = stablehlo.reshape %346 : (tensor<72x96xf32>) -> tensor<4x18x96xf32>
        %348 = stablehlo.slice %347 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_159 = stablehlo.constant dense<0> : tensor<i32>
        %349 = stablehlo.compare GE, %iterArg_35, %c_159, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_160 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %350 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %351 = func.call @_where(%349, %348, %350) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_161 = stablehlo.constant dense<0> : tensor<i32>
        %c_162 = stablehlo.constant dense<0> : tensor<i32>
        %c_163 = stablehlo.constant dense<0> : tensor<i32>
        %352 = stablehlo.dynamic_update_slice %347, %351, %c_161, %c_162, %c_163 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %353 = "stablehlo.reduce_scatter"(%352) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %354 = stablehlo.add %236, %353 : tensor<4x9x96xf32>
        %355 = stablehlo.broadcast_in_dim %iterArg_18, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %356 = chlo.square %354 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_164 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %357 = stablehlo.reduce(%356 init: %cst_164) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %358 = stablehlo.broadcast_in_dim %357, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_165 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %359 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %360 = stablehlo.divide %358, %359 : tensor<4x9x1xf32>
        %cst_166 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %361 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %362 = stablehlo.add %360, %361 : tensor<4x9x1xf32>
        %363 = stablehlo.rsqrt %362 : tensor<4x9x1xf32>
        %364 = stablehlo.broadcast_in_dim %363, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %365 = stablehlo.multiply %354, %364 : tensor<4x9x96xf32>
        %366 = stablehlo.broadcast_in_dim %355, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %367 = stablehlo.multiply %365, %366 : tensor<4x9x96xf32>
        %368 = stablehlo.slice %367 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_167 = stablehlo.constant dense<0> : tensor<i32>
        %369 = stablehlo.compare GE, %iterArg_35, %c_167, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_168 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %370 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %371 = func.call @_where(%369, %368, %370) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_169 = stablehlo.constant dense<0> : tensor<i32>
        %c_170 = stablehlo.constant dense<0> : tensor<i32>
        %c_171 = stablehlo.constant dense<0> : tensor<i32>
        %372 = stablehlo.dynamic_update_slice %367, %371, %c_169, %c_170, %c_171 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %373 = "stablehlo.all_gather"(%372) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %374 = stablehlo.reshape %373 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %375 = stablehlo.dot_general %374, %iterArg_19, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x128xf32>) -> tensor<72x128xf32>
        %376 = stablehlo.reshape %375 : (tensor<72x128xf32>) -> tensor<4x18x128xf32>
        %377 = stablehlo.reshape %373 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %378 = stablehlo.dot_general %377, %iterArg_20, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x128xf32>) -> tensor<72x128xf32>
        %379 = stablehlo.reshape %378 : (tensor<72x128xf32>) -> tensor<4x18x128xf32>
        %380 = stablehlo.negate %376 : tensor<4x18x128xf32>
        %381 = stablehlo.exponential %380 : tensor<4x18x128xf32>
        %cst_172 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %382 = stablehlo.broadcast_in_dim %cst_172, dims = [] : (tensor<f32>) -> tensor<4x18x128xf32>
        %383 = stablehlo.add %382, %381 : tensor<4x18x128xf32>
        %cst_173 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %384 = stablehlo.broadcast_in_dim %cst_173, dims = [] : (tensor<f32>) -> tensor<4x18x128xf32>
        %385 = stablehlo.divide %384, %383 : tensor<4x18x128xf32>
        %386 = stablehlo.multiply %376, %385 : tensor<4x18x128xf32>
        %387 = stablehlo.multiply %386, %379 : tensor<4x18x128xf32>
        %388 = stablehlo.reshape %387 : (tensor<4x18x128xf32>) -> tensor<72x128xf32>
        %389 = stablehlo.dot_general %388, %iterArg_21, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x128xf32>, tensor<128x96xf32>) -> tensor<72x96xf32>
        %390 = stablehlo.reshape %389 : (tensor<72x96xf32>) -> tensor<4x18x96xf32>
        %391 = stablehlo.slice %390 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_174 = stablehlo.constant dense<0> : tensor<i32>
        %392 = stablehlo.compare GE, %iterArg_35, %c_174, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_175 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %393 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %394 = func.call @_where(%392, %391, %393) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_176 = stablehlo.constant dense<0> : tensor<i32>
        %c_177 = stablehlo.constant dense<0> : tensor<i32>
        %c_178 = stablehlo.constant dense<0> : tensor<i32>
        %395 = stablehlo.dynamic_update_slice %390, %394, %c_176, %c_177, %c_178 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %396 = "stablehlo.reduce_scatter"(%395) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %397 = stablehlo.add %354, %396 : tensor<4x9x96xf32>
        %398 = stablehlo.broadcast_in_dim %iterArg_22, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %399 = chlo.square %397 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_179 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %400 = stablehlo.reduce(%399 init: %cst_179) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %401 = stablehlo.broadcast_in_dim %400, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_180 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %402 = stablehlo.broadcast_in_dim %cst_180, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %403 = stablehlo.divide %401, %402 : tensor<4x9x1xf32>
        %cst_181 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %404 = stablehlo.broadcast_in_dim %cst_181, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %405 = stablehlo.add %403, %404 : tensor<4x9x1xf32>
        %406 = stablehlo.rsqrt %405 : tensor<4x9x1xf32>
        %407 = stablehlo.broadcast_in_dim %406, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %408 = stablehlo.multiply %397, %407 : tensor<4x9x96xf32>
        %409 = stablehlo.broadcast_in_dim %398, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %410 = stablehlo.multiply %408, %409 : tensor<4x9x96xf32>
        %411 = stablehlo.slice %410 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_182 = stablehlo.constant dense<0> : tensor<i32>
        %412 = stablehlo.compare GE, %iterArg_35, %c_182, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_183 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %413 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %414 = func.call @_where(%412, %411, %413) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_184 = stablehlo.constant dense<0> : tensor<i32>
        %c_185 = stablehlo.constant dense<0> : tensor<i32>
        %c_186 = stablehlo.constant dense<0> : tensor<i32>
        %415 = stablehlo.dynamic_update_slice %410, %414, %c_184, %c_185, %c_186 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %416 = "stablehlo.all_gather"(%415) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %417 = stablehlo.reshape %416 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %418 = stablehlo.reshape %iterArg_23 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %419 = stablehlo.dot_general %417, %418, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %420 = stablehlo.reshape %419 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %421 = stablehlo.reshape %416 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %422 = stablehlo.reshape %iterArg_24 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %423 = stablehlo.dot_general %421, %422, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %424 = stablehlo.reshape %423 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %425 = stablehlo.reshape %416 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %426 = stablehlo.reshape %iterArg_25 : (tensor<96x2x24xf32>) -> tensor<96x48xf32>
        %427 = stablehlo.dot_general %425, %426, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x48xf32>) -> tensor<72x48xf32>
        %428 = stablehlo.reshape %427 : (tensor<72x48xf32>) -> tensor<4x18x2x24xf32>
        %429 = stablehlo.slice %420 [0:4, 0:18, 0:2, 0:12] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %430 = stablehlo.slice %420 [0:4, 0:18, 0:2, 12:24] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %431 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %432 = stablehlo.multiply %429, %431 : tensor<4x18x2x12xf32>
        %433 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %434 = stablehlo.multiply %430, %433 : tensor<4x18x2x12xf32>
        %435 = stablehlo.subtract %432, %434 : tensor<4x18x2x12xf32>
        %436 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %437 = stablehlo.multiply %430, %436 : tensor<4x18x2x12xf32>
        %438 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %439 = stablehlo.multiply %429, %438 : tensor<4x18x2x12xf32>
        %440 = stablehlo.add %437, %439 : tensor<4x18x2x12xf32>
        %441 = stablehlo.concatenate %435, %440, dim = 3 : (tensor<4x18x2x12xf32>, tensor<4x18x2x12xf32>) -> tensor<4x18x2x24xf32>
        %442 = stablehlo.slice %424 [0:4, 0:18, 0:2, 0:12] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %443 = stablehlo.slice %424 [0:4, 0:18, 0:2, 12:24] : (tensor<4x18x2x24xf32>) -> tensor<4x18x2x12xf32>
        %444 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %445 = stablehlo.multiply %442, %444 : tensor<4x18x2x12xf32>
        %446 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %447 = stablehlo.multiply %443, %446 : tensor<4x18x2x12xf32>
        %448 = stablehlo.subtract %445, %447 : tensor<4x18x2x12xf32>
        %449 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %450 = stablehlo.multiply %443, %449 : tensor<4x18x2x12xf32>
        %451 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<4x18x1x12xf32>) -> tensor<4x18x2x12xf32>
        %452 = stablehlo.multiply %442, %451 : tensor<4x18x2x12xf32>
        %453 = stablehlo.add %450, %452 : tensor<4x18x2x12xf32>
        %454 = stablehlo.concatenate %448, %453, dim = 3 : (tensor<4x18x2x12xf32>, tensor<4x18x2x12xf32>) -> tensor<4x18x2x24xf32>
        %455 = stablehlo.transpose %454, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_187 = stablehlo.constant dense<0> : tensor<i32>
        %456 = stablehlo.compare LT, %4, %c_187, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_188 = stablehlo.constant dense<636> : tensor<i32>
        %457 = stablehlo.add %4, %c_188 : tensor<i32>
        %458 = stablehlo.select %456, %457, %4 : tensor<i1>, tensor<i32>
        %c_189 = stablehlo.constant dense<0> : tensor<i32>
        %c_190 = stablehlo.constant dense<0> : tensor<i32>
        %c_191 = stablehlo.constant dense<0> : tensor<i32>
        %459 = stablehlo.dynamic_update_slice %iterArg_41, %455, %c_189, %c_190, %458, %c_191 : (tensor<4x2x636x24xf32>, tensor<4x2x18x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
        %460 = stablehlo.transpose %428, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_192 = stablehlo.constant dense<0> : tensor<i32>
        %461 = stablehlo.compare LT, %4, %c_192, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_193 = stablehlo.constant dense<636> : tensor<i32>
        %462 = stablehlo.add %4, %c_193 : tensor<i32>
        %463 = stablehlo.select %461, %462, %4 : tensor<i1>, tensor<i32>
        %c_194 = stablehlo.constant dense<0> : tensor<i32>
        %c_195 = stablehlo.constant dense<0> : tensor<i32>
        %c_196 = stablehlo.constant dense<0> : tensor<i32>
        %464 = stablehlo.dynamic_update_slice %iterArg_42, %460, %c_194, %c_195, %463, %c_196 : (tensor<4x2x636x24xf32>, tensor<4x2x18x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x636x24xf32>
        %cst_197 = stablehlo.constant dense<0.204124153> : tensor<f32>
        %465 = stablehlo.broadcast_in_dim %cst_197, dims = [] : (tensor<f32>) -> tensor<4x18x2x24xf32>
        %466 = stablehlo.multiply %441, %465 : tensor<4x18x2x24xf32>
        %467 = stablehlo.transpose %466, dims = [0, 2, 1, 3] : (tensor<4x18x2x24xf32>) -> tensor<4x2x18x24xf32>
        %c_198 = stablehlo.constant dense<0> : tensor<i32>
        %468 = stablehlo.compare LT, %4, %c_198, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_199 = stablehlo.constant dense<636> : tensor<i32>
        %469 = stablehlo.add %4, %c_199 : tensor<i32>
        %470 = stablehlo.select %468, %469, %4 : tensor<i1>, tensor<i32>
        %c_200 = stablehlo.constant dense<0> : tensor<i32>
        %471 = stablehlo.dynamic_slice %17, %c_200, %470, sizes = [4, 18] : (tensor<4x636xi32>, tensor<i32>, tensor<i32>) -> tensor<4x18xi32>
        %472 = stablehlo.broadcast_in_dim %471, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %473 = stablehlo.broadcast_in_dim %17, dims = [0, 2] : (tensor<4x636xi32>) -> tensor<4x1x636xi32>
        %474 = stablehlo.broadcast_in_dim %472, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x636xi32>
        %475 = stablehlo.broadcast_in_dim %473, dims = [0, 1, 2] : (tensor<4x1x636xi32>) -> tensor<4x18x636xi32>
        %476 = stablehlo.subtract %474, %475 : tensor<4x18x636xi32>
        %c_201 = stablehlo.constant dense<0> : tensor<i32>
        %477 = stablehlo.compare LT, %4, %c_201, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_202 = stablehlo.constant dense<636> : tensor<i32>
        %478 = stablehlo.add %4, %c_202 : tensor<i32>
        %479 = stablehlo.select %477, %478, %4 : tensor<i1>, tensor<i32>
        %c_203 = stablehlo.constant dense<0> : tensor<i32>
        %480 = stablehlo.dynamic_slice %13, %c_203, %479, sizes = [4, 18] : (tensor<4x636xi32>, tensor<i32>, tensor<i32>) -> tensor<4x18xi32>
        %481 = stablehlo.broadcast_in_dim %480, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %482 = stablehlo.broadcast_in_dim %13, dims = [0, 2] : (tensor<4x636xi32>) -> tensor<4x1x636xi32>
        %483 = stablehlo.broadcast_in_dim %481, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x636xi32>
        %484 = stablehlo.broadcast_in_dim %482, dims = [0, 1, 2] : (tensor<4x1x636xi32>) -> tensor<4x18x636xi32>
        %485 = stablehlo.compare EQ, %483, %484, SIGNED : (tensor<4x18x636xi32>, tensor<4x18x636xi32>) -> tensor<4x18x636xi1>
        %c_204 = stablehlo.constant dense<0> : tensor<i32>
        %486 = stablehlo.broadcast_in_dim %c_204, dims = [] : (tensor<i32>) -> tensor<4x18x636xi32>
        %487 = stablehlo.compare GE, %476, %486, SIGNED : (tensor<4x18x636xi32>, tensor<4x18x636xi32>) -> tensor<4x18x636xi1>
        %488 = stablehlo.and %485, %487 : tensor<4x18x636xi1>
        %489 = stablehlo.dot_general %467, %459, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x24xf32>, tensor<4x2x636x24xf32>) -> tensor<4x2x18x636xf32>
        %490 = stablehlo.broadcast_in_dim %488, dims = [0, 2, 3] : (tensor<4x18x636xi1>) -> tensor<4x1x18x636xi1>
        %491 = stablehlo.broadcast_in_dim %490, dims = [0, 1, 2, 3] : (tensor<4x1x18x636xi1>) -> tensor<4x2x18x636xi1>
        %cst_205 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
        %492 = stablehlo.broadcast_in_dim %cst_205, dims = [] : (tensor<f32>) -> tensor<4x2x18x636xf32>
        %493 = stablehlo.select %491, %489, %492 : tensor<4x2x18x636xi1>, tensor<4x2x18x636xf32>
        %cst_206 = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %494 = stablehlo.reduce(%493 init: %cst_206) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x18x636xf32>, tensor<f32>) -> tensor<4x2x18xf32>
        %495 = stablehlo.broadcast_in_dim %494, dims = [0, 1, 2] : (tensor<4x2x18xf32>) -> tensor<4x2x18x1xf32>
        %496 = stablehlo.broadcast_in_dim %495, dims = [0, 1, 2, 3] : (tensor<4x2x18x1xf32>) -> tensor<4x2x18x636xf32>
        %497 = stablehlo.subtract %493, %496 : tensor<4x2x18x636xf32>
        %498 = stablehlo.exponential %497 : tensor<4x2x18x636xf32>
        %499 = stablehlo.dot_general %498, %464, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x636xf32>, tensor<4x2x636x24xf32>) -> tensor<4x2x18x24xf32>
        %cst_207 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %500 = stablehlo.reduce(%498 init: %cst_207) applies stablehlo.add across dimensions = [3] : (tensor<4x2x18x636xf32>, tensor<f32>) -> tensor<4x2x18xf32>
        %501 = stablehlo.broadcast_in_dim %500, dims = [0, 1, 2] : (tensor<4x2x18xf32>) -> tensor<4x2x18x1xf32>
        %502 = stablehlo.broadcast_in_dim %501, dims = [0, 1, 2, 3] : (tensor<4x2x18x1xf32>) -> tensor<4x2x18x24xf32>
        %503 = stablehlo.divide %499, %502 : tensor<4x2x18x24xf32>
        %504 = stablehlo.transpose %503, dims = [0, 2, 1, 3] : (tensor<4x2x18x24xf32>) -> tensor<4x18x2x24xf32>
        %505 = stablehlo.reshape %504 : (tensor<4x18x2x24xf32>) -> tensor<72x48xf32>
        %506 = stablehlo.reshape %iterArg_26 : (tensor<2x24x96xf32>) -> tensor<48x96xf32>
        %507 = stablehlo.dot_general %505, %506, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x48xf32>, tensor<48x96xf32>) -> tensor<72x96xf32>
        %508 = stablehlo.reshape %507 : (tensor<72x96xf32>) -> tensor<4x18x96xf32>
        %509 = stablehlo.slice %508 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_208 = stablehlo.constant dense<0> : tensor<i32>
        %510 = stablehlo.compare GE, %iterArg_35, %c_208, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_209 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %511 = stablehlo.broadcast_in_dim %cst_209, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %512 = func.call @_where(%510, %509, %511) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_210 = stablehlo.constant dense<0> : tensor<i32>
        %c_211 = stablehlo.constant dense<0> : tensor<i32>
        %c_212 = stablehlo.constant dense<0> : tensor<i32>
        %513 = stablehlo.dynamic_update_slice %508, %512, %c_210, %c_211, %c_212 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %514 = "stablehlo.reduce_scatter"(%513) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %515 = stablehlo.add %397, %514 : tensor<4x9x96xf32>
        %516 = stablehlo.broadcast_in_dim %iterArg_27, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %517 = chlo.square %515 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_213 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %518 = stablehlo.reduce(%517 init: %cst_213) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %519 = stablehlo.broadcast_in_dim %518, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_214 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %520 = stablehlo.broadcast_in_dim %cst_214, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %521 = stablehlo.divide %519, %520 : tensor<4x9x1xf32>
        %cst_215 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %522 = stablehlo.broadcast_in_dim %cst_215, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %523 = stablehlo.add %521, %522 : tensor<4x9x1xf32>
        %524 = stablehlo.rsqrt %523 : tensor<4x9x1xf32>
        %525 = stablehlo.broadcast_in_dim %524, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %526 = stablehlo.multiply %515, %525 : tensor<4x9x96xf32>
        %527 = stablehlo.broadcast_in_dim %516, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %528 = stablehlo.multiply %526, %527 : tensor<4x9x96xf32>
        %529 = stablehlo.slice %528 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_216 = stablehlo.constant dense<0> : tensor<i32>
        %530 = stablehlo.compare GE, %iterArg_35, %c_216, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_217 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %531 = stablehlo.broadcast_in_dim %cst_217, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %532 = func.call @_where(%530, %529, %531) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_218 = stablehlo.constant dense<0> : tensor<i32>
        %c_219 = stablehlo.constant dense<0> : tensor<i32>
        %c_220 = stablehlo.constant dense<0> : tensor<i32>
        %533 = stablehlo.dynamic_update_slice %528, %532, %c_218, %c_219, %c_220 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %534 = "stablehlo.all_gather"(%533) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %535 = stablehlo.reshape %534 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %536 = stablehlo.dot_general %535, %iterArg_28, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x128xf32>) -> tensor<72x128xf32>
        %537 = stablehlo.reshape %536 : (tensor<72x128xf32>) -> tensor<4x18x128xf32>
        %538 = stablehlo.reshape %534 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %539 = stablehlo.dot_general %538, %iterArg_29, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x96xf32>, tensor<96x128xf32>) -> tensor<72x128xf32>
        %540 = stablehlo.reshape %539 : (tensor<72x128xf32>) -> tensor<4x18x128xf32>
        %541 = stablehlo.negate %537 : tensor<4x18x128xf32>
        %542 = stablehlo.exponential %541 : tensor<4x18x128xf32>
        %cst_221 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %543 = stablehlo.broadcast_in_dim %cst_221, dims = [] : (tensor<f32>) -> tensor<4x18x128xf32>
        %544 = stablehlo.add %543, %542 : tensor<4x18x128xf32>
        %cst_222 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %545 = stablehlo.broadcast_in_dim %cst_222, dims = [] : (tensor<f32>) -> tensor<4x18x128xf32>
        %546 = stablehlo.divide %545, %544 : tensor<4x18x128xf32>
        %547 = stablehlo.multiply %537, %546 : tensor<4x18x128xf32>
        %548 = stablehlo.multiply %547, %540 : tensor<4x18x128xf32>
        %549 = stablehlo.reshape %548 : (tensor<4x18x128xf32>) -> tensor<72x128xf32>
        %550 = stablehlo.dot_general %549, %iterArg_30, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<72x128xf32>, tensor<128x96xf32>) -> tensor<72x96xf32>
        %551 = stablehlo.reshape %550 : (tensor<72x96xf32>) -> tensor<4x18x96xf32>
        %552 = stablehlo.slice %551 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %c_223 = stablehlo.constant dense<0> : tensor<i32>
        %553 = stablehlo.compare GE, %iterArg_35, %c_223, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_224 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %554 = stablehlo.broadcast_in_dim %cst_224, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %555 = func.call @_where(%553, %552, %554) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_225 = stablehlo.constant dense<0> : tensor<i32>
        %c_226 = stablehlo.constant dense<0> : tensor<i32>
        %c_227 = stablehlo.constant dense<0> : tensor<i32>
        %556 = stablehlo.dynamic_update_slice %551, %555, %c_225, %c_226, %c_227 : (tensor<4x18x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x18x96xf32>
        %557 = "stablehlo.reduce_scatter"(%556) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<f32>, %arg94: tensor<f32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<f32>
          stablehlo.return %706 : tensor<f32>
        }) : (tensor<4x18x96xf32>) -> tensor<4x9x96xf32>
        %558 = stablehlo.add %515, %557 : tensor<4x9x96xf32>
        %559 = stablehlo.broadcast_in_dim %iterArg_31, dims = [2] : (tensor<96xf32>) -> tensor<1x1x96xf32>
        %560 = chlo.square %558 : tensor<4x9x96xf32> -> tensor<4x9x96xf32>
        %cst_228 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %561 = stablehlo.reduce(%560 init: %cst_228) applies stablehlo.add across dimensions = [2] : (tensor<4x9x96xf32>, tensor<f32>) -> tensor<4x9xf32>
        %562 = stablehlo.broadcast_in_dim %561, dims = [0, 1] : (tensor<4x9xf32>) -> tensor<4x9x1xf32>
        %cst_229 = stablehlo.constant dense<9.600000e+01> : tensor<f32>
        %563 = stablehlo.broadcast_in_dim %cst_229, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %564 = stablehlo.divide %562, %563 : tensor<4x9x1xf32>
        %cst_230 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
        %565 = stablehlo.broadcast_in_dim %cst_230, dims = [] : (tensor<f32>) -> tensor<4x9x1xf32>
        %566 = stablehlo.add %564, %565 : tensor<4x9x1xf32>
        %567 = stablehlo.rsqrt %566 : tensor<4x9x1xf32>
        %568 = stablehlo.broadcast_in_dim %567, dims = [0, 1, 2] : (tensor<4x9x1xf32>) -> tensor<4x9x96xf32>
        %569 = stablehlo.multiply %558, %568 : tensor<4x9x96xf32>
        %570 = stablehlo.broadcast_in_dim %559, dims = [0, 1, 2] : (tensor<1x1x96xf32>) -> tensor<4x9x96xf32>
        %571 = stablehlo.multiply %569, %570 : tensor<4x9x96xf32>
        %c_231 = stablehlo.constant dense<1> : tensor<i32>
        %572 = stablehlo.add %iterArg_36, %c_231 : tensor<i32>
        %573 = stablehlo.slice %571 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %c_232 = stablehlo.constant dense<0> : tensor<i32>
        %574 = stablehlo.compare GE, %iterArg_35, %c_232, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %cst_233 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %575 = stablehlo.broadcast_in_dim %cst_233, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
        %576 = func.call @_where(%574, %573, %575) : (tensor<i1>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
        %c_234 = stablehlo.constant dense<0> : tensor<i32>
        %c_235 = stablehlo.constant dense<0> : tensor<i32>
        %c_236 = stablehlo.constant dense<0> : tensor<i32>
        %577 = stablehlo.dynamic_update_slice %571, %576, %c_234, %c_235, %c_236 : (tensor<4x9x96xf32>, tensor<1x1x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x9x96xf32>
        %578 = "stablehlo.all_gather"(%577) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x9x96xf32>) -> tensor<4x18x96xf32>
        %579 = stablehlo.reshape %578 : (tensor<4x18x96xf32>) -> tensor<72x96xf32>
        %cst_237 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %580 = stablehlo.pad %579, %cst_237, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<72x96xf32>, tensor<f32>) -> tensor<72x96xf32>
        %581 = stablehlo.reshape %580 : (tensor<72x96xf32>) -> tensor<1x72x96xf32>
        %582 = stablehlo.slice %56 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %583 = stablehlo.reshape %582 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_238 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %584 = stablehlo.compare NE, %583, %cst_238, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %585 = stablehlo.convert %584 : (tensor<i1>) -> tensor<i32>
        %c_239 = stablehlo.constant dense<1> : tensor<i32>
        %586 = stablehlo.or %585, %c_239 : tensor<i32>
        %587 = stablehlo.and %iterArg_35, %586 : tensor<i32>
        %588 = stablehlo.slice %94 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %589 = stablehlo.reshape %588 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_240 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %590 = stablehlo.compare NE, %589, %cst_240, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %591 = stablehlo.convert %590 : (tensor<i1>) -> tensor<i32>
        %c_241 = stablehlo.constant dense<1> : tensor<i32>
        %592 = stablehlo.or %591, %c_241 : tensor<i32>
        %593 = stablehlo.and %587, %592 : tensor<i32>
        %594 = stablehlo.slice %192 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %595 = stablehlo.reshape %594 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_242 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %596 = stablehlo.compare NE, %595, %cst_242, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %597 = stablehlo.convert %596 : (tensor<i1>) -> tensor<i32>
        %c_243 = stablehlo.constant dense<1> : tensor<i32>
        %598 = stablehlo.or %597, %c_243 : tensor<i32>
        %599 = stablehlo.and %593, %598 : tensor<i32>
        %600 = stablehlo.slice %212 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %601 = stablehlo.reshape %600 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_244 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %602 = stablehlo.compare NE, %601, %cst_244, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %603 = stablehlo.convert %602 : (tensor<i1>) -> tensor<i32>
        %c_245 = stablehlo.constant dense<1> : tensor<i32>
        %604 = stablehlo.or %603, %c_245 : tensor<i32>
        %605 = stablehlo.and %599, %604 : tensor<i32>
        %606 = stablehlo.slice %235 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %607 = stablehlo.reshape %606 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_246 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %608 = stablehlo.compare NE, %607, %cst_246, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %609 = stablehlo.convert %608 : (tensor<i1>) -> tensor<i32>
        %c_247 = stablehlo.constant dense<1> : tensor<i32>
        %610 = stablehlo.or %609, %c_247 : tensor<i32>
        %611 = stablehlo.and %605, %610 : tensor<i32>
        %612 = stablehlo.slice %255 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %613 = stablehlo.reshape %612 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_248 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %614 = stablehlo.compare NE, %613, %cst_248, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %615 = stablehlo.convert %614 : (tensor<i1>) -> tensor<i32>
        %c_249 = stablehlo.constant dense<1> : tensor<i32>
        %616 = stablehlo.or %615, %c_249 : tensor<i32>
        %617 = stablehlo.and %611, %616 : tensor<i32>
        %618 = stablehlo.slice %353 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %619 = stablehlo.reshape %618 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_250 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %620 = stablehlo.compare NE, %619, %cst_250, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %621 = stablehlo.convert %620 : (tensor<i1>) -> tensor<i32>
        %c_251 = stablehlo.constant dense<1> : tensor<i32>
        %622 = stablehlo.or %621, %c_251 : tensor<i32>
        %623 = stablehlo.and %617, %622 : tensor<i32>
        %624 = stablehlo.slice %373 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %625 = stablehlo.reshape %624 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_252 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %626 = stablehlo.compare NE, %625, %cst_252, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %627 = stablehlo.convert %626 : (tensor<i1>) -> tensor<i32>
        %c_253 = stablehlo.constant dense<1> : tensor<i32>
        %628 = stablehlo.or %627, %c_253 : tensor<i32>
        %629 = stablehlo.and %623, %628 : tensor<i32>
        %630 = stablehlo.slice %396 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %631 = stablehlo.reshape %630 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_254 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %632 = stablehlo.compare NE, %631, %cst_254, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %633 = stablehlo.convert %632 : (tensor<i1>) -> tensor<i32>
        %c_255 = stablehlo.constant dense<1> : tensor<i32>
        %634 = stablehlo.or %633, %c_255 : tensor<i32>
        %635 = stablehlo.and %629, %634 : tensor<i32>
        %636 = stablehlo.slice %416 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %637 = stablehlo.reshape %636 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_256 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %638 = stablehlo.compare NE, %637, %cst_256, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %639 = stablehlo.convert %638 : (tensor<i1>) -> tensor<i32>
        %c_257 = stablehlo.constant dense<1> : tensor<i32>
        %640 = stablehlo.or %639, %c_257 : tensor<i32>
        %641 = stablehlo.and %635, %640 : tensor<i32>
        %642 = stablehlo.slice %514 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %643 = stablehlo.reshape %642 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_258 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %644 = stablehlo.compare NE, %643, %cst_258, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %645 = stablehlo.convert %644 : (tensor<i1>) -> tensor<i32>
        %c_259 = stablehlo.constant dense<1> : tensor<i32>
        %646 = stablehlo.or %645, %c_259 : tensor<i32>
        %647 = stablehlo.and %641, %646 : tensor<i32>
        %648 = stablehlo.slice %534 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %649 = stablehlo.reshape %648 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_260 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %650 = stablehlo.compare NE, %649, %cst_260, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %651 = stablehlo.convert %650 : (tensor<i1>) -> tensor<i32>
        %c_261 = stablehlo.constant dense<1> : tensor<i32>
        %652 = stablehlo.or %651, %c_261 : tensor<i32>
        %653 = stablehlo.and %647, %652 : tensor<i32>
        %654 = stablehlo.slice %557 [0:1, 0:1, 0:1] : (tensor<4x9x96xf32>) -> tensor<1x1x1xf32>
        %655 = stablehlo.reshape %654 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_262 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %656 = stablehlo.compare NE, %655, %cst_262, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %657 = stablehlo.convert %656 : (tensor<i1>) -> tensor<i32>
        %c_263 = stablehlo.constant dense<1> : tensor<i32>
        %658 = stablehlo.or %657, %c_263 : tensor<i32>
        %659 = stablehlo.and %653, %658 : tensor<i32>
        %660 = stablehlo.slice %578 [0:1, 0:1, 0:1] : (tensor<4x18x96xf32>) -> tensor<1x1x1xf32>
        %661 = stablehlo.reshape %660 : (tensor<1x1x1xf32>) -> tensor<f32>
        %cst_264 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %662 = stablehlo.compare NE, %661, %cst_264, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %663 = stablehlo.convert %662 : (tensor<i1>) -> tensor<i32>
        %c_265 = stablehlo.constant dense<1> : tensor<i32>
        %664 = stablehlo.or %663, %c_265 : tensor<i32>
        %665 = stablehlo.and %659, %664 : tensor<i32>
        %c_266 = stablehlo.constant dense<0> : tensor<i32>
        %666 = stablehlo.broadcast_in_dim %c_266, dims = [] : (tensor<i32>) -> tensor<1x72xi32>
        %c_267 = stablehlo.constant dense<0> : tensor<i32>
        %667:5 = stablehlo.while(%iterArg_275 = %581, %iterArg_276 = %iterArg_32, %iterArg_277 = %c_267, %iterArg_278 = %665, %iterArg_279 = %666) : tensor<1x72x96xf32>, tensor<96x32xf32>, tensor<i32>, tensor<i32>, tensor<1x72xi32>
        cond {
          %c_280 = stablehlo.constant dense<1> : tensor<i32>
          %706 = stablehlo.compare LT, %iterArg_277, %c_280, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %706 : tensor<i1>
        } do {
          %706 = func.call @dynamic_index_in_dim(%iterArg_275, %iterArg_277) : (tensor<1x72x96xf32>, tensor<i32>) -> tensor<72x96xf32>
          %707:2 = func.call @closed_call(%iterArg_276, %iterArg_278, %706) : (tensor<96x32xf32>, tensor<i32>, tensor<72x96xf32>) -> (tensor<i32>, tensor<72xi32>)
          %708 = func.call @dynamic_update_index_in_dim(%iterArg_279, %707#1, %iterArg_277) : (tensor<1x72xi32>, tensor<72xi32>, tensor<i32>) -> tensor<1x72xi32>
          %c_280 = stablehlo.constant dense<1> : tensor<i32>
          %709 = stablehlo.add %iterArg_277, %c_280 : tensor<i32>
          stablehlo.return %iterArg_275, %iterArg_276, %709, %707#0, %708 : tensor<1x72x96xf32>, tensor<96x32xf32>, tensor<i32>, tensor<i32>, tensor<1x72xi32>
        }
        %668 = stablehlo.reshape %667#4 : (tensor<1x72xi32>) -> tensor<72xi32>
        %669 = stablehlo.reshape %668 : (tensor<72xi32>) -> tensor<4x18xi32>
        %670 = stablehlo.iota dim = 0 : tensor<18xi32>
        %671 = stablehlo.broadcast_in_dim %670, dims = [2] : (tensor<18xi32>) -> tensor<1x1x18xi32>
        %672 = stablehlo.broadcast_in_dim %iterArg_47, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %673 = stablehlo.broadcast_in_dim %671, dims = [0, 1, 2] : (tensor<1x1x18xi32>) -> tensor<4x18x18xi32>
        %674 = stablehlo.broadcast_in_dim %672, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x18xi32>
        %675 = stablehlo.compare EQ, %673, %674, SIGNED : (tensor<4x18x18xi32>, tensor<4x18x18xi32>) -> tensor<4x18x18xi1>
        %676 = stablehlo.broadcast_in_dim %iterArg_48, dims = [0, 1] : (tensor<4x18xi1>) -> tensor<4x18x1xi1>
        %677 = stablehlo.broadcast_in_dim %676, dims = [0, 1, 2] : (tensor<4x18x1xi1>) -> tensor<4x18x18xi1>
        %678 = stablehlo.and %675, %677 : tensor<4x18x18xi1>
        %679 = stablehlo.broadcast_in_dim %669, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %680 = stablehlo.broadcast_in_dim %679, dims = [0, 1, 2] : (tensor<4x18x1xi32>) -> tensor<4x18x18xi32>
        %681 = stablehlo.select %678, %680, %iterArg_46 : tensor<4x18x18xi1>, tensor<4x18x18xi32>
        %682 = stablehlo.convert %iterArg_48 : (tensor<4x18xi1>) -> tensor<4x18xi32>
        %683 = stablehlo.add %iterArg_47, %682 : tensor<4x18xi32>
        %684 = stablehlo.broadcast_in_dim %669, dims = [0, 1] : (tensor<4x18xi32>) -> tensor<4x18x1xi32>
        %685 = stablehlo.broadcast_in_dim %iterArg_33, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x18x1xi32>
        %686 = stablehlo.compare EQ, %684, %685, SIGNED : (tensor<4x18x1xi32>, tensor<4x18x1xi32>) -> tensor<4x18x1xi1>
        %c_268 = stablehlo.constant dense<false> : tensor<i1>
        %687 = stablehlo.reduce(%686 init: %c_268) applies stablehlo.or across dimensions = [2] : (tensor<4x18x1xi1>, tensor<i1>) -> tensor<4x18xi1>
        %688 = stablehlo.not %687 : tensor<4x18xi1>
        %689 = stablehlo.and %iterArg_48, %688 : tensor<4x18xi1>
        %c_269 = stablehlo.constant dense<18> : tensor<i32>
        %690 = stablehlo.broadcast_in_dim %c_269, dims = [] : (tensor<i32>) -> tensor<4x18xi32>
        %691 = stablehlo.minimum %iterArg_34, %690 : tensor<4x18xi32>
        %692 = stablehlo.compare LT, %683, %691, SIGNED : (tensor<4x18xi32>, tensor<4x18xi32>) -> tensor<4x18xi1>
        %693 = stablehlo.and %689, %692 : tensor<4x18xi1>
        %694 = stablehlo.convert %693 : (tensor<4x18xi1>) -> tensor<4x18xi32>
        %c_270 = stablehlo.constant dense<0> : tensor<i32>
        %695 = stablehlo.reduce(%694 init: %c_270) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x18xi32>, tensor<i32>) -> tensor<i32>
        %696 = stablehlo.slice %695 [] : (tensor<i32>) -> tensor<i32>
        %c_271 = stablehlo.constant dense<0> : tensor<i32>
        %697 = stablehlo.compare GE, %667#3, %c_271, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %c_272 = stablehlo.constant dense<0> : tensor<i32>
        %698 = func.call @_where_2(%697, %696, %c_272) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
        %699 = "stablehlo.all_reduce"(%698) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg93: tensor<i32>, %arg94: tensor<i32>):
          %706 = stablehlo.add %arg93, %arg94 : tensor<i32>
          stablehlo.return %706 : tensor<i32>
        }) : (tensor<i32>) -> tensor<i32>
        %700 = stablehlo.slice %699 [] : (tensor<i32>) -> tensor<i32>
        %701 = stablehlo.reshape %700 : (tensor<i32>) -> tensor<i32>
        %c_273 = stablehlo.constant dense<0> : tensor<i32>
        %702 = stablehlo.compare NE, %701, %c_273, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %703 = stablehlo.convert %702 : (tensor<i1>) -> tensor<i32>
        %c_274 = stablehlo.constant dense<1> : tensor<i32>
        %704 = stablehlo.or %703, %c_274 : tensor<i32>
        %705 = stablehlo.and %667#3, %704 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_2, %iterArg_3, %iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %iterArg_15, %iterArg_16, %iterArg_17, %iterArg_18, %iterArg_19, %iterArg_20, %iterArg_21, %iterArg_22, %iterArg_23, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %iterArg_29, %iterArg_30, %iterArg_31, %iterArg_32, %iterArg_33, %iterArg_34, %705, %572, %137, %142, %298, %303, %459, %464, %13, %17, %669, %681, %683, %693, %699 : tensor<4x18xi32>, tensor<4x18xi32>, tensor<32x96xf32>, tensor<96xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<2x24x96xf32>, tensor<96xf32>, tensor<96x128xf32>, tensor<96x128xf32>, tensor<128x96xf32>, tensor<96xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<2x24x96xf32>, tensor<96xf32>, tensor<96x128xf32>, tensor<96x128xf32>, tensor<128x96xf32>, tensor<96xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<96x2x24xf32>, tensor<2x24x96xf32>, tensor<96xf32>, tensor<96x128xf32>, tensor<96x128xf32>, tensor<128x96xf32>, tensor<96xf32>, tensor<96x32xf32>, tensor<1x1x1xi32>, tensor<4x18xi32>, tensor<i32>, tensor<i32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x2x636x24xf32>, tensor<4x636xi32>, tensor<4x636xi32>, tensor<4x18xi32>, tensor<4x18x18xi32>, tensor<4x18xi32>, tensor<4x18xi1>, tensor<i32>
      }
      sdy.return %2#45 : tensor<4x18x18xi32>
    } : (tensor<1x1x1xi32>, tensor<64x96xf32>, tensor<96xf32>, tensor<256x96xf32>, tensor<96x256xf32>, tensor<96x256xf32>, tensor<96xf32>, tensor<96x4x24xf32>, tensor<4x24x96xf32>, tensor<96x4x24xf32>, tensor<96x4x24xf32>, tensor<96xf32>, tensor<256x96xf32>, tensor<96x256xf32>, tensor<96x256xf32>, tensor<96xf32>, tensor<96x4x24xf32>, tensor<4x24x96xf32>, tensor<96x4x24xf32>, tensor<96x4x24xf32>, tensor<96xf32>, tensor<256x96xf32>, tensor<96x256xf32>, tensor<96x256xf32>, tensor<96xf32>, tensor<96x4x24xf32>, tensor<4x24x96xf32>, tensor<96x4x24xf32>, tensor<96x4x24xf32>, tensor<96x64xf32>, tensor<96xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x4x636x24xf32>, tensor<8x636xi32>, tensor<8x636xi32>, tensor<8x18xi32>, tensor<8x18x18xi32>, tensor<8x18xi32>, tensor<8x18xi1>, tensor<i32>, tensor<8x18xi32>, tensor<8x18xi32>, tensor<8x18xi32>) -> tensor<8x18x18xi32>
    return %1 : tensor<8x18x18xi32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x1x1xf32>, %arg2: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1x1x1xf32>
    return %0 : tensor<1x1x1xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<1x72x96xf32>, %arg1: tensor<i32>) -> tensor<72x96xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 72, 96] : (tensor<1x72x96xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x72x96xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x72x96xf32>) -> tensor<72x96xf32>
    return %1 : tensor<72x96xf32>
  }
  func.func private @closed_call(%arg0: tensor<96x32xf32>, %arg1: tensor<i32>, %arg2: tensor<72x96xf32>) -> (tensor<i32>, tensor<72xi32>) {
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
    %15 = call @_where_0(%13, %12, %14) : (tensor<i1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
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
    %25 = call @_where_1(%23, %22, %24) : (tensor<i1>, tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
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
  func.func private @_where_0(%arg0: tensor<i1>, %arg1: tensor<1xf32>, %arg2: tensor<1xf32>) -> tensor<1xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1xf32>
    return %0 : tensor<1xf32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<1xi32>, %arg2: tensor<1xi32>) -> tensor<1xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<1xi32>
    return %0 : tensor<1xi32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<1x72xi32>, %arg1: tensor<72xi32>, %arg2: tensor<i32>) -> tensor<1x72xi32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<72xi32>) -> tensor<1x72xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<1x72xi32>, tensor<1x72xi32>, tensor<i32>, tensor<i32>) -> tensor<1x72xi32>
    return %1 : tensor<1x72xi32>
  }
  func.func private @_where_2(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}
