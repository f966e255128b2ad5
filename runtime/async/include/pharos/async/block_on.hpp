#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

namespace detail {
/// Stores the result of `work` in `*kept`, which must outlive this coroutine.
template <class T>
Async<void> keep(Async<T> work, std::optional<T>* kept) {
  kept->emplace(co_await std::move(work));
}
}  // namespace detail

/// Runs `work` on the executor and blocks the calling thread until `work` has ended. The calling thread must not be the
/// executor's, because `work` could then never run. For `main`, tests, and a user's get(). Returns the result of
/// `work`, or throws its exception. Sets no deadline: only the deadlines inside `work` limit the time.
template <class T>
T block_on(Executor& executor, Async<T> work) {
  std::exception_ptr thrown;
  AsyncGroup group{executor, [&thrown](std::exception_ptr exception) { thrown = std::move(exception); }};
  const auto run = [&](Async<void> all) {
    group.spawn(std::move(all));
    const auto joined = group.join_blocking(Deadline::never());
    PHAROS_CHECK(joined.ok());
    if (thrown) std::rethrow_exception(std::move(thrown));
  };
  if constexpr (std::is_void_v<T>) {
    run(std::move(work));
  } else {
    std::optional<T> kept;
    run(detail::keep(std::move(work), &kept));
    return std::move(*kept);
  }
}

}  // namespace pharos::async
