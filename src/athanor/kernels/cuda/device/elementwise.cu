// Sums, conversions and norms of whole tensors (kernels/elementwise.h).
#include "athanor/kernels/cuda/device/kernels.h"
#include "athanor/kernels/cuda/device/launch.cuh"
#include "athanor/kernels/elementwise.h"

namespace athanor::kernels::cuda {
namespace {

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};

template <typename T>
__global__ void add_row_to_all(float* y, const T* row, int64_t n, int64_t width) {
  const int64_t i = element();
  if (i < n) y[i] += to_float(row[i % width]);
}

// The last part that begins at or before `place`.
template <typename Part>
__device__ const Part& part_at(const Part* parts, int64_t count, int64_t place) {
  int64_t low = 0, high = count;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (parts[middle].first <= place ? low : high) = middle;
  }
  return parts[low];
}

// A warp for each kNormBlock elements, eight of them a lane.
__global__ void sums_of_leaves(double* sums, const CudaSquares* parts, int64_t num_parts, int64_t leaves) {
  constexpr int kEach = 8;
  static_assert(kEach * kLanes == kNormBlock);
  const int64_t leaf = int64_t{blockIdx.x} * kWarps + threadIdx.x / kLanes;
  double sum = 0;
  if (leaf < leaves) {
    const CudaSquares part = part_at(parts, num_parts, leaf);
    const int64_t first = (leaf - part.first) * kNormBlock + threadIdx.x % kLanes * kEach;
    for (int64_t i = first; i < first + kEach; ++i) {
      const double value = i < part.n ? static_cast<double>(part.x[i]) : 0.0;
      sum += value * value;
    }
  }
  sum = warp_reduce(sum, Sum());
  if (leaf < leaves && threadIdx.x % kLanes == 0) sums[leaf] = sum;
}

// One block takes kCudaNodeLeaves nodes and forms the one above them: neighbours are added level by level, and what has
// no right neighbour goes up as it is.
__global__ void sums_of_nodes(double* sums, const double* below, const CudaNodes* parts, int64_t num_parts) {
  static_assert(kCudaNodeLeaves == 2 * kThreads);
  __shared__ double nodes[kCudaNodeLeaves];
  const CudaNodes part = part_at(parts, num_parts, blockIdx.x);
  const int64_t first = (blockIdx.x - part.first) * kCudaNodeLeaves;
  int64_t count = part.count - first < kCudaNodeLeaves ? part.count - first : kCudaNodeLeaves;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) nodes[i] = below[part.from + first + i];
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
    return map(stream, out<T>(y), Plus(), n, in<T>(a), in<T>(b));
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
  return map(stream, y, Plus(), n, in<float>(y), x);
}

Error scale(Stream stream, float* x, float factor, int64_t n) {
  return map(stream, x, Times{factor}, n, in<float>(x));
}

Error cast(Stream stream, Dtype to, void* y, Dtype from, const void* x, int64_t n) {
  return with_type(to, [=](auto to_zero) {
    using To = decltype(to_zero);
    return with_type(from, [=](auto from_zero) {
      using From = decltype(from_zero);
      return map(stream, out<To>(y), Same(), n, in<From>(x));
    });
  });
}

Error square_sums(Stream stream, double* leaves, const CudaSquares* parts, int64_t num_parts,
                  int64_t num_leaves) {
  return launch(stream, sums_of_leaves, num_blocks(num_leaves, kWarps), kThreads, leaves, parts, num_parts,
                num_leaves);
}

Error tree_sums(Stream stream, double* to, const double* from, const CudaNodes* parts, int64_t num_parts,
                int64_t num_nodes) {
  return launch(stream, sums_of_nodes, num_nodes, kThreads, to, from, parts, num_parts);
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
