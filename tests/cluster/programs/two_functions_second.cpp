#include "two_functions.hpp"

static int answer() {
  return 2;
}
static int twice_the_answer(pharos::Runtime& runtime) {
  return runtime.submit<[](int factor) { return factor * answer(); }>(2).get();
}

int answer_of_second(pharos::Runtime& runtime) {
  return 10 * runtime.submit<&answer>().get() + twice_the_answer(runtime);
}
