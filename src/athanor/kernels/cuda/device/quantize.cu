// Optimizer state in 8 bits a value (kernels/quantize.h). A thread has one element of each of kRun blocks of codes, and
// the values of all codes are formed once for them.
#include "athanor/kernels/cpu/quantize_codes.h"
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

static_assert(kThreads == kQuantizeBlock);
constexpr int64_t kRun = 16;

// The code of |x| / scale, as kernels/cpu/quantize.cpp has it.
template <int kCodes>
__device__ int code_of(const float* values, const float* middles, float x, float scale) {
  if (scale == 0.0f) return 0;
  int code = 0;
  if constexpr (kCodes == kRootCodes) {
    const float root = sqrtf(x);
    if (root > 0.0f) {
      code = nearest_code<kCodes>(middles, root / scale);
      if (code == 0) code = 1;
    }
  } else {
    code = nearest_code<kCodes>(middles, fabsf(x) / scale);
  }
  if (values[code] * scale < kQuantizeTiny) return 0;
  return kCodes == kPlainCodes && x < 0.0f ? code + kNegative : code;
}

template <int kCodes>
__global__ void encode_blocks(uint8_t* codes, float* scales, const float* x, int64_t n) {
  __shared__ float values[kCodes], middles[kCodes];
  if (threadIdx.x < kCodes) {
    values[threadIdx.x] = code_value<kCodes>(static_cast<int>(threadIdx.x));
    middles[threadIdx.x] = code_middle<kCodes>(static_cast<int>(threadIdx.x));
  }
  const int64_t first = int64_t{blockIdx.x} * kRun;
  for (int64_t block = first; block < first + kRun && block * kQuantizeBlock < n; ++block) {
    const int64_t i = block * kQuantizeBlock + threadIdx.x;
    const float own = i < n ? x[i] : 0.0f;
    // Its barriers are those of the table, too.
    float scale = block_reduce(kCodes == kRootCodes ? own : fabsf(own), Largest());
    if (kCodes == kRootCodes) scale = sqrtf(scale);
    if (scale < kQuantizeTiny) scale = 0.0f;
    if (threadIdx.x == 0) scales[block] = scale;
    if (i < n) codes[i] = static_cast<uint8_t>(code_of<kCodes>(values, middles, own, scale));
  }
}

template <int kCodes>
__global__ void decode_blocks(float* x, const uint8_t* codes, const float* scales, int64_t n) {
  __shared__ float values[kCodes];
  if (threadIdx.x < kCodes) values[threadIdx.x] = code_value<kCodes>(static_cast<int>(threadIdx.x));
  __syncthreads();
  const int64_t first = int64_t{blockIdx.x} * kRun;
  for (int64_t block = first; block < first + kRun && block * kQuantizeBlock < n; ++block) {
    const int64_t i = block * kQuantizeBlock + threadIdx.x;
    if (i >= n) return;
    const int code = codes[i];
    const float value = values[code % kCodes] * scales[block];
    if constexpr (kCodes == kRootCodes)
      x[i] = value * value;
    else
      x[i] = code < kNegative ? value : -value;
  }
}

int64_t blocks_of_runs(int64_t n) {
  return num_blocks(n, kQuantizeBlock * kRun);
}

}  // namespace

Error quantize_encode(Stream stream, uint8_t* codes, float* scales, const float* x, int64_t n, CodeMap map) {
  const auto kernel = map == CodeMap::plain ? encode_blocks<kPlainCodes> : encode_blocks<kRootCodes>;
  return launch(stream, kernel, blocks_of_runs(n), kThreads, codes, scales, x, n);
}

Error quantize_decode(Stream stream, float* x, const uint8_t* codes, const float* scales, int64_t n,
                      CodeMap map) {
  const auto kernel = map == CodeMap::plain ? decode_blocks<kPlainCodes> : decode_blocks<kRootCodes>;
  return launch(stream, kernel, blocks_of_runs(n), kThreads, x, codes, scales, n);
}

}  // namespace athanor::kernels::cuda
