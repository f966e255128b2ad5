#include "two_functions.hpp"

namespace {
class Local {
 public:
  int second() const { return made_by_; }

 private:
  int before_ = 7;
  int made_by_ = 2;

 public:
  int before() const { return before_; }
};
}  // namespace

int made_by_second(pharos::Runtime& runtime) {
  return runtime.spawn<Local>().call<&Local::second>().get();
}
