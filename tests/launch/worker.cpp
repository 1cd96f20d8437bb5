// A rank for the tests of the launcher: meets the others and then does what it is told. recovering_worker.cpp has a rank
// that goes on after failures.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/base/error.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/control/agent_link.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/launch/keeper/agent_process.h"
#include "athanor/launch/master/master_process.h"
#include "recovering_worker.h"

namespace athanor::tests {
namespace {

void count(const char* variable, const char* text) {
  const char* file = std::getenv(variable);
  if (file == nullptr) return;
  std::FILE* counters = std::fopen(file, "w");
  if (counters == nullptr || std::fputs(text, counters) < 0 || std::fclose(counters) != 0) _exit(99);
}

// As the kernel does it for want of memory, or for an error of it, where the environment names the file in which it counts.
void die(int number) {
  count("TEST_MEMORY_EVENTS", "oom 1\noom_kill 1\n");
  count("TEST_MEMORY_ERRORS", "5\n");
  signal(number, SIG_DFL);  // whatever a sanitizer has made of it
  raise(number);
}

// Writes to standard error as fast as it can, for ever.
void flood() {
  std::string bytes(size_t{1} << 16, 'x');
  for (size_t at = 99; at < bytes.size(); at += 100) bytes[at] = '\n';
  while (write(STDERR_FILENO, bytes.data(), bytes.size()) >= 0) continue;
}

int sum(Group& group) {
  float x = static_cast<float>(group.rank() + 1);
  group.all_reduce(&x, 1, Dtype::f32, "sum").wait();
  if (group.rank() == 0) std::printf("sum %g\n", static_cast<double>(x));
  return 0;
}

// Ready, then counts how often it is signalled until nobody has for a while after the first.
int count_signals(Group& group) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  group.barrier("all block their signals");
  if (group.rank() == 0) std::puts("ready");
  std::fflush(stdout);
  int number = 0;
  sigwait(&set, &number);
  group.barrier("all were signalled");
  const timespec more{0, 100'000'000};
  int count = 1;
  while (sigtimedwait(&set, nullptr, &more) > 0) ++count;
  std::fprintf(stderr, "rank %d: signal %d x %d\n", group.rank(), number, count);
  return 0;
}

int stay(Group& group, bool stubborn) {
  if (stubborn) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
  }
  group.barrier("all are here");
  if (group.rank() == 0) std::puts("ready");
  std::fflush(stdout);
  while (true) pause();
}

// The first world that the launcher gives, through its agent or in the environment.
struct FirstWorld {
  explicit FirstWorld(const RankEnvironment& place) {
    if (!place.has_agent()) {
      group = open_shm_group(place.shm_fd, place.local_rank, place.local_world_size);
      return;
    }
    link = std::make_unique<AgentLink>(
        AgentLinkOptions{.path = place.control, .job = place.job, .worker = place.worker});
    const auto offer = link->next(-1, "the start");
    if (!offer) throw Recoverable(link->ended_because());
    group = open_shm_group(offer->segment.get(), offer->rank, offer->size);
  }
  std::unique_ptr<AgentLink> link;
  std::unique_ptr<Group> group;
};

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int victim = argc > 2 ? std::atoi(argv[2]) : -1, code = argc > 3 ? std::atoi(argv[3]) : 0;
  if (mode == "master") {
    serve_master(PacketChannel(Descriptor(victim)));
    return 0;
  }
  if (mode == "agent") {
    signal(SIGPIPE, SIG_IGN);
    AgentProcessOptions options;
    options.write = [](std::string_view bytes) {
      if (write(STDERR_FILENO, bytes.data(), bytes.size()) < 0) _exit(99);
    };
    for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
    serve_agent(PacketChannel(Descriptor(victim)), options);
    return 0;
  }
  const RankEnvironment place = parse_rank_environment([](const char* name) { return std::getenv(name); });
  if (mode == "config") {
    std::fprintf(stderr, "athanor: error: run.toml: unknown key 'stepz'\n  hint: did you mean 'steps'?\n");
    return 2;
  }
  if (mode == "print") {
    char byte = 0;
    const auto input = read(STDIN_FILENO, &byte, 1);
    std::fprintf(stderr, "%d/%d local %d/%d input %d kept %s group %d\n", place.rank, place.world_size,
                 place.local_rank, place.local_world_size, static_cast<int>(input), std::getenv("KEPT"),
                 getpgrp() == getpid() ? 1 : 0);
    std::fprintf(stderr, "same on all\n");
    std::printf("out of %d\n", place.rank);
    int open = 0;
    for (int fd = 3; fd < 64; ++fd) open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    const bool given = fcntl(place.shm_fd, F_GETFD) >= 0 && fcntl(place.snapshot_fd, F_GETFD) >= 0;
    return place.has_agent() ? open : open - 2 + (given ? 0 : 1);
  }
  if (mode == "exit_before_joining" && place.rank == victim) return code;
  if (mode == "impostor") {
    AgentLink link({.path = place.control, .job = std::string(kJobDigits, '0'), .worker = place.worker});
    throw Error(link.next(-1, "") ? "met" : link.ended_because());
  }
  if (mode == "say" && place.rank == victim) {
    PacketChannel channel = PacketChannel::connect(place.control);
    channel.send(argv[3]);
    while (true) pause();
  }
  if (mode == "recover") return recover(place, argc - 2, argv + 2);
  const FirstWorld world(place);
  Group* const group = world.group.get();
  if (mode == "flood") {
    // So many that the pipe is hardly ever empty.
    for (int i = 0; i < 4 && place.rank == victim; ++i) std::thread(flood).detach();
    return stay(*group, /*stubborn=*/false);
  }
  if (mode == "flood_child" && place.rank == victim) {
    if (fork() == 0) flood();
    _exit(code);
  }
  if (mode == "count_signals") return count_signals(*group);
  if (mode == "stubborn" || mode == "wait") return stay(*group, mode == "stubborn");
  int64_t process = getpid();
  group->broadcast(&process, 1, Dtype::i64, 0, "rank 0's process").wait();
  const int others = pidfd_open(static_cast<pid_t>(process), 0);
  group->barrier("start");
  if (mode == "end" && place.rank != victim) return argc > 4 ? std::atoi(argv[4]) : 0;
  if (place.rank == victim) {
    if (mode == "die") die(code);
    if (mode == "exit") _exit(code);
    if (mode == "end") return code;
    if (mode == "leave") return 0;
    if (mode == "throw") throw Error("the loss is not finite");
    if (mode == "abort") {  // the cause, but the last to end
      group->abort("disk full");
      pollfd ended{others, POLLIN, 0};
      poll(&ended, 1, -1);
      throw Error("disk full");
    }
  }
  if (mode == "die_stubborn") {
    signal(SIGTERM, SIG_IGN);
    if (place.rank == victim) raise(SIGKILL);
    while (true) pause();
  }
  return sum(*group);
}

}  // namespace
}  // namespace athanor::tests

int main(int argc, char** argv) {
  try {
    return athanor::tests::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "athanor: error: %s\n", error.what());
    return 1;
  }
}
