// Two static functions of one name, with a lambda each.

#include "two_functions.hpp"

#include <iostream>

int main() {
  pharos::Runtime runtime;
  std::cout << answer_of_first(runtime) << ' ' << answer_of_second(runtime) << '\n';
}
