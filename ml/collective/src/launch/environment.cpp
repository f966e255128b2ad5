#include <arpa/inet.h>
#include <netdb.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>

#include "launch/launch.hpp"
#include "launch/offer.hpp"
#include "launch/rendezvous.hpp"

namespace pharos::ml {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

/// A short name for a job on this machine: its hash.
std::string short_name(const std::string& job) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char each : job) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return std::to_string(hash);
}

/// Returns the host's address as numeric IPv4.
Result<std::string> address_of(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int why = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found); why != 0) {
    return Error{ErrorCode::kNotFound, "the host \"" + host + "\" of rank 0 cannot be resolved: " + ::gai_strerror(why),
                 "Set MASTER_ADDR to a name or an address that all ranks can resolve."};
  }
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr, text, sizeof text);
  ::freeaddrinfo(found);
  return text;
}

Result<MeetingPlace> place_of(const Launch& launch) {
  if (launch.one_machine) {
    PHAROS_TRY(const std::string folder, process::ensure_base_folder());
    return MeetingPlace{.address = {.unix_socket = true, .place = folder + "/ranks-" + short_name(launch.job)}};
  }
  const auto token_file = variable("PHAROS_TOKEN_FILE");
  if (launch.master.empty() || launch.port == 0 || !token_file) {
    return Error{ErrorCode::kFailedPrecondition,
                 "ranks on several machines need the address of rank 0, and a token that all ranks have",
                 "Set MASTER_ADDR and MASTER_PORT to the address where rank 0 listens, and PHAROS_TOKEN_FILE to a file "
                 "of 32 bytes and mode 0600 that all ranks have."};
  }
  MeetingPlace place;
  PHAROS_TRY(const std::string host, address_of(launch.master));
  place.address = {.unix_socket = false, .place = host, .port = launch.port};
  PHAROS_TRY(place.token, process::read_token(*token_file));
  return place;
}

Result<std::unique_ptr<detail::Backend>> join(const Launch& launch, const CommunicatorOptions& options) {
  std::optional<Offered> own;
  const auto make = [&](const std::string& host) -> Result<detail::RankOffer> {
    PHAROS_TRY(own, Offered::make(launch.ranks, host, options));
    return own->offer();
  };
  PHAROS_TRY(const MeetingPlace place, place_of(launch));
  PHAROS_TRY(const Met met, meet_at(place, launch.rank, launch.ranks, make, Deadline::in(options.timeout)));
  return own->work_together(met.offers, met.key, launch.rank, options);
}

}  // namespace

Communicator Communicator::from_environment(const CommunicatorOptions& options) {
  const auto launch = find_launch(variable);
  if (!launch) throw_error(Error{launch.error()}.with("reading the launcher's environment"));
  if (!*launch || (*launch)->ranks == 1) return alone();
  auto backend = join(**launch, options);
  if (!backend) throw_error(std::move(backend).error());
  return Communicator{std::make_shared<detail::Core>(*std::move(backend), options)};
}

}  // namespace pharos::ml
