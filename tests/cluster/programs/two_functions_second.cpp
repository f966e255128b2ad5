#include "two_functions.hpp"

static int answer() {
  return 2;
}

int answer_of_second(pharos::Runtime& runtime) {
  return runtime.submit<&answer>().get();
}
