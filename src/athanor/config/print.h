// A Config as text.
//
//   print_config(config)     TOML with one key a line, its unit and its origin behind it:
//
//     [train]
//     steps             = 400   # optimizer steps                 first.toml:12
//     global_batch_size = 32    # sequences per optimizer step    default
//
//     [[phase]]
//     name          = "long"
//     steps         = 100    # optimizer steps: 301 to 400 ...  first.toml:30
//     data.seq_len  = 1024   # tokens of a training sequence    first.toml:31
//
//   parse_config(print_config(c), "x") has the same settings as c: this is runs/NAME/config.resolved.toml.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "athanor/config/config.h"

namespace athanor::config {

// For a window of so many columns (0: as wide as it comes) notes are broken between words; below 120 there are no origins.
std::string print_config(const Config& config, size_t columns = 0);

// One setting's value as TOML: setting_text(config, "optimizer.lr") is "0.0003"; of "phase" all phases, as one array.
std::string setting_text(const Config& config, std::string_view key);

// {"model": {...}, ..., "phase": [{"name": "long", "steps": 100, "data": {"seq_len": 1024}}],
//  "origins": {"train.steps": "first.toml:12"}, "params": N}; params is left out while the vocabulary is unknown.
std::string config_to_json(const Config& config);

// The keys whose values differ, wherever these came from, in the order of the list ("model.hidden_size", "data.channels"),
// "phase" last where the phases differ.
std::vector<std::string> different_keys(const Config& a, const Config& b);

}  // namespace athanor::config
