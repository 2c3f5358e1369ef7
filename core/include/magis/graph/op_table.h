// Everything the core knows about an operator, in one entry each. Adding an operator is adding an entry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "magis/base/units.h"

namespace magis {

class Graph;
struct Operator;

enum class Purity : uint8_t {
  pure,      // same operands, same result: may be moved and recomputed
  random,    // draws from the generator: keeps its order among random operators, never recomputed
  mutating,  // writes to an operand that is an input: runs once, after every other reader
  view,      // owns no memory; folded into edges
  opaque,    // unknown: never recomputed, still scheduled and freed
};

// How an operator is executed over the storage of one of its operands.
struct InPlace {
  std::string_view spelling;      // operator to call, e.g. "aten.add_.Tensor"; empty: none
  std::string_view out_argument;  // keyword that receives the operand, for .out forms; empty for op_ forms
  std::vector<int> operands;      // positions of the arguments that may be overwritten; the first is preferred.
                                  // A position other than 0 means that the arguments 0 and p are swapped (commutative).
};

struct OpInfo {
  std::string name;  // "aten.add.Tensor"; "aten.mm" for overload `default`
  Purity purity = Purity::opaque;
  InPlace in_place;
  // Floating point operations of one call; null: one per result element is not charged, the operator is bound by bytes.
  double (*flops)(const Graph&, const Operator&) = nullptr;
  // Elements that matter for memory traffic are operands and results in full unless stated otherwise.
  Bytes (*scratch)(const Graph&, const Operator&) = nullptr;
  std::vector<int> mutated;  // positions of the arguments written to, for Purity::mutating
};

// The entry for `name`, or an opaque one made (and kept) on first sight. Stable address, thread-safe.
const OpInfo& op_info(std::string_view name);
// All entries that are not opaque, by name.
std::vector<const OpInfo*> known_operators();

}  // namespace magis
