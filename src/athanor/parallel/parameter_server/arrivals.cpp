#include "athanor/parallel/parameter_server/arrivals.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::parallel::parameter_server {

Arrivals::Arrivals(Group& group, int senders) : group_(group), senders_(static_cast<size_t>(senders)) {
  for (int sender = 0; sender < senders; ++sender)
    senders_[static_cast<size_t>(sender)].thread = std::thread([this, sender] { run(sender); });
}

Arrivals::~Arrivals() {
  bool expected = false;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    for (const Sender& sender : senders_) expected = expected || sender.waiting;
  }
  if (expected) group_.abort("a parameter server stopped listening");
  changed_.notify_all();
  for (Sender& sender : senders_) sender.thread.join();
}

void Arrivals::run(int index) {
  Sender& sender = senders_[static_cast<size_t>(index)];
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || sender.waiting; });
    if (!sender.waiting) return;
    Work work = std::move(sender.work);
    lock.unlock();
    std::exception_ptr error;
    try {
      work.wait();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    sender.waiting = false;
    arrived_.push_back(index);
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

void Arrivals::expect(int index, Work work) {
  Sender& sender = senders_[static_cast<size_t>(index)];
  check(!sender.expected, "arrivals: a message of sender {} is expected already", index);
  sender.expected = true;
  {
    const std::scoped_lock lock(mutex_);
    sender.work = std::move(work);
    sender.waiting = true;
  }
  changed_.notify_all();
}

int Arrivals::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ || !arrived_.empty(); });
  if (error_) std::rethrow_exception(error_);
  const int index = arrived_.front();
  arrived_.pop_front();
  senders_[static_cast<size_t>(index)].expected = false;
  return index;
}

void Arrivals::wait_for(int index) {
  check(expects(index), "arrivals: no message of sender {} is expected", index);
  std::unique_lock lock(mutex_);
  const auto here = [&] { return std::find(arrived_.begin(), arrived_.end(), index); };
  changed_.wait(lock, [&] { return error_ || here() != arrived_.end(); });
  if (error_) std::rethrow_exception(error_);
  arrived_.erase(here());
  senders_[static_cast<size_t>(index)].expected = false;
}

}  // namespace athanor::parallel::parameter_server
