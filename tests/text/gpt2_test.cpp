// The published GPT-2 vocabulary, against ids made by tiktoken (golden/make_gpt2_golden.js).
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/text/formats/gpt2.h"
#include "athanor/text/tokenizer.h"
#include "support/places.h"
#include "support/temporary_folder.h"

namespace athanor::tests::gpt2_test {
namespace {

using Json = nlohmann::json;

class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("ATHANOR_TEST_DATA");
    if (!folder) GTEST_SKIP() << "ATHANOR_TEST_DATA is not set: no published vocabulary to read";
    data_ = folder;
    const std::string bpe = data_ + "/gpt2_bpe/";
    tokenizer_ =
        Tokenizer::parse(import_gpt2(system_env(), bpe + "vocab.json", bpe + "merges.txt", "gpt2"), "gpt2");
  }

  std::string data_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(Gpt2, IdsOfTextsAreTiktokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50256);
  const Json golden = Json::parse(system_env().read_text(of_source("tests/text/golden/gpt2.json")));
  for (const Json& item : golden["texts"]) {
    const auto text = item["text"].get<std::string>();
    EXPECT_EQ(tokenizer_->encode(text), item["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text);
  }
  for (const Json& item : golden["files"]) {
    const std::string text = system_env().read_text(data_ + "/" + item["file"].get<std::string>());
    const std::vector<int32_t> ids = tokenizer_->encode(text);
    EXPECT_EQ(ids.size(), item["count"].get<size_t>()) << item["file"];
    Sha256 hash;
    for (const int32_t id : ids) hash.update(std::to_string(id) + ",");
    EXPECT_EQ(hash.hex(), item["sha256"].get<std::string>()) << item["file"];
    EXPECT_EQ(tokenizer_->decode(ids), text);
  }
}

TEST(ImportGpt2, NamesTheFileAndWhatIsWrongInIt) {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::string& vocab, const std::string& merges) -> std::string {
    system_env().write_atomically(folder.path("vocab.json"), vocab);
    system_env().write_atomically(folder.path("merges.txt"), merges);
    try {
      import_gpt2(system_env(), folder.path("vocab.json"), folder.path("merges.txt"), "gpt2");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";
  EXPECT_EQ(error_of(vocab, "#version: 0.2\r\na b\r\n"), "no error");
  EXPECT_EQ(error_of(vocab, "a b"), "no error");
  EXPECT_NE(error_of(vocab, "a c\n").find("merges.txt: token 'c' of merge 'a c'"), std::string::npos);
  EXPECT_NE(error_of(vocab, "#version: 0.2\na b\nab\n").find("merges.txt: line 3"), std::string::npos);
  EXPECT_EQ(error_of(vocab, "a b\na b\n"),
            "no error");  // the last one counts, as in Hugging Face's tokenizers
  EXPECT_NE(error_of(vocab, "b a\n").find("token 'ba'"), std::string::npos);
  EXPECT_NE(error_of("{", "a b\n").find("vocab.json: not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(R"({"a": 0, "\u4F60": 1})", "").find("stand for no byte"), std::string::npos);
}

}  // namespace
}  // namespace athanor::tests::gpt2_test
