#include "loaded.h"

#include "athanor/base/cpu.h"

namespace athanor {

Loaded::Loaded(const std::string& path, const ComputeOptions& options)
    : pool(options.threads > 0 ? options.threads : num_usable_cpus()),
      queue(make_cpu_queue(&pool, options.isa == "auto" ? best_isa() : parse_isa(options.isa))),
      arena(*queue),
      loaded(load_model(system_env(), path, arena,
                        options.dtype.empty() ? std::nullopt : std::optional(parse_dtype(options.dtype)))) {
  if (!loaded.tokenizer_json.empty()) tokenizer = Tokenizer::parse(loaded.tokenizer_json, loaded.path);
}

}  // namespace athanor
