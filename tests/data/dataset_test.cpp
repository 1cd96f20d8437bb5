#include "athanor/data/dataset.h"

#include <gmock/gmock.h>

#include "athanor/data/ledger.h"
#include "data/fakes.h"

namespace athanor::tests::dataset_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DatasetTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write("data/en/a.txt", std::string(500, 'a'));
    write("data/code.jsonl", "{\"text\":\"int main() { return 0; } // some code to read\"}\n");
    config_.data.channels = {{"en", path("data/en"), 0.7}, {"code", path("data/code.jsonl"), 0.3}};
    config_.data.seq_len = 8;
    config_.data.valid_fraction = 0.1;
    config_.train.runs = path("runs");
  }
  Dataset open(std::shared_ptr<const Tokenizer> tokenizer) {
    return open_dataset(config_, env_,
                        {.threads = 2, .vocab_size = 0, .tokenizer = std::move(tokenizer), .progress = {}});
  }
  Dataset open() { return open(tokenizer_); }
  Config config_;
  std::shared_ptr<const Tokenizer> tokenizer_ = std::make_shared<ByteTokenizer>();
};

TEST_F(DatasetTest, OpensTextThroughTheCacheBesideIt) {
  const Dataset dataset = open();
  ASSERT_EQ(dataset.channels.size(), 2u);
  EXPECT_EQ(dataset.vocab_size, 257);
  EXPECT_EQ(dataset.channels[0].name(), "en");
  EXPECT_EQ(dataset.channels[0].num_tokens(), 501);
  EXPECT_EQ(dataset.channels[1].bytes_of(0, dataset.channels[1].num_tokens()), 45);
  EXPECT_EQ(dataset.num_train_tokens(), 450 + 41);
  EXPECT_EQ(dataset.channels[1].name(), "code");
  EXPECT_TRUE(env_.is_folder(path("runs/.cache")));
  EXPECT_EQ(open().identity, dataset.identity);
  config_.data.cache = path("elsewhere");
  EXPECT_EQ(open().identity, dataset.identity);
  EXPECT_TRUE(env_.is_folder(path("elsewhere")));
}

TEST_F(DatasetTest, OpensTokenFilesWithoutATokenizer) {
  build_token_file(env_, *tokenizer_, {path("data/en")}, path("tokens/en"), {});
  config_.data.channels = {{"en", path("tokens/en"), 1}};
  EXPECT_THAT(failure_of([&] { open(nullptr); }), HasSubstr("model.vocab_size"));
  config_.model.vocab_size = 300;
  const Dataset dataset = open(nullptr);
  EXPECT_EQ(dataset.vocab_size, 300);
  EXPECT_EQ(dataset.channels[0].num_tokens(), 501);
  EXPECT_EQ(dataset.channels[0].bytes_of(0, 5), 5);  // the file knows of its text
  for (const char* suffix : {".bin", ".idx"}) {
    config_.data.channels[0].path = path("tokens/en") + suffix;
    EXPECT_EQ(open(nullptr).identity, dataset.identity);
  }
}

TEST_F(DatasetTest, TheIdentityNamesWhatChanged) {
  const std::string before = open().identity;
  const auto changed = [&](const std::function<void()>& change) {
    const Config saved = config_;
    change();
    const std::string after = open().identity;
    config_ = saved;
    return after != before;
  };
  EXPECT_TRUE(changed([&] { config_.data.seq_len = 9; }));
  EXPECT_TRUE(changed([&] { config_.data.valid_fraction = 0.2; }));
  EXPECT_TRUE(changed([&] { config_.data.channels[0].weight = 0.6; }));
  EXPECT_TRUE(changed([&] { config_.data.channels[0].name = "english"; }));
  EXPECT_TRUE(changed([&] { std::swap(config_.data.channels[0], config_.data.channels[1]); }));
  EXPECT_FALSE(changed([&] { config_.train.steps = 77; }));
  EXPECT_NE(open(std::make_shared<ByteTokenizer>("other")).identity, before);
  write("data/en/a.txt", std::string(499, 'a') + "b");
  EXPECT_NE(open().identity, before);
}

TEST_F(DatasetTest, SettingsThatDoNotFitAreRefused) {
  const auto refused = [&](const std::function<void(Config&)>& change,
                           std::shared_ptr<const Tokenizer> tokenizer) {
    const Config saved = config_;
    change(config_);
    std::string message;
    try {
      open(std::move(tokenizer));
    } catch (const ConfigError& error) {
      message = error.what();
    }
    config_ = saved;
    return message;
  };
  EXPECT_THAT(refused([](Config& c) { c.data.channels.clear(); }, tokenizer_), HasSubstr("data.channels"));
  EXPECT_THAT(refused([](Config&) {}, nullptr), HasSubstr("vocab_size"));
  EXPECT_THAT(refused([](Config& c) { c.model.vocab_size = 300; }, nullptr),
              AllOf(HasSubstr("data.tokenizer"), HasSubstr("'en'")));
  EXPECT_THAT(refused([](Config& c) { c.model.vocab_size = 256; }, tokenizer_),
              AllOf(HasSubstr("256"), HasSubstr("257")));
  EXPECT_THAT(refused([](Config& c) { c.data.channels[1].name = "en"; }, tokenizer_),
              HasSubstr("two are named 'en'"));
  EXPECT_THAT(refused([&](Config& c) { c.data.channels[1].path = path("none"); }, tokenizer_),
              AllOf(HasSubstr("channel 'code'"), HasSubstr("none")));
  EXPECT_THAT(failure_of([&] {
                config_.data.channels[1].path = write("data/empty.txt", "");
                open();
              }),
              AllOf(HasSubstr("channel 'code'"), HasSubstr("empty.txt")));
}

TEST_F(DatasetTest, IdsOfAnotherTokenizerAreRefused) {
  build_token_file(env_, ByteTokenizer("other"), {path("data/en")}, path("tokens/en"), {});
  config_.data.channels = {{"en", path("tokens/en"), 1}};
  EXPECT_THAT(failure_of([&] { open(); }), AllOf(HasSubstr("channel 'en'"), HasSubstr("another tokenizer")));
  std::filesystem::remove(path("tokens/en.meta.json"));  // as Megatron's files are: nothing is known
  EXPECT_EQ(open().channels.size(), 1u);
}

TEST_F(DatasetTest, DamagedTokenFilesAreNamed) {
  build_token_file(env_, *tokenizer_, {path("data/en")}, path("tokens/en"), {});
  config_.data.channels = {{"en", path("tokens/en"), 1}};
  std::string idx = env_.read_text(path("tokens/en.idx"));
  write("tokens/en.idx", idx.substr(0, idx.size() - 1));
  EXPECT_THAT(failure_of([&] { open(); }), HasSubstr("en.idx"));
  std::filesystem::remove(path("tokens/en.idx"));
  EXPECT_THAT(failure_of([&] { open(); }), HasSubstr("en.idx"));
}

TEST(LedgerTest, ProvesARun) {
  const Sampler sampler({{"en", 0.7, 50}, {"code", 0.3, 7}, {"off", 0, 0}}, 3, 12);
  const LedgerReport report = check_ledger(sampler, 1, 60);
  EXPECT_EQ(report.samples, 720);
  ASSERT_EQ(report.channels.size(), 3u);
  EXPECT_EQ(report.channels[0].samples, 504);
  EXPECT_EQ(report.channels[0].whole_epochs, 10);
  EXPECT_EQ(report.channels[1].whole_epochs, 30);
  EXPECT_EQ(report.channels[1].last_epoch, 30);
  EXPECT_EQ(report.channels[2].samples, 0);
  EXPECT_EQ(check_ledger(sampler, 1, 60).hash, report.hash);
  EXPECT_NE(check_ledger(Sampler(sampler.channels(), 4, 12), 1, 60).hash, report.hash);
  EXPECT_NO_THROW(check_ledger(sampler, 17, 60));
  std::string csv;
  write_ledger(sampler, 1, 60, [&](std::string_view lines) { csv += lines; });
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 721);
  EXPECT_TRUE(csv.starts_with("step,slot,channel,epoch,sequence\n1,0,0,0,"));
}

// Of all samples of two runs, from before phases were there: whoever changes these breaks the resume of every run.
TEST(LedgerTest, TheOrderOfARunWithoutPhasesIsPinned) {
  EXPECT_EQ(check_ledger(Sampler({{"en", 0.7, 1000}, {"code", 0.3, 77}}, 1, 4), 1, 500).hash,
            "eca6a0e0c3359e912e050dcfdcc68248");
  EXPECT_EQ(check_ledger(Sampler({{"en", 0.5, 50}, {"a.b", 0.5, 7}}, 3, 12), 7, 90).hash,
            "67c89fcf599635869628e62bbe3dbd95");
}

// A phase is a run of its own to the ledger: its epochs begin with its first step.
TEST(LedgerTest, ProvesAPhase) {
  const Sampler sampler({{"en", 0.7, 50}, {"code", 0.3, 7}}, 3, 12, {"long context", 31});
  const LedgerReport report = check_ledger(sampler, 31, 90);
  EXPECT_EQ(report.channels[0].whole_epochs, 10);
  EXPECT_EQ(report.channels[1].whole_epochs, 30);
  EXPECT_EQ(report.channels[1].first_epoch, 0);
  EXPECT_NO_THROW(check_ledger(sampler, 47, 90));
  EXPECT_THAT(failure_of([&] { check_ledger(sampler, 30, 90); }), HasSubstr("from 31 up"));
}

// The check must see each way in which a sampler could break the law.
TEST(LedgerTest, SeesEveryViolation) {
  const auto verdict = [](bool from_start, const std::vector<Sample>& samples) {
    LedgerCheck ledger({{"en", 1, 3}}, from_start);
    return failure_of([&] {
      for (size_t i = 0; i < samples.size(); ++i) ledger.add(1, static_cast<int64_t>(i), samples[i]);
    });
  };
  EXPECT_EQ(verdict(true, {{0, 0, 2}, {0, 0, 0}, {0, 0, 1}, {0, 1, 1}}), "");
  EXPECT_EQ(verdict(false, {{0, 5, 2}, {0, 6, 2}, {0, 6, 0}, {0, 6, 1}}), "");
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 0, 2}}), HasSubstr("twice"));
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 0, 1}, {0, 1, 0}}),
              HasSubstr("before the last epoch was complete"));
  EXPECT_THAT(verdict(false, {{0, 5, 2}, {0, 6, 2}, {0, 7, 0}}),
              HasSubstr("before the last epoch was complete"));
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 2, 1}}), HasSubstr("does not follow"));
  EXPECT_THAT(verdict(true, {{0, 0, 2}, {0, 0, 1}, {0, 0, 0}, {0, 0, 1}}), HasSubstr("twice"));
  EXPECT_THAT(verdict(true, {{0, 1, 0}}), HasSubstr("first epoch"));
  EXPECT_THAT(verdict(true, {{0, 0, 3}}), HasSubstr("no such sequence"));
  EXPECT_THAT(verdict(true, {{1, 0, 0}}), HasSubstr("channel 1"));
}

TEST_F(DatasetTest, AValidPathIsHeldOutAndPartOfTheIdentity) {
  const std::string before = open().identity;
  write("test/a.txt", "held out");
  config_.data.channels[1].valid_path = path("test");
  const Dataset dataset = open();
  EXPECT_EQ(dataset.channels[0].num_valid_tokens(), 51);
  EXPECT_EQ(dataset.channels[1].num_train_tokens(), 46);
  EXPECT_EQ(dataset.channels[1].num_valid_tokens(), 9);
  EXPECT_EQ(dataset.channels[1].valid_bytes_of(0, 9), 8);
  EXPECT_NE(dataset.identity, before);
  write("test/a.txt", "HELD out");
  EXPECT_NE(open().identity, dataset.identity);
  config_.data.channels[1].valid_path = path("nowhere");
  EXPECT_THAT(failure_of([&] { open(); }), AllOf(HasSubstr("'code'"), HasSubstr("nowhere")));
  build_token_file(env_, *tokenizer_, {path("test")}, path("tokens/test"), {});
  config_.data.channels[1].valid_path = path("tokens/test.bin");
  EXPECT_EQ(open().channels[1].num_valid_tokens(), 9);
}

TEST_F(DatasetTest, WhatIsLeftOutIsSaidAtEveryStart) {
  write("data/en/notes.txt", std::string("\xff\xfe"
                                         "a\0",
                                         4));
  write("data/en/table.parquet", std::string("PAR1\x15\0", 6));
  for (int start = 0; start < 2; ++start) {  // the second finds the text tokenized
    const Dataset dataset = open();
    ASSERT_EQ(dataset.left_out.size(), 2u);
    EXPECT_EQ(dataset.left_out[0].channel, "en");
    EXPECT_EQ(dataset.left_out[1].what, (LeftOut{"table.parquet", "a Parquet file"}));
    ASSERT_EQ(dataset.remarks.size(), 1u);
    EXPECT_THAT(dataset.remarks[0],
                AllOf(HasSubstr("channel 'en'"), HasSubstr("notes.txt (UTF-16"), HasSubstr("table.parquet")));
  }
}

TEST_F(DatasetTest, ATextKeyWithoutJsonIsRefused) {
  config_.data.text_key = "body";
  config_.data.channels = {{"en", path("data/en"), 1}};
  EXPECT_THAT(failure_of([&] { open(); }), HasSubstr("data.text_key: got 'body'"));
  write("data/en/b.json", "[{\"body\": \"x\"}]");
  EXPECT_EQ(open().channels[0].num_tokens(), 501 + 2);
}

}  // namespace
}  // namespace athanor::tests::dataset_test
