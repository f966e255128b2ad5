#include "two_functions.hpp"

namespace {
class Local {
 public:
  int first() const { return made_by_; }

 private:
  int made_by_ = 1;
};
}  // namespace

int made_by_first(pharos::Runtime& runtime) {
  return runtime.spawn<Local>().call<&Local::first>().get();
}
