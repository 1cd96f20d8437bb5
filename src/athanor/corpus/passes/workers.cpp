#include "athanor/corpus/passes/workers.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/file.h"

namespace athanor::corpus::passes {
namespace {

enum class Kind : uint32_t { progress, result, error, recoverable, config_error };

struct Head {
  Kind kind = Kind::progress;
  uint32_t size_bytes = 0;  // of the text behind it
  uint64_t value = 0;       // bytes done
};

bool send_all(int fd, const void* data, size_t size_bytes) {
  const char* at = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t sent = send(fd, at, size_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size_bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* data, size_t size_bytes) {
  char* at = static_cast<char*>(data);
  while (size_bytes > 0) {
    const ssize_t got = recv(fd, at, size_bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size_bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool send_message(int fd, Kind kind, const std::string& text, uint64_t value) {
  const Head head{.kind = kind, .size_bytes = static_cast<uint32_t>(text.size()), .value = value};
  return send_all(fd, &head, sizeof head) && send_all(fd, text.data(), text.size());
}

// The life of a worker: tasks come by the socket, answers go back.
void work(int fd, const Task& body) {
  int64_t task = 0;
  while (receive_all(fd, &task, sizeof task)) {
    const WorkDone done = [&](uint64_t bytes) { send_message(fd, Kind::progress, "", bytes); };
    Kind kind = Kind::result;
    std::string text;
    try {
      text = body(task, done);
    } catch (const ConfigError& error) {
      kind = Kind::config_error, text = error.what();
    } catch (const Recoverable& error) {
      kind = Kind::recoverable, text = error.what();
    } catch (const std::exception& error) {
      kind = Kind::error, text = error.what();
    }
    if (!send_message(fd, kind, text, 0)) return;
  }
}

struct WorkerProcess {
  pid_t pid = -1;
  int fd = -1;
  int64_t task = -1;  // -1: none
};

class Crew {
 public:
  Crew(int num_workers, const Task& body) {
    for (int i = 0; i < num_workers; ++i) start(body);
  }
  ~Crew() {
    for (const WorkerProcess& worker : workers_) {
      if (worker.fd >= 0) close(worker.fd);
      if (worker.pid > 0) kill(worker.pid, SIGKILL), waitpid(worker.pid, nullptr, 0);
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  std::vector<WorkerProcess>& workers() { return workers_; }

  [[noreturn]] void died(WorkerProcess& worker) {
    int status = 0;
    waitpid(worker.pid, &status, 0);
    worker.pid = -1;
    fail("task {} of a pass: its process {}", worker.task,
         WIFSIGNALED(status)
             ? fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
             : fmt::format("ended with {}", WEXITSTATUS(status)));
  }

 private:
  void start(const Task& body) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw IoError(fmt::format("cannot start a worker: {}", std::strerror(errno)), errno);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
      const int code = errno;
      close(ends[0]), close(ends[1]);
      throw IoError(fmt::format("cannot start a worker: {}", std::strerror(code)), code);
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);  // check_library: a forked worker
      close(ends[0]);
      for (const WorkerProcess& other : workers_) close(other.fd);
      work(ends[1], body);
      _exit(0);  // check_library: a forked worker has no caller to return to
    }
    close(ends[1]);
    workers_.push_back({.pid = pid, .fd = ends[0]});
  }

  std::vector<WorkerProcess> workers_;
};

[[noreturn]] void throw_as(Kind kind, const std::string& text) {
  if (kind == Kind::config_error) throw ConfigError(text);
  if (kind == Kind::recoverable) throw Recoverable(text);
  throw Error(text);
}

}  // namespace

void run_tasks(int num_workers, int64_t num_tasks, const Task& body,
               const std::function<void(int64_t task, const std::string& result)>& ended,
               const WorkDone& progress) {
  num_workers = static_cast<int>(std::min<int64_t>(num_workers, num_tasks));
  if (num_workers <= 1) {
    for (int64_t task = 0; task < num_tasks; ++task) ended(task, body(task, progress));
    return;
  }
  Crew crew(num_workers, body);
  int64_t next = 0, left = num_tasks;
  Kind failure = Kind::result;
  std::string reason;
  const auto hand_out = [&](WorkerProcess& worker) {
    worker.task = -1;
    if (next == num_tasks || failure != Kind::result) return;
    worker.task = next++;
    if (!send_all(worker.fd, &worker.task, sizeof worker.task)) crew.died(worker);
  };
  int64_t at_work = 0;
  for (WorkerProcess& worker : crew.workers()) hand_out(worker), ++at_work;
  std::vector<pollfd> polled;
  for (const WorkerProcess& worker : crew.workers()) polled.push_back({worker.fd, POLLIN, 0});
  while (at_work > 0) {
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR)
      throw IoError(fmt::format("cannot wait for workers: {}", std::strerror(errno)), errno);
    for (size_t i = 0; i < polled.size(); ++i) {
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      WorkerProcess& worker = crew.workers()[i];
      Head head;
      std::string text;
      if (!receive_all(worker.fd, &head, sizeof head)) crew.died(worker);
      text.resize(head.size_bytes);
      if (!receive_all(worker.fd, text.data(), text.size())) crew.died(worker);
      if (head.kind == Kind::progress) {
        progress(head.value);
        continue;
      }
      if (head.kind == Kind::result)
        ended(worker.task, text), --left;
      else if (failure == Kind::result)
        failure = head.kind, reason = text;
      hand_out(worker);
      at_work -= worker.task < 0;
      if (worker.task < 0) polled[i].fd = -1;
    }
  }
  if (failure != Kind::result) throw_as(failure, reason);
  check(left == 0, "passes: {} tasks are left", left);
}

}  // namespace athanor::corpus::passes
