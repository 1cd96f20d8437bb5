// Pipelines of every schedule, alone and with data, tensor and expert parallelism, ZeRO and recompute.
#include "train/layouts/layout_case.h"

namespace athanor::tests::pipelines_test {
namespace {

using Named = std::pair<const char*, const char*>;  // family, optimizer

std::string label_of(const Named& model) {
  return std::string(model.first) + " " + model.second;
}

Config layers_and_dropout(const Named& model, int64_t layers) {
  Config config = tiny(model.first);
  config.model.num_hidden_layers = layers;
  config.model.dropout = 0.1;
  config.optimizer.name = model.second;
  return config;
}

const char* sgd_reason(const Named& model) {
  return model.second == std::string("sgd") ? "AdamW has the same case" : nullptr;
}

std::vector<LayoutCase> schedules() {
  const std::vector<Axes> cuts = {{.pp = 2, .schedule = "gpipe"},
                                  {.pp = 3, .schedule = "1f1b"},
                                  {.pp = 2, .schedule = "interleaved"},
                                  {.pp = 3, .schedule = "bfs"},
                                  {.pp = 3, .schedule = "zb-h1"},
                                  {.pp = 2, .schedule = "zb-v"},
                                  {.pp = 3, .schedule = "dualpipe-v"},
                                  {.pp = 4, .schedule = "1f1b", .stage_layers = {0, 5, 1, 1}},
                                  {.pp = 2, .schedule = "zb-h1", .stage_layers = {6, 1}},
                                  {.pp = 2, .schedule = "1f1b", .stage_layers = {7, 0}},
                                  {.pp = 2, .schedule = "zb-v", .stage_layers = {1, 3, 2, 1}}};
  LayoutTable table;
  for (const Named& model :
       {Named("llama", "adamw"), Named("llama", "sgd"), Named("gpt2", "adamw"), Named("gpt2", "sgd")})
    for (const char* compute : {"f32", "bf16"}) {
      table.leave_out(sgd_reason(model));
      Config config = layers_and_dropout(model, 7);
      config.precision.compute = compute;
      const std::string label = label_of(model) + " " + compute;
      for (const Axes& cut : cuts) table.as_one(label, config, cut);
      for (const char* recompute : {"full", "selective", "group:2", "full*3,selective*2,none"})
        for (const char* schedule : {"zb-h1", "zb-v"})
          table.as_one(label, config, {.pp = 2, .schedule = schedule, .recompute = recompute});
    }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(Schedules, LayoutTest, testing::ValuesIn(schedules()), layout_case_name);

Config five_layers(const Named& model) {
  Config config = layers_and_dropout(model, 5);
  config.parallel.reduce = "tree";
  return config;
}

const std::vector<Named> kModels = {
    {"llama", "adamw"}, {"gpt2", "sgd"}, {"gpt2", "adamw"}, {"moe_bias", "adamw"}, {"moe_bias", "sgd"}};

// Of gpt2 alone: moe_bias has both kinds of update in the sanitizers, too.
const char* gpt2_sgd_reason(const Named& model) {
  return model.first == std::string("gpt2") ? sgd_reason(model) : nullptr;
}

// Five micro-batches are not alike for two and three ranks, nor five layers for the stages.
std::vector<LayoutCase> uneven_pipelines() {
  LayoutTable table;
  for (const Named& model : kModels) {
    table.leave_out(gpt2_sgd_reason(model));
    for (const Axes& axes : {Axes{.dp = 2, .pp = 3, .schedule = "gpipe"},
                             {.dp = 2, .pp = 2, .zero = 1, .schedule = "interleaved"},
                             {.dp = 3, .pp = 2, .zero = 1, .schedule = "zb-h1"},
                             {.dp = 2, .pp = 2, .schedule = "zb-v", .recompute = "full"},
                             {.dp = 2, .pp = 4, .schedule = "zb-h1"}})
      table.as_one(label_of(model), five_layers(model), axes);
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(UnevenPipelines, LayoutTest, testing::ValuesIn(uneven_pipelines()),
                         layout_case_name);

// reduce = "fast" adds up each rank's micro-batches first: pp changes nothing of what dp alone computes.
std::vector<LayoutCase> fast_pipelines() {
  LayoutTable table;
  for (const Named& model : kModels) {
    table.leave_out(gpt2_sgd_reason(model));
    Config config = five_layers(model);
    config.parallel.reduce = "fast";
    config.train.global_batch_size = 8;
    for (const int64_t zero : {0, 1, 2, 3}) {
      const Config flat = in_axes(config, {.dp = 2, .zero = zero});
      for (const char* schedule : {"1f1b", "zb-v"}) {
        const Axes axes{.dp = 2, .pp = 2, .zero = zero, .schedule = schedule};
        table.beside(label_of(model), in_axes(config, axes), flat, {}, text_of(axes));
      }
    }
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(FastPipelines, LayoutTest, testing::ValuesIn(fast_pipelines()), layout_case_name);

// Pipelines of ranks that share tensors have the bits of such ranks alone, which round as one process does.
std::vector<LayoutCase> pipelines_of_tensor_ranks() {
  LayoutTable table;
  for (const Named& model : kModels) {
    table.leave_out(gpt2_sgd_reason(model));
    Config config = five_layers(model);
    config.train.global_batch_size = 8;
    config.precision.compute = "f32";
    if (config.optimizer.name == "adamw") config.optimizer.lr = 3e-4;  // full steps of what is nearly zero
    for (const bool sp : {false, true}) {
      const Axes flat{.tp = 2, .sp = sp};
      for (const Axes& axes :
           {Axes{.tp = 2, .pp = 2, .sp = sp},
            {.dp = 2, .tp = 2, .pp = 2, .sp = sp, .schedule = "zb-v", .recompute = "selective"},
            {.dp = 2, .tp = 2, .pp = 2, .zero = 3, .sp = sp, .schedule = "gpipe"}})
        table.beside(label_of(model), in_axes(config, axes), in_axes(config, flat), {}, text_of(axes));
      table.as_one(label_of(model), config, flat, within(1e-5));
    }
  }
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(PipelinesOfTensorRanks, LayoutTest, testing::ValuesIn(pipelines_of_tensor_ranks()),
                         layout_case_name);

// Balanced by an auxiliary loss, and with a pipeline of uneven stages.
std::vector<LayoutCase> pipelines_of_experts() {
  Config config = layers_and_dropout({"moe", "sgd"}, 3);
  config.parallel.reduce = "tree";
  config.model.num_experts = 8;
  config.precision.compute = "f32";
  config.train.global_batch_size = 8;
  LayoutTable table;
  for (const Axes& axes : {Axes{.dp = 4, .ep = 2, .zero = 2, .recompute = "full"},
                           {.dp = 2, .tp = 2, .ep = 4, .zero = 3, .sp = true, .recompute = "none"},
                           {.dp = 2, .pp = 2, .ep = 2, .zero = 3, .schedule = "zb-h1", .recompute = "full"}})
    table.as_one("moe sgd", config, axes, within(1e-5));
  return table.take();
}
INSTANTIATE_TEST_SUITE_P(PipelinesOfExperts, LayoutTest, testing::ValuesIn(pipelines_of_experts()),
                         layout_case_name);

}  // namespace
}  // namespace athanor::tests::pipelines_test
