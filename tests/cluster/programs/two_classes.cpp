// Two classes of one name in anonymous namespaces, with methods of different names.

#include <iostream>

#include "two_functions.hpp"

int main() {
  try {
    pharos::Runtime runtime;
    std::cout << made_by_first(runtime) << made_by_second(runtime) << '\n';
  } catch (const pharos::AlreadyExists& e) {
    std::cout << "AlreadyExists: " << e.what() << '\n';
  }
}
