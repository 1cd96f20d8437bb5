// Documents of a build that are drawn by their numbers (law 2): the same for any number of workers.
//
//   Draw draw("texts of a channel", 2 << 20);
//   draw.offer(document, bytes);                                          // of each
//   read_documents(env, built, draw.documents(), [&](uint64_t number, const Document& found) { show(number, found.text); });
//
// Thread rule: one thread. Errors: those of RecordReader.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/philox.h"
#include "athanor/corpus/passes/build.h"

namespace athanor::corpus::report {

// Draws as many of the documents offered as a budget holds. A document costs kLeastCost or more, which bounds the memory.
class Draw {
 public:
  static constexpr uint64_t kLeastCost = 64;

  Draw(std::string_view stream, uint64_t budget) : stream_(1, stream), budget_(budget) {}
  void offer(uint64_t document, uint64_t cost);
  std::vector<uint64_t> documents() const;  // ascending

 private:
  struct Ticket {
    std::pair<uint32_t, uint64_t> order;  // a word of the stream, then the document
    uint64_t cost = 0;
    bool operator<(const Ticket& other) const { return order < other.order; }
  };

  RandomStream stream_;
  uint64_t budget_, spent_ = 0;
  std::vector<Ticket> chosen_;  // a heap
  std::pair<uint32_t, uint64_t> first_refused_{UINT32_MAX, UINT64_MAX};
};

// The documents of these ascending numbers, with their texts at the end of the build.
void read_documents(Env& env, const Built& built, const std::vector<uint64_t>& documents,
                    const std::function<void(uint64_t number, const Document& document)>& take);

// The first bytes of a text, whole characters.
std::string_view first_bytes(std::string_view text, size_t most_bytes);

}  // namespace athanor::corpus::report
