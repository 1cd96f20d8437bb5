#include "corpus/heuristics_probe.h"

namespace athanor::tests::heuristics_zh_test {
namespace {

using heuristics_probe::expect_cases;
using heuristics_probe::probe;
using heuristics_probe::Probe;
using heuristics_probe::times;

// `all` characters, of which the first `some` are `one`.
std::string mixed(size_t some, const std::string& one, size_t all, const std::string& other = "\u4e2d") {
  return times(one, some) + times(other, all - some);
}

// That many different ideographs.
std::string ideographs(size_t count, uint32_t first = 0x5000) {
  std::string text;
  for (uint32_t c = first; c < first + count; ++c) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
  return text;
}

TEST(Zh, Characters) {
  expect_cases("zh", {{"zh.chars", times("\u4e2d\u3000", 84), 84, false},
                      {"zh.chars", times("\u4e2d \n", 85), 85, true},
                      {"zh.chars", times("\u4e2d", 86), 86, true},
                      {"zh.chars", times("\u4e2d", 169'999), 169'999, true},
                      {"zh.chars", times("\u4e2d", 170'000), 170'000, true},
                      {"zh.chars", times("\u4e2d", 170'001), 170'001, false},
                      {"zh.ideographs", mixed(61, "a", 100), 0.39, false},
                      {"zh.ideographs", mixed(60, "\u3042", 100), 0.4, true},
                      {"zh.ideographs", mixed(59, "a", 100), 0.41, true},
                      {"zh.punctuation", mixed(1, "\u3002", 100), 0.01, false},
                      {"zh.punctuation", mixed(2, "\uff0c", 100), 0.02, true},
                      {"zh.punctuation", mixed(3, ",", 100), 0.03, true},
                      {"zh.punctuation", mixed(29, "\u3001", 100), 0.29, true},
                      {"zh.punctuation", mixed(30, "\u201c", 100), 0.3, true},
                      {"zh.punctuation", mixed(31, "\u2014", 100), 0.31, false},
                      {"zh.digits", mixed(19, "1", 100), 0.19, true},
                      {"zh.digits", mixed(20, "\uff11", 100), 0.2, true},
                      {"zh.digits", mixed(21, "1", 100), 0.21, false},
                      {"zh.garbled", mixed(4, "\ufffd", 1000), 0.004, true},
                      {"zh.garbled", mixed(5, "\ue000", 1000), 0.005, true},
                      {"zh.garbled", mixed(6, "\x01", 1000), 0.006, false}});
  EXPECT_EQ(probe("zh", "\u4e2d\xff\u4e2d\u4e2d").value("zh.garbled"), 0.25);
}

TEST(Zh, SymbolsAndCommonCharacters) {
  expect_cases("zh", {{"zh.hashes", mixed(5, "#", 100), 0.05, true},
                      {"zh.hashes", mixed(6, "#", 100), 0.06, true},
                      {"zh.hashes", mixed(7, "#", 100), 0.07, false},
                      {"zh.ellipses", mixed(5, "\u2026\u2026\u4e2d", 90), 5.0 / 100, true},
                      {"zh.ellipses", mixed(6, "...\u4e2d", 82), 6.0 / 100, true},
                      {"zh.ellipses", mixed(7, "\u3002\u3002\u3002\u3002\u4e2d", 72), 7.0 / 100, false},
                      {"zh.ellipses", "\u2026\u4e2d..\u4e2d", 0, true},
                      {"zh.common_chars", "\u7684\u7684\u732b", 1, false},
                      {"zh.common_chars", "\u732b\u662f\u7684", 2, true},
                      {"zh.common_chars", "\u662f\u7684\u4e86", 3, true}});
}

TEST(Zh, Lines) {
  const std::string ten = times("\u4e2d", 10), eleven = times("\u4e2d", 11);
  expect_cases(
      "zh", {{"zh.bullet_lines", mixed(8, "- \u4e2d\n", 10, "\u4e2d\n"), 0.8, true},
             {"zh.bullet_lines", mixed(9, "\u3000\u25c6\u4e2d\n", 10, "\u4e2d\n"), 0.9, true},
             {"zh.bullet_lines", mixed(10, "\u00b7\u4e2d\n", 11, "\u4e2d\n"), 10.0 / 11, false},
             {"zh.ellipsis_lines", mixed(2, "\u4e2d\u2026\u2026\n", 10, "\u4e2d\n"), 0.2, true},
             {"zh.ellipsis_lines", mixed(3, "\u4e2d... \n", 10, "\u4e2d\n"), 0.3, true},
             {"zh.ellipsis_lines", mixed(4, "\u4e2d\u3002\u3002\u3002\n", 10, "\u4e2d\u3002\n"), 0.4, false},
             {"zh.terminal_lines", mixed(2, "\u4e2d\u3002\n", 25, "\u4e2d\uff0c\n"), 0.08, false},
             {"zh.terminal_lines", mixed(3, "\u4e2d\uff01\u300d\u201d \n", 25, "\u4e2d\n"), 0.12, true},
             {"zh.terminal_lines", mixed(4, "\u4e2d\u2026\u2026\n", 25, "\u201d\n"), 0.16, true},
             {"zh.short_lines", mixed(66, ten + "\n", 100, eleven + "\n"), 0.66, true},
             {"zh.short_lines", mixed(67, ten + " \u3000\n", 100, eleven + "\n"), 0.67, true},
             {"zh.short_lines", mixed(68, ten + "\n", 100, eleven + "\n"), 0.68, false},
             {"zh.newlines", times("\n", 17) + times("\u4e2d", 100), 0.17, true},
             {"zh.newlines", times("\n", 18) + times("\u4e2d", 100), 0.18, true},
             {"zh.newlines", times("\n", 19) + times("\u4e2d", 100), 0.19, false},
             {"zh.duplicate_lines", "1\n2\n3\n4\n5\n6\n7\n8\n1\n2", 0.2, true},
             {"zh.duplicate_lines", "1\n2\n3\n4\n5\n6\n7\n\n1\n2\n3", 0.3, true},
             {"zh.duplicate_lines", "1\n2\n3\n4\n5\n6\n4\n1\n2\n3", 0.4, false},
             {"zh.duplicate_line_chars", "\u4e2d\n\u4e2d\n" + times("1", 4), 1.0 / 6, true},
             {"zh.duplicate_line_chars", "\u4e2d\n\u4e2d\n\n" + times("1", 3), 0.2, true},
             {"zh.duplicate_line_chars", "\u4e2d\n\u4e2d\n" + times("1", 2), 0.25, false}});
}

TEST(Zh, RepeatedRuns) {
  struct Run {
    const char* rule;
    size_t n, times, others;  // others: with which the share is the limit
    double most;
  };
  for (const Run& run : std::vector<Run>{{"zh.top_3_gram", 3, 2, 24, 0.20},
                                         {"zh.top_5_gram", 5, 9, 205, 0.18},
                                         {"zh.top_7_gram", 7, 4, 147, 0.16}}) {
    const auto text = [&](size_t others) {
      // A different character behind each of the runs keeps longer ones from coming twice.
      std::string all;
      for (size_t i = 0; i < run.times; ++i)
        all += ideographs(run.n) + " " + ideographs(1, static_cast<uint32_t>(0x6000 + i));
      return all + "\n" + ideographs(others - run.times, 0x7000);
    };
    const auto chars = static_cast<double>(run.n * run.times);
    const auto others = static_cast<double>(run.others);
    expect_cases("zh", {{run.rule, text(run.others + 1), chars / (chars + others + 1), true},
                        {run.rule, text(run.others), run.most, true},
                        {run.rule, text(run.others - 1), chars / (chars + others - 1), false}});
  }
  for (const Run& run : std::vector<Run>{{"zh.duplicate_9_grams", 9, 1, 42, 0.15},
                                         {"zh.duplicate_12_grams", 12, 13, 1032, 0.13},
                                         {"zh.duplicate_17_grams", 17, 1, 136, 0.10}}) {
    const auto text = [&](size_t others) {  // the first of the runs is among the others
      std::string all = ideographs(run.n);
      for (size_t i = 0; i < run.times; ++i)
        all += ideographs(1, static_cast<uint32_t>(0x6000 + i)) + ideographs(run.n);
      return all + "\n" + ideographs(others - run.times, 0x7000);
    };
    const auto chars = static_cast<double>(run.n * run.times);
    const auto all = static_cast<double>(run.n * (run.times + 1) + run.others);
    expect_cases("zh", {{run.rule, text(run.others + 1), chars / (all + 1), true},
                        {run.rule, text(run.others), run.most, true},
                        {run.rule, text(run.others - 1), chars / (all - 1), false}});
  }
}

TEST(Zh, ProseIsKeptAndAMenuIsNot) {
  const std::string prose =
      "\u6625\u5929\u6765\u4e86\uff0c\u5c0f\u6cb3\u91cc\u7684\u51b0\u6162\u6162\u5730\u5316\u5f00\u3002"
      "\u5b69\u5b50\u4eec\u5728\u5cb8\u8fb9\u653e\u98ce\u7b5d\uff0c\u8001\u4eba\u5750\u5728\u6811\u4e0b"
      "\u8bf4\u8bdd\u3002\n\u6211\u548c\u5f1f\u5f1f\u4e5f\u8dd1\u51fa\u53bb\u73a9\uff0c\u5988\u5988\u8bf4"
      "\uff1a\u201c\u522b\u8dd1\u592a\u8fdc\uff01\u201d\n\u90a3\u4e00\u5929\u6709\u4e09\u53ea\u71d5\u5b50"
      "\u98de\u8fc7\u5c4b\u9876\uff0c\u5929\u7a7a\u662f\u6de1\u84dd\u8272\u7684\uff0c\u8fdc\u5904\u7684"
      "\u5c71\u8fd8\u7559\u7740\u4e00\u70b9\u96ea\u3002";
  const Probe good = probe("zh", prose);
  const Rule* broken = first_broken(good.stage->rules(), good.values);
  EXPECT_EQ(broken, nullptr) << broken->name;
  const Probe menu = probe("zh", times("\u9996\u9875\n\u65b0\u95fb\n\u8054\u7cfb\u6211\u4eec\n", 12));
  EXPECT_TRUE(menu.breaks("zh.short_lines"));
  EXPECT_TRUE(menu.breaks("zh.punctuation"));
  EXPECT_TRUE(menu.breaks("zh.duplicate_lines"));
}

}  // namespace
}  // namespace athanor::tests::heuristics_zh_test
