#include "athanor/launch/rank_command.h"

#include <sys/stat.h>
#include <unistd.h>

namespace athanor::launch {
namespace {

// A pipe, a socket or a file, which a rank may read. A terminal is not the ranks': they are no group of its foreground.
bool has_input(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 &&
         (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISREG(status.st_mode));
}

}  // namespace

WorkerCommand rank_command(const LaunchOptions& options, const WorkerPlace& place,
                           const sigset_t& signal_mask) {
  WorkerCommand command;
  command.arguments = options.command;
  if (place.segment_fd >= 0) command.inherited_fds = {place.segment_fd, place.snapshot_fd};
  command.environment = place_into(options.environment, place);
  command.own_stdin = has_input(STDIN_FILENO);
  command.own_stdout = place.local_rank == 0;
  command.capture_stderr = place.local_rank != 0 || !options.terminal;
  command.signal_mask = signal_mask;
  return command;
}

}  // namespace athanor::launch
