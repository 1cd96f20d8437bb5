// An Env on the real files whose disk is full after so many bytes: what fits is written, then appends fail. Thread rule: safe from any thread, a file from one at a time.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "athanor/base/error.h"
#include "support/real_files.h"

namespace athanor::tests {

class FullDiskEnv : public RealFiles {
 public:
  explicit FullDiskEnv(int64_t room_bytes) { set_room(room_bytes); }
  void set_room(int64_t room_bytes) { room_.set(static_cast<size_t>(room_bytes)); }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return wrap(system_env().create(path));
  }
  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    return wrap(system_env().append_to(path));
  }

 private:
  class Room {
   public:
    void set(size_t bytes) {
      const std::lock_guard lock(mutex_);
      bytes_ = bytes;
    }
    // How much of it there was.
    size_t take(size_t bytes) {
      const std::lock_guard lock(mutex_);
      const size_t taken = std::min(bytes, bytes_);
      bytes_ -= taken;
      return taken;
    }

   private:
    std::mutex mutex_;
    size_t bytes_ = 0;
  };

  class File : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, Room& room) : file_(std::move(file)), room_(room) {}
    void append(const void* data, size_t size_bytes) override {
      const size_t fits = room_.take(size_bytes);
      file_->append(data, fits);
      if (fits < size_bytes) throw IoError("disk is full", ENOSPC);
    }
    void flush() override { file_->flush(); }
    void sync() override { file_->flush(); }
    void close() override { file_->close(); }

   private:
    std::unique_ptr<WritableFile> file_;
    Room& room_;
  };
  std::unique_ptr<WritableFile> wrap(std::unique_ptr<WritableFile> file) {
    return std::make_unique<File>(std::move(file), room_);
  }
  Room room_;
};

}  // namespace athanor::tests
