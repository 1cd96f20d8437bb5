// Sums, conversions and norms of whole tensors (kernels/elementwise.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"

namespace athanor::kernels::cuda {
namespace {

template <typename T>
__global__ void add_elements(T* y, const T* a, const T* b, int64_t n) {
  const int64_t i = element();
  if (i < n) y[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
}

template <typename T>
__global__ void add_row_to_all(float* y, const T* row, int64_t n, int64_t width) {
  const int64_t i = element();
  if (i < n) y[i] += to_float(row[i % width]);
}

__global__ void accumulate_elements(float* y, const float* x, int64_t n) {
  const int64_t i = element();
  if (i < n) y[i] += x[i];
}

__global__ void scale_elements(float* x, float factor, int64_t n) {
  const int64_t i = element();
  if (i < n) x[i] *= factor;
}

template <typename To, typename From>
__global__ void cast_elements(To* y, const From* x, int64_t n) {
  const int64_t i = element();
  if (i < n) y[i] = from_float<To>(to_float(x[i]));
}

// A block of kThreads elements each: that is kNormBlock.
__global__ void square_sums(double* sums, const float* x, int64_t n) {
  const int64_t i = element();
  const double value = i < n ? static_cast<double>(x[i]) : 0.0;
  const double sum = block_reduce(value * value, Sum());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block takes 2 kThreads leaves and forms their node of the binary tree of comm/tree.h: neighbours are added
// level by level, and what has no right neighbour goes up as it is.
__global__ void tree_sums(double* sums, const double* leaves, int64_t n) {
  __shared__ double nodes[2 * kThreads];
  const int64_t first = int64_t{blockIdx.x} * 2 * kThreads;
  int64_t count = n - first < 2 * kThreads ? n - first : 2 * kThreads;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) nodes[i] = leaves[first + i];
  __syncthreads();
  for (; count > 1; count = (count + 1) / 2) {
    const int64_t left = 2 * int64_t{threadIdx.x};
    double node = 0;
    if (left < count) node = left + 1 < count ? nodes[left] + nodes[left + 1] : nodes[left];
    __syncthreads();
    if (left < count) nodes[threadIdx.x] = node;
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = nodes[0];
}

// What a sum of T is formed in.
template <typename T>
struct Wide {
  static __device__ float from(T x) { return to_float(x); }
  static __device__ T to(float sum) { return from_float<T>(sum); }
};
template <>
struct Wide<double> {
  static __device__ double from(double x) { return x; }
  static __device__ double to(double sum) { return sum; }
};
template <>
struct Wide<int64_t> {  // modulo 2^64
  static __device__ uint64_t from(int64_t x) { return static_cast<uint64_t>(x); }
  static __device__ int64_t to(uint64_t sum) { return static_cast<int64_t>(sum); }
};

template <typename T>
__global__ void sum_of_rows(T* out, const T* in, int64_t rows, int64_t count) {
  const int64_t i = element();
  if (i >= count) return;
  auto sum = Wide<T>::from(in[i]);
  for (int64_t r = 1; r < rows; ++r) sum += Wide<T>::from(in[r * count + i]);
  out[i] = Wide<T>::to(sum);
}

}  // namespace

Error add(Stream stream, Dtype type, void* y, const void* a, const void* b, int64_t n) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, add_elements<T>, blocks_of(n), kThreads, out<T>(y), in<T>(a), in<T>(b), n);
  });
}

Error add_row(Stream stream, Dtype type, float* y, const void* row, int64_t rows, int64_t width) {
  return with_type(type, [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, add_row_to_all<T>, blocks_of(rows * width), kThreads, y, in<T>(row), rows * width,
                  width);
  });
}

Error accumulate(Stream stream, float* y, const float* x, int64_t n) {
  return launch(stream, accumulate_elements, blocks_of(n), kThreads, y, x, n);
}

Error scale(Stream stream, float* x, float factor, int64_t n) {
  return launch(stream, scale_elements, blocks_of(n), kThreads, x, factor, n);
}

Error cast(Stream stream, Dtype to, void* y, Dtype from, const void* x, int64_t n) {
  return with_type(to, [=](auto to_zero) {
    using To = decltype(to_zero);
    return with_type(from, [=](auto from_zero) {
      using From = decltype(from_zero);
      return launch(stream, cast_elements<To, From>, blocks_of(n), kThreads, out<To>(y), in<From>(x), n);
    });
  });
}

Error sum_squares(Stream stream, double* partials, const float* x, int64_t n) {
  const int64_t blocks = blocks_of(n);
  double *from = partials, *to = partials + blocks;
  if (Error error = launch(stream, square_sums, blocks, kThreads, from, x, n)) return error;
  for (int64_t left = blocks; left > 1; left = num_blocks(left, 2 * kThreads)) {
    if (Error error = launch(stream, tree_sums, num_blocks(left, 2 * kThreads), kThreads, to, from, left))
      return error;
    double* const written = to;
    to = from;
    from = written;
  }
  return from == partials ? nullptr : launch(stream, tree_sums, 1, kThreads, partials, from, int64_t{1});
}

Error sum_rows(Stream stream, Dtype type, void* sum, const void* rows, int64_t num_rows, int64_t count) {
  const auto of_type = [=](auto zero) {
    using T = decltype(zero);
    return launch(stream, sum_of_rows<T>, blocks_of(count), kThreads, out<T>(sum), in<T>(rows), num_rows,
                  count);
  };
  if (type == Dtype::f64) return of_type(double{});
  if (type == Dtype::i64) return of_type(int64_t{});
  return with_type(type, of_type);
}

}  // namespace athanor::kernels::cuda
