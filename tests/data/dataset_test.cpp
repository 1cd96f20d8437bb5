#include "athanor/data/dataset.h"

#include <gmock/gmock.h>

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

// The steps are those of the phase, and the weights that follow are part of what a resumed run must find.
TEST_F(DatasetTest, EpochsBecomeWeights) {
  config_.data.channels = {{"en", path("data/en")},
                           {.name = "code", .path = path("data/code.jsonl"), .epochs = 3}};
  config_.train.global_batch_size = 4;
  config_.train.steps = 25;
  const Dataset dataset = open();
  const double of_code = 3.0 * static_cast<double>(dataset.channels[1].num_train_sequences()) / 100.0;
  EXPECT_DOUBLE_EQ(dataset.channels[1].weight(), of_code);
  EXPECT_DOUBLE_EQ(dataset.channels[0].weight(), 1 - of_code);
  config_.train.steps = 50;
  EXPECT_NE(open().identity, dataset.identity);
  EXPECT_EQ(open_dataset(config_, env_, {.steps = 25, .tokenizer = tokenizer_, .progress = {}}).identity,
            dataset.identity);
  config_.data.temperature = 1;
  EXPECT_THAT(failure_of([&] { open(); }),
              HasSubstr("channel 'code': got epochs = 3 beside data.temperature = 1"));
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
