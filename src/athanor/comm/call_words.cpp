#include "athanor/comm/call_words.h"

#include <algorithm>
#include <cstring>

#include "athanor/base/hash.h"

namespace athanor::comm {

namespace {
// Words before the name: sequence + 1, kinds, count, leaves, hash of the name.
constexpr size_t kNameWord = 5;
constexpr size_t kNameBytes = (kCallPlaceWord - kNameWord) * sizeof(uint64_t);
}  // namespace

CallWords pack_call(uint64_t sequence, const Call& call) {
  CallWords words{};
  words[0] = sequence + 1;
  words[1] = static_cast<uint64_t>(call.collective) | static_cast<uint64_t>(call.dtype) << 8 |
             static_cast<uint64_t>(call.root + 1) << 16;
  words[2] = static_cast<uint64_t>(call.count);
  words[3] = static_cast<uint64_t>(call.num_leaves);
  words[4] = hash64(call.name);
  std::memcpy(words.data() + kNameWord, call.name.data(), std::min(call.name.size(), kNameBytes - 1));
  words[kCallPlaceWord] = call.place;
  return words;
}

Call unpack_call(const CallWords& words) {
  Call call;
  call.collective = static_cast<Collective>(words[1] & 255);
  call.dtype = static_cast<Dtype>((words[1] >> 8) & 255);
  call.root = static_cast<int32_t>(words[1] >> 16) - 1;
  call.count = static_cast<int64_t>(words[2]);
  call.num_leaves = static_cast<int64_t>(words[3]);
  char name[kNameBytes];
  std::memcpy(name, words.data() + kNameWord, kNameBytes);
  name[kNameBytes - 1] = '\0';
  call.name = name;
  call.place = words[kCallPlaceWord];
  return call;
}

CallWords load_words(const std::atomic<uint64_t> (&source)[kCallWords]) {
  CallWords words;
  for (size_t i = 0; i < kCallWords; ++i) words[i] = source[i].load(std::memory_order_relaxed);
  return words;
}

void store_words(const CallWords& words, std::atomic<uint64_t> (&target)[kCallWords]) {
  for (size_t i = kCallWords; i-- > 0;) target[i].store(words[i], std::memory_order_relaxed);
}

bool same_message(const CallWords& sent, const CallWords& received) {
  const auto dtype = [](const CallWords& words) { return words[1] >> 8 & 255; };
  return dtype(sent) == dtype(received) && sent[2] == received[2] && sent[4] == received[4];
}

}  // namespace athanor::comm
