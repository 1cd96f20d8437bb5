#include "athanor/run/run.h"

#include <fmt/format.h>

#include "athanor/base/clock.h"
#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "athanor/engine/device.h"
#include "athanor/engine/setup.h"
#include "athanor/run/doubtful_data.h"

namespace athanor::run {

Run::Run(const Config& agreed, World& world, const TrainIo& train_io)
    : config(agreed),
      io(train_io),
      folder(config),
      keeper(io.env, folder, world.all()),
      threads(threads_of_rank(config, io.ranks_of_processors)),
      pool(threads, [this](int thread) { bind_this_thread(io.placement.thread(thread)); }),
      queue(open_device(config, world.size(), io.cuda_plugin, &pool,
                        io.rank_of_host >= 0 ? io.rank_of_host : world.rank() % io.ranks_of_host)),
      arena(*queue, 0, [&world](size_t bytes) { return world.allocate(bytes); }),
      saves(config.checkpoint.every_steps, config.train.steps) {
  report.run_folder = folder.path;
  report.ranks = world.size();
}

void Run::resolve() {
  tokenizer_ = open_tokenizer(config, io.env);
  resolve_model(config, tokenizer_ == nullptr ? 0 : tokenizer_->vocab_size());
  validate(config);
}

void Run::open_data() {
  data = open_dataset(config, io.env,
                      {.threads = threads,
                       .vocab_size = config.model.vocab_size,
                       .tokenizer = tokenizer_,
                       .progress = io.tokenizing,
                       .stop = io.stop});
  samples.emplace(config, data.tokenizer);
}

void Run::bind_thread() {
  bound.emplace(io.placement.thread(0));
  if (bound->refusal().empty()) return;
  recorder->warning(bound->refusal());
  io.placement = {.processors = {}, .of_thread = {}, .reason = "not bound: the system refuses"};
}

void Run::open(Group& group) {
  state = first_state(config);
  state.data_identity = data.identity;
  keeper.take();
  group.barrier("run folder");
  recorder.emplace(io.env, folder.path, group.rank(), io.console, io.command_line);
  report.left_out = data.left_out;
  for (const std::string& remark : data.remarks) recorder->warning(remark);
  const auto found = keeper.find_state(config, data.identity, *recorder);
  if (!found) return;
  state = *found;
  state.loss_scale.window = config.precision.loss_scale_window;
  report.resumed_step = saved_step = state.step;
}

void Run::write_report(const char* status) {
  report.status = status;
  report.steps = state.step;
  report.tokens = state.tokens;
  if (flops_per_token > 0.0) report.set_rates(rates, flops_per_token, peak_flops);
  report.seconds = process_age_seconds();
  report.peak_bytes = static_cast<int64_t>(arena.usage().peak_total);
  report.set_resident_bytes();
  report.set_writer();
  report.dropped = recorder->dropped();
  recorder->report(report);
}

void Run::renew_report(double tokens_per_second) {
  report.steps = state.step;
  report.tokens = state.tokens;
  report.tokens_per_second = tokens_per_second;
  keeper.renew(report, *recorder);
}

void Run::write_trace(int rank) {
  if (io.trace == nullptr || io.trace->stopped()) return;
  recorder->write(fmt::format("trace/rank{}.json", rank), io.trace->chrome_json(rank));
  io.trace->stop();
}

void Run::say_doubts() {
  if (state.step >= config.train.steps) return;
  for (const std::string& line : config.warnings) recorder->warning(line);
  for (const std::string& line : doubtful_data(config, data)) recorder->warning(line);
}

void Run::failed(const std::string& reason) noexcept {
  keeper.failed(reason, report, recorder);
  if (!recorder || report.params == 0) return;  // the header was not shown yet: the error itself is enough
  report.status = "failed";
  recorder->fail(ending_of(report, config, state.step, saved_step));
}

}  // namespace athanor::run
