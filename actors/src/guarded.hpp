#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <optional>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>

#include "function_table.hpp"
#include "thrower.hpp"
#include "thrown.hpp"

namespace pharos::actors {

/// Runs one call; what it throws is an error that names the function. `again`, if there is `retry_on`, becomes whether
/// it is of these types. (A forced unwinding has no exception object, which the sanitizer takes for a mistake.)
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
    // pthread_exit() or a cancelled thread: the unwinding cannot be stopped, and without its thread the worker is none.
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
