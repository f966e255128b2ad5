#pragma once

#include <optional>
#include <utility>

#include <pharos/async/async.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/block_on.hpp>
#include <pharos/async/manual_executor.hpp>
#include <pharos/base/check.hpp>

namespace pharos::async {

/// A coroutine that a test has started, and its result once it has ended. The coroutine runs while the test drives the
/// executor. The destructor cancels a coroutine that has not ended.
template <class T>
class Started {
 public:
  Started(ManualExecutor& executor, Async<T> work) : executor_{executor}, group_{executor} {
    group_.spawn(detail::keep(std::move(work), &value_));
    executor_.run_until_idle();
  }
  ~Started() {
    group_.cancel();
    executor_.run_until_idle();
  }

  bool ended() const { return value_.has_value(); }
  T& value() {
    PHAROS_CHECK(ended());
    return *value_;
  }
  void cancel() {
    group_.cancel();
    executor_.run_until_idle();
  }

 private:
  ManualExecutor& executor_;
  std::optional<T> value_;
  AsyncGroup group_;
};

}  // namespace pharos::async
