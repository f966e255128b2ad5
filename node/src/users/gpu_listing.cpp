#include "users/gpu_listing.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <pharos/async/completion.hpp>

#include "head/rows.hpp"
#include "node/descriptions.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kDriverTime = 5s;

/// What the driver says. Shared with the thread that asks it, which may take longer than kDriverTime.
struct Look {
  std::vector<Gpu> gpus;
  async::Completion<void> done;
};

std::string bytes_or_empty(ByteCount bytes) {
  return bytes == ByteCount{} ? "" : to_string(bytes);
}

}  // namespace

async::Async<void> GpuListing::list(std::shared_ptr<net::Peer> from, wire::ListRows asked, std::uint64_t request) {
  if (!under_way_.expired()) {
    from->respond(request, Error{ErrorCode::kOverloaded, "NVIDIA's driver has not answered an earlier question",
                                 "Try again. If that does not help, look at nvidia-smi on that machine."});
    co_return;
  }
  const auto look = std::make_shared<Look>();
  under_way_ = look;
  const auto ask_driver = [look] {
    auto found = find_gpus();
    if (found) look->gpus = *std::move(found);  // without a driver only declared GPUs are listed
  };
  site_.host.run_blocking(ask_driver, [look] { look->done.complete(); });
  const auto looked = co_await look->done.wait(async::Deadline::after(kDriverTime, site_.executor.now()));
  if (!looked && looked.error().code() == ErrorCode::kCancelled) co_return;
  if (!looked) {
    from->respond(request, Error{looked.error()}.with("asking NVIDIA's driver for the GPUs"));
    co_return;
  }
  auto rows = select_rows(rows_of(look->gpus), asked);
  if (rows) {
    from->respond(request, *std::move(rows));
  } else {
    from->respond(request, std::move(rows).error());
  }
}

wire::Rows GpuListing::rows_of(const std::vector<Gpu>& gpus) const {
  wire::Rows all{{"node", "gpu", "type", "busy", "memory", "in_use", "used_by"}, {}, 0, 0};
  for (const std::string& name : site_.settings.machine.gpus) {
    const Gpu* const gpu = find_gpu(gpus, name);
    const Gpu told = gpu == nullptr ? Gpu{} : *gpu;
    all.rows.push_back({to_string(site_.settings.id), name, told.type,
                        told.busy_percent ? std::to_string(*told.busy_percent) + "%" : "", bytes_or_empty(told.memory),
                        bytes_or_empty(told.used), listed(holders_of(name, gpu))});
  }
  return all;
}

/// The workers that have reserved the GPU, and other processes that use it.
std::vector<std::string> GpuListing::holders_of(const std::string& name, const Gpu* gpu) const {
  std::vector<GpuProcess> processes = gpu == nullptr ? std::vector<GpuProcess>{} : gpu->processes;
  std::vector<std::string> holders;
  for (const auto& [id, worker] : workers_.all()) {
    if (std::find(worker->gpus.begin(), worker->gpus.end(), name) == worker->gpus.end()) continue;
    const pid_t pid = worker->process.pid;
    std::string holder = worker->label + " (pid " + std::to_string(pid) + ")";
    const auto its =
        std::find_if(processes.begin(), processes.end(), [&](const auto& each) { return each.pid == pid; });
    if (its != processes.end()) {
      holder += its->memory == ByteCount{} ? "" : " " + to_string(its->memory);
      processes.erase(its);
    }
    holders.push_back(std::move(holder));
  }
  std::sort(holders.begin(), holders.end());
  for (const auto& [pid, memory] : processes) {
    holders.push_back("pid " + std::to_string(pid) + ", no worker of this node, " + to_string(memory));
  }
  return holders;
}

}  // namespace pharos::node
