#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/actors/runtime.hpp>

#include "program/cluster_nodes.hpp"
#include "program/driver.hpp"
#include "results/inherited_context.hpp"
#include "worker/running_call.hpp"
#include "worker/workplace.hpp"

namespace pharos {
namespace {

std::vector<std::string> split_paths(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    const std::string_view path = text.substr(0, text.find(':'));
    if (!path.empty()) paths.emplace_back(path);
    text.remove_prefix(std::min(path.size() + 1, text.size()));
  }
  return paths;
}

RuntimeOptions with_environment(RuntimeOptions options) {
  if (options.address.empty()) {
    if (const char* const address = std::getenv("PHAROS_ADDRESS")) options.address = address;
  }
  const char* const folds = std::getenv("PHAROS_FOLD_OUTPUT");
  if (folds != nullptr && std::string_view{folds} == "0") options.fold_output = false;
  if (const char* const with = std::getenv("PHAROS_WITH"); with != nullptr && options.with.empty()) {
    options.with = split_paths(with);
  }
  const char* const libtorch = std::getenv("PHAROS_WITH_LIBTORCH");
  if (libtorch != nullptr && std::string_view{libtorch} == "1") options.with_libtorch = true;
  return options;
}

RuntimeOptions with_arguments(int argc, char** argv, RuntimeOptions options) {
  const auto take = [](std::string_view argument, std::string_view name, std::string& to) {
    if (argument.starts_with(name)) to = argument.substr(name.size());
  };
  for (int i = 1; i < argc; ++i) {
    take(argv[i], "--pharos-address=", options.address);
    take(argv[i], "--pharos-token-file=", options.token_file);
    take(argv[i], "--pharos-listen=", options.listen);
  }
  return options;
}

}  // namespace

Runtime::Runtime(const RuntimeOptions& options) {
  if (auto of_worker = detail::caller_of_worker(); of_worker != nullptr && !of_worker->abandoned()) {
    caller_ = std::move(of_worker);
    return;
  }
  auto driver = detail::Driver::start(with_environment(options));
  if (!driver) throw_error(std::move(driver).error());
  driver_ = *std::move(driver);
  caller_ = driver_->caller();
}

Runtime::Runtime(int argc, char** argv, const RuntimeOptions& options) : Runtime(with_arguments(argc, argv, options)) {}

Runtime::Runtime(Runtime&&) noexcept = default;

Runtime& Runtime::operator=(Runtime&& other) noexcept {
  std::swap(caller_, other.caller_);
  std::swap(driver_, other.driver_);
  return *this;
}

Runtime::~Runtime() {
  if (driver_ == nullptr) return;
  if (caller_->abandoned()) {
    // This process is a child of fork(): the threads and the cluster are the parent's. The Driver cannot be destroyed
    // here, so it is leaked.
    new std::shared_ptr<detail::Driver>{driver_};
    return;
  }
  driver_->stop();
}

detail::CellHandle Runtime::put_encoded(const Encoder& value) {
  return caller_->put(value);
}

PlacementGroup Runtime::reserve(const GroupOptions& options) {
  return PlacementGroup{caller_->reserve(options)};
}

detail::CellHandle Runtime::submit_encoded(const TaskOptions& options, const detail::RegisteredFunction& function,
                                           detail::Arguments& arguments) {
  detail::CellHandle cell = caller_->submit(options, function, arguments);
  arguments.let_go();
  return cell;
}

std::shared_ptr<detail::ActorHandle> Runtime::spawn_encoded(const ActorOptions& options, const char* type_name,
                                                            const detail::RegisteredFunction& constructor,
                                                            detail::Arguments& arguments) {
  auto actor = caller_->actors().spawn(options, type_name, constructor, arguments);
  arguments.let_go();
  return actor;
}

std::shared_ptr<detail::ActorHandle> Runtime::find_actor(const std::string& name, const std::string& name_space,
                                                         const char* type_name) {
  auto actor = caller_->actors().find(name, name_space, type_name);
  if (!actor) throw_error(std::move(actor).error());
  return *std::move(actor);
}

std::vector<ClusterNode> Runtime::nodes() const {
  auto nodes = actors::ask_for_nodes(caller_->line());
  if (!nodes) throw_error(std::move(nodes).error());
  return *std::move(nodes);
}

ClusterResources Runtime::resources() const {
  ClusterResources all;
  for (const ClusterNode& each : nodes()) {
    if (each.state != ClusterNode::State::kAlive) continue;
    for (const auto& [name, amount] : each.resources.has) all.has[name] += amount;
    for (const auto& [name, amount] : each.resources.in_use) all.in_use[name] += amount;
  }
  return all;
}

void Runtime::listen_to_output(const std::shared_ptr<const OutputListener>& listener) {
  if (driver_ != nullptr) driver_->listen_to_output(listener);
}

JobId Runtime::job() const {
  return caller_->job();
}
std::string Runtime::address() const {
  return caller_->address();
}

bool cancelled() {
  const auto* const running = actors::RunningCall::of_this_thread();
  return running != nullptr && running->cancelled();
}

bool stopping() {
  const auto* const running = actors::RunningCall::of_this_thread();
  return running != nullptr && running->stopping();
}

void exit_actor() {
  auto* const running = actors::RunningCall::of_this_thread();
  const Result<void> done = running != nullptr ? running->exit_actor()
                                               : Error{ErrorCode::kFailedPrecondition,
                                                       "exit_actor() was called outside of an actor's methods"};
  if (!done) throw_error(done.error());
}

Context context() {
  Context context;
  if (const auto* const running = actors::RunningCall::of_this_thread()) {
    context = running->context();
  } else if (const auto home = detail::Caller::home_of_newest()) {
    context.job = home->job;
    context.node = home->node;
    context.name_space = to_string(context.job);
    if (auto of_actor = actors::Workplace::context_of_process()) context = *std::move(of_actor);
    if (const auto inherited = actors::InheritedContext::of_this_thread()) {
      context.trace = inherited->trace;
      context.deadline = inherited->deadline;
    }
  }
  return context;
}

}  // namespace pharos
