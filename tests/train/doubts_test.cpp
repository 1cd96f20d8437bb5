#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/data/dataset.h"
#include "athanor/run/doubtful_data.h"
#include "athanor/run/resume_changes.h"
#include "data/fakes.h"

namespace athanor::tests::doubts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LossWatch, SaysOnceThatALossStaysAboveItsFirstValue) {
  LossWatch watch;
  EXPECT_FALSE(watch.after(1, 5.0));
  for (int64_t step = 2; step <= 20; ++step) EXPECT_FALSE(watch.after(step, 5.5));
  EXPECT_FALSE(watch.after(21, 4.9));  // it has come down: the count begins again
  for (int64_t step = 22; step <= 40; ++step) EXPECT_FALSE(watch.after(step, 6.0));
  const auto said = watch.after(41, 6.0);
  ASSERT_TRUE(said);
  EXPECT_THAT(*said, HasSubstr("step 41: the loss has been above its first value, 5.0000, for 20 steps"));
  for (int64_t step = 42; step <= 90; ++step) EXPECT_FALSE(watch.after(step, 6.0));
}

TEST(LossWatch, ARunThatIsResumedHasItsFirstValueFromBefore) {
  LossWatch watch(3.0), unknown(std::numeric_limits<double>::quiet_NaN());
  bool said = false;
  for (int64_t step = 100; step < 120; ++step) {
    said = watch.after(step, 4.0).has_value();
    EXPECT_FALSE(unknown.after(step, 4.0));
  }
  EXPECT_TRUE(said);
}

std::vector<std::string> changes(const std::vector<std::string>& then, const std::vector<std::string>& now) {
  const auto read = [](const std::vector<std::string>& sets) { return parse_config("", "t.toml", "", sets); };
  // As a checkpoint has it.
  return resume_changes(parse_config(print_config(read(then)), "c"), read(now), 180);
}

TEST(ResumeChanges, EachSettingIsALine) {
  EXPECT_THAT(changes({}, {}), IsEmpty());
  EXPECT_THAT(
      changes({}, {"optimizer.lr=1e-2"}),
      ElementsAre("changed since step 180: optimizer.lr 0.0003 -> 0.01",
                  HasSubstr("the learning rate of step 181 is 0.00982 now; it would have been 0.000295")));
  EXPECT_THAT(changes({}, {"optimizer.weight_decay=0"}),
              ElementsAre("changed since step 180: optimizer.weight_decay 0.1 -> 0.0"));
  EXPECT_THAT(changes({}, {"parallel.zero_stage=1", "parallel.tp=2"}),
              ElementsAre("changed since step 180: parallel.tp 1 -> 2",
                          "changed since step 180: parallel.zero_stage 0 -> 1"));
  EXPECT_THAT(changes({}, {"train.steps=2000"}),
              ElementsAre("changed since step 180: train.steps 1000 -> 2000",
                          HasSubstr("the learning rate of step 181")));
  EXPECT_THAT(changes({"schedule.decay=constant"}, {"schedule.decay=constant", "train.steps=2000"}),
              ElementsAre("changed since step 180: train.steps 1000 -> 2000"));
  // What a budget picks is picked again.
  EXPECT_THAT(changes({"parallel.recompute_budget=1GiB", "parallel.recompute=full"},
                      {"parallel.recompute_budget=1GiB"}),
              IsEmpty());
}

TEST(ResumeChanges, OtherDataAreNamed) {
  const std::string then =
      "data: seq_len=32 valid_fraction=0.1 tokenizer=aaaabbbb\nchannel 'en': weight=1 tokens=10 content=aa\n";
  const auto with = [&](const std::string& what, const std::string& other) {
    std::string now = then;
    now.replace(now.find(what), what.size(), other);
    return data_change(then, now);
  };
  EXPECT_EQ(with("aaaabbbb", "ccccdddd"), "data: the tokenizer's hash changed from aaaabbbb to ccccdddd");
  EXPECT_EQ(with("tokens=10", "tokens=12"), "channel 'en': the tokens changed from 10 to 12");
  EXPECT_EQ(with("content=aa", "content=bb"), "channel 'en': the content's hash changed from aa to bb");
  EXPECT_THAT(with("'en'", "'fr'"), HasSubstr("changed from 'channel 'en'"));
  EXPECT_EQ(data_change(then, then + "channel 'zh': weight=1\n"), "data.channels: their number changed");
}

class DoubtfulData : public FolderTest {};

TEST_F(DoubtfulData, ManyEpochsAndALargeVocabularyAreNamed) {
  write("a.txt", std::string(5000, 'a'));
  write("b.txt", std::string(50000, 'b'));
  const auto doubts = [&](const std::vector<std::string>& sets) {
    std::vector<std::string> all = {
        "data.channels=[{name='a',path='" + path("a.txt") + "'},{name='b',path='" + path("b.txt") + "'}]",
        "data.seq_len=32", "data.cache=" + path("cache"), "train.global_batch_size=10",
        "train.micro_batch_size=1"};
    all.insert(all.end(), sets.begin(), sets.end());
    Config config = parse_config("", "t.toml", "", all);
    const auto tokenizer = std::make_shared<ByteTokenizer>();
    resolve_model(config, tokenizer->vocab_size());
    DatasetOptions options;
    options.tokenizer = tokenizer;
    const Dataset data = open_dataset(config, env_, options);
    return doubtful_data(config, data);
  };
  EXPECT_THAT(doubts({"train.steps=30"}), IsEmpty());
  // 300 steps of 320 tokens, half from each.
  EXPECT_THAT(doubts({"train.steps=300"}),
              ElementsAre(testing::AllOf(HasSubstr("more than four epochs: 9.7 of 'a'"),
                                         testing::Not(HasSubstr("'b'")))));
  EXPECT_THAT(doubts({"train.steps=30", "model.vocab_size=1024"}),
              ElementsAre(HasSubstr("model.vocab_size = 1,024 is far above")));
}

}  // namespace
}  // namespace athanor::tests::doubts_test
