#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/process/run_folder.hpp>

#include "core.hpp"
#include "launch.hpp"
#include "offer.hpp"
#include "rendezvous.hpp"

namespace pharos::ml {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

/// A name of bounded length for a job on this machine.
std::string short_name(const std::string& job) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char each : job) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return std::to_string(hash);
}

Result<std::unique_ptr<detail::Backend>> join(const Launch& launch, Duration time) {
  if (!launch.one_machine) {
    return Error{ErrorCode::kUnsupported, "ranks on several machines cannot work together yet",
                 "Launch all of them on one."};
  }
  const Deadline deadline = Deadline::in(time);
  PHAROS_TRY(const Offered own, Offered::make(launch.ranks));
  PHAROS_TRY(const std::string folder, process::ensure_base_folder());
  const net::Address place{.unix_socket = true, .place = folder + "/ranks-" + short_name(launch.job)};
  PHAROS_TRY(const auto offers, meet_at(place, launch.rank, launch.ranks, own.offer(), deadline));
  return own.work_together(offers, {}, launch.rank, time);  // of one machine: no key
}

}  // namespace

Communicator Communicator::from_environment(const CommunicatorOptions& options) {
  const auto launch = find_launch(variable);
  if (!launch) throw_error(Error{launch.error()}.with("reading the launcher's environment"));
  if (!*launch || (*launch)->ranks == 1) return alone();
  auto backend = join(**launch, options.timeout);
  if (!backend) throw_error(std::move(backend).error());
  return Communicator{std::make_shared<detail::Core>(*std::move(backend), options)};
}

}  // namespace pharos::ml
