#include <string>

#include <pharos/object_store/location.hpp>

namespace pharos::object_store {

Error lost(const Location& location, bool owner_has_ended) {
  const std::string gone = "object " + to_string(location.id) + " is gone: ";
  const std::string owner = "process " + to_string(location.owner);
  if (owner_has_ended) {
    return {ErrorCode::kOwnerDied, gone + "it belonged to " + owner + ", which has ended",
            "To keep an object after its owner ends, pass it to an actor, or return it as a result."};
  }
  return {ErrorCode::kObjectLost, gone + (location.owner ? owner + " has let go of it" : "nobody kept it"),
          "Create the object again, and keep a Ref to it as long as it is used."};
}

bool is_lost(const Error& error) {
  return error.code() == ErrorCode::kOwnerDied || error.code() == ErrorCode::kObjectLost;
}

}  // namespace pharos::object_store
