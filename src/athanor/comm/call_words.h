// A call as words of shared memory: plain data that ranks compare, and turn into text for each other's errors.
//
//   const CallWords words = pack_call(7, call);      words[0] == 8, so 0 is no call
//   words[kCallPlaceWord] == call.place              the last word, the only one that ranks do not compare
//
// Long names are cut; their hash is kept whole. Thread rule: pure functions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "athanor/comm/call.h"

namespace athanor {

constexpr size_t kCallWords = 32, kCallPlaceWord = kCallWords - 1;
using CallWords = std::array<uint64_t, kCallWords>;

CallWords pack_call(uint64_t sequence, const Call& call);
Call unpack_call(const CallWords& words);
CallWords load_words(const std::atomic<uint64_t> (&source)[kCallWords]);
void store_words(const CallWords& words, std::atomic<uint64_t> (&target)[kCallWords]);  // the first one last

// Whether a message that was sent is the one that is received: dtype, count and name.
bool same_message(const CallWords& sent, const CallWords& received);

}  // namespace athanor
