// What the subcommands of `athanor checkpoint` share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/command_line/print.h"
#include "athanor/tensor/shape.h"

namespace CLI {
class App;
}

namespace athanor::apps {

constexpr const char* kPathHelp =
    "a run, a folder of checkpoints or a checkpoint; a run means its newest valid one";

void add_checkpoint_diff(CLI::App& checkpoint);

// The checkpoint that a path means: of a run or a folder of checkpoints the newest one that verifies; a path to a
// checkpoint means that checkpoint.
struct FoundCheckpoint {
  std::string path;
  std::vector<std::string> skipped = {};  // a line for each newer checkpoint that is damaged

  void note(Json& document) const;  // adds `skipped` to the document, unless it is empty
};
// Finds the checkpoint, warns of each one that was skipped, and calls `use`. If a run removed the checkpoint meanwhile,
// tries again.
void with_checkpoint_at(const std::string& path, const std::function<void(const FoundCheckpoint&)>& use);

Json to_json(const Shape& shape);

}  // namespace athanor::apps
