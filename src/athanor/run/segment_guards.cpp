// What a segment does where a guard finds something: it runs a step again, takes a decision, or ends so that the run goes back.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/checkpoint/rank_lists.h"
#include "athanor/run/finite.h"
#include "athanor/run/segment.h"

namespace athanor::run {
namespace {

std::string text_of(const std::vector<DamagedToken>& damage) {
  auto list = nlohmann::json::array();
  for (const DamagedToken& each : damage) list.push_back({each.channel, each.file, each.offset, each.why});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<DamagedToken> parse_damage(const std::string& text) {
  std::vector<DamagedToken> damage;
  for (const auto& each : nlohmann::json::parse(text))
    damage.push_back({.channel = each.at(0).get<std::string>(),
                      .file = each.at(1).get<std::string>(),
                      .offset = each.at(2).get<int64_t>(),
                      .why = each.at(3).get<std::string>()});
  return damage;
}

}  // namespace

bool Segment::may_run_again(const StepResult& undone, const std::vector<DamagedToken>& damage) {
  run_.went_back_because = undone.damaged ? quarantine(damage) : run_again_or_end(undone.undone);
  back_to_ = run_.state.step;
  double broken = training_->role->is_whole() ? 0.0 : 1.0;
  group_.all_reduce(&broken, 1, Dtype::f64, "values of the step before").wait();
  return broken == 0.0;
}

std::string Segment::run_again_or_end(const std::string& not_finite) {
  const int64_t step = run_.state.step + 1;
  const std::vector<std::string> of_ranks = gather_texts(peers(), not_finite, "not finite");
  const auto first = std::find_if(of_ranks.begin(), of_ranks.end(),
                                  [](const std::string& text) { return text != kNotFiniteElsewhere; });
  const bool on_all = std::equal(of_ranks.begin() + 1, of_ranks.end(), of_ranks.begin());
  const std::string what = fmt::format("step {}: {}{}", step, *first,
                                       on_all ? "" : fmt::format(" on rank {}", first - of_ranks.begin()));
  const bool is_repeated = run_.guards.is_repeated(step);
  if (is_repeated || config_.guard.not_finite == "off")
    throw NotFinite(name_not_finite(what + (is_repeated ? ", also when the step ran again" : ""),
                                    training_->tensors(), group_, training_->compute));
  run_.guards.repeat(step);
  run_.recorder->warning(what + ": the step runs again");
  return what + ": the step runs again";
}

void Segment::tell_transient() {
  const std::string outcome =
      fmt::format("step {}: run again, it is finite: the fault was transient", run_.state.step);
  if (config_.guard.not_finite == "warn")
    throw NotFinite(outcome + "; guard.not_finite = \"act\" would go on");
  run_.recorder->warning(outcome);
}

// Every rank has read micro-batches of its own, or the same as others.
std::string Segment::quarantine(const std::vector<DamagedToken>& damage) {
  const int64_t step = run_.state.step + 1;
  std::set<std::tuple<std::string, int64_t>> found;
  std::vector<Decision> taken;
  for (const std::string& text : gather_texts(peers(), text_of(damage), "damaged data"))
    for (const DamagedToken& each : parse_damage(text))
      if (found.emplace(each.file, each.offset).second)
        taken.push_back({step, QuarantineData{each.channel, each.file, each.offset}, each.why});
  const auto most = std::max<int64_t>(config_.train.global_batch_size / 2, 1);
  if (std::ssize(taken) > most)
    fail(
        "step {}: {} of the {} sequences have ids outside of the vocabulary, first: {}; expected at most {}, "
        "which would be left out",
        step, taken.size(), config_.train.global_batch_size, taken.front().why, most);
  run_.decisions = with_decisions(run_.decisions, taken);
  run_.guards.decisions = run_.decisions;
  return fmt::format("{}: the step runs again without {}", taken.front().why,
                     taken.size() == 1 ? "its sequence" : fmt::format("{} sequences", taken.size()));
}

// What went back is run again to the same bits, so it is no decision that a rerun would have to follow.
bool Segment::states_agree() {
  const std::string& setting = config_.guard.state_hash;
  if (setting == "off" || layout_.servers > 0 || peers().size() == 1 || run_.queue->device() != Device::cpu)
    return true;
  const Span span(run_.io.trace, "state hashes", "step");
  if (!hashes_) hashes_.emplace(*training_, peers());
  const auto found = hashes_->compare();
  const int64_t step = run_.state.step;
  if (!found) {
    run_.guards.agreed_step = step;
    told_disagreement_ = false;
    return true;
  }
  const std::string what = fmt::format("step {}: {}", step, found->text());
  if (setting == "warn") {
    if (!std::exchange(told_disagreement_, true))
      run_.recorder->warning(what + "; guard.state_hash = \"act\" would go back to a state that is whole");
    return true;
  }
  if (++run_.guards.num_disagreements > config_.guard.max_rollbacks)
    fail(
        "{}; the run went back guard.max_rollbacks = {} times for that: the memory of a rank cannot be "
        "trusted",
        what, config_.guard.max_rollbacks);
  doubts_memory_ = true;
  back_to_ = std::max<int64_t>(run_.guards.agreed_step, 0);
  run_.recorder->warning(what);
  run_.went_back_because =
      fmt::format("replicas agreed at step {}: steps {} to {} run again", back_to_, back_to_ + 1, step);
  return false;
}

Guards::Verdict Segment::ask_guards(const StepResult& result, const StepMetrics& metrics) {
  Guards::Verdict verdict = run_.guards.after({.step = metrics.step,
                                               .channel_loss = metrics.channel_loss,
                                               .grad_norm = metrics.grad_norm,
                                               .lr = metrics.lr,
                                               .last_update = result.last_update},
                                              phase_.first_step);
  if (!verdict.first_undone) return verdict;
  run_.decisions = undo_steps(run_.decisions, *verdict.first_undone, metrics.step, verdict.why);
  run_.guards.decisions = run_.decisions;
  back_to_ = *verdict.first_undone - 1;
  run_.went_back_because = fmt::format("{}: steps {} to {} are undone and their batches left out",
                                       verdict.why, *verdict.first_undone, metrics.step);
  return verdict;
}

}  // namespace athanor::run
