#pragma once

#include <c10/core/Device.h>

#include "memory.hpp"
#include "order.hpp"
#include "queues.hpp"

namespace pharos::simulated {

inline const c10::Device kFirst{kDeviceType, 0};
inline const c10::Device kSecond{kDeviceType, 1};

}  // namespace pharos::simulated
