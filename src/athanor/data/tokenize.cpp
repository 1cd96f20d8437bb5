#include "athanor/data/tokenize.h"

#include <filesystem>
#include <utility>

#include "athanor/base/file_lock.h"
#include "athanor/base/hash.h"
#include "athanor/data/building/token_file_build.h"
#include "athanor/data/content_key.h"
#include "athanor/data/instructions/instruction_encoder.h"

namespace athanor::data {
namespace {

bool is_complete(Env& env, const std::string& prefix) {
  return env.exists(prefix + ".meta.json") && env.exists(prefix + ".bin") && env.exists(prefix + ".idx") &&
         env.exists(prefix + ".text_bytes");
}

}  // namespace

std::vector<std::string> document_separators(const Tokenizer& tokenizer) {
  std::vector<std::string> separators = {std::string(kEndOfTextWord)};
  if (const auto end = tokenizer.end_of_text())
    if (std::string word = tokenizer.token_of(*end); !word.empty() && word != kEndOfTextWord)
      separators.push_back(std::move(word));
  return separators;
}

TokenFileInfo build_token_file(Env& env, const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                               const std::string& prefix, const TokenizeOptions& options) {
  return TokenFileBuild(env, tokenizer, paths, prefix, options).run();
}

std::string cached_token_file(Env& env, const Tokenizer& tokenizer, const std::string& path,
                              const std::string& cache_folder, const TokenizeOptions& options) {
  const std::vector<SourceFile> files = list_sources(env, path).files;
  Hash128 hash;
  hash.update("token file 3\n" + tokenizer_hash(tokenizer) + "\n" +
              (options.instructions ? options.instructions->identity() : options.text_key) + "\n" +
              (options.fim != nullptr ? options.fim->identity() + "\n" : "") +
              content_key(env, files, cache_folder));
  const std::string stem = std::filesystem::path(path).lexically_normal().filename().string();
  const std::string name = (stem.empty() ? "text" : stem.substr(0, 64)) + "-" + hash.hex();
  std::string prefix = join_path(cache_folder, name);
  if (is_complete(env, prefix)) return prefix;

  env.create_folders(cache_folder);
  const FileLock lock(
      prefix + ".lock",
      [&] {
        TokenizeState state;
        state.source = path;
        state.waiting = true;
        if (options.progress) options.progress(state);
      },
      options.stop);
  if (is_complete(env, prefix)) return prefix;
  build_token_file(env, tokenizer, {path}, prefix, options);
  return prefix;
}

}  // namespace athanor::data
