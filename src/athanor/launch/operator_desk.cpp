#include "athanor/launch/operator_desk.h"

#include <optional>
#include <utility>

#include "athanor/base/error.h"

namespace athanor::launch {

using control::OperatorAnswer;

void OperatorDesk::add_polled(std::vector<pollfd>& polled) const {
  polled.push_back({listener_.fd(), POLLIN, 0});
  for (const auto& [number, one] : operators_) polled.push_back({one.channel.fd(), POLLIN, 0});
}

std::vector<OperatorDesk::Request> OperatorDesk::take() {
  while (auto channel = listener_.accept())
    if (operators_.size() < kMostOperators)
      operators_.try_emplace(num_seen_++, Operator{std::move(*channel)});
  std::vector<Request> requests;
  std::vector<std::pair<int64_t, std::string>> wrong;
  for (auto& [number, one] : operators_) {
    try {
      while (const auto packet = one.channel.receive()) {
        if (std::exchange(one.has_asked, true)) continue;
        requests.push_back({number, control::decode_operator_request(packet->text)});
      }
    } catch (const Failure& error) {
      wrong.emplace_back(number, error.what());
    }
  }
  std::erase_if(operators_, [](const auto& entry) { return entry.second.channel.closed(); });
  for (const auto& [number, why] : wrong) answer(number, control::Refused{why});
  return requests;
}

void OperatorDesk::answer(int64_t to, const OperatorAnswer& answer) {
  const auto found = operators_.find(to);
  if (found == operators_.end()) return;
  bool is_gone = !std::holds_alternative<control::Working>(answer);
  try {
    found->second.channel.send(control::encode(answer));
  } catch (const Failure&) {
    is_gone = true;
  }
  if (is_gone) operators_.erase(found);
}

}  // namespace athanor::launch
