#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/base/overloaded.hpp>
#include <pharos/wire/message.hpp>

#include "head/records.hpp"

namespace pharos::node::head {

/// The records of an earlier head, sorted by what they are about. Points into the records, which have to outlive it. A
/// local variable of Head::restore(), which sets the misfits aside at its end.
struct FoundRecords {
  using Record = Records::Record;
  struct Actor {
    const wire::StartActor* making = nullptr;
    const wire::PromiseActor* promise = nullptr;
    const wire::ActorLife* life = nullptr;
    std::vector<const Record*> records{};
  };
  struct Group {
    const wire::PlaceGroup* place = nullptr;
    const wire::GroupPlaces* places = nullptr;
    std::vector<const Record*> records{};
  };

  std::vector<std::pair<const wire::JoinCluster*, const Record*>> nodes{};
  std::vector<std::pair<const wire::DrainNode*, const Record*>> drains{};
  std::vector<std::pair<const wire::RotateToken*, const Record*>> rotations{};
  std::vector<const wire::AddJob*> jobs{};
  std::vector<std::pair<const wire::StoredValue*, const Record*>> values{};
  std::vector<const wire::WriteOutcome*> outcomes{};
  std::map<GroupId, Group> groups{};
  std::map<ActorId, Actor> actors{};
  std::vector<const Record*> misfits{};  ///< records that do not fit the others, or are of no kind that a head writes

  explicit FoundRecords(const std::vector<Record>& records) {
    for (const Record& record : records) add(record);
  }
  void give_up(const std::vector<const Record*>& records) {
    misfits.insert(misfits.end(), records.begin(), records.end());
  }

 private:
  void add(const Record& record) {
    std::visit(Overloaded{
                   [&](const wire::JoinCluster& join) { nodes.emplace_back(&join, &record); },
                   [&](const wire::DrainNode& drain) { drains.emplace_back(&drain, &record); },
                   [&](const wire::RotateToken& rotated) { rotations.emplace_back(&rotated, &record); },
                   [&](const wire::AddJob& job) { jobs.push_back(&job); },
                   [&](const wire::StoredValue& value) { values.emplace_back(&value, &record); },
                   [&](const wire::WriteOutcome& outcome) { outcomes.push_back(&outcome); },
                   [&](const wire::PlaceGroup& place) { note(groups[place.group], record).place = &place; },
                   [&](const wire::GroupPlaces& places) { note(groups[places.group], record).places = &places; },
                   [&](const wire::StartActor& making) { note(actors[making.actor], record).making = &making; },
                   [&](const wire::PromiseActor& promise) { note(actors[promise.actor], record).promise = &promise; },
                   [&](const wire::ActorLife& life) { note(actors[life.actor], record).life = &life; },
                   [&](const auto&) { misfits.push_back(&record); },
               },
               record.second);
  }
  template <class Each>
  static Each& note(Each& each, const Record& record) {
    each.records.push_back(&record);
    return each;
  }
};

}  // namespace pharos::node::head
