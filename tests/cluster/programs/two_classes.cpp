// Two classes with the same name in anonymous namespaces, whose methods have different names.

#include <iostream>

#include "two_functions.hpp"

int main() {
  pharos::Runtime runtime;
  std::cout << made_by_first(runtime) << made_by_second(runtime) << '\n';
}
