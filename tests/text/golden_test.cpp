// Against Hugging Face tokenizers: golden/huggingface.json, written by golden/make_golden.js.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"
#include "athanor/text/unicode.h"
#include "support/places.h"

namespace athanor::tests::golden_test {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json =
      Json::parse(system_env().read_text(of_source("tests/text/golden/huggingface.json")));
  return json;
}

std::shared_ptr<const Tokenizer> tokenizer_of_case(const Json& test_case) {
  Json file = test_case["parts"];
  file["version"] = "1.0";
  file["model"] = golden()["models"][test_case["model"].get<std::string>()];
  return Tokenizer::parse(file.dump(), test_case["name"]);
}

class Golden : public testing::TestWithParam<int> {};

TEST_P(Golden, EncodesAndDecodesAsHuggingFace) {
  const Json& test_case = golden()["cases"].at(static_cast<size_t>(GetParam()));
  const auto tokenizer = tokenizer_of_case(test_case);
  const Json& texts = golden()["texts"];
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    SCOPED_TRACE(test_case["name"].get<std::string>() + ": " + texts[i].dump());
    const auto expected = test_case["ids"][i].get<std::vector<int32_t>>();
    std::vector<int32_t> ids;
    ASSERT_NO_THROW(ids = tokenizer->encode(text));
    EXPECT_EQ(ids, expected);
    const std::string decoded = tokenizer->decode(expected);
    const Json& theirs = test_case["decoded"][i];
    if (theirs.is_null() || text::find_invalid_utf8(decoded) != std::string::npos)
      continue;  // they write U+FFFD
    EXPECT_EQ(decoded, theirs.get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::Range(0, static_cast<int>(golden()["cases"].size())),
                         [](const auto& item) {
                           std::string name = golden()["cases"][static_cast<size_t>(item.param)]["name"];
                           for (char& c : name)
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

// Their trainer seeds only the characters it saw, ours all 256 bytes: the merges must be the same.
TEST(GoldenTraining, LearnsTheMergesThatHuggingFaceLearns) {
  TokenizerTrainer trainer({.special_tokens = {}});
  trainer.add(golden()["sample"].get<std::string>());
  std::vector<std::string> theirs;
  for (const Json& merge : golden()["models"]["bytes_trained"]["merges"])
    theirs.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  EXPECT_GT(theirs.size(), 100u);
  EXPECT_EQ(Json::parse(trainer.finish())["model"]["merges"], theirs);
}

}  // namespace
}  // namespace athanor::tests::golden_test
