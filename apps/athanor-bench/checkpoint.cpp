// athanor-bench checkpoint: writing, verifying and reading all of a training state, beside plain files.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "apps/measure/bench_model.h"
#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/base/human.h"
#include "bench.h"

namespace athanor::apps {
namespace {

constexpr size_t kChunk = size_t{8} << 20;

[[noreturn]] void fail_io(const std::string& path) {
  throw IoError(fmt::format("'{}': {}", path, std::strerror(errno)), errno);
}

// The least that writing and reading these bytes can cost: one file, large pieces, one fsync.
void write_plain(const std::string& path, const std::vector<NamedTensor>& tensors) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail_io(path);
  for (const NamedTensor& named : tensors) {
    const auto* data = static_cast<const char*>(named.tensor.raw());
    for (uint64_t done = 0; done < named.tensor.size_bytes();) {
      const auto written =
          ::write(file, data + done, std::min<uint64_t>(kChunk, named.tensor.size_bytes() - done));
      if (written < 0) fail_io(path);
      done += static_cast<uint64_t>(written);
    }
  }
  if (::fsync(file) != 0 || ::close(file) != 0) fail_io(path);
}

void read_plain(const std::string& path, std::vector<char>& buffer) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_io(path);
  for (ssize_t got = 1; got > 0;) {
    got = ::read(file, buffer.data(), buffer.size());
    if (got < 0) fail_io(path);
  }
  ::close(file);
}

std::string hash_of(const std::vector<NamedTensor>& tensors) {
  Hash128 hash;
  for (const NamedTensor& named : tensors) hash.update(named.tensor.raw(), named.tensor.size_bytes());
  return hash.hex();
}

struct BenchCheckpoint {
  std::string preset = "gpt2-124m", folder;
  BenchRun on;

  void run();
};

void BenchCheckpoint::run() {
  on.open();
  const TempFolder place(folder);
  BenchModel model(bench_config(preset, 1, 16, 1), *on.queue);
  const std::vector<NamedTensor> tensors = model.training().tensors();
  double bytes = 0.0;
  for (const NamedTensor& named : tensors) bytes += static_cast<double>(named.tensor.size_bytes());
  const auto free_bytes = static_cast<double>(std::filesystem::space(place.path()).available);
  check(3.0 * bytes < free_bytes, "bench checkpoint: '{}' has {} left, expected {}",
        parent_folder(place.path()), human_bytes(free_bytes), human_bytes(3.0 * bytes));

  Env& env = system_env();
  const auto group = make_single_group();
  const CheckpointContent content{
      .step = 1, .state = model.state().to_json(), .tensors = tensors, .files = {}};
  const std::string checkpoints = join_path(place.path(), "checkpoints"),
                    plain = join_path(place.path(), "plain");
  env.create_folders(checkpoints);

  // What comes back must be what went out.
  const std::string path = write_checkpoint(env, *group, checkpoints, content), before = hash_of(tensors);
  for (NamedTensor named : tensors) fill_zero(named.tensor);
  model.training().load(Checkpoint::open(env, path));
  check(hash_of(tensors) == before, "bench checkpoint: what was read is not what was written");
  write_plain(plain, tensors);

  std::vector<char> buffer(kChunk);
  const auto rate = [&](const std::function<void()>& call) {
    const double start = now_seconds();
    call();
    return bytes / (now_seconds() - start);
  };
  const auto series = interleave(
      on.rounds, {[&] { return rate([&] { write_checkpoint(env, *group, checkpoints, content); }); },
                  [&] { return rate([&] { write_plain(plain, tensors); }); },
                  [&] { return rate([&] { Checkpoint::open(env, path).verify(); }); },
                  [&] { return rate([&] { model.training().load(Checkpoint::open(env, path)); }); },
                  [&] { return rate([&] { read_plain(plain, buffer); }); }});
  const Series &write = series[0], &plain_write = series[1], &verify = series[2], &read = series[3],
               &plain_read = series[4];
  if (on.json) {
    Report report;
    report["preset"] = preset;
    report["params"] = model.training().model->num_params();
    report["dtype"] = "f32";
    report["bytes"] = bytes;
    report["rounds"] = on.rounds;
    const auto part = [&](const char* name, const Series& ours, const Series* other) {
      report[name]["ms"] = bytes / ours.median() * 1e3;
      report[name]["gbytes_per_second"] = ours.median() * 1e-9;
      report[name]["rate"] = to_report(ours, 1e-9);
      if (other != nullptr) report[name]["over_plain"] = median_ratio(ours, *other);
    };
    part("write", write, &plain_write);
    part("verify", verify, &plain_read);
    part("read", read, &plain_read);
    part("plain_write", plain_write, nullptr);
    part("plain_read", plain_read, nullptr);
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format("{} with AdamW state: {}; medians of {} rounds\n", preset, human_bytes(bytes),
                           on.rounds);
  const auto row = [&](const char* name, const Series& ours, const char* other_name, const Series& other) {
    std::cout << fmt::format(
        "{:<7} {:>7.1f} ms, {:>6.2f} GB/s, spread {:>3.0f} %, {:.2f} times {} ({:.2f} GB/s)\n", name,
        bytes / ours.median() * 1e3, ours.median() * 1e-9, 100.0 * ours.spread(), median_ratio(ours, other),
        other_name, other.median() * 1e-9);
  };
  row("write", write, "one file and fsync", plain_write);
  row("verify", verify, "reading one file", plain_read);
  row("read", read, "reading one file", plain_read);
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("checkpoint", "Writing, verifying and reading a training state");
  auto command = std::make_shared<BenchCheckpoint>();
  command->on.rounds = 3;
  sub->add_option("--preset", command->preset, "Model")->capture_default_str();
  sub->add_option("--folder", command->folder,
                  "Where to write (default: where the system keeps temporary files)");
  command->on.add_options(*sub);
  sub->footer(
      "f32 masters and optimizer state, as a run saves them. A checkpoint is written past the system's "
      "cache, so\n"
      "verify reads it from the disk; read and the plain file come from the cache.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
