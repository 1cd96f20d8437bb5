// An Env whose scratch files fail as disks do: transfers stop half way, are refused, are forgotten or come back with
// another bit, and are done in another order than they were asked for.
#pragma once

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "support/fault_env.h"

namespace athanor::tests {

struct ScratchFaults {
  static constexpr int kNever = -1;
  bool short_transfers = false;                 // each moves one block of several
  bool last_first = false;                      // of those on their way the newest is done first
  bool full = false;                            // there is no room when the file is made
  int fail_read = kNever, fail_write = kNever;  // the n-th of its kind, from 0
  int code = EIO;
  int flip_write = kNever;    // the n-th write reaches the disk with a bit changed
  int forget_write = kNever;  // the n-th write says it is done and is not
  int reads = 0, writes = 0;  // counted
  uint64_t bytes_read = 0, bytes_written = 0;
};

class ScratchEnv : public FaultEnv {
 public:
  explicit ScratchEnv(ScratchEngine engine = ScratchEngine::best) : engine_(engine) {}
  ScratchFaults faults;

  std::unique_ptr<ScratchFile> create_scratch(const std::string& folder) override {
    return std::make_unique<File>(faults, open_scratch_file(folder, engine_));
  }

 private:
  class File : public ScratchFile {
   public:
    File(ScratchFaults& faults, std::unique_ptr<ScratchFile> file)
        : faults_(faults), file_(std::move(file)) {}
    void resize(uint64_t size_bytes) override {
      if (faults_.full) throw IoError("cannot keep that: disk full", ENOSPC);
      file_->resize(size_bytes);
    }
    // Done when asked for; what is on its way is then only the news of it.
    void submit(const ScratchTransfer& transfer) override {
      ScratchTransfer real = transfer;
      const int number = transfer.writes ? faults_.writes++ : faults_.reads++;
      (transfer.writes ? faults_.bytes_written : faults_.bytes_read) += transfer.size_bytes;
      if (number == (transfer.writes ? faults_.fail_write : faults_.fail_read)) {
        done_.push_back({transfer.id, -faults_.code});
        return;
      }
      if (transfer.writes && number == faults_.forget_write) {
        done_.push_back({transfer.id, static_cast<int64_t>(transfer.size_bytes)});
        return;
      }
      if (faults_.short_transfers) real.size_bytes = kScratchAlignment;
      const bool flips = transfer.writes && number == faults_.flip_write;
      if (flips) real.data[17] ^= std::byte{4};
      file_->submit(real);
      done_.push_back(file_->wait_any());
      if (flips) real.data[17] ^= std::byte{4};
    }
    ScratchDone wait_any() override {
      if (done_.empty()) throw Error("nothing is on its way");
      const auto which = faults_.last_first ? done_.end() - 1 : done_.begin();
      const ScratchDone done = *which;
      done_.erase(which);
      return done;
    }
    const std::string& folder() const override { return file_->folder(); }
    const char* engine() const override { return file_->engine(); }

   private:
    ScratchFaults& faults_;
    std::unique_ptr<ScratchFile> file_;
    std::vector<ScratchDone> done_;
  };

  ScratchEngine engine_;
};

}  // namespace athanor::tests
