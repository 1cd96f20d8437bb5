// main() of every test program. For tests/runner it writes down each case as it begins and ends, so that a program that
// dies in one has named it, and a leak is that of the case that left it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runner/events.h"
#include "support/tiers.h"

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif

namespace athanor::tests {
namespace {

bool leaks() {
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

class EventWriter : public testing::EmptyTestEventListener {
 public:
  EventWriter(const char* path, bool leaks_by_case)
      : file_(open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)), leaks_by_case_(leaks_by_case) {}

  void OnTestStart(const testing::TestInfo& test) override {
    begun_ = std::chrono::steady_clock::now();
    write({.kind = TestEvent::Kind::begun, .name = name_of(test), .output_bytes = output_bytes()});
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    // What leaked once is found by every later look: the rest is for another process.
    const bool leaked = leaks_by_case_ && leaks();
    TestEvent event{.kind = TestEvent::Kind::passed, .name = name_of(test), .output_bytes = output_bytes()};
    if (result.Failed() || leaked) {
      event.kind = TestEvent::Kind::failed;
    } else if (result.Skipped()) {
      event.kind = TestEvent::Kind::skipped;
      for (int i = 0; i < result.total_part_count(); ++i)
        if (result.GetTestPartResult(i).skipped()) event.reason = result.GetTestPartResult(i).message();
    }
    event.milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun_)
            .count();
    write(event);
    if (leaked) _exit(EXIT_FAILURE);
  }

 private:
  static std::string name_of(const testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + "." + test.name();
  }
  // The runner sends standard output and errors to one file.
  static uint64_t output_bytes() {
    std::fflush(nullptr);
    struct stat status {};
    return fstat(STDOUT_FILENO, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  }
  void write(const TestEvent& event) const {
    if (getpid() != process_) return;  // a test's child
    const std::string line = to_line(event);
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(EXIT_FAILURE);
  }

  int file_;
  bool leaks_by_case_;
  std::chrono::steady_clock::time_point begun_;
  pid_t process_ = getpid();
};

}  // namespace
}  // namespace athanor::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* events = std::getenv(athanor::tests::kEventsVariable);
  if (events != nullptr) {
    const bool leaks_by_case = argc > 1 && std::string(argv[1]) == athanor::tests::kLeaksByCase;
    testing::UnitTest::GetInstance()->listeners().Append(
        new athanor::tests::EventWriter(events, leaks_by_case));
    unsetenv(athanor::tests::kEventsVariable);  // not for programs that tests start
  }
  return RUN_ALL_TESTS();
}
