#include "magis/graph/graph.h"

#include <array>

namespace magis {

std::string_view to_text(InputKind kind) {
  static constexpr std::array<std::string_view, 7> kNames = {"param", "buffer", "batch", "const",
                                                             "state", "grad",   "scalar"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_text(OutputKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"loss",   "aux",   "grad",
                                                             "buffer", "param", "state"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<int64_t> integer_value(const Arg& arg) {
  if (const auto* number = std::get_if<int64_t>(&arg.value)) return *number;
  if (const auto* length = std::get_if<PartLength>(&arg.value)) return length->value;
  return std::nullopt;
}

}  // namespace magis
