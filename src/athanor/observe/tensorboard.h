// Writes TensorBoard event files without TensorFlow or protobuf: a few protobuf fields inside checksummed records.
//
//   TensorBoardWriter board(env, "runs/first", {.wall_seconds = wall_seconds(), .host = "node7", .pid = 4711});
//   board.write(metrics, wall_seconds());
//   board.flush();                           // after every step, or less often
//
// A resumed run writes a new file. It begins with a record that makes TensorBoard discard later steps of the older
// files.
//
// File:   events.out.tfevents.<seconds>.<host>.<pid>.<number>
// Record: u64 length, u32 masked crc32c(length), data, u32 masked crc32c(data), all little-endian
// Data:   Event {1: double wall_time, 2: int64 step, 3: string file_version | 5: Summary | 7: SessionLog}
// Tags:   loss/train, loss/valid, loss_by_channel/NAME, loss_by_channel_valid/NAME, optimizer/grad_norm, optimizer/lr,
//         optimizer/loss_scale (f16), speed/tokens_per_second, speed/mfu_percent, speed/step_seconds, experts/...,
//         memory/peak_GiB
// Thread rule: a writer belongs to one thread. Errors: IoError of the Env.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/observe/metrics.h"

namespace athanor::observe {

struct TensorBoardId {
  double wall_seconds = 0;  // since 1970; TensorBoard reads a folder's files in the order of their names
  std::string host = "localhost";
  int64_t pid = 0;
};

class TensorBoardWriter {
 public:
  TensorBoardWriter(Env& env, const std::string& folder, const TensorBoardId& id, int64_t resumed_step = 0);

  void write(StepMetrics metrics, double wall_seconds);
  void write_validation(StepMetrics metrics, double wall_seconds);  // its validation losses alone
  void text(const std::string& tag, const std::string& markdown, int64_t step, double wall_seconds);
  void scalars(const std::vector<std::pair<std::string, float>>& values, int64_t step, double wall_seconds);
  void flush() { file_->flush(); }
  const std::string& path() const { return path_; }

 private:
  void record(std::string_view data);

  std::string path_;
  std::unique_ptr<WritableFile> file_;
};

// The masked crc32c of TensorBoard's record format: rotated, plus a constant.
uint32_t masked_crc32c(std::string_view data);

}  // namespace athanor::observe
