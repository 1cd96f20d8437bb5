// Packs whole documents into sequences (data.packing = "best-fit"), so that no document is cut that fits into one.
//
//   const BestFit packing(starts, /*seq_len=*/256);        // starts [documents + 1]: where each begins in the stream
//   for (const Window& window : packing.windows(7))         // the documents of sequence 7, from its first token on
//     read(window.first, window.targets + 1);               // inputs: all but the last token; targets: all but the first
//
// A document of L tokens has L - 1 targets, each predicted from tokens of its own document, and takes L - 1 places of a
// sequence: its last token is a target only. So every token is a target exactly once, but for the first of each document.
// A document with more targets than a sequence has places fills whole sequences first, each beginning at the last target of
// the one before; its rest is packed like a short document. What remains of a sequence is padding.
//
// Best-fit decreasing: the longest rest comes first, into the sequence whose free places it fills best, else into a new
// one. From "Fewer Truncations Improve Language Modeling" (Ding et al., 2024). Sequences are kept by their free places, so
// a rest costs O(log seq_len). The packing is a function of the lengths alone: of rests alike the earlier document comes
// first, of sequences with as much room the one that came there last. In a sequence documents keep their order.
//
// Memory: 24 bytes a document while it is made, then 16, and 16 for one longer than a sequence. Thread rule: const, any thread. Errors: Error for more than 2^32
// documents.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::data::packing {

// `targets` predicted tokens, the inputs starting at token `first`.
struct Window {
  int64_t first = 0;
  int64_t targets = 0;
  bool operator==(const Window&) const = default;
};

class BestFit {
 public:
  BestFit(std::vector<int64_t> starts, int64_t seq_len);

  int64_t num_sequences() const { return num_whole_ + static_cast<int64_t>(bins_.size()) - 1; }
  int64_t num_targets() const { return num_targets_; }  // of all sequences
  std::vector<Window> windows(int64_t sequence) const;
  // The sequences that a token is in, as input or target.
  std::vector<int64_t> sequences_with(int64_t token) const;

 private:
  // A document that fills sequences alone, the first of them, and so on to the next of these.
  struct Long {
    int64_t sequence;
    uint32_t document;
  };
  int64_t targets_of(uint32_t document) const;
  Window rest_of(uint32_t document) const;
  void fill_bins(const std::vector<uint32_t>& bin_of, int64_t num_bins);

  std::vector<int64_t> starts_;
  int64_t seq_len_, num_whole_ = 0, num_targets_ = 0;
  std::vector<Long> longs_;
  std::vector<uint32_t> documents_;   // of the sequences that are packed, one after the other
  std::vector<uint32_t> bins_ = {0};  // where each begins in documents_, and the end
};

}  // namespace athanor::data::packing
