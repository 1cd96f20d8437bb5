// Which layouts are legal: a list of rules, one file per axis (check_AXIS.cpp), each with its reason and the
// nearest legal layout. What a config says by itself, without ranks, is checked when it is read (config/validate.h).
//
//   check(config, {.world_size = 6});     // ConfigError: parallel.tp: got 4 in a world of 6 ranks, expected ...
//
// A new axis is one file with one rule, and one line in check.cpp. Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "athanor/layout/layout.h"

namespace athanor::layout {

// What the config asks of a number of ranks, legal or not.
struct Request {
  Layout layout;           // its axes need not fit the ranks
  int world_size = 1;      // servers among them
  int training_ranks = 1;  // the others
  int dp = 1;              // those that the other axes leave
  int group_size = 1;      // of dp, in a replica group of local SGD; without it all of dp
};
using Rule = void (*)(const Config& config, const Request& request);  // throws ConfigError

void check(const Config& config, const Request& request);

// In the order in which they are asked.
void check_servers(const Config& config, const Request& request);
void check_world(const Config& config, const Request& request);  // the axes make up the ranks
void check_shard(const Config& config, const Request& request);
void check_micro_batches(const Config& config, const Request& request);
void check_pipeline(const Config& config, const Request& request);
void check_experts(const Config& config, const Request& request);
void check_local_sgd(const Config& config, const Request& request);
// Of world_size ranks with a device each; needs no more of the request.
void check_device(const Config& config, const Request& request);

}  // namespace athanor::layout
