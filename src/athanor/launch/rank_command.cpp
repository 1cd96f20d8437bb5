#include "athanor/launch/rank_command.h"

namespace athanor::launch {

WorkerCommand rank_command(const LaunchOptions& options, const WorkerPlace& place,
                           const sigset_t& signal_mask) {
  WorkerCommand command;
  command.arguments = options.command;
  if (place.segment_fd >= 0) command.inherited_fds = {place.segment_fd, place.snapshot_fd};
  command.environment = place_into(options.environment, place);
  command.own_stdout = place.local_rank == 0;
  command.capture_stderr = place.local_rank != 0 || !options.terminal;
  command.signal_mask = signal_mask;
  return command;
}

}  // namespace athanor::launch
