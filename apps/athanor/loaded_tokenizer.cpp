#include "apps/athanor/loaded_tokenizer.h"

#include "apps/command_line/print.h"

namespace athanor::apps {

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path) {
  Env& env = system_env();
  auto loaded = Tokenizer::load(env, env.is_folder(path) ? join_path(path, kTokenizerFile) : path);
  say_warnings(loaded.get());
  return loaded;
}

void say_warnings(const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) print_warnings(tokenizer->warnings());
}

}  // namespace athanor::apps
