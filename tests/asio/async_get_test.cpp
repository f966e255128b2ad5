#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio.hpp>
#include <boost/version.hpp>

#include <pharos/asio/async_get.hpp>
#include <pharos/pharos.hpp>

namespace pharos {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

int add(int a, int b) {
  return a + b;
}
int add_after(int ms, int a, int b) {
  std::this_thread::sleep_for(std::chrono::milliseconds{ms});
  return a + b;
}
void nothing() {}
int fail() {
  throw std::runtime_error{"no number today"};
}
std::vector<double> many() {
  return std::vector<double>(1'000'000, 0.5);
}
int until_cancelled() {
  while (!cancelled()) std::this_thread::sleep_for(1ms);
  return 1;
}

// What programs run on their io_context. A coroutine takes its arguments by value, or refers to what outlives it.

asio::awaitable<int> sum_of_three(Runtime& runtime) {
  int sum = co_await async_get(runtime.submit<&add>(1, 2), asio::use_awaitable);
  sum += co_await async_get(runtime.submit<&add_after>(20, 3, 4), asio::use_awaitable);
  co_await async_get(runtime.submit<&nothing>(), asio::use_awaitable);
  co_return sum;
}
asio::awaitable<std::vector<double>> much(Runtime& runtime) {
  co_return co_await async_get(runtime.submit<&many>(), asio::use_awaitable);
}
asio::awaitable<std::string> failure(Runtime& runtime) {
  try {
    co_await async_get(runtime.submit<&fail>(), asio::use_awaitable);
  } catch (const UserError& thrown) {
    co_return thrown.what();
  }
  co_return "";
}

class AsyncGet : public ::testing::Test {
 protected:
  /// Runs this coroutine on the io_context, until all of its work is done, and returns what it returns.
  template <class T>
  T result_of(asio::awaitable<T> coroutine) {
    T result{};
    std::exception_ptr thrown;
    asio::co_spawn(context_, std::move(coroutine), [&](std::exception_ptr what, T value) {
      thrown = what;
      result = std::move(value);
    });
    context_.run();
    if (thrown) std::rethrow_exception(thrown);
    return result;
  }

  Runtime runtime_{{.cpus = 2}};
  asio::io_context context_;
};

TEST_F(AsyncGet, IsOfTheVersionOfBoostThatTheTestIsFor) {
  EXPECT_STREQ(BOOST_LIB_VERSION, PHAROS_BOOST);
}

TEST_F(AsyncGet, ACoroutineOfAsioGetsResults) {
  EXPECT_EQ(result_of(sum_of_three(runtime_)), 10);
}

TEST_F(AsyncGet, ALargeResultComesWhole) {
  const std::vector<double> all = result_of(much(runtime_));
  EXPECT_EQ(all.size(), 1'000'000U);
  EXPECT_EQ(all.back(), 0.5);
}

TEST_F(AsyncGet, ErrorsAreTheExceptionsOfGet) {
  const std::string told = result_of(failure(runtime_));
  EXPECT_NE(told.find("no number today"), std::string::npos) << told;
}

// Without async_get the io_context would have nothing to do, and would return before the result is there.
TEST_F(AsyncGet, AHandlerIsCalledOnTheContextWhichRunsUntilThen) {
  int sum = 0;
  const auto thread = std::this_thread::get_id();
  async_get(runtime_.submit<&add_after>(100, 1, 2),
            asio::bind_executor(context_, [&](std::exception_ptr thrown, int value) {
              EXPECT_EQ(thrown, nullptr);
              EXPECT_EQ(std::this_thread::get_id(), thread);
              sum = value;
            }));
  EXPECT_EQ(sum, 0);
  context_.run();
  EXPECT_EQ(sum, 3);
}

TEST_F(AsyncGet, AFutureOfAsioWorksToo) {
  auto future = async_get(runtime_.submit<&add>(1, 2), asio::use_future);
  EXPECT_EQ(future.get(), 3);
  auto failed = async_get(runtime_.submit<&fail>(), asio::use_future);
  EXPECT_THROW(failed.get(), UserError);
}

TEST_F(AsyncGet, ManyWaitAtOnceBesideATimerOfAsio) {
  constexpr int kMany = 1000;
  int sum = 0;
  int ticks = 0;
  int left = kMany;
  asio::steady_timer timer{context_};
  const auto tick = [&](const auto& self) -> void {
    timer.expires_after(1ms);
    timer.async_wait([&](const boost::system::error_code& error) {
      // A timer whose handler is on its way cannot be cancelled any more.
      if (error || left == 0) return;
      ++ticks;
      self(self);
    });
  };
  tick(tick);
  for (int i = 0; i < kMany; ++i) {
    async_get(runtime_.submit<&add_after>(i % 100 == 0 ? 5 : 0, i, 0),
              asio::bind_executor(context_, [&](std::exception_ptr, int value) {
                sum += value;
                if (--left == 0) timer.cancel();
              }));
  }
  context_.run();
  EXPECT_EQ(sum, kMany * (kMany - 1) / 2);
  EXPECT_GT(ticks, 0);
}

TEST_F(AsyncGet, TheEndOfTheRuntimeEndsTheWait) {
  std::exception_ptr end;
  {
    Runtime runtime{{.cpus = 1}};
    async_get(runtime.submit<&until_cancelled>(),
              asio::bind_executor(context_, [&](std::exception_ptr thrown, int) { end = thrown; }));
  }
  context_.run();
  ASSERT_NE(end, nullptr);
  EXPECT_THROW(std::rethrow_exception(end), RuntimeStopped);
}

#if BOOST_VERSION >= 107700
TEST_F(AsyncGet, CancellationOfAsioCancelsTheCall) {
  asio::cancellation_signal signal;
  std::exception_ptr end;
  const Ref<int> ref = runtime_.submit<&until_cancelled>();
  async_get(ref,
            asio::bind_cancellation_slot(
                signal.slot(), asio::bind_executor(context_, [&](std::exception_ptr thrown, int) { end = thrown; })));
  asio::steady_timer timer{context_, 50ms};
  timer.async_wait([&](const boost::system::error_code&) { signal.emit(asio::cancellation_type::all); });
  context_.run();
  // The task sees that it is cancelled and returns, which is its result.
  EXPECT_EQ(ref.get(), 1);
  EXPECT_EQ(end, nullptr);
}
#endif

}  // namespace
}  // namespace pharos
