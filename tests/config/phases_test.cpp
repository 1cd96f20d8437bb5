#include "athanor/config/phases.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "athanor/base/file.h"
#include "athanor/config/fields.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"
#include "config/config_testing.h"
#include "support/places.h"
#include "support/temporary_folder.h"

namespace athanor::tests::phases_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The TOML of docs/phases.md.
std::string example() {
  const std::string page = system_env().read_text(of_source("docs/phases.md"));
  const size_t start = page.find("```toml\n") + 8;
  return page.substr(start, page.find("```", start) - start);
}

// A config with one phase more than the keys in `keys` need.
std::string with_phase(const std::string& keys) {
  return "[[phase]]\nname = 'first'\nsteps = 10\n[[phase]]\nname = 'second'\nsteps = 5\n" + keys;
}

TEST(Phases, TheExampleOfTheDocumentsIsWhatItSays) {
  const Config config = parse(example());
  EXPECT_EQ(config.train.steps, 320);
  EXPECT_EQ(config.origins.at("train.steps").kind, Origin::Kind::derived);
  const std::vector<PhaseConfig> phases = phases_of(config);
  std::vector<std::string> got;
  for (const PhaseConfig& p : phases)
    got.push_back(fmt::format(
        "{} {}-{} seq {} batch {}/{} theta {} {}x{} schedule {}+{} {} {}", p.name, p.first_step, p.last_step,
        p.config.data.seq_len, p.config.train.global_batch_size, p.config.train.micro_batch_size,
        p.config.model.rope_theta, p.config.data.channels.front().name, p.config.data.channels.size(),
        p.config.schedule.first_step, p.config.schedule.steps, p.config.schedule.decay,
        p.config.schedule.warmup_steps));
  EXPECT_THAT(
      got, ElementsAre("warm-up 1-20 seq 128 batch 16/8 theta 10000 webx2 schedule 1+280 constant 20",
                       "stable 21-220 seq 128 batch 32/8 theta 10000 webx2 schedule 1+280 constant 20",
                       "long context 221-280 seq 512 batch 8/2 theta 100000 webx2 schedule 1+280 constant 20",
                       "anneal 281-320 seq 512 batch 8/2 theta 100000 booksx2 schedule 281+40 linear 0"));
  for (const PhaseConfig& phase : phases) {
    EXPECT_EQ(phase.config.train.steps, 320);
    EXPECT_TRUE(phase.config.phases.empty());
    EXPECT_EQ(phases_of(phase.config)[0].config.schedule.steps, phase.config.schedule.steps);
    EXPECT_NO_THROW(validate(phase.config));
  }
  EXPECT_EQ(phases[2].config.origins.at("data.seq_len").text, config.origins.at("phase.2.data.seq_len").text);
}

TEST(Phases, WithoutAnyTheRunIsOneWithoutAName) {
  const Config config = parse("[train]\nsteps = 70");
  const std::vector<PhaseConfig> phases = phases_of(config);
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0].name, "");
  EXPECT_EQ(phases[0].first_step, 1);
  EXPECT_EQ(phases[0].last_step, 70);
  EXPECT_EQ(phases[0].config.schedule.first_step, 1);
  EXPECT_EQ(phases[0].config.schedule.steps, 70);
  EXPECT_TRUE(different_keys(config, phases[0].config).empty());
}

// Once the tokenizer is known the vocabulary is filled in; what the phase says of the model stays.
TEST(Phases, AModelIsResolvedAgainWithThePhasesKeys) {
  Config config = parse("[model]\npreset = 'llama-tiny'\n" + with_phase("model.rope_theta = 5e5"));
  Config by_hand = config;
  by_hand.origins.clear();
  for (Config* run : {&config, &by_hand}) {
    Config of_phase = phases_of(*run)[1].config;
    resolve_model(of_phase, 1000);
    EXPECT_EQ(of_phase.model.rope_theta, 5e5);
    EXPECT_EQ(of_phase.model.vocab_size, 1024);
    resolve_model(*run, 1000);
    EXPECT_EQ(phases_of(*run)[1].config.model.vocab_size, 1024);
    EXPECT_EQ(phases_of(*run)[0].config.model.rope_theta, 10000.0);
  }
}

// A schedule lasts until a phase names another one, with the settings of the phase that it began in.
TEST(Phases, TheScheduleGoesOnUntilAnotherIsNamed) {
  const Config config = parse(
      "[schedule]\nwarmup_steps = 3\n[optimizer]\nlr = 0.5\n"
      "[[phase]]\nname = 'a'\nsteps = 10\n"
      "[[phase]]\nname = 'b'\nsteps = 20\nschedule.decay = 'wsd'\noptimizer.lr = 0.25\ndata.seq_len = 64\n"
      "[[phase]]\nname = 'c'\nsteps = 30\n"
      "[[phase]]\nname = 'd'\nsteps = 40\noptimizer.lr = 0.125\n"
      "[[phase]]\nname = 'e'\nsteps = 50\noptimizer.weight_decay = 0.0");
  std::vector<std::string> got;
  for (const PhaseConfig& p : phases_of(config)) {
    const ScheduleConfig& s = p.config.schedule;
    got.push_back(fmt::format("{} {}+{} {} {} {} {} {}", p.name, s.first_step, s.steps, s.decay,
                              s.warmup_steps, p.config.optimizer.lr, p.config.data.seq_len,
                              p.config.optimizer.weight_decay));
  }
  EXPECT_THAT(got, ElementsAre("a 1+10 cosine 3 0.5 256 0.1", "b 11+50 wsd 3 0.25 64 0.1",
                               "c 11+50 wsd 3 0.25 256 0.1", "d 61+90 cosine 3 0.125 256 0.1",
                               "e 61+90 cosine 3 0.125 256 0"));
}

// Every key of every table: a phase sets it, or it is refused by name with what a phase may set.
TEST(Phases, MaySetWhatTheDesignSaysAndNothingElse) {
  const std::set<std::string> of_others = {"train.global_batch_size", "train.micro_batch_size",
                                           "model.attention_pattern"};
  const std::set<std::string> closed = {"data.tokenizer", "data.valid_fraction", "optimizer.name",
                                        "parallel.reduce"};
  const std::set<std::string> open_sections = {"data", "optimizer", "schedule", "parallel"};
  const Config defaults = parse("");
  for (const auto& field : config_fields()) {
    const std::string key = field.key();
    const bool may = of_others.contains(key) || key.starts_with("model.rope_") ||
                     (open_sections.contains(field.section) && !closed.contains(key));
    EXPECT_EQ(phase_may_set(key), may) << key;
    const std::string error = parse_error(with_phase(key + " = " + setting_text(defaults, key)));
    if (may) {
      EXPECT_EQ(error, "") << key;
      continue;
    }
    EXPECT_THAT(error, HasSubstr("first.toml:7: phase 'second': a phase may not change " + key));
    EXPECT_THAT(error, HasSubstr("data.* (not data.tokenizer, data.valid_fraction)"));
    EXPECT_THAT(error, HasSubstr("model.rope_*"));
  }
}

TEST(Phases, StepsAddUp) {
  EXPECT_EQ(parse("[train]\nsteps = 15\n" + with_phase("")).train.steps, 15);
  EXPECT_EQ(parse(with_phase("")).train.steps, 15);
  EXPECT_EQ(parse(with_phase(""), {"phase.1.steps=90"}).train.steps, 100);
  expect_error("[train]\nsteps = 16\n" + with_phase(""),
               {"first.toml:2: train.steps: got 16, expected 15, which the steps of the phases add up to "
                "(first 10, second 5)",
                "leave train.steps out"});
  expect_error(with_phase(""), {"--set train.steps=9: train.steps: got 9, expected 15"}, {"train.steps=9"});
  for (const char* steps : {"0", "-3", "4611686018427387904"})
    expect_error(fmt::format("[[phase]]\nname = 'a'\nsteps = {}\n[[phase]]\nname = 'b'\nsteps = 9", steps),
                 {fmt::format("first.toml:3: phase 'a': steps: got {}, expected at", steps)});
  expect_error("[[phase]]\nname = 'a'", {"first.toml:1: phase 'a': got no steps, expected optimizer steps"});
  expect_error("[[phase]]\nname = 'a'\nsteps = 2.5", {"first.toml:3: phase 'a': steps: got the float 2.5"});
}

TEST(Phases, NamesAreUniqueAndFitForAKey) {
  expect_error("[[phase]]\nsteps = 3",
               {"first.toml:1: phase 1 of 1: got no name, expected name of the phase"});
  expect_error("[[phase]]\nname = 'a'\nsteps = 3\n[[phase]]\nname = 'a'\nsteps = 3",
               {"first.toml:5: phase 'a': name: got 'a' twice, expected unique names"});
  expect_error("[[phase]]\nname = ''\nsteps = 3", {"first.toml:2: phase 1 of 1: name: got 0 bytes"});
  for (const char* name : {"'a/b'", "' a'", "'a '", "'a=b'", "\"a\\nb\"", "'a|b'"})
    expect_error(fmt::format("[[phase]]\nname = {}\nsteps = 3", name),
                 {"name: got '", "expected a name without"});
  expect_error("[[phase]]\nname = '12'\nsteps = 3", {"got '12', expected a name that is not a number"});
  EXPECT_EQ(parse_error("[[phase]]\nname = 'long context 2.0'\nsteps = 3"), "");
}

TEST(Phases, KeysHaveTheTypesAndLimitsOfTheirTables) {
  expect_error(with_phase("data.seq_len = 'long'"),
               {"first.toml:7: phase 'second': data.seq_len: got the string 'long', expected an integer"});
  expect_error(with_phase("data.seq_len = 0"), {"phase 'second': first.toml:7: data.seq_len: got 0"});
  expect_error(with_phase("optimizer.betas = [0.9, 1.5]"), {"phase 'second': first.toml:7: optimizer.betas"});
  expect_error(with_phase("schedule.decay = 'cosin'"), {"phase 'second'", "did you mean 'cosine'?"});
  expect_error(with_phase("data.seqlen = 64"),
               {"first.toml:7: unknown key 'data.seqlen', did you mean 'data.seq_len'"});
  expect_error(with_phase("dat.seq_len = 64"), {"unknown section 'dat', did you mean 'data'?"});
  expect_error(with_phase("seq_len = 64"),
               {"first.toml:7: phase 'second': unknown key 'seq_len', did you mean 'data.seq_len'?"});
  expect_error(with_phase("step = 64"), {"unknown key 'step', did you mean 'steps'?"});
  expect_error(with_phase("learning_rate = 64"), {"phase 'second': learning_rate", "expected optimizer.lr"});
  expect_error(with_phase("data = 64"),
               {"phase 'second': data: got the integer 64, expected keys such as data."});
  expect_error(with_phase("model.rope_scaling = 2"),
               {"model.rope_scaling: got the integer 2, expected a string"});
  expect_error("[phase]\nname = 'a'\nsteps = 3",
               {"phase: got a table, expected an array of tables, each begun by"});
  expect_error("phase = [3]", {"phase: got the integer 3, expected an array of tables"});
  expect_error("[[phases]]\nname = 'a'", {"unknown section 'phases', did you mean 'phase'?"});
}

// What is legal in the run and each key by itself, and not together.
TEST(Phases, EachIsCheckedAsAConfigOfItsOwn) {
  expect_error("[model]\nmax_position_embeddings = 256\n" + with_phase("data.seq_len = 512"),
               {"phase 'second': first.toml:9: data.seq_len: got 512, expected at most "
                "model.max_position_embeddings = 256"});
  expect_error(with_phase("train.micro_batch_size = 64"),
               {"phase 'second': first.toml:7: train.micro_batch_size: got 64, expected at most "
                "train.global_batch_size = 32"});
  expect_error(with_phase("parallel.tp = 7"),
               {"phase 'second': first.toml:7: parallel.tp: got 7, which does not divide"});
  expect_error(with_phase("data.channels = [{name = 'a b', path = 'x'}]"),
               {"phase 'second': first.toml:7: data.channels"});
  expect_error(
      "[local_sgd]\nsync_interval = 5\n[train]\neval_every = 5\n" +
          with_phase("[[phase]]\nname = 'third'\nsteps = 3\n[[phase]]\nname = 'fourth'\nsteps = 2"),
      {"first.toml:13: phase 'third': steps: got 3, expected a multiple of local_sgd.sync_interval = 5"});
  expect_error(
      "[data]\nchannels = [{name = 'a', path = 'x', valid_path = 'v'}]\n" +
          with_phase("data.channels = [{name = 'a', path = 'x'}]"),
      {"first.toml:9: phase 'second': data.channels: got valid_path '' of channel 'a', expected 'v'"});
  Config by_hand = parse("");
  by_hand.train.steps = 3;
  by_hand.phases = {{.name = "a", .steps = 3, .settings = {{"train.seed", uint64_t{2}}}}};
  EXPECT_THROW(validate(by_hand), ConfigError);
}

TEST(Phases, Overrides) {
  const std::string text =
      "[[phase]]\nname = 'a'\nsteps = 10\n[[phase]]\nname = 'a.b'\nsteps = 5\n"
      "data.channels = [{name = 'x.y', path = 'p'}, {name = 'z', path = 'q'}]";
  const Config config =
      parse(text, {"phase.0.data.seq_len=32", "phase.a.b.data.seq_len=64",
                   "phase.1.data.channels.x.y.weight=0.25", "phase.a.schedule.decay=linear"});
  const auto phases = phases_of(config);
  EXPECT_EQ(phases[0].config.data.seq_len, 32);
  EXPECT_EQ(phases[0].config.schedule.decay, "linear");
  EXPECT_EQ(phases[1].config.data.seq_len, 64);
  EXPECT_EQ(phases[1].config.data.channels[0].weight, 0.25);
  EXPECT_EQ(phases[1].config.origins.at("data.seq_len").text, "--set phase.a.b.data.seq_len=64");
  EXPECT_EQ(phases[1].config.origins.at("data.channels").kind, Origin::Kind::command_line);
  EXPECT_EQ(parse(text, {"phase.1.name=c"}).phases[1].name, "c");
  // The whole array at once replaces that of the file, its origins included.
  const Config replaced = parse(text, {"phase=[{name = 'q', steps = 7, data.seq_len = 16}]"});
  EXPECT_EQ(replaced.train.steps, 7);
  EXPECT_FALSE(replaced.origins.contains("phase.1.name"));
  EXPECT_EQ(phases_of(replaced)[0].config.data.seq_len, 16);

  expect_error(text, {"phase: got a table, expected an array of tables"}, {"phase={name = 'a', steps = 3}"});
  expect_error(
      text, {"got the phase '2' of 2, expected phase.NAME.KEY or phase.NUMBER.KEY", "the phases are a, a.b"},
      {"phase.2.steps=3"});
  expect_error(text, {"got the phase '1' of 2"}, {"phase.1={name = 'b', steps = 3}"});
  expect_error(text, {"expected none: the config has no [[phase]]"}, {"phase=[]", "phase.0.steps=3"});
  expect_error(text, {"--set phase.0.train.seed=3: phase 'a': a phase may not change train.seed"},
               {"phase.0.train.seed=3"});
  expect_error(text, {"--set phase.0.steps=-1: phase 'a': steps: got -1"}, {"phase.0.steps=-1"});
  expect_error(text, {"unknown channel 'w'"}, {"phase.1.data.channels.w.weight=1"});
}

TEST(Phases, RelativePathsStartAtTheFolderOfTheFile) {
  const Config config = parse_config(
      with_phase("data.channels = [{name = 'a', path = 'x', valid_path = 'v'}, {name = 'b', path = '/abs', "
                 "valid_path = '/w'}]\ndata.cache = 'c'\nparallel.schedule = 's.csv'\ndata.text_key = 'k'"),
      "first.toml", "/data/en");
  const Config of = phases_of(config)[1].config;
  EXPECT_EQ(of.data.channels[0].path, "/data/en/x");
  EXPECT_EQ(of.data.channels[0].valid_path, "/data/en/v");
  EXPECT_EQ(of.data.channels[1].path, "/abs");
  EXPECT_EQ(of.data.cache, "/data/en/c");
  EXPECT_EQ(of.parallel.schedule, "/data/en/s.csv");
  EXPECT_EQ(of.data.text_key, "k");
  EXPECT_EQ(phases_of(config)[0].config.data.cache, "");
}

TEST(Phases, PrintReadsBackAndSaysStepsAndOrigins) {
  const Config config = parse(example(), {"phase.3.optimizer.betas=[0.5, 0.75]"});
  const std::string printed = print_config(config);
  const Config copy = parse(printed);
  EXPECT_TRUE(different_keys(config, copy).empty()) << printed;
  EXPECT_EQ(setting_text(copy, "phase"), setting_text(config, "phase"));
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(different_keys(phases_of(config)[i].config, phases_of(copy)[i].config).empty()) << i;
  for (const char* part :
       {"\n[[phase]]\nname ",
        "optimizer steps: 221 to 280 of the run, with the learning-rate schedule of 1 to 280",
        "281 to 320 of the run, with the learning-rate schedule of 281 to 320", "data.seq_len ",
        "tokens of a training sequence", "--set phase.3.optimizer.betas=[0.5, 0.75]"})
    EXPECT_THAT(printed, HasSubstr(part));
  EXPECT_THAT(printed.substr(printed.find("model.rope_theta")),
              HasSubstr(config.origins.at("phase.2.model.rope_theta").text));
  for (const size_t columns : {80u, 120u})
    EXPECT_TRUE(different_keys(config, parse(print_config(config, columns))).empty()) << columns;
  EXPECT_TRUE(different_keys(config, parse(example(), {"phase=" + setting_text(config, "phase")})).empty());

  const auto json = nlohmann::json::parse(config_to_json(config));
  EXPECT_EQ(json["phase"].size(), 4u);
  EXPECT_EQ(json["phase"][2]["name"], "long context");
  EXPECT_EQ(json["phase"][2]["data"]["seq_len"], 512);
  EXPECT_EQ(json["phase"][3]["data"]["channels"][0]["name"], "books");
  EXPECT_TRUE(nlohmann::json::parse(config_to_json(parse("")))["phase"].empty());
}

TEST(Phases, DifferencesAreSeen) {
  const Config a = parse(with_phase("data.seq_len = 64"));
  for (const char* change : {"phase.1.data.seq_len=65", "phase.1.name=c", "phase.0.data.seq_len=64"})
    EXPECT_THAT(different_keys(a, parse(with_phase("data.seq_len = 64"), {change})), ElementsAre("phase"));
}

TEST(Phases, LoadReadsTheirPipelineSchedulesAndNamesTheirDoubts) {
  const TemporaryFolder folder;
  Env& env = system_env();
  env.write_atomically(
      folder.path("first.toml"),
      with_phase("parallel.pp = 2\nparallel.schedule = 'two.csv'\nschedule.warmup_steps = 7\n"));
  try {
    load_config(env, folder.path("first.toml"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("phase 'second': parallel.schedule: "));
  }
  env.write_atomically(folder.path("two.csv"), "a schedule");
  const Config config = load_config(env, folder.path("first.toml"));
  const auto phases = phases_of(config);
  EXPECT_EQ(phases[0].config.parallel.schedule_csv, "");
  EXPECT_EQ(phases[1].config.parallel.schedule_csv, "a schedule");
  // What the file says and what a run folder keeps of it are the same settings.
  EXPECT_TRUE(different_keys(config, parse(print_config(config))).empty());
  EXPECT_THAT(config.warnings,
              ElementsAre(HasSubstr("phase 'first': schedule.warmup_steps = 100 is not below the 10 steps"),
                          HasSubstr("phase 'second': schedule.warmup_steps = 7 is not below the 5 steps")));
}

// Training would pass over them in silence.
TEST(Phases, EachNeedsText) {
  Config config = parse(example());
  EXPECT_NO_THROW(validate_data(config));
  config = parse(
      "[[phase]]\nname = 'a'\nsteps = 2\ndata.channels = [{name = 'x', path = 'x'}]\n"
      "[[phase]]\nname = 'b'\nsteps = 2");
  EXPECT_THAT(parse_error("[[phase]]\nname = 'a'\nsteps = 2"), "");
  try {
    validate_data(config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("got none in the phase 'b'"));
  }
}

}  // namespace
}  // namespace athanor::tests::phases_test
