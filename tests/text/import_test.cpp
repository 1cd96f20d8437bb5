// vocab.json and merges.txt as editors and downloads leave them, and the files beside them.
#include "athanor/text/formats/gpt2.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"
#include "support/temporary_folder.h"

namespace athanor::tests::import_test {
namespace {

class Import : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder.path(name)) << text; }
  std::shared_ptr<const Tokenizer> import() {
    return Tokenizer::parse(
        import_gpt2(system_env(), folder.path("vocab.json"), folder.path("merges.txt"), "gpt2"), "t");
  }
  const TemporaryFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
};

TEST_F(Import, MarksAndLineEndsOfOtherSystemsAreNoText) {
  for (const std::string& before : {std::string(), mark})
    for (const char* merges : {"#version: 0.2\na b\n", "#version: 0.2\r\na b\r\n", "a b", "a b\n\n"}) {
      write("vocab.json", before + R"({"a": 0, "b": 1, "ab": 2})");
      write("merges.txt", before + merges);
      EXPECT_EQ(import()->encode("ab"), (std::vector<int32_t>{2})) << merges;
    }
}

TEST_F(Import, FindsTheEndInTheFilesBeside) {
  write("vocab.json", R"({"a": 0, "b": 1})");
  write("merges.txt", "");
  EXPECT_EQ(import()->end_of_text(), std::nullopt);
  write("added_tokens.json", R"({"<|endoftext|>": 2, "<|im_start|>": 3})");
  EXPECT_EQ(import()->end_of_text(), 2);
  EXPECT_EQ(import()->encode("<|im_start|>a"), (std::vector<int32_t>{3, 0}));
  write("added_tokens.json", R"({"</s>": 2})");
  EXPECT_EQ(import()->end_of_text(), 2);
  write("added_tokens.json", R"({"<end>": 1})");
  EXPECT_THROW(import(), Error) << "the id of b";
  write("added_tokens.json", R"({})");
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"2": {"content": "<|endoftext|>", "special": true}}})");
  EXPECT_EQ(import()->end_of_text(), 2);
}

}  // namespace
}  // namespace athanor::tests::import_test
