#include "athanor/config/effects.h"

#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "config/config_testing.h"

namespace athanor {
namespace {

// The refusal of what these overrides set, "" where there is none.
std::string refusal(const std::vector<std::string>& overrides, const std::string& text = "") {
  try {
    check_effects(parse(text, overrides));
  } catch (const ConfigError& error) {
    return error.what() + (" | " + error.hint());
  }
  return "";
}

struct Case {
  const char* set;                    // does nothing by itself
  std::vector<std::string> with;      // makes it act
  const char* the_default = nullptr;  // the program's own value, which is always right
};

const std::vector<Case>& cases() {
  static const std::vector<std::string> moe = {"model.family=moe"}, sync = {"parallel.sync_every=10"},
                                        f16 = {"precision.compute=f16"}, pp = {"parallel.pp=2"};
  static const std::vector<Case> all = {
      {"model.rope_base=5e5", {}, "model.rope_base=1e4"},  // of gpt2: see below
      {"model.experts_per_token=1", moe, "model.experts_per_token=0"},
      {"model.expert_width=32", moe},
      {"model.shared_experts=1", moe, "model.shared_experts=0"},
      {"model.dense_layers=1", moe, "model.dense_layers=0"},
      {"model.router=sigmoid", moe, "model.router=softmax"},
      {"model.router_renormalize=false", moe, "model.router_renormalize=true"},
      {"model.router_scale=2.5", moe, "model.router_scale=1.0"},
      {"model.router_aux_loss=0.1", moe, "model.router_aux_loss=0.0"},
      {"model.router_z_loss=0.1", moe},
      {"model.router_bias_rate=0.1", moe},
      {"model.capacity_factor=1.25", moe},
      {"optimizer.momentum=0.5", {"optimizer.name=sgd"}, "optimizer.momentum=0.9"},
      {"schedule.wsd_decay_fraction=0.5", {"schedule.decay=wsd"}, "schedule.wsd_decay_fraction=0.2"},
      {"precision.loss_scale=1024", f16, "precision.loss_scale=256"},
      {"precision.loss_scale_window=7", f16, "precision.loss_scale_window=1000"},
      {"parallel.cp_kind=ulysses", {"parallel.cp=2"}, "parallel.cp_kind=ring"},
      {"parallel.balance_every=7", {"parallel.balance=speed", "parallel.reduce=tree"}},
      {"parallel.schedule=zb-h1", pp, "parallel.schedule=1f1b"},
      {"parallel.virtual_stages=2", {"parallel.pp=2", "parallel.schedule=interleaved"}},
      {"parallel.stage_layers=[8]", {"parallel.pp=2", "parallel.stage_layers=[4,4]"}},
      {"parallel.compression_ratio=0.5", {"parallel.compression=topk"}, "parallel.compression_ratio=0.1"},
      {"parallel.compression_rank=2", {"parallel.compression=powersgd"}},
      {"parallel.compression_warmup=2", {"parallel.compression=int8"}, "parallel.compression_warmup=0"},
      {"parallel.error_feedback=false", {"parallel.compression=int8"}, "parallel.error_feedback=true"},
      {"parallel.sync_group=2", sync, "parallel.sync_group=auto"},
      {"parallel.outer_lr=0.5", sync, "parallel.outer_lr=0.7"},
      {"parallel.outer_momentum=0.5", sync},
      {"parallel.outer_compression=int8", sync, "parallel.outer_compression=none"},
      {"parallel.consistency=async", {"parallel.servers=1"}, "parallel.consistency=sync"},
      {"parallel.staleness=3", {"parallel.servers=1", "parallel.consistency=bounded"}},
      {"offload.path=/tmp", {"offload.optimizer=disk"}},
  };
  return all;
}

std::string key_of(const std::string& set) {
  return set.substr(0, set.find('='));
}

TEST(Effects, ASettingThatNothingReadsIsRefusedByName) {
  for (const Case& each : cases()) {
    if (key_of(each.set) == "model.rope_base") continue;
    const std::string message = refusal({each.set});
    EXPECT_NE(message.find(std::string("--set ") + each.set + ": " + key_of(each.set) + ": got "),
              std::string::npos)
        << each.set << ": " << message;
    EXPECT_NE(message.find("which has no effect without "), std::string::npos) << each.set << ": " << message;
    EXPECT_NE(message.find("leave " + key_of(each.set) + " out"), std::string::npos) << message;
  }
}

TEST(Effects, WhatMakesItActMakesItLegal) {
  for (const Case& each : cases()) {
    std::vector<std::string> sets = {each.set};
    sets.insert(sets.end(), each.with.begin(), each.with.end());
    EXPECT_EQ(refusal(sets), "") << each.set;
  }
}

TEST(Effects, TheDefaultMayAlwaysBeSaid) {
  for (const Case& each : cases())
    EXPECT_EQ(each.the_default == nullptr ? "" : refusal({each.the_default}), "") << each.set;
}

TEST(Effects, FamiliesAndAlgorithmsHaveKeysOfTheirOwn) {
  const auto refused = [](const std::vector<std::string>& sets, const std::string& part) {
    const std::string message = refusal(sets);
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  };
  refused({"model.family=gpt2", "model.rope_base=5e5"}, "model.rope_base: got 500000.0, which has no effect");
  refused({"optimizer.name=sgd", "optimizer.betas=[0.8, 0.9]"}, "optimizer.betas: got [0.8, 0.9]");
  refused({"optimizer.name=sgd", "optimizer.eps=1e-6"}, "without optimizer.name = \"adamw\"");
  refused({"schedule.decay=constant", "schedule.min_lr_ratio=0.5"}, "schedule.min_lr_ratio: got 0.5");
  refused({"schedule.decay=wsd", "schedule.wsd_decay_fraction=0.0", "schedule.min_lr_ratio=0.5"},
          "schedule.min_lr_ratio");
  refused({"train.device=cuda", "train.isa=avx2"}, "train.isa: got \"avx2\"");
  refused({"data.valid_fraction=0.0", "train.eval_every=5"}, "train.eval_every: got 5");
  refused({"data.valid_fraction=0.0", "train.eval_tokens=5"}, "without data.valid_fraction above 0");
  refused({"data.valid_fraction=0.0", "train.first_eval_tokens=5"}, "train.first_eval_tokens: got 5");
  EXPECT_EQ(refusal({"data.valid_fraction=0.0", "train.eval_every=0", "train.first_eval_tokens=0"}), "");
  refused({"model.preset=moe-tiny", "model.ffn_width=64"}, "model.ffn_width: got 64");
  EXPECT_EQ(refusal({"model.family=moe", "model.ffn_width=64"}), "");  // the experts' width follows from it
  EXPECT_EQ(refusal({"model.preset=moe-tiny", "model.ffn_width=64", "model.dense_layers=1"}), "");
  EXPECT_EQ(refusal({"parallel.schedule=mine.csv"}), "");  // says itself for how many ranks it is
}

TEST(Effects, WhatAnOverrideSwitchesOffIsToldAndNoMistake) {
  const auto told = [](const std::string& text, const std::vector<std::string>& overrides) {
    return check_effects(parse(text, overrides), [&] { return parse(text); });
  };
  const std::vector<std::pair<std::string, std::string>> table = {
      {"[optimizer]\nbetas = [0.8, 0.9]", "optimizer.name=sgd"},
      {"[schedule]\nmin_lr_ratio = 0.5", "schedule.decay=constant"},
      {"[train]\neval_tokens = 512", "data.valid_fraction=0"},
      {"[precision]\ncompute = 'f16'\nloss_scale = 8", "precision.compute=bf16"},
      {"[parallel]\npp = 2\nschedule = 'gpipe'", "parallel.pp=1"},
  };
  for (const auto& [text, set] : table) {
    const auto lines = told(text, {set});
    ASSERT_EQ(lines.size(), 1) << text;
    EXPECT_EQ(lines[0].rfind("first.toml:", 0), 0) << lines[0];
    EXPECT_NE(lines[0].find("which --set took away"), std::string::npos);
    EXPECT_TRUE(told(text, {}).empty());
  }
  // What does nothing in the file already, and what the override itself sets, is refused all the same.
  EXPECT_THROW(told("[optimizer]\nmomentum = 0.5", {"data.valid_fraction=0"}), ConfigError);
  EXPECT_THROW(told("", {"optimizer.name=sgd", "optimizer.betas=[0.8, 0.9]"}), ConfigError);
}

TEST(Effects, WhatIsNotThereYetIsRefused) {
  for (const char* key : {"launch.max_restarts", "launch.max_ranks", "checkpoint.flash_every_steps"}) {
    const std::string message = refusal({std::string(key) + "=3"});
    EXPECT_NE(message.find(std::string(key) + ": got 3, expected 0: "), std::string::npos) << message;
    EXPECT_NE(message.find("not there yet"), std::string::npos) << message;
    EXPECT_EQ(refusal({std::string(key) + "=0"}), "");
  }
  EXPECT_NE(refusal({"launch.min_ranks=5"}).find("launch.min_ranks: got 5, expected 1"), std::string::npos);
}

TEST(Effects, PresetsAndWhatTheyResolveToAreLegal) {
  for (const std::string& name : preset_names()) {
    const Config config = parse("", {"model.preset=" + name});
    EXPECT_NO_THROW(check_effects(config)) << name;
    EXPECT_NO_THROW(check_effects(parse(print_config(config)))) << name;
  }
  for (const Case& each : cases()) {
    std::vector<std::string> sets = {each.set};
    sets.insert(sets.end(), each.with.begin(), each.with.end());
    EXPECT_NO_THROW(check_effects(parse(print_config(parse("", sets))))) << each.set;
  }
}

}  // namespace
}  // namespace athanor
