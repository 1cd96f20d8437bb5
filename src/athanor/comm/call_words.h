// A call packed into words of shared memory: plain data that ranks compare, and turn into text for error messages.
//
//   const CallWords words = pack_call(7, call);      words[0] == 8, since 0 means no call
//   words[kCallPlaceWord] == call.place              the last word, the only one that ranks do not compare
//
// Long names are truncated; the hash is of the full name. Thread rule: pure functions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "athanor/comm/call.h"

namespace athanor::comm {

constexpr size_t kCallWords = 32, kCallPlaceWord = kCallWords - 1;
using CallWords = std::array<uint64_t, kCallWords>;

CallWords pack_call(uint64_t sequence, const Call& call);
Call unpack_call(const CallWords& words);
CallWords load_words(const std::atomic<uint64_t> (&source)[kCallWords]);
void store_words(const CallWords& words, std::atomic<uint64_t> (&target)[kCallWords]);  // words[0] last

// Whether a sent message matches the receive: dtype, count and name.
bool same_message(const CallWords& sent, const CallWords& received);

}  // namespace athanor::comm
