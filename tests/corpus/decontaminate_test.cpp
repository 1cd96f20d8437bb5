// Documents that hold text of evaluation sets are found.
#include "athanor/corpus/filters/decontaminate.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor::tests::decontaminate_test {
namespace {

using corpus::filters::DecontaminateOptions;
using corpus::filters::make_decontaminate;

std::string file(const std::string& name, const std::string& text) {
  const std::string folder = ::testing::TempDir() + "decontaminate_test";
  system_env().create_folders(folder);
  system_env().write_atomically(folder + "/" + name, text);
  return folder + "/" + name;
}

std::vector<double> scores(const DecontaminateOptions& options, const std::string& text) {
  const auto stage = make_decontaminate(options);
  std::vector<double> values(stage->scores().size());
  corpus::Document document{.text = text};
  stage->annotate(document, values);
  return values;
}

constexpr const char* kThirteen = "one two three four five six seven eight nine ten eleven twelve thirteen";

TEST(Decontaminate, ThirteenWordsAreAHitTwelveAreNot) {
  const DecontaminateOptions options{.files = {file("a.txt", kThirteen)}};
  EXPECT_EQ(scores(options, std::string("before ") + kThirteen + " after"), std::vector<double>{1});
  EXPECT_EQ(
      scores(options, "One, TWO three four five six seven eight nine -- ten eleven\ntwelve 'thirteen'!"),
      std::vector<double>{1});
  EXPECT_EQ(scores(options, "one two three four five six seven eight nine ten eleven twelve fourteen"),
            std::vector<double>{0});
  EXPECT_EQ(scores(options, "one two three four five six x eight nine ten eleven twelve thirteen"),
            std::vector<double>{0});
  EXPECT_EQ(scores(options, ""), std::vector<double>{0});
}

TEST(Decontaminate, ALongEntryGivesAllItsNgrams) {
  const std::string fifteen = std::string(kThirteen) + " fourteen fifteen";
  const DecontaminateOptions options{.files = {file("a.txt", fifteen)}};
  EXPECT_EQ(scores(options, fifteen), std::vector<double>{3});
  EXPECT_EQ(
      scores(options, "three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"),
      std::vector<double>{1});
}

TEST(Decontaminate, AShortEntryIsLookedForAsAWhole) {
  const DecontaminateOptions options{
      .files = {file("s.txt", "what is the name of this old river\ntoo short to count")}};
  EXPECT_EQ(scores(options, "He asked: what is the name of this old river? Too short to count."),
            std::vector<double>{1});
  EXPECT_EQ(scores(options, "what is the name of this old bridge"), std::vector<double>{0});
  EXPECT_THROW(make_decontaminate({.files = {file("t.txt", "a b c d e f g")}}), Error);
}

TEST(Decontaminate, AnIdeographIsAWord) {
  const DecontaminateOptions options{.files = {file("zh.txt", "中国最长的河流是哪一条河流呢")}};  // 14
  EXPECT_EQ(scores(options, "问：中国最长的河流，是哪一条河流呢？"), std::vector<double>{2});
  EXPECT_EQ(scores(options, "中国最长的河流是那一条河流呢"), std::vector<double>{0});
}

TEST(Decontaminate, TasksOfJsonLinesAreToldApart) {
  const std::string other = "a b c d e f g h";
  const DecontaminateOptions options{
      .files = {file("one.jsonl", std::string("{\"question\": \"") + kThirteen +
                                      "\", \"n\": 1}\n\n{\"choices\": [\"" + other + "\", \"no\"]}\n"),
                file("two.v1.txt", other)},
      .keys = {"question", "choices"},
      .most = 1};
  const auto stage = make_decontaminate(options);
  EXPECT_EQ(stage->scores()[0].name, "decontaminate.one");
  EXPECT_EQ(stage->scores()[1].name, "decontaminate.two");
  const std::vector<double> values = scores(options, std::string(kThirteen) + " " + other);
  EXPECT_EQ(values, (std::vector<double>{2, 1}));
  EXPECT_EQ(first_broken(stage->rules(), values)->name, "decontaminate.one");
  EXPECT_EQ(first_broken(stage->rules(), std::vector<double>{1, 1}), nullptr);
}

TEST(Decontaminate, BadFilesAreNamed) {
  EXPECT_THROW(make_decontaminate({.files = {file("b.jsonl", "{\"text\": ")}}), Error);
  EXPECT_THROW(make_decontaminate({.files = {file("b.jsonl", "{\"other\": \"x\"}")}}), Error);
  EXPECT_THROW(make_decontaminate({.files = {"/nowhere/x.txt"}}), IoError);
  const std::string twice = file("a.txt", kThirteen);
  EXPECT_THROW(make_decontaminate({.files = {twice, twice}}), Error);
  EXPECT_THROW(make_decontaminate({.ngram = 5}), ConfigError);
}

}  // namespace
}  // namespace athanor::tests::decontaminate_test
