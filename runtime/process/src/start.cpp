// The start object: linked into every program, with -Wl,--wrap=main. A process that was started in a role becomes a
// zygote or a worker after its static initialisers, and never enters main. It needs nothing but libpharos.so.

#include <dlfcn.h>
#include <unwind.h>

namespace pharos::detail {
bool started_in_a_role();
int run_role();
void note_start_object();
void note_throw(const _Unwind_Exception* thrown);
}  // namespace pharos::detail

namespace {
const bool noted = (pharos::detail::note_start_object(), true);
}  // namespace

extern "C" {
int __real_main(int argc, char** argv, char** environment);
__attribute__((visibility("default"))) int __wrap_main(int argc, char** argv, char** environment);

int __wrap_main(int argc, char** argv, char** environment) {
  if (noted && pharos::detail::started_in_a_role()) return pharos::detail::run_role();
  return __real_main(argc, argv, environment);
}

// A coroutine's frame takes all exceptions itself, so nobody behind it can ask where they were thrown: every throw of
// the program and its libraries comes by here. Weak: a program that is linked with the unwinder itself does without.
__attribute__((weak, visibility("default"))) _Unwind_Reason_Code _Unwind_RaiseException(_Unwind_Exception* thrown) {
  static const auto raise =
      reinterpret_cast<decltype(&_Unwind_RaiseException)>(::dlsym(RTLD_NEXT, "_Unwind_RaiseException"));
  pharos::detail::note_throw(thrown);
  return raise(thrown);
}
}
