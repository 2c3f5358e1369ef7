#include "magis/base/error.h"

namespace magis {

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::ostringstream message;
  message << file << ":" << line << ": check failed: " << condition;
  if (!values.empty()) message << " (" << values << ")";
  throw InternalError(message.str());
}

}  // namespace magis
