#include "athanor/config/peer_names.h"

#include <fmt/format.h>

#include <iterator>

#include "athanor/config/fields.h"
#include "config/config_testing.h"

namespace athanor::tests::peer_names_test {
namespace {

struct Renamed {
  const char *table, *theirs, *ours;
};

// Every key that had another name.
constexpr Renamed kOldKeys[] = {
    {"model", "family", "model.model_type"},
    {"model", "layers", "model.num_hidden_layers"},
    {"model", "width", "model.hidden_size"},
    {"model", "heads", "model.num_attention_heads"},
    {"model", "kv_heads", "model.num_key_value_heads"},
    {"model", "ffn_width", "model.intermediate_size"},
    {"model", "max_seq_len", "model.max_position_embeddings"},
    {"model", "tie_embeddings", "model.tie_word_embeddings"},
    {"model", "rope_base", "model.rope_theta"},
    {"model", "norm_eps", "model.rms_norm_eps"},
    {"model", "init_std", "model.initializer_range"},
    {"model", "experts", "model.num_experts"},
    {"model", "experts_per_token", "model.num_experts_per_tok"},
    {"model", "expert_width", "model.moe_intermediate_size"},
    {"model", "shared_experts", "model.n_shared_experts"},
    {"model", "dense_layers", "model.first_k_dense_replace"},
    {"model", "router", "model.scoring_func"},
    {"model", "router_renormalize", "model.norm_topk_prob"},
    {"model", "router_scale", "model.routed_scaling_factor"},
    {"model", "router_aux_loss", "model.router_aux_loss_coef"},
    {"model", "router_z_loss", "model.router_z_loss_coef"},
    {"model", "router_bias_rate", "model.router_bias_update_rate"},
    {"train", "global_batch", "train.global_batch_size"},
    {"train", "micro_batch", "train.micro_batch_size"},
    {"train", "first_eval_tokens", "train.initial_eval_tokens"},
    {"optimizer", "clip_norm", "optimizer.max_grad_norm"},
    {"parallel", "zero", "parallel.zero_stage"},
    {"parallel", "cp_kind", "parallel.cp_method"},
    {"parallel", "balance", "parallel.load_balance"},
    {"parallel", "balance_every", "parallel.load_balance_every"},
    {"parallel", "zero_shard", "parallel.shard_degree"},
    {"parallel", "sync_every", "local_sgd.sync_interval"},
    {"parallel", "sync_group", "local_sgd.group_size"},
    {"parallel", "outer_lr", "local_sgd.outer_lr"},
    {"parallel", "outer_momentum", "local_sgd.outer_momentum"},
    {"parallel", "outer_compression", "local_sgd.compression"},
    {"parallel", "compression", "compression.method"},
    {"parallel", "compression_ratio", "compression.ratio"},
    {"parallel", "compression_rank", "compression.rank"},
    {"parallel", "compression_warmup", "compression.warmup_steps"},
    {"parallel", "error_feedback", "compression.error_feedback"},
    {"parallel", "servers", "parameter_server.servers"},
    {"parallel", "consistency", "parameter_server.consistency"},
    {"parallel", "staleness", "parameter_server.staleness"},
    {"parallel", "replay", "parameter_server.replay"},
    {"data", "attend_across_documents", "data.document_mask"},
};

// The names that users of other programs type first, in the table where they would put them.
constexpr Renamed kPeerKeys[] = {
    {"train", "learning_rate", "optimizer.lr"},
    {"train", "batch_size", "train.global_batch_size"},
    {"train", "train_batch_size", "train.global_batch_size"},
    {"train", "gradient_accumulation_steps", "train.global_batch_size"},
    {"train", "grad_accum_steps", "train.global_batch_size"},
    {"train", "per_device_train_batch_size", "train.micro_batch_size"},
    {"train", "train_micro_batch_size_per_gpu", "train.micro_batch_size"},
    {"train", "num_train_epochs", "train.steps"},
    {"train", "max_steps", "train.steps"},
    {"train", "max_iters", "train.steps"},
    {"train", "train_iters", "train.steps"},
    {"train", "eval_interval", "train.eval_every"},
    {"train", "eval_iters", "train.eval_tokens"},
    {"train", "logging_steps", "train.log_every"},
    {"train", "output_dir", "train.runs"},
    {"train", "run_name", "train.name"},
    {"train", "fp16", "precision.compute"},
    {"train", "bf16", "precision.compute"},
    {"train", "float32", "precision.compute"},
    {"model", "dtype", "precision.compute"},
    {"model", "n_embd", "model.hidden_size"},
    {"model", "dim", "model.hidden_size"},
    {"model", "d_model", "model.hidden_size"},
    {"model", "n_layer", "model.num_hidden_layers"},
    {"model", "num_layers", "model.num_hidden_layers"},
    {"model", "n_head", "model.num_attention_heads"},
    {"model", "num_heads", "model.num_attention_heads"},
    {"model", "n_kv_heads", "model.num_key_value_heads"},
    {"model", "num_query_groups", "model.num_key_value_heads"},
    {"model", "ffn_hidden_size", "model.intermediate_size"},
    {"model", "layer_norm_epsilon", "model.rms_norm_eps"},
    {"model", "n_positions", "model.max_position_embeddings"},
    {"model", "block_size", "data.seq_len"},
    {"data", "seq_length", "data.seq_len"},
    {"data", "context_length", "data.seq_len"},
    {"data", "data_path", "data.channels"},
    {"optimizer", "grad_clip", "optimizer.max_grad_norm"},
    {"optimizer", "clip_grad", "optimizer.max_grad_norm"},
    {"optimizer", "adam_beta1", "optimizer.betas"},
    {"optimizer", "adam_epsilon", "optimizer.eps"},
    {"schedule", "lr_scheduler_type", "schedule.decay"},
    {"schedule", "num_warmup_steps", "schedule.warmup_steps"},
    {"schedule", "warmup_ratio", "schedule.warmup_steps"},
    {"schedule", "min_lr", "schedule.min_lr_ratio"},
    {"schedule", "lr_end", "schedule.min_lr_ratio"},
    {"schedule", "warmup_updates", "schedule.warmup_steps"},
    {"schedule", "warmup_init_lr", "schedule.warmup_init_ratio"},
    {"train", "max_update", "train.steps"},
    {"model", "rope_type", "model.rope_scaling"},
    {"model", "rope_scaling_factor", "model.rope_factor"},
    {"model", "original_max_position_embeddings", "model.rope_original_length"},
    {"model", "low_freq_factor", "model.rope_low_freq_factor"},
    {"model", "beta_fast", "model.rope_beta_fast"},
    {"model", "attention_factor", "model.rope_attention_factor"},
    {"parallel", "tensor_parallel_size", "parallel.tp"},
    {"parallel", "tensor_model_parallel_size", "parallel.tp"},
    {"parallel", "pipeline_model_parallel_size", "parallel.pp"},
    {"parallel", "context_parallel_size", "parallel.cp"},
    {"parallel", "zero_optimization", "parallel.zero_stage"},
    {"parallel", "fsdp", "parallel.zero_stage"},
    {"parallel", "gradient_checkpointing", "parallel.recompute"},
    {"parallel", "diloco", "local_sgd.sync_interval"},
    {"checkpoint", "save_steps", "checkpoint.every_steps"},
    {"checkpoint", "save_total_limit", "checkpoint.keep"},
};

bool is_ours(const std::string& key) {
  const size_t dot = key.find('.');
  return find_field(key.substr(0, dot), key.substr(dot + 1)) != nullptr;
}

void expect_refused_with_ours(const Renamed& each) {
  const std::string key = std::string(each.table) + "." + each.theirs,
                    message = key + ": unknown key, expected " + each.ours;
  const auto refusal = [&](const std::string& error) { return error.substr(0, error.find(" | ")); };
  EXPECT_EQ(refusal(parse_error(fmt::format("[{}]\n{} = 1", each.table, each.theirs))),
            "first.toml:2: " + message);
  EXPECT_EQ(refusal(parse_error("", {key + "=1"})), fmt::format("--set {}=1: {}", key, message));
  EXPECT_TRUE(is_ours(each.ours)) << each.ours;
  EXPECT_FALSE(is_ours(key)) << key;
}

TEST(PeerNames, EveryOldKeyIsRefusedWithTheNewOne) {
  for (const Renamed& each : kOldKeys) expect_refused_with_ours(each);
  expect_error("[data]\nattend_across_documents = false", {"document_mask = true is what"});
}

TEST(PeerNames, FortyKeysOfOthersAreRefusedWithOurs) {
  EXPECT_GE(std::size(kPeerKeys), 40u);
  for (const Renamed& each : kPeerKeys) expect_refused_with_ours(each);
}

TEST(PeerNames, WhatMeansSomethingElseIsExplained) {
  expect_error("[train]\ngradient_accumulation_steps = 1", {"accumulation follows"});
  expect_error("[train]\nnum_train_epochs = 1", {"train.steps: steps = epochs x"});
  expect_error("[schedule]\nwarmup_ratio = 0.1", {"in steps, not a share"});
}

TEST(PeerNames, CaseAndDashesMakeNoDifference) {
  expect_error("[train]\nmax-steps = 1", {"expected train.steps"});
  expect_error("[model]\nNum-Hidden-Layers = 1", {"expected model.num_hidden_layers"});
}

TEST(PeerNames, WithoutATableToo) {
  expect_error("learning_rate = 1", {"first.toml:1: learning_rate: unknown key, expected optimizer.lr"});
  expect_error("", {"--set max_iters=5: max_iters: unknown key, expected train.steps"}, {"max_iters=5"});
  expect_error("[lr_scheduler]\nx = 1", {"unknown section 'lr_scheduler', did you mean 'schedule'?"});
}

TEST(PeerNames, OursInAnotherTableAreFound) {
  expect_error("[train]\nstepz = 1", {"did you mean 'train.steps'?"});
  expect_error("[model]\nlr = 1", {"did you mean 'optimizer.lr'?"});
  expect_error("[train]\nhidden_size = 1", {"did you mean 'model.hidden_size'?"});
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
  expect_error("[offload]\noptimizer = 'ssd'", {"Athanor calls it 'disk'"});
}

TEST(PeerNames, NvmeIsAnAliasOfDisk) {
  const OffloadConfig offload =
      parse(
          "[offload]\noptimizer = 'nvme'\ngradients = 'nvme'\nparameters = 'nvme'\nactivations = 'nvme'\n"
          "[parallel]\nzero_stage = 3")
          .offload;
  for (const std::string& place :
       {offload.optimizer, offload.gradients, offload.parameters, offload.activations})
    EXPECT_EQ(place, "disk");
}

TEST(PeerNames, ValuesOfOthersLeadToOurs) {
  expect_error("[schedule]\ndecay = 'constant_with_warmup'", {"Athanor calls it 'constant'"});
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
}  // namespace athanor::tests::peer_names_test
