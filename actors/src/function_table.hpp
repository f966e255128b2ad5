#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/registered_function.hpp>

namespace pharos::actors {

/// Sorts what has been registered, once, before main: every process of the program has got that far with the same
/// libraries. Any thread.
void fix_function_table();

/// In the order of their names, and those of one name as they were registered: a function's index is the
/// same in every process of one executable.
std::span<const detail::Function> function_table();

/// The types of exceptions that have this index; null: it is another's.
const detail::Function* exception_types(std::uint32_t index);

/// The first of that name; wire::kNoFunction when there is none.
std::uint32_t function_index(const char* mangled);

/// For people: "Counter::add", "main::{lambda(int)#1}", "the constructor of Counter".
std::string readable_name(const char* mangled);

/// Thrown by a call whose arguments are not its function's, or are lost: unlike with all else that a call throws, it
/// has not begun.
class BadArguments : public Exception {
  using Exception::Exception;
};

}  // namespace pharos::actors
