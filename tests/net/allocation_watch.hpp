#pragma once

#include <cstddef>

namespace pharos::net {

/// Returns the size of the largest block that this program has asked operator new for since the last call.
std::size_t largest_allocation();

}  // namespace pharos::net
