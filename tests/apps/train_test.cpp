// `athanor train` as its user meets it: what a run leaves behind, what it shows, how it is set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "apps/small_run.h"

namespace athanor::tests::train_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Train, MakesTheRunFolder) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"checkpoint.keep=2"});
  for (const char* file :
       {"config.resolved.toml", "env.json", "metrics.jsonl", "logs/rank0.log", "report.json"})
    EXPECT_TRUE(place.exists(run_file("t", file))) << file;
  EXPECT_THAT(place.list("runs/t/checkpoints"), ElementsAre("step_00000008", "step_00000012"));
  for (const char* file : {"manifest.json", "config.resolved.toml", "tokenizer.json"})
    EXPECT_TRUE(place.exists(checkpoint_of("t", 12) + "/" + file)) << file;
  EXPECT_EQ(Json::parse(place.read(checkpoint_of("t", 12) + "/tokenizer.json")),
            Json::parse(place.read("tokenizer.json")));
  EXPECT_TRUE(Json::parse(place.read(run_file("t", "env.json"))).is_object());
  EXPECT_TRUE(nothing_left_running());
}

TEST(Train, MetricsHaveEachStepOnceWithAllFields) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"train.eval_every=5"});
  const auto lines = metrics(place, "t");
  ASSERT_EQ(lines.size(), static_cast<size_t>(kSteps));
  std::vector<std::string> fields = {"step",       "tokens",       "loss",         "channel_loss",
                                     "grad_norm",  "lr",           "loss_scale",   "tokens_per_second",
                                     "mfu",        "step_seconds", "data_seconds", "comm_seconds",
                                     "peak_bytes", "world_size",   "generation"};
  for (int64_t step = 1; step <= kSteps; ++step) {
    const Json& line = lines[static_cast<size_t>(step - 1)];
    auto expected = fields;
    const bool evaluates = step == 5 || step == 10 || step == kSteps;
    if (evaluates) expected.insert(expected.end(), {"valid_loss", "valid_channel_loss"});
    EXPECT_THAT(keys(line), ::testing::UnorderedElementsAreArray(expected)) << step;
    EXPECT_EQ(line["step"], step);
    EXPECT_EQ(line["tokens"], step * kTokensPerStep);
    EXPECT_EQ(line["world_size"], 1);
    EXPECT_EQ(line["generation"], 0);
    EXPECT_GT(line["tokens_per_second"], 0.0);
    EXPECT_GT(line["peak_bytes"], 0);
    EXPECT_GT(line["grad_norm"], 0.0);
    EXPECT_GT(line["mfu"], 0.0);
    EXPECT_LT(line["mfu"], 1.5);
    for (const char* object : {"channel_loss", "valid_channel_loss"})
      if (line.contains(object)) {
        EXPECT_THAT(keys(line[object]), ElementsAre("en", "zh"));
        EXPECT_GT(line[object]["en"], 0.0);
      }
  }
}

TEST(Train, EveryChannelLearnsAndTheReportSaysSo) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"train.steps=40"});
  const Json found = report(place, "t");
  for (const char* key : {"ranks", "params", "tokens", "steps", "valid_loss_first", "valid_loss_last",
                          "channel_loss_last", "tokens_per_second", "seconds", "mfu", "status", "digest"})
    EXPECT_TRUE(found.contains(key)) << key;
  EXPECT_EQ(found["status"], "finished");
  EXPECT_EQ(found["steps"], 40);
  EXPECT_EQ(found["tokens"], 40 * kTokensPerStep);
  EXPECT_EQ(found["ranks"], 1);
  EXPECT_EQ(found["digest"], digest(place, checkpoint_of("t", 40)));
  EXPECT_EQ(found["valid_loss_last"], metrics(place, "t").back()["valid_loss"]);
  EXPECT_EQ(found["channel_loss_last"], metrics(place, "t").back()["valid_channel_loss"]);
  for (const char* channel : {"en", "zh"}) {
    const double first = found["channel_loss_first"][channel], last = found["channel_loss_last"][channel];
    EXPECT_LT(last, first - 0.3) << channel;
  }
  // At first the model guesses among the ids; the vocabulary is the tokenizer's, rounded up to 64.
  EXPECT_NEAR(found["valid_loss_first"], std::log(64.0), 0.2);
  // The plan and the measured peak (law 7).
  const double planned = found["planned_bytes"], peak = found["peak_bytes"];
  EXPECT_NEAR(peak / planned, 1.0, 0.03);
}

uint32_t masked_crc(std::string_view data) {
  uint32_t crc = ~0U;
  for (const char c : data) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

TEST(Train, TheEventFileIsTensorBoards) {
  const Workplace place;
  make_small_run(place);
  train(place, "t");
  std::vector<std::string> files;
  for (const std::string& name : place.list("runs/t"))
    if (name.rfind("events.out.tfevents.", 0) == 0) files.push_back(name);
  ASSERT_EQ(files.size(), 1u);
  const std::string bytes = place.read(run_file("t", files[0]));
  size_t records = 0;
  for (size_t at = 0; at < bytes.size(); ++records) {
    ASSERT_LE(at + 12, bytes.size());
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, &bytes[at], 8);
    std::memcpy(&crc, &bytes[at + 8], 4);
    ASSERT_EQ(crc, masked_crc(bytes.substr(at, 8)));
    ASSERT_LE(at + 16 + length, bytes.size());
    const std::string data = bytes.substr(at + 12, length);
    std::memcpy(&crc, &bytes[at + 12 + length], 4);
    ASSERT_EQ(crc, masked_crc(data));
    if (records == 0) {
      EXPECT_THAT(data, HasSubstr("brain.Event:2"));
    }
    at += 16 + length;
  }
  EXPECT_GE(records, 1u + kSteps);
  EXPECT_THAT(bytes, HasSubstr("loss_by_channel/zh"));
}

TEST(Train, PlainLinesOnAPipe) {
  const Workplace place;
  make_small_run(place);
  const Outcome outcome = train(place, "t", {"train.log_every=5"});
  EXPECT_THAT(outcome.out, Not(HasSubstr("\033")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\r")));
  for (const char* line :
       {"step 01/12 | loss ", "step 05/12 | loss ", "step 10/12 | loss ", "step 12/12 | loss "})
    EXPECT_THAT(outcome.out, HasSubstr(line));
  EXPECT_THAT(outcome.out, Not(HasSubstr("step 06/12 | loss ")));
  EXPECT_THAT(outcome.out, HasSubstr("tok/s"));
  EXPECT_THAT(outcome.out, HasSubstr("parameters"));  // of the header box
  EXPECT_EQ(outcome.err, "");
}

TEST(Train, NoColorIsHonouredOnATerminal) {
  const Workplace place;
  make_small_run(place);
  const Outcome colored = place.run(train_arguments("t"), {.terminal = true});
  EXPECT_EQ(colored.exit_code, 0) << colored.all();
  EXPECT_THAT(colored.out, HasSubstr("\033[36m"));
  const Outcome plain = place.run(train_arguments("u"), {.environment = {"NO_COLOR=1"}, .terminal = true});
  EXPECT_EQ(plain.exit_code, 0) << plain.all();
  EXPECT_THAT(plain.out, ::testing::Not(::testing::ContainsRegex("\033\\[[0-9;]*m")));
}

TEST(Train, JsonIsOneDocumentOnStandardOutput) {
  const Workplace place;
  make_small_run(place);
  auto arguments = train_arguments("t");
  arguments.push_back("--json");
  const Outcome outcome = place.run(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.all();
  EXPECT_EQ(Json::parse(outcome.out), report(place, "t"));
  EXPECT_THAT(outcome.err, HasSubstr("step 12/12 | loss "));
  // The same through the launcher.
  arguments = launch_arguments(2, "u");
  arguments.push_back("--json");
  const Outcome launched = place.run(arguments);
  ASSERT_EQ(launched.exit_code, 0) << launched.all();
  EXPECT_EQ(Json::parse(launched.out), report(place, "u"));
  EXPECT_EQ(Json::parse(launched.out)["ranks"], 2);
  EXPECT_THAT(launched.err, HasSubstr("step 12/12 | loss "));
}

TEST(Train, PrintConfigShowsThePublishedParameterCounts) {
  const Workplace place;
  const std::vector<std::pair<std::string, std::string>> published = {
      {"gpt2-124m", "124,439,808"}, {"llama-2-7b", "6,738,415,616"}, {"llama-2-70b", "68,976,648,192"}};
  for (const auto& [preset, count] : published) {
    place.write("p.toml", "[model]\npreset = \"" + preset + "\"\n");
    EXPECT_THAT(place.output_of({"train", "p.toml", "--print-config"}), HasSubstr(count + " parameters"));
  }
  const Json json = Json::parse(place.output_of({"train", "p.toml", "--print-config", "--json"}));
  EXPECT_EQ(json["params"], 68'976'648'192);
  EXPECT_EQ(json["model"]["num_hidden_layers"], 80);
  EXPECT_FALSE(place.exists("runs"));
}

TEST(Train, SetOverridesTheFileAndSaysSo) {
  const Workplace place;
  make_small_run(place);
  const auto arguments =
      train_arguments("other", {"train.steps=7", "optimizer.betas=[0.8, 0.9]", "schedule.decay=linear",
                                "data.channels.zh.weight=0.5", "model.tie_word_embeddings=true"});
  auto printing = arguments;
  printing.push_back("--print-config");
  const std::string printed = place.output_of(printing);
  EXPECT_THAT(printed, ::testing::ContainsRegex("steps +=  *7 .*--set train.steps=7"));
  EXPECT_THAT(printed, ::testing::ContainsRegex("hidden_size +=  *32 .*run.toml:4"));
  EXPECT_THAT(printed, HasSubstr("[0.8, 0.9]"));
  EXPECT_THAT(printed, HasSubstr("\"linear\""));
  EXPECT_FALSE(place.exists("runs"));
  EXPECT_EQ(place.run(arguments).exit_code, 0);
  EXPECT_EQ(metrics(place, "other").size(), 7u);
}

TEST(Train, TheResolvedConfigGivesTheSameRun) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"train.seed=9", "optimizer.lr=0.004"});
  place.output_of({"train", run_file("t", "config.resolved.toml"), "--set", "train.name=u"});
  EXPECT_EQ(history(place, "t"), history(place, "u"));
}

TEST(Train, InitFromTakesTheWeightsOnly) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"optimizer.max_grad_norm=0"});
  train(place, "u", {"train.init_from=" + checkpoint_of("t", 12), "train.steps=3"});
  const Json first = report(place, "t"), second = report(place, "u");
  EXPECT_EQ(second["valid_loss_first"], first["valid_loss_last"]);
  EXPECT_EQ(second["channel_loss_first"], first["channel_loss_last"]);
  EXPECT_EQ(metrics(place, "u")[0]["step"], 1);
  EXPECT_EQ(metrics(place, "u")[0]["tokens"], kTokensPerStep);
  // From a run's folder as from its newest checkpoint.
  train(place, "v", {"train.init_from=runs/t", "train.steps=3"});
  EXPECT_EQ(history(place, "u"), history(place, "v"));
}

TEST(Train, EveryPrecisionFamilyAndOptimizerTrains) {
  const Workplace place;
  make_small_run(place);
  const std::vector<std::vector<std::string>> variants = {
      {"precision.compute=bf16"},
      {"precision.compute=f16"},
      {"model.model_type=gpt2", "model.num_key_value_heads=4", "model.bias=true",
       "model.tie_word_embeddings=true"},
      {"optimizer.name=sgd", "optimizer.lr=0.5"},
      {"parallel.recompute=full", "model.dropout=0.1"},
      {"schedule.decay=wsd", "model.dropout=0.1"},
  };
  int number = 0;
  for (const auto& sets : variants) {
    const std::string name = "v" + std::to_string(number++);
    auto all = sets;
    all.push_back("train.steps=30");
    train(place, name, all);
    const double first = report(place, name)["valid_loss_first"],
                 last = report(place, name)["valid_loss_last"];
    EXPECT_LT(last, first - 0.2) << sets[0];
  }
}

TEST(Train, RecomputeAndThreadsChangeNoBit) {
  const Workplace place;
  make_small_run(place);
  for (const char* compute : {"f32", "bf16"}) {
    const std::string name = compute, precision = "precision.compute=" + name;
    train(place, name, {precision, "model.dropout=0.1"});
    train(place, name + "r", {precision, "model.dropout=0.1", "parallel.recompute=full"});
    train(place, name + "2", {precision, "model.dropout=0.1", "train.threads=2"});
    EXPECT_EQ(history(place, name), history(place, name + "r"));
    EXPECT_EQ(history(place, name), history(place, name + "2"));
  }
}

// Which values are dropped has an address (law 2), so cutting a step into other micro-batches changes rounding only.
TEST(Train, TheSizeOfMicroBatchesChangesRoundingOnly) {
  const Workplace place;
  make_small_run(place);
  train(place, "g2", {"model.dropout=0.1"});
  for (const char* size : {"1", "5", "7", "10"}) {
    const std::string name = std::string("g") + size;
    train(place, name, {"model.dropout=0.1", std::string("train.micro_batch_size=") + size});
    const auto lines = metrics(place, "g2"), others = metrics(place, name);
    for (size_t i = 0; i < lines.size(); ++i)
      for (const char* field : {"loss", "grad_norm"})
        EXPECT_NEAR(others[i][field].get<double>() / lines[i][field].get<double>(), 1.0, 1e-4)
            << field << " of step " << i + 1 << " with micro-batches of " << size;
  }
}

TEST(Train, NothingHeldOutNothingSavedBetweenNothingEvaluated) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"data.valid_fraction=0", "train.eval_every=0", "checkpoint.every_steps=0"});
  EXPECT_THAT(place.list("runs/t/checkpoints"), ElementsAre("step_00000012"));
  EXPECT_FALSE(metrics(place, "t").back().contains("valid_loss"));
  EXPECT_TRUE(report(place, "t")["valid_loss_last"].is_null());
}

TEST(Train, TheTraceOfEveryRank) {
  const Workplace place;
  make_small_run(place);
  train(place, "t", {"train.trace=true"}, /*num_ranks=*/2);
  for (const char* file : {"trace/rank0.json", "trace/rank1.json"}) {
    const Json trace = Json::parse(place.read(run_file("t", file)));
    std::set<std::string> names;
    for (const Json& event : trace.is_array() ? trace : trace.at("traceEvents"))
      names.insert(event.value("name", ""));
    for (const char* name : {"forward", "backward", "micro-batch", "update", "checkpoint", "validation"})
      EXPECT_TRUE(names.contains(name)) << file << " " << name;
  }
}

TEST(Train, ProfileSaysWhereTheStepGoes) {
  const Workplace place;
  make_small_run(place);
  std::vector<std::string> arguments = train_arguments("t", {"train.steps=4", "train.eval_every=0"});
  arguments.push_back("--profile");
  const std::string table = place.output_of(arguments);
  for (const char* word : {"gemm.nt", "% ceil.", "forward", "backward", "outside of kernels"})
    EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
  const Json profile = Json::parse(place.read(run_file("t", "profile.json")));
  EXPECT_EQ(profile["steps"], 3);  // the first one warms up
  EXPECT_GT(profile["ceilings"]["gflops"], 0.0);
  EXPECT_GT(profile["ceilings"]["gbytes_per_second"], 0.0);
  double parts = 0.0;
  for (const auto& [name, milliseconds] : profile["parts_ms"].items()) parts += milliseconds.get<double>();
  EXPECT_LE(parts, profile["step_ms"].get<double>() * 1.0001);
  // Two layers of q, k, v, o, gate, up and down, the head in one chunk, five micro-batches.
  double products = 0.0;
  for (const Json& line : profile["kernels"])
    if (line["kernel"] == "gemm.nt") products += line["calls"].get<double>();
  EXPECT_DOUBLE_EQ(products, 5 * (2 * 7 + 1));
  const Json trace = Json::parse(place.read(run_file("t", "trace/rank0.json")));
  std::set<std::string> categories;
  for (const Json& event : trace["traceEvents"]) categories.insert(event.value("cat", ""));
  EXPECT_TRUE(categories.contains("kernel"));
  EXPECT_TRUE(categories.contains("step"));
  // The same bits with and without.
  train(place, "u", {"train.steps=4", "train.eval_every=0"});
  EXPECT_EQ(history(place, "t"), history(place, "u"));
}

TEST(Train, TextIsTokenizedOnceIntoACacheKeyedByContent) {
  const Workplace place;
  make_small_run(place);
  train(place, "t");
  const auto cached = place.files("runs/.cache");
  EXPECT_FALSE(cached.empty());
  train(place, "u");
  EXPECT_EQ(place.files("runs/.cache"), cached);
  place.write("en.txt", invented_text(5, 3000));
  train(place, "v");
  EXPECT_GT(place.files("runs/.cache").size(), cached.size());
  EXPECT_NE(history(place, "t").digest, history(place, "v").digest);
}

TEST(Train, DataPathsStartAtTheConfigAndRunsInTheWorkingFolder) {
  const Workplace place;
  make_small_run(place);
  place.write("elsewhere/note", "");
  place.output_of({"train", "../run.toml"}, {.folder = place.path("elsewhere")});
  EXPECT_TRUE(place.exists("elsewhere/runs/t/report.json"));
  EXPECT_FALSE(place.exists("runs"));
}

}  // namespace
}  // namespace athanor::tests::train_test
