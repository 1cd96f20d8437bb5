// A Master in a process of its own: the side that serves it to the agent which has started the process.
//
//   serve_master(PacketChannel(Descriptor(fd)));               // returns when the agent is gone
//
// The agent's first packet has the options and the path of the journal (journal.h). Each packet after it is an input with its
// number, which is written down, told, and answered by a packet for each action and one Told; or asks for the status or the
// verdict. The number of the last input again, after a master was replaced: its actions again. Any other number is refused.
// An agent that takes over from another one asks for the actions from an input on: the last world formed before it, if any; one
// Told with the number of the last input; then for each input its actions and a Told.
// Errors: Error for what no agent says, and for a master that is fenced. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/control/packet_channel.h"
#include "athanor/launch/master/master_inputs.h"

namespace athanor::launch::master {

void serve_master(control::PacketChannel channel);

// What an agent knows of its Master without asking.
struct MasterSummary {
  bool done = false, goes_on = true;
  int64_t next_tick_ns = kNeverNs, generation = -1, step = -1;
  int64_t begun = -1;          // the last generation that has begun
  int64_t warm_up = -1;        // the round that all ranks are in; -1: none
  int stop = 0;                // the signal that asked to save and end; 0: none has
  std::vector<int> workers{};  // by rank; -1: nobody has it now
  bool operator==(const MasterSummary&) const = default;
};
MasterSummary summary_of(const Master& master);

// The end of the answer to an input.
struct Told {
  int64_t number = 0;
  std::string why_not{};  // of tell()
  MasterSummary summary{};
  bool operator==(const Told&) const = default;
};

// Requests of the agent.
struct ServeMaster {
  MasterOptions options{};
  std::string journal{};
};
struct TellMaster {
  int64_t number = 0;  // from 1
  MasterInput input{};
};
struct AskMaster {  // for the status; or for the verdict, which names `blamed` (-1: nobody)
  bool verdict = false;
  int64_t now_ns = 0;
  int blamed = -1;
};

struct RepeatActions {
  int64_t from = 0;  // of inputs from this number on
};

std::string encode(const ServeMaster& request);
std::string encode(const TellMaster& request);
std::string encode(const AskMaster& request);
std::string encode(const RepeatActions& request);
ServeMaster decode_serve(std::string_view text);
std::variant<TellMaster, AskMaster, RepeatActions> decode_request(std::string_view text);

std::string encode(const Told& told);
// None: the packet is no Told, but an action.
std::optional<Told> decode_told(std::string_view text);
std::string encode(const Verdict& verdict);
Verdict decode_verdict(std::string_view text);

}  // namespace athanor::launch::master
