// The pharos executable: the processes of the daemon, and the commands that people type.

#include "commands.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Pharos, a distributed actor runtime for machine learning."};
  app.require_subcommand(1);
  app.set_version_flag("--version", PHAROS_VERSION);
  app.footer("Exit codes: 0 done, 1 it failed, 2 the arguments make no sense.");

  pharos::console::Commands commands{app};
  pharos::console::add_keeper(commands);
  pharos::console::add_start(commands);
  pharos::console::add_stop(commands);
  pharos::console::add_drain(commands);
  pharos::console::add_token(commands);
  pharos::console::add_run(commands);
  pharos::console::add_job(commands);
  pharos::console::add_new(commands);
  pharos::console::add_setup_torch(commands);
  pharos::console::add_status(commands);
  pharos::console::add_list(commands);
  pharos::console::add_summary(commands);
  pharos::console::add_memory(commands);
  pharos::console::add_logs(commands);
  pharos::console::add_stack(commands);
  pharos::console::add_tune(commands);
  pharos::console::add_doctor(commands);
  pharos::console::add_completion(commands);
  pharos::console::add_reference(commands);
  return commands.run(argc, argv);
}
