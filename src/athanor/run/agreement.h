// Agreement of the ranks before the first step: settings, data, run folder, checkpoint and initial weights are
// compared. Ranks that differ would otherwise train on silently and produce meaningless weights.
//
//   const Config agreed = agree_on_settings(config, group, io.highest_isa, &note);     // before anything is opened
//   agree(group, data_facts(dataset.identity), "...");                                 // once the data is there
//   agree_on_folder(env, group, run_folder);                                           // rank 0 has made it
//   auto newest = agree_on_checkpoint(env, group, checkpoints, &skipped);
//   agree_on_weights(env, group, config.train.init_from);                              // at a fresh start
//
// A difference is the same ConfigError on every rank, naming the setting, the rank and both values:
// "optimizer.lr: got 0.01 on rank 1, expected 0.003 as on rank 0". Each function is collective, and returns at once in
// a group of one. Errors: ConfigError, and those of the group and of files. Thread rule: one thread per rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/cpu.h"
#include "athanor/base/file.h"
#include "athanor/comm/group.h"
#include "athanor/config/config.h"

namespace athanor::run {

struct Fact {
  std::string key, value;
};

// Every setting of the field table, except those that may differ between ranks (threads, logs, paths whose content is
// compared instead); then the versions of the program and of its checkpoint format.
std::vector<Fact> settings_facts(const Config& config);
bool may_differ_between_ranks(std::string_view key);
// One fact per line of Dataset::identity.
std::vector<Fact> data_facts(std::string_view identity);

// ConfigError for the first fact that differs from rank 0's. `hint` tells the user what to do.
void agree(Group& group, const std::vector<Fact>& mine, const std::string& hint);
// If any rank passes a complaint (not ""), throws the first such rank's complaint on all ranks.
void refuse_together(Group& group, const std::string& complaint, const std::string& hint);

// Compares settings and versions, then settles the instruction set, which must be the same on all ranks because results
// depend on it. With train.isa = "auto" it is the lowest of all ranks' `highest`; a rank that could use a higher one
// gets it as train.isa of the returned config, and a line in `note`. A fixed train.isa that a rank lacks is refused.
Config agree_on_settings(const Config& config, Group& group, Isa highest, std::string* note);

// How long to wait for a file that another host has written: network file systems show it late.
constexpr double kFilePatienceSeconds = 2.0;

// Checks that all ranks see the same folder, which exists on rank 0: they must find a file that rank 0 writes into it.
// If not, rank 0 removes the file, and the folder if it is then empty.
void agree_on_folder(Env& env, Group& group, const std::string& folder,
                     double patience_seconds = kFilePatienceSeconds);

// The newest complete checkpoint that rank 0 finds, if any. All ranks must see it with the same manifest. `skipped` is
// filled on rank 0, as by newest_checkpoint().
std::optional<std::string> agree_on_checkpoint(Env& env, Group& group, const std::string& folder,
                                               std::vector<std::string>* skipped,
                                               double patience_seconds = kFilePatienceSeconds);

// Checks that the files of train.init_from have the same content on all ranks; paths may differ.
void agree_on_weights(Env& env, Group& group, const std::string& path);

}  // namespace athanor::run
