// The start object, which is linked into every program with -Wl,--wrap=main. A process that was started as a zygote or
// worker takes that role after its static initialisers and never enters main. This file needs only libpharos.so.

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

// Every throw of the program and its libraries passes through this function, which notes where exceptions are thrown.
// The frame of a coroutine catches all exceptions itself, so that its callers can no longer find the place of a throw.
// The symbol is weak: a program that links the unwinder statically works without this function.
__attribute__((weak, visibility("default"))) _Unwind_Reason_Code _Unwind_RaiseException(_Unwind_Exception* thrown) {
  static const auto raise =
      reinterpret_cast<decltype(&_Unwind_RaiseException)>(::dlsym(RTLD_NEXT, "_Unwind_RaiseException"));
  pharos::detail::note_throw(thrown);
  return raise(thrown);
}
}
