// What a newcomer types: words of other programs, a config out of nothing, weights to start from, settings that do nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/small_run.h"

namespace athanor::tests::first_hour_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CommandLine, WordsOfOtherProgramsLeadToOurs) {
  const Workplace place;
  struct Case {
    std::vector<std::string> words;
    std::vector<std::string> parts;
  };
  const std::vector<Case> table = {
      {{"eval", "runs/t"}, {"unknown command 'eval'", "'evaluate'"}},
      {{"sample", "runs/t"}, {"'generate'"}},
      {{"export", "runs/t"}, {"'checkpoint export-hf'"}},
      {{"resume"}, {"the same 'athanor train FILE.toml' again resumes"}},
      {{"trian", "x.toml"}, {"did you mean 'train'?"}},
      {{"xyzzy"}, {"the commands are corpus, tokenizer, dataset, init, train, launch, ctl"}},
      {{"train", "x.toml", "--resume"}, {"unknown option '--resume'", "the same command again resumes"}},
      {{"train", "--config", "x.toml"}, {"the config is given bare: athanor train FILE.toml"}},
      {{"train", "x.toml", "optimizer.lr=1e-3"}, {"--set optimizer.lr=1e-3"}},
      {{"train", "x.toml", "--learning_rate=1e-3"}, {"--set optimizer.lr=1e-3"}},
      {{"train", "x.toml", "--max-steps", "5"}, {"--set train.steps=VALUE"}},
      {{"train", "x.toml", "-n", "2"}, {"athanor launch -n 2 -- train FILE.toml"}},
      {{"launch", "train", "x.toml"},
       {"-n (--ranks), the number of ranks, is missing", "athanor launch -n 2 -- train run.toml"}},
      {{"checkpoint"}, {"got no command, expected one of list, show"}},
      {{"evaluate", "x", "--set", "data.seq_len=3"}, {"--set has an effect with --config only"}},
      {{"evaluate", "x", "--config", "y", "--set", "train.steps=3"},
       {"train.steps has no effect on 'evaluate'"}},
      {{"generate", "x", "--dtype", "float16"}, {"Athanor calls it 'f16'"}},
  };
  for (const Case& each : table) expect_refused(place.run(each.words), 2, each.parts);
  EXPECT_EQ(place.output_of({"help", "train"}), place.output_of({"train", "--help"}));
  EXPECT_EQ(place.output_of({"help"}), place.output_of({"--help"}));
  EXPECT_EQ(place.output_of({"version"}), place.output_of({"--version"}));
}

TEST(CommandLine, NumbersHaveLimitsInWords) {
  const Workplace place;
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"evaluate", "x", "--batch", "0"}, "--batch: got 0, expected at least 1"},
      {{"evaluate", "x", "--batch", "1.5"}, "--batch: got '1.5', expected an integer"},
      {{"evaluate", "x", "--batch", "many"}, "--batch: got 'many', expected a number, at least 1"},
      {{"generate", "x", "--max-tokens", "-1"}, "--max-tokens: got -1, expected at least 0"},
      {{"generate", "x", "--temperature", "-1"}, "--temperature: got -1, expected at least 0"},
      {{"generate", "x", "--top-p", "0"}, "--top-p: got 0, expected a number from 1e-09 to 1"},
      {{"generate", "x", "--threads", "-3"}, "--threads: got -3, expected a number from 0 to"},
      {{"verify", "x", "--steps", "0"}, "--steps: got 0, expected at least 1"},
      {{"dataset", "build", "--threads", "0"}, "--threads: got 0, expected a number from 1 to"},
  };
  for (const auto& [words, part] : table) {
    const Outcome outcome = place.run(words);
    expect_refused(outcome, 2, {part});
    EXPECT_LT(outcome.err.size(), 200) << outcome.err;
  }
}

TEST(Init, WritesAConfigThatTrainsOnceItsDataAreThere) {
  const Workplace place;
  EXPECT_THAT(place.output_of({"init"}), HasSubstr("wrote run.toml"));
  const std::string written = place.read("run.toml");
  expect_refused(place.run({"init", "run.toml"}), 2, {"'run.toml' exists"});
  EXPECT_EQ(place.read("run.toml"), written);
  expect_refused(place.run({"init", "other.toml", "--preset", "llama-tinny"}), 2,
                 {"did you mean 'llama-tiny'?"});
  EXPECT_FALSE(place.exists("other.toml"));
  place.write("data/text/a.txt", invented_text(1, 4000));
  place.output_of({"tokenizer", "train", "--type", "char", "--output", "data/tokenizer.json", "data/text"});
  place.output_of({"train", "run.toml", "--set", "train.steps=2", "--set", "train.global_batch_size=2",
                   "--set", "train.micro_batch_size=1", "--set", "data.seq_len=16", "--set",
                   "model.num_hidden_layers=1", "--set", "train.threads=1"});
  EXPECT_EQ(report(place, "first")["steps"], 2);
  expect_refused(place.run({"train", "rnu.toml"}), 2, {"did you mean 'run.toml'?"});
  expect_refused(place.run({"train", "runs/first"}), 2, {"did you mean 'runs/first/config.resolved.toml'?"});
}

TEST(InitFrom, ArchitectureAndTokenizerComeWithTheWeights) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"model.rope_theta=5e5"});
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  place.write("finetune.toml", R"([data]
channels = [ {name = "en", path = "en.txt", weight = 0.7}, {name = "zh", path = "zh.jsonl", weight = 0.3} ]
seq_len = 32
valid_fraction = 0.1
[train]
init_from = "runs/t"
global_batch_size = 10
micro_batch_size = 2
steps = 2
threads = 1
initial_eval_tokens = 131072
[precision]
compute = "f32"
)");
  const auto finetune = [&](const std::string& name, const std::string& from,
                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train", "finetune.toml",          "--set", "train.name=" + name,
                                      "--set", "train.init_from=" + from};
    for (const std::string& set : more) words.insert(words.end(), {"--set", set});
    return place.run(words);
  };
  for (const std::string from : {"runs/t", "hf"}) {
    const std::string name = from == "hf" ? "v" : "u";
    const Outcome outcome = finetune(name, from);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    EXPECT_THAT(outcome.out, HasSubstr("architecture and tokenizer of init_from " + from));
    EXPECT_NEAR(report(place, name)["valid_loss_first"].get<double>(),
                report(place, "t")["valid_loss_last"].get<double>(), 1e-6);
    expect_refused(finetune("w", from, {"model.num_attention_heads=2"}), 2,
                   {"model.num_attention_heads: got 2, expected 4 as in init_from " + from});
    expect_refused(finetune("w", from, {"model.rms_norm_eps=10"}), 2, {"model.rms_norm_eps: got 10"});
    expect_refused(finetune("w", from, {"model.preset=llama-tiny"}), 2, {"model.preset: got 'llama-tiny'"});
  }
  // As many tokens, two of which are others.
  place.write("other.txt", place.read("en.txt") + "人山");
  place.output_of({"tokenizer", "train", "--type", "char", "--output", "other.json", "other.txt"});
  expect_refused(finetune("w", "runs/t", {"data.tokenizer=other.json"}), 2,
                 {"data.tokenizer: got", "expected the tokenizer of init_from runs/t"});
  EXPECT_EQ(finetune("x", "runs/t", {"data.tokenizer=tokenizer.json"}).exit_code, 0);
  EXPECT_FALSE(place.exists("runs/w/metrics.jsonl"));
  // A run that has begun does not need its source any more.
  place.remove("runs/t");
  const Outcome resumed = finetune("u", "runs/t", {"train.steps=3"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.all();
  EXPECT_EQ(report(place, "u")["steps"], 3);
}

TEST(ModelConfigFile, ARunIsWhatTheKeysOfTheFileMakeIt) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"train.steps=2"});
  place.output_of({"checkpoint", "export-hf", "runs/t", "hf"});
  const std::string run = place.read("run.toml");
  place.write("shape.toml", "[model]\nconfig = 'hf/config.json'\n\n" + run.substr(run.find("[data]")));
  const auto words = [](const std::vector<std::string>& more) {
    return std::vector<std::string>{"train", "shape.toml", "--set", "train.steps=2"} + more;
  };
  EXPECT_THAT(place.output_of(words({"--set", "train.name=u"})),
              HasSubstr("architecture of " + place.path("hf/config.json")));
  EXPECT_EQ(history(place, "u"), history(place, "t"));
  place.output_of({"evaluate", "runs/u", "--config", "shape.toml"});
  const auto refused = [&](const std::string& set, const std::string& part) {
    expect_refused(place.run(words({"--set", "train.name=v", "--set", set})), 2, {part});
  };
  refused("model.num_hidden_layers=1",
          "model.num_hidden_layers: got 1, expected 2 as in " + place.path("hf/config.json"));
  refused("model.config=fh", "--set model.config=fh: model.config: cannot read");
  EXPECT_FALSE(place.exists("runs/v"));
}

TEST(Doubts, AreSaidOnceAndChangesAtResumeToo) {
  const Workplace place;
  make_small_run(place);
  const auto run = [&](const std::vector<std::string>& sets) {
    const Outcome outcome = place.run(train_arguments("t", sets));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.all();
    return outcome.out;
  };
  const std::string first =
      run({"train.steps=4", "schedule.warmup_steps=9", "model.vocab_size=640", "train.eval_every=0"});
  EXPECT_THAT(first, HasSubstr("schedule.warmup_steps = 9 is not below train.steps = 4"));
  EXPECT_THAT(first, HasSubstr("model.vocab_size = 640 is far above"));
  EXPECT_THAT(first, Not(HasSubstr("changed since")));
  const std::string second = run({"train.steps=6", "schedule.warmup_steps=2", "model.vocab_size=640",
                                  "train.eval_every=0", "optimizer.lr=0.02", "optimizer.weight_decay=0.2"});
  EXPECT_THAT(second, HasSubstr("changed since step 4: optimizer.lr 0.01 -> 0.02"));
  EXPECT_THAT(second, HasSubstr("changed since step 4: optimizer.weight_decay 0.1 -> 0.2"));
  EXPECT_THAT(second, HasSubstr("changed since step 4: schedule.warmup_steps 9 -> 2"));
  EXPECT_THAT(second, HasSubstr("changed since step 4: train.steps 4 -> 6"));
  EXPECT_THAT(second, HasSubstr("the learning rate of step 5 is "));
  EXPECT_THAT(run({"train.steps=3", "schedule.warmup_steps=2", "model.vocab_size=640"}),
              HasSubstr("train.steps = 3 is fewer than the 6 steps that this run has done"));
}

TEST(Effects, ASettingWithoutEffectStopsTheRunBeforeItStarts) {
  const Workplace place;
  make_small_run(place);
  for (const char* set : {"snapshot.peers=1", "optimizer.momentum=0.5", "local_sgd.outer_lr=0.5"})
    expect_refused(place.run(train_arguments("t", {set})), 2,
                   {std::string(set).substr(0, std::string(set).find('='))});
  EXPECT_FALSE(place.exists("runs/t"));
}

}  // namespace
}  // namespace athanor::tests::first_hour_test
