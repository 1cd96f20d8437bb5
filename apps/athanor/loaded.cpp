#include "loaded.h"

#include <fmt/core.h>

#include "apps/athanor/loaded_tokenizer.h"
#include "apps/command_line/print.h"
#include "athanor/base/cpu.h"
#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/config/peer_names.h"

namespace athanor::apps {

namespace {

std::optional<Dtype> compute_dtype(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const std::string ours = peer_value(name, {"f32", "bf16", "f16"});
  if (name != "f32" && name != "bf16" && name != "f16")
    throw ConfigError(fmt::format("--dtype: got '{}', expected f32, bf16 or f16", printable(name)),
                      ours.empty() ? "" : "Athanor calls it '" + ours + "'");
  return parse_dtype(name);
}

}  // namespace

Loaded::Loaded(const std::string& path, const ComputeOptions& options)
    : pool(options.threads > 0 ? options.threads : num_usable_cpus()),
      queue(make_cpu_queue(&pool, options.isa == "auto" ? best_isa() : parse_isa(options.isa))),
      arena(*queue),
      loaded(load_model(system_env(), path, arena, compute_dtype(options.dtype))) {
  print_warnings(loaded.skipped);
  if (!loaded.tokenizer_json.empty())
    tokenizer = Tokenizer::parse(loaded.tokenizer_json, join_path(loaded.path, kTokenizerFile),
                                 loaded.tokenizer_files);
  say_warnings(tokenizer.get());
}

}  // namespace athanor::apps
