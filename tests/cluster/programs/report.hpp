#pragma once

// How the programs that tests run print lines and end.

#include <exception>
#include <iostream>
#include <string>
#include <typeinfo>

#include <pharos/base/demangle.hpp>

namespace pharos::cluster {

inline void say(const std::string& line) {
  std::cout << line << std::endl;
}

/// Calls `run`, prints "done" and returns 0. If `run` throws, prints "TYPE: message" and returns 1.
template <class Run>
int report(const Run& run) {
  try {
    run();
    say("done");
    return 0;
  } catch (const std::exception& e) {
    say(demangled(typeid(e).name()) + ": " + e.what());
    return 1;
  }
}

}  // namespace pharos::cluster
