// [offload], [checkpoint], [snapshot], [guard], [launch]: where a run's state lies, when it is saved, how its training is
// watched, and its processes.
//
//   config.checkpoint.every_steps = 500;
//
// config/fields_run.cpp says of each key what it does, its limits and its costs. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::config {

// What is kept on disk while training, in files without a name that are gone with the process.
struct OffloadConfig {
  std::string optimizer = "memory";  // memory, host, disk: moments and, where compute is not f32, f32 masters
  std::string gradients = "memory";  // memory, disk: their sums over micro-batches
  std::string parameters = "memory";   // memory, disk: those of parallel.zero_stage = 3, between their uses
  std::string activations = "memory";  // memory, host, disk: those of blocks, between forward and backward
  std::string path = {};               // a folder on a disk; empty: the run's
};

struct CheckpointConfig {
  int64_t every_steps = 100;        // 0: only the final one
  int64_t keep = 3;                 // newest ones kept; 0: all
  std::string background = "auto";  // on, off: written out of the slots while the ranks train on
};

struct SnapshotConfig {
  std::string mode = "auto";  // slots, copy, off
  int64_t every_steps = 1;    // of copy
  int64_t peers = 0;
};

// Each is off, warn or act (run/guards.h).
struct GuardConfig {
  std::string loss_spike = "warn";
  std::string grad_norm = "warn";
  std::string update_size = "warn";
  std::string not_finite = "act";
  std::string damaged_data = "act";  // off, act
  std::string state_hash = "warn";
  int64_t state_hash_every = 10;  // steps
  int64_t rollback_steps = 1;     // that act undoes, and whose batches it leaves out
  int64_t max_rollbacks = 3;
};

struct LaunchConfig {
  int64_t min_ranks = 1;
  int64_t max_ranks = 0;
  int64_t max_restarts = 10;
  std::string hang = "warn";
  std::string slow = "warn";     // off, warn
  std::string warm_up = "warn";  // off, warn
  std::string tune = "off";      // propose, apply (run/tuning/tuner.h)
  bool allow_inexact = false;    // an order of sums that changes in mid-run
  int64_t timeout_ms = 600000;   // a collective that is later than this fails
};

}  // namespace athanor::config
