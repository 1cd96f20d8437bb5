// samples.jsonl: texts that a model wrote while it trained, one JSON object a line.
//
//   SampleLog log(env, "runs/first/samples.jsonl", resumed_step);   // 0 for a new run
//   log.write({.step = 100, .prompt = "The", .text = " furnace is hot"});
//     {"step":100,"prompt":"The","text":" furnace is hot"}
//
// Opening drops the lines of later steps, which a resumed run writes again, and those that are none. Bytes that are not
// UTF-8 are replaced. Thread rule: a log belongs to one thread. Errors: IoError of the Env.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "athanor/base/file.h"

namespace athanor {

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
  std::unique_ptr<WritableFile> file_;  // from the first sample on
};

}  // namespace athanor
