// The start object: linked into every program, with -Wl,--wrap=main. A process that was started in a role becomes a
// zygote or a worker after its static initialisers, and never enters main. It needs nothing but libpharos.so.

namespace pharos::detail {
bool started_in_a_role();
int run_role();
void note_start_object();
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
}
