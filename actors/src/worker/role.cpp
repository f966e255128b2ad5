#include <optional>
#include <variant>

#include <pharos/base/export.hpp>
#include <pharos/base/log.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/zygote.hpp>

#include "program/function_table.hpp"
#include "worker/worker.hpp"

// The functions that the start object calls before main (runtime/process/src/start.cpp).
namespace pharos::detail {

namespace {
std::optional<process::Inherited> inherited;
}  // namespace

PHAROS_API bool started_in_a_role();
PHAROS_API int run_role();

bool started_in_a_role() {
  actors::fix_function_table();
  inherited = process::take_inherited();
  return inherited.has_value();
}

int run_role() {
  if (inherited->role == process::InheritedRole::kWorker) {
    auto crash = process::CrashPage::receive(std::move(inherited->crash));
    if (!crash) return 1;
    actors::run_worker(std::move(inherited->socket), *std::move(crash));
  }
  set_log_role("zygote");
  const auto functions = static_cast<std::uint32_t>(actors::function_table().size());
  auto outcome = process::run_zygote(std::move(inherited->socket), {functions, &actors::readable_name});
  if (auto* const worker = std::get_if<process::BecomeWorker>(&outcome)) {
    set_log_role("worker");
    actors::run_worker(std::move(worker->control), std::move(worker->crash));
  }
  return std::get<process::ZygoteEnded>(outcome).status;
}

}  // namespace pharos::detail
