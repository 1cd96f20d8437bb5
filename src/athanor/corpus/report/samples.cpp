#include "athanor/corpus/report/samples.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/corpus/passes/record.h"

namespace athanor::corpus::report {

void Draw::offer(uint64_t document, uint64_t cost) {
  const Ticket ticket{{stream_.word(document, 0), document}, std::max(cost, kLeastCost)};
  if (!(ticket.order < first_refused_)) return;
  chosen_.push_back(ticket);
  std::push_heap(chosen_.begin(), chosen_.end());
  spent_ += ticket.cost;
  while (spent_ > budget_) {
    std::pop_heap(chosen_.begin(), chosen_.end());
    first_refused_ = chosen_.back().order;
    spent_ -= chosen_.back().cost;
    chosen_.pop_back();
  }
}

std::vector<uint64_t> Draw::documents() const {
  std::vector<uint64_t> documents;
  for (const Ticket& ticket : chosen_) documents.push_back(ticket.order.second);
  std::sort(documents.begin(), documents.end());
  return documents;
}

void read_documents(Env& env, const Built& built, const std::vector<uint64_t>& documents,
                    const std::function<void(uint64_t number, const Document& document)>& take) {
  auto next = documents.begin();
  for (size_t p = 0; p < built.parts.parts.size(); ++p) {
    const Part& part = built.parts.parts[p];
    const auto end = std::lower_bound(next, documents.end(), part.first + part.documents);
    if (next == end) continue;
    const std::string& path = built.segments.back().texts[p];
    RecordReader reader(env, path);
    Document document{.channel = part.channel};
    for (uint64_t number = part.first; next != end; ++number) {
      check(reader.next(document), "'{}': has fewer than {} documents", path, part.documents);
      if (number == *next) take(*next++, document);
    }
  }
}

std::string_view first_bytes(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  size_t end = most_bytes;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace athanor::corpus::report
