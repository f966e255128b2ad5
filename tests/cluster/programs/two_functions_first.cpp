#include "two_functions.hpp"

static int answer() {
  return 1;
}

int answer_of_first(pharos::Runtime& runtime) {
  return runtime.submit<&answer>().get();
}
