// Each thread keeps the encoders for its next call, so that a call allocates no memory for its arguments.

#include <memory>
#include <string>
#include <utility>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/runtime.hpp>

#include "caller/caller.hpp"
#include "program/function_table.hpp"
#include "program/thread_state.hpp"
#include "results/large_values.hpp"

namespace pharos::detail {
namespace {

/// The room for this thread's large arguments and values: in the object store of the caller that it serves.
class CallersRoom final : public actors::ObjectRoom {
 public:
  /// `arguments`: the context of a call's arguments, which may refer to bytes that lie in the store already. Null for
  /// the room of values.
  explicit CallersRoom(CodecContext* arguments = nullptr) : arguments_{arguments} {}

  void serve(const ActorHandle& actor, const RegisteredFunction& function) {
    actor_ = &actor;
    caller_ = nullptr;
    function_ = &function;
  }
  void serve(Caller& caller, const RegisteredFunction& function) {
    caller_ = &caller;
    function_ = &function;
  }
  void serve(Caller& caller, CallSite site) {
    caller_ = &caller;
    site_ = site;
  }

 private:
  bool has(const Bytes& bytes, std::size_t at) override {
    if (arguments_ == nullptr) return false;
    const auto there = values();
    auto object = there == nullptr ? nullptr : there->object_with(bytes.span());
    if (object == nullptr) return false;
    arguments_->placeholders.push_back(
        {.what = Placeholder::kObject, .offset = at, .begin = object->offset_of(bytes.span()), .size = bytes.size()});
    arguments_->placeholders.back().object = std::move(object);
    return true;
  }
  std::shared_ptr<actors::LargeValues> values() override {
    return caller_ != nullptr ? caller_->large_values().shared_from_this() : actor_->large_values();
  }
  std::string label() const override {
    return function_ == nullptr ? actors::label_of("put", site_)
                                : "argument of " + actors::readable_name(function_->function.name());
  }
  CodecContext* const arguments_;
  const ActorHandle* actor_ = nullptr;
  Caller* caller_ = nullptr;
  const RegisteredFunction* function_ = nullptr;  // null: a value is put
  CallSite site_;
};

}  // namespace
}  // namespace pharos::detail

namespace pharos::actors {

struct Scratch {
  Scratch() {
    arguments.bytes.set_large_room(&room);
    value.set_large_room(&value_room);
    value.set_context(&value_context);
  }
  detail::Arguments arguments;
  detail::CallersRoom room{&arguments.context};

  detail::CallersRoom value_room;
  CodecContext value_context;
  Encoder value;
};

void end_thread(ThreadState& state) {
  delete std::exchange(state.scratch, nullptr);
}

}  // namespace pharos::actors

namespace pharos::detail {
namespace {

actors::Scratch& own_scratch() {
  if (actors::this_thread.scratch == nullptr) [[unlikely]] {
    struct End {
      ~End() { actors::end_thread(actors::this_thread); }
    };
    thread_local const End end;
    static_cast<void>(end);
    actors::this_thread.scratch = new actors::Scratch;
  }
  return *actors::this_thread.scratch;
}

}  // namespace

Arguments& scratch_arguments(const ActorHandle& actor, const RegisteredFunction& function) {
  actors::Scratch& scratch = own_scratch();
  scratch.arguments.clear();
  scratch.room.serve(actor, function);
  return scratch.arguments;
}
Arguments& scratch_arguments(Caller& caller, const RegisteredFunction& function) {
  actors::Scratch& scratch = own_scratch();
  scratch.arguments.clear();
  scratch.room.serve(caller, function);
  return scratch.arguments;
}
Encoder& scratch_value(Caller& caller, CallSite site) {
  actors::Scratch& scratch = own_scratch();
  scratch.value_room.serve(caller, site);
  return scratch.value;
}

}  // namespace pharos::detail
