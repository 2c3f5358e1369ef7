// The size of base64 data; what is in it matters to PyTorch only.
#pragma once

#include <optional>
#include <string_view>

#include "magis/base/units.h"

namespace magis {

// Bytes that `text` decodes to; nothing if it is not base64 with padding.
std::optional<Bytes> base64_decoded_size(std::string_view text);

}  // namespace magis
