// The memory of the emulated device. As with a real device only copies and kernels can access it; any other access by
// the host is a segmentation fault.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::kernels::emulated {

constexpr uint64_t kDeviceBytes = uint64_t{2} << 30;  // memory of the emulated device

void* allocate(uint64_t size_bytes);  // null: the device is full
void release(void* data);
uint64_t free_bytes();
bool is_of_device(const void* data);

// While a DeviceAccess lives, the process may access the device's memory. Thread rule: any thread.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace athanor::kernels::emulated
