#pragma once

#include <new>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/result.hpp>

namespace pharos::ml {

/// What work has thrown where nobody catches, as an error.
template <class Work>
Result<void> caught(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kExhausted, "there is no memory left for a checkpoint"};
  } catch (...) {
    return pharos::detail::current_exception();
  }
}

}  // namespace pharos::ml
