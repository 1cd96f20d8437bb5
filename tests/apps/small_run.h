// A training run small enough to be made anew by every test: two channels of invented words (one of text
// files, one JSONL), a character tokenizer, a model of two layers and width 32, twelve steps of ten
// sequences.
//
//   Workplace place;
//   make_small_run(place);                                   // run.toml and all it names
//   train(place, "t", {"train.steps=6"});                    // -> runs/t
//   EXPECT_EQ(history(place, "t"), history(place, "u"));     // bit for bit
//
// Steps have five micro-batches, so that up to five ranks share them, most of them unevenly.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/program.h"

namespace athanor::tests {

using Json = nlohmann::ordered_json;

constexpr int64_t kSteps = 12;
constexpr int64_t kTokensPerStep = 10 * 32;

// Words of a made-up language; another seed, another language.
std::string invented_text(uint64_t seed, size_t num_words);

// en.txt, zh.jsonl, tokenizer.json and run.toml with f32 and reduce = "tree".
void make_small_run(const Workplace& place);

// So many steps that the run is always met while it goes on. The rate is constant, since it may depend on the
// number of steps, which the resumed run shortens.
inline const std::vector<std::string> kEndless = {"train.steps=1000000", "schedule.decay=constant",
                                                  "train.eval_every=0"};
// The same run to its end at a step.
std::vector<std::string> until(int64_t step);

// A program that waits, where it writes a file with `written` in its path, until `file` is there: so that a signal comes
// meanwhile.
ProgramOptions held_at(const std::string& written, const std::string& file);
// Settings, and further ones.
std::vector<std::string> operator+(std::vector<std::string> sets, const std::vector<std::string>& more);
// The arguments of `train run.toml` for the run of that name.
std::vector<std::string> train_arguments(const std::string& name, const std::vector<std::string>& sets = {});
// The same behind `launch -n N --`.
std::vector<std::string> launch_arguments(int num_ranks, const std::string& name,
                                          const std::vector<std::string>& sets = {});
// A run that must succeed. More than one rank: by the launcher.
Outcome train(const Workplace& place, const std::string& name, const std::vector<std::string>& sets = {},
              int num_ranks = 1);
// The names in an object, in its order.
std::vector<std::string> keys(const Json& object);
// For MASTER_PORT: a port that no other program is given while this one runs.
std::string reserved_port();

std::string run_file(const std::string& name, const std::string& file);
std::string checkpoint_of(const std::string& name, int64_t step);
// Complete lines of metrics.jsonl so far; 0 where there is none.
int64_t num_lines(const Workplace& place, const std::string& name);
std::vector<Json> metrics(const Workplace& place, const std::string& name);
Json report(const Workplace& place, const std::string& name);

// What law 5 promises: the named fields of every step with all their digits, and the digest of the newest
// checkpoint.
struct History {
  std::vector<std::string> steps;
  std::string digest;
  bool operator==(const History&) const = default;
};
History history(const Workplace& place, const std::string& name);
void PrintTo(const History& history, std::ostream* out);
// The first word of `checkpoint digest`, which must have the form that design gives it.
std::string digest(const Workplace& place, const std::string& path);

// A refusal as the program promises it: the exit code, one "athanor: error: " at the beginning of standard
// error, and each of the pieces in what is said there.
void expect_refused(const Outcome& outcome, int exit_code, const std::vector<std::string>& pieces);

}  // namespace athanor::tests
