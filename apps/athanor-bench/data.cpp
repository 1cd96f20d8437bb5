// athanor-bench data: what reading, shuffling and packing of batches costs beside the step that they are for.
#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/measure/bench_model.h"
#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/philox.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/data/dataset.h"
#include "athanor/data/loader.h"
#include "athanor/run/init_from.h"
#include "bench.h"

namespace athanor::apps {
namespace {

struct BenchData {
  std::string source = "synthetic", preset = "gpt2-124m", dtype = "bf16";
  int64_t tokens = 10'000'000, batch = 4, seq = 256;
  BenchRun on;

  void run();

 private:
  Config config(const std::string& folder) const;
};

// Documents of random ids and lengths.
void write_random_tokens(const std::string& prefix, int64_t tokens, int64_t vocab_size) {
  IndexedWriter writer(system_env(), prefix, vocab_size);
  const RandomStream stream(1, "bench data");
  std::vector<int32_t> ids;
  for (uint64_t place = 0, document = 0; tokens > 0; ++document) {
    const int64_t length = std::min<int64_t>(tokens, 50 + stream.word(document, 1) % 2000);
    ids.clear();
    for (int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<int32_t>(stream.word(place++, 0) % static_cast<uint64_t>(vocab_size)));
    writer.add_document(ids);
    tokens -= length;
  }
  writer.finish();
}

Config BenchData::config(const std::string& folder) const {
  if (source != "synthetic") {
    Config config = load_config(system_env(), source, {}, config_sources(system_env()));
    const auto tokenizer = open_tokenizer(config, system_env());
    resolve_model(config, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
    return config;
  }
  Config config = bench_config(preset, batch, seq, on.rounds + 1);
  config.precision.compute = dtype;
  config.data.valid_fraction = 0.0;
  config.data.channels = {{.name = "random", .path = join_path(folder, "random")}};
  write_random_tokens(config.data.channels[0].path, tokens, config.model.vocab_size);
  return config;
}

// A batch holds what the sampler says, and each target follows its token.
void check_batch(const BatchReader& reader, const Dataset& dataset, const Batch& batch) {
  std::vector<int32_t> ids(static_cast<size_t>(batch.seq_len + 1));
  for (int64_t b = 0; b < batch.num_sequences; ++b) {
    const Sample sample = reader.sampler().sample(batch.step, batch.first_index + b);
    const Channel& channel = dataset.channels[static_cast<size_t>(sample.channel)];
    auto at = static_cast<size_t>(b * batch.seq_len);
    for (const Window& window : channel.train_windows(sample.sequence)) {
      const auto length = static_cast<size_t>(window.targets);
      channel.read(window.first, std::span(ids).first(length + 1));
      for (size_t t = 0; t < length; ++t)
        check(batch.tokens[at + t] == ids[t] &&
                  (batch.targets[at + t] == ids[t + 1] || batch.targets[at + t] < 0),
              "bench data: token {} of sequence {} is not that of the dataset", t, b);
      at += length;
    }
  }
}

void BenchData::run() {
  on.open();
  const TempFolder folder;
  Config config = this->config(folder.path());
  const double opening = now_seconds();
  const Dataset dataset = open_dataset(config, system_env(),
                                       {.threads = on.pool->num_threads(),
                                        .vocab_size = config.model.vocab_size,
                                        .tokenizer = nullptr,
                                        .progress = {}});
  const double open_seconds = now_seconds() - opening;
  const BatchReader reader(dataset.channels,
                           make_sampler(dataset.channels, config.train.seed, config.train.global_batch_size),
                           config.train.micro_batch_size);
  Batch buffer;
  reader.read(1, 0, buffer);
  check_batch(reader, dataset, buffer);

  // As the trainer does: the loader reads ahead on a thread of its own.
  std::vector<int64_t> micro_batches;
  for (int64_t micro_batch = 0; micro_batch < reader.num_micro_batches(); ++micro_batch)
    micro_batches.push_back(micro_batch);
  Loader loader(reader, 1, on.rounds + 1, micro_batches);
  BenchModel model(config, *on.queue, static_cast<int64_t>(dataset.channels.size()));
  const auto next = [&]() -> const Batch& { return loader.next(); };
  model.step(next);

  const double step_tokens = static_cast<double>(config.train.global_batch_size * config.data.seq_len);
  int64_t step = 0;
  Series waits;
  const auto read = [&] {
    double tokens_read = 0.0;
    const double start = now_seconds();
    double took = 0.0;
    do {
      ++step;
      for (const int64_t micro_batch : micro_batches) {
        reader.read(step, micro_batch, buffer);
        tokens_read += static_cast<double>(buffer.num_sequences * buffer.seq_len);
      }
      took = now_seconds() - start;
    } while (took < 0.02);
    return took / tokens_read * 1e9;
  };
  const auto train = [&] {
    const double start = now_seconds();
    const StepResult result = model.step(next);
    const double took = now_seconds() - start;
    waits.values.push_back(100.0 * result.seconds.data / took);
    return took / step_tokens * 1e9;
  };
  const auto series = interleave(on.rounds, {read, train});
  const double percent = 100.0 * median_ratio(series[0], series[1]);
  if (on.json) {
    Report report;
    report["source"] = source;
    report["dataset_tokens"] = dataset.num_train_tokens();
    report["open_seconds"] = open_seconds;
    report["preset"] = config.model.preset;
    report["dtype"] = config.precision.compute;
    report["batch"] = config.train.global_batch_size;
    report["seq"] = config.data.seq_len;
    report["threads"] = on.pool->num_threads();
    report["isa"] = isa_name(on.queue->isa());
    report["rounds"] = on.rounds;
    report["ns_per_token"] = to_report(series[0]);
    report["step_ns_per_token"] = to_report(series[1]);
    report["percent_of_step"] = percent;
    report["percent_waited"] = waits.median();
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format(
      "{}: {} training tokens, opened in {:.1f} ms, steps of {} x {}, {} threads, {}; medians of {} rounds\n"
      "reading, shuffling and packing {:.2f} ns a token (spread {:.0f} %), a step {:.1f} ns (spread {:.0f} "
      "%): "
      "{:.3f} %\nsteps waited {:.3f} % of their time for data\n",
      source, dataset.num_train_tokens(), open_seconds * 1e3, config.train.global_batch_size,
      config.data.seq_len, on.pool->num_threads(), isa_name(on.queue->isa()), on.rounds, series[0].median(),
      100.0 * series[0].spread(), series[1].median(), 100.0 * series[1].spread(), percent, waits.median());
}

}  // namespace

void add_bench_data(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("data", "Reading, shuffling and packing beside the step they are for");
  auto command = std::make_shared<BenchData>();
  sub->add_option("source", command->source, "A run's settings (FILE.toml), or 'synthetic': random documents")
      ->capture_default_str()
      ->type_name("FILE.toml|synthetic");
  std::vector<CLI::Option*> of_synthetic;
  of_synthetic.push_back(
      sub->add_option("--preset", command->preset, "Model of the step")->capture_default_str());
  of_synthetic.push_back(add_size(*sub, "--tokens", command->tokens, "Of the synthetic dataset"));
  of_synthetic.push_back(add_size(*sub, "--batch", command->batch, "Sequences in the step"));
  of_synthetic.push_back(add_size(*sub, "--seq", command->seq, "Tokens in a sequence"));
  of_synthetic.push_back(sub->add_option("--dtype", command->dtype, "f32, bf16 or f16")
                             ->capture_default_str()
                             ->check(CLI::IsMember({"f32", "bf16", "f16"})));
  command->on.add_options(*sub);
  sub->footer("With FILE.toml the model, the data and the batches are those of the file.");
  sub->callback([command, of_synthetic] {
    for (const CLI::Option* option : of_synthetic)
      if (command->source != "synthetic" && option->count() > 0)
        throw ConfigError(fmt::format("{}: got it beside '{}', expected it with 'synthetic' only",
                                      option->get_name(), command->source),
                          "the file says what the batches are");
    command->run();
  });
}

}  // namespace athanor::apps
