#pragma once

#include <string>

namespace pharos::actors {

/// Stands before the other handlers of what a user's function throws: `catch (const Thrower&) {}` catches nothing, but
/// is asked, while the stack of whoever throws is still there, and remembers it. So exceptions cost nothing more where
/// they are thrown, and those that the user's code catches itself are never looked at. But in a coroutine, whose own
/// frame takes them all: there the stack of each is remembered as it is thrown, by the start object.
class Thrower {
 public:
  /// Where this thread threw what it is handling now: "step(int) at model.cpp:31"; empty if that is not known. The
  /// first time it reads the program's symbols. An exception that was thrown on from a handler was thrown there; one
  /// that passed from coroutine to coroutine, where it was thrown first.
  static std::string place();

  virtual ~Thrower();  // defined nowhere: there is none
};

}  // namespace pharos::actors
