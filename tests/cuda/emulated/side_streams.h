// Sets when the emulated device does the work of streams other than a queue's own (copies, NCCL messages).
//
//   auto* at_once = reinterpret_cast<decltype(&athanor_emulated_side_streams)>(
//       dlsym(plugin, "athanor_emulated_side_streams"));
//   at_once(true);         // streams opened from now on work as early as their order allows; false: as late
//
// A real device may do either, or anything between. Late streams reveal code that does not wait for a copy before it
// uses the data; early streams reveal a copy that does not wait for the work that makes its data. Thread rule: any
// thread.
#pragma once

extern "C" __attribute__((visibility("default"))) void athanor_emulated_side_streams(bool at_once);
