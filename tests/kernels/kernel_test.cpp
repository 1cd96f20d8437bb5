#include "kernels/kernel_test.h"

#include <cmath>
#include <limits>

#include "athanor/base/philox.h"

namespace athanor::tests {
namespace {

constexpr uint64_t kGuardBytes = 128;

template <typename T>
void store_as(Tensor& to, const Values& values) {
  std::vector<T> data(values.size());
  for (size_t i = 0; i < values.size(); ++i) data[i] = from_float<T>(static_cast<float>(values[i]));
  copy_from_host(to, data.data(), to.size_bytes());
}

void store(Tensor& to, const Values& values) {
  check(static_cast<int64_t>(values.size()) == to.numel(), "test: got {} values for {}", values.size(),
        to.shape());
  switch (to.dtype()) {
    case Dtype::f32:
      return store_as<float>(to, values);
    case Dtype::bf16:
      return store_as<Bf16>(to, values);
    case Dtype::f16:
      return store_as<F16>(to, values);
    default:
      fail("test: no values of {}", name_of(to.dtype()));
  }
}

template <typename T>
std::vector<T> host_copy(const Tensor& x) {
  std::vector<T> data(x.size_bytes() / sizeof(T));
  copy_to_host(data.data(), x, x.size_bytes());
  return data;
}

template <typename T>
Values load_as(const Tensor& x) {
  Values values;
  for (const T value : host_copy<T>(x)) values.push_back(to_float(value));
  return values;
}

// All bytes of a storage.
Tensor bytes_of(const std::shared_ptr<Storage>& storage) {
  return {storage, 0, {static_cast<int64_t>(storage->size_bytes())}, Dtype::u8};
}

void fill_bytes(Tensor x, int value) {
  const std::vector<std::byte> bytes(x.size_bytes(), static_cast<std::byte>(value));
  copy_from_host(x, bytes.data(), bytes.size());
}

}  // namespace

double round_to(double value, Dtype dtype) {
  const auto f = static_cast<float>(value);
  return dtype == Dtype::bf16  ? to_float(from_float<Bf16>(f))
         : dtype == Dtype::f16 ? to_float(from_float<F16>(f))
                               : f;
}

Values random_values(int64_t n, Dtype dtype, uint64_t seed, double deviation) {
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = (seed << 40) + i;  // mixed as by splitmix64 (Steele et al., 2014); tests need it cheap
    bits = (bits + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    // The sum of four uniform numbers is nearly normal; its variance is 4 / 12.
    const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    values[i] = round_to(deviation * (static_cast<double>(sum) / 65535 - 2) * std::sqrt(3), dtype);
  }
  return values;
}

std::vector<int32_t> random_ids(int64_t n, int32_t end, uint64_t seed) {
  const RandomStream stream(seed, "ids");
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(
        static_cast<int32_t>(stream.word(static_cast<uint64_t>(i), 0) % static_cast<uint32_t>(end)));
  return ids;
}

Values values_of(const Tensor& x) {
  switch (x.dtype()) {
    case Dtype::f32:
      return load_as<float>(x);
    case Dtype::bf16:
      return load_as<Bf16>(x);
    case Dtype::f16:
      return load_as<F16>(x);
    case Dtype::i32: {
      const auto values = host_copy<int32_t>(x);
      return {values.begin(), values.end()};
    }
    case Dtype::u8: {
      const auto values = host_copy<uint8_t>(x);
      return {values.begin(), values.end()};
    }
    case Dtype::f64:
      return host_copy<double>(x);
    default:
      fail("test: no values of {}", name_of(x.dtype()));
  }
}

Bench::Bench(Isa isa, int threads)
    : pool_(threads), queue_(make_test_queue(&pool_, isa)), arena_(std::make_unique<Arena>(*queue_)) {
  // Memory fresh from the system is zero; that of a running program is not.
  fill_bytes(bytes_of(arena_->allocate(uint64_t{1} << 20, Category::workspace)), 0xff);
}

Tensor Bench::guarded(const Shape& shape, Dtype dtype, int fill) {
  // One element past a cache line: kernels get slices of tensors, so alignment is the element's alone.
  const uint64_t first = kGuardBytes + size_of(dtype);
  const uint64_t size_bytes = static_cast<uint64_t>(shape.numel()) * size_of(dtype);
  auto storage = arena_->allocate(first + size_bytes + kGuardBytes, Category::activations);
  fill_bytes(bytes_of(storage), fill);
  const Tensor x(storage, first, shape, dtype);
  fill_bytes({storage, first, {static_cast<int64_t>(size_bytes)}, Dtype::u8},
             0xff);  // NaN in every element type
  guarded_.push_back({storage, first, size_bytes, fill});
  return x;
}

Tensor Bench::input(const Values& values, const Shape& shape, Dtype dtype) {
  Tensor x = guarded(shape, dtype, 0xff);
  store(x, values);
  return x;
}

Tensor Bench::ids(const std::vector<int32_t>& values, const Shape& shape) {
  check(static_cast<int64_t>(values.size()) == shape.numel(), "test: got {} ids for {}", values.size(),
        shape);
  Tensor x = guarded(shape, Dtype::i32, 0x7f);
  copy_from_host(x, values.data(), values.size() * sizeof(int32_t));
  return x;
}

Tensor Bench::output(const Shape& shape, Dtype dtype) {
  return guarded(shape, dtype, 0xa5);
}

Tensor Bench::output(const Values& values, const Shape& shape, Dtype dtype) {
  Tensor x = guarded(shape, dtype, 0xa5);
  store(x, values);
  return x;
}

void Bench::expect_guards_intact() const {
  for (const Guarded& guarded : guarded_) {
    const auto bytes = host_copy<uint8_t>(bytes_of(guarded.storage));
    for (uint64_t i = 0; i < bytes.size(); ++i) {
      if (i >= guarded.first && i < guarded.first + guarded.size_bytes) continue;
      ASSERT_EQ(static_cast<int>(bytes[i]), guarded.fill)
          << "written at byte " << static_cast<int64_t>(i - guarded.first) << " of a tensor of "
          << guarded.size_bytes << " bytes";
    }
  }
}

std::vector<Values> run(Isa isa, const std::function<std::vector<Tensor>(Bench&)>& body) {
  std::vector<Values> results;
  std::vector<std::vector<uint8_t>> bits;
  for (const int threads : {1, 2, 3}) {
    Bench bench(isa, threads);
    const std::vector<Tensor> tensors = body(bench);
    bench.expect_guards_intact();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (threads == 1) {
        results.push_back(values_of(tensors[i]));
        bits.push_back(host_copy<uint8_t>(tensors[i]));
      } else {
        EXPECT_TRUE(bits[i] == host_copy<uint8_t>(tensors[i]))
            << "result " << i << " differs with " << threads << " threads";
      }
    }
  }
  return results;
}

void fill(Tensor& x, float value) {
  const std::vector<float> values(static_cast<size_t>(x.numel()), value);
  copy_from_host(x, values.data(), x.size_bytes());
}

double tolerance(Dtype dtype) {
  return dtype == Dtype::bf16 ? 4e-3 : dtype == Dtype::f16 ? 5e-4 : 2e-6;
}

void expect_close(const Values& got, const Values& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(expected[i])) << "at " << i;
    ASSERT_TRUE(std::isfinite(got[i])) << got[i] << " at " << i << ", expected " << expected[i];
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(size) + std::numeric_limits<float>::min());
  const double mean_size = std::sqrt(size / static_cast<double>(std::max<size_t>(1, got.size())));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 10 * tolerance * std::max(mean_size, std::abs(expected[i])) + 1e-38)
        << "at " << i << " of " << got.size();
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace athanor::tests
