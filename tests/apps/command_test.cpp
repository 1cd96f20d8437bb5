// The other commands as their users meet them: tokenizer, generate, evaluate, bench, doctor, and the help of
// all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/small_run.h"

namespace athanor::tests::command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

TEST(Commands, EveryOneAnswersHelp) {
  const Workplace place;
  const std::vector<std::vector<std::string>> commands = {
      {},
      {"tokenizer"},
      {"tokenizer", "train"},
      {"tokenizer", "encode"},
      {"tokenizer", "decode"},
      {"tokenizer", "inspect"},
      {"tokenizer", "compare"},
      {"tokenizer", "import"},
      {"dataset"},
      {"dataset", "build"},
      {"dataset", "inspect"},
      {"dataset", "verify"},
      {"dataset", "ledger"},
      {"train"},
      {"launch"},
      {"verify"},
      {"chaos"},
      {"evaluate"},
      {"generate"},
      {"checkpoint"},
      {"checkpoint", "list"},
      {"checkpoint", "show"},
      {"checkpoint", "verify"},
      {"checkpoint", "digest"},
      {"checkpoint", "diff"},
      {"checkpoint", "export-hf"},
      {"checkpoint", "import-hf"},
      {"bench"},
      {"bench", "step"},
      {kBench, "gemm"},
      {kBench, "attention"},
      {kBench, "optimizer"},
      {"bench", "comm"},
      {kBench, "data"},
      {kBench, "checkpoint"},
      {"schedule"},
      {"doctor"},
  };
  for (const auto& command : commands)
    for (const char* flag : {"--help", "-h"}) {
      auto arguments = command;
      arguments.push_back(flag);
      const Outcome outcome = place.run(arguments);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
      std::string words = "Usage:";
      const bool measures = !command.empty() && command.front() == kBench;
      if (!measures) words += " athanor";
      for (const std::string& word : command) words += " " + word;
      EXPECT_THAT(outcome.out, HasSubstr(words));
      const bool has_example = outcome.out.find("Example") != std::string::npos;
      const bool is_group = outcome.out.find("SUBCOMMAND") != std::string::npos;
      EXPECT_TRUE(has_example || is_group || measures || command.front() == "bench") << words;
      EXPECT_EQ(outcome.err, "");
    }
  EXPECT_THAT(place.output_of({"--version"}), ::testing::ContainsRegex("^[0-9]+\\.[0-9]+"));
}

class TokenizerCommand : public ::testing::Test {
 protected:
  void SetUp() override { place.write("text/a.txt", text); }
  std::string decode(const std::string& tokenizer, const std::string& ids) {
    return place.output_of({"tokenizer", "decode", "--tokenizer", tokenizer}, {.input = ids});
  }
  Workplace place;
  const std::string text = "天地玄黄 caf\u00e9 \U0001F600\r\n\t" + invented_text(3, 2000);
};

TEST_F(TokenizerCommand, TrainsEncodesAndDecodesToTheSameBytes) {
  for (const char* type : {"byte-bpe", "char"}) {
    const std::string file = std::string(type) + "/tokenizer.json";
    std::vector<std::string> arguments = {"tokenizer", "train", "--type", type, "--output", file, "text"};
    if (type == std::string("byte-bpe")) arguments.insert(arguments.end(), {"--vocab-size", "300"});
    place.output_of(arguments);
    const std::string ids =
        place.output_of({"tokenizer", "encode", "--tokenizer", file, "--input", "text/a.txt"});
    const Json array = Json::parse(ids);
    ASSERT_TRUE(array.is_array());
    EXPECT_EQ(decode(file, ids), text) << type;
    // The same from standard input, and with the folder in place of the file.
    EXPECT_EQ(place.output_of({"tokenizer", "encode", "--tokenizer", type}, {.input = text}), ids);
    const Json facts = Json::parse(place.output_of({"tokenizer", "inspect", file, "--json"}));
    if (type == std::string("byte-bpe")) {
      EXPECT_EQ(facts["vocab_size"], 300);
    }
    for (const Json& id : array) EXPECT_LT(id.get<int64_t>(), facts["vocab_size"].get<int64_t>());
  }
}

TEST_F(TokenizerCommand, ComparesTokenizers) {
  place.write("en.txt", "aa b\n");
  place.write("zh.jsonl", "{\"text\": \"天地\"}\n{\"text\": \"aa 天\"}\n");
  place.write("learned.txt", "aa aa aa b\n");
  place.output_of({"tokenizer", "train", "--type", "char", "--output", "char/tokenizer.json", "learned.txt"});
  place.output_of({"tokenizer", "train", "--vocab-size", "258", "--output", "byte.json", "learned.txt"});
  const Json all = Json::parse(place.output_of(
      {"tokenizer", "compare", "char", "byte.json", "en.txt", "zh.jsonl", "--plot", "out/c.svg", "--json"}));
  ASSERT_EQ(all["tokenizers"].size(), 2);
  const Json &chars = all["tokenizers"][0], &bytes = all["tokenizers"][1];
  EXPECT_EQ(chars["name"], "char");
  EXPECT_EQ(chars["channels"]["en.txt"]["tokens"], 5);
  EXPECT_EQ(chars["channels"]["en.txt"]["words"], 2);
  EXPECT_DOUBLE_EQ(chars["channels"]["en.txt"]["fertility"].get<double>(), 2.5);
  EXPECT_EQ(chars["channels"]["zh.jsonl"]["words"], 4) << "an ideograph is a word";
  EXPECT_EQ(chars["channels"]["zh.jsonl"]["tokens"], 6);
  EXPECT_EQ(chars["channels"]["zh.jsonl"]["unknown"], 3);
  EXPECT_EQ(chars["all"]["bytes"], 5 + 12);
  EXPECT_EQ(chars["pieces"], 6) << "a b space line end, <unk>, end of text";
  EXPECT_EQ(chars["unused_pieces"], 1);
  EXPECT_EQ(bytes["channels"]["en.txt"]["tokens"], 4) << "aa is one";
  EXPECT_EQ(bytes["channels"]["zh.jsonl"]["tokens"], 6 + 1 + 1 + 3);
  EXPECT_EQ(bytes["all"]["unknown"], 0);
  EXPECT_EQ(bytes["pieces"], 258);
  EXPECT_EQ(bytes["unused_pieces"], 258 - 4 - 5) << "aa, b, space, line end, E5 A4 A9 9C B0";
  const std::string svg = place.read("out/c.svg");
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr(">zh.jsonl</text>"));
  const std::string table =
      place.output_of({"tokenizer", "compare", "char", "byte.json", "--text", "en.txt", "--threads", "3"});
  EXPECT_THAT(table, HasSubstr("\nbytes per token\n  channel   bytes   char   byte.json\n"
                               "  en.txt        5   1.00        1.25\n"));
}

TEST_F(TokenizerCommand, CompareSaysWhatIsMissing) {
  place.output_of({"tokenizer", "train", "--type", "char", "--output", "char/tokenizer.json", "text"});
  const auto error = [&](std::vector<std::string> paths) {
    paths.insert(paths.begin(), {"tokenizer", "compare"});
    const Outcome outcome = place.run(paths);
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_THAT(error({"char", "text"}), HasSubstr("got 1 tokenizer (char), expected at least 2"));
  EXPECT_THAT(error({"char", "char/tokenizer.json"}), HasSubstr("tokenizer compare: got no text"));
  EXPECT_EQ(place.run({"tokenizer", "compare", "char", "char", "nowhere"}).exit_code, 1);
}

TEST_F(TokenizerCommand, ByteLevelKnowsEveryText) {
  place.output_of(
      {"tokenizer", "train", "--type", "byte-bpe", "--vocab-size", "280", "--output", "t.json", "text"});
  for (const std::string& strange : {std::string("\u0628\u0627 \U0001F9D1\u200D\U0001F680 \u00a0"),
                                     std::string(), std::string("a\0b", 3), std::string("   \n\n  ")}) {
    place.write("strange", strange);
    EXPECT_EQ(decode("t.json",
                     place.output_of({"tokenizer", "encode", "--tokenizer", "t.json", "--input", "strange"})),
              strange);
  }
  EXPECT_EQ(place.output_of({"tokenizer", "encode", "--tokenizer", "t.json"}, {.input = ""}), "[]\n");
}

TEST_F(TokenizerCommand, ImportsGpt2Files) {
  place.output_of(
      {"tokenizer", "train", "--type", "byte-bpe", "--vocab-size", "300", "--output", "t.json", "text"});
  const Json file = Json::parse(place.read("t.json"));
  Json vocab = Json::object();
  for (const auto& [token, id] : file["model"]["vocab"].items()) vocab[token] = id;
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : file["model"]["merges"])
    merges += (merge.is_array() ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                                : merge.get<std::string>()) +
              "\n";
  place.write("vocab.json", vocab.dump());
  place.write("merges.txt", merges);
  place.output_of(
      {"tokenizer", "import", "--vocab", "vocab.json", "--merges", "merges.txt", "--output", "i.json"});
  const auto encode = [&](const std::string& name) {
    return place.output_of({"tokenizer", "encode", "--tokenizer", name, "--input", "text/a.txt"});
  };
  EXPECT_EQ(decode("i.json", encode("i.json")), text);
  EXPECT_EQ(encode("i.json"), encode("t.json"));
}

TEST_F(TokenizerCommand, Refusals) {
  place.output_of({"tokenizer", "train", "--type", "char", "--output", "c.json", "text"});
  const auto run = [&](std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), "tokenizer");
    return place.run(words, {.input = input});
  };
  const Outcome type = run({"train", "--type", "chars", "--output", "x.json", "text"});
  expect_refused(type, 2, {"chars", "char"});
  expect_refused(run({"train", "--type", "char", "--output", "x.json", "nowhere"}), 1, {"nowhere"});
  expect_refused(run({"train", "--type", "byte-bpe", "--vocab-size", "10", "--output", "x.json", "text"}), 2,
                 {"10"});
  expect_refused(run({"train", "--type", "char", "--output", "text", "text"}), 2, {"text"});
  expect_refused(run({"train", "--type", "char", "text"}), 2, {"--output"});
  expect_refused(run({"encode", "--tokenizer", "nowhere.json"}), 1, {"nowhere.json"});
  expect_refused(run({"encode", "--tokenizer", "c.json", "--input", "nowhere"}), 1, {"nowhere"});
  expect_refused(run({"decode", "--tokenizer", "c.json"}, "[1, 2"), 1, {"standard input"});
  expect_refused(run({"decode", "--tokenizer", "c.json"}, "[1, -2]"), 1, {"-2"});
  expect_refused(run({"decode", "--tokenizer", "c.json"}, "[1, 123456]"), 1, {"123456"});
  expect_refused(run({"import", "--vocab", "nowhere", "--merges", "nowhere", "--output", "x.json"}), 1,
                 {"nowhere"});
  EXPECT_FALSE(place.exists("x.json"));
}

class ModelCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    train(place, "t", {"train.steps=30"});
  }
  Workplace place;
};

TEST_F(ModelCommand, EvaluateShowsEveryChannel) {
  const Json json = Json::parse(place.output_of({"evaluate", "runs/t", "--json"}));
  const Json trained = report(place, "t");
  EXPECT_EQ(json["loss"], trained["valid_loss_last"]);
  EXPECT_EQ(json["step"], 30);
  EXPECT_THAT(keys(json["channels"]), ElementsAre("en", "zh"));
  double nats = 0;
  int64_t tokens = 0;
  for (const auto& [name, channel] : json["channels"].items()) {
    EXPECT_EQ(channel["loss"], trained["channel_loss_last"][name]);
    EXPECT_NEAR(channel["perplexity"], std::exp(channel["loss"].get<double>()), 1e-9);
    // One token is one character: of one byte in English.
    const double per_byte = channel["loss"].get<double>() * channel["tokens"].get<double>() /
                            channel["bytes"].get<double>() / std::log(2.0);
    EXPECT_NEAR(channel["bits_per_byte"], per_byte, 1e-9);
    nats += channel["loss"].get<double>() * channel["tokens"].get<double>();
    tokens += channel["tokens"].get<int64_t>();
  }
  EXPECT_EQ(json["tokens"], tokens);
  EXPECT_NEAR(json["loss"], nats / static_cast<double>(tokens), 1e-9);
  const std::string table = place.output_of({"evaluate", "runs/t"});
  for (const char* word : {"channel", "perplexity", "bits per byte", "en", "zh", "all"})
    EXPECT_THAT(table, HasSubstr(word));
  // A checkpoint like its run; an older one is another model.
  EXPECT_EQ(Json::parse(place.output_of({"evaluate", checkpoint_of("t", 30), "--json"}))["loss"],
            json["loss"]);
  EXPECT_NE(Json::parse(place.output_of({"evaluate", checkpoint_of("t", 28), "--json"}))["loss"],
            json["loss"]);
  // Any number of threads and sequences at once gives the same bits.
  for (const char* threads : {"1", "2"})
    EXPECT_EQ(Json::parse(place.output_of({"evaluate", "runs/t", "--json", "--threads", threads}))["loss"],
              json["loss"]);
}

// A model without a run beside it has no data of its own.
TEST_F(ModelCommand, EvaluateWithTheDataOfAConfig) {
  const Json own = Json::parse(place.output_of({"evaluate", "runs/t", "--json"}));
  EXPECT_EQ(
      Json::parse(place.output_of({"evaluate", "runs/t", "--config", "run.toml", "--json"}))["channels"],
      own["channels"]);
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  EXPECT_EQ(Json::parse(place.output_of(
                {"evaluate", "hf", "--config", "run.toml", "--json", "--dtype", "f32"}))["channels"],
            own["channels"]);
  expect_refused(place.run({"evaluate", "hf"}), 1, {"hf"});
  place.write("other.txt", invented_text(9, 2000));
  const Json other = Json::parse(place.output_of(
      {"evaluate", "runs/t", "--config", "run.toml", "--set", "data.channels.en.path=other.txt", "--json"}));
  EXPECT_GT(other["channels"]["en"]["loss"].get<double>(), own["channels"]["en"]["loss"].get<double>());
  EXPECT_EQ(other["channels"]["zh"], own["channels"]["zh"]);
}

TEST_F(ModelCommand, IdsAreScoredAsNaturalLogLossOverAllPredictions) {
  // Every sequence alone, and both together: the mean over tokens, not over sequences.
  const auto score = [&](const std::string& ids) {
    place.write("ids.json", ids);
    return Json::parse(place.output_of({"evaluate", "runs/t", "--ids", "ids.json", "--json"}));
  };
  const Json a = score("[[1,2,3,4,5,6,7,8,9]]"), b = score("[[9,8,7]]"),
             both = score("[[1,2,3,4,5,6,7,8,9],[9,8,7]]");
  EXPECT_THAT(keys(a), ElementsAre("tokens", "loss", "perplexity"));
  EXPECT_EQ(a["tokens"], 8);
  EXPECT_EQ(b["tokens"], 2);
  EXPECT_EQ(both["tokens"], 10);
  EXPECT_NEAR(both["loss"], (8 * a["loss"].get<double>() + 2 * b["loss"].get<double>()) / 10, 1e-7);
  EXPECT_NEAR(a["perplexity"], std::exp(a["loss"].get<double>()), 1e-9);
  EXPECT_THAT(place.output_of({"evaluate", "runs/t", "--ids", "ids.json"}), HasSubstr("10 tokens, loss "));
}

// What a document scores does not depend on the file that it is in, nor on its company.
TEST_F(ModelCommand, EvaluateScoresFilesByDocument) {
  const std::string one = invented_text(1, 10), two = invented_text(2, 60);
  place.write("files/one.txt", one);
  place.write("files/two.json",
              "[" + Json{{"id", "second"}, {"text", two}}.dump() + ", " + Json{{"text", one}}.dump() + "]");
  place.write("files/notes.pdf", "%PDF-1.7");
  const Outcome outcome = place.run({"evaluate", "runs/t", "files", "--by", "document", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("notes.pdf (a PDF document)"));
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["documents"], 3);
  EXPECT_EQ(json["context"], 32);
  const Json& scores = json["by_document"];
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0]["file"], "files/one.txt");
  EXPECT_FALSE(scores[0].contains("line"));
  EXPECT_EQ(scores[2]["line"], 1);
  EXPECT_EQ(scores[1]["id"], "second");
  EXPECT_FALSE(scores[2].contains("id"));
  EXPECT_EQ(scores[0]["bytes"], one.size());
  EXPECT_EQ(scores[0]["tokens"], one.size());  // a token of this tokenizer is a character
  EXPECT_EQ(scores[1]["tokens"], two.size());  // longer than the context
  EXPECT_NEAR(scores[2]["loss"], scores[0]["loss"].get<double>(), 1e-5);
  EXPECT_EQ(json["tokens"], 2 * one.size() + two.size());
  EXPECT_NEAR(json["bits_per_byte"], json["loss"].get<double>() / std::log(2.0), 1e-9);
  EXPECT_THAT(place.output_of({"evaluate", "runs/t", "files/two.json", "--by", "document"}),
              HasSubstr("files/two.json:1 (second)  "));
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  const Json folder = Json::parse(
      place.output_of({"evaluate", "hf", "files/one.txt", "--context", "32", "--json", "--dtype", "f32"}));
  EXPECT_NEAR(folder["loss"], scores[0]["loss"].get<double>(), 1e-5);
  EXPECT_EQ(folder["files"]["files/one.txt"]["tokens"], one.size());
}

TEST_F(ModelCommand, EvaluateTakesExactlyTheTokensAskedFor) {
  // Nearly all may be held out: nobody trains.
  const Json nearly_all = Json::parse(place.output_of(
      {"evaluate", "runs/t", "--config", "run.toml", "--set", "data.valid_fraction=0.9999", "--json"}));
  EXPECT_GT(nearly_all["channels"]["en"]["tokens"], place.read("en.txt").size() - 10);
  const Json json = Json::parse(place.output_of({"evaluate", "runs/t", "--max-tokens", "41", "--json"}));
  for (const auto& [name, channel] : json["channels"].items()) EXPECT_EQ(channel["tokens"], 41) << name;
  EXPECT_NEAR(json["bits_per_byte"].get<double>() * json["bytes"].get<double>() * std::log(2.0),
              json["loss"].get<double>() * 82, 1e-6);
}

TEST_F(ModelCommand, EvaluateRefusesWhatHasNoEffect) {
  place.write("a.txt", "abc");
  place.write(
      "other.json",
      R"({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})");
  for (const char* set : {"train.steps=5", "model.num_hidden_layers=3", "optimizer.lr=1"})
    expect_refused(place.run({"evaluate", "runs/t", "--config", "run.toml", "--set", set}), 2,
                   {set, "no effect"});
  expect_refused(
      place.run({"evaluate", "runs/t", "--config", "run.toml", "--set", "data.tokenizer=other.json"}), 2,
      {"data.tokenizer", "other.json"});
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"a.txt", "--max-tokens", "5"},
                                             {"a.txt", "--config", "run.toml"},
                                             {"a.txt", "--ids", "ids.json"},
                                             {"--by", "document"},
                                             {"--stride", "5"},
                                             {"a.txt", "--by", "line"},
                                             {"a.txt", "--text-key", "body"}}) {
    std::vector<std::string> words = {"evaluate", "runs/t"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(place.run(words).exit_code, 2) << more.back();
  }
  expect_refused(place.run({"evaluate", "runs/t", "a.txt", "--context", "33"}), 1, {"context", "33", "32"});
  expect_refused(place.run({"evaluate", "runs/t", "nowhere.txt"}), 1, {"nowhere.txt"});
}

TEST_F(ModelCommand, GenerateIsRepeatable) {
  const auto text = [&](std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), {"generate", "runs/t", "--max-tokens", "40"});
    return place.output_of(words, {.input = input});
  };
  const std::string greedy = text({"--prompt", "ab", "--greedy"});
  EXPECT_EQ(greedy.substr(0, 2), "ab");
  EXPECT_GT(greedy.size(), 10u);
  EXPECT_EQ(text({"--prompt", "ab", "--greedy", "--seed", "7"}), greedy);
  EXPECT_EQ(text({"--prompt", "ab", "--temperature", "0"}), greedy);
  EXPECT_EQ(text({"--prompt", "ab", "--top-k", "1"}), greedy);
  EXPECT_EQ(text({"--prompt-file", "-", "--greedy"}, "ab"), greedy);
  EXPECT_EQ("ab" + text({"--prompt", "ab", "--greedy", "--no-prompt"}), greedy);
  const std::string seeded = text({"--prompt", "ab", "--seed", "7"});
  EXPECT_EQ(text({"--prompt", "ab", "--seed", "7"}), seeded);
  EXPECT_NE(text({"--prompt", "ab", "--seed", "8"}), seeded);
  const Json json = Json::parse(text({"--prompt", "ab", "--greedy", "--json"}));
  EXPECT_EQ(json["prompt"], "ab");
  EXPECT_EQ(json["text"].get<std::string>(), greedy.substr(2, greedy.size() - 3));
  EXPECT_LE(json["tokens"].size(), 40u);
  EXPECT_GT(text({"--prompt", ""}).size(), 1u);
  // Longer than the context of 32.
  const Json longer = Json::parse(place.output_of(
      {"generate", "runs/t", "--prompt", invented_text(1, 60), "--max-tokens", "100", "--json"}));
  EXPECT_FALSE(longer["tokens"].empty());
  EXPECT_EQ(place.output_of({"generate", "runs/t", "--prompt", "ab", "--max-tokens", "0"}), "ab\n");
}

TEST_F(ModelCommand, Refusals) {
  expect_refused(place.run({"evaluate", "runs/t", "--dtype", "f8"}), 2, {"--dtype", "f8"});
  expect_refused(place.run({"evaluate", "run.toml"}), 1, {"run.toml"});
  expect_refused(place.run({"evaluate", "runs/t", "--config", "run.toml", "--set", "data.seq_len=1000"}), 2,
                 {"data.seq_len", "1000", "max_position_embeddings"});
  expect_refused(place.run({"generate", "runs/t", "--prompt", "ab", "--max-tokens", "-1"}), 2,
                 {"--max-tokens"});
  expect_refused(place.run({"generate", "runs/t", "--prompt", "ab", "--temperature", "-1"}), 2,
                 {"temperature", "-1"});
  expect_refused(place.run({"generate", "runs/t", "--prompt", "ab", "--top-p", "1.5"}), 2, {"top-p", "1.5"});
  expect_refused(place.run({"generate", "runs/t", "--prompt-file", "nowhere"}), 1, {"nowhere"});
  expect_refused(place.run({"generate", "runs/t", "--prompt", "a", "--prompt-file", "b"}), 2, {"--prompt"});
}

TEST(Commands, BenchStepPrintsWhatDesignSays) {
  const Workplace place;
  const Outcome outcome = place.run({"bench", "step", "--preset", "llama-tiny", "--batch", "1", "--seq", "16",
                                     "--dtype", "f32", "--steps", "2", "--threads", "1", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  const Json json = Json::parse(outcome.out);
  EXPECT_THAT(keys(json),
              IsSupersetOf({"preset", "params", "dtype", "batch", "seq", "step_ms", "tokens_per_second",
                            "achieved_gflops", "peak_gflops", "mfu", "peak_bytes"}));
  EXPECT_EQ(json["preset"], "llama-tiny");
  EXPECT_EQ(json["batch"], 1);
  EXPECT_EQ(json["seq"], 16);
  EXPECT_EQ(json["dtype"], "f32");
  EXPECT_NEAR(json["tokens_per_second"].get<double>() * json["step_ms"].get<double>(), 16e3, 1.0);
  EXPECT_NEAR(json["mfu"], json["achieved_gflops"].get<double>() / json["peak_gflops"].get<double>(), 1e-9);
  EXPECT_GT(json["peak_bytes"].get<int64_t>(), 4 * 4 * json["params"].get<int64_t>());
}

TEST(Commands, DoctorKnowsTheMachineAndItsKernels) {
  const Workplace place;
  const Json json = Json::parse(place.output_of({"doctor", "--json"}));
  EXPECT_THAT(keys(json), IsSupersetOf({"version", "cpu", "isa", "processors", "memory_bytes", "kernels",
                                        "peak_f32_gflops", "peak_bf16_gflops"}));
  EXPECT_GT(json["kernels"].size(), 3u);
  const std::string text = place.output_of({"doctor", "--kernels"});
  EXPECT_THAT(text, HasSubstr("refused"));
  std::istringstream lines(text.substr(text.find("\nuse ")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(Json::parse(place.output_of({"doctor", "--json", "--isa", "generic"}))["isa"], "generic");
  expect_refused(place.run({"doctor", "--isa", "sparc"}), 1, {"sparc"});
}

}  // namespace
}  // namespace athanor::tests::command_test
