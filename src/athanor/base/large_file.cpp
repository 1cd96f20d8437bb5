#include "athanor/base/large_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::base {
namespace {

constexpr size_t kLargeFileBufferBytes = size_t{8} << 20;
constexpr size_t kBlockBytes = 4096;  // what direct writes are aligned to, in memory and in the file

struct Buffer {
  std::unique_ptr<char, decltype(&std::free)> data{
      static_cast<char*>(std::aligned_alloc(kBlockBytes, kLargeFileBufferBytes)), &std::free};
  size_t size_bytes = 0;
};

class LargeFile final : public WritableFile {
 public:
  explicit LargeFile(std::string path) : path_(std::move(path)) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    fd_ = ::open(path_.c_str(), kFlags | O_DIRECT, 0644);
    direct_ = fd_ >= 0;
    if (!direct_ && errno == EINVAL) fd_ = ::open(path_.c_str(), kFlags, 0644);
    if (fd_ < 0) throw_io_error("write", path_, errno);
    for (const Buffer& buffer : buffers_)
      if (buffer.data == nullptr) {
        ::close(fd_);
        throw std::bad_alloc();
      }
    writer_ = std::thread([this] { write_buffers(); });
  }
  ~LargeFile() override {
    try {
      close();
    } catch (const IoError&) {  // a destructor cannot report; whoever needs to know calls close()
    }
    if (fd_ >= 0) ::close(fd_);
  }
  LargeFile(const LargeFile&) = delete;
  LargeFile& operator=(const LargeFile&) = delete;

  void append(const void* data, size_t size_bytes) override {
    const auto* from = static_cast<const char*>(data);
    while (size_bytes > 0) {
      if (filling_ == nullptr) filling_ = take_empty();
      const size_t piece = std::min(size_bytes, kLargeFileBufferBytes - filling_->size_bytes);
      std::memcpy(filling_->data.get() + filling_->size_bytes, from, piece);
      filling_->size_bytes += piece;
      from += piece;
      size_bytes -= piece;
      if (filling_->size_bytes == kLargeFileBufferBytes) hand_over();
    }
  }
  void flush() override {
    if (filling_ != nullptr) hand_over();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return full_ == nullptr || failure_; });
    rethrow();
  }
  void sync() override {
    flush();
    if (::fsync(fd_) != 0) throw_io_error("sync", path_, errno);
  }
  void close() override {
    if (fd_ < 0) return;
    std::exception_ptr failure;
    try {
      flush();
    } catch (const IoError&) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (writer_.joinable()) writer_.join();
    const int code = ::close(std::exchange(fd_, -1)) != 0 ? errno : 0;
    if (failure) std::rethrow_exception(failure);
    if (code != 0) throw_io_error("close", path_, code);
  }

 private:
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  // The buffer that the writer does not hold.
  Buffer* take_empty() {
    const std::lock_guard lock(mutex_);
    rethrow();
    Buffer* empty = &buffers_[full_ == &buffers_[0] ? 1 : 0];
    empty->size_bytes = 0;
    return empty;
  }
  void hand_over() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return full_ == nullptr || failure_; });
    rethrow();
    full_ = std::exchange(filling_, nullptr);
    changed_.notify_all();
  }
  void write_buffers() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return full_ != nullptr || ending_; });
      if (full_ == nullptr) return;
      const Buffer& buffer = *full_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        write(buffer.data.get(), buffer.size_bytes);
      } catch (const IoError&) {
        failure = std::current_exception();
      }
      lock.lock();
      full_ = nullptr;
      failure_ = failure;
      changed_.notify_all();
      if (failure) return;
    }
  }
  void write(const char* data, size_t size_bytes) {
    while (size_bytes > 0) {
      if (direct_ && size_bytes < kBlockBytes) use_page_cache();
      const size_t piece = direct_ ? size_bytes / kBlockBytes * kBlockBytes : size_bytes;
      const ssize_t written = ::write(fd_, data, piece);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EINVAL && direct_) {
        use_page_cache();
        continue;
      }
      if (written < 0) throw_io_error("write", path_, errno);
      // A short write of an odd size means that the disk is getting full; the next call reports it.
      if (direct_ && static_cast<size_t>(written) % kBlockBytes != 0) use_page_cache();
      data += written;
      size_bytes -= static_cast<size_t>(written);
    }
  }
  // Behind the last whole block nothing is aligned any more.
  void use_page_cache() {
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0 || ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0) throw_io_error("write", path_, errno);
    direct_ = false;
  }

  std::string path_;
  int fd_ = -1;
  bool direct_ = false;  // the writer's, once it runs
  Buffer buffers_[2];
  Buffer* filling_ = nullptr;  // the caller's
  std::mutex mutex_;           // of the following
  std::condition_variable changed_;
  Buffer* full_ = nullptr;  // the writer's
  bool ending_ = false;
  std::exception_ptr failure_;
  std::thread writer_;
};

}  // namespace

std::unique_ptr<WritableFile> create_large_file(const std::string& path) {
  return std::make_unique<LargeFile>(path);
}

}  // namespace athanor::base
