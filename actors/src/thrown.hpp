#pragma once

#include <pharos/actors/registered_function.hpp>
#include <pharos/base/error.hpp>

namespace pharos::actors {

/// In a catch block: what is being handled, as the error of a call of this function. Carries the exception itself if
/// the function declares it.
Error error_of_call(const detail::Function& function);

/// Throws the exception. Returns if no function of this program declares its type, or its bytes are none.
void rethrow(const Error::Thrown& thrown);

}  // namespace pharos::actors
