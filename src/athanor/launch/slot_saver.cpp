#include "athanor/launch/slot_saver.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <span>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/slots.h"

namespace athanor::launch {
namespace {

constexpr int kNice = 10;

size_t size_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw IoError(fmt::format("slots: {}", std::strerror(errno)), errno);
  return static_cast<size_t>(status.st_size);
}

}  // namespace

SlotSaver::SlotSaver(Env& env) : env_(env), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.get() < 0) throw IoError(fmt::format("eventfd: {}", std::strerror(errno)), errno);
}

SlotSaver::~SlotSaver() {
  wait();
}

void SlotSaver::wait() {
  if (thread_.joinable()) thread_.join();
}

void SlotSaver::tell(control::Persisted what) {
  {
    const std::scoped_lock lock(mutex_);
    ended_.push_back(std::move(what));
  }
  eventfd_write(wake_.get(), 1);
}

std::optional<control::Persisted> SlotSaver::take() {
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  std::unique_lock lock(mutex_);
  if (ended_.empty()) return std::nullopt;
  control::Persisted first = std::move(ended_.front());
  ended_.pop_front();
  const bool is_over = std::exchange(is_over_, false);
  lock.unlock();
  if (is_over) wait();
  return first;
}

// The reason; "": it is written.
std::string SlotSaver::persist(const PersistOrder& order, const std::vector<Memory>& memories,
                               const std::function<void()>& begun) {
  std::vector<std::span<const std::byte>> slots;
  for (const Memory& memory : memories) slots.emplace_back(memory.bytes.get(), memory.size_bytes);
  try {
    persist_slots(env_, order, slots, &give_up_, begun);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void SlotSaver::start(const PersistOrder& order, const std::vector<int>& slots, bool is_repeated) {
  if (is_busy()) {
    release_slots(slots);
    return tell({.step = order.step,
                 .path = order.path,
                 .error = fmt::format("the checkpoint of step {} is still being written", step_)});
  }
  std::vector<Memory> memories;
  auto locked = std::make_shared<std::promise<void>>();
  std::future<void> is_locked = locked->get_future();
  try {
    for (const int fd : slots) {
      const size_t size_bytes = size_of(fd);
      memories.push_back({map_shared_memory(size_bytes, fd), size_bytes});
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    step_ = order.step;
    thread_ = std::thread([this, order, memories, locked, is_repeated] {
      setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)),
                  kNice);  // of the thread alone, in Linux
      bool is_told = false;
      std::string error = persist(order, memories, [&] {
        is_told = true;
        locked->set_value();
      });
      if (is_repeated && env_.exists(order.path)) error = "";  // it has its name only when it is whole
      for (const Memory& memory : memories) release_pins({memory.bytes.get(), memory.size_bytes});
      if (!is_told) locked->set_value();
      {
        const std::scoped_lock lock(mutex_);
        is_over_ = true;
      }
      tell({.step = order.step, .path = order.path, .error = error});
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  } catch (const std::exception& error) {
    return tell({.step = order.step, .path = order.path, .error = error.what()});
  }
  is_locked.wait();
}

void release_slots(const std::vector<int>& slots) {
  for (const int fd : slots) {
    const size_t size_bytes = size_of(fd);
    if (size_bytes == 0) continue;  // its rank never had any
    release_pins({map_shared_memory(size_bytes, fd).get(), size_bytes});
  }
}

}  // namespace athanor::launch
