// Two static functions of one name: whichever the table had, a call of the other would run the wrong one.

#include "two_functions.hpp"

#include <iostream>

int main() {
  try {
    pharos::Runtime runtime;
    std::cout << answer_of_first(runtime) << answer_of_second(runtime) << '\n';
  } catch (const pharos::AlreadyExists& e) {
    std::cout << "AlreadyExists: " << e.what() << '\n';
  }
}
