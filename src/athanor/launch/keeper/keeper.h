// The launcher's first process: the one that a user starts and waits for. It decides nothing and writes nothing, so that there is
// little to go wrong in it. It starts the job's agent (agent.h) in a process of its own, and whatever that one needs beyond its
// own life, and starts another agent where one is gone.
//
//   options.agent_command = {own_program, "launch-agent"};
//   const LaunchResult result = run_with_agents(options);         // as run_agent()
//
// Three processes stand beside the ranks: this one, its agent, and the agent's master (master_front.h). Each may be killed at
// any time:
// - The agent: the ranks train on. It is replaced when it has ended, or has had no pulse for kSilentMs; the old one is killed
//   first. The next one is given the sockets, the shared memory, the ranks' processes and what they write; it goes on with the
//   master's journal where the other was (agent_notes.h). Ranks connect again to the same socket and tell what nobody has taken.
//   No step waits for that. What was shown of ranks' output, and why a rank was killed, is not remembered.
// - Its master: the agent replaces it.
// - This one: nobody waits for the job any more, and its exit code is lost, so the job ends: the agent has the ranks save and
//   end with 75, writes that down, and leaves nothing.
// - This one and the agent: nobody listens at the socket; the ranks save and end with 75.
// If kMostAgents in a row have failed within kShortLifeMs the job ends: its ranks save and end. SIGKILL is no failure of an agent:
// somebody has killed it, and the next one may live.
//
// Ranks are started here, as children of this process: it alone knows whether a rank was started, and how it ended, and an agent
// that is killed between two of its acts leaves none that nobody knows of. A rank is never started twice.
//
// Thread rule and errors: those of run_agent(); Error and IoError of an agent, too.
#pragma once

#include "athanor/launch/agent.h"

namespace athanor::launch::keeper {

constexpr int64_t kSilentMs = 5'000, kShortLifeMs = 10'000;
constexpr int kMostAgents = 5;

LaunchResult run_with_agents(const LaunchOptions& options);

}  // namespace athanor::launch::keeper
