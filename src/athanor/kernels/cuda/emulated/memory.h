// The memory of the emulated device: the host cannot read or write it but through copies and kernels, as it could not
// that of a real one; it gets a segmentation fault.
#pragma once

#include <cstddef>
#include <cstdint>

namespace athanor::emulated {

constexpr uint64_t kDeviceBytes = uint64_t{2} << 30;  // that the emulated device has

void* allocate(uint64_t size_bytes);  // null: there is no more
void release(void* data);
uint64_t free_bytes();
bool is_of_device(const void* data);

// While one lives, what runs may use the device's memory. Any thread.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace athanor::emulated
