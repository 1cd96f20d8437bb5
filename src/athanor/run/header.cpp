#include "athanor/run/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"
#include "athanor/engine/offload.h"
#include "athanor/layout/describe.h"

namespace athanor::run {
namespace {

std::string bytes(uint64_t size_bytes) {
  return human_bytes(static_cast<double>(size_bytes));
}
std::string count(int64_t value) {
  return human_count(static_cast<double>(value));
}

std::string memory_text(const MemoryUsage& use) {
  std::string text = fmt::format("peak memory {} per rank (planned)", bytes(use.peak_total));
  const char* before = ": ";
  for (const auto& [name, category] : {std::pair("parameters", Category::parameters),
                                       {"gradients", Category::gradients},
                                       {"optimizer", Category::optimizer},
                                       {"snapshot", Category::snapshot},
                                       {"activations", Category::activations},
                                       {"workspace", Category::workspace},
                                       {"communication", Category::communication}}) {
    const uint64_t size_bytes = use.peak[static_cast<size_t>(category)];
    if (size_bytes > 0) text += fmt::format("{}{} {}", std::exchange(before, ", "), name, bytes(size_bytes));
  }
  return text;
}

std::string snapshot_text(const MemoryPlan& plan) {
  const SnapshotPlan& slots = plan.slots;
  const std::string& why = plan.request.snapshot.why;
  if (slots.mode == SnapshotMode::off) return why.empty() ? "off" : "off: " + why;
  const std::string every =
      slots.every_steps == 1 ? "every step" : fmt::format("every {} steps", slots.every_steps);
  return fmt::format("{}, {} in memory, {} per rank{}", slots.mode == SnapshotMode::slots ? "slots" : "copy",
                     every, bytes(slots.size_bytes()),
                     slots.num_slots > 2 ? fmt::format(", {} of them to save in the background",
                                                       bytes(slots.size_bytes() / 3))
                                         : "");
}

// How often the steps of the phase go through a channel, and how many targets that are.
std::string drawn_text(const Channel& channel, double sequences) {
  if (channel.num_train_sequences() == 0 || channel.spool() != nullptr) return "";
  const double epochs = sequences / static_cast<double>(channel.num_train_sequences());
  return fmt::format(", {:.{}f} epochs, {} tokens", epochs, epochs < 10.0 ? 2 : 0,
                     human_count(epochs * static_cast<double>(channel.num_train_targets())));
}

std::string tokens_text(const Channel& channel) {
  if (channel.spool() == nullptr) return count(channel.num_tokens());
  return fmt::format("as it comes, shuffled in windows of {} sequences",
                     with_commas(channel.spool()->shape().window));
}

// One row per channel; shortened where there are many.
void add_data(Rows& rows, std::span<const Channel> channels, double sequences_drawn) {
  constexpr size_t kMostShown = 12;
  int64_t tokens = 0, valid = 0;
  double weights = 0.0;
  size_t name_columns = 0, count_columns = 0;
  for (const Channel& channel : channels) {
    tokens += channel.num_tokens();
    valid += channel.num_valid_tokens();
    weights += channel.weight();
    name_columns = std::max(name_columns, display_width(channel.name()));
    count_columns = std::max(count_columns, tokens_text(channel).size());
  }
  const std::string which =
      channels.size() == 1 ? channels[0].name() : fmt::format("{} channels", channels.size());
  const bool is_stream = channels.size() == 1 && channels[0].spool() != nullptr;
  rows.emplace_back("data", is_stream ? fmt::format("{}, {}", which, tokens_text(channels[0]))
                                      : fmt::format("{}, {} tokens, {} of them for validation", which,
                                                    count(tokens), count(valid)));
  if (channels.size() == 1) return;
  std::string cells;
  const size_t shown = channels.size() <= kMostShown ? channels.size() : kMostShown - 1;
  for (const Channel& channel : channels.first(shown)) {
    const double share = 100.0 * channel.weight() / weights;
    cells +=
        fmt::format("{}{} {:>{}} ({:.{}f} %{})", cells.empty() ? "" : std::string(1, kNextCell),
                    pad_columns(channel.name(), name_columns), tokens_text(channel), count_columns, share,
                    share < 10.0 ? 1 : 0, drawn_text(channel, sequences_drawn * channel.weight() / weights));
  }
  if (shown < channels.size()) cells += fmt::format("{}and {} more", kNextCell, channels.size() - shown);
  rows.emplace_back("", cells);
}

std::string steps_text(const Config& config, int64_t done) {
  const std::string tokens = count(config.train.global_batch_size * config.data.seq_len);
  if (done >= config.train.steps)
    return fmt::format("all {} are done, {} tokens each", config.train.steps, tokens);
  return fmt::format("{} to {}, {} tokens each", done + 1, config.train.steps, tokens);
}

}  // namespace

Rows header_rows(const Config& config, const Training& training, std::span<const Channel> channels,
                 const MemoryPlan& plan, const Queue& queue, const Placement& placement, int64_t steps_done,
                 int64_t first_step, const std::string& run_folder) {
  const ModelConfig& m = config.model;
  const Layout& layout = training.layout();
  Rows rows;
  rows.emplace_back("run",
                    fmt::format("{} ({})", std::filesystem::absolute(run_folder).lexically_normal().string(),
                                steps_done == 0 ? "new" : fmt::format("resumed after step {}", steps_done)));
  rows.emplace_back(
      "model", fmt::format("{}, {} layers, hidden size {}, {} heads ({} kv), MLP {}, vocabulary {}",
                           m.preset.empty() ? m.model_type : m.preset, m.num_hidden_layers, m.hidden_size,
                           m.num_attention_heads, m.num_key_value_heads, m.intermediate_size,
                           with_commas(m.vocab_size)));
  if (!training.model->moe_layers().empty())
    rows.emplace_back(
        "experts", fmt::format("{} of {} per token, {} shared, hidden size {}, in {} layers, {} scores",
                               m.num_experts_per_tok, m.num_experts, m.n_shared_experts,
                               m.moe_intermediate_size, training.model->moe_layers().size(), m.scoring_func));
  if (const auto origin = config.origins.find("model.num_hidden_layers");
      origin != config.origins.end() &&
      (origin->second.kind == Origin::Kind::source || origin->second.kind == Origin::Kind::model_config)) {
    const auto tokenizer = config.origins.find("data.tokenizer");
    const bool both = tokenizer != config.origins.end() && tokenizer->second.kind == Origin::Kind::source;
    rows.emplace_back("", fmt::format("{} of {}", both ? "architecture and tokenizer" : "architecture",
                                      origin->second.text));
  }
  rows.emplace_back("parameters",
                    fmt::format("{} ({}), {} FLOPs per token", count(training.model->num_params()),
                                with_commas(training.model->num_params()),
                                human_count(training.model->flops_per_token(config.data.seq_len))));
  rows.emplace_back("global batch", describe_batch(config, layout));
  rows.emplace_back("layout", describe(config, layout));
  rows.emplace_back(
      "compute", fmt::format("{} on {}, {} thread{} a rank{}", config.precision.compute,
                             isa_name(queue.isa()), queue.num_threads(), queue.num_threads() == 1 ? "" : "s",
                             placement.text().empty() ? "" : ", " + placement.text()));
  rows.emplace_back("memory", memory_text(plan.usage));
  rows.emplace_back("snapshot", snapshot_text(plan));
  std::string on_disk;
  const auto note = [&](const char* what, const std::string& place) {
    if (place == "disk") on_disk += (on_disk.empty() ? "" : ", ") + std::string(what);
  };
  note("optimizer", config.offload.optimizer);
  note("gradients", config.offload.gradients);
  note("parameters", config.offload.parameters);
  note("activations", config.offload.activations);
  if (!on_disk.empty()) rows.emplace_back("on disk", on_disk + ", in " + offload_folder(config));
  if (plan.host_bytes > 0)
    rows.emplace_back("offload",
                      fmt::format("{} per rank in pinned memory of the host", bytes(plan.host_bytes)));
  add_data(rows, channels,
           static_cast<double>(config.train.steps - first_step + 1) *
               static_cast<double>(config.train.global_batch_size));
  rows.emplace_back("steps", steps_text(config, steps_done));
  return rows;
}

}  // namespace athanor::run
