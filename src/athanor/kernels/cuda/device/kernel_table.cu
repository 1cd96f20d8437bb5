// The kernels as a table.
#include "athanor/kernels/cuda/device/kernel_table.h"

#include "athanor/kernels/cuda/device/kernels.h"

namespace athanor::kernels::cuda {

const CudaKernelCalls kernel_calls{.attention_forward = attention_forward,
                                   .attention_backward = attention_backward,
                                   .attention_merge = attention_merge,
                                   .cross_entropy_rows = cross_entropy_rows,
                                   .cross_entropy_statistics = cross_entropy_statistics,
                                   .cross_entropy_gradient = cross_entropy_gradient,
                                   .dropout = dropout,
                                   .add = add,
                                   .add_row = add_row,
                                   .accumulate = accumulate,
                                   .scale = scale,
                                   .cast = cast,
                                   .column_sum = column_sum,
                                   .square_sums = square_sums,
                                   .tree_sums = tree_sums,
                                   .embedding_forward = embedding_forward,
                                   .embedding_backward = embedding_backward,
                                   .embedding_backward_positions = embedding_backward_positions,
                                   .embedding_move_rows = embedding_move_rows,
                                   .gelu_forward = gelu_forward,
                                   .gelu_backward = gelu_backward,
                                   .norm_forward = norm_forward,
                                   .norm_backward = norm_backward,
                                   .norm_backward_weight = norm_backward_weight,
                                   .adamw = adamw,
                                   .sgd = sgd,
                                   .quantize_encode = quantize_encode,
                                   .quantize_decode = quantize_decode,
                                   .rope = rope,
                                   .router_forward = router_forward,
                                   .router_backward = router_backward,
                                   .swiglu_forward = swiglu_forward,
                                   .swiglu_backward = swiglu_backward,
                                   .gather_rows = gather_rows,
                                   .sum_places = sum_places,
                                   .combine_backward = combine_backward,
                                   .copy_rows = copy_rows,
                                   .sum_rows = sum_rows};

}  // namespace athanor::kernels::cuda
