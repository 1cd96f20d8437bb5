// The optimizer out of place and with checksums: the bits of the update in place, and of the checksum's definition.
#include <cstring>

#include "kernels/kernel_test.h"

namespace athanor::tests::optimizer_destination_test {
namespace {

using DestinationTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, DestinationTest,
                         testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
                         isa_test_name);

constexpr int64_t kBlock = 16384;  // floats in 64 KiB
// 3 x 4 bytes x this are more than the kernel keeps in the caches.
constexpr int64_t kLarge = 100 * kBlock + 33;
const std::vector<int64_t> kSizes = {0, 1, 3, 17, 64, 65, 127, kBlock, kBlock + 33, 3 * kBlock - 1};
constexpr Dtype kNoValue = Dtype::u8;
constexpr AdamwStep kAdamw{0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.01f, 0.5f};
constexpr SgdStep kSgd{0.05f, 0.9f, 0.25f};
constexpr uint64_t kUntouched = 0x5a5a5a5a5a5a5a5au;

// The definition in block_checksum.h, word by word.
std::vector<uint64_t> checksums_by_definition(const Tensor& x) {
  const auto* words = static_cast<const uint32_t*>(x.raw());
  const auto count = static_cast<uint64_t>(x.numel());
  std::vector<uint64_t> all;
  for (uint64_t first = 0; first < count; first += kBlock) {
    const uint64_t in_block = std::min<uint64_t>(kBlock, count - first);
    const uint64_t a[4] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu,
                           0xd6e8feb86659fd93u};
    const uint64_t numbers = (4 * in_block + 63) / 64 * 8;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < in_block; ++i) {
      const uint64_t k = i / 2, weight = a[k % 4] + 2 * (numbers / 4 - k / 4), word = words[first + i];
      sum += weight * (i % 2 == 0 ? word : (word << 32) + word);
    }
    const auto mix = [](uint64_t z) {
      z ^= z >> 30;
      z *= 0xbf58476d1ce4e5b9u;
      z ^= z >> 27;
      z *= 0x94d049bb133111ebu;
      z ^= z >> 31;
      return z;
    };
    const uint64_t index = first / kBlock;
    all.push_back(mix(mix(sum + (index + 1) * a[0]) ^ (4 * in_block)));
  }
  return all;
}

struct Checksums {
  explicit Checksums(int64_t n) : values(static_cast<size_t>((n + kBlock - 1) / kBlock) + 1, kUntouched) {}
  void expect_of(const Tensor& x) const {
    std::vector<uint64_t> expected = checksums_by_definition(x);
    expected.push_back(kUntouched);
    EXPECT_EQ(values, expected);
  }
  std::vector<uint64_t> values;
};

bool same_bits(const Tensor& x, const Tensor& y) {
  return x.numel() == 0 || std::memcmp(x.raw(), y.raw(), x.size_bytes()) == 0;
}

// The operands of one update, twice: one to be updated in place, and one whose results go elsewhere.
struct Operands {
  // `aligned`: results lie at multiples of 64 bytes, else beside them and between guards.
  Operands(Bench& bench, int64_t n, Dtype dtype, bool aligned) {
    const Shape shape{n};
    const auto fresh = [&](const Values& values) {
      if (!aligned) return bench.output(values, shape, Dtype::f32);
      Tensor x = empty(bench.arena(), shape, Dtype::f32, Category::activations);
      for (size_t i = 0; i < values.size(); ++i) x.data<float>()[i] = static_cast<float>(values[i]);
      return x;
    };
    const Values at_start = random_values(n, Dtype::f32, 1), means = random_values(n, Dtype::f32, 2);
    Values squares = random_values(n, Dtype::f32, 3);
    for (double& x : squares) x = round_to(x * x, Dtype::f32);
    const Values none(static_cast<size_t>(n), 7);
    master = fresh(at_start), m = fresh(means), v = fresh(squares);
    kept_master = fresh(at_start), kept_m = fresh(means), kept_v = fresh(squares);
    to_master = fresh(none), to_m = fresh(none), to_v = fresh(none);
    grad = bench.input(random_values(n, Dtype::f32, 4), shape, Dtype::f32);
    if (dtype != kNoValue) {
      value = bench.output(shape, dtype);
      value_elsewhere = bench.output(shape, dtype);
    }
  }
  void expect_equal(bool with_v) const {
    EXPECT_TRUE(same_bits(master, to_master));
    EXPECT_TRUE(same_bits(m, to_m));
    EXPECT_TRUE(!with_v || same_bits(v, to_v));
    EXPECT_TRUE(!value.defined() || same_bits(value, value_elsewhere));
  }
  Tensor master, m, v, kept_master, kept_m, kept_v, to_master, to_m, to_v, grad, value, value_elsewhere;
};

void expect_adamw_elsewhere(Bench& bench, int64_t n, Dtype dtype, bool aligned) {
  Operands x(bench, n, dtype, aligned);
  const AdamwTensors in_place{x.master, x.m, x.v, x.value, x.grad, 0.1f};
  bench.kernels().optimizer.adamw(bench.queue(), {&in_place, 1}, kAdamw);
  Checksums master(n), m(n), v(n);
  const AdamwTensors elsewhere{.master = x.kept_master,
                               .m = x.kept_m,
                               .v = x.kept_v,
                               .value = x.value_elsewhere,
                               .grad = x.grad,
                               .weight_decay = 0.1f,
                               .to_master = {x.to_master, master.values.data()},
                               .to_m = {x.to_m, m.values.data()},
                               .to_v = {x.to_v, v.values.data()}};
  const Operands before(bench, n, dtype, aligned);
  bench.kernels().optimizer.adamw(bench.queue(), {&elsewhere, 1}, kAdamw);
  x.expect_equal(true);
  EXPECT_TRUE(same_bits(x.kept_master, before.master) && same_bits(x.kept_m, before.m) &&
              same_bits(x.kept_v, before.v))
      << "an operand was written";
  master.expect_of(x.master);
  m.expect_of(x.m);
  v.expect_of(x.v);
}

void expect_sgd_elsewhere(Bench& bench, int64_t n, Dtype dtype, bool aligned) {
  Operands x(bench, n, dtype, aligned);
  const SgdTensors in_place{x.master, x.m, x.value, x.grad, 0.1f};
  bench.kernels().optimizer.sgd(bench.queue(), {&in_place, 1}, kSgd);
  Checksums master(n), m(n);
  const SgdTensors elsewhere{.master = x.kept_master,
                             .m = x.kept_m,
                             .value = x.value_elsewhere,
                             .grad = x.grad,
                             .weight_decay = 0.1f,
                             .to_master = {x.to_master, master.values.data()},
                             .to_m = {x.to_m, m.values.data()}};
  const Operands before(bench, n, dtype, aligned);
  bench.kernels().optimizer.sgd(bench.queue(), {&elsewhere, 1}, kSgd);
  x.expect_equal(false);
  EXPECT_TRUE(same_bits(x.kept_master, before.master) && same_bits(x.kept_m, before.m))
      << "an operand was written";
  master.expect_of(x.master);
  m.expect_of(x.m);
}

TEST_P(DestinationTest, ElsewhereIsAsInPlaceBitForBit) {
  for (const Dtype dtype : {kNoValue, Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const int64_t n : kSizes) {
      if (n >= kBlock && dtype != Dtype::bf16) continue;  // of large ones a single kind
      for (const bool aligned : {false, true}) {
        SCOPED_TRACE(fmt::format("value {} n {} aligned {}", name_of(dtype), n, aligned));
        run(GetParam(), [&](Bench& bench) {
          expect_adamw_elsewhere(bench, n, dtype, aligned);
          expect_sgd_elsewhere(bench, n, dtype, aligned);
          return std::vector<Tensor>();
        });
      }
    }
}

TEST_P(DestinationTest, LargeResultsPastTheCachesAreTheSame) {
  Bench bench(GetParam(), 3);
  for (const bool aligned : {false, true}) {
    SCOPED_TRACE(fmt::format("aligned {}", aligned));
    expect_adamw_elsewhere(bench, kLarge, Dtype::bf16, aligned);
    expect_sgd_elsewhere(bench, 2 * kLarge, Dtype::f32, aligned);
  }
}

// Checksums in place, one destination of three, several parameters of one call.
TEST_P(DestinationTest, EachDestinationIsItsOwn) {
  run(GetParam(), [&](Bench& bench) {
    const int64_t n = kBlock + 50;
    Operands x(bench, n, kNoValue, true), y(bench, 70, kNoValue, true), expected(bench, n, kNoValue, true);
    Checksums master(n), m(n), v(70);
    std::vector<AdamwTensors> all = {{x.master, x.m, x.v, {}, x.grad, 0.1f},
                                     {y.master, y.m, y.v, {}, y.grad, 0.2f}};
    all[0].to_master = {{}, master.values.data()};
    all[0].to_m = {x.to_m, m.values.data()};
    all[1].to_v = {y.to_v, v.values.data()};
    bench.kernels().optimizer.adamw(bench.queue(), all, kAdamw);
    const AdamwTensors in_place{expected.master, expected.m, expected.v, {}, expected.grad, 0.1f};
    bench.kernels().optimizer.adamw(bench.queue(), {&in_place, 1}, kAdamw);
    EXPECT_TRUE(same_bits(x.master, expected.master) && same_bits(x.to_m, expected.m) &&
                same_bits(x.v, expected.v));
    EXPECT_TRUE(same_bits(x.m, x.kept_m));
    EXPECT_TRUE(same_bits(y.v, y.kept_v));
    EXPECT_FALSE(same_bits(y.m, y.kept_m));
    master.expect_of(x.master);
    m.expect_of(x.to_m);
    v.expect_of(y.to_v);
    return std::vector<Tensor>();
  });
}

TEST(DestinationContract, AWrongShapeIsAnErrorByName) {
  Bench bench(Isa::generic, 1);
  Operands x(bench, 4, kNoValue, true), longer(bench, 5, kNoValue, true);
  AdamwTensors of_adamw{x.master, x.m, x.v, {}, x.grad, 0};
  of_adamw.to_v = {longer.to_v, nullptr};
  EXPECT_EQ(error_of([&] {
              bench.kernels().optimizer.adamw(bench.queue(), {&of_adamw, 1}, kAdamw);
            }),
            "optimizer.adamw: to_v is f32 [5], expected f32 [4]");
  SgdTensors of_sgd{x.master, x.m, {}, x.grad, 0};
  of_sgd.to_master = {bench.output({4}, Dtype::bf16), nullptr};
  EXPECT_EQ(error_of([&] {
              bench.kernels().optimizer.sgd(bench.queue(), {&of_sgd, 1}, kSgd);
            }),
            "optimizer.sgd: to_master is bf16 [4], expected f32 [4]");
}

}  // namespace
}  // namespace athanor::tests::optimizer_destination_test
