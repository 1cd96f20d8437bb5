// samples.jsonl: texts that the model generated during training, one JSON object per line.
//
//   SampleLog log(env, "runs/first/samples.jsonl", resumed_step);   // 0 for a new run
//   log.write({.step = 100, .prompt = "The", .text = " furnace is hot"});
//   // {"step":100,"prompt":"The","text":" furnace is hot"}
//
// Opening drops broken lines and the lines of steps after resumed_step, which the resumed run writes again. Bytes that
// are not UTF-8 are replaced. Thread rule: a log belongs to one thread. Errors: IoError of the Env.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "athanor/base/file.h"

namespace athanor::observe {

struct TextSample {
  int64_t step = 0;
  std::string prompt, text;
};

std::string sample_line(const TextSample& sample);  // without its line end

class SampleLog {
 public:
  SampleLog(Env& env, const std::string& path, int64_t resumed_step);
  void write(const TextSample& sample);

 private:
  Env& env_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;  // null before the first sample
};

}  // namespace athanor::observe
