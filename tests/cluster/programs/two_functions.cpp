// Two static functions with the same name, and in each translation unit a lambda that calls its own one.

#include "two_functions.hpp"

#include <iostream>

int main() {
  pharos::Runtime runtime;
  std::cout << answer_of_first(runtime) << ' ' << answer_of_second(runtime) << '\n';
}
