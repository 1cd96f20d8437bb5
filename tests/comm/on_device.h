// A group whose calls go by the memory of a device: what tests give it in the host's memory is copied there, and what
// comes of it back when it is waited for.
//
//   OnDevice face(*group, arena);
//   EXPECT_EQ(try_every_call(face), "");
//
// Thread rule: calls and waits by the one thread that uses the queue.
#pragma once

#include <utility>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/tensor/tensor.h"

namespace athanor::tests {

class OnDevice final : public Group {
 public:
  OnDevice(Group& real, Arena& arena) : real_(real), arena_(arena) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }

  Work start(Call call, Buffers buffers, Start how) override {
    const BufferElements elements = elements_of(call, buffers, rank(), size());
    const bool in_place = buffers.in == buffers.out;
    std::vector<Buffer> copies;
    copies.push_back(in_place ? put(buffers.out, elements.out, call.dtype)
                              : room(buffers.out, elements.out, call.dtype));
    for (TreeNode& node : buffers.nodes) {
      Buffer copy = take(node.data, call.count, call.dtype);
      if (node.data == buffers.out) copies.front() = {copy.tensor, buffers.out};
      node.data = static_cast<float*>(copy.device());
      copies.push_back(std::move(copy));
    }
    if (!in_place) copies.push_back(take(buffers.in, elements.in, call.dtype));
    buffers.in = in_place ? copies.front().device() : copies.back().device();
    buffers.out = copies.front().device();
    return Work(
        std::make_shared<Later>(real_.start(std::move(call), std::move(buffers), how), std::move(copies)));
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  struct Buffer {
    Tensor tensor;         // undefined: of nothing
    void* host = nullptr;  // where it goes when the call is done
    void* device() const { return tensor.defined() ? tensor.raw() : nullptr; }
  };
  Buffer room(void* host, int64_t count, Dtype dtype) {
    if (host == nullptr || count == 0) return {};
    return {empty(arena_, {count}, dtype, Category::communication), host};
  }
  Buffer take(const void* host, int64_t count, Dtype dtype) {
    if (host == nullptr || count == 0) return {};
    Tensor copy = empty(arena_, {count}, dtype, Category::communication);
    copy_from_host(copy, host, copy.size_bytes());
    return {copy, nullptr};
  }
  Buffer put(void* host, int64_t count, Dtype dtype) {
    Buffer copy = take(host, count, dtype);
    copy.host = host;
    return copy;
  }

  struct Later final : Work::Impl {
    Later(Work real, std::vector<Buffer> all) : work(std::move(real)), buffers(std::move(all)) {}
    void wait() override {
      work.wait();
      for (const Buffer& one : buffers)
        if (one.host != nullptr && one.tensor.defined())
          copy_to_host(one.host, one.tensor, one.tensor.size_bytes());
    }
    bool done() const override { return work.done(); }
    Work work;
    std::vector<Buffer> buffers;
  };
  Group& real_;
  Arena& arena_;
};

}  // namespace athanor::tests
