#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <pharos/actors/registered_function.hpp>
#include <pharos/base/error.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos::actors {

/// The arguments of a call of wire::kFindMethod: a method as its caller, a program of another build, names it.
struct SoughtMethod {
  std::string name;
  std::string declaration;  ///< see detail::Declaration
};

/// Answers a call of wire::kFindMethod: encodes the index of the method that an actor with this constructor offers.
/// Returns kFunctionNotFound, with the methods that there are, if there is no such method; and kInvalidArgument if the
/// payload is no SoughtMethod, or has more than 64 KiB. No code of the user runs. IncomingCalls calls this, on the
/// strand.
std::optional<Error> search_method(const detail::Function& constructor, std::uint8_t flags,
                                   std::span<const std::byte> payload, Encoder& index);

/// Returns the name of a method without its class and its parameters: "add" for "Counter::add" and for
/// "Counter::add(int) const". `readable` is a name that readable_name() returns. Any thread.
std::string name_of_method(const std::string& readable);

}  // namespace pharos::actors
