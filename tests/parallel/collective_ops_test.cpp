// Every collective's gradient against central differences, over all ranks at once, and what its values are.
#include "athanor/parallel/tensor/collective_ops.h"

#include <gtest/gtest.h>

#include <cmath>

#include "athanor/comm/shm/thread.h"
#include "support/engine.h"

namespace athanor::tests::collective_ops_test {
namespace {

constexpr int64_t kSequences = 2, kLength = 5, kWidth = 3;  // ten tokens: uneven for three and four ranks
const Shape kWhole{kSequences, kLength, kWidth};

using Operation = Var (*)(const Var&, Group&);

// Who holds what before and after, as the header's table says.
enum class Held { whole, addends, partitioned, own };
struct CollectiveCase {
  const char* name;
  Operation operation;
  Held before, after, gradient_after;
};
const CollectiveCase kCases[] = {
    {"copy_to", copy_to, Held::whole, Held::whole, Held::addends},
    {"reduce_from", reduce_from, Held::addends, Held::whole, Held::whole},
    {"gather_to_partial", gather_to_partial, Held::partitioned, Held::whole, Held::addends},
    {"reduce_scatter", reduce_scatter, Held::addends, Held::partitioned, Held::partitioned},
    {"scatter_to", scatter_to, Held::whole, Held::partitioned, Held::partitioned},
    {"gather_to_whole", gather_to_whole, Held::partitioned, Held::whole, Held::whole},
    {"drop_padding", drop_padding, Held::partitioned, Held::own, Held::own},
    {"add_padding", add_padding, Held::own, Held::partitioned, Held::partitioned},
};

PassContext pass(bool record) {
  return {.num_sequences = kSequences, .seq_len = kLength, .record = record};
}

// All ranks' values: [rank][element].
using Values = std::vector<std::vector<double>>;

Values make_values(int ranks, Held held, const std::string& name) {
  const auto rows = static_cast<size_t>(kSequences * kLength);
  const size_t part = static_cast<size_t>(partitioned_rows(kSequences * kLength, ranks)) * kWidth;
  Values values(static_cast<size_t>(ranks));
  for (size_t r = 0; r < values.size(); ++r) {
    const int64_t own = own_rows(kSequences * kLength, static_cast<int>(r), ranks).count();
    const size_t count = held == Held::partitioned ? part
                         : held == Held::own       ? static_cast<size_t>(own * kWidth)
                                                   : rows * kWidth;
    values[r].assign(count, 0.0);
    for (size_t i = 0; i < count; ++i) {
      const bool is_padding = held == Held::partitioned && r * part + i >= rows * kWidth;
      const RandomStream stream(3, name + (held == Held::whole ? "" : std::to_string(r)));
      if (!is_padding) values[r][i] = static_cast<double>(stream.uniform(i, 0)) - 0.5;
    }
  }
  return values;
}

Tensor tensor_of(Engine& engine, const std::vector<double>& values, Dtype dtype = Dtype::f32) {
  const auto count = static_cast<int64_t>(values.size());
  const Shape shape = count == kWhole.numel() ? kWhole : Shape{count / kWidth, kWidth};
  Tensor wide = empty(engine.arena, shape, Dtype::f32, Category::activations);
  for (size_t i = 0; i < values.size(); ++i) wide.data<float>()[i] = static_cast<float>(values[i]);
  if (dtype == Dtype::f32) return wide;
  Tensor narrow = empty(engine.arena, shape, dtype, Category::activations);
  kernels_of(wide).elementwise.cast(*engine.queue, narrow, wide);
  return narrow;
}

std::vector<double> doubles(const Tensor& x) {
  const auto floats = to_floats(x);
  return {floats.begin(), floats.end()};
}

struct Result {
  Values outputs, gradients;
};

// On every rank: y = operation(x), and the gradient of x from dy.
Result run_collective(const CollectiveCase& c, const Values& x, const Values& dy, Dtype dtype = Dtype::f32) {
  const auto groups = make_thread_groups(static_cast<int>(x.size()));
  Result result{Values(x.size()), Values(x.size())};
  run_ranks(groups, [&](Group& group) {
    const auto rank = static_cast<size_t>(group.rank());
    Engine engine;
    Tape tape(pass(true));
    const Var input = tape.leaf(tensor_of(engine, x[rank], dtype));
    const auto before = doubles(input.value);
    const Var y = c.operation(input, group);
    result.outputs[rank] = doubles(y.value);
    tape.backward(y, tensor_of(engine, dy[rank], dtype).view(y.value.shape()));
    result.gradients[rank] = doubles(tape.grad(input));
    EXPECT_EQ(doubles(input.value), before) << c.name << " changed its input";
  });
  return result;
}

// The scalar that all ranks together compute from y: what is whole counts once, unless each rank goes on with
// it in a way of its own.
double scalar(const CollectiveCase& c, const Values& y, const Values& dy) {
  double sum = 0.0;
  for (size_t r = 0; r < y.size(); ++r) {
    if (c.gradient_after == Held::whole && r > 0) break;
    for (size_t i = 0; i < y[r].size(); ++i) sum += y[r][i] * dy[r][i];
  }
  return sum;
}

class CollectiveOps : public ::testing::TestWithParam<int> {};
// Of six ranks the last has no token at all.
INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveOps, ::testing::Values(1, 2, 3, 4, 6));

TEST_P(CollectiveOps, GradientsAgreeWithCentralDifferences) {
  const int ranks = GetParam();
  constexpr double kStep = 1.0 / 64;  // exact in floats: the operations are linear
  for (const CollectiveCase& c : kCases) {
    const Values x = make_values(ranks, c.before, "x"), dy = make_values(ranks, c.gradient_after, "dy");
    const Result result = run_collective(c, x, dy);
    for (size_t r = 0; r < x.size(); ++r)
      for (size_t i = 0; i < x[r].size(); i += 7) {
        double difference = 0.0;
        for (const double sign : {+1.0, -1.0}) {
          Values moved = x;
          // What is whole moves on every rank.
          for (size_t other = 0; other < x.size(); ++other)
            if (other == r || c.before == Held::whole) moved[other][i] += sign * kStep;
          difference += sign * scalar(c, run_collective(c, moved, dy).outputs, dy);
        }
        EXPECT_NEAR(result.gradients[r][i], difference / (2 * kStep), 1e-4)
            << c.name << " rank " << r << " of " << ranks << " element " << i;
      }
  }
}

TEST_P(CollectiveOps, ValuesAreWhatTheTableSays) {
  const int ranks = GetParam();
  for (const CollectiveCase& c : kCases)
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      const Values x = make_values(ranks, c.before, "x");
      const Result result = run_collective(c, x, make_values(ranks, c.gradient_after, "dy"), dtype);
      // The whole that the ranks' x stand for.
      std::vector<double> whole;
      if (c.before == Held::addends) {
        whole.assign(x[0].size(), 0.0);
        for (const auto& addend : x)
          for (size_t i = 0; i < addend.size(); ++i) whole[i] += addend[i];
      } else if (c.before == Held::whole) {
        whole = x[0];
      } else {
        for (const auto& part : x) whole.insert(whole.end(), part.begin(), part.end());
      }
      const double tolerance = dtype == Dtype::f32 ? 1e-6 : dtype == Dtype::f16 ? 2e-3 : 2e-2;
      const auto part = static_cast<size_t>(partitioned_rows(kSequences * kLength, ranks) * kWidth);
      for (size_t r = 0; r < x.size(); ++r)
        for (size_t i = 0; i < result.outputs[r].size(); ++i) {
          const size_t at = c.after == Held::partitioned || c.after == Held::own ? r * part + i : i;
          const double expected = at < static_cast<size_t>(kWhole.numel()) ? whole[at] : 0.0;
          ASSERT_NEAR(result.outputs[r][i], expected, tolerance)
              << c.name << " rank " << r << " element " << i;
        }
    }
}

TEST(CollectiveOpsErrors, APassMustSayItsTokens) {
  const auto groups = make_thread_groups(2);
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    Tape tape(PassContext{});
    EXPECT_THROW(gather_to_partial(tape.constant(engine.random({5, 3}, "x")), group), Error);
    Tape other(pass(false));
    EXPECT_THROW(gather_to_whole(other.constant(engine.random({4, 3}, "x")), group), Error);
    EXPECT_THROW(drop_padding(other.constant(engine.random({4, 3}, "x")), group), Error);
    EXPECT_THROW(add_padding(other.constant(engine.random({4, 3}, "x")), group), Error);
  });
}

}  // namespace
}  // namespace athanor::tests::collective_ops_test
