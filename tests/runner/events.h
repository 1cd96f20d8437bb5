// What a test program tells the runner, a line each, written when it happens (support/main.cpp writes, batch.cpp reads).
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::tests {

inline constexpr const char* kEventsVariable = "ATHANOR_TEST_EVENTS";  // names the file
// An argument: look for leaks after each case, to find the one that left them. Each look goes over all memory, so that
// without it there is one, at the program's end.
inline constexpr const char* kLeaksByCase = "--leaks-by-case";

struct TestEvent {
  enum class Kind : char { begun = 'b', passed = 'p', failed = 'f', skipped = 's' };
  Kind kind = Kind::begun;
  std::string name;           // Suite.Case
  uint64_t output_bytes = 0;  // that the program had written by then
  int64_t milliseconds = 0;   // that the case took, leak check included; 0 at its begin
  std::string reason = {};    // of what is skipped
};

inline std::string to_line(const TestEvent& event) {
  std::string reason = event.reason;
  for (char& c : reason)
    if (c == '\n') c = ' ';
  return std::string(1, static_cast<char>(event.kind)) + " " + std::to_string(event.output_bytes) + " " +
         std::to_string(event.milliseconds) + " " + event.name + " " + reason + "\n";
}

// A last line without its end, which a dying program left, is none.
std::vector<TestEvent> events_of(const std::string& text);

}  // namespace athanor::tests
