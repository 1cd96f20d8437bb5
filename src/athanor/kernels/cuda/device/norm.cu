// Layer and root-mean-square normalization (kernels/layer_norm.h, rms_norm.h): a block of threads for each row. Where
// `mean` is null the rows are not centred, which makes the one the other.
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

template <typename T>
__global__ void forward(T* y, float* mean, float* rstd, const T* x, const T* w, const T* b, int64_t width,
                        float eps) {
  const int64_t row = blockIdx.x;
  const T* from = x + row * width;
  float center = 0;
  if (mean != nullptr) {
    float sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += kThreads) sum += to_float(from[c]);
    center = block_reduce(sum, Sum()) / static_cast<float>(width);
  }
  // A second pass over the row: the difference of mean(x^2) and mean(x)^2 would cancel.
  float squares = 0;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    const float d = to_float(from[c]) - center;
    squares += d * d;
  }
  const float inverse = 1 / sqrtf(block_reduce(squares, Sum()) / static_cast<float>(width) + eps);
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    const float bias = b == nullptr ? 0.0f : to_float(b[c]);
    y[row * width + c] = from_float<T>((to_float(from[c]) - center) * inverse * to_float(w[c]) + bias);
  }
  if (threadIdx.x != 0) return;
  if (mean != nullptr) mean[row] = center;
  rstd[row] = inverse;
}

template <typename T>
__global__ void backward(T* dx, const T* dy, const T* x, const T* w, const float* mean, const float* rstd,
                         const T* base, int64_t width) {
  const int64_t row = blockIdx.x, first = row * width;
  const float center = mean == nullptr ? 0.0f : mean[row], inverse = rstd[row];
  float sum = 0, product = 0;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    const float g = to_float(dy[first + c]) * to_float(w[c]);
    sum += g;
    product += g * ((to_float(x[first + c]) - center) * inverse);
  }
  const float mean_g = mean == nullptr ? 0.0f : block_reduce(sum, Sum()) / static_cast<float>(width);
  const float mean_product = block_reduce(product, Sum()) / static_cast<float>(width);
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    const float g = to_float(dy[first + c]) * to_float(w[c]);
    const float normal = (to_float(x[first + c]) - center) * inverse;
    const T gradient = from_float<T>(inverse * (g - mean_g - normal * mean_product));
    dx[first + c] =
        base == nullptr ? gradient : from_float<T>(to_float(base[first + c]) + to_float(gradient));
  }
}

// A thread for each column of each block of rows.
template <typename T>
__global__ void weight_partials(float* partials, const T* dy, const T* x, const float* mean,
                                const float* rstd, int64_t rows, int64_t width, int64_t n) {
  const int64_t i = element();
  if (i >= n) return;
  const int64_t first = i / width * kReduceRows, column = i % width;
  const int64_t last = first + kReduceRows < rows ? first + kReduceRows : rows;
  float sum = 0;
  for (int64_t row = first; row < last; ++row) {
    const float center = mean == nullptr ? 0.0f : mean[row];
    sum += to_float(dy[row * width + column]) * ((to_float(x[row * width + column]) - center) * rstd[row]);
  }
  partials[i] = sum;
}

}  // namespace

Error norm_forward(Stream stream, Dtype type, void* y, float* mean, float* rstd, const void* x, const void* w,
                   const void* b, int64_t rows, int64_t width, float eps) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, forward<T>, rows, kThreads, out<T>(y), mean, rstd, in<T>(x), in<T>(w), in<T>(b),
                  width, eps);
  });
}

Error norm_backward(Stream stream, Dtype type, void* dx, const void* dy, const void* x, const void* w,
                    const float* mean, const float* rstd, const void* base, int64_t rows, int64_t width) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, backward<T>, rows, kThreads, out<T>(dx), in<T>(dy), in<T>(x), in<T>(w), mean, rstd,
                  in<T>(base), width);
  });
}

Error norm_backward_weight(Stream stream, Dtype type, float* dw, float* partials, const void* dy,
                           const void* x, const float* mean, const float* rstd, int64_t rows, int64_t width) {
  const int64_t blocks = num_blocks(rows, kReduceRows);
  const Error error = with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, weight_partials<T>, blocks_of(blocks * width), kThreads, partials, in<T>(dy),
                  in<T>(x), mean, rstd, rows, width, blocks * width);
  });
  return error != nullptr ? error : add_partials(stream, dw, partials, blocks, width);
}

}  // namespace athanor::kernels::cuda
