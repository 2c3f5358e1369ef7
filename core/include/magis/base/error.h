// Three kinds of failure, kept apart: what the user gave is wrong (UserError), a rule does not
// apply (std::optional), and a bug of ours (MAGIS_CHECK).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace magis {

// The user's input is wrong. what() is the complete message, ready to be shown.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bug of ours; carries the condition, the place and the values.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& values);

}  // namespace magis

// MAGIS_CHECK(x < n, "x = " << x << ", n = " << n)
#define MAGIS_CHECK(condition, values)                                                 \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      std::ostringstream magis_check_stream;                                           \
      magis_check_stream << values;                                                    \
      ::magis::check_failed(#condition, __FILE__, __LINE__, magis_check_stream.str()); \
    }                                                                                  \
  } while (false)
