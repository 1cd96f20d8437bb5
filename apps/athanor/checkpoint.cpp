// athanor checkpoint list
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "athanor/checkpoint/checkpoint.h"
#include "command.h"

namespace athanor {

void add_checkpoint(CLI::App& app) {
  auto* group = app.add_subcommand("checkpoint", "Look at checkpoints");
  group->require_subcommand(1);
  auto path = std::make_shared<std::string>();
  auto* list = group->add_subcommand("list", "The checkpoints of a run");
  list->add_option("path", *path, "a run, a folder of checkpoints or a checkpoint")->required();
  list->callback([path] {
    for (const std::string& found : list_checkpoints(system_env(), *path)) std::puts(found.c_str());
  });
}

}  // namespace athanor
