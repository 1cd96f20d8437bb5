// Sleeping on a word of memory that ranks share. The shared (not process-private) futex works for threads too: one
// engine serves both.
//
// Thread rule: pure functions.
#pragma once

#include <atomic>
#include <cstdint>

namespace athanor {

// Sleeps while the word is `seen`, until it is woken or the time is over.
void futex_sleep(std::atomic<uint32_t>& word, uint32_t seen, int64_t timeout_ms);
void futex_wake(std::atomic<uint32_t>& word);  // all who sleep on it

}  // namespace athanor
