#pragma once

#include <string>

namespace pharos::actors {

/// Finds out where a user's function threw an exception. `catch (const Thrower&) {}` stands in front of the other
/// handlers. It catches nothing, but the C++ library asks its type whether it would, while the stack of the throwing
/// function still exists; the type then records the stack. So a throw costs nothing extra, and exceptions that the
/// user's code catches itself are never recorded.
/// A coroutine is different, because its own frame catches all exceptions. There the start object records the stack of
/// each exception when it is thrown. The records belong to each thread, and end with it.
class Thrower {
 public:
  /// Returns where this thread threw the exception that it is handling: "step(int) at model.cpp:31"; empty if that is
  /// not known. The first call reads the program's symbols, which may take a second. If a handler threw the exception
  /// on, that is the place. If the exception passed from coroutine to coroutine, the place is that of the first throw.
  static std::string place();

  virtual ~Thrower();  // not defined, because no object of this class exists
};

}  // namespace pharos::actors
