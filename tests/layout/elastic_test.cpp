#include "athanor/layout/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "layout/small_model.h"

namespace athanor::tests::elastic_test {
namespace {

using ::testing::HasSubstr;

Layout with(int ranks, const Config& config) {
  return layout::elastic_layout(config, {.world_size = ranks, .ranks_of_host = ranks});
}
Config inexact(Config config) {
  config.launch.allow_inexact = true;
  return config;
}

TEST(ElasticLayout, IsTheConfigsWhereItCanBe) {
  const Config config = inexact(asked([](auto& p) { p.tp = 2, p.pp = 2; }));
  for (const int ranks : {4, 8}) {
    const Layout layout = with(ranks, config);
    EXPECT_EQ(layout, make_layout(config, {.world_size = ranks, .ranks_of_host = ranks}));
    EXPECT_EQ(layout.dp(), ranks / 4);
  }
}

TEST(ElasticLayout, FewerStagesNeedNoLeave) {
  const Config config = asked([](auto& p) { p.pp = 4, p.reduce = "tree", p.stage_layers = {1, 1, 1, 1}; });
  EXPECT_EQ(with(4, config).pp, 4);
  EXPECT_EQ(with(2, config).pp, 2);
  EXPECT_EQ(with(6, config).pp, 2);
  EXPECT_EQ(with(3, config).pp, 1);
  EXPECT_EQ(with(3, config).dp(), 3);
  EXPECT_TRUE(with(3, config).keeps_order());
}

TEST(ElasticLayout, ASmallerTpCpOrEpNeedsLeave) {
  struct Case {
    Config config;
    int ranks;
    std::string order;
  };
  const Case cases[] = {
      {asked([](auto& p) { p.tp = 2, p.sp = true; }), 1, "tp 1, cp 1, ep 1"},
      {asked([](auto& p) { p.tp = 2; }), 3, "tp 1, cp 1, ep 1"},
      {asked([](auto& p) { p.tp = 2, p.cp = 2; }), 2, "tp 2, cp 1, ep 1"},
      {asked([](auto& p) { p.cp = 2; }), 1, "tp 1, cp 1, ep 1"},
      {asked([](auto& p) { p.ep = 4; }, "moe"), 2, "tp 1, cp 1, ep 2"},
      {asked([](auto& p) { p.ep = 4; }, "moe"), 3, "tp 1, cp 1, ep 1"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(layout::order_of_sums(with(one.ranks, inexact(one.config))), one.order);
    try {
      with(one.ranks, one.config);
      ADD_FAILURE() << "without leave: " << one.order;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.hint(), HasSubstr("launch.allow_inexact = true"));
    }
  }
}

TEST(ElasticLayout, WhatNoSizeHelpsIsRefusedAsEver) {
  const Config config = asked([](auto& p) { p.dp = 2; });
  for (const Config& tried : {config, inexact(config)}) try {
      with(3, tried);
      ADD_FAILURE();
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("parallel.dp"));
      EXPECT_THAT(error.hint(), testing::Not(HasSubstr("allow_inexact")));
    }
}

}  // namespace
}  // namespace athanor::tests::elastic_test
