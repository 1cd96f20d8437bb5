// Reading beside a run that removes its old checkpoints: what was removed or replaced while it was read is not damaged,
// and the newest is taken again.
//
//   read_steadily(env, [&] { return find(); }, [&](const std::string& path) { Checkpoint::open(env, path).verify(); });
//
// Errors: the last failure, where reading fails and the checkpoint still stands, or fails that way again and again.
// Thread rule: one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "athanor/base/file.h"

namespace athanor {

constexpr int kReadAttempts = 50;

// What stands at a path, so that one can say later whether it still does.
class StandingCheckpoint {
 public:
  StandingCheckpoint(Env& env, std::string path);
  bool still_stands() const;

 private:
  Env& env_;
  std::string path_;
  std::optional<std::string> manifest_;  // its hash; none: it could not be read
};

// use(find()), and both again where `use` failed on a checkpoint that does not stand any more.
void read_steadily(Env& env, const std::function<std::string()>& find,
                   const std::function<void(const std::string& path)>& use);

}  // namespace athanor
