// generate: what of a prompt is read, where the context ends, and where a prompt may come from.
#include <gmock/gmock.h>

#include "apps/small_run.h"

namespace athanor::tests::generate_command_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GenerateCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    train(place, "t", {"train.steps=1"});
  }
  Outcome generate(const std::vector<std::string>& more, ProgramOptions options = {}) {
    std::vector<std::string> words = {"generate", "runs/t", "--greedy"};
    words.insert(words.end(), more.begin(), more.end());
    return place.run(words, std::move(options));
  }
  const Workplace place;
};

TEST_F(GenerateCommand, SaysWhatTheContextLeavesOut) {
  const std::string prompt(40, 'a');  // a token each; the model has a context of 32
  const Outcome cut = generate({"--prompt", prompt, "--max-tokens", "1"});
  EXPECT_EQ(cut.exit_code, 0) << cut.all();
  EXPECT_THAT(cut.err,
              HasSubstr("the prompt has 40 tokens and the model a context of 32: the first 8 are not read"));
  const Outcome shifted = generate({"--prompt", "abcd", "--max-tokens", "60"});
  EXPECT_THAT(shifted.err, HasSubstr("the context of 32 tokens was full after 29 new tokens"));
  EXPECT_THAT(shifted.err, HasSubstr("the newest 16 to 32 only"));
  EXPECT_THAT(generate({"--prompt", "abcd", "--max-tokens", "28"}).err, Not(HasSubstr("warning")));
  EXPECT_THAT(generate({"--prompt", prompt.substr(0, 32), "--max-tokens", "1"}).err,
              Not(HasSubstr("warning")));
}

TEST_F(GenerateCommand, ReadsWhatIsPipedInWithoutAPrompt) {
  const Outcome asked = generate({"--prompt", "ab", "--max-tokens", "3"});
  const Outcome piped = generate({"--max-tokens", "3"}, {.input = "ab"});
  EXPECT_EQ(piped.out, asked.out);
  EXPECT_EQ(generate({"--prompt-file", "-", "--max-tokens", "3"}, {.input = "ab"}).out, asked.out);
  EXPECT_EQ(generate({"--prompt", "ab", "--max-tokens", "3"}, {.input = "zz"}).out, asked.out);
}

TEST_F(GenerateCommand, AnswersByAChatTemplate) {
  place.write("chat.jinja",
              "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}{% if add_generation_prompt "
              "%}so {% endif %}");
  place.write("talk.json", R"([{"role": "system", "content": "be"}, {"role": "user", "content": "ab"}])");
  const std::vector<std::string> how = {"--max-tokens", "9", "--json"};
  const auto json = [&](const std::vector<std::string>& more) {
    const Outcome done = generate(more + how);
    EXPECT_EQ(done.exit_code, 0) << done.all();
    return Json::parse(done.out);
  };
  const std::string rendered = "system be user ab so ";
  const Json asked = json({"--chat", "--system", "be", "--prompt", "ab", "--template", "chat.jinja"});
  EXPECT_EQ(asked["prompt"], rendered);
  EXPECT_EQ(json({"--messages", "talk.json", "--template", "chat.jinja"})["text"], asked["text"]);
  EXPECT_EQ(json({"--prompt", rendered})["text"], asked["text"]);
  // Without a template the user's text and a line end, as such conversations are learned.
  EXPECT_EQ(json({"--chat", "--prompt", "ab"})["prompt"], "ab\n");
  EXPECT_EQ(generate({"--system", "be", "--prompt", "ab"}).exit_code, 2);
  EXPECT_THAT(generate({"--chat", "--system", "be", "--prompt", "ab"}).err,
              HasSubstr("has no chat template"));
  place.write("broken.jinja", "\n{% nonsense %}");
  EXPECT_THAT(generate({"--chat", "--prompt", "ab", "--template", "broken.jinja"}).err,
              HasSubstr("broken.jinja line 2: got the statement 'nonsense'"));
}

TEST_F(GenerateCommand, EndsBeforeAStopString) {
  const auto json = [&](const std::vector<std::string>& more) {
    return Json::parse(
        generate(more + std::vector<std::string>{"--prompt", "ab", "--max-tokens", "12", "--json"}).out);
  };
  const std::string text = json({})["text"];
  ASSERT_GT(text.size(), 6u);
  const std::string stop = text.substr(3, 2);
  const Json stopped = json({"--stop", "not there", "--stop", stop});
  EXPECT_EQ(stopped["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["stop"], stop);
  EXPECT_EQ(json({"--stop", "not there"})["text"], text);
  const Outcome shown = generate({"--prompt", "ab", "--max-tokens", "12", "--no-prompt", "--stop", stop});
  EXPECT_EQ(shown.out, text.substr(0, text.find(stop)) + "\n");
  EXPECT_EQ(generate({"--prompt", "ab", "--stop", ""}).exit_code, 2);
}

// The folder of a tokenizer says how a run's documents end and what export writes.
TEST_F(GenerateCommand, ARunKeepsTheFilesBesideItsTokenizer) {
  Json tokenizer = Json::parse(place.read("tokenizer.json"));
  const int id = static_cast<int>(tokenizer["model"]["vocab"].size()) + 7;  // the ids before it stay free
  tokenizer["added_tokens"].push_back({{"id", id}, {"content", "<END>"}, {"special", true}});
  place.write("own/tokenizer.json", tokenizer.dump());
  place.write("own/tokenizer_config.json", R"({"eos_token": "<END>", "chat_template": "{{ x }}"})");
  EXPECT_THAT(place.output_of({"tokenizer", "inspect", "own"}),
              HasSubstr("end_of_text    " + std::to_string(id)));
  train(place, "own", {"train.steps=1", "data.tokenizer=own/tokenizer.json"});
  place.output_of({"checkpoint", "export-hf", "runs/own", "hf"});
  EXPECT_EQ(place.read("hf/tokenizer_config.json"), place.read("own/tokenizer_config.json"));
  EXPECT_EQ(Json::parse(place.read("hf/config.json"))["eos_token_id"], id);
  // The same in a file of another name stands alone.
  place.write("own/other.json", tokenizer.dump());
  EXPECT_THAT(place.output_of({"tokenizer", "inspect", "own/other.json"}), HasSubstr("by its name"));
}

TEST_F(GenerateCommand, DocumentsThatRunTogetherAreSaid) {
  std::string unnamed = place.read("tokenizer.json");
  const std::string usual = "<|endoftext|>";
  for (size_t at = unnamed.find(usual); at != std::string::npos; at = unnamed.find(usual))
    unnamed.replace(at, usual.size(), "<my end>");
  place.write("plain.json", unnamed);
  const std::vector<std::string> build = {"dataset", "build", "--output", "out/x", "zh.jsonl", "--tokenizer"};
  EXPECT_THAT(place.run(build + std::vector<std::string>{"plain.json"}).err, HasSubstr("no end of text"));
  EXPECT_THAT(place.run(build + std::vector<std::string>{"tokenizer.json"}).err,
              Not(HasSubstr("no end of text")));
  place.write("v/vocab.json", R"({"a": 0, "b": 1})");
  place.write("v/merges.txt", "\xEF\xBB\xBF");
  const std::vector<std::string> import = {"tokenizer", "import",       "--vocab", "v/vocab.json",
                                           "--merges",  "v/merges.txt", "-o",      "imported.json"};
  EXPECT_THAT(place.output_of(import), HasSubstr("no end of text"));
  place.write("v/added_tokens.json", R"({"<|endoftext|>": 2, "<END>": 3})");
  EXPECT_THAT(place.output_of(import), HasSubstr("end of text '<|endoftext|>' (2)"));
  place.write("v/tokenizer_config.json", R"({"eos_token": "<END>"})");
  EXPECT_THAT(place.output_of(import), HasSubstr("named by tokenizer_config.json: eos_token alone"));
}

}  // namespace
}  // namespace athanor::tests::generate_command_test
