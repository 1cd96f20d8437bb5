// The NCCL transport: a world of ranks with a GPU each, whose groups accept device memory and host memory.
//
//   auto world = make_nccl_world(host_world, {load_nccl("/path/to/athanor_nccl.so"), queue, arena});
//   world->all().all_reduce(bucket.raw(), bucket.numel(), Dtype::f32, "grads").wait();
//
// `host` is a world of any other transport (shm, gloo, mpi, hierarchical). By it the ranks find each other, agree on
// each call, learn of failures and move host memory. It and the device outlive this world.
// Groups: comm/nccl/nccl_group.h. A group of one needs no NCCL. Thread rule: World's.
#pragma once

#include <memory>

#include "athanor/comm/nccl/nccl_link.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor::comm::nccl {

std::unique_ptr<World> make_nccl_world(World& host, const NcclDevice& device,
                                       const GroupOptions& options = {});

}  // namespace athanor::comm::nccl
