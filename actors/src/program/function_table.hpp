#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <pharos/actors/registered_function.hpp>

namespace pharos::actors {

/// Sorts the registered functions into the table. Called before main, when each process of the program has loaded the
/// same libraries, so that the table is the same in all of them. Only the first call has an effect. Any thread.
void fix_function_table();

/// Returns the table, which is empty before fix_function_table(), and then stays as it is until the process ends. It is
/// sorted by mangled name, and functions of the same name are in the order in which they were registered: a function's
/// index is the same in every process of one executable. Any thread.
std::span<const detail::Function> function_table();

/// Returns the entry with this index if it lists types of exceptions; null otherwise, also for an index that does not
/// exist. Any thread, as the functions below.
const detail::Function* exception_types(std::uint32_t index);

/// Returns the index of the first function with that name; wire::kNoFunction if there is none.
std::uint32_t function_index(const char* mangled);

/// Returns the name as people write it: "Counter::add", "main::{lambda(int)#1}", "the constructor of Counter".
std::string readable_name(const char* mangled);

}  // namespace pharos::actors
