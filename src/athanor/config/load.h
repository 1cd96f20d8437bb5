// Strict TOML to Config.
//
//   const std::vector<std::string> sets = {"train.steps=10", "parallel.reduce=tree"};
//   const Config config = load_config(system_env(), "first.toml", sets);
//
// An override is `section.key=value`: the value is TOML, a bare word is a string; arrays and inline tables
// are allowed, as is `data.channels.en.weight=0.5`; of a phase `phase.NAME.data.seq_len=1024`, or its number counted from 0
// in place of the name. Overrides are applied after the file, in their order.
//
// The result is validated (validate.h), its model filled from the preset or the family (presets.h), and its
// relative data paths start at the folder of the file. What the file leaves out has the default of config.h.
// Config::origins tells where each value came from.
//
// Errors: ConfigError as "first.toml:12: train.steps: got the string 'ten', expected an integer", or with
// "--set train.steps=ten" in front. Thread rule: pure functions (of the file).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "athanor/base/file.h"
#include "athanor/config/config.h"
#include "athanor/config/init_source.h"

namespace athanor::config {

// Settings that do nothing are refused (effects.h). `sources` open what train.init_from and model.config name; without
// them the config has to say the whole of its model.
Config load_config(Env& env, const std::string& path, std::span<const std::string> overrides = {},
                   const ConfigSources& sources = {});

// The same from text. `name` stands for the file in messages; `folder` is where relative data paths start
// (made absolute; empty: they stay as they are).
// `setting`: "optimizer.lr=1e-3", as behind --set. ConfigError where it is none. What depends on it is not checked.
void override_setting(Config& config, const std::string& setting);

Config parse_config(std::string_view text, const std::string& name, const std::string& folder = "",
                    std::span<const std::string> overrides = {}, const ConfigSources& sources = {});

// Of so many steps those that a way of sending gradients (compression.method) wants sent whole, where the run does not
// say: docs/compression.md.
int64_t compression_warmup(const std::string& kind, int64_t steps);

}  // namespace athanor::config
