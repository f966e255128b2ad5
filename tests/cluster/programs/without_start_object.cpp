// A program that is linked with libpharos.so, but without the start object.

#include <iostream>

#include <pharos/pharos.hpp>

int main() {
  try {
    const pharos::Runtime runtime;
  } catch (const pharos::FailedPrecondition& e) {
    std::cout << "FailedPrecondition: " << e.what() << '\n';
  }
}
