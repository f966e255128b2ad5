// A short training. Any test framework will do.

#include <iostream>

#include <pharos/pharos.hpp>

#include "spirals.hpp"

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  pharos::ml::Trainer trainer{runtime, {.scaling = {.workers = 2}, .progress = false}};
  const auto result = pharos::ml::fit<Spirals>(trainer, {.batch = 64, .epochs = 3});
  const double accuracy = *result.last("validation_accuracy");
  if (accuracy < 0.5) {
    std::cerr << "failed: the network is right in " << accuracy << " of all cases; guessing gives 0.33\n";
    return 1;
  }
}
