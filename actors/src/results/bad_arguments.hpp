#pragma once

#include <pharos/actors/exceptions.hpp>

namespace pharos::actors {

/// Thrown if the arguments of a call cannot be decoded as those of its function, or if one of them is lost. The
/// function has then not begun; after any other exception of a call it has.
class BadArguments : public Exception {
  using Exception::Exception;
};

}  // namespace pharos::actors
