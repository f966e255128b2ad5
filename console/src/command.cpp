#include "command.hpp"

#include <iostream>

#include <pharos/node/daemon.hpp>

namespace pharos::console {
namespace {

/// The name of a positional argument says what it is; CLI11 would put TEXT behind it.
void leave_out_text(CLI::App& command) {
  for (CLI::Option* const each : command.get_options()) {
    if (each->get_positional() && each->get_type_name() == "TEXT") each->type_name("");
  }
  for (CLI::App* const each : command.get_subcommands({})) leave_out_text(*each);
}

}  // namespace

CLI::App& Commands::add_family(const std::string& name, const std::string& what) {
  CLI::App& family = *app_.add_subcommand(name, what);
  family.require_subcommand(1);
  return family;
}

CLI::App& Commands::add_below(CLI::App& family, const std::string& name, const std::string& what,
                              std::function<int()> act) {
  CLI::App* const command = family.add_subcommand(name, what);
  acts_.emplace_back(command, std::move(act));
  return *command;
}

void Commands::act_alone(CLI::App& family, std::function<int()> act) {
  family.require_subcommand(0, 1);
  acts_.emplace_back(&family, std::move(act));
}

int Commands::run(int argc, char** argv) {
  leave_out_text(app_);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const bool names_command = argc > 1 && argv[1][0] != '-';
    if (names_command && app_.get_subcommands().empty()) {
      std::cerr << "pharos: there is no command \"" << argv[1] << "\"; pharos --help lists them\n";
      return 2;
    }
    return app_.exit(e) == 0 ? 0 : 2;
  }
  for (const auto& [command, act] : acts_) {
    if (*command) return act();
  }
  return 2;  // not reached: the application requires a command
}

int status_of(const Result<void>& done) {
  if (done) return 0;
  std::cerr << "pharos: " << done.error().to_string() << '\n';
  return node::exit_status_of(done.error());
}

int status_of(const Result<int>& status) {
  return status ? *status : status_of(Result<void>{status.error()});
}

void add_place_options(CLI::App& command, Place& place) {
  command
      .add_option("--address", place.address,
                  "A node of the cluster (default: PHAROS_ADDRESS, or your only cluster on this machine)")
      ->type_name("HOST:PORT|unix:PATH");
  command.add_option("--token-file", place.token_file, "A copy of the cluster's token, needed for HOST:PORT")
      ->type_name("FILE")
      ->envname("PHAROS_TOKEN_FILE");
}

void add_format_option(CLI::App& command, std::string& format) {
  one_of(command.add_option("--format", format, "How to print it"), {format, "json"})->capture_default_str();
}

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  return option->type_name(CLI::detail::join(words, "|"))->check(CLI::IsMember{words}.description(""));
}

CLI::Validator not_negative() {
  return {[](std::string& text) { return std::string{text.starts_with('-') ? "it must not be negative" : ""}; }, ""};
}

}  // namespace pharos::console
