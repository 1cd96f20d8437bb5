#include "athanor/observe/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace athanor {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

std::vector<StepMetrics> falling(int64_t steps) {
  std::vector<StepMetrics> all;
  for (int64_t step = 1; step <= steps; ++step) {
    const double loss = 2.0 + 7.0 / static_cast<double>(step);
    StepMetrics m = {
        .step = step, .loss = loss, .channel_loss = {{"en", loss - 0.5}, {"a<b>&\"", loss + 0.5}}};
    if (step % 100 == 0) m.valid_loss = loss, m.valid_channel_loss = m.channel_loss;
    all.push_back(m);
  }
  return all;
}

// Tags are balanced, no number is nan or inf, and nothing runs or loads.
void expect_sound(const std::string& svg) {
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const std::string tag : {"svg", "text", "title", "circle"})
    EXPECT_EQ(count(svg, "<" + tag + " ") + count(svg, "<" + tag + ">"), count(svg, "</" + tag + ">")) << tag;
  for (const std::string word : {"nan", "inf", "script", "href"})
    EXPECT_EQ(count(svg, word), 0u) << word << "\n" << svg;
}

TEST(Plot, DrawsLinesDotsAndLegend) {
  const std::string svg = loss_svg(falling(400), "first");
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<circle"), 8u);  // four evaluations of two channels
  EXPECT_EQ(count(svg, "<path"), 5u);    // whole, two channels, and the held-out of these
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;: held-out loss"), std::string::npos);
  EXPECT_NE(svg.find(">first</text>"), std::string::npos);
  EXPECT_NE(svg.find(">2.518</text>"), std::string::npos);  // the last loss of the second channel
}

TEST(Plot, EveryPointLiesInsideTheFrame) {
  const std::string svg = loss_svg(falling(1000), "x");
  const std::regex point("[ML]([0-9.-]+) ([0-9.-]+)");
  size_t points = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), point), end; it != end; ++it, ++points) {
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]);
    ASSERT_TRUE(x >= 64 && x <= 768 && y >= 60 && y <= 488) << x << " " << y;
  }
  EXPECT_GT(points, 500u);
}

TEST(Plot, LongRunsStaySmall) {
  const std::string svg = loss_svg(falling(200000), "long");
  expect_sound(svg);
  EXPECT_LT(svg.size(), 100000u);
}

TEST(Plot, OddRunsAreSound) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  expect_sound(loss_svg({}, ""));
  expect_sound(loss_svg({{.step = 1, .loss = 5}}, "one"));
  expect_sound(loss_svg({{.step = 1, .loss = nan}, {.step = 2, .loss = infinity}}, "broken"));
  expect_sound(loss_svg({{.step = 1, .loss = 5}, {.step = 2, .loss = 5}}, "flat"));
  expect_sound(
      loss_svg({{.step = 1, .loss = 5}, {.step = 2, .loss = 1e300}, {.step = 3, .loss = -1e300}}, "huge"));
  expect_sound(loss_svg({{.step = 1LL << 60, .loss = 0}}, "far"));
  expect_sound(loss_svg({{.step = 1, .loss = 1e-9}, {.step = 2, .loss = 2e-9}}, "small"));
  StepMetrics many = {.step = 1, .loss = 1};
  for (int i = 0; i < 40; ++i) many.channel_loss.emplace_back("channel-number-" + std::to_string(i), i);
  expect_sound(loss_svg({many}, "many\x1b"));
}

TEST(Plot, WhatIsNotANumberLeavesAGap) {
  auto metrics = falling(100);
  const auto moves = [&] { return count(loss_svg(metrics, "x"), "M"); };
  const size_t whole = moves();
  metrics[50].loss = std::nan("");
  EXPECT_EQ(moves(), whole + 1);
}

}  // namespace
}  // namespace athanor
