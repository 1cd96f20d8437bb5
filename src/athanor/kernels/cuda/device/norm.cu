// Layer and root-mean-square normalization (kernels/layer_norm.h, rms_norm.h): a warp for each row, in packs of kCount
// elements. Where `mean` is null the rows are not centred, which makes the one the other.
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"
#include "athanor/kernels/cuda/device/row_sums.cuh"

namespace athanor::kernels::cuda {
namespace {

// The row of this warp: behind the last one once more the last, so that all warps of a block meet; it writes nothing.
struct Row {
  int64_t index;
  bool is_own;
};
__device__ inline Row row_of_warp(int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kLanes;
  return {row < rows ? row : rows - 1, row < rows};
}

// call(first) for the packs of a row that this lane has.
template <int kCount, typename Call>
__device__ void for_packs(int64_t width, const Call& call) {
  for (int64_t first = int64_t{threadIdx.x % kLanes} * kCount; first < width; first += kLanes * kCount)
    call(first);
}

template <int kCount, typename T>
__global__ void forward(T* y, float* mean, float* rstd, const T* x, const T* w, const T* b, int64_t rows,
                        int64_t width, float eps) {
  const Row row = row_of_warp(rows);
  const T* from = x + row.index * width;
  float center = 0;
  if (mean != nullptr) {
    float sum = 0;
    for_packs<kCount>(width, [&](int64_t c) {
      const auto pack = pack_at<kCount>(from + c);
      for (int i = 0; i < kCount; ++i) sum += to_float(pack.at[i]);
    });
    center = warp_reduce(sum, Sum()) / static_cast<float>(width);
  }
  // A second pass over the row: the difference of mean(x^2) and mean(x)^2 would cancel.
  float squares = 0;
  for_packs<kCount>(width, [&](int64_t c) {
    const auto pack = pack_at<kCount>(from + c);
    for (int i = 0; i < kCount; ++i) {
      const float d = to_float(pack.at[i]) - center;
      squares += d * d;
    }
  });
  const float inverse = 1 / sqrtf(warp_reduce(squares, Sum()) / static_cast<float>(width) + eps);
  if (!row.is_own) return;
  for_packs<kCount>(width, [&](int64_t c) {
    const auto values = pack_at<kCount>(from + c), weights = pack_at<kCount>(w + c);
    Pack<T, kCount> biases{}, result;
    if (b != nullptr) biases = pack_at<kCount>(b + c);
    for (int i = 0; i < kCount; ++i)
      result.at[i] = from_float<T>((to_float(values.at[i]) - center) * inverse * to_float(weights.at[i]) +
                                   (b == nullptr ? 0.0f : to_float(biases.at[i])));
    set_pack<kCount>(y + row.index * width + c, result);
  });
  if (threadIdx.x % kLanes != 0) return;
  if (mean != nullptr) mean[row.index] = center;
  rstd[row.index] = inverse;
}

template <int kCount, typename T>
__global__ void backward(T* dx, const T* dy, const T* x, const T* w, const float* mean, const float* rstd,
                         const T* base, int64_t rows, int64_t width) {
  const Row row = row_of_warp(rows);
  const int64_t first = row.index * width;
  const float center = mean == nullptr ? 0.0f : mean[row.index], inverse = rstd[row.index];
  float sum = 0, product = 0;
  for_packs<kCount>(width, [&](int64_t c) {
    const auto dys = pack_at<kCount>(dy + first + c), xs = pack_at<kCount>(x + first + c),
               ws = pack_at<kCount>(w + c);
    for (int i = 0; i < kCount; ++i) {
      const float g = to_float(dys.at[i]) * to_float(ws.at[i]);
      sum += g;
      product += g * ((to_float(xs.at[i]) - center) * inverse);
    }
  });
  const float mean_g = mean == nullptr ? 0.0f : warp_reduce(sum, Sum()) / static_cast<float>(width);
  const float mean_product = warp_reduce(product, Sum()) / static_cast<float>(width);
  if (!row.is_own) return;
  for_packs<kCount>(width, [&](int64_t c) {
    const auto dys = pack_at<kCount>(dy + first + c), xs = pack_at<kCount>(x + first + c),
               ws = pack_at<kCount>(w + c);
    Pack<T, kCount> bases{}, result;
    if (base != nullptr) bases = pack_at<kCount>(base + first + c);
    for (int i = 0; i < kCount; ++i) {
      const float g = to_float(dys.at[i]) * to_float(ws.at[i]);
      const float normal = (to_float(xs.at[i]) - center) * inverse;
      const T gradient = from_float<T>(inverse * (g - mean_g - normal * mean_product));
      result.at[i] = base == nullptr ? gradient : from_float<T>(to_float(bases.at[i]) + to_float(gradient));
    }
    set_pack<kCount>(dx + first + c, result);
  });
}

// What a row adds to the gradient of the weights.
template <typename T>
struct WeightTerm {
  const T *dy, *x;
  const float *mean, *rstd;
  template <int kCount>
  __device__ void add(float* sums, int64_t row, int64_t at) const {
    const float center = mean == nullptr ? 0.0f : mean[row], inverse = rstd[row];
    const auto dys = pack_at<kCount>(dy + at), xs = pack_at<kCount>(x + at);
    for (int i = 0; i < kCount; ++i)
      sums[i] += to_float(dys.at[i]) * ((to_float(xs.at[i]) - center) * inverse);
  }
};

}  // namespace

Error norm_forward(Stream stream, Dtype type, void* y, float* mean, float* rstd, const void* x, const void* w,
                   const void* b, int64_t rows, int64_t width, float eps) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel) {
      return launch(stream, kernel, num_blocks(rows, kWarps), kThreads, out<T>(y), mean, rstd, in<T>(x),
                    in<T>(w), in<T>(b), rows, width, eps);
    };
    constexpr int kCount = kPackOf<T>;
    return has_packs(kCount, width, in<T>(y), in<T>(x), in<T>(w), in<T>(b)) ? run(forward<kCount, T>)
                                                                            : run(forward<1, T>);
  });
}

Error norm_backward(Stream stream, Dtype type, void* dx, const void* dy, const void* x, const void* w,
                    const float* mean, const float* rstd, const void* base, int64_t rows, int64_t width) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel) {
      return launch(stream, kernel, num_blocks(rows, kWarps), kThreads, out<T>(dx), in<T>(dy), in<T>(x),
                    in<T>(w), mean, rstd, in<T>(base), rows, width);
    };
    constexpr int kCount = kPackOf<T>;
    return has_packs(kCount, width, in<T>(dx), in<T>(dy), in<T>(x), in<T>(w), in<T>(base))
               ? run(backward<kCount, T>)
               : run(backward<1, T>);
  });
}

Error norm_backward_weight(Stream stream, Dtype type, float* dw, float* partials, const void* dy,
                           const void* x, const float* mean, const float* rstd, int64_t rows, int64_t width) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return add_row_sums<kPackOf<T>>(stream, dw, partials, has_packs(kPackOf<T>, width, in<T>(dy), in<T>(x)),
                                    WeightTerm<T>{in<T>(dy), in<T>(x), mean, rstd}, rows, width);
  });
}

}  // namespace athanor::kernels::cuda
