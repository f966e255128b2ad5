// The pharos executable: the processes of the daemon, and the commands that people type.

#include <charconv>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <pharos/base/fd.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/keeper.hpp>

#include "listing.hpp"
#include "logs.hpp"
#include "memory.hpp"
#include "question.hpp"
#include "run.hpp"
#include "stack.hpp"
#include "start.hpp"
#include "tune.hpp"

namespace {

using pharos::Result;

constexpr int kDriverSocket = 3;  // the descriptor on which the library's start_daemon() passes the driver's socket

struct Arguments {
  std::string base_folder;
  pharos::node::DaemonOptions daemon;
};

int run_keeper(const Arguments& arguments) {
  return pharos::process::run_keeper(arguments.base_folder, [&](pharos::process::Kept kept) {
    return pharos::node::run_daemon(std::move(kept), pharos::Fd{kDriverSocket}, arguments.daemon);
  });
}

int status_of(const Result<void>& done) {
  if (done) return 0;
  std::cerr << "pharos: " << done.error().to_string() << '\n';
  return pharos::node::exit_status_of(done.error());
}

int status_of(const Result<int>& status) {
  return status ? *status : status_of(Result<void>{status.error()});
}

/// All nodes are connected before any is told to end: when the node with the head ends, the others end too, perhaps
/// before they could answer.
Result<void> stop(const pharos::console::Place& place) {
  PHAROS_TRY(const auto addresses, pharos::console::addresses_of(place, pharos::console::Here::kStarted));
  std::vector<pharos::console::Asked> nodes;
  std::optional<pharos::Error> why;
  for (const std::string& address : addresses) {
    auto asked = pharos::console::Asked::connect({.address = address, .token_file = place.token_file});
    if (asked) {
      nodes.push_back(*std::move(asked));
    } else {
      why = asked.error();
    }
  }
  std::size_t ended = 0;
  for (auto& node : nodes) {
    const auto rows = pharos::console::rows_of(node.ask(pharos::wire::EndNode{}));
    if (!rows || rows->rows.empty() || rows->rows.front().size() != 2) {
      if (!rows) why = rows.error();
      continue;
    }
    ++ended;
    const bool has_head = rows->rows.front()[1] == "yes";
    std::cout << "node " << rows->rows.front()[0] << " ends"
              << (has_head ? ", and with it the cluster: it has the head" : "") << std::endl;
  }
  if (ended == 0 && why) return *why;
  return {};
}

struct DrainOptions {
  std::string node;
  std::uint32_t limit = 0;  // in seconds; 0: no limit
};

Result<void> drain(const pharos::console::Place& place, const DrainOptions& options) {
  std::uint64_t node = 0;
  const char* const end = options.node.data() + options.node.size();
  if (const auto read = std::from_chars(options.node.data(), end, node, 16);
      read.ec != std::errc{} || read.ptr != end) {
    return pharos::Error{pharos::ErrorCode::kInvalidArgument, "\"" + options.node + "\" is no node's ID",
                         "\"pharos list nodes\" shows them."};
  }
  PHAROS_TRY([[maybe_unused]] const auto done,
             pharos::console::ask(place, pharos::wire::DrainNode{pharos::NodeId{node}, options.limit * 1000}));
  std::cout << "it drains, and ends when nothing runs there any more; \"pharos list nodes\" shows whether it has"
            << std::endl;
  return {};
}

Result<void> print_token(const std::string& address) {
  PHAROS_TRY(const std::string file, pharos::console::token_of_cluster_here(address));
  std::cout << file << std::endl;
  return {};
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

CLI::Validator not_negative() {
  return {[](std::string& text) { return std::string{text.starts_with('-') ? "it must not be negative" : ""}; }, ""};
}

void add_store_options(CLI::App& command, pharos::node::DaemonOptions& daemon) {
  command.add_option("--object-store", daemon.object_store, "Memory for large values (default: half of what there is)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue{false})
      ->transform(not_negative());  // runs before the transformation above it
  command
      .add_option("--spill-folder", daemon.spill_folder,
                  "Folder on a disk for large values that do not fit in memory; \"none\": they stay in memory")
      ->type_name("FOLDER")
      ->envname("PHAROS_SPILL_FOLDER")
      ->capture_default_str();
}

/// The environment variables also apply when a program starts its own daemon.
void add_resource_options(CLI::App& command, pharos::node::DaemonOptions& daemon) {
  command
      .add_option("--cpus", daemon.cpus, "CPUs that it gives (default: what --resources says, or all that there are)")
      ->check(CLI::Range(1, 1'000'000).description(""));
  command
      .add_option("--resources", daemon.resources,
                  "What it gives: gpu=2,memory=8GiB,fast_disk=1. CPUs, GPUs and memory that are not named are found")
      ->type_name("NAME=AMOUNT,…")
      ->envname("PHAROS_RESOURCES");
  command
      .add_option("--labels", daemon.labels,
                  "Labels of the node: zone=a,disk=ssd. The label gpu_type is found automatically")
      ->type_name("NAME=VALUE,…")
      ->envname("PHAROS_LABELS");
  command
      .add_option("--memory-threshold", daemon.memory_threshold,
                  "When more than this part of memory is in use, workers are killed; 1: never")
      ->type_name("PART")
      ->check([](const std::string& text) {  // CLI::Range accepts "nan"
        double part = 0;
        const bool is_part = CLI::detail::lexical_cast(text, part) && part >= 0.01 && part <= 1;
        return std::string{is_part ? "" : "it is between 0.01 and 1"};
      })
      ->envname("PHAROS_MEMORY_THRESHOLD")
      ->capture_default_str();
}

void add_daemon_options(CLI::App& command, std::string& base_folder, pharos::node::DaemonOptions& daemon) {
  command.add_option("--folder", base_folder, "Where its run folder is made (default: PHAROS_FOLDER, TMPDIR or /tmp)")
      ->type_name("FOLDER");
  add_resource_options(command, daemon);
  add_store_options(command, daemon);
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
  add_resource_options(*keeper, kept.daemon);
  add_store_options(*keeper, kept.daemon);

  pharos::console::StartOptions started;
  CLI::App* const start = app.add_subcommand("start", "Starts a cluster's head, which is a node too, or another node");
  start->add_flag("--head", started.head, "The head");
  start->add_option("--address", started.daemon.head, "A node, of this head")->type_name("HOST:PORT");
  start->add_flag("--block", started.block, "Runs here, until Ctrl-C; else in the background");
  start->add_option("--port", started.port, "Where a head listens at 127.0.0.1 (default: 7400; 0: a free one)")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535).description(""));
  start
      ->add_option("--listen", started.daemon.listen,
                   "Where others reach it; no other machine reaches 127.0.0.1 (default of a node: a free port at the "
                   "address that it reaches the head from)")
      ->type_name("HOST:PORT");
  start
      ->add_option("--state", started.daemon.state,
                   "Where a head keeps what must outlive it, on a disk; one that starts there again goes on")
      ->type_name("FOLDER");
  start
      ->add_option("--token-file", started.daemon.token_file,
                   "The cluster's token, or a copy of it, chmod 600. A head makes it if it is not there; a node on the "
                   "same machine finds it")
      ->type_name("FILE")
      ->envname("PHAROS_TOKEN_FILE");
  start
      ->add_option(
          "--grace", started.daemon.grace,
          "After SIGTERM, a node drains for at most this many seconds, as with \"pharos drain\". A second SIGTERM "
          "ends it at once, as the first does without this option")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 86'400).description(""));
  add_daemon_options(*start, started.base_folder, started.daemon);
  start->footer(
      "Examples:\n"
      "  pharos start --head\n"
      "  pharos start --head --listen 10.0.0.1:7400 --state /var/lib/pharos\n"
      "  pharos start --head --cpus 8 --resources gpu=2,memory=64GiB,fast_disk=1 --labels zone=a --block\n"
      "  pharos start --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "  pharos start --address 10.0.0.1:7400 --grace 25 --block    # under Slurm, Kubernetes, on spot machines\n"
      "A program runs on a node from the path where it was started, if the same build is there; else the node is sent\n"
      "its executable. Its shared libraries have to be there.");
  CLI::App* const stop_it = app.add_subcommand(
      "stop",
      "Ends a node with all that it runs, the head's with the cluster; without --address, what this machine "
      "has of the cluster");
  DrainOptions drained;
  CLI::App* const drain_it = app.add_subcommand("drain",
                                                "Drains a node: nothing new is placed there, actors that may be "
                                                "restarted move, and other actors and tasks finish");
  drain_it->add_option("node", drained.node, "Its ID")->required();
  drain_it->add_option("--limit", drained.limit, "Kills what still runs there after this many seconds (default: never)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 4'000'000));
  CLI::App* const token = app.add_subcommand("token", "Says where the token of the cluster on this machine lies");
  pharos::console::Place place;
  token->add_option("--address", place.address, "One of its nodes on this machine, where several clusters run")
      ->type_name("unix:PATH");
  token->footer("Examples:\n  scp \"$(pharos token)\" 10.0.0.2:cluster.token");

  add_place_options(*stop_it, place);
  stop_it->footer(
      "Examples:\n"
      "  pharos stop\n"
      "  pharos stop --address 10.0.0.1:7400 --token-file ~/cluster.token");
  add_place_options(*drain_it, place);
  drain_it->footer(
      "Large values that lie there alone are lost with it, or made again if their tasks may run again.\n"
      "Examples:\n"
      "  pharos drain 7c5e5ebdca88fe48\n"
      "  pharos drain 7c5e5ebdca88fe48 --limit 600");
  pharos::console::RunOptions run;
  CLI::App* const run_it = app.add_subcommand("run", "Runs a program on a cluster: pharos run -- ./app ARGUMENTS");
  add_place_options(*run_it, run.place);
  run_it->add_option("--folder", run.folder, "Where it starts, and its workers do where there is such a folder")
      ->type_name("FOLDER");
  run_it->add_option("--env", run.environment, "A variable of it and of its workers; may be given several times")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  run_it->add_option("program", run.command, "The program and its arguments, behind --")
      ->type_name("-- PROGRAM ARGUMENTS")
      ->required();
  run_it->footer(
      "The program runs here, and its tasks and actors on all nodes; those that lack its executable are sent it.\n"
      "Signals, terminal and exit code are the program's own. Exit codes otherwise: 125 it could not be prepared,\n"
      "126 it cannot be run, 127 there is no such program; 2 the arguments make no sense.\n"
      "Examples:\n"
      "  pharos run -- ./train --epochs 3\n"
      "  pharos run --address 10.0.0.1:7400 --token-file ~/cluster.token -- ./app\n"
      "  pharos run --folder /data --env OMP_NUM_THREADS=4 -- /opt/app/bin/app");
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
  list->add_option("--filter", listed.filters, "Only rows that match; may be given several times")
      ->type_name("COLUMN=VALUE");
  list->add_option("--limit", listed.limit, "At most this many rows")
      ->check(CLI::PositiveNumber.description(""))
      ->capture_default_str();
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

  pharos::console::LogsOptions logged;
  CLI::App* const logs = app.add_subcommand(
      "logs", "Prints what a worker or a node has written, also when it has ended; or what logs there are");
  logs->add_option("id", logged.id,
                   "An actor's id or name, a worker's or a node's id, or \"head\" (default: a list of the logs)");
  CLI::Option* const tail = logs->add_option("--tail", logged.tail, "Only the last lines, at most this many")
                                ->type_name("LINES")
                                ->check(not_negative());
  CLI::Option* const follow = logs->add_flag("--follow,-f", logged.follow, "Goes on until it has ended");
  logs->add_option("--format", logged.format, "How to print the list")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  add_place_options(*logs, place);
  logs->footer(
      "A worker's standard output and standard error, in the order in which its node read them. Its node keeps the "
      "newest\n"
      "16 MiB of each, and removes them when the node ends.\n"
      "Examples:\n"
      "  pharos logs\n"
      "  pharos logs trainer --tail 20 --follow\n"
      "  pharos logs 1f0c5a7d93b2e846\n"
      "  pharos logs head --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "Exit codes: 0 done, 1 there is no such log or its node does not answer, 2 the arguments make no sense.");

  pharos::console::StackOptions stacked;
  CLI::App* const stack = app.add_subcommand(
      "stack", "Shows what workers run, where their threads are, and what get()s wait for, of workers and programs");
  stack->add_option(
      "id", stacked.id,
      "An actor's id or name, a worker's, a program's (job's) or a node's id (default: the whole cluster)");
  stack->add_option("--format", stacked.format, "How to print them")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  add_place_options(*stack, place);
  stack->footer(
      "Workers go on: a signal handler writes down where each thread is, and system calls that can be taken up again "
      "are.\n"
      "For a process that does not answer within two seconds, its state in the kernel is shown.\n"
      "Examples:\n"
      "  pharos stack trainer\n"
      "  pharos stack 1f0c5a7d93b2e846 --format json | jq -r '.[].stacks'\n"
      "  pharos stack --address 10.0.0.1:7400 --token-file ~/cluster.token\n"
      "Exit codes: 0 done, 1 there is no such process or the node does not answer, 2 the arguments make no sense.");

  pharos::console::TuneOptions tuned;
  CLI::App* const tune =
      app.add_subcommand("tune", "Shows what has come of a sweep over parameters, or goes on with it");
  tune->require_subcommand(1);
  const auto add_tune = [&](const char* name, const char* what) {
    CLI::App* const command = tune->add_subcommand(name, what);
    command->add_option("DIR", tuned.folder, "The sweep's folder (TunerOptions::folder)")->required();
    return command;
  };
  CLI::App* const tune_show = add_tune("show", "How far it is, its best trials, and a picture of all");
  tune_show->add_option("--rows", tuned.rows, "Trials in the table")->capture_default_str();
  CLI::App* const tune_best = add_tune("best", "The best trial and its parameters");
  tune_best->add_option("--format", tuned.format, "How to print it; json: the parameters alone")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  CLI::App* const tune_export = add_tune("export", "All trials: as CSV, as lines of JSON, or as a picture");
  tune_export->add_option("--format", tuned.export_as, "Of the file")
      ->check(CLI::IsMember({"csv", "jsonl", "svg"}))
      ->capture_default_str();
  tune_export->add_option("--output,-o", tuned.output, "The file (default: the standard output)");
  CLI::App* const tune_resume = add_tune("resume", "Goes on with it, by the command that began it");
  CLI::App* const tune_import = tune->add_subcommand("import", "Makes a study of Optuna's a sweep's folder");
  tune_import->add_option("FILE", tuned.from, "Its database (SQLite) or its journal (JournalFileBackend)")->required();
  tune_import->add_option("DIR", tuned.folder, "The sweep's folder, which is made")->required();
  tune_import->add_option("--study", tuned.study, "Which of several");
  tune->footer(
      "A sweep can be looked at while it runs.\n"
      "Examples:\n"
      "  pharos tune show sweeps/first --rows 5\n"
      "  pharos tune best sweeps/first --format json\n"
      "  pharos tune export sweeps/first --format svg --output first.svg\n"
      "  pharos tune resume sweeps/first\n"
      "  pharos tune import optuna.db sweeps/mlp --study mlp\n"
      "Exit codes: 0 done, 1 there is no sweep or its journal cannot be read, 2 the arguments make no sense; resume: "
      "the\n"
      "program's own.");

  app.footer("Exit codes: 0 done, 1 it failed, 2 the arguments make no sense.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const bool names_command = argc > 1 && argv[1][0] != '-';
    if (names_command && app.get_subcommands().empty()) {
      std::cerr << "pharos: there is no command \"" << argv[1] << "\"; pharos --help lists them\n";
      return 2;
    }
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (*keeper) return run_keeper(kept);
  if (*status) return status_of(pharos::console::print_status(place));
  if (*list) return status_of(pharos::console::print_list(place, listed));
  if (*logs) {
    if (logged.id.empty() && (*tail || *follow)) {
      std::cerr << "pharos: --tail and --follow need the id of a log. pharos logs shows which there are.\n";
      return 2;
    }
    return status_of(pharos::console::print_logs(place, logged));
  }
  if (*stack) return status_of(pharos::console::print_stacks(place, stacked));
  if (*memory) return status_of(pharos::console::print_memory(place));
  if (*tune_show) return status_of(pharos::console::show_sweep(tuned));
  if (*tune_best) return status_of(pharos::console::print_best_trial(tuned));
  if (*tune_export) return status_of(pharos::console::export_sweep(tuned));
  if (*tune_import) return status_of(pharos::console::import_study(tuned));
  if (*tune_resume) return status_of(pharos::console::resume_sweep(tuned));
  if (*run_it) return pharos::console::run(std::move(run));
  if (*stop_it) return status_of(stop(place));
  if (*drain_it) return status_of(drain(place, drained));
  if (*token) return status_of(print_token(place.address));
  return status_of(pharos::console::start(std::move(started)));
}
