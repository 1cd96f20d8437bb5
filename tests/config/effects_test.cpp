#include "athanor/config/effects.h"

#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "config/config_testing.h"

namespace athanor::tests::effects_test {
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
  static const std::vector<std::string> moe = {"model.model_type=moe"}, sync = {"local_sgd.sync_interval=10"},
                                        f16 = {"precision.compute=f16"}, pp = {"parallel.pp=2"};
  static const std::vector<Case> all = {
      {"model.rope_theta=5e5", {}, "model.rope_theta=1e4"},  // of gpt2: see below
      {"model.rope_factor=4", {"model.rope_scaling=yarn"}, "model.rope_factor=1.0"},
      {"model.rope_original_length=64",
       {"model.rope_scaling=llama3", "model.rope_factor=4"},
       "model.rope_original_length=0"},
      {"model.rope_low_freq_factor=2",
       {"model.rope_scaling=llama3", "model.rope_factor=4"},
       "model.rope_low_freq_factor=1.0"},
      {"model.rope_high_freq_factor=8",
       {"model.rope_scaling=llama3", "model.rope_factor=4"},
       "model.rope_high_freq_factor=4.0"},
      {"model.rope_beta_fast=16",
       {"model.rope_scaling=yarn", "model.rope_factor=4"},
       "model.rope_beta_fast=32.0"},
      {"model.rope_beta_slow=2",
       {"model.rope_scaling=yarn", "model.rope_factor=4"},
       "model.rope_beta_slow=1.0"},
      {"model.rope_truncate=false",
       {"model.rope_scaling=yarn", "model.rope_factor=4"},
       "model.rope_truncate=true"},
      {"model.rope_attention_factor=1.5",
       {"model.rope_scaling=yarn", "model.rope_factor=4"},
       "model.rope_attention_factor=0.0"},
      {"model.num_experts_per_tok=1", moe, "model.num_experts_per_tok=0"},
      {"model.moe_intermediate_size=32", moe},
      {"model.n_shared_experts=1", moe, "model.n_shared_experts=0"},
      {"model.first_k_dense_replace=1", moe, "model.first_k_dense_replace=0"},
      {"model.scoring_func=sigmoid", moe, "model.scoring_func=softmax"},
      {"model.norm_topk_prob=false", moe, "model.norm_topk_prob=true"},
      {"model.routed_scaling_factor=2.5", moe, "model.routed_scaling_factor=1.0"},
      {"model.router_aux_loss_coef=0.1", moe, "model.router_aux_loss_coef=0.0"},
      {"model.router_z_loss_coef=0.1", moe},
      {"model.router_bias_update_rate=0.1", moe},
      {"model.capacity_factor=1.25", moe},
      {"optimizer.momentum=0.5", {"optimizer.name=sgd"}, "optimizer.momentum=0.9"},
      {"schedule.wsd_decay_fraction=0.5", {"schedule.decay=wsd"}, "schedule.wsd_decay_fraction=0.2"},
      {"schedule.power=3", {"schedule.decay=polynomial"}, "schedule.power=1.0"},
      {"precision.loss_scale=1024", f16, "precision.loss_scale=256"},
      {"precision.loss_scale_window=7", f16, "precision.loss_scale_window=1000"},
      {"parallel.cp_method=ulysses", {"parallel.cp=2"}, "parallel.cp_method=ring"},
      {"parallel.load_balance_every=7", {"parallel.load_balance=speed", "parallel.reduce=tree"}},
      {"parallel.schedule=zb-h1", pp, "parallel.schedule=1f1b"},
      {"parallel.virtual_stages=2", {"parallel.pp=2", "parallel.schedule=interleaved"}},
      {"parallel.stage_layers=[8]", {"parallel.pp=2", "parallel.stage_layers=[4,4]"}},
      {"compression.ratio=0.5", {"compression.method=topk"}, "compression.ratio=0.1"},
      {"compression.rank=2", {"compression.method=powersgd"}},
      {"compression.warmup_steps=2", {"compression.method=int8"}, "compression.warmup_steps=0"},
      {"compression.error_feedback=false", {"compression.method=int8"}, "compression.error_feedback=true"},
      {"local_sgd.group_size=2", sync, "local_sgd.group_size=auto"},
      {"local_sgd.outer_lr=0.5", sync, "local_sgd.outer_lr=0.7"},
      {"local_sgd.outer_momentum=0.5", sync},
      {"local_sgd.compression=int8", sync, "local_sgd.compression=none"},
      {"parameter_server.consistency=async",
       {"parameter_server.servers=1"},
       "parameter_server.consistency=sync"},
      {"parameter_server.staleness=3",
       {"parameter_server.servers=1", "parameter_server.consistency=bounded"}},
      {"offload.path=/tmp", {"offload.optimizer=disk"}},
  };
  return all;
}

std::string key_of(const std::string& set) {
  return set.substr(0, set.find('='));
}

TEST(Effects, ASettingThatNothingReadsIsRefusedByName) {
  for (const Case& each : cases()) {
    if (key_of(each.set) == "model.rope_theta") continue;
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
  refused({"model.model_type=gpt2", "model.rope_theta=5e5"},
          "model.rope_theta: got 500000.0, which has no effect");
  refused({"optimizer.name=sgd", "optimizer.betas=[0.8, 0.9]"}, "optimizer.betas: got [0.8, 0.9]");
  refused({"optimizer.name=sgd", "optimizer.bias_correction=false"}, "optimizer.bias_correction: got false");
  refused({"optimizer.name=sgd", "optimizer.eps=1e-6"}, "without optimizer.name = \"adamw\" or \"lamb\"");
  refused({"model.model_type=gpt2", "model.rope_scaling=yarn", "model.rope_factor=4"},
          "model.rope_scaling: got \"yarn\", which has no effect");
  refused({"schedule.warmup_steps=0", "schedule.warmup_init_ratio=1.0"},
          "without schedule.warmup_steps above 0");
  refused({"schedule.decay=inverse_sqrt", "schedule.min_lr_ratio=0.5"}, "schedule.min_lr_ratio: got 0.5");
  refused({"schedule.decay=constant", "schedule.min_lr_ratio=0.5"}, "schedule.min_lr_ratio: got 0.5");
  refused({"schedule.decay=wsd", "schedule.wsd_decay_fraction=0.0", "schedule.min_lr_ratio=0.5"},
          "schedule.min_lr_ratio");
  refused({"train.device=cuda", "train.isa=avx2"}, "train.isa: got \"avx2\"");
  refused({"data.valid_fraction=0.0", "train.eval_every=5"}, "train.eval_every: got 5");
  refused({"data.valid_fraction=0.0", "train.eval_tokens=5"}, "without data.valid_fraction above 0");
  refused({"data.valid_fraction=0.0", "train.initial_eval_tokens=5"}, "train.initial_eval_tokens: got 5");
  EXPECT_EQ(refusal({"data.valid_fraction=0.0", "train.eval_every=0", "train.initial_eval_tokens=0"}), "");
  refused({"model.preset=moe-tiny", "model.intermediate_size=64"}, "model.intermediate_size: got 64");
  EXPECT_EQ(refusal({"model.model_type=moe", "model.intermediate_size=64"}),
            "");  // the experts' width follows from it
  EXPECT_EQ(refusal({"model.preset=moe-tiny", "model.model_type=moe", "model.intermediate_size=64",
                     "model.first_k_dense_replace=1"}),
            "");
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
    EXPECT_NE(lines[0].find("which --set switched off"), std::string::npos);
    EXPECT_TRUE(told(text, {}).empty());
  }
  // What does nothing in the file already, and what the override itself sets, is refused all the same.
  EXPECT_THROW(told("[optimizer]\nmomentum = 0.5", {"data.valid_fraction=0"}), ConfigError);
  EXPECT_THROW(told("", {"optimizer.name=sgd", "optimizer.betas=[0.8, 0.9]"}), ConfigError);
}

// What the run sets has to act in a phase at least; what a phase sets, in that phase.
TEST(Effects, OfPhases) {
  const std::string phases =
      "[[phase]]\nname = 'a'\nsteps = 9\nschedule.decay = 'wsd'\n[[phase]]\nname = 'b'\nsteps = 9\n"
      "schedule.decay = 'linear'\n";
  EXPECT_EQ(refusal({"schedule.wsd_decay_fraction=0.5"}, phases), "");
  EXPECT_EQ(refusal({"phase.a.schedule.wsd_decay_fraction=0.5"}, phases), "");
  EXPECT_NE(refusal({"schedule.wsd_decay_fraction=0.5", "phase.a.schedule.decay=cosine"}, phases)
                .find("schedule.wsd_decay_fraction: got 0.5, which has no effect without schedule.decay"),
            std::string::npos);
  EXPECT_EQ(
      refusal({"phase.b.schedule.wsd_decay_fraction=0.5"}, phases)
          .rfind("phase 'b': --set phase.b.schedule.wsd_decay_fraction=0.5: schedule.wsd_decay_fraction: got",
                 0),
      0u);
  EXPECT_NE(refusal({"phase.b.optimizer.momentum=0.5"}, phases).find("optimizer.momentum: got 0.5"),
            std::string::npos);
  const std::string text = phases + "schedule.min_lr_ratio = 0.25\n";
  const auto lines =
      check_effects(parse(text, {"phase.b.schedule.decay=constant"}), [&] { return parse(text); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].rfind("first.toml:9: schedule.min_lr_ratio = 0.25 has no effect", 0), 0u) << lines[0];
}

TEST(Effects, WhatIsNotThereYetIsRefused) {
  const std::string message = refusal({"snapshot.peers=3"});
  EXPECT_NE(message.find("snapshot.peers: got 3, expected 0: "), std::string::npos) << message;
  EXPECT_NE(message.find("not there yet"), std::string::npos) << message;
  EXPECT_EQ(refusal({"snapshot.peers=0"}), "");
  EXPECT_EQ(refusal({"launch.max_restarts=3", "launch.min_ranks=2", "launch.max_ranks=8"}), "");
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
}  // namespace athanor::tests::effects_test
