// Groups of devices: ranks are threads with a queue each on the emulated device, and NCCL is that of tests/cuda/emulated.
#include "athanor/comm/nccl/nccl.h"
#include "athanor/kernels/cuda/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "athanor/comm/hierarchical/hierarchical_world.h"
#include "athanor/comm/nccl/nccl_group.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/kernels/cuda/plugin.h"
#include "athanor/kernels/cuda/queue.h"
#include "comm/every_call.h"
#include "comm/on_device.h"
#include "comm/reference.h"
#include "comm/stuck_clock.h"
#include "support/places.h"
#include "support/tiers.h"

namespace athanor::tests::nccl_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const NcclCalls& emulated_nccl() {
  return load_nccl(built("athanor_cuda_emulated.so"));
}

GroupOptions quick(int64_t timeout_ms = 600'000) {
  GroupOptions options;
  options.timeout_ms = timeout_ms;
  options.slot_bytes = 8192;
  return options;
}

// A rank's device.
struct Place {
  explicit Place(World& world, const NcclCalls& nccl = emulated_nccl(), const GroupOptions& options = quick())
      : device_world(make_nccl_world(world, {nccl, queue, arena}, options)),
        face(device_world->all(), arena) {}
  Tensor filled(int64_t count, float value) {
    Tensor x = empty(arena, {count}, Dtype::f32, Category::activations);
    const std::vector<float> values(static_cast<size_t>(count), value);
    copy_from_host(x, values.data(), x.size_bytes());
    return x;
  }
  std::vector<float> values_of(const Tensor& x) {
    std::vector<float> values(static_cast<size_t>(x.numel()));
    copy_to_host(values.data(), x, x.size_bytes());
    return values;
  }
  Group& group() { return device_world->all(); }

  CudaQueue queue{load_cuda(built("athanor_cuda_emulated.so")), 0, nullptr};
  Arena arena{queue};
  std::unique_ptr<World> device_world;
  OnDevice face;
};

// What each rank's body throws, or "".
std::vector<std::string> outcomes_of_bodies(int ranks, const std::function<void(World&)>& body,
                                            const GroupOptions& options = quick()) {
  const auto worlds = make_thread_worlds(ranks, options);
  std::vector<std::string> texts(worlds.size());
  run_ranks(worlds, [&](World& world) {
    try {
      body(world);
    } catch (const PeerLost& error) {
      texts[static_cast<size_t>(world.rank())] = fmt::format("PeerLost {}: {}", error.rank(), error.what());
    } catch (const Timeout& error) {
      texts[static_cast<size_t>(world.rank())] = fmt::format("Timeout: {}", error.what());
    } catch (const Failure& error) {
      texts[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return texts;
}

TEST(Nccl, EveryCallByDevices) {
  LEAVE_OUT_UNDER(thread_sanitizer, "emulated devices that talk take minutes");
  for (const int ranks : {1, 2, 3, 5})
    run_ranks(make_thread_worlds(ranks, quick()), [](World& world) {
      Place place(world);
      EXPECT_EQ(try_every_call(place.face), "");
    });
}

TEST(Nccl, WhatLiesOnTheHostGoesByTheHost) {
  run_ranks(make_thread_worlds(3, quick()), [](World& world) {
    NcclCalls none = emulated_nccl();
    none.open = [](int, const std::byte*, int, int, NcclCalls::Communicator**) -> const char* {
      return "nobody should ask";
    };
    Place place(world, none);
    auto& group = dynamic_cast<NcclGroup&>(place.group());
    const auto half = place.device_world->make_group({0, 1, 2}, "host only");
    EXPECT_EQ(group.size(), 3);
    std::vector<float> data(7, static_cast<float>(world.rank()));
    half->all_reduce(data.data(), 7, Dtype::f32, "x").wait();
    EXPECT_EQ(data, std::vector<float>(7, 3.0f));
  });
}

TEST(Nccl, GroupsOfSomeRanksAndOfOne) {
  LEAVE_OUT_UNDER(thread_sanitizer, "emulated devices that talk take minutes");
  run_ranks(make_thread_worlds(4, quick()), [](World& world) {
    Place place(world);
    const int half = world.rank() / 2;
    const auto pair = place.device_world->make_group({2 * half, 2 * half + 1}, fmt::format("pair {}", half));
    const auto own = place.device_world->make_group({world.rank()}, fmt::format("own {}", world.rank()));
    OnDevice pair_face(*pair, place.arena), own_face(*own, place.arena);
    EXPECT_EQ(try_every_call(pair_face), "");
    EXPECT_EQ(try_every_call(own_face), "");
    EXPECT_EQ(try_every_call(place.face), "");
  });
}

TEST(Nccl, TakesTurnsWithTheQueue) {
  run_ranks(make_thread_worlds(2, quick()), [](World& world) {
    Place place(world);
    Tensor x = place.filled(1000, 1), y = place.filled(1000, 2);
    for (int i = 0; i < 5; ++i) {
      kernels_of(x).elementwise.accumulate(place.queue, x, y);  // submitted, and seen by the sum
      place.group().all_reduce(x.raw(), 1000, Dtype::f32, "x").wait();
    }
    // x -> 2 (x + 2), five times
    EXPECT_EQ(place.values_of(x), std::vector<float>(1000, 156.0f));
  });
}

// The part of this rank of a communicator in all transfers does not start; -1: all start.
std::atomic<int> held_rank = -1;
std::atomic<NcclCalls::Communicator*> held_communicator;
const NcclCalls& holding_nccl() {
  static const NcclCalls calls = [] {
    NcclCalls all = emulated_nccl();
    all.open = [](int device, const std::byte* id, int rank, int size,
                  NcclCalls::Communicator** communicator) -> const char* {
      const char* error = emulated_nccl().open(device, id, rank, size, communicator);
      if (rank == held_rank) held_communicator = *communicator;
      return error;
    };
    all.transfer = [](NcclCalls::Communicator* communicator, CudaCalls::Stream* stream,
                      const NcclMessage* messages, size_t count) -> const char* {
      while (communicator == held_communicator && held_rank >= 0) std::this_thread::yield();
      return emulated_nccl().transfer(communicator, stream, messages, count);
    };
    return all;
  }();
  return calls;
}

TEST(Nccl, AQueueWaitsInPlaceOfTheHost) {
  for (const bool message : {false, true}) {
    held_rank = message ? 0 : 1;  // rank 1 is the sender, which is rank 0 of the message's communicator
    run_ranks(make_thread_worlds(2, quick()), [&](World& world) {
      Place place(world, holding_nccl());  // a host that waits would time out
      const auto came = [&](const CudaEvent& event) {
        bool come = false;
        EXPECT_EQ(place.queue.calls().has_come(event.get(), &come), nullptr);
        return come;
      };
      Tensor x = place.filled(1000, static_cast<float>(1 + world.rank())), y = place.filled(1000, 4);
      Group& group = place.group();
      if (!message)
        group.all_reduce(x.raw(), 1000, Dtype::f32, "x").wait(place.queue);
      else if (world.rank() == 0)
        group.recv(x.raw(), 1000, Dtype::f32, 1, "x").wait(place.queue);
      else
        group.send(x.raw(), 1000, Dtype::f32, 0, "x").wait(place.queue);
      kernels_of(y).elementwise.accumulate(place.queue, y, x);
      const CudaEvent summed(place.queue);
      if (world.rank() == 0) {
        // Whoever asks an emulated stream does its work as far as that can be done.
        EXPECT_FALSE(came(summed)) << "the queue does not wait for the data";
        held_rank = -1;
      }
      EXPECT_EQ(place.values_of(y), std::vector<float>(1000, message ? 6.0f : 7.0f));
      EXPECT_EQ(try_every_call(place.face), "");
    });
  }
}

TEST(Nccl, BytesAreThoseOfTheFormulas) {
  run_ranks(make_thread_worlds(4, quick()), [](World& world) {
    Place place(world);
    Tensor x = place.filled(1024, 1);
    place.group().all_reduce(x.raw(), 1024, Dtype::f32, "x").wait();
    EXPECT_EQ(place.group().traffic().of(Collective::all_reduce),
              (OperationTraffic{1, 2 * 3 * 1024 * 4 / 4}));
  });
}

TEST(Nccl, CallsThatDifferAreNamed) {
  auto texts = outcomes_of_bodies(3, [](World& world) {
    Place place(world);
    Tensor x = place.filled(8, 1);
    place.group().all_reduce(x.raw(), world.rank() == 1 ? 7 : 8, Dtype::f32, "grads").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("all_reduce(f32[7], \"grads\") on devices"),
                            HasSubstr("all_reduce(f32[8], \"grads\") on devices")));
  texts = outcomes_of_bodies(2, [](World& world) {
    Place place(world);
    Tensor x = place.filled(8, 1);
    std::vector<float> host(8);
    place.group().all_reduce(world.rank() == 0 ? x.raw() : host.data(), 8, Dtype::f32, "grads").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("on devices"), HasSubstr("called all_reduce(f32[8], \"grads\")")));
  texts = outcomes_of_bodies(2, [](World& world) {
    Place place(world);
    Tensor x = place.filled(8, 1);
    const std::string name(150, 'n');
    place.group().broadcast(x.raw(), 8, Dtype::f32, 0, name + (world.rank() == 0 ? "a" : "b")).wait();
  });
  for (const auto& text : texts) EXPECT_THAT(text, HasSubstr("do not make the same collective"));
  texts = outcomes_of_bodies(2, [](World& world) {
    Place place(world);
    Tensor x = place.filled(8, 1);
    const std::vector<int64_t> to{4, 4}, from{4, world.rank() == 0 ? 3 : 4};
    Tensor y = place.filled(8, 0);
    place.group().all_to_all_v(x.raw(), to, y.raw(), from, Dtype::f32, "rows").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, HasSubstr("rank 1 has 4 elements for rank 0, which expects 3"));
  texts = outcomes_of_bodies(2, [](World& world) {
    Place place(world);
    Tensor x = place.filled(8, 1);
    if (world.rank() == 0)
      place.group().send(x.raw(), 8, Dtype::f32, 1, "a").wait();
    else
      place.group().recv(x.raw(), 7, Dtype::f32, 0, "a").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("f32[8] a, on devices"), HasSubstr("f32[7] a, on devices")));
}

TEST(Nccl, BuffersOfTwoPlacesAreRefused) {
  run_ranks(make_thread_worlds(2, quick()), [](World& world) {
    Place place(world);
    Tensor x = place.filled(8, 1);
    std::vector<float> host(16);
    try {
      place.group().all_gather(x.raw(), host.data(), 8, Dtype::f32, "x").wait();
      ADD_FAILURE() << "no Error";
    } catch (const Error& error) {
      EXPECT_STREQ(
          error.what(),
          "all_gather \"x\": got one buffer of the device and one of the host, expected both of one of "
          "them");
    }
    EXPECT_EQ(try_every_call(place.face), "") << "an argument that is wrong by itself breaks nothing";
  });
}

TEST(Nccl, ARankThatDiesIsNamed) {
  GroupOptions options = quick();
  options.before_call = [](int rank, uint64_t sequence) {
    return rank == 2 && sequence == 2 ? Fault::die : Fault::none;
  };
  const auto texts = outcomes_of_bodies(
      3,
      [&](World& world) {
        Place place(world);
        Tensor x = place.filled(100, 1);
        for (int i = 0; i < 3; ++i) place.group().all_reduce(x.raw(), 100, Dtype::f32, "grads").wait();
      },
      options);
  for (const auto& text : texts) EXPECT_THAT(text, HasSubstr("PeerLost 2: rank 2 (2 of the world) was lost"));
}

// Once this is set, no data arrive: all transfers lose what they send.
std::atomic<bool> sends_are_lost;
const NcclCalls& losing_nccl() {
  static const NcclCalls calls = [] {
    NcclCalls all = emulated_nccl();
    all.transfer = [](NcclCalls::Communicator* communicator, CudaCalls::Stream* stream,
                      const NcclMessage* messages, size_t count) -> const char* {
      std::vector<NcclMessage> kept(messages, messages + count);
      if (sends_are_lost) std::erase_if(kept, [](const NcclMessage& one) { return one.is_send; });
      return emulated_nccl().transfer(communicator, stream, kept.data(), kept.size());
    };
    return all;
  }();
  return calls;
}

TEST(Nccl, DataThatDoNotMoveAreReportedAndTimeOut) {
  std::atomic<int> reports = 0;
  GroupOptions options = quick(700);
  options.late_ms = 100;
  StuckClock clock(/*ranks=*/2, /*waiting=*/2, /*ms_a_look=*/50);
  options.now_ns = [&] { return clock.now_ns(); };
  options.on_late = [&](const std::string& text) {
    if (text.find("for the data to move") != std::string::npos) ++reports;
  };
  sends_are_lost = false;
  const auto texts = outcomes_of_bodies(2, [&](World& world) {
    Place place(world, losing_nccl(), options);
    Tensor x = place.filled(100, 1);
    place.group().all_reduce(x.raw(), 100, Dtype::f32, "one").wait();
    sends_are_lost = true;
    place.group().barrier("both have set it");
    clock.stuck();
    place.group().all_reduce(x.raw(), 100, Dtype::f32, "two").wait();
  });
  int timed_out = 0;
  for (const auto& text : texts) {
    timed_out += text.find("Timeout: ") == 0 ? 1 : 0;
    EXPECT_THAT(text, AllOf(HasSubstr("all_reduce(f32[100], \"two\") on devices: timed out"),
                            HasSubstr("waiting for the data to move")));
  }
  EXPECT_GE(timed_out, 1);
  EXPECT_GE(reports, 1);
}

// The group breaks before the queue goes on, so no later call takes what has not come for the data.
TEST(Nccl, WhatFailsAfterAQueueWaitsIsThrownByTheNextCall) {
  sends_are_lost = false;
  GroupOptions options = quick(700);
  StuckClock clock(/*ranks=*/2, /*waiting=*/2, /*ms_a_look=*/50);
  options.now_ns = [&] { return clock.now_ns(); };
  const auto texts = outcomes_of_bodies(2, [&](World& world) {
    Place place(world, losing_nccl(), options);
    Tensor x = place.filled(100, 1);
    sends_are_lost = true;
    place.group().barrier("both have set it");
    clock.stuck();
    place.group().all_reduce(x.raw(), 100, Dtype::f32, "lost").wait(place.queue);
    place.values_of(x);
    try {
      place.group().throw_if_broken();
      ADD_FAILURE() << "the queue went on before the group was broken";
    } catch (const Failure&) {
      place.group().barrier("next");
    }
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, HasSubstr("all_reduce(f32[100], \"lost\") on devices: timed out"));
}

TEST(Nccl, AnAbortEndsWhatIsUnderWay) {
  sends_are_lost = false;
  const auto texts = outcomes_of_bodies(3, [&](World& world) {
    Place place(world, losing_nccl());
    Tensor x = place.filled(100, 1);
    sends_are_lost = true;
    place.group().barrier("all have set it");
    Work work = place.group().all_reduce(x.raw(), 100, Dtype::f32, "x");
    if (world.rank() == 2) place.group().abort("disk full");
    work.wait();
  });
  for (const auto& text : texts) EXPECT_THAT(text, HasSubstr("disk full"));
}

TEST(Nccl, WhatTheLibrarySaysReachesAllRanks) {
  static std::atomic<int> opened;
  opened = 0;
  NcclCalls broken = emulated_nccl();
  broken.open = [](int device, const std::byte* id, int rank, int size,
                   NcclCalls::Communicator** out) -> const char* {
    if (rank == 1) return "unhandled system error";
    ++opened;
    return emulated_nccl().open(device, id, rank, size, out);
  };
  const auto texts = outcomes_of_bodies(3, [&](World& world) {
    Place place(world, broken);
    Tensor x = place.filled(100, 1);
    place.group().all_reduce(x.raw(), 100, Dtype::f32, "x").wait();
  });
  for (const auto& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("all_reduce(f32[100], \"x\") on devices"),
                            HasSubstr("nccl: a communicator: unhandled system error")));
  EXPECT_EQ(opened, 2);
}

TEST(Nccl, OverHostsOfTwoLevels) {
  std::vector<std::vector<std::unique_ptr<World>>> hosts;
  for (int h = 0; h < 2; ++h) hosts.push_back(make_thread_worlds(2, quick()));
  auto everybody = make_thread_worlds(4, quick());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      const auto world = make_hierarchical_world(std::move(hosts[r / 2][r % 2]), std::move(everybody[r]));
      Place place(*world);
      // On devices sums are those of one level.
      EXPECT_EQ(try_every_call(place.face), "");
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace athanor::tests::nccl_test
