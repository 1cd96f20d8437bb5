#include "athanor/base/scratch_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "athanor/base/check.h"
#include "athanor/base/file.h"

namespace athanor::base {
namespace {

// An open file that no folder lists.
class Nameless {
 public:
  explicit Nameless(std::string folder) : folder_(std::move(folder)) {
    constexpr int kFlags = O_RDWR | O_CLOEXEC;
    fd_ = ::open(folder_.c_str(), kFlags | O_TMPFILE, 0600);
    if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      std::string path = join_path(folder_, ".scratch-XXXXXX");
      fd_ = ::mkostemp(path.data(), O_CLOEXEC);
      if (fd_ >= 0) ::unlink(path.c_str());
    }
    if (fd_ < 0) throw_io_error("make a scratch file in", folder_, errno);
    // Refused where the file system knows no way past the page cache; then it goes through it.
    if (const int flags = ::fcntl(fd_, F_GETFL); flags >= 0) ::fcntl(fd_, F_SETFL, flags | O_DIRECT);
  }
  ~Nameless() { ::close(fd_); }
  Nameless(const Nameless&) = delete;
  Nameless& operator=(const Nameless&) = delete;

  int fd() const { return fd_; }
  const std::string& folder() const { return folder_; }

  void resize(uint64_t size_bytes) const {
    const auto size = static_cast<off_t>(size_bytes);
    if (::ftruncate(fd_, size) != 0) throw_io_error("make a scratch file in", folder_, errno);
    if (size == 0 || ::fallocate(fd_, 0, 0, size) == 0) return;
    const int code = errno;
    if (code == EOPNOTSUPP || code == ENOSYS) return;  // a full disk shows when it is written to
    (void)::ftruncate(fd_, 0);
    throw IoError(fmt::format("cannot keep {} bytes in '{}': {}", size_bytes, folder_,
                              code == ENOSPC ? "disk full" : "refused"),
                  code, code == ENOSPC ? "free some space on that disk, or put offload.path on another" : "");
  }

 private:
  std::string folder_;
  int fd_;
};

void check_transfer(const ScratchTransfer& t, int in_flight) {
  check(t.offset % kScratchAlignment == 0 && t.size_bytes % kScratchAlignment == 0 &&
            reinterpret_cast<uintptr_t>(t.data) % kScratchAlignment == 0 && t.size_bytes > 0,
        "scratch file: got {} bytes at {}, expected whole multiples of {} in memory and in the file",
        t.size_bytes, t.offset, kScratchAlignment);
  check(in_flight < ScratchFile::kMaxInFlight,
        "scratch file: got a transfer beside {} others, expected fewer", in_flight);
}

class UringFile final : public ScratchFile {
 public:
  // `ring` is taken over.
  UringFile(const std::string& folder, const io_uring& ring) : file_(folder), ring_(ring) {}
  ~UringFile() override {
    try {
      while (in_flight_ > 0) wait_any();
    } catch (const Failure&) {  // the ring is gone, and with it what was on its way
    }
    io_uring_queue_exit(&ring_);
  }

  void resize(uint64_t size_bytes) override { file_.resize(size_bytes); }
  void submit(const ScratchTransfer& t) override {
    check_transfer(t, in_flight_);
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    check(entry != nullptr, "scratch file: the queue of io_uring is full");
    const auto size = static_cast<unsigned>(t.size_bytes);
    if (t.writes)
      io_uring_prep_write(entry, file_.fd(), t.data, size, t.offset);
    else
      io_uring_prep_read(entry, file_.fd(), t.data, size, t.offset);
    io_uring_sqe_set_data64(entry, t.id);
    int code = 0;
    do code = io_uring_submit(&ring_);
    while (code == -EINTR);
    if (code < 0) throw_io_error("use", file_.folder(), -code);
    ++in_flight_;
  }
  ScratchDone wait_any() override {
    check(in_flight_ > 0, "scratch file: asked for a transfer, none is on its way");
    io_uring_cqe* entry = nullptr;
    int code = 0;
    do code = io_uring_wait_cqe(&ring_, &entry);
    while (code == -EINTR);
    if (code < 0) throw_io_error("use", file_.folder(), -code);
    const ScratchDone done{io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    --in_flight_;
    return done;
  }
  const std::string& folder() const override { return file_.folder(); }
  const char* engine() const override { return "io_uring"; }

 private:
  Nameless file_;
  io_uring ring_;
  int in_flight_ = 0;
};

class ThreadFile final : public ScratchFile {
 public:
  explicit ThreadFile(const std::string& folder) : file_(folder), worker_([this] { work(); }) {}
  ~ThreadFile() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  void resize(uint64_t size_bytes) override { file_.resize(size_bytes); }
  void submit(const ScratchTransfer& t) override {
    check_transfer(t, in_flight_);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(t);
    }
    changed_.notify_all();
    ++in_flight_;
  }
  ScratchDone wait_any() override {
    check(in_flight_ > 0, "scratch file: asked for a transfer, none is on its way");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !done_.empty(); });
    const ScratchDone done = done_.front();
    done_.pop_front();
    --in_flight_;
    return done;
  }
  const std::string& folder() const override { return file_.folder(); }
  const char* engine() const override { return "pread"; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !asked_.empty() || ending_; });
      if (asked_.empty()) return;
      const ScratchTransfer t = asked_.front();
      asked_.pop_front();
      lock.unlock();
      const auto offset = static_cast<off_t>(t.offset);
      ssize_t result = 0;
      do
        result = t.writes ? ::pwrite(file_.fd(), t.data, t.size_bytes, offset)
                          : ::pread(file_.fd(), t.data, t.size_bytes, offset);
      while (result < 0 && errno == EINTR);
      const ScratchDone done{t.id, result < 0 ? -errno : result};
      lock.lock();
      done_.push_back(done);
      changed_.notify_all();
    }
  }

  Nameless file_;
  int in_flight_ = 0;  // the caller's
  std::mutex mutex_;   // of the following
  std::condition_variable changed_;
  std::deque<ScratchTransfer> asked_;
  std::deque<ScratchDone> done_;
  bool ending_ = false;
  std::thread worker_;
};

// Whether the system has io_uring with the two calls that are needed, and lets this process use it.
bool open_ring(io_uring& ring) {
  if (io_uring_queue_init(ScratchFile::kMaxInFlight, &ring, 0) < 0) return false;
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  const bool usable = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                      io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  if (!usable) io_uring_queue_exit(&ring);
  return usable;
}

}  // namespace

std::unique_ptr<ScratchFile> open_scratch_file(const std::string& folder, ScratchEngine engine) {
  io_uring ring{};
  if (engine == ScratchEngine::pread || !open_ring(ring)) return std::make_unique<ThreadFile>(folder);
  try {
    return std::make_unique<UringFile>(folder, ring);
  } catch (const IoError&) {
    io_uring_queue_exit(&ring);
    throw;
  }
}

}  // namespace athanor::base
