// Settings from any bytes: TOML text, then overrides, each behind a zero byte. Reading gives a Config or a
// ConfigError; a Config prints to text that reads back to the same settings, and to JSON.
#include <cstdio>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0) {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(data[i]);
    }
  }
  athanor::Config config;
  try {
    config = athanor::parse_config(parts[0], "fuzz.toml", "", std::span(parts).subspan(1));
  } catch (const athanor::ConfigError&) {
    return 0;
  }
  const std::string printed = athanor::print_config(config);
  const auto again = athanor::parse_config(printed, "printed.toml");
  if (!athanor::different_keys(config, again).empty()) {
    std::fprintf(stderr, "printed settings differ:\n%s", printed.c_str());
    std::abort();
  }
  athanor::config_to_json(config);
  if (config.model.vocab_size > 0 && athanor::num_params(config.model) <= 0) std::abort();
  return 0;
}
