// What a guard that acts cannot go with: all ranks must come to the same answer, and their state must be able to go back.
#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {

void check_guard(const Config& config) {
  const GuardConfig& guard = config.guard;
  const auto acts = [](const std::string& setting) { return setting == "act"; };
  const auto check_one = [&](const char* key, const std::string& setting) {
    require(!acts(setting) || config.parameter_server.servers == 0, config, key,
            "got 'act' with parameter_server.servers = {}, expected off or warn: servers do not go back",
            config.parameter_server.servers);
  };
  check_one("guard.loss_spike", guard.loss_spike);
  check_one("guard.grad_norm", guard.grad_norm);
  check_one("guard.update_size", guard.update_size);
  check_one("guard.state_hash", guard.state_hash);
  require(
      !acts(guard.grad_norm) || config.local_sgd.sync_interval == 0, config, "guard.grad_norm",
      "got 'act' with local_sgd.sync_interval = {}, expected off or warn: each replica group has a norm of "
      "its own",
      config.local_sgd.sync_interval);
  require(!acts(guard.update_size) || config.train.device != "cuda", config, "guard.update_size",
          "got 'act' with train.device = \"cuda\", expected off or warn: updates are measured on the CPU");
  require(!acts(guard.state_hash) || config.train.device != "cuda", config, "guard.state_hash",
          "got 'act' with train.device = \"cuda\", expected off or warn: states are compared on the CPU");
}

}  // namespace athanor::config
