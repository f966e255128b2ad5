#include <iostream>

#include <pharos/pharos.hpp>

#include "spirals.hpp"

int main(int argc, char** argv) {
  // Starts a cluster of this machine alone, which ends with the program. With --pharos-address=HOST:PORT the program
  // joins the cluster there instead.
  pharos::Runtime runtime{argc, argv};

  // Two processes, each with a copy of the network and half of each batch. If one of them dies, another one takes its
  // place, and no step is lost. With .gpus_per_worker = 1 each of them trains on a GPU.
  pharos::ml::Trainer trainer{runtime, {.scaling = {.workers = 2}}};
  const auto result = pharos::ml::fit<Spirals>(trainer, {.batch = 64, .epochs = 20});
  std::cout << result.to_text_picture() << "accuracy: " << *result.last("validation_accuracy") << '\n';
}
