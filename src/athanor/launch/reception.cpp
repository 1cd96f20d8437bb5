#include "athanor/launch/reception.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::launch {

using control::PacketChannel;

void Reception::add_polled(std::vector<pollfd>& polled) const {
  polled.push_back({listener_.fd(), POLLIN, 0});
  for (const PacketChannel& stranger : strangers_) polled.push_back({stranger.fd(), POLLIN, 0});
}

std::vector<Arrival> Reception::take() {
  while (auto channel = listener_.accept()) strangers_.push_back(std::move(*channel));
  std::vector<Arrival> arrivals;
  std::erase_if(strangers_, [&](PacketChannel& stranger) {
    const int64_t process = control::peer_of(stranger.fd()).process;
    control::Hello hello;
    std::string wrong;
    try {
      const auto packet = stranger.receive();
      if (!packet) return stranger.closed();
      const control::WorkerMessage message = control::decode_worker_message(packet->text);
      const auto* said = std::get_if<control::Hello>(&message);
      check(said != nullptr, "control channel: the first message is no 'hello'");
      hello = *said;
    } catch (const Failure& error) {
      wrong = error.what();
    }
    arrivals.push_back({process, std::move(stranger), std::move(hello), std::move(wrong)});
    return true;
  });
  return arrivals;
}

}  // namespace athanor::launch
