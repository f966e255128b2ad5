#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "actor_table_texts.hpp"

namespace pharos::scheduler {

/// By default the creator of an actor is caller 7, the driver of job 7.
class ActorTableTest : public testing::Test {
 protected:
  ActorSpec spec_with(std::int32_t max_restarts) {
    ActorSpec spec = spec_of(7);
    spec.max_restarts = max_restarts;
    return spec;
  }
  ActorSpec named(const std::string& name) {
    ActorSpec spec = spec_of(7);
    spec.name = name;
    spec.name_space = "lab";
    return spec;
  }
  ActorSpec detached() {
    ActorSpec spec = named("d");
    spec.detached = true;
    return spec;
  }

  Texts create(std::uint64_t request, std::uint64_t actor, const ActorSpec& spec, std::uint64_t creator = 7) {
    return texts(table_.create(ActorRequestId{request}, ActorId{actor}, spec, CallerId{creator}));
  }
  /// Returns the actor's number, or the error as text.
  std::string promise(std::uint64_t actor, const ActorSpec& spec, bool get_if_exists, std::uint64_t creator = 7) {
    const auto promised = table_.promise(ActorId{actor}, spec, get_if_exists, CallerId{creator});
    if (promised) return std::to_string(promised->value());
    return std::string{to_string(promised.error().code())} + ": " + promised.error().message();
  }
  Texts break_promise(std::uint64_t actor) {
    return texts(table_.break_promise(ActorId{actor}, {ErrorCode::kActorDied, "no arguments"}));
  }
  void create_alive(std::uint64_t actor, const ActorSpec& spec) {
    create(1000 + actor, actor, spec);
    started(actor, 1);
  }
  Texts connect(std::uint64_t request, std::uint64_t actor) {
    return texts(table_.connect(ActorRequestId{request}, ActorId{actor}));
  }
  Result<ActorId> find(const std::string& name, const std::string& type = "", std::uint64_t caller = 7) {
    return table_.find("lab", name, type, CallerId{caller});
  }
  Texts hold(std::uint64_t actor, std::uint64_t caller, std::int32_t count) {
    return texts(table_.hold(ActorId{actor}, CallerId{caller}, count));
  }
  Texts started(std::uint64_t actor, std::uint32_t incarnation) {
    return texts(table_.incarnation_started(ActorId{actor}, incarnation));
  }
  Texts constructor_failed(std::uint64_t actor, std::uint32_t incarnation) {
    return texts(table_.constructor_failed(ActorId{actor}, incarnation, {ErrorCode::kUserError, "no such file"}));
  }
  Texts ended(std::uint64_t actor, std::uint32_t incarnation, const std::string& reason = "it crashed") {
    return texts(table_.incarnation_ended(ActorId{actor}, incarnation, reason, now_));
  }
  Texts kill(std::uint64_t actor, const std::string& why = "") { return texts(table_.kill(ActorId{actor}, why)); }
  Texts caller_ended(std::uint64_t caller) { return texts(table_.caller_ended(CallerId{caller})); }
  Texts job_ended(std::uint64_t job) { return texts(table_.job_ended(JobId{job})); }
  Texts tick() { return texts(table_.tick(now_)); }

  /// Creates actor 5 and ends its first two incarnations, so that the third one waits for its backoff.
  void bring_to_restarting(const ActorSpec& spec) {
    create_alive(5, spec);
    ended(5, 1);
    ended(5, 2);
    ASSERT_EQ(table_.next_tick(), now_ + std::chrono::milliseconds{100});
  }

  TimePoint now_{std::chrono::hours{1}};
  ActorTable table_;
};

}  // namespace pharos::scheduler
