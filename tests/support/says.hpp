#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <typeinfo>

namespace pharos {

/// Runs `call`, which must throw exactly an E, and returns the message of the exception.
template <class E, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& e) {
    EXPECT_STREQ(typeid(e).name(), typeid(E).name()) << e.what();
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "threw " << typeid(e).name() << " instead of " << typeid(E).name() << ": " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "threw nothing instead of " << typeid(E).name();
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace pharos

/// Expects that `text` contains `part`.
#define EXPECT_SAYS(text, part) \
  EXPECT_NE(std::string{text}.find(part), std::string::npos) << "\"" << (part) << "\" is not in \"" << (text) << "\""
