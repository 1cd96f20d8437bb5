// Finds a rank that is slow: it works longer on its steps than it used to, the others do not, and they wait for it. Each rank says
// with its progress how long it has worked on steps and how long it has waited for the others in them (run/work_clock.h).
//
//   SlowWatch watch({});
//   watch.formed(/*num_ranks=*/2);                                  // a world: nothing is known of its ranks
//   watch.segment_begins(1, work);                                  // of a rank, with other steps: likewise, when all have
//   watch.delayed(1, processor_delay_ns(process));                  // now and then
//   for (const SlowRank& found : watch.progress(1, progress)) tell(sentence_of(found));
//
// - Steps are put together into blocks of half a second, or of one step if that is longer. What is usual of a rank is the median
//   of its latest blocks, from the third step of a segment on; so a stage of a pipeline is compared with its own past. Where
//   others have the same work on a step, it is theirs if that is clearly less: a rank may be slow from its first step.
// - A rank is slow if it works longer on a step than is usual of it, more so than the others as against what is usual of them, and
//   the others wait longer by at least half of that.
// - It is told, `began`, when it was 1.5 times as slow over max(limit_ns, 3 usual steps), and 1.3 times in three of four blocks
//   of them; `ended` when it has been less than 1.25 times as slow for a second.
// - Where other processes use the processors, which ranks wait for (`delayed`), one or the other is slow for seconds and blames
//   nobody: it is told after max(shared_limit_ns, 10 usual steps).
// - Evaluations, saves and what else stands between steps do not count. A message that is lost costs nothing: sums are sent.
//
// Thread rule: one thread. No input/output, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/control/messages.h"

namespace athanor::launch::diagnosis {

struct SlowWatchOptions {
  int64_t limit_ns = 2'000'000'000, shared_limit_ns = 20'000'000'000;
  int64_t block_ns = 500'000'000;
  double factor = 1.5, recovered_factor = 1.25;
};

struct SlowRank {
  enum class What { began, ended };
  What what = What::began;
  int rank = 0;
  double factor = 1.0;         // its work on a step, of what is usual of it
  double waiting_share = 0.0;  // of a step, in which the others wait
  int64_t since_step = 0;      // the first slow one
  int64_t step = 0;            // the last one that is known
  int64_t slow_ns = 0;         // of steps, since then
  bool is_delayed = false;     // for want of a processor, which others use
  bool of_peers = false;  // what is usual is so of ranks with the same work: it has been slow from the start
  bool operator==(const SlowRank&) const = default;
};

// "rank 1 is slow: it works 2.0 times as long on a step as before step 412, and the others wait for it 48 % of the time"
std::string sentence_of(const SlowRank& found, int first_rank = 0);

class SlowWatch {
 public:
  explicit SlowWatch(const SlowWatchOptions& options) : options_(options) {}

  void formed(int num_ranks);
  // `work`: ranks with the same number have the same work on a step (layout/same_work.h); -1: nothing is known of it.
  void segment_begins(int rank, int64_t work = -1);
  // How long its threads were ready to run and had no processor, since the start of its process.
  void delayed(int rank, int64_t all_ns);
  std::vector<SlowRank> progress(int rank, const control::Progress& progress);

 private:
  // Sums of a rank when it had done a step.
  struct Sums {
    int64_t busy_ns = -1, waited_ns = -1, delayed_ns = 0;  // -1: it has not said so
  };
  using Row = std::vector<Sums>;  // by rank
  // On a step, in the mean of a block.
  struct Work {
    double busy_ns = 0, waited_ns = 0, delayed_ns = 0;
    bool of_peers = false;
  };
  // Of a rank in a block, or in several, beside what is usual.
  struct Pace {
    double factor = 1, others = 1;  // its work on a step, that of the others
    double waiting_ns = 0;          // of the others, on a step, above what is usual
    double longer_ns = 0;           // it works on a step, but for what the others do, too
    double delayed_ns = 0;          // its threads, above what is usual
    bool of_peers = false;          // what is usual
    bool is_slow(double least) const;
    void add(const Pace& other, double weight);
  };
  struct Block {
    std::vector<Work> ranks;
    int64_t first_step = 0, last_step = 0;
    double wall_ns = 0;         // of all its steps
    std::vector<Pace> paces{};  // by rank
    bool is_learned = false;
    double num_steps() const { return static_cast<double>(last_step - first_step + 1); }
    double step_ns() const { return wall_ns / num_steps(); }
  };
  struct Told {
    int64_t since_step = 0;
    double slow_ns = 0, fast_ns = 0;  // fast_ns: since it was slow
    bool of_peers = false;
  };
  std::vector<SlowRank> add(int64_t step, Row row);
  std::vector<SlowRank> close(Block block);
  std::vector<Work> usual() const;
  std::vector<Work> usual_of_each() const;  // of its own past
  std::vector<Pace> paces_of(const Block& block) const;
  void learn(double limit_ns);
  std::optional<SlowRank> slow_for(int rank, double limit_ns) const;
  std::optional<SlowRank> follow(int rank, const Block& block);

  SlowWatchOptions options_;
  int num_ranks_ = 0;
  std::map<int, int64_t> segments_;                   // by rank: how many have begun
  std::map<std::pair<int64_t, int>, int64_t> works_;  // by segment and rank
  std::map<std::pair<int64_t, int64_t>, Row> rows_;   // by segment and step, of which not all ranks have told
  std::map<int, int64_t> delays_;                     // by rank, the newest
  int num_rows_ = 0;                                  // that are whole, of this segment
  std::pair<int64_t, int64_t> newest_ = {0, -1};      // that is whole
  Row begun_;                                         // where the block begins
  int64_t begun_step_ = 0;
  std::deque<Block> learned_;  // from which what is usual is known
  std::deque<Block> recent_;
  std::map<int, Told> told_;  // by rank
};

}  // namespace athanor::launch::diagnosis
