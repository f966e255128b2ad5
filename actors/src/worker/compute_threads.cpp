#include "worker/compute_threads.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <pharos/scheduler/resources.hpp>

namespace pharos::actors {
namespace {

/// Looks a function up among the libraries that the program is linked with. This library is linked with neither OpenMP
/// nor libtorch, because most programs have no use for them.
template <class Function>
Function function_of_program(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

std::optional<ComputeThreads> ComputeThreads::of_process() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return std::nullopt;  // NOLINT(concurrency-mt-unsafe): at its start
  // at::set_num_threads(int) also sets the number of OpenMP, and that of MKL. at::get_num_threads() brings the number
  // of the process to a thread in which libtorch has not computed yet; otherwise its first operation there would do
  // that, after this has set another one.
  for (const auto& [set, get] : {std::pair{"_ZN2at15set_num_threadsEi", "_ZN2at15get_num_threadsEv"},
                                 std::pair{"omp_set_num_threads", "omp_get_max_threads"}}) {
    const ComputeThreads found{function_of_program<Set>(set), function_of_program<Get>(get)};
    if (found.set_ != nullptr && found.get_ != nullptr) return found;
  }
  return std::nullopt;
}

int ComputeThreads::number_for(const wire::WorkerResources& held) {
  const auto found = held.amounts.find("cpu");
  const std::int64_t cpus = found == held.amounts.end() ? 0 : found->second / scheduler::Resources::kWhole;
  return static_cast<int>(std::max<std::int64_t>(cpus, 1));
}

void ComputeThreads::begin_of_actor(int number) {
  match(actors_.value_or(number));
}

void ComputeThreads::end_of_actor() {
  actors_ = get_();
}

void ComputeThreads::begin_of_task(int number) {
  match(number);
}

/// Threads that the call starts begin with the newest number of the process, so that one has to be right, too.
void ComputeThreads::match(int number) {
  if (newest_ == number && get_() == number) return;
  set_(number);
  newest_ = number;
}

}  // namespace pharos::actors
