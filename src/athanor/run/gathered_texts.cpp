#include "athanor/run/gathered_texts.h"

#include <algorithm>

namespace athanor::run {

std::vector<std::string> gather_texts(Group& group, const std::string& mine, const std::string& name) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> sizes(ranks);
  const auto own = static_cast<int64_t>(mine.size());
  group.all_gather(&own, sizes.data(), 1, Dtype::i64, name + ": sizes").wait();
  const auto most = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::string padded = mine, all(most * ranks, '\0');
  padded.resize(most);
  if (most > 0)
    group.all_gather(padded.data(), all.data(), static_cast<int64_t>(most), Dtype::u8, name).wait();
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(rank * most, static_cast<size_t>(sizes[rank])));
  return texts;
}

}  // namespace athanor::run
