#include "counting.hpp"

#include <pharos/pharos.hpp>

int Counter::add(int n) {
  return count_ += n;
}
