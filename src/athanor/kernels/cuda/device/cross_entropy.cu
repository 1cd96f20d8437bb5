// Softmax cross-entropy of rows of logits (kernels/cross_entropy.h): a block of threads for each row. A target that is
// out of range is noted, and its row ignored.
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

constexpr float kLowest = -3.4028235e38f;  // not -inf: the difference of two would be NaN

struct Normalizer {
  float largest, sum;
};

// One pass over the row: the sum shrinks where a larger logit comes. Rows begin where packs of kCount may.
template <int kCount>
__device__ Normalizer normalize(const float* logits, int64_t classes) {
  float largest = kLowest, sum = 0;
  for (int64_t first = int64_t{threadIdx.x} * kCount; first < classes; first += kCount * kThreads) {
    const bool is_whole = first + kCount <= classes;
    Pack<float, kCount> values;
    if (is_whole) values = pack_at<kCount>(logits + first);
    float top = largest;
    for (int i = 0; i < kCount; ++i) {
      if (!is_whole) values.at[i] = first + i < classes ? logits[first + i] : -INFINITY;
      top = Largest()(top, values.at[i]);
    }
    sum *= expf(largest - top);
    for (int i = 0; i < kCount; ++i) sum += expf(values.at[i] - top);
    largest = top;
  }
  const float top = block_reduce(largest, Largest());
  return {top, block_reduce(sum * expf(largest - top), Sum())};
}

// Zeros where the row is ignored. dlogits may be the logits: each element is read and written by one thread.
template <int kCount, typename T>
__device__ void write_gradient(T* dlogits, const float* logits, Normalizer norm, int64_t column, bool ignored,
                               int64_t classes, int64_t width, float scale) {
  const float share = scale / norm.sum;
  for (int64_t first = int64_t{threadIdx.x} * kCount; first < width; first += kCount * kThreads) {
    const auto values = pack_at<kCount>(logits + first);
    Pack<T, kCount> gradients;
    for (int i = 0; i < kCount; ++i) {
      const int64_t c = first + i;
      float gradient = 0;
      if (!ignored && c < classes)
        gradient = share * expf(values.at[i] - norm.largest) - (c == column ? scale : 0.0f);
      gradients.at[i] = from_float<T>(gradient);
    }
    set_pack<kCount>(dlogits + first, gradients);
  }
}

// The row's target, -1 where it is ignored.
__device__ inline int32_t target_of(const int32_t* targets, int64_t row, int64_t classes, CudaFault* fault) {
  const int32_t target = targets[row];
  if (target < classes) return target < 0 ? -1 : target;
  if (threadIdx.x == 0) note(fault, CudaFault::target, target, row, classes);
  return -1;
}

template <int kCount, typename T>
__global__ void loss_rows(float* loss, T* dlogits, const float* logits, const int32_t* targets, int64_t width,
                          int64_t classes, float scale, CudaFault* fault) {
  const int64_t row = blockIdx.x;
  const float* from = logits + row * width;
  const int32_t target = target_of(targets, row, classes, fault);
  const Normalizer norm = normalize<kCount>(from, classes);
  if (threadIdx.x == 0) loss[row] = target < 0 ? 0.0f : logf(norm.sum) + (norm.largest - from[target]);
  __syncthreads();  // before the logits are overwritten
  if (dlogits != nullptr)
    write_gradient<kCount>(dlogits + row * width, from, norm, target, target < 0, classes, width, scale);
}

template <int kCount>
__global__ void statistics_rows(float* statistics, const float* logits, const int32_t* targets, int64_t width,
                                int64_t first, int64_t classes, int64_t total, CudaFault* fault) {
  const int64_t row = blockIdx.x;
  const float* from = logits + row * width;
  const int64_t column = target_of(targets, row, total, fault) - first;
  const bool is_here = targets[row] >= 0 && column >= 0 && column < classes;
  const Normalizer norm = normalize<kCount>(from, classes);
  if (threadIdx.x != 0) return;
  statistics[3 * row] = norm.largest;
  statistics[3 * row + 1] = norm.sum;
  statistics[3 * row + 2] = is_here ? from[column] : 0.0f;
}

template <int kCount, typename T>
__global__ void gradient_rows(T* dlogits, const float* logits, const float* statistics,
                              const int32_t* targets, int64_t width, int64_t first, int64_t classes,
                              int64_t total, float scale, CudaFault* fault) {
  const int64_t row = blockIdx.x;
  const int32_t target = target_of(targets, row, total, fault);
  write_gradient<kCount>(dlogits + row * width, logits + row * width,
                         {statistics[3 * row], statistics[3 * row + 1]}, target - first, target < 0, classes,
                         width, scale);
}

constexpr int kPack = 4;

}  // namespace

Error cross_entropy_rows(Stream stream, Dtype type, float* loss, void* dlogits, const float* logits,
                         const int32_t* targets, int64_t rows, int64_t width, int64_t classes, float scale) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel) {
      return launch(stream, kernel, rows, kThreads, loss, out<T>(dlogits), logits, targets, width, classes,
                    scale, fault_of(stream));
    };
    return has_packs(kPack, width, in<T>(dlogits), logits) ? run(loss_rows<kPack, T>) : run(loss_rows<1, T>);
  });
}

Error cross_entropy_statistics(Stream stream, float* statistics, const float* logits, const int32_t* targets,
                               int64_t rows, int64_t width, int64_t first, int64_t classes, int64_t total) {
  const auto run = [&](auto kernel) {
    return launch(stream, kernel, rows, kThreads, statistics, logits, targets, width, first, classes, total,
                  fault_of(stream));
  };
  return has_packs(kPack, width, logits) ? run(statistics_rows<kPack>) : run(statistics_rows<1>);
}

Error cross_entropy_gradient(Stream stream, Dtype type, void* dlogits, const float* logits,
                             const float* statistics, const int32_t* targets, int64_t rows, int64_t width,
                             int64_t first, int64_t classes, int64_t total, float scale) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel) {
      return launch(stream, kernel, rows, kThreads, out<T>(dlogits), logits, statistics, targets, width,
                    first, classes, total, scale, fault_of(stream));
    };
    return has_packs(kPack, width, in<T>(dlogits), logits) ? run(gradient_rows<kPack, T>)
                                                           : run(gradient_rows<1, T>);
  });
}

}  // namespace athanor::kernels::cuda
