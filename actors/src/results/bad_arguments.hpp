#pragma once

#include <pharos/actors/exceptions.hpp>

namespace pharos::actors {

/// Thrown, on the thread that runs the call, if the arguments of a call cannot be decoded as those of its function
/// (kInvalidArgument), or if one of them cannot be brought: it is lost, the store has no room, or the node is gone.
/// guarded() catches it. The function has then not begun; after any other exception of a call it has.
class BadArguments : public Exception {
  using Exception::Exception;
};

}  // namespace pharos::actors
