#include "apps/small_run.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <ostream>
#include <random>

#include "support/places.h"

namespace athanor::tests {

std::string invented_text(uint64_t seed, size_t num_words) {
  std::mt19937_64 dice(seed);
  std::vector<std::string> words(40);
  for (std::string& word : words)
    for (uint64_t length = 2 + dice() % 6; word.size() < length;)
      word += static_cast<char>('a' + dice() % (word.size() % 2 == 0 ? 20 : 26));
  std::string text;
  for (size_t i = 0; i < num_words; ++i) {
    // The small numbers come more often, as in any language.
    text += words[dice() % (1 + dice() % words.size())];
    text += dice() % 9 == 0 ? ".\n" : " ";
  }
  return text;
}

void make_small_run(const Workplace& place) {
  place.write("en.txt", invented_text(1, 3000));
  std::string lines;
  for (uint64_t document = 0; document < 20; ++document)
    lines += Json{{"id", document}, {"text", "天地 " + invented_text(2, 60 + document)}}.dump() + "\n";
  place.write("zh.jsonl", lines);
  place.output_of(
      {"tokenizer", "train", "--type", "char", "--output", "tokenizer.json", "en.txt", "zh.jsonl"});
  place.write("run.toml", R"([model]
model_type = "llama"
num_hidden_layers = 2
hidden_size = 32
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 64

[data]
channels = [ {name = "en", path = "en.txt", weight = 0.7}, {name = "zh", path = "zh.jsonl", weight = 0.3} ]
tokenizer = "tokenizer.json"
seq_len = 32
valid_fraction = 0.1

[train]
name = "t"
steps = 12
global_batch_size = 10
micro_batch_size = 2
eval_every = 4
threads = 1

[optimizer]
lr = 1e-2

[schedule]
warmup_steps = 2

[precision]
compute = "f32"

[parallel]
reduce = "tree"

[checkpoint]
every_steps = 4
)");
}

std::vector<std::string> until(int64_t step) {
  return {"train.steps=" + std::to_string(step), "schedule.decay=constant", "train.eval_every=0"};
}

ProgramOptions held_at(const std::string& written, const std::string& file) {
  ProgramOptions options;
  options.environment = {"LD_PRELOAD=" + built("tests/apps_faults.so"), "ATHANOR_FAULT=hold:" + written,
                         "ATHANOR_FAULT_UNTIL=" + file};
  return options;
}

std::vector<std::string> operator+(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<std::string> train_arguments(const std::string& name, const std::vector<std::string>& sets) {
  std::vector<std::string> arguments = {"train", "run.toml", "--set", "train.name=" + name};
  for (const std::string& set : sets) {
    arguments.push_back("--set");
    arguments.push_back(set);
  }
  return arguments;
}

std::vector<std::string> launch_arguments(int num_ranks, const std::string& name,
                                          const std::vector<std::string>& sets) {
  std::vector<std::string> arguments = {"launch", "-n", std::to_string(num_ranks), "--"};
  const auto command = train_arguments(name, sets);
  arguments.insert(arguments.end(), command.begin(), command.end());
  return arguments;
}

Outcome train(const Workplace& place, const std::string& name, const std::vector<std::string>& sets,
              int num_ranks) {
  Outcome outcome =
      place.run(num_ranks == 1 ? train_arguments(name, sets) : launch_arguments(num_ranks, name, sets));
  if (outcome.exit_code != 0) throw std::runtime_error("the run '" + name + "' failed: " + outcome.all());
  return outcome;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

std::string reserved_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;  // on both sides: a port that is bound but not listened at can then be bound once more
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  EXPECT_EQ(bind(fd, generic, length), 0);
  EXPECT_EQ(getsockname(fd, generic, &length), 0);
  return std::to_string(ntohs(address.sin_port));
}

std::string run_file(const std::string& name, const std::string& file) {
  return "runs/" + name + "/" + file;
}

std::string checkpoint_of(const std::string& name, int64_t step) {
  const std::string digits = std::to_string(step);
  return run_file(name, "checkpoints/step_" + std::string(8 - digits.size(), '0') + digits);
}

int64_t num_lines(const Workplace& place, const std::string& name) {
  if (!place.exists(run_file(name, "metrics.jsonl"))) return 0;
  const std::string text = place.read(run_file(name, "metrics.jsonl"));
  return std::count(text.begin(), text.end(), '\n');
}

std::vector<Json> metrics(const Workplace& place, const std::string& name) {
  const std::string text = place.read(run_file(name, "metrics.jsonl"));
  std::vector<Json> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) throw std::runtime_error("metrics.jsonl ends in the middle of a line");
    lines.push_back(Json::parse(text.substr(start, end - start)));
    start = end + 1;
  }
  return lines;
}

Json report(const Workplace& place, const std::string& name) {
  return Json::parse(place.read(run_file(name, "report.json")));
}

History history(const Workplace& place, const std::string& name) {
  History result;
  for (const Json& line : metrics(place, name)) {
    Json kept;
    for (const char* field : {"step", "tokens", "loss", "channel_loss", "grad_norm", "lr", "loss_scale"})
      kept[field] = line.at(field);
    result.steps.push_back(kept.dump());
  }
  result.digest = digest(place, checkpoint_of(name, static_cast<int64_t>(result.steps.size())));
  return result;
}

void PrintTo(const History& history, std::ostream* out) {
  *out << "digest " << history.digest;
  for (const std::string& step : history.steps) *out << "\n  " << step;
}

std::string digest(const Workplace& place, const std::string& path) {
  const std::string line = place.output_of({"checkpoint", "digest", path});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  std::string word = line.substr(0, line.find_first_of(" \t\n"));
  EXPECT_GE(word.size(), 16u) << line;
  EXPECT_EQ(word.find_first_not_of("0123456789abcdef"), std::string::npos) << line;
  return word;
}

void expect_refused(const Outcome& outcome, int exit_code, const std::vector<std::string>& pieces) {
  const std::string start =
      outcome.err.starts_with(kBench) ? std::string(kBench) + ": error: " : "athanor: error: ";
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.all();
  EXPECT_EQ(outcome.err.rfind(start, 0), 0u) << outcome.all();
  EXPECT_EQ(outcome.err.find(start, 1), std::string::npos) << "one error, not two\n" << outcome.all();
  EXPECT_LE(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 2) << outcome.all();  // and a hint
  for (const std::string& piece : pieces)
    EXPECT_NE(outcome.err.find(piece), std::string::npos) << "'" << piece << "'\n" << outcome.all();
}

}  // namespace athanor::tests
