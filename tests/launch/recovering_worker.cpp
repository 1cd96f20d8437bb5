#include "recovering_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/control/agent_link.h"
#include "athanor/launch/stop_requests.h"
#include "athanor/launch/stop_watcher.h"

namespace athanor::tests {
namespace {

// What a rank keeps in its slots. `token`: of the rank, made by its first process.
struct State {
  int64_t token = 0, step = 0;
};

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Not inlined, and with something after the call, so that it has a frame.
[[gnu::noinline]] int stands_still() {
  int times = 0;
  while (pause() != 0) ++times;
  return times;
}

class RecoveringRank {
 public:
  RecoveringRank(const RankEnvironment& place, int argc, char** argv)
      : place_(place),
        steps_(std::atoi(argv[0])),
        victim_(argc > 1 ? std::atoi(argv[1]) : -2),
        stage_(argc > 2 ? argv[2] : ""),
        lives_(argc > 3 ? std::atoi(argv[3]) : 0),
        watcher_({.on_first = [this](int signal) { stop(signal); }, .under_launcher = true}) {}

  int run() {
    std::signal(SIGPIPE, SIG_IGN);  // its launcher may be gone
    rank_ = place_.rank;
    die_at("hello");
    wait_at_gate();
    link_ = std::make_unique<AgentLink>(AgentLinkOptions{
        .path = place_.control,
        .job = place_.job,
        .worker = place_.worker,
        .on_stop = [this](int signal) { stop(signal); },
        .on_lost =
            [this](const std::string& why) {
              std::printf("rank %d: %s\nrank %d: is alone\n", rank_.load(), why.c_str(), rank_.load());
              std::fflush(stdout);
              stop(SIGTERM);
            },
        .warm_up = [this] { return warm_up(); },
        .silence_ms = text_of("TEST_SILENCE_MS").empty() ? 600'000 : std::stoi(text_of("TEST_SILENCE_MS"))});
    prctl(PR_SET_PDEATHSIG, 0);
    die_at("ready");
    std::string why = "the start";
    while (auto offer = link_->next(generation_, why)) {
      generation_ = offer->generation;
      rank_ = offer->rank;
      die_at("meet");
      try {
        return train(*offer);
      } catch (const Recoverable& error) {
        hang();
        why = error.what();
      }
    }
    throw Recoverable(link_->ended_because() + "; " + why);
  }

 private:
  void stop(int signal) {
    stop_ = signal;
    if (rank_ == 0) std::fprintf(stderr, "rank 0: stops at signal %d\n", signal);
  }

  void die_at(const std::string& stage) {
    const bool second = place_.worker == place_.world_size && stage == text_of("TEST_DIE_AGAIN");
    const bool first =
        (rank_ == victim_ || victim_ == -1) && stage == stage_ && place_.worker < place_.world_size + lives_;
    if (first || second) raise(SIGKILL);
  }

  // A survivor that stands still where the others notice the failure.
  void hang() const {
    if (text_of("TEST_HANG") == std::to_string(rank_.load()) && place_.worker < place_.world_size)
      while (true) pause();
  }

  // A process that was started again says that it is here and waits until somebody opens the pipe.
  void wait_at_gate() {
    const std::string gate = text_of("TEST_GATE");
    if (gate.empty() || place_.worker < place_.world_size) return;
    std::fprintf(stderr, "at the gate\n");
    close(open(gate.c_str(), O_RDONLY | O_CLOEXEC));
  }

  // As measured: rank 1 at half the others' speed, or without room on its disk, or it comes to no end. Each time is written down.
  WarmedUp warm_up() {
    const std::string how = text_of("TEST_WARM_UP");
    if (how.empty()) return {};
    std::ofstream(text_of("TEST_FOLDER") + "/measured", std::ios::app) << place_.rank << std::endl;
    const bool is_first = place_.worker < place_.world_size;
    if (how == "gate" && is_first) {
      std::fprintf(stderr, "measures\n");
      close(open(text_of("TEST_WARM_UP_GATE").c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (place_.rank == 1 && how == "die" && is_first) raise(SIGKILL);
    if (place_.rank == 1 && how == "stop" && is_first) raise(SIGSTOP);
    WarmedUp measured{.matrix_gflop_per_s = 60, .memory_gb_per_s = 10, .disk_mb_per_s = 200};
    if (place_.rank == 1 && how == "slow") measured.matrix_gflop_per_s = 30;
    if (place_.rank == 1 && how == "warn") measured.warning = "memory could not be measured";
    if (place_.rank == 1 && how == "full") {
      measured.refusal = "cannot write 'runs/t/.warm_up.rank1': No space left on device";
      measured.hint = "make room";
    }
    return measured;
  }

  // What ends a rank, or only its world, without a signal.
  void fail_at(int64_t step) {
    if (step != 7 || rank_ != 1 || place_.worker >= place_.world_size) return;
    const std::string how = text_of("TEST_FAIL");
    if (how == "leave") throw Timeout("nobody came");  // says nothing to the others, who wait
    if (how == "stop") raise(SIGSTOP);
    if (how == "hang") stands_still();
    if (how == "error" || how == "io") {
      link_->farewell({.status = Status::failed,
                       .cause = how == "io" ? Cause::io : Cause::error,
                       .what = "what was said at last"});
      link_.reset();
      _exit(1);
    }
  }

  // As if it took 100 s to work on a step, and rank 1 twice as long on each of steps 8 to 12, for which the others wait.
  void work() {
    const bool is_slow = text_of("TEST_FAIL") == "slow" && have_->step >= 8 && have_->step <= 12;
    busy_ns_ += is_slow && rank_ == 1 ? 200'000'000'000 : 100'000'000'000;
    waited_ns_ += is_slow && rank_ != 1 ? 100'000'000'000 : 0;
  }

  // Does what the operator wants, and says so.
  void follow(const WorldOffer& offer, const State& state) {
    if (!offer.order.save || offer.rank != 0) return;
    const std::string error = text_of("TEST_SAVE_ERROR");
    link_->saved({.generation = offer.generation,
                  .step = state.step,
                  .path = error.empty() ? "step " + std::to_string(state.step) : "",
                  .error = error});
  }

  int train(WorldOffer& offer) {
    std::shared_ptr<std::byte> inherited;
    if (!have_ && !offer.left.empty()) {
      inherited = map_shared_memory(kSharedUnit, offer.left[0].slots.get());
      have_ = *reinterpret_cast<const State*>(inherited.get());
    }
    for (auto& left : offer.left) std::fprintf(stderr, "rank %d has slots of %d\n", rank_.load(), left.rank);
    world_.reset();  // not before: the others do not hear from it that its world broke
    GroupOptions options;
    options.generation = static_cast<int>(offer.generation);
    world_ = open_shm_group(offer.segment.get(), offer.rank, offer.size, options);
    // In the slots that it has, or that its predecessor left; the new ones stay empty.
    const bool in_place = offer.generation > 0 && !text_of("TEST_IN_PLACE").empty();
    if (!in_place) slots_ = map_shared_memory(kSharedUnit, offer.slots.get());
    if (in_place && inherited != nullptr) slots_ = inherited;
    auto& slot = *reinterpret_cast<State*>(slots_.get());
    // All go on from the last step that every rank with a state has.
    const int64_t mine = have_ ? have_->step : -1;
    std::vector<int64_t> steps(static_cast<size_t>(offer.size));
    world_->all_gather(&mine, steps.data(), 1, Dtype::i64, "newest steps").wait();
    State state = have_.value_or(State{.token = getpid(), .step = 0});
    if (!have_) std::fprintf(stderr, "rank %d: token %d is new\n", rank_.load(), getpid());
    state.step = *std::max_element(steps.begin(), steps.end());
    for (const int64_t step : steps) state.step = step < 0 ? state.step : std::min(state.step, step);
    state.step = std::max<int64_t>(state.step, 0);
    if (offer.order.rollback_step >= 0) state.step = offer.order.rollback_step;
    die_at("begin");
    if (offer.order.save) die_at("ordered");
    slot = state;
    world_->barrier("the first snapshot");
    have_ = state;
    link_->begun({.generation = offer.generation,
                  .step = state.step,
                  .run_folder = text_of("TEST_FOLDER"),
                  .in_place = in_place});
    die_at("begun");
    follow(offer, state);
    const int64_t every = text_of("TEST_EVENT_STEPS").empty() ? 0 : std::stoi(text_of("TEST_EVENT_STEPS"));
    while (state.step < steps_) {
      int64_t stop = stop_ != 0 ? 1 : 0;
      world_->all_reduce(&stop, 1, Dtype::i64, "step").wait();
      if (stop != 0) return end(kInterruptedExitCode, Status::interrupted);
      slot.step = ++state.step;
      have_ = state;
      work();
      link_->progress({.generation = offer.generation,
                       .step = state.step,
                       .count = state.step,
                       .busy_ns = busy_ns_,
                       .waited_ns = waited_ns_});
      if (every > 0 && rank_ == 0 && state.step % every == 0)
        link_->event({{.event = "checkpoint", .step = state.step}});
      die_at(std::to_string(state.step));
      fail_at(state.step);
    }
    world_->barrier("the end");
    return end(0, Status::finished);
  }

  int end(int code, Status status) {
    std::fprintf(stderr, "rank %d of %d: process %d, token %d, step %d\n", rank_.load(), world_->size(),
                 getpid(), static_cast<int>(have_->token), static_cast<int>(have_->step));
    link_->farewell({.status = status});
    return code;
  }

  const RankEnvironment& place_;
  int steps_, victim_;
  std::string stage_;
  int lives_;
  std::atomic<int> rank_ = 0;  // which the thread of signals reads, too
  std::atomic<int> stop_{0};
  StopWatcher watcher_;
  std::unique_ptr<AgentLink> link_;
  std::unique_ptr<Group> world_;
  int64_t generation_ = -1;
  std::optional<State> have_;
  int64_t busy_ns_ = 0, waited_ns_ = 0;  // on steps
  std::shared_ptr<std::byte> slots_;
};

}  // namespace

int recover(const RankEnvironment& place, int argc, char** argv) {
  check(argc >= 1, "worker: recover STEPS VICTIM STAGE LIVES");
  return RecoveringRank(place, argc, argv).run();
}

}  // namespace athanor::tests
