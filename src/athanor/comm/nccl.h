// Ranks with a device each, over NCCL: a world whose groups take memory of the devices, too.
//
//   auto world = make_nccl_world(host_world, {load_nccl("/path/to/athanor_nccl.so"), queue, arena});
//   world->all().all_reduce(bucket.raw(), bucket.numel(), Dtype::f32, "grads").wait();
//
// The host's world is any other transport's (shm, gloo, mpi, of two levels): by it the ranks find each other, agree on
// each call, hear of failures and move what lies in the host's memory. It and the device outlive this one.
// Groups: comm/nccl_group.h. A group of one needs no NCCL. Thread rule: World's.
#pragma once

#include <memory>

#include "athanor/comm/nccl_link.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor {

std::unique_ptr<World> make_nccl_world(World& host, const NcclDevice& device,
                                       const GroupOptions& options = {});

}  // namespace athanor
