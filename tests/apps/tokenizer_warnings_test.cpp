// What a tokenizer warns of is said by every command that loads it, once.
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::tokenizer_warnings_test {
namespace {

constexpr const char* kLeftOut = "names no unk_token: characters that the vocabulary lacks are left out";

// Small letters and what stands between words, as pieces of a BPE that has no piece for all others.
std::string tokenizer_without_unknown() {
  Json vocabulary = Json::object();
  vocabulary["<|endoftext|>"] = 0;
  int id = 1;
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary[std::string(1, letter)] = id++;
  for (const char* other : {" ", ".", "\n"}) vocabulary[other] = id++;
  return Json{{"version", "1.0"},
              {"added_tokens", Json::array({{{"id", 0}, {"content", "<|endoftext|>"}, {"special", true}}})},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}
      .dump();
}

int64_t times(const std::string& text) {
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(kLeftOut, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(TokenizerWarnings, ComeFromEveryCommandThatLoadsOne) {
  const Workplace place;
  make_small_run(place);
  place.write("tokenizer.json", tokenizer_without_unknown());
  place.write("model/tokenizer.json", tokenizer_without_unknown());
  place.write("ids.json", "[1,2]");
  using Arguments = std::vector<std::string>;
  const auto expect_warning = [&](const Arguments& arguments, int64_t count = 1) {
    const Outcome outcome = place.run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_EQ(times(outcome.out + outcome.err), count) << arguments[0] << " " << outcome.all();
  };
  const Arguments with = {"--tokenizer", "tokenizer.json"};
  expect_warning(Arguments{"tokenizer", "encode", "--input", "en.txt"} + with);
  expect_warning(Arguments{"tokenizer", "decode", "--input", "ids.json"} + with);
  expect_warning(Arguments{"tokenizer", "inspect", "tokenizer.json"});
  expect_warning(Arguments{"tokenizer", "compare", "tokenizer.json", "model", "en.txt"}, 2);
  expect_warning(Arguments{"dataset", "build", "--output", "tokens/en", "en.txt"} + with);
  expect_warning(Arguments{"dataset", "inspect", "tokens/en"} + with);
  expect_warning(Arguments{"dataset", "preview", "run.toml"});
  expect_warning(Arguments{"dataset", "ledger", "run.toml"});
  expect_warning(train_arguments("t", until(2)));
  expect_warning(Arguments{"dataset", "verify", "--ledger", "runs/t"});
  expect_warning(Arguments{"evaluate", "runs/t"});
  expect_warning(Arguments{"generate", "runs/t", "--prompt", "ab", "--max-tokens", "2"});
  expect_warning(Arguments{"verify", "run.toml", "--set", "train.steps=1"});
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  expect_warning(Arguments{"checkpoint", "import-hf", "hf", "imported"});
}

}  // namespace
}  // namespace athanor::tests::tokenizer_warnings_test
