// Parameters: declared without memory, cut without changing a value, one gradient for each use.
#include "athanor/autograd/param.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "support/engine.h"

namespace athanor::tests::param_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ParamTest : ::testing::Test {
  uint64_t bytes(Category category) const {
    return engine.arena.usage().current[static_cast<size_t>(category)];
  }
  std::vector<float> initial(Param& param, uint64_t seed, Dtype dtype = Dtype::f32) {
    param.allocate(engine.arena, dtype, dtype != Dtype::f32);
    param.initialize(seed);
    std::vector<float> values(static_cast<size_t>(param.box().extent.numel()));
    param.load(values.data());
    return values;
  }
  Tensor slot(const Shape& shape, float value) {
    Tensor made = empty(engine.arena, shape, Dtype::f32, Category::gradients);
    std::fill_n(made.data<float>(), made.numel(), value);
    return made;
  }
  Engine engine{2};
};

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(ParamTest, DeclaringAllocatesNothing) {
  Param param("blocks.0.up.weight", {300, 200}, Init::normal(0.02));
  Weight& use = param.add_use("blocks.0.up");
  EXPECT_EQ(engine.arena.usage().current_total, 0u);
  EXPECT_FALSE(param.defined());
  EXPECT_THAT(message_of([&] { use.value(); }),
              HasSubstr("'blocks.0.up.weight' is declared but has no memory"));
  param.allocate(engine.arena, Dtype::bf16, /*with_master=*/true);
  EXPECT_EQ(bytes(Category::parameters), 2u * 300 * 200);
  EXPECT_EQ(bytes(Category::optimizer), 4u * 300 * 200);
  EXPECT_EQ(use.value().shape(), (Shape{300, 200}));
}

TEST_F(ParamTest, InitialValuesAreThoseOfSeedAndName) {
  Param a("a", {64, 50}, Init::normal(0.5)), same("a", {64, 50}, Init::normal(0.5)),
      b("b", {64, 50}, Init::normal(0.5)), reseeded("a", {64, 50}, Init::normal(0.5));
  const std::vector<float> values = initial(a, 1);
  EXPECT_EQ(initial(same, 1), values);
  EXPECT_NE(initial(b, 1), values);
  EXPECT_NE(initial(reseeded, 2), values);
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / n;
  EXPECT_NEAR(mean, 0.0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(square), 0.5, 5 * 0.5 / std::sqrt(2 * n));
}

TEST_F(ParamTest, ZerosAndOnes) {
  Param zeros("z", {5}, Init::zeros()), ones("o", {5}, Init::ones());
  EXPECT_EQ(initial(zeros, 1), std::vector<float>(5, 0.0f));
  EXPECT_EQ(initial(ones, 1), std::vector<float>(5, 1.0f));
}

// Any cut holds the values that the whole has at its place; padding at the end of rows is zero.
TEST_F(ParamTest, APartHasTheValuesOfTheWhole) {
  constexpr int64_t kRows = 10, kColumns = 12;
  Param whole("w", {kRows, kColumns}, Init::normal(1.0));
  const std::vector<float> all = initial(whole, 3);
  for (const int rows : {1, 2, 4})  // ten rows by four: parts of three, the last of one
    for (const int columns : {1, 3})
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) {
          Param part("w", {kRows, kColumns}, Init::normal(1.0));
          part.shard({.dim = 0, .axis = "tp", .rank = r, .size = rows});
          part.shard({.dim = 1, .axis = "ep", .rank = c, .size = columns});
          const std::vector<float> values = initial(part, 3);
          const Box& box = part.box();
          EXPECT_EQ(part.shape(), (Shape{(kRows + rows - 1) / rows, kColumns / columns}));
          size_t at = 0;
          for (int64_t i = 0; i < box.extent[0]; ++i)
            for (int64_t j = 0; j < box.extent[1]; ++j)
              ASSERT_EQ(values[at++],
                        all[static_cast<size_t>((box.offset[0] + i) * kColumns + box.offset[1] + j)]);
          EXPECT_EQ(part.is_padded(), rows == 4 && r == 3);
          for (int64_t i = box.extent.numel(); i < part.numel(); ++i)
            EXPECT_EQ(part.value().data<float>()[i], 0.0f);
          EXPECT_EQ(part.part(0).rank, r);
          EXPECT_EQ(part.part(0).size, rows);
          EXPECT_EQ(part.part(1).size, columns);
        }
}

TEST_F(ParamTest, ACutThatCannotBeIsRefused) {
  Param param("w", {10, 12}, Init::zeros());
  EXPECT_THAT(message_of([&] { param.shard({.dim = 1, .rank = 0, .size = 5}); }),
              HasSubstr("does not divide by 5"));
  EXPECT_THAT(message_of([&] { param.shard({.dim = 2, .rank = 0, .size = 2}); }),
              HasSubstr("has no dimension 2"));
  EXPECT_THAT(message_of([&] { param.shard({.dim = 0, .rank = 2, .size = 2}); }), HasSubstr("shard 2 of 2"));
  param.allocate(engine.arena, Dtype::f32, false);
  EXPECT_THAT(message_of([&] { param.shard({.dim = 0, .rank = 0, .size = 2}); }),
              HasSubstr("has memory already"));
}

// What plans and checkpoints read of a parameter: no arena, no queue, no device.
TEST(ParamSpecTest, IsCutAndSlicedWithoutMemory) {
  const ParamSpec declared("w", {10, 12}, Init::normal(1.0));
  ParamSpec part = declared;
  EXPECT_EQ(part, declared);
  part.shard({.dim = 0, .axis = "tp", .rank = 2, .size = 4});  // rows by three: [6, 9)
  part.shard({.dim = 1, .axis = "ep", .rank = 1, .size = 3});  // columns [4, 8)
  EXPECT_NE(part, declared);
  EXPECT_EQ(part.whole_shape(), declared.shape());
  EXPECT_EQ(part.shape(), (Shape{3, 4}));
  EXPECT_EQ(part.box(), (Box{{6, 4}, {3, 4}}));
  EXPECT_FALSE(part.is_padded());
  EXPECT_EQ(part.part(0).rank, 2);
  EXPECT_EQ(part.part(1).size, 3);
  EXPECT_THAT(part.boxes({2, 11}),  // the end of a row, a row, the start of a row
              ElementsAre(Box{{6, 6}, {1, 2}}, Box{{7, 4}, {1, 4}}, Box{{8, 4}, {1, 3}}));
  ParamSpec last = declared;
  last.shard({.dim = 0, .axis = "tp", .rank = 3, .size = 4});  // one row, and two of padding
  EXPECT_TRUE(last.is_padded());
  EXPECT_EQ(last.unpadded({6, 36}).first, 6);
  EXPECT_EQ(last.unpadded({6, 36}).last, 12);
  EXPECT_THAT(last.boxes({6, 36}), ElementsAre(Box{{9, 6}, {1, 6}}));
  EXPECT_THAT(last.boxes({12, 36}), ElementsAre());
  EXPECT_THAT(message_of([&] { last.shard({.dim = 1, .size = 5}); }), HasSubstr("does not divide by 5"));
}

// The storage of a specification of its own; a Param is both.
TEST_F(ParamTest, StorageFollowsItsSpecification) {
  ParamSpec spec("w", {4, 6}, Init::normal(1.0));
  spec.shard({.dim = 1, .axis = "tp", .rank = 1, .size = 2});
  ParamStorage storage(spec);
  storage.allocate(engine.arena, Dtype::f32, false);
  storage.initialize(3);
  Param param("w", {4, 6}, Init::normal(1.0));
  param.shard(spec.shards()[0]);
  EXPECT_EQ(param.spec(), spec);
  EXPECT_EQ(&param.spec(), &static_cast<const ParamSpec&>(param));
  EXPECT_EQ(initial(param, 3), to_floats(storage.value()));
}

TEST_F(ParamTest, OfCopiesTheFirstOnEveryAxisSpeaks) {
  for (const int tp : {0, 1})
    for (const int cp : {0, 1}) {
      Param param("w", {4}, Init::zeros());
      param.shard({.axis = "tp", .copy = tp, .copies = 2});
      param.shard({.axis = "cp", .copy = cp, .copies = 2});
      EXPECT_EQ(param.is_first_copy(), tp == 0 && cp == 0);
    }
}

TEST_F(ParamTest, ValuesAreTheMasterRounded) {
  Param param("w", {3}, Init::zeros());
  param.allocate(engine.arena, Dtype::bf16, /*with_master=*/true);
  const std::vector<float> exact = {1.0f, 1.001f, -3.14159f};
  param.store_whole(exact.data());
  std::vector<float> loaded(3);
  param.load(loaded.data());
  EXPECT_EQ(loaded, exact);  // of the master
  EXPECT_THAT(to_floats(param.value()),
              ElementsAre(1.0f, 1.0f, -3.140625f));  // seven bits and the hidden one
  Param alone("v", {3}, Init::zeros());
  alone.allocate(engine.arena, Dtype::bf16, /*with_master=*/false);
  alone.store_whole(exact.data());
  alone.load(loaded.data());
  EXPECT_THAT(loaded, ElementsAre(1.0f, 1.0f, -3.140625f));
}

TEST_F(ParamTest, StoreWholeTakesItsPart) {
  Param param("w", {2, 4}, Init::zeros());
  param.shard({.dim = 1, .axis = "tp", .rank = 1, .size = 2});
  param.allocate(engine.arena, Dtype::f32, false);
  const std::vector<float> whole = {0, 1, 2, 3, 4, 5, 6, 7};
  param.store_whole(whole.data());
  EXPECT_THAT(to_floats(param.value()), ElementsAre(2, 3, 6, 7));
}

TEST_F(ParamTest, EachUseHasAGradientOfItsOwn) {
  Param param("w", {2}, Init::zeros());
  Weight &embed = param.add_use("embed", 0), &head = param.add_use("head", 5);
  EXPECT_EQ(param.num_uses(), 2u);
  EXPECT_THAT(message_of([&] { embed.grad(); }), HasSubstr("'embed' has no gradient buffer"));
  embed.set_grad(slot({2}, 1.0f));
  head.set_grad(slot({2}, 2.0f));
  EXPECT_THAT(to_floats(embed.grad()), ElementsAre(1.0f, 1.0f));
  EXPECT_THAT(to_floats(head.grad()), ElementsAre(2.0f, 2.0f));
  EXPECT_FALSE(param.is_second_copy());
  param.keep_uses([](int unit) { return unit == 5; });
  EXPECT_TRUE(param.is_second_copy());
  ASSERT_EQ(param.uses().size(), 1u);
  EXPECT_EQ(param.uses()[0].get(), &head);
  EXPECT_EQ(param.num_uses(), 2u);  // on all ranks
}

// What is in the slot when a step begins does not count: the first product overwrites it, what else adds finds zeros.
TEST_F(ParamTest, TheFirstGradientOfAStepOverwrites) {
  Param param("w", {2}, Init::zeros());
  Weight& use = param.add_use("w");
  use.set_grad(slot({2}, 7.0f));
  EXPECT_TRUE(use.grad_slot().add);  // nobody began
  use.begin_grad();
  EXPECT_FALSE(use.grad_slot().add);
  EXPECT_TRUE(use.grad_slot().add);
  use.begin_grad();
  EXPECT_THAT(to_floats(use.grad()), ElementsAre(0.0f, 0.0f));
  use.grad().data<float>()[0] = 5.0f;
  use.end_grad();
  EXPECT_THAT(to_floats(use.grad()), ElementsAre(5.0f, 0.0f));
  use.begin_grad();
  use.end_grad();  // nothing was added: it is zero
  EXPECT_THAT(to_floats(use.grad()), ElementsAre(0.0f, 0.0f));
}

TEST_F(ParamTest, RowsThatAreKnownNeedNoClearing) {
  Param param("table", {4, 2}, Init::zeros());
  Weight& use = param.add_use("table");
  const auto ids = [&](std::vector<int32_t> rows) {
    Tensor made = empty(engine.arena, {std::ssize(rows)}, Dtype::i32, Category::activations);
    copy_from_host(made, rows.data(), made.size_bytes());
    return made;
  };
  use.set_grad(slot({4, 2}, 9.0f));
  use.begin_grad();
  Tensor& first = use.grad_rows(ids({1, 3, 1}));
  EXPECT_THAT(to_floats(first), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_TRUE(use.knows_rows());
  first.data<float>()[2] = 1.0f;
  first.data<float>()[7] = 2.0f;
  Tensor sum = slot({4, 2}, 10.0f);
  use.move_rows(sum);
  EXPECT_THAT(to_floats(sum), ElementsAre(10, 10, 11, 10, 10, 10, 10, 12));
  EXPECT_THAT(to_floats(first), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  use.begin_grad();
  use.grad_rows(ids({0}));
  use.grad();  // something else is added in the same step
  EXPECT_FALSE(use.knows_rows());
  EXPECT_THAT(message_of([&] { use.move_rows(sum); }), HasSubstr("does not know the rows"));
}

// As ZeRO keeps a range of it; the whole comes and goes.
TEST_F(ParamTest, APartThatIsKeptAsksForTheWhole) {
  struct Source final : ValueSource {
    void need(const ParamStorage& param) override {
      ++needed;
      const_cast<ParamStorage&>(param).set_value(whole);
    }
    void changed(const ParamStorage&) override { ++changes; }
    Tensor whole;
    int needed = 0, changes = 0;
  } source;
  Param param("w", {2, 3}, Init::normal(1.0)), alone("w", {2, 3}, Init::normal(1.0));
  const std::vector<float> all = initial(alone, 5);
  source.whole = slot({2, 3}, 4.0f);
  param.keep({2, 5}, empty(engine.arena, {3}, Dtype::f32, Category::parameters), &source);
  param.allocate(engine.arena, Dtype::f32, false);
  param.initialize(5);
  EXPECT_EQ(source.changes, 1);
  EXPECT_FALSE(param.whole());
  EXPECT_EQ(param.kept_shape(), (Shape{3}));
  EXPECT_THAT(to_floats(param.kept()), ElementsAre(all[2], all[3], all[4]));
  EXPECT_EQ(source.needed, 0);
  EXPECT_THAT(to_floats(param.value()), ElementsAre(4, 4, 4, 4, 4, 4));
  EXPECT_EQ(source.needed, 1);
  param.store_whole(std::vector<float>{0, 1, 2, 3, 4, 5}.data());
  EXPECT_EQ(source.changes, 2);
  std::vector<float> two(2);
  param.read_master(1, 2, two.data());
  EXPECT_THAT(two, ElementsAre(3, 4));
  EXPECT_THAT(message_of([&] { param.load(two.data()); }), HasSubstr("has one shard"));
  EXPECT_THAT(message_of([&] {
                alone.keep({4, 7}, empty(engine.arena, {3}, Dtype::f32, Category::parameters), &source);
              }),
              HasSubstr("cannot keep [4, 7)"));
}

TEST_F(ParamTest, AStateStaysF32) {
  Param bias("router.bias", {4}, Init::zeros(), ParamKind::state);
  bias.allocate(engine.arena, Dtype::bf16, /*with_master=*/true);
  EXPECT_EQ(bias.dtype(), Dtype::f32);
  EXPECT_EQ(bytes(Category::optimizer), 0u);
}

}  // namespace
}  // namespace athanor::tests::param_test
