// What all ranks of a run must have alike is compared before the first step, since ranks that differ would train on in
// silence to weights of no model.
//
//   const Config agreed = agree_on_settings(config, group, io.highest_isa, console);   // before anything is opened
//   agree(group, data_facts(dataset.identity), "...");                                 // once the data is there
//   agree_on_folder(env, group, run_folder);                                           // rank 0 has made it
//   auto newest = agree_on_checkpoint(env, group, checkpoints, &skipped);
//   agree_on_weights(env, group, config.train.init_from);                              // of a fresh start
//
// A difference is refused on every rank with the same ConfigError, which names the thing, the rank and both values:
// "optimizer.lr: got 0.01 on rank 1, expected 0.003 as on rank 0". Each function is collective and returns at once in a
// group of one. Thread rule: one thread per rank. Errors: ConfigError, and those of the group and of files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/cpu.h"
#include "athanor/base/file.h"
#include "athanor/comm/group.h"
#include "athanor/config/config.h"

namespace athanor {

struct Fact {
  std::string key, value;
};

// Every setting of the field table but those that each rank may have of its own (threads, logs, paths whose content is
// compared instead), then the versions of the program and of its checkpoints.
std::vector<Fact> settings_facts(const Config& config);
bool may_differ_between_ranks(std::string_view key);
// The lines of Dataset::identity.
std::vector<Fact> data_facts(std::string_view identity);

// Refuses the facts that are not those of rank 0; `hint` says what to do about it.
void agree(Group& group, const std::vector<Fact>& mine, const std::string& hint);
// Throws on all ranks what the first rank with a complaint says; "": none.
void refuse_together(Group& group, const std::string& complaint, const std::string& hint);

// Settings and versions; then the instruction set, which must be one since another has other bits. With train.isa = "auto"
// the lowest of all ranks is taken and returned as train.isa where this rank has a higher one; `note` gets a line that
// says so. A fixed one that a rank lacks is refused. `highest`: what this rank offers.
Config agree_on_settings(const Config& config, Group& group, Isa highest, std::string* note);

// Another host's file may be seen late, as through the cache of a network file system.
constexpr double kFilePatienceSeconds = 2.0;

// The folder of rank 0, which exists there, is that of all ranks: they find a file that rank 0 writes into it. Where it is
// refused rank 0 takes away the file, and the folder if nothing else is in it.
void agree_on_folder(Env& env, Group& group, const std::string& folder,
                     double patience_seconds = kFilePatienceSeconds);

// The newest checkpoint that rank 0 finds whole, if there is one, which all others must see with the same manifest.
// `skipped`, of rank 0, is as newest_checkpoint() fills it.
std::optional<std::string> agree_on_checkpoint(Env& env, Group& group, const std::string& folder,
                                               std::vector<std::string>* skipped,
                                               double patience_seconds = kFilePatienceSeconds);

// The files of train.init_from are the same on all ranks, wherever they lie.
void agree_on_weights(Env& env, Group& group, const std::string& path);

}  // namespace athanor
