#include "head/actors/actor_maker.hpp"

#include <utility>

#include "head/head_keys.hpp"
#include "node/demands.hpp"

namespace pharos::node::head {
namespace {

template <class Wanted>
Result<void> check_names(const Wanted& actor) {
  PHAROS_TRY_VOID(scheduler::check_name(actor.name));
  return scheduler::check_name(actor.name_space);
}

}  // namespace

bool ActorMaker::promise(NodeId from, const wire::PromiseActor& promise, const JobTable& jobs) {
  const auto refuse = [&](Error why) {
    events_.tell(from, wire::Refused{promise.asker.number, std::move(why)});
    return false;
  };
  if (auto sane = check_names(promise); !sane) return refuse(std::move(sane).error());
  const bool is_new = actors_.look_at(promise.actor) == nullptr;  // else an earlier head has promised it
  auto promised = actors_.promise(promise.actor, spec_of(promise), promise.get_if_exists, promise.asker.caller);
  if (!promised) return refuse(std::move(promised).error());
  const scheduler::ActorSpec& spec = actors_.look_at(*promised)->spec;
  if (auto same = jobs.check_build(promise.asker.job, spec.job, promise.name); !same) {
    effects_.apply(actors_.hold(*promised, promise.asker.caller, -1));
    return refuse(std::move(same).error());
  }
  if (is_new && *promised == promise.actor) events_.put(actor_key(promise.actor), promise);
  events_.tell(from, wire::ActorFound{*promised, spec.label, promise.asker.number});
  return true;
}

bool ActorMaker::start(NodeId from, wire::StartActor start) {
  const auto refuse = [&](Error why) {
    events_.tell(from, wire::Refused{start.asker.number, std::move(why)});
    return false;
  };
  if (auto sane = check_names(start); !sane) return refuse(std::move(sane).error());
  if (auto sane = checked(start.demand); !sane) return refuse(std::move(sane).error());
  if (!groups_.may_use(start.demand, start.asker.job)) {
    if (!recovery_.is_under_way()) return refuse({ErrorCode::kNotFound, "its group was removed"});
    recovery_.put_off(from, std::move(start));
    return false;
  }
  const ActorId actor = start.actor;
  const scheduler::ActorSpec spec = spec_of(start);
  const CallerId creator = start.asker.caller;
  const auto request = connections_.expect_answer(from, start.asker);
  places_.keep_making(actor, std::move(start));
  effects_.apply(actors_.create(request, actor, spec, creator));
  return true;
}

void ActorMaker::break_promise(const wire::BreakPromise& broken) {
  const auto* const state = actors_.look_at(broken.actor);
  if (state != nullptr && state->spec.job == broken.asker.job) {
    effects_.apply(actors_.break_promise(broken.actor, broken.why));
  }
}

}  // namespace pharos::node::head
