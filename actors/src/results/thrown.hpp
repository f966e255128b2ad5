#pragma once

#include <pharos/actors/registered_function.hpp>
#include <pharos/base/error.hpp>

namespace pharos::actors {

/// Called in a catch block. Returns the exception that is being handled as the error of a call of this function. The
/// error carries the exception itself if the function declares its type (pharos::throws), unless the exception cannot
/// be encoded or has more than 16 KiB: the remedy then says so. A pharos::Exception keeps its code, and its outcome
/// becomes kFailed. guarded() calls this, on the thread of the call.
Error error_of_call(const detail::Function& function);

/// Returns the error of a call of an actor of another build. If the error carries an exception, the exception is left
/// out, because its type may have other fields in this program; so is the advice to declare that type. Any thread.
Error without_exception(Error error);

}  // namespace pharos::actors
