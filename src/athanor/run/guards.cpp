#include "athanor/run/guards.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor::run {
namespace {

constexpr const char* kGradNorm = "grad_norm";

// Of a batch of few tokens the norm jumps by a factor of ten now and then, and does no harm.
RollingSpread usual_of(const std::string& name) {
  if (name.starts_with("loss ")) return {Scale::linear, 1.1};
  return {Scale::logarithmic, name == kGradNorm ? 16.0 : 4.0};
}

}  // namespace

struct Guards::Sign {
  std::string name;  // in the metrics
  std::string what;  // for people
  const std::string& setting;
  double value;  // is compared
  double shown;  // is told
  double shown_per_value;
  int64_t of_step;
};

// An alarm of the step of_step undoes it and those before it; a later step that is done already, too.
void Guards::judge(const Sign& sign, const StepSigns& signs, int64_t first_step, Verdict& verdict) {
  if (sign.setting == "off") return;
  Series& series = series_.try_emplace(sign.name, Series{usual_of(sign.name)}).first->second;
  if (series.spread.is_far_above(sign.value)) {
    const bool is_new = series.last_alarm < 0 ||
                        sign.of_step - series.last_alarm > static_cast<int64_t>(RollingSpread::kEnough);
    series.last_alarm = sign.of_step;
    const std::string told = fmt::format("{} is {:.4g}, far above the usual {:.4g}", sign.what, sign.shown,
                                         series.spread.median() * sign.shown_per_value);
    verdict.alarms.emplace_back(sign.name, sign.shown);
    const bool acts = sign.setting == "act", may_act = num_rollbacks_ < config_.max_rollbacks;
    if (acts && may_act && !verdict.first_undone) {
      verdict.first_undone = std::max(first_step, sign.of_step - config_.rollback_steps + 1);
      verdict.why = fmt::format("at step {} {}", sign.of_step, told);
      if (sign.of_step < first_step) verdict.first_undone.reset();  // of a phase that is done
    }
    if (is_new && !verdict.first_undone)
      verdict.warnings.push_back(fmt::format(
          "step {}: {}{}", sign.of_step, told,
          acts && !may_act ? fmt::format("; the run went back guard.max_rollbacks = {} times and goes on",
                                         config_.max_rollbacks)
                           : ""));
  }
  series.spread.add(signs.step, sign.value);
}

Guards::Verdict Guards::after(const StepSigns& signs, int64_t first_step) {
  Verdict verdict;
  for (const auto& [channel, loss] : signs.channel_loss)
    judge({.name = "loss " + channel,
           .what = "the loss of channel '" + channel + "'",
           .setting = config_.loss_spike,
           .value = loss,
           .shown = loss,
           .shown_per_value = 1.0,
           .of_step = signs.step},
          signs, first_step, verdict);
  judge({.name = kGradNorm,
         .what = "the norm of the gradient",
         .setting = config_.grad_norm,
         .value = signs.grad_norm,
         .shown = signs.grad_norm,
         .shown_per_value = 1.0,
         .of_step = signs.step},
        signs, first_step, verdict);
  if (signs.last_update && last_lr_ > 0.0)
    judge({.name = "update_size",
           .what = "the size of the update beside the weights",
           .setting = config_.update_size,
           .value = *signs.last_update / last_lr_,
           .shown = *signs.last_update,
           .shown_per_value = last_lr_,
           .of_step = signs.step - 1},
          signs, first_step, verdict);
  last_lr_ = signs.lr;
  if (verdict.first_undone) ++num_rollbacks_;
  return verdict;
}

void Guards::forget_after(int64_t step) {
  for (auto& [name, series] : series_) {
    series.spread.forget_after(step);
    if (series.last_alarm > step) series.last_alarm = -1;
  }
  agreed_step = std::min(agreed_step, step);
  last_lr_ = 0.0;  // that of the step before is not known
}

int64_t Guards::num_values() const {
  int64_t count =
      num_rollbacks_ + (repeated_step_ >= 0 ? 1 : 0) + (decisions ? 1 : 0) + (agreed_step >= 0 ? 1 : 0);
  for (const auto& [name, series] : series_) count += std::ssize(series.spread.values());
  return count;
}

std::string Guards::text() const {
  nlohmann::json json = {{"rollbacks", num_rollbacks_},
                         {"repeated_step", repeated_step_},
                         {"agreed_step", agreed_step},
                         {"disagreements", num_disagreements}};
  for (const auto& [name, series] : series_) {
    json["series"][name] = {{"last_alarm", series.last_alarm}, {"values", series.spread.values()}};
  }
  if (decisions)
    for (const Decision& decision : *decisions) json["decisions"].push_back(decision_line(decision));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Guards::take(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    num_rollbacks_ = json.at("rollbacks").get<int64_t>();
    repeated_step_ = json.at("repeated_step").get<int64_t>();
    agreed_step = json.at("agreed_step").get<int64_t>();
    num_disagreements = json.at("disagreements").get<int64_t>();
    series_.clear();
    if (json.contains("series"))
      for (const auto& [name, one] : json.at("series").items()) {
        Series series{usual_of(name), one.at("last_alarm").get<int64_t>()};
        for (const auto& [step, value] : one.at("values").get<RollingSpread::Values>())
          series.spread.add(step, value);
        series_.emplace(name, std::move(series));
      }
    decisions.reset();
    if (json.contains("decisions")) {
      decisions.emplace();
      for (const auto& line : json.at("decisions"))
        decisions->push_back(parse_decision(line.get<std::string>(), "guards"));
    }
  } catch (const nlohmann::json::exception& error) {
    fail("guards: {}", error.what());
  }
}

}  // namespace athanor::run
