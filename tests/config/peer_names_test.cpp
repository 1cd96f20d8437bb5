#include "athanor/config/peer_names.h"

#include "athanor/config/fields.h"
#include "config/config_testing.h"

namespace athanor {
namespace {

TEST(PeerNames, TheirKeysLeadToOurs) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"[train]\nlearning_rate = 1",
       "first.toml:2: unknown key 'train.learning_rate'; Athanor calls it optimizer.lr"},
      {"[train]\nbatch_size = 1", "Athanor calls it train.global_batch"},
      {"[train]\ngradient_accumulation_steps = 1", "accumulation follows"},
      {"[model]\nhidden_size = 1", "Athanor calls it model.width"},
      {"[model]\nn_embd = 1", "model.width"},
      {"[model]\ndim = 1", "model.width"},
      {"[model]\nn_layer = 1", "model.layers"},
      {"[model]\nnum_attention_heads = 1", "model.heads"},
      {"[model]\nblock_size = 1", "data.seq_len"},
      {"[train]\nnum_train_epochs = 1", "train.steps: steps = epochs x"},
      {"[train]\nfp16 = true", "precision.compute"},
      {"[train]\nmax-steps = 1", "train.steps"},
      {"[optimizer]\nmax_grad_norm = 1", "optimizer.clip_norm"},
      {"[schedule]\nwarmup_ratio = 0.1", "in steps, not a share"},
      {"[checkpoint]\nsave_total_limit = 1", "checkpoint.keep"},
      {"[parallel]\ntensor_parallel_size = 1", "parallel.tp"},
      {"learning_rate = 1", "unknown key 'learning_rate'; Athanor calls it optimizer.lr"},
      {"[lr_scheduler]\nx = 1", "unknown section 'lr_scheduler', did you mean 'schedule'?"},
  };
  for (const auto& [text, part] : table) expect_error(text, {part});
  expect_error("", {"--set max_iters=5: unknown key 'max_iters'; Athanor calls it train.steps"},
               {"max_iters=5"});
  expect_error("[train]\nstepz = 1", {"did you mean 'train.steps'?"});
  expect_error("[model]\nlr = 1", {"did you mean 'optimizer.lr'?"});
}

TEST(PeerNames, TheirTypesLeadToOurs) {
  for (const auto& [theirs, ours] : {std::pair{"float16", "f16"},
                                     {"fp16", "f16"},
                                     {"half", "f16"},
                                     {"float32", "f32"},
                                     {"fp32", "f32"},
                                     {"bfloat16", "bf16"},
                                     {"torch.bfloat16", "bf16"}})
    expect_error("[precision]\ncompute = '" + std::string(theirs) + "'",
                 {"got '" + std::string(theirs) + "', expected one of f32, bf16, f16; Athanor calls it '" +
                  ours + "'"});
  expect_error("[optimizer]\nname = 'adamw_torch'", {"Athanor calls it 'adamw'"});
  expect_error("[offload]\noptimizer = 'nvme'", {"Athanor calls it 'disk'"});
  expect_error("[schedule]\ndecay = 'constant_with_warmup'", {"Athanor calls it 'constant'"});
}

TEST(PeerNames, EveryNameOfOursIsOne) {
  // A peer's name that is also one of ours would never be reached.
  for (const auto& field : config_fields()) {
    const PeerKey peer = find_peer_key(field.name);
    if (peer.ours == nullptr) continue;
    EXPECT_NE(find_field(std::string_view(peer.ours).substr(0, std::string_view(peer.ours).find('.')),
                         std::string_view(peer.ours).substr(std::string_view(peer.ours).find('.') + 1)),
              nullptr)
        << peer.ours;
  }
  for (const char* name :
       {"learning_rate", "n_head", "rope_theta", "zero_stage", "save_steps", "out_dir", "dtype"}) {
    const std::string ours = find_peer_key(name).ours;
    EXPECT_NE(find_field(ours.substr(0, ours.find('.')), ours.substr(ours.find('.') + 1)), nullptr) << ours;
  }
}

TEST(NotToml, WhatItLooksLikeIsSaid) {
  expect_error("{\"train\": {\"steps\": 3}}", {"not TOML", "this looks like JSON"});
  expect_error("train:\n  steps: 3\n", {"not TOML", "this looks like YAML"});
  expect_error("# a run\n---\nsteps: 3\n", {"this looks like YAML"});
  expect_error("[train]\nname = first\n", {"first.toml:2: not TOML", "a text stands in quotes: \"first\""});
  expect_error("[data]\ntokenizer = data/tokenizer.json\n",
               {"a text stands in quotes: \"data/tokenizer.json\""});
  expect_error("[data]\ntokenizer = /data/tokenizer.json\n", {"a text stands in quotes"});
  expect_error("[precision]\ncompute = f32\n", {"a text stands in quotes: \"f32\""});
  EXPECT_EQ(parse_error("[train\n").find("quotes"), std::string::npos);
}

}  // namespace
}  // namespace athanor
