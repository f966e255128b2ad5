#pragma once

#include <new>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/result.hpp>

namespace pharos::ml {

inline Error no_memory_left() {
  return {ErrorCode::kExhausted, "there is no memory left for a checkpoint"};
}

/// Runs `work` and returns its error, or the exception that it throws as an error (see
/// pharos::detail::current_exception()). `no_memory` is returned for std::bad_alloc. It must be made beforehand, while
/// there is memory; the default is made by the call, which then may throw std::bad_alloc itself. Any thread.
template <class Work>
Result<void> caught(const Work& work, Error no_memory = no_memory_left()) {
  try {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      return pharos::detail::current_exception();
    }
  } catch (const std::bad_alloc&) {
    return Result<void>{std::move(no_memory)};
  }
}

}  // namespace pharos::ml
