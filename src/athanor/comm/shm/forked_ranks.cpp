#include "athanor/comm/shm/forked_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "athanor/base/error.h"

namespace athanor::comm::shm {

std::string outcome_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const PeerLost& e) {
    return "PeerLost " + std::to_string(e.rank()) + ": " + e.what();
  } catch (const Timeout& e) {
    return std::string("Timeout: ") + e.what();
  } catch (const Recoverable& e) {
    return std::string("Recoverable: ") + e.what();
  } catch (const std::exception& e) {
    return std::string("Error: ") + e.what();
  }
  return "";
}

ForkedRanks::ForkedRanks(int size, const std::function<void(int rank)>& body) {
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) {
      end_all();
      throw IoError("forked ranks: the system gives no pipe", errno);
    }
    std::fflush(nullptr);  // else the child would write buffered output again
    const pid_t pid = fork();
    if (pid < 0) {
      const int code = errno;
      close(ends[0]);
      close(ends[1]);
      end_all();
      throw IoError("forked ranks: the system gives no process", code);
    }
    if (pid == 0) {
      close(ends[0]);
      for (const auto& child : children_) close(child.report);
      const std::string text = outcome_of([&] { body(rank); });
      const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      _exit(written ? 0 : 1);  // check_library: a child of fork, which ends with its body
    }
    close(ends[1]);
    children_.push_back({pid, ends[0]});
  }
}

std::string ForkedRanks::outcome(int rank) {
  Child& child = children_[static_cast<size_t>(rank)];
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(child.report, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(child.report);
  int status = 0;
  waitpid(child.pid, &status, 0);
  child.pid = 0;
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? text : "exit code " + std::to_string(WEXITSTATUS(status));
}

std::vector<std::string> ForkedRanks::outcomes() {
  std::vector<std::string> all;
  for (size_t rank = 0; rank < children_.size(); ++rank) all.push_back(outcome(static_cast<int>(rank)));
  return all;
}

void ForkedRanks::end_all() {
  for (const auto& child : children_)
    if (child.pid != 0) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
      close(child.report);
    }
  children_.clear();
}

ForkedRanks::~ForkedRanks() {
  end_all();
}

}  // namespace athanor::comm::shm
