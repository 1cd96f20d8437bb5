#include "athanor/config/validate.h"

#include <fmt/format.h>

#include <limits>
#include <tuple>

#include "athanor/config/presets.h"
#include "config/config_testing.h"

namespace athanor::tests::validate_test {
namespace {

TEST(Validate, NumbersHaveLimits) {
  expect_error("[train]\nsteps = 0", {"first.toml:2: train.steps: got 0, expected at least 1"});
  expect_error("[train]\nsteps = 9223372036854775807", {"train.steps", "expected at most 1099511627776"});
  expect_error("[optimizer]\nlr = 0", {"optimizer.lr: got 0, expected a finite value above 0"});
  expect_error("[optimizer]\nlr = nan", {"optimizer.lr: got nan"});
  expect_error("[optimizer]\nlr = inf", {"optimizer.lr: got inf"});
  expect_error("[optimizer]\nbetas = [0.9, 1.0]", {"optimizer.betas: got 1, expected a value in [0, 1)"});
  expect_error("[optimizer]\nbetas = [0.9]", {"optimizer.betas: got 1 values, expected two"});
  expect_error("[model]\ndropout = 1.0", {"model.dropout: got 1, expected a value in [0, 1)"});
  expect_error("[model]\nhidden_size = -8", {"model.hidden_size: got -8, expected at least 0"});
  expect_error("[model]\nhidden_size = 9223372036854775807",
               {"model.hidden_size", "expected at most 1048576"});
  expect_error("[data]\nvalid_fraction = 1.0", {"data.valid_fraction"});
  expect_error("[schedule]\nmin_lr_ratio = 1.1",
               {"schedule.min_lr_ratio: got 1.1, expected a value in [0, 1]"});
  expect_error("[train]\nsteps = 1099511627776\nglobal_batch_size = 1073741824\n[data]\nseq_len = 1024\n",
               {"train.steps: got", "tokens in all"});
  EXPECT_EQ(parse_error("[schedule]\nwarmup_steps = 5000"), "");  // may exceed steps
  EXPECT_EQ(parse_error("[optimizer]\nmax_grad_norm = 0\nweight_decay = 0"), "");
}

TEST(Validate, NamesAreKnown) {
  expect_error("[optimizer]\nname = 'adamv'",
               {"optimizer.name: got 'adamv'", "adamw, lamb, sgd", "did you mean 'adamw'"});
  expect_error("[schedule]\ndecay = 'cosin'", {"did you mean 'cosine'"});
  expect_error("[precision]\ncompute = 'fp16'", {"expected one of f32, bf16, f16"});
  expect_error("[parallel]\nreduce = 'trees'", {"did you mean 'tree'"});
  expect_error("[train]\ndevice = 'gpu'", {"expected one of auto, cpu, cuda"});
  expect_error("[train]\nisa = 'avx51'", {"did you mean 'avx512'"});
  expect_error("[model]\nmodel_type = 'lama'", {"model.model_type: got 'lama'", "did you mean 'llama'"});
  expect_error("[parallel]\nschedule = '1f1'", {"did you mean '1f1b'"});
  EXPECT_EQ(parse_error("[parallel]\nschedule = 'mine.csv'"), "");
}

TEST(Validate, MixtralIsMoeWithItsSettings) {
  const std::string mixtral = "[model]\nmodel_type = 'mixtral'\n", moe = "[model]\nmodel_type = 'moe'\n";
  EXPECT_EQ(parse_error(mixtral), "");
  for (const auto& [setting, got, expected] : {std::tuple("scoring_func = 'sigmoid'", "sigmoid", "softmax"),
                                               {"norm_topk_prob = false", "false", "true"},
                                               {"routed_scaling_factor = 2.5", "2.5", "1"},
                                               {"router_bias_update_rate = 0.5", "0.5", "0"},
                                               {"n_shared_experts = 1", "1", "0"},
                                               {"first_k_dense_replace = 1", "1", "0"}}) {
    const std::string key = std::string(setting).substr(0, std::string_view(setting).find(' '));
    expect_error(mixtral + setting,
                 {fmt::format("first.toml:2: model.model_type: got mixtral, expected moe: model.{}: "
                              "got {}, expected {} of a Mixtral",
                              key, got, expected)});
    EXPECT_EQ(parse_error(moe + setting), "");
    EXPECT_EQ(parse_error("[model]\npreset = 'moe-tiny'\nmodel_type = 'moe'\n" + std::string(setting)), "");
  }
}

TEST(Validate, TheModelFitsTogether) {
  expect_error("[model]\nhidden_size = 100\nnum_attention_heads = 3",
               {"first.toml:2: model.hidden_size: got 100, expected a multiple of"});
  expect_error("[model]\nhidden_size = 2\nnum_attention_heads = 3", {"model."});
  expect_error("[model]\nnum_attention_heads = 4\nnum_key_value_heads = 3",
               {"first.toml:3: model.num_key_value_heads: got 3, expected a divisor"});
  expect_error("[model]\nnum_attention_heads = 16384\nnum_key_value_heads = 16384\nhead_dim = 16384",
               {"model.head_dim: got 16384 heads of 16384, expected at most 16777216 elements of attention"});
  expect_error("[model]\nnum_attention_heads = 4\nhead_dim = 5",
               {"model.head_dim: got 5, expected an even number"});
  expect_error("[model]\nmodel_type = 'gpt2'\nnum_attention_heads = 4\nnum_key_value_heads = 2",
               {"model.num_key_value_heads", "gpt2"});
  expect_error("[model]\nnum_experts = 8", {"model.num_experts: got 8", "llama", "moe"});
  expect_error("[model]\nmodel_type = 'moe'\nnum_experts = 4\nnum_experts_per_tok = 5",
               {"model.num_experts_per_tok: got 5", "model.num_experts = 4"});
  expect_error("[model]\npreset = 'moe-tiny'\nmodel_type = 'moe'\nfirst_k_dense_replace = 4",
               {"model.first_k_dense_replace: got 4", "model.num_hidden_layers = 4"});
  expect_error("[model]\npreset = 'moe-tiny'\nbias = true", {"model.bias"});
  expect_error("[model]\npreset = 'moe-tiny'\nscoring_func = 'sigmod'", {"model.scoring_func", "'sigmoid'"});
  expect_error("[model]\nmax_position_embeddings = 100\n[data]\nseq_len = 128",
               {"data.seq_len: got 128, expected at most model.max_position_embeddings = 100"});
  EXPECT_EQ(parse_error("[model]\nhidden_size = 100\nnum_attention_heads = 3\nhead_dim = 32"), "");
  EXPECT_EQ(parse_error("[model]\nmodel_type = 'gpt2'\nhidden_size = 15\nnum_attention_heads = 3"),
            "");  // odd, but not rotated
}

TEST(Validate, APatternOfAttentionFitsTheModel) {
  const auto with = [](const std::string& pattern, const std::string& more = "") {
    return fmt::format("[model]\nattention_pattern = '{}'\n{}[data]\nseq_len = 128", pattern, more);
  };
  const auto refused = [&](const std::string& pattern, const std::vector<std::string>& parts) {
    std::vector<std::string> all = {"first.toml:2: model.attention_pattern: "};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error(with(pattern), all);
  };
  refused("causal + wndow:8", {"'wndow:8'", "window"});
  refused("band:8", {"got 'band:8'", "a llama predicts the next token", "causal"});
  refused("causal + band:128", {"band:128", "128"});
  refused("causal + window:4096", {"window:4096", "128"});
  refused("causal + documents:50", {"data.attend_across_documents"});
  refused("heads 0: causal", {"head 1"});
  refused("layers 0-99: causal", {"99"});
  expect_error(
      with("heads 0: causal + window:4; causal", "num_attention_heads = 4\nnum_key_value_heads = 2\n"),
      {"head 1 than for head 0 in layer 0", "they share a head of keys"});
  for (const char* pattern : {"causal", "causal + window:127", "causal + window:8 + global:2", "window:8",
                              "layers 0: causal; window:8", "causal + block:32 + random:1,16",
                              "causal + strided:8", "causal + chunk:64"})
    EXPECT_EQ(parse_error(with(pattern)), "") << pattern;
}

TEST(Validate, AMicroBatchIsAtMostABatch) {
  expect_error("[train]\nglobal_batch_size = 2",
               {"train.micro_batch_size: got 4, expected at most train.global_batch_size = 2"});
  EXPECT_EQ(parse_error("[train]\nglobal_batch_size = 10"), "");  // the last micro-batch is smaller
}

TEST(Validate, RunAndChannelNamesAreUsable) {
  expect_error("[train]\nruns = ''", {"train.runs: got '', expected a folder"});
  for (const std::string name : {"", ".", "..", "a/b", ".hidden", "a\\u0007b"})
    expect_error("[train]\nname = \"" + name + "\"", {"train.name"});
  EXPECT_EQ(parse_error("[train]\nname = \"第一 run-1.2\""), "");
  const auto channels = [](const std::string& a, const std::string& b) {
    return "[data]\nchannels = [{name = \"" + a + "\", path = 'x'}, {name = \"" + b + "\", path = 'y'}]";
  };
  EXPECT_EQ(parse_error(channels("en", "代码-2.x")), "");
  expect_error(channels("en", "en"), {"data.channels", "two channels called 'en'"});
  expect_error(channels("en", ""), {"channel 2 of 2 has a name of 0 bytes"});
  for (const std::string name : {"a b", "a/b", "a\\\"b", "a\\nb", "a=b"})
    expect_error(channels("x", name), {"channel 2 of 2"});
  expect_error("[data]\nchannels = [{name = 'a', path = ''}]", {"channel 'a' has an empty path"});
  expect_error("[data]\nchannels = [{name = 'a', path = 'x', weight = 0}]", {"weight of 'a': got 0"});
}

TEST(Validate, ParameterServersGoWithPlainWorkers) {
  EXPECT_EQ(parse_error("\nparameter_server.servers=2\nparallel.reduce='tree'"), "");
  EXPECT_EQ(parse_error("\nparameter_server.servers=2\nparameter_server.consistency='bounded'\nparameter_"
                        "server.staleness=0\nparameter_server.replay='x'"),
            "");
  expect_error("\nparameter_server.consistency='asyn'",
               {"parameter_server.consistency: got 'asyn'", "did you mean 'async'?"});
  expect_error("\nparameter_server.servers=1\nlocal_sgd.sync_interval=2",
               {"first.toml:2: parameter_server.servers: got 1 with local_sgd.sync_interval = 2, expected"});
  const std::string moe = "\n[model]\nmodel_type='moe'\nnum_experts=4\nrouter_aux_loss_coef=0.0";
  for (const std::string how : {"sync", "bounded", "async"}) {
    EXPECT_EQ(
        parse_error(fmt::format(
            "\nparameter_server.servers=3\nparallel.cp=2\nparameter_server.consistency='{}'{}", how, moe)),
        "");
    for (const std::string axis : {"tp", "pp", "ep"})
      expect_error(
          fmt::format("\nparameter_server.servers=4\nparallel.cp=2\nparallel.{}=2\n"
                      "parameter_server.consistency='{}'{}",
                      axis, how, moe),
          {fmt::format("first.toml:2: parameter_server.servers: got 4 with parallel.{} = 2, expected "
                       "parallel.{} = 1",
                       axis, axis),
           "use parallel.zero_stage = 1"});
  }
  EXPECT_EQ(parse_error("\nparameter_server.servers=1" + moe + "\nrouter_bias_update_rate=0.01"), "");
  expect_error("\nparameter_server.servers=1\nparameter_server.consistency='async'" + moe +
                   "\nrouter_bias_update_rate=0.01",
               {"parameter_server.servers: got 1 with parameter_server.consistency = \"async\" and "
                "model.router_bias_update_rate = 0.01"});
  EXPECT_EQ(
      parse_error("\nparameter_server.servers=1\nparallel.load_balance='speed'\nparallel.reduce='tree'"), "");
  for (const std::string how : {"bounded", "async"})
    expect_error(
        "\nparameter_server.servers=1\nparallel.load_balance='speed'\nparameter_server.consistency='" + how +
            "'",
        {"parallel.load_balance: got \"speed\" with parameter_server.consistency = \"" + how +
         "\", expected \"even\""});
  expect_error("\nparameter_server.servers=1\nparallel.zero_stage=2",
               {"got 1 with parallel.zero_stage = 2, expected parallel.zero_stage = 0"});
  for (const std::string kind : {"bf16", "int8"})
    for (const std::string how : {"sync", "bounded", "async"})
      EXPECT_EQ(
          parse_error(fmt::format(
              "\nparameter_server.servers=1\ncompression.method='{}'\nparameter_server.consistency='{}'",
              kind, how)),
          "");
  for (const std::string kind : {"topk", "powersgd", "onebit-adam"})
    for (const std::string how : {"sync", "bounded", "async"})
      expect_error(fmt::format("\nparameter_server.servers=1\ncompression.warmup_steps=9\n"
                               "compression.method='{}'\nparameter_server.consistency='{}'",
                               kind, how),
                   {"parameter_server.servers: got 1 with compression.method = \"" + kind +
                        "\", expected none, bf16 or int8",
                    "use compression.method = \"int8\" or \"bf16\""});
  for (const std::string how : {"sync", "bounded", "async"})
    EXPECT_EQ(parse_error("\nparameter_server.servers=1\nparameter_server.consistency='" + how +
                          "'\n[precision]\ncompute='f16'"),
              "");
  expect_error("\nparameter_server.servers=1\nparameter_server.consistency='async'\nparallel.reduce='tree'",
               {"parallel.reduce: got \"tree\""});
  expect_error("\nparameter_server.servers=1\nparameter_server.replay='x'",
               {"parameter_server.replay: got 'x' with parameter_server.consistency"});
  expect_error("\nparameter_server.replay='x'",
               {"parameter_server.replay: got 'x' without parameter_server.servers"});
}

TEST(Validate, LayoutsOfThisVersion) {
  EXPECT_EQ(parse_error("[model]\nmodel_type='moe'\nrouter_aux_loss_coef=0.0\n[parallel]\nep=2\ncp=2"), "");
  expect_error("[parallel]\nep=2", {"first.toml:2: parallel.ep: got 2 for a model without experts"});
  expect_error("[model]\nmodel_type='moe'\nnum_experts=6\n[parallel]\nep=4",
               {"parallel.ep: got 4, which does not divide model.num_experts = 6", "is 3"});
  EXPECT_EQ(parse_error("[parallel]\npp=2\nvirtual_stages=2\nschedule='interleaved'"), "");
  EXPECT_EQ(parse_error("[parallel]\nvirtual_stages='auto'"), "");
  expect_error("[parallel]\nvirtual_stages=0", {"virtual_stages", "\"auto\" or an integer of at least 1"});
  expect_error("[parallel]\nschedule='2f2b'", {"parallel.schedule: got '2f2b', expected one of gpipe, 1f1b"});
  expect_error("[parallel]\ntp=0", {"parallel.tp: got 0, expected at least 1"});
  expect_error("[parallel]\nzero_stage=4", {"parallel.zero_stage: got 4, expected a value in [0, 3]"});
  EXPECT_EQ(parse_error("[parallel]\ndp=4\ntp=1\nzero_stage=3\nsp=false\nreduce='tree'"), "");
  expect_error("[launch]\nmin_ranks = 4\nmax_ranks = 2", {"launch.max_ranks: got 2"});
}

TEST(Validate, SharesOfShardsAndOfMicroBatches) {
  expect_error("[parallel]\nshard_degree=2", {"parallel.shard_degree: got 2 with parallel.zero_stage = 0"});
  expect_error("[parallel]\nshard_degree=1\nzero_stage=2", {"parallel.shard_degree: got 1, expected 0"});
  expect_error("[parallel]\nload_balance='speed'",
               {"parallel.load_balance: got \"speed\" with parallel.reduce = \"fast\""});
  expect_error("[parallel]\nload_balance='speed'\nreduce='tree'\nzero_stage=2",
               {"parallel.load_balance: got \"speed\" with parallel.zero_stage"});
  EXPECT_EQ(parse_error("[parallel]\nload_balance='speed'\nreduce='tree'\ntp=2"), "");
  EXPECT_EQ(parse_error("[parallel]\nzero_stage=3\nshard_degree=2\nreduce='tree'"), "");
  EXPECT_EQ(parse_error("[parallel]\nload_balance='speed'\nreduce='tree'\nzero_stage=1"), "");
}

TEST(Validate, AGuardThatCannotActIsRefused) {
  for (const char* key : {"loss_spike", "grad_norm", "update_size"}) {
    expect_error(fmt::format("[guard]\n{}='act'\n[parameter_server]\nservers=1", key),
                 {fmt::format("first.toml:2: guard.{}: got 'act' with parameter_server.servers = 1", key)});
    EXPECT_EQ(parse_error(fmt::format("[guard]\n{}='act'", key)), "");
    EXPECT_EQ(parse_error(fmt::format("[guard]\n{}='warn'\n[parameter_server]\nservers=1", key)), "");
  }
  expect_error("[guard]\ngrad_norm='act'\n[local_sgd]\nsync_interval=5\n[train]\neval_every=0",
               {"guard.grad_norm: got 'act' with local_sgd.sync_interval = 5"});
  expect_error("[guard]\nupdate_size='act'\n[train]\ndevice='cuda'",
               {"guard.update_size: got 'act' with train.device = \"cuda\""});
  expect_error("[guard]\nnot_finite='ignore'",
               {"guard.not_finite: got 'ignore', expected one of off, warn, act"});
  expect_error("[guard]\ndamaged_data='warn'", {"guard.damaged_data: got 'warn', expected one of off, act"});
}

TEST(Validate, OffloadIsRefusedWhereAllIsNeededAtOnce) {
  expect_error("[offload]\nparameters='disk'",
               {"first.toml:2: offload.parameters: got disk with parallel.zero_stage = 0"});
  expect_error("[offload]\ngradients='disk'\n[parallel]\nzero_stage=1\nshard_degree=2",
               {"offload.gradients: got disk with parallel.shard_degree = 2"});
  expect_error("[offload]\ngradients='disk'\n[compression]\nmethod='int8'",
               {"offload.gradients: got disk with compression.method = \"int8\""});
  expect_error("[offload]\noptimizer='disk'\n[local_sgd]\nsync_interval=5\n[train]\neval_every=0",
               {"offload.optimizer: got disk with local_sgd.sync_interval = 5"});
  expect_error("[optimizer]\nstate='8bit'\n[compression]\nmethod='onebit-adam'\nwarmup_steps=9",
               {"optimizer.state: got 8bit with compression.method = \"onebit-adam\""});
  for (const char* key : {"optimizer", "gradients", "activations"})
    expect_error(fmt::format("[offload]\n{}='disk'\n[parameter_server]\nservers=1", key),
                 {fmt::format("offload.{}: got disk with parameter_server.servers = 1", key)});
  expect_error("[optimizer]\nstate='8bit'\n[parameter_server]\nservers=1",
               {"optimizer.state: got 8bit with parameter_server.servers = 1"});
  expect_error("[offload]\nactivations='ssd'",
               {"offload.activations: got 'ssd', expected one of memory, host, disk"});
  expect_error("[offload]\ngradients='host'",
               {"offload.gradients: got 'host', expected one of memory, disk"});
  expect_error("[offload]\nactivations='host'\n[train]\ndevice='cpu'",
               {"offload.activations: got host with train.device = \"cpu\""});
  expect_error("[offload]\noptimizer='host'", {"offload.optimizer: got host with train.device = \"auto\""});
  expect_error(
      "[offload]\noptimizer='host'\n[local_sgd]\nsync_interval=5\n[train]\ndevice='cuda'\neval_every=0",
      {"offload.optimizer: got host with local_sgd.sync_interval = 5"});
  expect_error("[offload]\nactivations='host'\n[parameter_server]\nservers=1\n[train]\ndevice='cuda'",
               {"offload.activations: got host with parameter_server.servers = 1"});
  EXPECT_EQ(parse_error("[offload]\ngradients='disk'\noptimizer='disk'\nparameters='disk'\n"
                        "activations='disk'\n[parallel]\nzero_stage=3\nshard_degree=2\ntp=1\ncp=2"),
            "");
}

TEST(Validate, WhatDoesNotDivideByTpIsNamedWithTheNearestThatDoes) {
  const auto model = [](const std::string& sizes, const std::string& parallel) {
    return "[parallel]\n" + parallel + "\n[model]\nhidden_size = 96\nnum_hidden_layers = 2\n" + sizes;
  };
  expect_error(
      model("num_attention_heads = 8\nintermediate_size = 256", "tp = 3"),
      {"first.toml:2: parallel.tp: got 3, which does not divide model.num_attention_heads = 8", "is 2"});
  expect_error(model("num_attention_heads = 8\nintermediate_size = 258", "tp = 4"),
               {"parallel.tp", "model.intermediate_size = 258", "is 2"});
  expect_error(model("num_attention_heads = 12\nnum_key_value_heads = 3\nintermediate_size = 240", "tp = 4"),
               {"parallel.tp", "model.num_key_value_heads = 3", "is 3"});
  expect_error(model("num_attention_heads = 8\nintermediate_size = 256", "tp = 16"),
               {"model.num_attention_heads = 8", "is 8"});
  expect_error(model("num_attention_heads = 8", "sp = true"),
               {"parallel.sp: got true with parallel.tp = 1, expected false"});
}

TEST(Validate, WhatDoesNotFitContextParallelismIsNamedWithTheNearestThatDoes) {
  const auto model = [](const std::string& sizes, const std::string& parallel) {
    return "[parallel]\n" + parallel +
           "\n[data]\nseq_len = 9\n[model]\nhidden_size = 96\nnum_hidden_layers = 2\n" + sizes;
  };
  expect_error(model("num_attention_heads = 8", "cp = 5"),
               {"first.toml:2: parallel.cp: got 5, expected at most 4 for data.seq_len = 9"});
  expect_error(model("num_attention_heads = 8\nnum_key_value_heads = 2", "cp = 3\ncp_method = \"ulysses\""),
               {"parallel.cp: got 3", "model.num_attention_heads = 8", "is 2", "ring"});
  expect_error(model("num_attention_heads = 12\nnum_key_value_heads = 3", "cp = 2\ncp_method = \"ulysses\""),
               {"model.num_key_value_heads = 3", "is 1"});
  expect_error(
      model("num_attention_heads = 8\nintermediate_size = 256", "tp = 2\ncp = 8\ncp_method = \"ulysses\""),
      {"by parallel.tp = 2", "is 4"});
  expect_error(model("num_attention_heads = 8", "cp = 2\ncp_method = \"rings\""),
               {"parallel.cp_method", "did you mean 'ring'"});
  EXPECT_EQ(parse_error("[model]\nmodel_type='moe'\nnum_experts=4\nrouter_aux_loss_coef=0.1\ncapacity_factor="
                        "1.25\n[parallel]\ncp=2"),
            "");
}

TEST(Validate, TrainingNeedsData) {
  EXPECT_THROW(validate_data(parse("")), ConfigError);
  EXPECT_NO_THROW(validate_data(parse("[data]\nchannels = [{name = 'a', path = 'x'}]")));
}

TEST(Validate, StageLayersAreOneEntryPerStage) {
  const auto error = [](const std::vector<int64_t>& layers, int64_t pp,
                        int64_t virtual_stages) -> std::string {
    Config config = parse("");
    config.parallel.stage_layers = layers;
    config.model = complete_model({.num_hidden_layers = 6}, 100, 256);
    config.parallel.pp = pp;
    config.parallel.virtual_stages = virtual_stages;
    try {
      validate(config);
    } catch (const ConfigError& refusal) {
      return refusal.what();
    }
    return "";
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(error({6}, 1, 1), "");
  EXPECT_TRUE(contains(error({3, 0, 3}, 3, 1), "got no layer in stage 1"));
  EXPECT_FALSE(contains(error({0, 3, 3, 0}, 2, 2), "stage_layers"));
  EXPECT_TRUE(
      contains(error({3, 3}, 1, 1), "parallel.stage_layers: got 2 stages, expected 1: parallel.pp = 1"));
  EXPECT_TRUE(contains(error({5}, 1, 1),
                       "parallel.stage_layers: got 5 layers in all, expected model.num_hidden_layers = 6"));
  expect_error("[parallel]\nstage_layers = [-1]", {"parallel.stage_layers: got -1, expected at least 0"});
  expect_error("[parallel]\nstage_layers = [1.5]", {"parallel.stage_layers", "an array of integers"});
  expect_error("[parallel]\nstage_layers = 3", {"parallel.stage_layers", "an array of integers"});
  EXPECT_EQ(parse("", {"model.num_hidden_layers=3", "parallel.stage_layers=[3]"}).parallel.stage_layers,
            std::vector<int64_t>{3});
}

// Text is sampled where a rank holds the whole model; what says how means nothing where nothing says when.
TEST(Validate, SamplesNeedAWholeModel) {
  const std::string sampled =
      "[model]\nvocab_size = 64\nnum_attention_heads = 4\nhidden_size = 64\nnum_hidden_layers = "
      "4\n[data]\nseq_len = "
      "64\n[train]\nsample_every = 10\n";
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      Config config = parse(text);
      resolve_model(config, 64);
      validate(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(sampled + "[parallel]\nzero_stage = 3\n"), "");
  for (const std::string key :
       {"parallel.tp = 2", "parallel.pp = 2", "parallel.cp = 2", "parameter_server.servers = 1"}) {
    const std::string message = refusal(fmt::format("{}\n{}", key, sampled));
    EXPECT_NE(message.find("train.sample_every: got 10 with " + key), std::string::npos) << message;
  }
  for (const std::string key : {"sample_prompts = ['a']", "sample_tokens = 9", "sample_temperature = 0"}) {
    const std::string message = refusal("[model]\nvocab_size = 64\n[train]\n" + key + "\n");
    EXPECT_NE(message.find("has no effect while train.sample_every is 0"), std::string::npos) << message;
  }
  EXPECT_NE(parse_error("[train]\nsample_prompts = 'a'").find("an array of strings"), std::string::npos);
  EXPECT_NE(parse_error("[train]\nsample_prompts = [1]").find("an array of strings"), std::string::npos);
}

}  // namespace
}  // namespace athanor::tests::validate_test
