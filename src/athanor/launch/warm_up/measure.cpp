#include "athanor/launch/warm_up/measure.h"

#include <fmt/core.h>

#include <cerrno>
#include <exception>

#include "athanor/base/error.h"
#include "athanor/launch/warm_up/disk.h"
#include "athanor/launch/warm_up/memory.h"

namespace athanor::launch::warm_up {
namespace {

void warn(control::WarmedUp& measured, const std::string& what) {
  measured.warning += (measured.warning.empty() ? "" : "; ") + what;
}

std::string hint_of(int code, const std::string& run_folder) {
  if (code == ENOSPC)
    return fmt::format("make room for the checkpoints in '{}', or set train.runs to another disk",
                       run_folder);
  if (code == EDQUOT)
    return fmt::format("the quota of this user is used up: make room in '{}', or set train.runs", run_folder);
  if (code == EIO)
    return "the disk, or the network below it, fails: dmesg says more; set train.runs to another disk";
  return fmt::format("let this user write to '{}', or set train.runs to a folder that may be written to",
                     run_folder);
}

}  // namespace

control::WarmedUp measure(const MeasureOptions& options) {
  control::WarmedUp measured;
  // All ranks in the same order, so that they burden the machine alike at the same time.
  try {
    measured.matrix_gflop_per_s = measure_matrix_product(options.matrix_product);
  } catch (const std::exception& error) {
    warn(measured, fmt::format("matrix products could not be measured: {}", error.what()));
  }
  try {
    measured.memory_gb_per_s = measure_memory();
  } catch (const std::exception& error) {
    warn(measured, fmt::format("memory could not be measured: {}", error.what()));
  }
  try {
    measured.disk_mb_per_s = measure_disk(*options.env, options.run_folder, options.rank);
  } catch (const IoError& error) {
    measured.refusal = error.what();
    measured.hint = hint_of(error.code(), options.run_folder);
  } catch (const std::exception& error) {
    warn(measured, fmt::format("the disk could not be measured: {}", error.what()));
  }
  return measured;
}

}  // namespace athanor::launch::warm_up
