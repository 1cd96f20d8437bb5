// When the emulated device does what is given to streams beside a queue's own (copies, messages of NCCL).
//
//   auto* at_once = reinterpret_cast<decltype(&athanor_emulated_side_streams)>(dlsym(plugin, "athanor_emulated_side_streams"));
//   at_once(true);         // those opened from now on work as soon as they may; false: as late as they may
//
// A device may do either, and all between: who does not wait for a copy's data is found out by late streams, who does
// not let a copy wait for its own by early ones. Thread rule: any.
#pragma once

extern "C" __attribute__((visibility("default"))) void athanor_emulated_side_streams(bool at_once);
