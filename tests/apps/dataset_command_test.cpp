// `athanor dataset`: token files built by hand, examined, and trained on as the text they were made from.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "apps/small_run.h"

namespace athanor::tests::dataset_command_test {
namespace {

using ::testing::HasSubstr;

class DatasetCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    make_small_run(place);
    build("en", "en.txt");
    build("zh", "zh.jsonl");
  }
  void build(const std::string& name, const std::string& text) {
    place.output_of(
        {"dataset", "build", "--tokenizer", "tokenizer.json", "--output", "tokens/" + name, text});
  }
  Json json_of(std::vector<std::string> words) {
    words.insert(words.begin(), "dataset");
    words.push_back("--json");
    return Json::parse(place.output_of(words));
  }
  Workplace place;
};

TEST_F(DatasetCommand, BuildInspectVerify) {
  const Json ids = Json::parse(
      place.output_of({"tokenizer", "encode", "--tokenizer", "tokenizer.json", "--input", "en.txt"}));
  const Json en = json_of({"inspect", "tokens/en", "--tokenizer", "tokenizer.json"});
  EXPECT_EQ(en["documents"], 1);
  EXPECT_EQ(en["tokens"], ids.size() + 1);  // and the end of the document
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(en["first_tokens"][i], ids[i]);
  EXPECT_EQ(en["first_text"], place.read("en.txt").substr(0, 16));
  EXPECT_EQ(json_of({"inspect", "tokens/zh.idx"})["documents"], 20);
  EXPECT_EQ(place.read("tokens/en.bin").size(), 2 * (ids.size() + 1));
  EXPECT_EQ(json_of({"verify", "tokens/zh"})["ok"], true);
  EXPECT_THAT(place.output_of({"dataset", "verify", "tokens/zh"}), HasSubstr("ok"));
  // Any number of threads, the same bytes.
  place.output_of({"dataset", "build", "--tokenizer", "tokenizer.json", "--threads", "3", "--output",
                   "again/zh", "zh.jsonl"});
  EXPECT_EQ(place.read("again/zh.bin"), place.read("tokens/zh.bin"));
  EXPECT_EQ(place.read("again/zh.idx"), place.read("tokens/zh.idx"));
}

TEST_F(DatasetCommand, SaysWhereATokenCameFrom) {
  place.write("src/a.jsonl", "{\"text\":\"\"}\n{\"text\":\"abc\"}\n\n{\"text\":\"deaf\"}\n");
  place.write("src/b.txt", "bad");
  build("src", "src");  // a b c . d e a f . b a d .
  const Json token = json_of({"inspect", "tokens/src", "--token", "6", "--tokenizer", "tokenizer.json"});
  EXPECT_EQ(token["document"], 1);
  EXPECT_EQ(token["position"], 2);
  EXPECT_EQ(token["document_tokens"], 5);
  EXPECT_EQ(token["source"], Json::parse(R"({"file": "src/a.jsonl", "record": 2, "line": 4})"));
  EXPECT_EQ(token["text_before"], "de");
  EXPECT_EQ(token["text"], "a");
  EXPECT_EQ(token["text_after"].get<std::string>().substr(0, 1), "f");
  const Json document = json_of({"inspect", "tokens/src", "--document", "2", "--tokens", "2"});
  EXPECT_EQ(document["first_token"], 9);
  EXPECT_EQ(document["source"], Json::parse(R"({"file": "src/b.txt", "record": 0, "line": 0})"));
  EXPECT_EQ(document["first_tokens"].size(), 2u);
  EXPECT_EQ(document["text_bytes"], 3);
  EXPECT_THAT(place.output_of({"dataset", "inspect", "tokens/src", "--token", "6"}),
              HasSubstr("src/a.jsonl, record 2, line 4"));
  EXPECT_THAT(place.output_of({"dataset", "inspect", "tokens/src", "--document", "2"}),
              HasSubstr("src/b.txt, record 0, the whole file"));
  for (const char* number : {"-1", "13"})
    expect_refused(
        place.run({"dataset", "inspect", "tokens/src", "--token", number}), 2,
        {std::string("--token: got ") + number + ", expected 0 to 12, the tokens of 'tokens/src'"});
  expect_refused(place.run({"dataset", "inspect", "tokens/src", "--document", "3"}), 2,
                 {"--document: got 3, expected 0 to 2, the documents of 'tokens/src'"});
  // Files of other programs say nothing of that; damaged ones are refused.
  place.output_of({"dataset", "verify", "tokens/src"});
  place.flip("tokens/src.sources", 9);
  expect_refused(place.run({"dataset", "verify", "tokens/src"}), 1, {"tokens/src.sources"});
  place.remove("tokens/src.sources");
  EXPECT_EQ(json_of({"inspect", "tokens/src", "--token", "6"})["source"], nullptr);
  EXPECT_THAT(place.output_of({"dataset", "inspect", "tokens/src", "--token", "6"}), HasSubstr("unknown"));
}

TEST_F(DatasetCommand, GoesOnAfterKillsWithTheSameBytes) {
  std::string lines;
  for (uint64_t i = 0; i < 300; ++i) lines += Json{{"text", invented_text(i, 40)}}.dump() + "\n";
  place.write("large.jsonl", lines);
  build("whole", "large.jsonl");
  const auto arguments = [&](const char* threads) -> std::vector<std::string> {
    return {"dataset",   "build", "--tokenizer", "tokenizer.json", "--output",   "tokens/x",
            "--threads", threads, "--part-size", "2000",           "large.jsonl"};
  };
  const auto expect_whole = [&] {
    for (const char* suffix : {".bin", ".idx", ".text_bytes", ".sources", ".meta.json"})
      EXPECT_EQ(place.read(std::string("tokens/x") + suffix),
                place.read(std::string("tokens/whole") + suffix))
          << suffix;
    EXPECT_FALSE(place.exists("tokens/x.build"));
  };
  const auto has_part = [&](int part) {
    return place.exists(fmt::format("tokens/x.build/part-000000-{:06}.idx", part));
  };
  for (const int part : {0, 3, 4, 11, 25}) {
    Program build = place.start(arguments(part % 2 == 0 ? "1" : "3"));
    ASSERT_TRUE(build.wait_until([&] { return has_part(part); }));
    build.signal(SIGKILL);
    EXPECT_EQ(build.finish().signal, SIGKILL);
    EXPECT_FALSE(place.exists("tokens/x.idx"));
  }
  {
    Program build = place.start(arguments("2"), held_at("/x.build/part-", place.path("go")));
    const std::string mine = fmt::format(".bin.tmp{}", build.pid());
    ASSERT_TRUE(build.wait_until([&] {
      const auto names = place.list("tokens/x.build");
      return std::any_of(names.begin(), names.end(), [&](const auto& name) { return name.ends_with(mine); });
    }));
    build.signal(SIGINT);
    ASSERT_TRUE(build.wait_until([&] { return !is_pending(build.pid(), SIGINT); }));
    place.write("go", "");
    const Outcome outcome = build.finish();
    EXPECT_EQ(outcome.exit_code, 128 + SIGINT) << outcome.all();
    EXPECT_THAT(outcome.err, HasSubstr("tokens/x is as it was; the same command goes on"));
  }
  const Outcome end = place.run(arguments("2"));
  EXPECT_EQ(end.exit_code, 0) << end.all();
  EXPECT_THAT(end.err, HasSubstr("goes on: "));
  expect_whole();
  // Two at once.
  Program one = place.start(arguments("1")), other = place.start(arguments("1"));
  EXPECT_EQ(one.finish().exit_code, 0);
  EXPECT_EQ(other.finish().exit_code, 0);
  expect_whole();
  // Another setting starts anew and says so.
  Program cut = place.start(arguments("1"));
  ASSERT_TRUE(cut.wait_until([&] { return has_part(2); }));
  cut.signal(SIGKILL);
  cut.finish();
  auto other_size = arguments("1");
  other_size[9] = "3000";
  EXPECT_THAT(place.run(other_size).err, HasSubstr("starts anew"));
  expect_whole();
}

TEST_F(DatasetCommand, TokenFilesTrainLikeTheirText) {
  train(place, "text");
  train(place, "tokens", {"data.channels.en.path=tokens/en", "data.channels.zh.path=tokens/zh.bin"});
  const History text = history(place, "text"), tokens = history(place, "tokens");
  EXPECT_EQ(text.steps, tokens.steps);
  EXPECT_EQ(report(place, "text")["valid_loss_last"], report(place, "tokens")["valid_loss_last"]);
  // Ids alone need no tokenizer, but then the size of the vocabulary.
  const auto model = Json::parse(place.output_of({"train", "run.toml", "--print-config", "--json"}));
  const std::string vocab_size = model["model"]["vocab_size"].dump();
  train(place, "ids",
        {"data.channels.en.path=tokens/en", "data.channels.zh.path=tokens/zh", "data.tokenizer=''",
         "model.vocab_size=" + vocab_size});
  EXPECT_EQ(history(place, "ids").steps, text.steps);
}

TEST_F(DatasetCommand, VerifySeesEveryFlippedBit) {
  for (const char* file : {"tokens/en.bin", "tokens/zh.idx", "tokens/zh.bin"}) {
    const std::string whole = place.read(file);
    for (const size_t part : {0, 1, 2, 3, 4, 5}) {
      place.flip(file, std::min(whole.size() - 1, whole.size() * part / 5), static_cast<int>(part));
      expect_refused(place.run({"dataset", "verify", file}), 1, {std::string(file).substr(0, 9)});
      place.write(file, whole);
    }
  }
}

TEST_F(DatasetCommand, TheLedgerCountsEverySampleOnce) {
  const Json ledger = json_of({"ledger", "run.toml", "--last-step", "500", "--output", "ledger.csv"});
  EXPECT_EQ(ledger["ok"], true);
  EXPECT_EQ(ledger["samples"], 5000);
  int64_t samples = 0;
  for (const Json& channel : ledger["channels"]) {
    EXPECT_GE(channel["whole_epochs"].get<int64_t>(), 1);
    samples += channel["samples"].get<int64_t>();
  }
  EXPECT_EQ(samples, 5000);
  EXPECT_NEAR(ledger["channels"][0]["samples"], 3500, 2);
  EXPECT_EQ(json_of({"ledger", "run.toml", "--last-step", "500"})["hash"], ledger["hash"]);
  EXPECT_NE(json_of({"ledger", "run.toml", "--last-step", "500", "--set", "train.seed=2"})["hash"],
            ledger["hash"]);
}

// What a run was told to skip is skipped, in its ledger as well; a rerun with its decisions is the same run.
TEST_F(DatasetCommand, TheLedgerOfARunShowsWhatItSkipped) {
  place.write("skip.jsonl", "{\"step\":3,\"decision\":\"skip_batches\",\"batches\":2,\"why\":\"a spike\"}\n");
  const auto with = [](std::vector<std::string> arguments, const std::string& file) {
    arguments.insert(arguments.end(), {"--decisions", file});
    return arguments;
  };
  const std::string shown = place.output_of(with(train_arguments("s", {"train.steps=6"}), "skip.jsonl"));
  EXPECT_THAT(shown, HasSubstr("step 3: skips 2 global batches: a spike"));
  EXPECT_EQ(report(place, "s")["decisions"][0]["batches"], 2);
  const Json ledger = json_of({"verify", "--ledger", "runs/s"});
  EXPECT_EQ(ledger["last_step"], 6);
  const Json& phase = ledger["phases"][0];
  EXPECT_EQ(phase["samples"], 60);
  EXPECT_EQ(phase["skipped"], 20);
  EXPECT_EQ(phase["skips"], Json::parse(R"([{"step":3,"batches":2}])"));
  EXPECT_THAT(place.output_of({"dataset", "verify", "--ledger", "runs/s"}),
              HasSubstr("skipped at step 3: 2 global batches, 20 samples"));
  EXPECT_EQ(
      json_of({"ledger", "run.toml", "--last-step", "6", "--decisions", "runs/s/decisions.jsonl"})["hash"],
      phase["hash"]);
  EXPECT_NE(json_of({"ledger", "run.toml", "--last-step", "6"})["hash"], phase["hash"]);
  place.output_of(with(train_arguments("again", {"train.steps=6"}), "runs/s/decisions.jsonl"));
  EXPECT_EQ(report(place, "again")["digest"], report(place, "s")["digest"]);
  train(place, "plain", {"train.steps=6"});
  EXPECT_NE(report(place, "plain")["digest"], report(place, "s")["digest"]);
  place.write("other.jsonl", "{\"step\":3,\"decision\":\"skip_batches\",\"batches\":1}\n");
  expect_refused(place.run(with(train_arguments("s", {"train.steps=8"}), "other.jsonl")), 2,
                 {"--decisions: skip_batches: got 1 batches at step 3, expected 2"});
  place.write("other.jsonl", "{\"step\":3,\"decision\":\"roll_back\"}\n");
  expect_refused(place.run(with(train_arguments("s", {"train.steps=8"}), "other.jsonl")), 2,
                 {"other.jsonl:1: decision: got 'roll_back'"});
  place.write("runs/s/decisions.jsonl", "");
  expect_refused(place.run({"dataset", "verify", "--ledger", "runs/s"}), 1, {"not those of the checkpoint"});
}

// Two conversations of which only the answers count, each a part of a packed sequence; the second one's answer is cut nowhere.
TEST_F(DatasetCommand, PreviewShowsWhatCounts) {
  place.write("chat.jsonl", R"({"q": "ab", "a": "ba"}
{"q": "ac", "a": "ab"}
)");
  std::string toml = place.read("run.toml");
  const size_t first = toml.find("channels"), last = toml.find('\n', first);
  toml.replace(first, last - first,
               R"(channels = [ {name = "qa", path = "chat.jsonl", prompt = "q", answer = "a"} ]
packing = "best-fit"
document_mask = true)");
  toml.replace(toml.find("valid_fraction = 0.1"), 20, "valid_fraction = 0.0");
  toml.replace(toml.find("eval_every = 4"), 14, "eval_every = 0");
  place.write("chat.toml", toml);
  const Json shown = json_of({"preview", "chat.toml", "--samples", "1"});
  ASSERT_EQ(shown.size(), 1u);
  ASSERT_EQ(shown[0]["parts"].size(), 2u);
  int targets = 0;
  for (const Json& part : shown[0]["parts"]) {
    std::string counted, context;
    for (const Json& token : part)
      (token["counts"].get<bool>() ? counted : context) += token["text"].get<std::string>();
    EXPECT_THAT(context, ::testing::AnyOf("ab\n", "ac\n"));
    EXPECT_THAT(counted, ::testing::AnyOf(HasSubstr("ba"), HasSubstr("ab")));
    targets += static_cast<int>(
        std::count_if(part.begin(), part.end(), [](const Json& t) { return t["counts"].get<bool>(); }));
  }
  EXPECT_EQ(shown[0]["targets"], targets);
  EXPECT_EQ(shown[0]["tokens"].get<int>() + shown[0]["padding"].get<int>(), 32);
  const std::string text = place.output_of({"dataset", "preview", "chat.toml", "--samples", "1"});
  EXPECT_THAT(text, HasSubstr("channel 'qa'"));
  EXPECT_THAT(text, HasSubstr("[[a|b|\\n]]"));
  EXPECT_THAT(text, HasSubstr("2 parts"));
  expect_refused(place.run({"dataset", "preview", "chat.toml", "--channel", "x"}), 2, {"--channel: got 'x'"});
  expect_refused(place.run({"dataset", "preview", "chat.toml", "--step", "13"}), 2,
                 {"--step: got 13, expected 1 to 12"});
}

TEST_F(DatasetCommand, Refusals) {
  const std::vector<std::string> build = {"dataset", "build", "--tokenizer", "tokenizer.json", "--output"};
  const auto run = [&](const std::string& output, const std::string& text) {
    auto words = build;
    words.insert(words.end(), {output, text});
    return place.run(words);
  };
  place.write("empty.txt", "");
  expect_refused(run("x", "nowhere.txt"), 1, {"nowhere.txt"});
  expect_refused(run("x", "empty.txt"), 1, {"empty.txt"});
  expect_refused(run("tokens", "en.txt"), 2, {"tokens"});
  place.write("latin1.txt", "caf\xe9");
  expect_refused(run("x", "latin1.txt"), 1, {"latin1.txt", "UTF-8"});
  EXPECT_FALSE(place.exists("x.bin"));
  EXPECT_FALSE(place.exists("x.idx"));
  expect_refused(place.run({"dataset", "inspect", "nowhere"}), 1, {"nowhere"});
  expect_refused(place.run({"dataset", "verify"}), 2, {"--ledger RUN"});
  expect_refused(place.run({"dataset", "verify", "tokens/en", "--vocab-size", "5"}), 1,
                 {"tokens/en", "0 to 4"});
}

TEST_F(DatasetCommand, HeldOutTextOfItsOwn) {
  const std::string held = invented_text(1, 50);
  place.write("held.txt", held);
  train(place, "v", {"train.steps=4", "data.channels.en.valid_path=held.txt"});
  const Json json = Json::parse(place.output_of({"evaluate", "runs/v", "--json"}));
  EXPECT_EQ(json["channels"]["en"]["tokens"], held.size());  // all but the first, and the end of the document
  EXPECT_EQ(json["channels"]["en"]["loss"], report(place, "v")["channel_loss_last"]["en"]);
  for (const auto& [other, change] : {std::pair("en.txt", "the valid_tokens changed from 307 to "),
                                      std::pair("", "the valid_path was removed")})
    expect_refused(place.run(train_arguments(
                       "v", {"train.steps=6", std::string("data.channels.en.valid_path=") + other})),
                   2, {std::string("channel 'en': ") + change});
  train(place, "v", {"train.steps=6", "data.channels.en.valid_path=held.txt"});
  EXPECT_EQ(num_lines(place, "v"), 6);
}

TEST_F(DatasetCommand, WhatIsLeftOutStandsInTheReport) {
  place.write("mixed/a.txt", invented_text(1, 400));
  place.write("mixed/b.txt", "%PDF-1.7");
  for (const char* name : {"m", "n"}) {  // the second finds the text tokenized
    const Outcome outcome = train(place, name, {"train.steps=1", "data.channels.en.path=mixed"});
    EXPECT_THAT(outcome.all(), HasSubstr("1 file read (a.txt), 1 left out: b.txt (a PDF document)"));
    const Json told = report(place, name);
    EXPECT_EQ(told["left_out_files"], 1);
    EXPECT_EQ(told["left_out"][0]["channel"], "en");
    EXPECT_EQ(told["left_out"][0]["file"], "b.txt");
  }
}

}  // namespace
}  // namespace athanor::tests::dataset_command_test
