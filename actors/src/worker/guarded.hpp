#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <optional>

#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>

#include "program/function_table.hpp"
#include "results/bad_arguments.hpp"
#include "results/thrown.hpp"
#include "worker/thrower.hpp"

namespace pharos::actors {

/// Runs one call of a user's function, on this thread, for the code that runs calls and constructors. Returns nullopt
/// if the call returns, or an error that names the function if it throws. If there are types to `retry_on`, `*again` is
/// set to whether the exception is of one of them; a BadArguments leaves it alone. If the function ends its thread
/// (pthread_exit()), the process ends with status 1.
/// (The "null" check is off because a forced unwinding has no exception object, which the sanitizer would report.)
template <class Call>
__attribute__((no_sanitize("null"))) std::optional<Error> guarded(const detail::Function& function, const Call& call,
                                                                  const detail::Function* retry_on = nullptr,
                                                                  bool* again = nullptr) {
  try {
    call();
    return std::nullopt;
  } catch (const Thrower&) {
    PHAROS_CHECK(false);
  } catch (const abi::__forced_unwind&) {
    // pthread_exit() was called, or the thread was cancelled. This unwinding cannot be stopped, and the worker cannot
    // go on without its thread.
    log(LogLevel::kError, "a function ended its thread; the worker ends",
        {kv("function", readable_name(function.name()))});
    ::_exit(1);
  } catch (const BadArguments& e) {
    return Error{e.error()}.with(readable_name(function.name()));
  } catch (...) {
    if (retry_on != nullptr) *again = retry_on->handles();
    return error_of_call(function);
  }
}

}  // namespace pharos::actors
