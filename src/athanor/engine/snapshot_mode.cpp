#include "athanor/engine/snapshot_mode.h"

#include <fmt/format.h>

#include <utility>

#include "athanor/base/error.h"

namespace athanor::engine {
namespace {

// The setting that rules snapshots out, and why; empty: none does.
std::pair<std::string, std::string> obstacle(const Config& config, const Layout& layout) {
  if (config.train.device == "cuda") return {"train.device = \"cuda\"", "the state lies on a device"};
  if (layout.servers > 0) return {"parameter_server.servers", "servers keep the state"};
  if (config.offload.optimizer != "memory")
    return {fmt::format("offload.optimizer = \"{}\"", config.offload.optimizer), "the state is offloaded"};
  if (config.offload.parameters != "memory")
    return {fmt::format("offload.parameters = \"{}\"", config.offload.parameters), "the state is offloaded"};
  return {};
}

SnapshotChoice choose_mode(const Config& config, const Layout& layout, bool is_launched) {
  const std::string& mode = config.snapshot.mode;
  if (mode == "off") return {};
  const auto [setting, why] = obstacle(config, layout);
  if (mode == "auto") {
    if (!setting.empty()) return {.why = why};
    if (!is_launched) return {.why = "no launcher holds the memory"};
    return {.mode = SnapshotMode::slots, .may_be_off = true};
  }
  if (!setting.empty())
    throw ConfigError(fmt::format("snapshot.mode: got '{}' with {}, expected auto or off", mode, setting),
                      why + ", and snapshots are of state in host memory");
  return {.mode = mode == "copy" ? SnapshotMode::copy : SnapshotMode::slots};
}

}  // namespace

SnapshotChoice choose_snapshot(const Config& config, const Layout& layout, bool is_launched, bool may_save) {
  SnapshotChoice choice = choose_mode(config, layout, is_launched);
  const std::string& background = config.checkpoint.background;
  const std::string why = choice.mode != SnapshotMode::slots ? "there are no snapshot slots"
                          : !may_save                        ? "no launcher holds the slots"
                                                             : "";
  if (background == "on" && may_save && !why.empty())
    throw ConfigError(fmt::format("checkpoint.background: got 'on', expected auto or off: {}", why),
                      "it needs snapshot.mode = \"slots\"");
  const int64_t every = config.checkpoint.every_steps;
  const bool saves =
      every > 0 && every < config.train.steps;  // beside the final one, which ranks write themselves
  if (background == "off" || !why.empty() || !saves) return choice;
  choice.num_slots = 3;
  choice.may_be_two = background == "auto";
  return choice;
}

}  // namespace athanor::engine
