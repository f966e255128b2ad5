// The threads with which libtorch computes in a worker are the CPUs that its actor or its task has reserved.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::ml {
namespace {

/// What a call sees: the number of libtorch, that of OpenMP, and that of libtorch in a thread that the call starts.
struct Numbers {
  int of_torch = 0;
  int of_openmp = 0;
  int of_own_thread = 0;

  auto pharos_fields() { return std::tie(of_torch, of_openmp, of_own_thread); }
  bool operator==(const Numbers&) const = default;
};

/// Calls OpenMP's function of this name, which libtorch has loaded. The linker does not know it.
int of_openmp() {
  return reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "omp_get_max_threads"))();
}
Numbers numbers() {
  Numbers numbers{torch::get_num_threads(), of_openmp()};
  std::thread{[&] { numbers.of_own_thread = torch::get_num_threads(); }}.join();
  return numbers;
}
Numbers all(int number) {
  return {number, number, number};
}

class Computing {
 public:
  Numbers see() { return numbers(); }
  Numbers see_after_an_operation() {
    static_cast<void>(torch::ones({1 << 16}).mul(2).sum().item<float>());
    return numbers();
  }
  void set(int number) { torch::set_num_threads(number); }
};

class MemberThreads : public cluster::ClusterTest {};

TEST_F(MemberThreads, OfLibtorchAreTheWholeCpusOfTheActorOrTask) {
  Runtime runtime{RuntimeOptions{.cpus = 8}};
  for (const int cpus : {0, 2, 3}) {
    SCOPED_TRACE(cpus);
    const auto actor = runtime.spawn<Computing>({.cpus = static_cast<double>(cpus)});
    for (int i = 0; i < 20; ++i) {  // on both threads of its process
      EXPECT_EQ(actor.call<&Computing::see>().get(), all(std::max(cpus, 1)));
      EXPECT_EQ(actor.call<&Computing::see_after_an_operation>().get(), all(std::max(cpus, 1)));
    }
    actor.call<&Computing::set>(5).get();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(actor.call<&Computing::see_after_an_operation>().get(), all(5));
    EXPECT_EQ(runtime.submit<&numbers>({.cpus = static_cast<double>(cpus)}).get(), all(std::max(cpus, 1)));
  }
  for (int i = 0; i < 10; ++i) {
    for (const int cpus : {1, 3}) {
      EXPECT_EQ(runtime.submit<&numbers>({.cpus = static_cast<double>(cpus)}).get(), all(cpus));
    }
  }
}

}  // namespace
}  // namespace pharos::ml
