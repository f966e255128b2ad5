#include "launch/launch.hpp"

#include <unistd.h>

#include <charconv>
#include <utility>

#include "shared/meeting.hpp"

namespace pharos::ml {
namespace {

using Variable = std::function<std::optional<std::string>(const char* name)>;

/// The names of a launcher's variables.
struct Launcher {
  const char* rank;
  const char* ranks;
  const char* ranks_here;  ///< The number of ranks on this machine; nullptr if the launcher does not tell it.
};
// The launcher that is closest to this process comes first: mpirun may run inside a Slurm job. For Slurm the variables
// of the step count, since those of the job are also in the environment of the job's script, which is not a rank.
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr},
};
constexpr const char* kOfOneLaunch[] = {
    "MASTER_ADDR",  "MASTER_PORT",   "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE"};

Result<std::uint32_t> read_number(const Variable& variable, const char* name) {
  const auto text = variable(name);
  if (!text)
    return Error{ErrorCode::kInvalidArgument, "the environment variable " + std::string{name} + " is missing",
                 "Set this variable, too: launchers set the rank and the number of ranks together."};
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size()) {
    return Error{ErrorCode::kInvalidArgument, "the environment variable " + std::string{name} + " is \"" + *text +
                                                  "\", which is not a number from 0 to 4294967295"};
  }
  return number;
}

Result<bool> is_one_machine(const Variable& variable, const Launcher& launcher, std::uint32_t ranks) {
  if (launcher.ranks_here != nullptr && variable(launcher.ranks_here)) {
    PHAROS_TRY(const std::uint32_t here, read_number(variable, launcher.ranks_here));
    return here == ranks;
  }
  if (const auto nodes = variable("SLURM_STEP_NUM_NODES")) return *nodes == "1";
  const std::string master = variable("MASTER_ADDR").value_or("localhost");
  return master == "localhost" || master.starts_with("127.");
}

/// Returns the first host of a list as Slurm writes it: n03 of "n[03-17,20],m1".
std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find_first_of("[,");
  if (bracket == std::string::npos || list[bracket] == ',') return list.substr(0, bracket);
  const std::size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

/// Returns the port of rank 0; 0 if unknown. Where torchrun's agent listens at MASTER_PORT itself, it is the next port.
/// Under Slurm without MASTER_PORT it follows from the job's number.
Result<std::uint16_t> find_port(const Variable& variable) {
  constexpr std::uint32_t kFirst = 20'000;
  constexpr std::uint32_t kPorts = 10'000;
  std::uint32_t port = 0;
  if (variable("MASTER_PORT")) {
    PHAROS_TRY(port, read_number(variable, "MASTER_PORT"));
    if (variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") ++port;
  } else if (variable("SLURM_JOB_ID")) {
    PHAROS_TRY(const std::uint32_t job, read_number(variable, "SLURM_JOB_ID"));
    port = kFirst + job % kPorts;
  }
  if (port > 65'535) return Error{ErrorCode::kInvalidArgument, "there is no port " + std::to_string(port)};
  return static_cast<std::uint16_t>(port);
}

}  // namespace

Result<std::optional<Launch>> find_launch(const Variable& variable) {
  for (const Launcher& launcher : kLaunchers) {
    if (!variable(launcher.rank) || (launcher.ranks_here == nullptr && !variable(launcher.ranks))) continue;
    Launch launch;
    PHAROS_TRY(launch.rank, read_number(variable, launcher.rank));
    PHAROS_TRY(launch.ranks, read_number(variable, launcher.ranks));
    if (launch.rank >= launch.ranks || launch.ranks > Meeting::kRanksMax) {
      return Error{
          ErrorCode::kInvalidArgument,
          std::string{launcher.rank} + " is " + std::to_string(launch.rank) + " and " + launcher.ranks + " is " +
              std::to_string(launch.ranks),
          "A rank must be below the number of ranks, which is at most " + std::to_string(Meeting::kRanksMax) + '.'};
    }
    PHAROS_TRY(launch.one_machine, is_one_machine(variable, launcher, launch.ranks));
    for (const char* const name : kOfOneLaunch) {
      if (const auto value = variable(name)) launch.job += std::string{name} + '=' + *value + ' ';
    }
    if (launch.job.empty()) launch.job = "parent=" + std::to_string(::getppid());
    launch.master = variable("MASTER_ADDR").value_or(first_host(variable("SLURM_STEP_NODELIST").value_or("")));
    PHAROS_TRY(launch.port, find_port(variable));
    return launch;
  }
  return std::nullopt;
}

}  // namespace pharos::ml
