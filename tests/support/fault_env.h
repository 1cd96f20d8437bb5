// An Env whose n-th call fails, and the ones after it too where it stands for a kill. Every method that
// changes something and every append counts as one call.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor::tests {

class FaultEnv : public Env {
 public:
  enum class Fault {
    kill,  // nothing happens from that call on: what is on disk stays as it is
    once,  // that call alone fails, as when a disk is full for a moment; the program goes on and cleans up
  };
  static constexpr int64_t kNever = -1;
  explicit FaultEnv(int64_t fail_at = kNever, Fault fault = Fault::once) : fail_at_(fail_at), fault_(fault) {}
  int64_t calls() const { return calls_; }
  bool failed() const { return fail_at_ != kNever && calls_ > fail_at_; }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    step();
    return std::make_unique<File>(*this, system_env().create(path));
  }
  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    step();
    return std::make_unique<File>(*this, system_env().append_to(path));
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return system_env().open(path); }
  void create_folders(const std::string& path) override { step(), system_env().create_folders(path); }
  void rename(const std::string& from, const std::string& to) override {
    step(), system_env().rename(from, to);
  }
  void remove_all(const std::string& path) override { step(), system_env().remove_all(path); }
  void truncate(const std::string& path, uint64_t size) override {
    step(), system_env().truncate(path, size);
  }
  void sync_folder(const std::string&) override { step(); }
  bool exists(const std::string& path) override { return system_env().exists(path); }
  bool is_folder(const std::string& path) override { return system_env().is_folder(path); }
  std::vector<std::string> list(const std::string& path) override { return system_env().list(path); }

 private:
  class File : public WritableFile {
   public:
    File(FaultEnv& env, std::unique_ptr<WritableFile> file) : env_(env), file_(std::move(file)) {}
    void append(const void* data, size_t size_bytes) override {
      try {
        env_.step();
      } catch (const IoError&) {  // half of it arrives
        file_->append(data, size_bytes / 2);
        file_->flush();
        throw;
      }
      file_->append(data, size_bytes);
    }
    void flush() override { env_.step(), file_->flush(); }
    void sync() override { env_.step(), file_->flush(); }
    void close() override { env_.step(), file_->close(); }

   private:
    FaultEnv& env_;
    std::unique_ptr<WritableFile> file_;
  };

  void step() {
    if (fail_at_ == kNever) return;
    const int64_t call = calls_++;
    if (call == fail_at_ || (fault_ == Fault::kill && call > fail_at_))
      throw IoError("injected fault", ENOSPC);
  }

  int64_t fail_at_;
  Fault fault_;
  std::atomic<int64_t> calls_ = 0;
};

}  // namespace athanor::tests
