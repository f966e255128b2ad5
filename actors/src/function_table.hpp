#pragma once

#include <cstdint>
#include <span>

#include <pharos/actors/function.hpp>
#include <pharos/base/result.hpp>

namespace pharos::actors {

/// Sorts what has been registered, once, before main: every process of the program has got that far with the same
/// libraries. Later calls only repeat the outcome. Any thread.
/// kAlreadyExists when two functions have one name.
Result<void> fix_function_table();

/// In the order of their names: a function's index is the same in every process of one executable.
std::span<const detail::Function> function_table();

/// wire::kNoFunction when there is none of that name.
std::uint32_t function_index(const char* mangled);

/// "int add(int, int)" where the name can be read.
std::string readable_name(const char* mangled);

}  // namespace pharos::actors
