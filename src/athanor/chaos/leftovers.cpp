#include "athanor/chaos/leftovers.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/chaos/processes.h"
#include "athanor/control/descriptor.h"

namespace athanor::chaos {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSocketFolder = "socket folder";
constexpr const char* kRuntimeVariable = "XDG_RUNTIME_DIR=";

// "process 4711 (athanor train run.toml)"
std::string name_of(pid_t pid) {
  return fmt::format("process {} ({})", pid, command_line_of(pid));
}

// use(name, status) of each memfd that a process holds.
void for_each_memfd(pid_t pid,
                    const std::function<void(const std::string& name, const struct stat& status)>& use) {
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry->path(), gone);
    struct stat status {};
    if (!gone && target.starts_with("/memfd:") && stat(entry->path().c_str(), &status) == 0)
      use(target.substr(0, target.find(" (deleted)")), status);
  }
}

// Ends those that do not end by themselves in time, and returns them.
std::vector<pid_t> end_processes(const std::vector<pid_t>& processes, int64_t grace_ms) {
  std::vector<pid_t> ended;
  const int64_t until_ns = now_ns() + grace_ms * 1'000'000;
  for (const pid_t pid : processes) {
    const control::Descriptor fd(pidfd_open(pid, 0));
    if (fd.get() < 0) continue;  // gone meanwhile
    pollfd polled{fd.get(), POLLIN, 0};
    const int64_t left_ms = std::max<int64_t>((until_ns - now_ns()) / 1'000'000, 0);
    if (poll(&polled, 1, static_cast<int>(left_ms)) > 0) continue;
    ended.push_back(pid);
  }
  return ended;
}

}  // namespace

bool is_socket_folder(const std::string& leftover) {
  return leftover.starts_with(kSocketFolder);
}

JobTraces::JobTraces()
    : runtime_folder_("/tmp/athanor_chaos_XXXXXX") {  // short, as a socket's name has to be
  if (mkdtemp(runtime_folder_.data()) == nullptr) throw_io_error("make a folder", runtime_folder_, errno);
}

JobTraces::~JobTraces() {
  std::error_code error;
  fs::remove_all(runtime_folder_, error);
}

std::vector<std::string> JobTraces::mark(const std::vector<std::string>& environment) const {
  std::vector<std::string> marked = environment;
  std::erase_if(marked, [](const std::string& entry) { return entry.starts_with(kRuntimeVariable); });
  marked.push_back(kRuntimeVariable + runtime_folder_);
  return marked;
}

void JobTraces::note_memory(pid_t process) {
  for_each_memfd(process, [&](const std::string&, const struct stat& status) {
    memory_.emplace(status.st_dev, status.st_ino);
  });
}

std::vector<pid_t> JobTraces::marked_processes() const {
  std::vector<pid_t> marked;
  const std::string mark = '\0' + (kRuntimeVariable + runtime_folder_) + '\0';
  for (const pid_t pid : all_processes()) {
    if (environment_of(pid).find(mark) != std::string::npos) marked.push_back(pid);
  }
  return marked;
}

std::vector<std::string> JobTraces::leftovers() {
  std::vector<std::string> found;
  const std::vector<pid_t> processes = end_processes(marked_processes(), kGraceMs);
  for (const pid_t pid : processes) found.push_back(name_of(pid));
  for (const pid_t pid : all_processes())
    for_each_memfd(pid, [&](const std::string& name, const struct stat& status) {
      if (memory_.contains({status.st_dev, status.st_ino}))
        found.push_back(fmt::format("{} held by {}", name, name_of(pid)));
    });
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runtime_folder_, error))
    found.push_back(fmt::format("{} {}", kSocketFolder, entry.path().filename().string()));
  for (const pid_t pid : processes) kill(pid, SIGKILL);
  return found;
}

}  // namespace athanor::chaos
