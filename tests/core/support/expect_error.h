// Messages are asserted verbatim: what a user reads is part of the behaviour.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "magis/base/error.h"

namespace magis::test {

// The message of the Error that `run` throws; a failure of the test if it throws none.
template <class Error, class Run>
std::string message_of(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace magis::test
