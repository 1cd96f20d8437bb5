// A file that is compressed with zstd while it is written, and stands under its name only once it is whole.
//
//   ZstdOutput out(env, "corpora/mine/en/shard-00000.jsonl.zst");
//   out.append(line);
//   out.finish();                                      // without it, nothing is left
//
// The same bytes whatever the sizes of the pieces. Thread rule: one thread. Errors: IoError naming the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor::documents {

constexpr int kZstdFastLevel = 1;

class ZstdOutput {
 public:
  ZstdOutput(Env& env, std::string path, int level = kZstdFastLevel);
  ~ZstdOutput();
  ZstdOutput(const ZstdOutput&) = delete;
  ZstdOutput& operator=(const ZstdOutput&) = delete;

  void append(std::string_view bytes);
  uint64_t finish();  // syncs it and gives it its name; returns the bytes of the file

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::documents
