// What a finished run leaves that must have the same bits whatever happened to its ranks (law 5): the fields of every step
// in metrics.jsonl, the digest of its newest checkpoint, and the ledger of its samples.
//
//   const RunEvidence undisturbed = read_evidence(env, "runs/a", ledger_of(program, "runs/a", environment));
//   const RunEvidence struck = read_evidence(env, "runs/b", ledger_of(program, "runs/b", environment));
//   differences(struck, undisturbed);               // {"step 41: loss: got 2.5, expected 2.4"}; empty: the same bits
//
// Errors: Error naming the file for what cannot be read; IoError. Thread rule: pure functions of files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::chaos {

// step, tokens, loss, channel_loss, grad_norm, lr, loss_scale
const std::vector<std::string>& compared_fields();

struct StepEvidence {
  int64_t step = 0;
  std::vector<std::string>
      fields{};  // of compared_fields(), as JSON with all digits: equal texts are equal bits
  bool operator==(const StepEvidence&) const = default;
};

struct RunEvidence {
  std::vector<StepEvidence> steps{};  // in the order of the file
  std::string digest{};               // of the newest checkpoint, after its step: "200 1f4c..."
  std::string ledger{};
};

RunEvidence read_evidence(Env& env, const std::string& run_folder, const std::string& ledger);
// What `athanor dataset verify --ledger RUN` proves: the steps and the hash of each phase.
std::string ledger_of(const std::string& program, const std::string& run_folder,
                      const std::vector<std::string>& environment);

// The first difference of each kind: a field of a step, steps that are missing or stand twice, digest, ledger.
std::vector<std::string> differences(const RunEvidence& got, const RunEvidence& expected);

}  // namespace athanor::chaos
