// What the subcommands of `athanor checkpoint` share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "athanor/tensor/shape.h"
#include "print.h"

namespace CLI {
class App;
}

namespace athanor {

constexpr const char* kPathHelp =
    "a run, a folder of checkpoints or a checkpoint; a run means its newest valid one";

void add_checkpoint_diff(CLI::App& checkpoint);

// Of a run or a folder of checkpoints the newest that verifies; a checkpoint itself as it is.
struct FoundCheckpoint {
  std::string path;
  std::vector<std::string> skipped = {};  // a line for each newer one that is damaged

  void note(Json& document) const;  // where there is something to note
};
// use(checkpoint_at(path)), with a warning of each that was skipped; again where a run removed it meanwhile.
void with_checkpoint_at(const std::string& path, const std::function<void(const FoundCheckpoint&)>& use);

Json to_json(const Shape& shape);

}  // namespace athanor
