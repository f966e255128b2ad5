#pragma once

/// \file
/// For programs on Boost.Asio. Nothing else includes this header; it takes the Boost of the program, 1.74 or later.

#include <exception>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 107700
#include <boost/asio/associated_cancellation_slot.hpp>
#endif

#include <pharos/actors/ref.hpp>

namespace pharos {
namespace detail {

/// Completes the operation of async_get() on the handler's executor: with the value, or with what get() throws.
template <class T, class Handler>
void complete_with_result(Handler& handler, const Ref<T>& ref) {
  std::exception_ptr thrown;
  if constexpr (std::is_void_v<T>) {
    try {
      ref.get();
    } catch (...) {
      thrown = std::current_exception();
    }
    std::move(handler)(thrown);
  } else {
    T value{};
    try {
      value = ref.get();
    } catch (...) {
      thrown = std::current_exception();
    }
    std::move(handler)(thrown, std::move(value));
  }
}

struct WaitForRef {
  template <class Handler, class T>
  void operator()(Handler&& handler, Ref<T> ref) const {
    auto executor = boost::asio::get_associated_executor(handler);
#if BOOST_VERSION >= 107700
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) slot.assign([ref](boost::asio::cancellation_type) { ref.cancel(); });
#endif
    const CellHandle cell = ref.cell();
    // The guard keeps the io_context running until the result has come.
    cell.when_ready([work = boost::asio::make_work_guard(executor), handler = std::forward<Handler>(handler),
                     ref = std::move(ref)]() mutable {
      auto context = work.get_executor();
      boost::asio::post(context, [work = std::move(work), handler = std::move(handler),
                                  ref = std::move(ref)]() mutable { complete_with_result(handler, ref); });
    });
  }
};

}  // namespace detail

/// Waits for a result on the program's own io_context, with any completion token of Asio:
///
///   const int count = co_await pharos::async_get(ref, boost::asio::use_awaitable);
///   pharos::async_get(ref, [](std::exception_ptr thrown, int count) { … });
///
/// The signature is void(std::exception_ptr, T), or void(std::exception_ptr) for a Ref<void>; the exception is the one
/// that get() throws. T must have a default constructor, for the value beside an exception. The handler runs on its own
/// executor, and no thread of Asio waits, except while a large value is brought from disk or from another node. With
/// Boost 1.77 or later, Asio's cancellation of the operation is Ref::cancel().
template <class T, class Token>
auto async_get(Ref<T> ref, Token&& token) {
  if constexpr (std::is_void_v<T>) {
    return boost::asio::async_initiate<Token, void(std::exception_ptr)>(detail::WaitForRef{}, token, std::move(ref));
  } else {
    static_assert(std::is_default_constructible_v<T>, "beside an exception, Asio's handlers get a T{}");
    return boost::asio::async_initiate<Token, void(std::exception_ptr, T)>(detail::WaitForRef{}, token, std::move(ref));
  }
}

}  // namespace pharos
