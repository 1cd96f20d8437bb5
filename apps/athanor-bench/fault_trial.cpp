// The ranks of a trial of law 8, as threads or as forked processes.
#include "fault_trial.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/comm/network/control_connection.h"
#include "athanor/comm/network/gloo/gloo.h"
#include "athanor/comm/shm/forked_ranks.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/comm/shm/thread.h"

namespace athanor::apps {
namespace {

constexpr int64_t kTimeoutMs = 60'000;

// State that the ranks of a trial share beside their group, in memory that processes can share, too.
class Board {
 public:
  Board() : memory_(mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    check(memory_ != MAP_FAILED, "fault trial: the system gives no shared memory");
    page_ = new (memory_) Page;
  }
  ~Board() { munmap(memory_, sizeof(Page)); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  void strike() { page_->fault_ns = now_ns(); }
  void end(int rank) { page_->ended_ns[static_cast<size_t>(rank)] = now_ns(); }
  void report(const std::string& text) {
    if (page_->fault_ns == 0) return;
    const size_t slot = page_->reserved.fetch_add(1);
    if (slot >= page_->reports.size()) return;
    Report& report = page_->reports[slot];
    report.length = std::min(text.size(), report.text.size());
    std::memcpy(report.text.data(), text.data(), report.length);
    report.at_ns = now_ns();  // says that it is whole
  }
  bool has_report() const { return page_->reports[0].at_ns != 0; }

  Heard heard(const FaultTrial& trial, std::vector<std::string> endings, int64_t late_ms) const {
    Heard heard{.endings = std::move(endings), .reports = {}};
    for (const Report& report : page_->reports)
      if (report.at_ns != 0) heard.reports.emplace_back(report.text.data(), report.length);
    const int64_t last = *std::max_element(page_->ended_ns.begin(), page_->ended_ns.end());
    const int64_t named =
        trial.kind == FaultKind::straggler ? page_->reports[0].at_ns - late_ms * 1'000'000 : last;
    heard.seconds = page_->fault_ns == 0 ? 0.0 : static_cast<double>(named - page_->fault_ns) * 1e-9;
    return heard;
  }

 private:
  struct Report {
    std::atomic<int64_t> at_ns{0};
    size_t length = 0;
    std::array<char, 1000> text{};
  };
  struct Page {
    std::atomic<int64_t> fault_ns{0};
    std::array<std::atomic<int64_t>, kMostTrialRanks> ended_ns{};
    std::atomic<size_t> reserved{0};
    std::array<Report, 16> reports{};
  };
  void* memory_;
  Page* page_ = nullptr;
};

// One rank's part of the trial.
class Player {
 public:
  Player(const FaultTrial& trial, Group& group, Board& board)
      : trial_(trial), group_(group), board_(board), is_victim_(group.rank() == trial.victim) {}

  void play() {
    for (int k = 0; k < static_cast<int>(trial_.calls.size()); ++k) {
      const FaultKind fault = is_victim_ && k == trial_.at ? trial_.kind : FaultKind::none;
      if (fault == FaultKind::missing) continue;
      // A missing call shows when its rank makes the next call.
      const bool missed = is_victim_ && trial_.kind == FaultKind::missing && k == trial_.at + 1;
      if (fault != FaultKind::none || missed) board_.strike();
      if (fault == FaultKind::straggler) come_late();
      if (fault == FaultKind::dead && !trial_.within) die();
      Work work = start(trial_.calls[static_cast<size_t>(k)], fault == FaultKind::shape ? trial_.surplus : 0);
      if (fault == FaultKind::dead) die();
      work.wait();
    }
  }

 private:
  void come_late() const {
    const int64_t give_up = now_ns() + kTimeoutMs * 1'000'000;
    while (!board_.has_report() && now_ns() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // A thread dies by GroupOptions::before_call.
  void die() const {
    if (trial_.transport != "thread") kill(getpid(), SIGKILL);
  }

  Work start(const TrialCall& planned, int64_t surplus) {
    const Call& call = planned.call;
    const int me = group_.rank(), n = group_.size();
    const int64_t count = call.count + surplus;
    in_.assign(static_cast<size_t>((count + 1000) * n), 0.0);
    out_.assign(in_.size(), 0.0);
    void *in = in_.data(), *out = out_.data();
    switch (call.collective) {
      case Collective::all_reduce:
        return group_.all_reduce(in, count, call.dtype, call.name);
      case Collective::all_reduce_tree:
        return group_.all_reduce_tree({{me, me + 1, static_cast<float*>(in)}}, n, static_cast<float*>(out),
                                      count, call.name);
      case Collective::all_gather:
        return group_.all_gather(in, out, count, call.dtype, call.name);
      case Collective::reduce_scatter:
        return group_.reduce_scatter(in, out, count, call.dtype, call.name);
      case Collective::all_to_all:
        return group_.all_to_all(in, out, count, call.dtype, call.name);
      case Collective::broadcast:
        return group_.broadcast(in, count, call.dtype, call.root, call.name);
      case Collective::reduce:
        return group_.reduce(in, out, count, call.dtype, call.root, call.name);
      case Collective::gather:
        return group_.gather(in, out, count, call.dtype, call.root, call.name);
      case Collective::scatter:
        return group_.scatter(in, out, count, call.dtype, call.root, call.name);
      case Collective::all_to_all_v:
        return start_uneven(call, surplus);
      case Collective::send:
        if (me == planned.from) return group_.send(in, count, call.dtype, call.root, call.name);
        if (me == call.root) return group_.recv(in, count, call.dtype, planned.from, call.name);
        return {};
      default:
        group_.barrier(call.name);
        return {};
    }
  }
  // What is wrong of it is what the rank expects of its neighbour.
  Work start_uneven(const Call& call, int64_t surplus) {
    const int me = group_.rank(), n = group_.size();
    std::vector<int64_t> sends, recvs;
    for (int r = 0; r < n; ++r) {
      sends.push_back(uneven_count(call.count, me, r));
      recvs.push_back(uneven_count(call.count, r, me) + (r == (me + 1) % n ? surplus : 0));
    }
    return group_.all_to_all_v(in_.data(), sends, out_.data(), recvs, call.dtype, call.name);
  }

  const FaultTrial& trial_;
  Group& group_;
  Board& board_;
  bool is_victim_;
  std::vector<double> in_, out_;  // room for the widest type
};

std::vector<std::string> play_threads(const FaultTrial& trial, Board& board, GroupOptions options) {
  if (trial.kind == FaultKind::dead)
    options.before_call = [&trial](int rank, uint64_t sequence) {
      return rank == trial.victim && static_cast<int>(sequence) == trial.at ? Fault::die : Fault::none;
    };
  const auto groups = make_thread_groups(trial.ranks, options);
  std::vector<std::string> endings(groups.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      endings[rank] = outcome_of([&] { Player(trial, *groups[rank], board).play(); });
      board.end(static_cast<int>(rank));
    });
  for (auto& thread : threads) thread.join();
  return endings;
}

// join(rank, play) makes the rank's group and calls play with it.
using Join = std::function<void(int rank, const std::function<void(Group&)>& play)>;
std::vector<std::string> play_processes(const FaultTrial& trial, Board& board, const Join& join) {
  ForkedRanks ranks(trial.ranks, [&](int rank) {
    join(rank, [&](Group& group) {
      try {
        Player(trial, group, board).play();
      } catch (const std::exception&) {
        board.end(rank);
        throw;
      }
      board.end(rank);
    });
  });
  return ranks.outcomes();
}

}  // namespace

Heard run_trial(const FaultTrial& trial, int64_t late_ms) {
  Board board;
  GroupOptions options;
  options.timeout_ms = kTimeoutMs;
  options.late_ms = late_ms;
  options.on_late = [&](const std::string& report) { board.report(report); };
  std::vector<std::string> endings;
  if (trial.transport == "thread") {
    endings = play_threads(trial, board, options);
  } else if (trial.transport == "shm") {
    const ShmSegment segment(trial.ranks);
    endings = play_processes(trial, board, [&](int rank, const auto& play) {
      play(*open_shm_group(segment.fd(), rank, trial.ranks, options));
    });
  } else {
    const int listening = listen_on("127.0.0.1", 0);
    endings = play_processes(trial, board, [&](int rank, const auto& play) {
      const GlooPlace place{.address = "127.0.0.1",
                            .port = port_of(listening),
                            .rank = rank,
                            .size = trial.ranks,
                            .listen_fd = rank == 0 ? listening : -1};
      play(make_gloo_world(place, options)->all());
    });
    close(listening);
  }
  return board.heard(trial, std::move(endings), late_ms);
}

}  // namespace athanor::apps
