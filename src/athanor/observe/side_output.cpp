#include "athanor/observe/side_output.h"

#include <fmt/core.h>

#include "athanor/base/error.h"

namespace athanor::observe {

bool SideOutput::attempt(const std::function<void()>& write, int64_t lost) {
  try {
    write();
  } catch (const Recoverable& error) {
    dropped_ += lost;
    failing_ = true;
    if (!std::exchange(said_failing_, true))
      warn_(fmt::format("{}: {}; the run goes on and tries again", name_, error.what()));
    return false;
  }
  if (std::exchange(failing_, false) && !std::exchange(said_working_, true))
    warn_(fmt::format("{}: can be written again, {} dropped", name_, dropped_));
  return true;
}

}  // namespace athanor::observe
