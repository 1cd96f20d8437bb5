#include "athanor/run/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "athanor/base/error.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/config/fields.h"
#include "support/temporary_folder.h"

namespace athanor::tests::agreement_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// What each rank was refused with; "" where it was not.
std::vector<std::string> refusals(int ranks, const std::function<void(Group&)>& body) {
  const auto groups = make_thread_groups(ranks);
  std::vector<std::string> texts(static_cast<size_t>(ranks));
  run_ranks(groups, [&](Group& group) {
    try {
      body(group);
    } catch (const ConfigError& error) {
      texts[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  return texts;
}

struct Changed {
  void operator()(std::string* text) const { *text += "x"; }
  void operator()(int64_t* value) const { ++*value; }
  void operator()(uint64_t* value) const { ++*value; }
  void operator()(double* value) const { *value += 0.125; }
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::vector<double>* values) const { values->push_back(0.5); }
  void operator()(std::vector<int64_t>* values) const { values->push_back(7); }
  void operator()(std::vector<std::string>* texts) const { texts->emplace_back("x"); }
  void operator()(std::vector<ChannelConfig>* channels) const { channels->push_back({.name = "new"}); }
  void operator()(std::vector<OptimizerGroupConfig>* groups) const { groups->push_back({.match = "*"}); }
};

std::vector<std::string> settings_refusals(const std::function<void(Config&)>& change, int of_rank) {
  return refusals(3, [&](Group& group) {
    Config config;
    if (group.rank() == of_rank) change(config);
    std::string note;
    agree_on_settings(config, group, best_isa(), &note);
  });
}

// Of the whole table, so that a new setting is covered the day it is added.
TEST(Agreement, NamesEverySettingThatOneRankHasOtherwise) {
  int rank = 0;
  for (const auto& field : config_fields()) {
    rank = (rank + 1) % 3;
    const auto change = [&](Config& config) { std::visit(Changed(), field.slot(config)); };
    const auto texts = settings_refusals(change, rank);
    if (may_differ_between_ranks(field.key())) {
      EXPECT_THAT(texts, Each("")) << field.key();
      continue;
    }
    EXPECT_THAT(texts, Each(HasSubstr(field.key() + ": got "))) << field.key() << " of rank " << rank;
    EXPECT_THAT(texts, Each(HasSubstr(rank == 0 ? "on rank 1, expected" : fmt::format("on rank {},", rank))));
  }
}

TEST(Agreement, SaysBothValues) {
  EXPECT_THAT(settings_refusals([](Config& config) { config.optimizer.lr = 0.01; }, 2),
              Each("optimizer.lr: got 0.01 on rank 2, expected 0.0003 as on rank 0"));
  EXPECT_THAT(settings_refusals([](Config& config) { config.train.seed = 4; }, 0),
              Each("train.seed: got 1 on rank 1, expected 4 as on rank 0"));
  const auto many = [](Config& config) {
    config.train.steps = 1, config.train.seed = 2, config.optimizer.eps = 1, config.optimizer.momentum = 0;
  };
  EXPECT_THAT(settings_refusals(many, 1), Each(HasSubstr("as on rank 0; and 1 more")));
}

TEST(Agreement, ComparesWhatPathsHoldAndNotThePaths) {
  Config config;
  config.data.channels = {{.name = "en", .path = "/here/en", .weight = 0.5}};
  Config other = config;
  other.data.channels[0].path = "/there/en";
  const auto value = [](const Config& c, const std::string& key) {
    for (const Fact& fact : settings_facts(c))
      if (fact.key == key) return fact.value;
    return std::string("no such fact");
  };
  EXPECT_EQ(value(config, "data.channels"), value(other, "data.channels"));
  other.data.channels[0].weight = 0.25;
  EXPECT_NE(value(config, "data.channels"), value(other, "data.channels"));
  config.parallel.schedule = "/here/a.csv", config.parallel.schedule_csv = "a";
  other.parallel.schedule = "/there/a.csv", other.parallel.schedule_csv = "a";
  EXPECT_EQ(value(config, "parallel.schedule"), value(other, "parallel.schedule"));
  other.parallel.schedule_csv = "b";
  EXPECT_NE(value(config, "parallel.schedule"), value(other, "parallel.schedule"));
  EXPECT_NE(value(config, "version of the program"), "no such fact");
}

TEST(Agreement, NamesFactsThatOneRankLacks) {
  const std::vector<Fact> few = {{"a", "1"}}, more = {{"a", "1"}, {"b", "2"}};
  const auto with = [&](int of_rank) {
    return refusals(2, [&](Group& group) { agree(group, group.rank() == of_rank ? more : few, ""); });
  };
  EXPECT_THAT(with(0), Each("b: got none on rank 1, expected 2 as on rank 0"));
  EXPECT_THAT(with(1), Each("b: got 2 on rank 1, expected none as on rank 0"));
}

TEST(Agreement, NamesTheDataThatDiffers) {
  const std::string rest = "channel 'a: b': weight=1 tokens=5 content=12\n";
  const auto texts = refusals(2, [&](Group& group) {
    const std::string tokenizer = group.rank() == 0 ? "aa" : "bb";
    agree(group, data_facts("data: seq_len=32 tokenizer=" + tokenizer + "\n" + rest), "");
  });
  EXPECT_THAT(
      texts,
      Each("data: got seq_len=32 tokenizer=bb on rank 1, expected seq_len=32 tokenizer=aa as on rank 0"));
  const auto facts = data_facts(rest);
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_EQ(facts[0].key, "channel 'a: b'");
  EXPECT_EQ(facts[0].value, "weight=1 tokens=5 content=12");
}

TEST(Agreement, TakesTheLowestInstructionSet) {
  std::vector<std::string> taken(3), notes(3);
  const Isa offered[] = {Isa::avx2, Isa::generic, Isa::avx512};
  const auto run = [&](const std::string& isa) {
    return refusals(3, [&](Group& group) {
      const auto r = static_cast<size_t>(group.rank());
      Config config;
      config.train.isa = isa;
      taken[r] = agree_on_settings(config, group, offered[r], &notes[r]).train.isa;
    });
  };
  EXPECT_THAT(run("auto"), Each(""));
  EXPECT_THAT(taken, Each(best_isa() == Isa::generic ? "auto" : "generic"));
  EXPECT_THAT(notes, Each("instruction set generic: rank 1 has no more, others have avx512"));
  EXPECT_THAT(run("generic"), Each(""));
  EXPECT_THAT(taken, Each("generic"));
  EXPECT_THAT(run("avx2"), Each("train.isa: got 'avx2', expected at most 'generic': rank 1 has no more"));
}

class AgreementOnFiles : public ::testing::Test {
 protected:
  AgreementOnFiles() {
    std::filesystem::remove_all(base_);
    for (const char* host : {"h0", "h1"})
      std::filesystem::create_directories(path(host) + "/run/checkpoints");
  }
  ~AgreementOnFiles() override { std::filesystem::remove_all(base_); }
  std::string path(const std::string& name) const { return join_path(base_, name); }
  std::string host(const Group& group) const { return path(group.rank() == 0 ? "h0" : "h1"); }
  void save(const std::string& host, int64_t step, float value) const {
    const auto group = make_single_group();
    write_checkpoint(system_env(), *group, path(host) + "/run/checkpoints", checkpoint_content(step, value));
  }
  CheckpointContent checkpoint_content(int64_t step, float value) const;

  std::string base_ = temporary_path("agreement");
};

TEST_F(AgreementOnFiles, TheFolderIsOne) {
  const auto shared =
      refusals(3, [&](Group& group) { agree_on_folder(system_env(), group, path("h0/run"), 0.0); });
  EXPECT_THAT(shared, Each(""));
  EXPECT_TRUE(std::filesystem::is_directory(path("h0/run/checkpoints")));
  const auto own =
      refusals(2, [&](Group& group) { agree_on_folder(system_env(), group, host(group) + "/run", 0.0); });
  EXPECT_THAT(own, Each(HasSubstr("train.runs: got a folder of its own on rank 1")));
  EXPECT_FALSE(std::filesystem::exists(path("h0/run"))) << "what the refused start has made";
}

TEST_F(AgreementOnFiles, ARefusedFolderKeepsWhatWasThere) {
  std::ofstream(path("h0/run/metrics.jsonl")) << "{}\n";
  refusals(2, [&](Group& group) { agree_on_folder(system_env(), group, host(group) + "/run", 0.0); });
  EXPECT_EQ(system_env().list(path("h0/run")), (std::vector<std::string>{"checkpoints", "metrics.jsonl"}));
}

TEST_F(AgreementOnFiles, TheWeightsAreTheSame) {
  const auto write = [&](const std::string& host, const std::string& weights) {
    std::filesystem::create_directories(path(host) + "/hf");
    std::ofstream(path(host) + "/hf/config.json") << "{}";
    std::ofstream(path(host) + "/hf/model.safetensors") << weights;
  };
  const auto run = [&] {
    return refusals(2, [&](Group& group) { agree_on_weights(system_env(), group, host(group) + "/hf"); });
  };
  const std::string weights(100000, 'w');
  write("h0", weights), write("h1", weights);
  EXPECT_THAT(run(), Each(""));
  write("h1", weights.substr(1) + "v");
  EXPECT_THAT(run(), Each(HasSubstr("train.init_from: got files with hash ")));
  std::filesystem::remove_all(path("h1/hf"));
  EXPECT_THAT(run(), Each(HasSubstr("train.init_from: got none (")));
}

CheckpointContent AgreementOnFiles::checkpoint_content(int64_t step, float value) const {
  return {.step = step, .state = "{}", .tensors = {}, .files = {{"note", fmt::format("{}", value)}}};
}

TEST_F(AgreementOnFiles, TheCheckpointIsThatOfRank0) {
  const auto resume = [&](std::vector<std::string>* chosen) {
    return refusals(2, [&](Group& group) {
      std::vector<std::string> skipped;
      const auto newest =
          agree_on_checkpoint(system_env(), group, host(group) + "/run/checkpoints", &skipped, 0.0);
      if (chosen != nullptr)
        (*chosen)[static_cast<size_t>(group.rank())] =
            newest ? newest->substr(newest->rfind('/') + 1) : "none";
    });
  };
  std::vector<std::string> chosen(2);
  EXPECT_THAT(resume(&chosen), Each(""));
  EXPECT_THAT(chosen, Each("none"));
  save("h0", 5, 1), save("h1", 5, 1), save("h1", 10, 1);
  EXPECT_THAT(resume(&chosen), Each(""));
  EXPECT_THAT(chosen, Each("step_00000005")) << "rank 0 does not see a newer one yet";
  save("h0", 20, 1);
  EXPECT_THAT(resume(nullptr),
              Each("checkpoint to resume from: got step_00000010 on rank 1, expected step_00000020 "
                   "as on rank 0"));
  save("h1", 20, 2);
  EXPECT_THAT(resume(nullptr), Each(HasSubstr("got another step_00000020 on rank 1 (hash ")));
}

}  // namespace
}  // namespace athanor::tests::agreement_test
