#include "athanor/launch/output/writer_thread.h"

#include <fmt/core.h>

#include <utility>

#include "athanor/base/human.h"

namespace athanor::launch::output {

WriterThread::WriterThread(std::function<void(std::string_view text)> write)
    : write_(std::move(write)), thread_([this] { write_all(); }) {}

WriterThread::~WriterThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WriterThread::add(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    if (num_dropped_ > 0 || waiting_.size() + text.size() > kMostBytes)
      num_dropped_ += text.size();  // until the reader has caught up, so that what is shown has one gap
    else
      waiting_ += text;
  }
  changed_.notify_one();
}

void WriterThread::write_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::string text = std::exchange(waiting_, {});
    lock.unlock();
    write_(text);
    lock.lock();
    if (num_dropped_ == 0 || !waiting_.empty()) continue;
    waiting_ = fmt::format("\n{} were not shown: nobody read what was before them\n",
                           human_bytes(static_cast<double>(std::exchange(num_dropped_, 0))));
  }
}

}  // namespace athanor::launch::output
