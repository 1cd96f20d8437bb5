#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

void encode(Queue& queue, Tensor& codes, Tensor& scales, const Tensor& x, CodeMap map) {
  cpu_quantize.encode(queue, codes, scales, x, map);
  CudaQueue& device = cuda(queue);
  device.submitted("quantize.encode", x,
                   kernels_of(device).quantize_encode(device.stream(), codes.data<uint8_t>(),
                                                      scales.data<float>(), x.data<float>(), x.numel(), map));
}

void decode(Queue& queue, Tensor& x, const Tensor& codes, const Tensor& scales, CodeMap map) {
  cpu_quantize.decode(queue, x, codes, scales, map);
  CudaQueue& device = cuda(queue);
  device.submitted("quantize.decode", x,
                   kernels_of(device).quantize_decode(device.stream(), x.data<float>(), codes.data<uint8_t>(),
                                                      scales.data<float>(), x.numel(), map));
}

}  // namespace

const QuantizeKernels cuda_quantize{encode, decode};

}  // namespace athanor::kernels
