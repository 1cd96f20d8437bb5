#include "work_in_processes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/cpu_limits.h"
#include "athanor/base/topology.h"
#include "athanor/comm/shm/forked_ranks.h"

namespace athanor::apps {
namespace {

// What stands before every text in the pipe: an item is begun without one.
struct Head {
  uint64_t item;
  uint32_t ended, size;
};
static_assert(sizeof(Head) + kMostWorkText <= 4096, "a pipe takes as much at once");

std::shared_ptr<std::atomic<size_t>> shared_counter() {
  void* page =
      mmap(nullptr, sizeof(std::atomic<size_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw IoError("work in processes: the system gives no memory", errno);
  return {new (page) std::atomic<size_t>(0),
          [](std::atomic<size_t>* counter) { munmap(counter, sizeof(*counter)); }};
}

void send(int pipe, uint64_t item, bool ended, const std::string& text) {
  check(text.size() <= kMostWorkText, "work in processes: got a text of {} bytes, expected at most {}",
        text.size(), kMostWorkText);
  std::string whole(sizeof(Head), '\0');
  const Head head{item, ended ? 1U : 0U, static_cast<uint32_t>(text.size())};
  std::memcpy(whole.data(), &head, sizeof(head));
  whole += text;
  check(write(pipe, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()),
        "work in processes: a pipe that was cut");
}

bool read_all(int pipe, void* data, size_t size) {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(pipe, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

std::vector<int> processors() {
  std::vector<int> all;
  if (read_cpu_limits().quota > 0.0) return all;  // others use the same ones: nobody is bound
  for (const Core& core : usable_cores())
    all.insert(all.end(), core.processors.begin(), core.processors.end());
  return all;
}

}  // namespace

void work_in_processes(const std::vector<size_t>& items, int processes,
                       const std::function<std::string(size_t item)>& work,
                       const std::function<void(size_t item, const WorkEnd&)>& ended) {
  const std::vector<int> places = processors();
  const auto next = shared_counter();
  const pid_t parent = getpid();
  while (*next < items.size()) {  // again only if every process died
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw IoError("work in processes: the system gives no pipe", errno);
    const int ranks =
        static_cast<int>(std::min<size_t>(static_cast<size_t>(processes), items.size() - *next));
    ForkedRanks workers(ranks, [&](int rank) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) return;  // it died before
      close(ends[0]);
      if (std::ssize(places) >= processes) bind_this_thread({&places[static_cast<size_t>(rank)], 1});
      for (size_t i = 0; (i = next->fetch_add(1)) < items.size();) {
        send(ends[1], items[i], false, "");
        send(ends[1], items[i], true, work(items[i]));
      }
    });
    close(ends[1]);
    std::set<size_t> begun;
    for (Head head{}; read_all(ends[0], &head, sizeof(head));) {
      if (head.ended == 0) {
        begun.insert(head.item);
        continue;
      }
      WorkEnd end{.text = std::string(head.size, '\0'), .died = ""};
      if (!read_all(ends[0], end.text.data(), end.text.size())) break;
      begun.erase(head.item);
      ended(head.item, end);
    }
    close(ends[0]);
    std::string reason;
    for (const std::string& outcome : workers.outcomes())
      if (!outcome.empty()) reason += (reason.empty() ? "" : ", ") + outcome;
    for (const size_t item : begun) ended(item, {.text = "", .died = reason});
    check(!begun.empty() || *next >= items.size(), "work in processes: none could begin: {}", reason);
  }
}

}  // namespace athanor::apps
