#pragma once

// How programs that tests run speak and end.

#include <exception>
#include <iostream>
#include <string>
#include <typeinfo>

#include <pharos/base/demangle.hpp>

namespace pharos::cluster {

inline void say(const std::string& line) {
  std::cout << line << std::endl;
}

/// Runs that, says "done" and gives 0; or says what it threw, as "TYPE: message", and gives 1.
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
