// The pharos executable: the daemon's processes, and what people type.

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include <pharos/base/fd.hpp>
#include <pharos/base/random.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/keeper.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>

#include "listing.hpp"
#include "memory.hpp"
#include "question.hpp"

namespace {

using pharos::Result;

constexpr int kDriverSocket = 3;  // as the library's start_daemon() passes it

struct Arguments {
  std::string base_folder;
  pharos::node::DaemonOptions daemon;
};

int run_keeper(const Arguments& arguments) {
  return pharos::process::run_keeper(arguments.base_folder, [&](pharos::process::Kept kept) {
    return pharos::node::run_daemon(std::move(kept), pharos::Fd{kDriverSocket}, arguments.daemon);
  });
}

/// The token in the file. A head makes the file if there is none: with a state folder in there, else in its run folder
/// alone. A node has to be given one.
Result<pharos::net::Key> token_of(pharos::node::DaemonOptions& options) {
  if (options.token_file.empty() && !options.state.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(options.state, failed);
    if (failed) {
      return pharos::Error{pharos::ErrorCode::kPermissionDenied, "making " + options.state + ": " + failed.message()};
    }
    options.token_file = options.state + "/token";
  }
  const bool there = !options.token_file.empty() && std::filesystem::exists(options.token_file);
  if (!options.head.empty() || there) return pharos::process::read_token(options.token_file);
  pharos::net::Key token;
  pharos::fill_random(token);
  if (!options.token_file.empty()) PHAROS_TRY_VOID(pharos::process::write_token(options.token_file, token));
  return token;
}

Result<int> keep_daemon(Arguments& arguments) {
  if (!arguments.base_folder.empty()) ::setenv("PHAROS_FOLDER", arguments.base_folder.c_str(), 1);
  PHAROS_TRY(const std::string base, pharos::process::ensure_base_folder());
  PHAROS_TRY(const pharos::net::Key token, token_of(arguments.daemon));
  return pharos::process::run_keeper(base, [&](pharos::process::Kept kept) {
    return pharos::node::run_daemon(std::move(kept), token, arguments.daemon);
  });
}

int status_of(const Result<void>& done) {
  if (done) return 0;
  std::cerr << "pharos: " << done.error().to_string() << '\n';
  return 1;
}

int run_in_foreground(Arguments& arguments) {
  const auto status = keep_daemon(arguments);
  return status ? *status : status_of(status.error());
}

void add_place_options(CLI::App& command, pharos::console::Place& place) {
  command
      .add_option("--address", place.address,
                  "A node of it (default: PHAROS_ADDRESS, or the only one of yours on this machine)")
      ->type_name("HOST:PORT|unix:PATH");
  command.add_option("--token-file", place.token_file, "A copy of the cluster's token, to ask by HOST:PORT")
      ->type_name("FILE")
      ->envname("PHAROS_TOKEN_FILE");
}

void add_store_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--object-store", arguments.daemon.object_store,
                  "Memory for large values (default: half of what there is)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue{false});
  command
      .add_option("--spill-folder", arguments.daemon.spill_folder,
                  "Where large values go that have no room in memory, on a disk; \"none\": nowhere")
      ->type_name("FOLDER")
      ->envname("PHAROS_SPILL_FOLDER")
      ->capture_default_str();
}

/// The variables also say it where a program starts a daemon of its own.
void add_resource_options(CLI::App& command, Arguments& arguments) {
  command.add_option("--cpus", arguments.daemon.cpus,
                     "CPUs that it gives (default: what --resources says, or all that there are)");
  command.add_option("--resources", arguments.daemon.resources, "What else it gives: gpu=2,fast_disk=1")
      ->type_name("NAME=AMOUNT,…")
      ->envname("PHAROS_RESOURCES");
  command.add_option("--labels", arguments.daemon.labels, "What is true of it: zone=a,disk=ssd")
      ->type_name("NAME=VALUE,…")
      ->envname("PHAROS_LABELS");
}

void add_daemon_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--folder", arguments.base_folder,
                  "Where its run folder is made (default: PHAROS_FOLDER, TMPDIR or /tmp)")
      ->type_name("FOLDER");
  add_resource_options(command, arguments);
  add_store_options(command, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Pharos, a distributed actor runtime for machine learning."};
  app.require_subcommand(1);
  app.set_version_flag("--version", PHAROS_VERSION);

  Arguments kept;
  CLI::App* const keeper =
      app.add_subcommand("keeper", "Keeps a program's own daemon; started by programs, not by people");
  keeper->group("");
  keeper->add_option("--base-folder", kept.base_folder)->required();
  keeper->add_option("--listen", kept.daemon.listen);
  keeper->add_option("--head", kept.daemon.head);
  add_resource_options(*keeper, kept);
  add_store_options(*keeper, kept);

  Arguments of_head;
  CLI::App* const head = app.add_subcommand("head", "Runs a cluster's head, and a node beside it, until Ctrl-C");
  head->add_option("--listen", of_head.daemon.listen,
                   "Where nodes and programs join; another machine cannot reach 127.0.0.1")
      ->type_name("HOST:PORT")
      ->default_val("127.0.0.1:7400");
  head->add_option("--token-file", of_head.daemon.token_file, "The cluster's token; made if it is not there")
      ->type_name("FILE");
  head->add_option("--state", of_head.daemon.state,
                   "Where it keeps what must outlive it, on a disk; a head that starts there again goes on")
      ->type_name("FOLDER");
  add_daemon_options(*head, of_head);
  head->footer(
      "Examples:\n"
      "  pharos head\n"
      "  pharos head --listen 10.0.0.1:7400 --state /var/lib/pharos\n"
      "  pharos head --cpus 8 --resources gpu=2,fast_disk=1 --labels zone=a");

  Arguments of_node;
  CLI::App* const node = app.add_subcommand("node", "Runs a node of a cluster, until Ctrl-C or the head's end");
  node->add_option("--address", of_node.daemon.head, "The head's address")->type_name("HOST:PORT")->required();
  node->add_option("--token-file", of_node.daemon.token_file, "A copy of the cluster's token, chmod 600")
      ->type_name("FILE")
      ->envname("PHAROS_TOKEN_FILE")
      ->required();
  node->add_option("--listen", of_node.daemon.listen,
                   "Where other nodes reach it (default: a free port at the address that it reaches the head from)")
      ->type_name("HOST:PORT");
  add_daemon_options(*node, of_node);
  node->footer(
      "Examples:\n"
      "  pharos node --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "  pharos node --address 10.0.0.1:7400 --token-file ~/cluster.token --resources gpu=4 --listen 10.0.0.2:7401\n"
      "Programs run on a node from the same path as where they were started.");

  pharos::console::Place place;
  pharos::console::ListOptions listed;
  CLI::App* const status = app.add_subcommand("status", "Shows nodes, what of them is in use, and who waits for what");
  add_place_options(*status, place);
  status->footer(
      "Examples:\n"
      "  pharos status\n"
      "  pharos status --address 10.0.0.1:7400 --token-file ~/cluster.token");
  CLI::App* const list = app.add_subcommand("list", "Lists nodes, actors, placement groups or jobs");
  list->add_option("table", listed.table, "What to list")
      ->required()
      ->check(CLI::IsMember({"nodes", "actors", "groups", "jobs"}));
  list->add_option("--filter", listed.filters, "Only rows where that is so; may be given several times")
      ->type_name("COLUMN=VALUE");
  list->add_option("--limit", listed.limit, "At most so many rows of those")->capture_default_str();
  list->add_option("--format", listed.format, "How to print them")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  add_place_options(*list, place);
  list->footer(
      "Examples:\n"
      "  pharos list nodes\n"
      "  pharos list actors --filter state=alive --filter 'name!=monitor' --limit 20\n"
      "  pharos list actors --format json | jq '.[].node'");

  CLI::App* const memory =
      app.add_subcommand("memory", "Shows what lies in a node's object store, and who keeps it there");
  add_place_options(*memory, place);
  memory->footer(
      "Examples:\n"
      "  pharos memory\n"
      "  watch -n 1 pharos memory");

  app.footer("Exit codes: 0 done, 1 it failed, 2 the arguments make no sense.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (*keeper) return run_keeper(kept);
  if (*status) return status_of(pharos::console::print_status(place));
  if (*list) return status_of(pharos::console::print_list(place, listed));
  if (*memory) return status_of(pharos::console::print_memory(place));
  return run_in_foreground(*head ? of_head : of_node);
}
