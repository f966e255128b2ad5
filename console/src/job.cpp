#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/base/random.hpp>

#include "commands.hpp"
#include "job_runner.hpp"
#include "logs.hpp"
#include "rows.hpp"
#include "with_options.hpp"

namespace pharos::console {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartTime = 5s;          // after this time `submit` says that the job waits
constexpr auto kLookPause = 50ms;        // between two looks at a job for whose end a command waits
constexpr auto kOutputTime = 2s;         // for the last output of a job that has ended
constexpr std::size_t kEndedMax = 1000;  // entries of ended jobs that are kept

struct SubmitOptions {
  Place place;
  std::string name;  // empty: one is made up
  double cpus = 0;
  double gpus = 0;
  std::string node;
  std::vector<std::string> environment;
  WithOptions with;
  std::vector<std::string> command;
  bool waits = false;
};
struct JobOptions {
  Place place;
  std::string name;
  bool waits = false;
  std::string format = "table";
};

std::unique_ptr<Runtime> join(const Place& place, std::vector<std::string> with = {}) {
  auto address = address_of(place);
  if (!address) throw_error(std::move(address).error());
  return std::make_unique<Runtime>(
      RuntimeOptions{.address = *address, .token_file = place.token_file, .with = std::move(with)});
}

/// Does what a command says, whose errors are exceptions.
template <class Act>
Result<int> guarded(const Act& act) {
  try {
    return act();
  } catch (const Exception& error) {
    return error.error();
  }
}

Error no_such_job(const std::string& name) {
  return {ErrorCode::kNotFound, "there is no job \"" + name + "\"", "pharos job list shows which jobs there are."};
}

/// The entry of a job. An entry whose actor is gone without a word is made one that has ended.
std::optional<JobEntry> look_at(Runtime& runtime, const std::string& name) {
  auto entry = runtime.kv(kJobs).get<JobEntry>(name);
  if (!entry || entry->state == JobEntry::State::kEnded) return entry;
  try {
    static_cast<void>(runtime.actor<JobRunner>(name, kJobs));
    return entry;
  } catch (const NotFound&) {
  }
  entry = runtime.kv(kJobs).get<JobEntry>(name);  // the job may have ended in between
  if (!entry || entry->state == JobEntry::State::kEnded) return entry;
  entry->state = JobEntry::State::kEnded;
  entry->status = 1;
  entry->why = "it was lost with its node or its runner";
  return entry;
}

JobEntry entry_of(Runtime& runtime, const std::string& name) {
  auto entry = look_at(runtime, name);
  if (!entry) throw_error(no_such_job(name));
  return *std::move(entry);
}

/// Waits for the job's end, and returns its exit code.
int wait_for_end(Runtime& runtime, const std::string& name) {
  for (;;) {
    const JobEntry entry = entry_of(runtime, name);
    if (entry.state == JobEntry::State::kEnded) {
      if (!entry.why.empty()) std::cerr << "pharos: " << name << ": " << entry.why << '\n';
      return entry.status;
    }
    std::this_thread::sleep_for(kLookPause);
  }
}

/// Removes the oldest entries of ended jobs, so that they do not become more and more.
void forget_oldest(KeyValues& entries) {
  const auto names = entries.keys();
  if (names.size() <= kEndedMax) return;
  std::vector<std::pair<std::int64_t, std::string>> ended;
  for (const std::string& name : names) {
    const auto entry = entries.get<JobEntry>(name);
    if (entry && entry->state == JobEntry::State::kEnded) ended.emplace_back(entry->ended, name);
  }
  std::sort(ended.begin(), ended.end());
  for (std::size_t i = 0; i + kEndedMax < ended.size(); ++i) entries.erase(ended[i].second);
}

std::string new_name() {
  char text[16];
  std::snprintf(text, sizeof text, "job-%08x", static_cast<unsigned>(random_u64()));
  return text;
}

ActorOptions options_of(const SubmitOptions& options) {
  ActorOptions actor{.name = options.name,
                     .name_space = kJobs,
                     .get_if_exists = true,  // so that the head knows the actor when spawn() has returned
                     .cpus = options.cpus,
                     .gpus = options.gpus,
                     .detached = true};
  if (!options.node.empty()) {
    actor.node = node_of(options.node);
    if (!actor.node) {
      throw_error(Error{ErrorCode::kInvalidArgument, "\"" + options.node + "\" is no id of a node",
                        "pharos list nodes shows the ids."});
    }
  }
  return actor;
}

/// Waits until the program was started, or the job has waited for a while. Returns the exit code of one that could not
/// be started.
std::optional<int> report_start(Runtime& runtime, const std::string& name, const Ref<void>& started) {
  if (const auto result = started.try_get(Deadline::in(kStartTime)); !result) {
    if (result.error().code() != ErrorCode::kDeadlineExceeded) {
      // A program that ends at once ends its actor, perhaps before this call was answered.
      const auto entry = look_at(runtime, name);
      if (!entry || entry->started == 0) throw_error(result.error());
    }
  }
  const JobEntry entry = entry_of(runtime, name);
  if (entry.state == JobEntry::State::kWaits) {
    std::cout << name << " waits for resources: pharos list pending\n" << std::flush;
    return std::nullopt;
  }
  if (entry.state == JobEntry::State::kEnded && !entry.why.empty() && entry.ended == entry.started) {
    std::cerr << "pharos: " << name << ": " << entry.why << '\n';
    return entry.status;
  }
  std::cout << name << " runs on node " << to_string(entry.node) << '\n' << std::flush;
  return std::nullopt;
}

/// Says when the last output of a job has come. Shared with the listener, which may still run when the command ends.
struct OutputEnd {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_here = false;
};

Result<int> submit(SubmitOptions options) {
  for (const std::string& variable : options.environment) {
    if (variable.find('=') == std::string::npos || variable.front() == '=') {
      return Error{ErrorCode::kInvalidArgument, "\"" + variable + "\" is not of the form NAME=VALUE",
                   "Write --env NAME=VALUE."};
    }
  }
  return guarded([&]() -> int {
    const JobFiles files = files_of_job(options.command, options.with);
    const auto runtime = join(options.place, files.with);
    KeyValues entries = runtime->kv(kJobs);
    if (options.name.empty()) options.name = new_name();
    const ActorOptions actor_options = options_of(options);
    const JobEntry entry{.command = options.command, .submitted = system_ms()};
    if (!entries.compare_and_set<JobEntry>(options.name, std::nullopt, entry)) {
      throw_error(Error{ErrorCode::kAlreadyExists, "there is a job \"" + options.name + "\" already",
                        "Give this one another name."});
    }
    const auto end = std::make_shared<OutputEnd>();
    const auto listener =
        std::make_shared<const OutputListener>([end, name = options.name](const WorkerOutput& output) {
          if (!output.is_last || output.worker != name) return;
          const std::lock_guard lock{end->mutex};
          end->is_here = true;
          end->changed.notify_all();
        });
    runtime->listen_to_output(listener);
    std::vector<std::string> environment = options.with.environment();
    environment.insert(environment.end(), options.environment.begin(), options.environment.end());
    std::optional<int> failed;
    try {
      const auto runner =
          runtime->spawn<JobRunner>(actor_options, JobDescription{options.name, files.command, environment});
      failed = report_start(*runtime, options.name, runner.call<&JobRunner::wait_until_started>());
    } catch (const Exception&) {
      entries.erase(options.name);
      throw;
    }
    if (failed) return *failed;
    forget_oldest(entries);
    if (!options.waits) return 0;
    const int status = wait_for_end(*runtime, options.name);
    std::unique_lock lock{end->mutex};
    end->changed.wait_for(lock, kOutputTime, [&] { return end->is_here; });
    return status;
  });
}

// ---- What is known of jobs

std::string time_text(std::int64_t milliseconds) {
  if (milliseconds == 0) return "";
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string words(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& each : command) text += (text.empty() ? "" : " ") + each;
  return text;
}

wire::Rows rows_of_jobs(const std::vector<std::pair<std::string, JobEntry>>& jobs) {
  wire::Rows rows{{"name", "state", "exit_code", "node", "submitted", "seconds", "command", "why"}, {}, 0, 0};
  for (const auto& [name, entry] : jobs) {
    const bool ended = entry.state == JobEntry::State::kEnded;
    const bool ran = entry.started != 0;
    const std::int64_t until = ended ? entry.ended : system_ms();
    rows.rows.push_back({name, ended ? "ended" : (ran ? "runs" : "waits"), ended ? std::to_string(entry.status) : "",
                         entry.node ? to_string(entry.node) : "", time_text(entry.submitted),
                         ran && until >= entry.started ? std::to_string((until - entry.started) / 1000) : "",
                         words(entry.command), entry.why});
  }
  return rows;
}

void print(const wire::Rows& rows, const std::string& format) {
  if (format == "json") return print_json(rows);
  print_table(rows);
}

Result<int> list(const JobOptions& options) {
  return guarded([&]() -> int {
    const auto runtime = join(options.place);
    std::vector<std::pair<std::string, JobEntry>> jobs;
    for (const std::string& name : runtime->kv(kJobs).keys()) {
      if (auto entry = look_at(*runtime, name)) jobs.emplace_back(name, *std::move(entry));
    }
    std::sort(jobs.begin(), jobs.end(),
              [](const auto& a, const auto& b) { return a.second.submitted < b.second.submitted; });
    if (jobs.empty() && options.format != "json") {
      std::cout << "no jobs\n";
    } else {
      print(rows_of_jobs(jobs), options.format);
    }
    return 0;
  });
}

Result<int> show_status(const JobOptions& options) {
  return guarded([&]() -> int {
    const auto runtime = join(options.place);
    const int status = options.waits ? wait_for_end(*runtime, options.name) : 0;
    print(rows_of_jobs({{options.name, entry_of(*runtime, options.name)}}), options.format);
    return status;
  });
}

Result<void> show_logs(LogsOptions options) {
  const auto known = guarded([&]() -> int {
    const auto runtime = join(options.place);
    const JobEntry entry = entry_of(*runtime, options.id);
    if (entry.started == 0) throw_error(Error{ErrorCode::kNotFound, "the job \"" + options.id + "\" has not started"});
    return 0;
  });
  if (!known) return known.error();
  return print_logs(options);
}

void add_submit(Commands& commands, CLI::App& family) {
  const auto options = std::make_shared<SubmitOptions>();
  CLI::App& command =
      commands.add_below(family, "submit", "Runs a program on a node of the cluster, which goes on without this shell",
                         [options] { return status_of(submit(*options)); });
  add_place_options(command, options->place);
  command.add_option("--name", options->name, "The job's name (default: one is made up)")->type_name("NAME");
  command.add_option("--cpus", options->cpus, "CPUs that the program itself holds as long as it runs")
      ->type_name("CPUS");
  command.add_option("--gpus", options->gpus, "GPUs, or a share of one, that the program itself holds")
      ->type_name("GPUS");
  command.add_option("--node", options->node, "The node on which the program runs (default: any)")->type_name("ID");
  command
      .add_option("--env", options->environment,
                  "A variable for the program and its workers; may be given several times")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  add_with_options(command, options->with);
  command.add_flag("--wait", options->waits, "Shows the output, waits for the end, and ends with the job's exit code");
  command.add_option("program", options->command, "The program and its arguments, behind --")
      ->type_name("-- PROGRAM ARGUMENTS")
      ->required();
  command.footer(
      "The program is started on a node, in the folder and with the variables of this shell, and finds the cluster by\n"
      "PHAROS_ADDRESS. A program in this folder goes to the node, with its libraries and what --with names; there "
      "they\n"
      "are in a folder of the job's own, which ends with it. The program's tasks and actors run on all nodes. It is a\n"
      "part of the cluster: it ends with its node.\n"
      "Examples:\n"
      "  pharos job submit -- ./train --epochs 3\n"
      "  pharos job submit --name nightly --gpus 1 --env OMP_NUM_THREADS=4 -- ./train\n"
      "  pharos job submit --with config --with vocabulary.txt -- build/train\n"
      "  pharos job submit --wait -- ./test_model && echo good\n"
      "Exit codes: 0 started, 1 the cluster refused it, 126 the program cannot be run, 127 there is no such program,\n"
      "2 the arguments make no sense; with --wait the job's own, which is 128 and the signal's number after a signal.");
}

}  // namespace

void add_job(Commands& commands) {
  CLI::App& family = commands.add_family("job", "Programs that run on the cluster without a shell");
  add_submit(commands, family);
  {
    const auto options = std::make_shared<JobOptions>();
    CLI::App& command = commands.add_below(family, "list", "Shows the jobs, the oldest first",
                                           [options] { return status_of(list(*options)); });
    add_format_option(command, options->format);
    add_place_options(command, options->place);
    command.footer(
        "The newest 1000 jobs that have ended are kept.\nExamples:\n  pharos job list\n  pharos job list --format "
        "json");
  }
  {
    const auto options = std::make_shared<JobOptions>();
    CLI::App& command = commands.add_below(family, "status", "Shows whether a job runs, and how it has ended",
                                           [options] { return status_of(show_status(*options)); });
    command.add_option("name", options->name, "The job's name")->required();
    command.add_flag("--wait", options->waits, "Waits for the end, and ends with the job's exit code");
    add_format_option(command, options->format);
    add_place_options(command, options->place);
    command.footer("Examples:\n  pharos job status nightly\n  pharos job status nightly --wait --format json");
  }
  const auto options = std::make_shared<LogsOptions>();
  CLI::App& command = commands.add_below(family, "logs", "Prints what a job has written",
                                         [options] { return status_of(show_logs(*options)); });
  command.add_option("name", options->id, "The job's name")->required();
  command.add_option("--tail", options->tail, "Only the last lines, so many")
      ->type_name("LINES")
      ->check(not_negative());
  command.add_flag("--follow,-f", options->follow, "Goes on until the job has ended");
  add_place_options(command, options->place);
  command.footer(
      "The node keeps the newest 16 MiB.\nExamples:\n  pharos job logs nightly\n  pharos job logs nightly --tail 20 "
      "-f");
}

}  // namespace pharos::console
