// Writes text for people on a thread of its own, so that a reader who does not read keeps nobody else waiting.
//
//   WriterThread writer([&](std::string_view text) { write_to_standard_error(text); });
//   writer.add("rank 1 was killed\n");                // never waits
//
// What is above kMostBytes is dropped, and how much it was is said as soon as there is room. The destructor waits until all
// is written. Thread rule: add() by one thread; the function is called by the writer's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "athanor/base/namespaces.h"

namespace athanor::launch::output {

class WriterThread {
 public:
  static constexpr size_t kMostBytes = 4 << 20;  // that wait

  explicit WriterThread(std::function<void(std::string_view text)> write);
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  void add(std::string_view text);

 private:
  void write_all();

  std::function<void(std::string_view)> write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  uint64_t num_dropped_ = 0;  // bytes
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace athanor::launch::output
