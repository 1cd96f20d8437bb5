// Sleeping on a word of shared memory. The shared (not process-private) futex serves ranks as threads and as processes.
//
//   futex_sleep(word, seen, /*timeout_ms=*/25);      // returns at once if the word is not `seen`
//   word.store(seen + 1);  futex_wake(word);         // the other rank
//
// Thread rule: pure functions.
#pragma once

#include <atomic>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::comm::shm {

// Sleeps if the word is `seen`, until woken or until the timeout.
void futex_sleep(std::atomic<uint32_t>& word, uint32_t seen, int64_t timeout_ms);
void futex_wake(std::atomic<uint32_t>& word);  // wakes all sleepers

}  // namespace athanor::comm::shm
