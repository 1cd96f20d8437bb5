#include "athanor/launch/master/master_process.h"

#include <poll.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/launch/master/journal.h"

namespace athanor::launch::master {
namespace {

using control::PacketChannel;

// Waits for it; none: the agent is gone.
std::optional<std::string> next_packet(PacketChannel& channel) {
  while (!channel.closed()) {
    channel.flush();
    if (auto packet = channel.receive()) return std::move(packet->text);
    if (channel.closed()) break;
    pollfd polled{channel.fd(), POLLIN, 0};
    if (channel.has_unsent()) polled.events |= POLLOUT;
    poll(&polled, 1, -1);
  }
  return std::nullopt;
}

// All of it, however slow the agent is.
void send_all(PacketChannel& channel, const std::vector<std::string>& packets) {
  for (const std::string& packet : packets) {
    channel.send(packet);
    while (channel.has_unsent() && !channel.closed()) {
      pollfd polled{channel.fd(), POLLOUT, 0};
      poll(&polled, 1, -1);
      channel.flush();
    }
  }
}

// A Master with its journal, and the answer to the last input.
class Server {
 public:
  explicit Server(const ServeMaster& request)
      : options_(request.options), journal_(request.journal), master_(request.options) {
    for (const MasterInput& input : journal_.inputs()) answer(journal_.size(), input);  // the last one counts
  }

  const std::vector<std::string>& take(const TellMaster& told) {
    if (told.number == journal_.size()) return answer_;
    check(told.number == journal_.size() + 1, "master: got input {}, expected {}", told.number,
          journal_.size() + 1);
    journal_.append(told.input);
    answer(told.number, told.input);
    return answer_;
  }
  // As another Master decides it once more.
  std::vector<std::string> take(const RepeatActions& asked) const {
    Master master(options_);
    std::vector<std::string> before, packets = {encode(told(journal_.size(), "", master_))};
    for (const Journal::Numbered& one : journal_.numbered_inputs()) {
      const std::string why_not = tell(master, one.input);
      for (const MasterAction& action : master.take_actions()) {
        if (one.number >= asked.from)
          packets.push_back(encode(action));
        else if (std::holds_alternative<FormWorld>(action))
          before = {encode(action)};
      }
      if (one.number >= asked.from) packets.push_back(encode(told(one.number, why_not, master)));
    }
    before.insert(before.end(), packets.begin(), packets.end());
    return before;
  }
  std::string take(const AskMaster& asked) const {
    if (!asked.verdict) return control::encode(control::OperatorAnswer(master_.status(asked.now_ns)));
    return encode(master_.verdict(asked.blamed < 0 ? std::nullopt : std::optional(asked.blamed)));
  }

 private:
  void answer(int64_t number, const MasterInput& input) {
    const std::string why_not = tell(master_, input);
    answer_.clear();
    for (const MasterAction& action : master_.take_actions()) answer_.push_back(encode(action));
    answer_.push_back(encode(told(number, why_not, master_)));
  }
  static Told told(int64_t number, const std::string& why_not, const Master& master) {
    return {.number = number, .why_not = why_not, .summary = summary_of(master)};
  }

  MasterOptions options_;
  Journal journal_;
  Master master_;
  std::vector<std::string> answer_;
};

}  // namespace

MasterSummary summary_of(const Master& master) {
  MasterSummary summary{.done = master.done(),
                        .goes_on = master.goes_on(),
                        .next_tick_ns = master.next_tick_ns(),
                        .generation = master.generation(),
                        .step = master.step(),
                        .begun = master.begun_generation(),
                        .warm_up = master.warm_up_round(),
                        .stop = master.stop_signal(),
                        .workers = {}};
  for (int rank = 0; rank < master.size(); ++rank) summary.workers.push_back(master.worker_of(rank));
  return summary;
}

void serve_master(PacketChannel channel) {
  const auto first = next_packet(channel);
  if (!first) return;
  Server server(decode_serve(*first));
  while (const auto packet = next_packet(channel)) {
    const auto request = decode_request(*packet);
    if (const auto* told = std::get_if<TellMaster>(&request))
      send_all(channel, server.take(*told));
    else if (const auto* repeat = std::get_if<RepeatActions>(&request))
      send_all(channel, server.take(*repeat));
    else
      send_all(channel, {server.take(std::get<AskMaster>(request))});
  }
}

}  // namespace athanor::launch::master
