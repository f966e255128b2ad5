// Where a thread encodes its next call, so that a call allocates nothing for it.

#include <memory>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/base/thread_local.hpp>

#include "caller.hpp"

namespace pharos::detail {
namespace {

/// Where this thread's large arguments and values go: into the store of whoever calls.
class CallersRoom final : public actors::ObjectRoom {
 public:
  void serve(const ActorHandle& actor) {
    actor_ = &actor;
    caller_ = nullptr;
  }
  void serve(Caller& caller) { caller_ = &caller; }

 private:
  std::shared_ptr<actors::LargeValues> values() override {
    return caller_ != nullptr ? caller_->large_values().shared_from_this() : actor_->large_values();
  }
  const ActorHandle* actor_ = nullptr;
  Caller* caller_ = nullptr;
};

struct Scratch {
  Scratch() { arguments.bytes.set_large_room(&room); }
  CallersRoom room;
  Arguments arguments;
};
// Found without a call, unlike what a thread_local of a class is.
PHAROS_THREAD_LOCAL Scratch* scratch = nullptr;

/// This thread's next arguments.
Scratch& cleared_scratch() {
  if (scratch == nullptr) [[unlikely]] {
    thread_local Scratch of_this_thread;
    scratch = &of_this_thread;
  }
  scratch->arguments.clear();
  return *scratch;
}

}  // namespace

Arguments& scratch_arguments(const ActorHandle& actor) {
  Scratch& of_this_thread = cleared_scratch();
  of_this_thread.room.serve(actor);
  return of_this_thread.arguments;
}
Arguments& scratch_arguments(Caller& caller) {
  Scratch& of_this_thread = cleared_scratch();
  of_this_thread.room.serve(caller);
  return of_this_thread.arguments;
}
Encoder& scratch_value(Caller& caller) {
  thread_local CallersRoom room;
  thread_local CodecContext context;
  thread_local Encoder value;
  room.serve(caller);
  value.clear();
  value.set_large_room(&room);
  value.set_context(&context);
  return value;
}

}  // namespace pharos::detail
