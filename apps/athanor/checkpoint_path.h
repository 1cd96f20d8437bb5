// What the subcommands of `athanor checkpoint` share.
#pragma once

#include <string>

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
std::string checkpoint_at(const std::string& path);

Json to_json(const Shape& shape);

}  // namespace athanor
