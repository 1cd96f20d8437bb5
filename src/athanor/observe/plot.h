// The loss curve of a run as one self-contained SVG: no scripts, no fonts, no links.
//
//   env.write_atomically("runs/first/loss.svg", loss_svg(read_metrics(env, "runs/first/metrics.jsonl"),
//   "first"));
//
// Channels are faint lines, the whole loss a dark one, held-out losses are dots joined by lines. Long runs
// are drawn as the mean of each column of pixels. What is not a number leaves a gap. Thread rule: pure
// function.
#pragma once

#include <string>
#include <vector>

#include "athanor/observe/metrics.h"

namespace athanor {

std::string loss_svg(const std::vector<StepMetrics>& metrics, const std::string& title);

}  // namespace athanor
