// Patterns of parameter groups, and what a group does to rate and decay.
#include "athanor/optim/param_groups.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/optim/optimizer.h"
#include "support/engine.h"

namespace athanor::tests::param_groups_test {
namespace {

TEST(ParamGroups, PatternsMatchWholeNames) {
  for (const auto& [pattern, name, expected] :
       {std::tuple("*", "a.b", true), std::tuple("a.b", "a.b", true), std::tuple("a", "a.b", false),
        std::tuple("*.bias", "blocks.1.q.bias", true), std::tuple("*.bias", "blocks.1.q.biased", false),
        std::tuple("blocks.?.q.*", "blocks.1.q.weight", true),
        std::tuple("blocks.?.q.*", "blocks.11.q.weight", false), std::tuple("a*b*c", "aXbXbc", true),
        std::tuple("a*b*c", "aXcXb", false), std::tuple("", "", true), std::tuple("**", "", true),
        std::tuple("?", "", false)})
    EXPECT_EQ(matches(pattern, name), expected) << pattern << " " << name;
}

TEST(ParamGroups, TheFirstMatchWins) {
  const std::vector<ParamGroup> groups = {{.match = "*.q.*", .lr_ratio = 2}, {.match = "a.*", .lr_ratio = 3}};
  EXPECT_EQ(group_of(groups, "a.q.w"), &groups[0]);
  EXPECT_EQ(group_of(groups, "a.k.w"), &groups[1]);
  EXPECT_EQ(group_of(groups, "b.k.w"), nullptr);
}

TEST(ParamGroups, AGroupWithoutParametersIsRefused) {
  const std::vector<std::string> names = {"a.q.weight", "a.k.weight", "a.norm.weight"};
  EXPECT_NO_THROW(check_groups({{.match = "*.q.*"}, {.match = "a.*"}}, names));
  EXPECT_THROW(check_groups({{.match = "b.q.weight.x"}}, names), ConfigError);
  EXPECT_THROW(check_groups({{.match = "a.*"}, {.match = "*.q.*"}}, names), ConfigError);
}

// Each group's step is that of an optimizer with its rate and decay.
TEST(ParamGroups, ChangeRateAndDecay) {
  for (const char* name : {"adamw", "sgd"}) {
    const auto stepped = [&](std::vector<ParamGroup> groups, double lr, double decay) {
      Engine engine{1};
      std::vector<std::unique_ptr<Param>> params;
      for (const auto& [of, shape] : {std::pair("matrix", Shape{4, 5}), std::pair("vector", Shape{6})}) {
        params.push_back(std::make_unique<Param>(of, shape, Init::normal(0.5)));
        params.back()->allocate(engine.arena, Dtype::f32, true);
        params.back()->initialize(3);
      }
      const auto optimizer =
          make_optimizer({.name = name, .weight_decay = decay, .groups = std::move(groups)}, params);
      optimizer->allocate(engine.arena);
      std::vector<Tensor> grads;
      for (const auto& param : params) grads.push_back(engine.random(param->shape(), param->name()));
      optimizer->step(
          [&](Param& param) -> const Tensor& { return &param == params[0].get() ? grads[0] : grads[1]; },
          {.update = 1, .lr = lr});
      return std::pair(to_floats(params[0]->master()), to_floats(params[1]->master()));
    };
    const auto plain = stepped({}, 0.02, 0.1), half = stepped({}, 0.01, 0.1);
    const auto matrix_half = stepped({{.match = "mat*", .lr_ratio = 0.5}}, 0.02, 0.1);
    EXPECT_EQ(matrix_half.first, half.first);
    EXPECT_EQ(matrix_half.second, plain.second);
    const auto decayed = stepped({{.match = "*", .weight_decay = 0.1}}, 0.02, 0.0);
    EXPECT_EQ(decayed.first, plain.first);
    EXPECT_NE(decayed.second, plain.second);  // a group's decay is of vectors, too
    EXPECT_EQ(stepped({{.match = "matrix", .weight_decay = 0.0}}, 0.02, 0.1).first,
              stepped({}, 0.02, 0.0).first);
  }
}

}  // namespace
}  // namespace athanor::tests::param_groups_test
