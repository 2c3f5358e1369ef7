// Everything the core knows about an operator, in one entry each. Adding an operator is adding an
// entry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/base/units.h"

namespace magis {

class Graph;
struct Operator;
struct AxisSignature;

enum class Purity : uint8_t {
  pure,      // same operands, same result: may be moved and recomputed
  random,    // draws from the generator: keeps its order among random operators, never recomputed
  mutating,  // writes to an operand that is an input: runs once, after every other reader
  view,      // owns no memory; folded into edges
  opaque,  // unknown: never recomputed, keeps its order among random operators, scheduled and freed
};
std::string_view to_text(Purity purity);

// How an operator is executed over the storage of one of its operands. There is an entry only where
// PyTorch's form gives the same bits and allocates nothing of the result's size
// (tests/python/test_op_table.py measures both).
struct InPlace {
  std::string spelling;  // operator to call, e.g. "aten.add_.Tensor"; empty: none
  std::string
      out_argument;  // keyword that receives the operand, for .out forms; empty for op_ forms
  // Positions of the arguments that may be overwritten; the first is preferred. An op_ form writes
  // to its first argument: a position p other than 0 means that the arguments 0 and p are swapped
  // (the operator commutes; never done when there are keyword arguments, which need not commute).
  // An .out form gets the arguments as they are, and the operand once more.
  std::vector<int> operands;
  // The kernel is not elementwise: no other operand may read the tensor that is overwritten, not
  // even as the same value.
  bool exclusive = false;
  // Not on a CPU in 16 bits: kernels there take memory of the result's size for themselves.
  bool wide_on_cpu = false;
};

struct OpInfo {
  std::string name;  // "aten.add.Tensor"; "aten.mm" for overload `default`
  Purity purity = Purity::opaque;
  InPlace in_place;
  // Floating point operations of one call; null: one per result element is not charged, the
  // operator is bound by bytes.
  double (*flops)(const Graph&, const Operator&) = nullptr;
  // Elements that matter for memory traffic are operands and results in full unless stated
  // otherwise.
  Bytes (*scratch)(const Graph&, const Operator&) = nullptr;
  std::vector<int> mutated;  // positions of the arguments written to, for Purity::mutating
  // Position of the argument (or keyword `dropout_p`) that makes a pure operator draw from the
  // generator when it is not 0; GraphBuilder then gives the operator random_form(info). -1: none.
  int dropout_argument = -1;
  // How the operator splits (graph/axes.h): a notation where it says everything
  // (core/src/graph/axes_builder.h explains it), or a function where attributes matter. Neither:
  // opaque to fission.
  std::string_view axes;
  std::optional<AxisSignature> (*axis_rule)(const Graph&, const Operator&) = nullptr;
};

// The entry for `name`, or an opaque one made (and kept) on first sight; an unknown operator that
// PyTorch's convention says writes to its first argument ("ns.op_", "ns.op_.overload") is mutating.
// Stable address, thread-safe.
const OpInfo& op_info(std::string_view name);
// Same name, Purity::random, not in place. Stable address. Requires info.dropout_argument >= 0.
const OpInfo& random_form(const OpInfo& info);
// All entries that are not opaque, by name.
std::vector<const OpInfo*> known_operators();
// One line: name, purity, and what else the entry says: "aten.relu pure in-place aten.relu_ over
// 0".
std::string to_text(const OpInfo& info);

}  // namespace magis
